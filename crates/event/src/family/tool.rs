//! `tool.*`: the life of a call, the same for every tool.

use crate::family::{part, payload, words};
use crate::{ForeignId, Json};

words! {
    /// Who executes a tool.
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

    /// The risk of a call.
    RiskLevel { Low = "low", Medium = "medium", High = "high" }

    /// How far an approval applies beyond the one call, as `scope` says. Without one of these it applies `once`.
    AllowanceScope { Run = "run", Session = "session", Workspace = "workspace" }

    /// The status of one item of a todo list.
    TodoStatus { Pending = "pending", InProgress = "in_progress", Completed = "completed" }
}

part! {
    /// One item of a todo list.
    Todo {
        content: String,
        /// The status of the item.
        status: TodoStatus,
    } {}
}

payload! {
    /// A proposed call was refused and will not run.
    Refused {
        tool_call_id: ForeignId,
        tool_name: String,
        /// The reason for the refusal.
        code: RefusalCode,
        /// The text that the model got.
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
        /// The allowance that permitted the call without an approval.
        allowance_id: ForeignId,
        /// The scope of that allowance.
        allowance_scope: AllowanceScope,
        /// Who gave the allowance.
        allowed_by: String,
    }

    /// The execution started.
    Started { tool_call_id: ForeignId, tool_name: String } { kind: String, turn_index: u64 }

    /// The call ended; the type says whether it completed, failed, was cancelled or timed out.
    Ended { tool_call_id: ForeignId, tool_name: String } {
        kind: String,
        turn_index: u64,
        duration_ms: u64,
        /// One line for people.
        summary: String,
        /// The error, for people.
        error: String,
        /// The error code: stable, lower case.
        code: String,
        /// Text or content blocks, exactly as the model got them.
        output: Json,
        /// The artifact with the complete output, if `output` has only its beginning.
        result_artifact_id: ForeignId,
        /// Whether the command was interrupted before its exit was recorded; output after its last chunk may be
        /// missing.
        output_incomplete: bool,
        mcp_server: String,
        mcp_tool: String,
        /// For MCP: `dispatched`, `tool_error`, `failed` or `blocked`.
        result: String,
    }

    /// The todo list was replaced.
    TodoWriteUpdated { tool_call_id: ForeignId, todos: Vec<Todo> } { tool_name: String }
}
