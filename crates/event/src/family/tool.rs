//! `tool.*`: the life of a call, the same for every tool.

use crate::family::{part, payload, words};
use crate::{ForeignId, Json};

words! {
    /// Who runs a tool.
    Executor { Server = "server", Client = "client" }

    /// Why a proposed call was not run.
    RefusalCode {
        Denied = "denied",
        TimedOut = "timed_out",
        Blocked = "blocked",
        Unavailable = "unavailable",
        UnknownTool = "unknown_tool",
        InvalidInput = "invalid_input",
        Budget = "budget",
        Cancelled = "cancelled",
    }

    /// How much harm a call can do.
    RiskLevel { Low = "low", Medium = "medium", High = "high" }

    /// How far a yes reaches beyond the one call, as `scope` says it. Without one of these it is `once`.
    AllowanceScope { Run = "run", Session = "session", Workspace = "workspace" }

    /// The state of one thing to do.
    TodoStatus { Pending = "pending", InProgress = "in_progress", Completed = "completed" }
}

part! {
    /// One thing to do.
    Todo {
        content: String,
        /// How far it is.
        status: TodoStatus,
    } {}
}

payload! {
    /// A proposed call will not run.
    Refused {
        tool_call_id: ForeignId,
        tool_name: String,
        /// Why it will not run.
        code: RefusalCode,
        /// What the model was told.
        message: String,
    } {}

    /// The call was accepted and is about to run. Written before the side effect.
    Invoked { tool_call_id: ForeignId, tool_name: String } {
        kind: String,
        turn_index: u64,
        executor: Executor,
        risk_level: RiskLevel,
        irreversible: bool,
        args_summary: String,
        mcp_server: String,
        mcp_tool: String,
        /// The allowance by which nobody was asked.
        allowance_id: ForeignId,
        /// How far that allowance reaches.
        allowance_scope: AllowanceScope,
        /// Who gave it.
        allowed_by: String,
    }

    /// Execution began.
    Started { tool_call_id: ForeignId, tool_name: String } { kind: String, turn_index: u64 }

    /// The call ended: well, badly, cut by somebody, or out of time. The type says which.
    Ended { tool_call_id: ForeignId, tool_name: String } {
        kind: String,
        turn_index: u64,
        duration_ms: u64,
        /// One line for people.
        summary: String,
        /// What went wrong, for people.
        error: String,
        /// What went wrong, stable and lower case.
        code: String,
        /// Text or content blocks, exactly as the model was told.
        output: Json,
        /// Where the whole output is when `output` holds only its head.
        result_artifact_id: ForeignId,
        /// Whether a command was cut off before its exit was recorded: output after its last chunk may be missing.
        output_incomplete: bool,
        mcp_server: String,
        mcp_tool: String,
        /// For MCP: `dispatched`, `tool_error`, `failed` or `blocked`.
        result: String,
    }

    /// The list of things to do, replaced as a whole.
    TodoWriteUpdated { tool_call_id: ForeignId, todos: Vec<Todo> } { tool_name: String }
}
