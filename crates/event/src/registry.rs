//! The registry: every event type, in one table.
//!
//! From this table come the [`Payload`] enum, the reference page ([`reference`]), the JSON Schemas
//! ([`schema`]) and the file that freezes what was released ([`lock`]).
//! A row has, for every protocol, what that protocol shows of the type; "silent" is a valid entry.
//! To add a type: a struct in its family's file, a row here, a fixture in `testdata/events/`.

pub mod emitted;
pub mod form;
pub mod lock;
mod page;
pub mod schema;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::family::{
    approval, artifact, assistant, clarification, context, cost, error, fault, file, gap, handoff, policy,
    run, search, shell, tool, turn, user, web, workspace,
};
use crate::limits;

pub use page::reference;

/// How settled a type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Every front end may rely on it.
    Core,
    /// Depends on artifact storage.
    Artifact,
    /// Behind a flag, off by default.
    Experimental,
    /// Accepted and shown, no longer written by us.
    Deprecated,
}

/// Who may append a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Appender {
    /// Only this server.
    Runtime,
    /// This server, and a program that drives an external run.
    Producer,
    /// Any client that may ingest.
    Anyone,
}

/// One row of the registry.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub type_name: &'static str,
    pub status: Status,
    pub appender: Appender,
    /// What AAP sends for the type.
    pub aap: &'static str,
    /// What AAEP sends for the type.
    pub aaep: &'static str,
    /// The schema of `data` as readers take it.
    pub schema: fn() -> Schema,
    /// The schema of `data` as we write it: here `required` means always there.
    pub schema_written: fn() -> Schema,
}

impl Row {
    /// The part of the type's name before the first dot.
    pub fn group(&self) -> &'static str {
        self.type_name.split('.').next().unwrap_or(self.type_name)
    }
}

impl Status {
    pub const ALL: [Status; 4] = [Status::Core, Status::Artifact, Status::Experimental, Status::Deprecated];

    pub fn parse(word: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Core => "core",
            Status::Artifact => "artifact",
            Status::Experimental => "experimental",
            Status::Deprecated => "deprecated",
        }
    }
}

impl Appender {
    pub const ALL: [Appender; 3] = [Appender::Runtime, Appender::Producer, Appender::Anyone];

    pub fn parse(word: &str) -> Option<Appender> {
        Appender::ALL.into_iter().find(|appender| appender.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Appender::Runtime => "runtime",
            Appender::Producer => "producer",
            Appender::Anyone => "anyone",
        }
    }
}

/// Why a payload could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    #[error("{0:?} is not an event type: use dotted lower-case words such as tool.invoked")]
    TypeMalformed(String),
    #[error("the data of {type_name} is invalid: {reason}")]
    DataMalformed { type_name: String, reason: String },
}

/// An event type from outside the registry, or from a release after this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    pub type_name: Box<str>,
    pub data: Box<str>,
}

macro_rules! registry {
    ($( $variant:ident($payload:ty) = $name:literal, $status:ident, $appender:ident, aap $aap:literal, aaep $aaep:literal; )*) => {
        /// The data of an event. One variant for each registered type, and one for all others.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Payload {
            $( $variant(Box<$payload>), )*
            /// `ext.*` and whatever a later release wrote: kept, passed on, not understood.
            Opaque(Opaque),
        }

        /// All rows, in the order of the reference page. A static, because each crate that used a constant would compile all
        /// schemas once more.
        pub static TABLE: &[Row] = &[$(
            Row {
                type_name: $name,
                status: Status::$status,
                appender: Appender::$appender,
                aap: $aap,
                aaep: $aaep,
                schema: || SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<$payload>(),
                schema_written: || {
                    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<$payload>()
                },
            },
        )*];

        impl Payload {
            pub fn type_name(&self) -> &str {
                match self {
                    $( Payload::$variant(_) => $name, )*
                    Payload::Opaque(opaque) => &opaque.type_name,
                }
            }

            /// Reads `data` as the named type. Unknown types become [`Payload::Opaque`].
            /// `data` must be an object: no type has any other, and a derived reader would take a list.
            pub fn read(type_name: &str, data: &str) -> Result<Payload, PayloadError> {
                if !data.trim_start().starts_with('{') {
                    return Err(PayloadError::DataMalformed {
                        type_name: type_name.chars().take(limits::TYPE_NAME_BYTES_MAX).collect(),
                        reason: "data must be an object".into(),
                    });
                }
                match type_name {
                    $( $name => match serde_json::from_str::<$payload>(data) {
                        Ok(payload) => Ok(Payload::$variant(Box::new(payload))),
                        Err(why) => Err(PayloadError::DataMalformed {
                            type_name: type_name.to_owned(),
                            reason: fault::explain::<$payload>(data, &why),
                        }),
                    }, )*
                    _ if is_type_name(type_name) => Ok(Payload::Opaque(Opaque {
                        type_name: type_name.into(),
                        data: data.into(),
                    })),
                    _ => Err(PayloadError::TypeMalformed(type_name.chars().take(120).collect())),
                }
            }

            /// What is beyond a limit of its field, in words. Nearly always nothing.
            pub fn breach(&self) -> Option<String> {
                match self {
                    Payload::HandoffRequested(requested) => requested.breach(),
                    _ => None,
                }
            }

            /// Writes `data` down, compact.
            pub fn write(&self) -> String {
                match self {
                    $( Payload::$variant(payload) => compact(payload.as_ref()), )*
                    Payload::Opaque(opaque) => opaque.data.to_string(),
                }
            }
        }
    };
}

fn compact(payload: &impl Serialize) -> String {
    serde_json::to_string(payload).expect("payloads hold only values that JSON can represent")
}

/// Two or more dotted words of lower-case letters, digits and underscores, each beginning with a letter.
pub fn is_type_name(text: &str) -> bool {
    text.len() <= limits::TYPE_NAME_BYTES_MAX
        && text.contains('.')
        && text.split('.').all(|word| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
}

/// Whether a type belongs to the open space of extensions.
pub fn is_extension(type_name: &str) -> bool {
    type_name.starts_with("ext.") && type_name.split('.').count() >= 3
}

/// The row of a registered type.
pub fn row(type_name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.type_name == type_name)
}

registry! {
    RunQueued(run::Queued) = "run.queued", Core, Runtime, aap "segment opens: turn_start", aaep "session.started, exactly once";
    RunStarted(run::Started) = "run.started", Core, Producer, aap "silent", aaep "state.changed with a sentence; the first one silent";
    RunWaiting(run::Waiting) = "run.waiting", Core, Runtime, aap "turn_stop tool_use, or the question as text and turn_stop end_turn with awaiting", aaep "silent; for a client tool a sentence";
    RunContinued(run::Continued) = "run.continued", Core, Runtime, aap "silent; the answer opens the next segment", aaep "state.changed with a sentence";
    RunThrottled(run::Throttled) = "run.throttled", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    RunResumedFromEvent(run::ResumedFromEvent) = "run.resumed_from_event", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    RunCheckpointSaved(run::CheckpointSaved) = "run.checkpoint_saved", Core, Runtime, aap "silent", aaep "silent";
    RunFinished(run::Finished) = "run.finished", Core, Producer, aap "turn_stop with the last turn's reason", aaep "session.completed";
    RunFailed(run::Failed) = "run.failed", Core, Producer, aap "turn_stop error", aaep "session.errored";
    RunCancelled(run::Cancelled) = "run.cancelled", Core, Producer, aap "turn_stop error with code cancelled", aaep "session.cancelled";
    RunBranchedFrom(run::BranchedFrom) = "run.branched_from", Experimental, Runtime, aap "silent", aaep "silent";
    ChildRunStarted(run::ChildStarted) = "child_run.started", Experimental, Producer, aap "silent", aaep "state.changed with a sentence";
    TurnStarted(turn::Started) = "turn.started", Core, Producer, aap "silent", aaep "state.changed to thinking, unless there";
    TurnCompleted(turn::Completed) = "turn.completed", Core, Producer, aap "remembered: its stop_reason is the segment's", aaep "silent";
    TurnFailed(turn::Failed) = "turn.failed", Core, Producer, aap "silent; pieces of a retried answer are retracted", aaep "state.changed with a sentence";
    AssistantTextDelta(assistant::TextDelta) = "assistant.text_delta", Core, Producer, aap "text_delta", aaep "output.streaming, coalesced";
    AssistantTextComplete(assistant::TextComplete) = "assistant.text_complete", Core, Producer, aap "text; in delta mode one delta when it had none", aaep "output.streaming with complete";
    AssistantThinkingDelta(assistant::TextDelta) = "assistant.thinking_delta", Experimental, Producer, aap "thinking_delta", aaep "silent";
    AssistantThinkingComplete(assistant::TextComplete) = "assistant.thinking_complete", Experimental, Producer, aap "thinking", aaep "silent";
    AssistantToolCallProposed(assistant::ToolCallProposed) = "assistant.tool_call_proposed", Core, Producer, aap "tool_call; silent for ask_user and hand_off", aaep "state.changed to deciding";
    AssistantToolCallInputDelta(assistant::ToolCallInputDelta) = "assistant.tool_call_input_delta", Experimental, Producer, aap "silent", aaep "silent";
    AssistantImageBlock(assistant::ImageBlock) = "assistant.image_block", Experimental, Producer, aap "silent", aaep "silent";
    AssistantFinalAnswer(assistant::FinalAnswer) = "assistant.final_answer", Core, Producer, aap "silent", aaep "feeds output_summary of the ending";
    UserMessage(user::Message) = "user.message", Core, Anyone, aap "silent; the client sent it", aaep "silent; request_text of session.started";
    UserAttachment(user::Attachment) = "user.attachment", Core, Anyone, aap "silent", aaep "silent";
    ToolRefused(tool::Refused) = "tool.refused", Core, Producer, aap "tool_result with message", aaep "state.changed with a sentence";
    ToolInvoked(tool::Invoked) = "tool.invoked", Core, Producer, aap "silent", aaep "state.changed to calling_tool, then tool.invoked";
    ToolStarted(tool::Started) = "tool.started", Core, Producer, aap "silent", aaep "silent";
    ToolCompleted(tool::Ended) = "tool.completed", Core, Producer, aap "tool_result of server tools that were proposed", aaep "tool.completed success";
    ToolFailed(tool::Ended) = "tool.failed", Core, Producer, aap "tool_result of server tools that were proposed", aaep "tool.completed error; timeout when interrupted";
    ToolCancelled(tool::Ended) = "tool.cancelled", Core, Producer, aap "tool_result of server tools that were proposed", aaep "tool.completed error";
    ToolTimedOut(tool::Ended) = "tool.timed_out", Core, Producer, aap "tool_result of server tools that were proposed", aaep "tool.completed timeout";
    ToolShellCommand(shell::Command) = "tool.shell.command", Core, Producer, aap "silent", aaep "silent; a long tool gives progress.updated";
    ToolShellOutputChunk(shell::OutputChunk) = "tool.shell.output_chunk", Core, Producer, aap "silent", aaep "silent; a long tool gives progress.updated";
    ToolShellExited(shell::Exited) = "tool.shell.exited", Core, Producer, aap "silent", aaep "silent; a long tool gives progress.updated";
    ToolGlobCompleted(search::GlobCompleted) = "tool.glob.completed", Core, Producer, aap "silent", aaep "silent";
    ToolGrepCompleted(search::GrepCompleted) = "tool.grep.completed", Core, Producer, aap "silent", aaep "silent";
    ToolTodoWriteUpdated(tool::TodoWriteUpdated) = "tool.todo_write.updated", Core, Producer, aap "silent", aaep "progress.updated; silent for an empty list";
    ToolFileReadCompleted(file::Read) = "tool.file_read.completed", Artifact, Producer, aap "silent", aaep "silent";
    ToolEditProposed(file::Proposed) = "tool.edit.proposed", Artifact, Producer, aap "silent", aaep "silent";
    ToolEditApplied(file::Applied) = "tool.edit.applied", Artifact, Producer, aap "silent", aaep "silent";
    ToolEditReverted(file::Reverted) = "tool.edit.reverted", Artifact, Producer, aap "silent", aaep "silent";
    ToolFileWriteProposed(file::Proposed) = "tool.file_write.proposed", Artifact, Producer, aap "silent", aaep "silent";
    ToolFileWriteApplied(file::Applied) = "tool.file_write.applied", Artifact, Producer, aap "silent", aaep "silent";
    ToolFileWriteReverted(file::Reverted) = "tool.file_write.reverted", Artifact, Producer, aap "silent", aaep "silent";
    ToolMultiEditProposed(file::MultiProposed) = "tool.multi_edit.proposed", Artifact, Producer, aap "silent", aaep "silent";
    ToolMultiEditApplied(file::MultiApplied) = "tool.multi_edit.applied", Artifact, Producer, aap "silent", aaep "silent";
    ToolMultiEditReverted(file::MultiReverted) = "tool.multi_edit.reverted", Artifact, Producer, aap "silent", aaep "silent";
    ToolHttpRequested(web::Requested) = "tool.http.requested", Core, Producer, aap "silent", aaep "silent";
    ToolHttpResponse(web::Response) = "tool.http.response", Core, Producer, aap "silent", aaep "silent";
    ToolWebFetchRequested(web::Requested) = "tool.web_fetch.requested", Core, Producer, aap "silent", aaep "silent";
    ToolWebFetchResponse(web::Response) = "tool.web_fetch.response", Core, Producer, aap "silent", aaep "silent";
    ToolWebSearchRequested(web::Requested) = "tool.web_search.requested", Core, Producer, aap "silent", aaep "silent";
    ToolWebSearchResponse(web::Response) = "tool.web_search.response", Core, Producer, aap "silent", aaep "silent";
    ToolFilePatch(file::Legacy) = "tool.file.patch", Deprecated, Producer, aap "silent", aaep "silent";
    ToolFileApplied(file::Legacy) = "tool.file.applied", Deprecated, Producer, aap "silent", aaep "silent";
    ToolFileReverted(file::Legacy) = "tool.file.reverted", Deprecated, Producer, aap "silent", aaep "silent";
    ApprovalRequested(approval::Requested) = "approval.requested", Core, Producer, aap "silent; the stop comes with run.waiting", aaep "state.changed to awaiting_input, then awaiting.confirmation";
    ApprovalResolved(approval::Resolved) = "approval.resolved", Core, Runtime, aap "silent", aaep "state.changed away from awaiting_input, with the answer and its author";
    ApprovalExtended(approval::Extended) = "approval.extended", Core, Runtime, aap "silent", aaep "state.changed away from awaiting_input, then requested again with the remaining time";
    ApprovalTimedOut(approval::TimedOut) = "approval.timed_out", Core, Runtime, aap "silent", aaep "state.changed away from awaiting_input, with the default";
    ClarificationRequested(clarification::Requested) = "clarification.requested", Core, Producer, aap "silent; requested through run.waiting", aaep "state.changed to awaiting_input, then awaiting.clarification";
    ClarificationAnswered(clarification::Answered) = "clarification.answered", Core, Runtime, aap "silent", aaep "state.changed away from awaiting_input, naming the answer";
    ClarificationExtended(clarification::Extended) = "clarification.extended", Core, Runtime, aap "silent", aaep "state.changed away from awaiting_input, then requested again with the remaining time";
    ClarificationTimedOut(clarification::TimedOut) = "clarification.timed_out", Core, Runtime, aap "silent", aaep "state.changed away from awaiting_input, naming the default";
    HandoffRequested(handoff::Requested) = "handoff.requested", Core, Producer, aap "silent; shown by run.waiting", aaep "state.changed to handing_off, then handoff.requested";
    HandoffAcknowledged(handoff::Acknowledged) = "handoff.acknowledged", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    HandoffRejected(handoff::Rejected) = "handoff.rejected", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    HandoffExtended(handoff::Extended) = "handoff.extended", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    HandoffTimedOut(handoff::TimedOut) = "handoff.timed_out", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    WorkspaceProvisioned(workspace::Provisioned) = "workspace.provisioned", Core, Runtime, aap "silent", aaep "silent";
    WorkspaceFailed(workspace::Failed) = "workspace.failed", Core, Runtime, aap "silent; shown by the ending", aaep "state.changed with a sentence";
    ArtifactCreated(artifact::Created) = "artifact.created", Artifact, Producer, aap "silent", aaep "silent";
    ArtifactReferenced(artifact::Referenced) = "artifact.referenced", Artifact, Producer, aap "silent", aaep "silent";
    ArtifactUpdated(artifact::Updated) = "artifact.updated", Artifact, Producer, aap "silent", aaep "silent";
    CostTick(cost::Tick) = "cost.tick", Core, Producer, aap "usage of turn_stop", aaep "silent";
    CostBudgetWarning(cost::BudgetWarning) = "cost.budget_warning", Core, Producer, aap "silent; shown by the ending", aaep "state.changed with a sentence";
    CostBudgetExceeded(cost::BudgetExceeded) = "cost.budget_exceeded", Core, Producer, aap "silent; shown by the ending", aaep "state.changed with a sentence";
    PolicyToolBlocked(policy::ToolBlocked) = "policy.tool_blocked", Core, Runtime, aap "silent", aaep "sentence, unless tool.refused has it already";
    PolicyModelRewrote(policy::ModelRewrote) = "policy.model_rewrote", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    ErrorToolUnavailable(error::ToolUnavailable) = "error.tool_unavailable", Core, Producer, aap "silent", aaep "sentence, unless tool.refused has it already";
    ErrorModelCapabilityMissing(error::ModelCapabilityMissing) = "error.model_capability_missing", Core, Producer, aap "silent", aaep "state.changed with a sentence";
    ErrorUpstream(error::Upstream) = "error.upstream", Core, Producer, aap "silent", aaep "state.changed with a sentence";
    GapEventsDamaged(gap::EventsDamaged) = "gap.events_damaged", Core, Runtime, aap "silent", aaep "silent";
    GapEventsPruned(gap::EventsPruned) = "gap.events_pruned", Core, Runtime, aap "silent", aaep "silent";
    GapRunDisconnected(gap::RunDisconnected) = "gap.run_disconnected", Core, Runtime, aap "silent", aaep "state.changed with a sentence";
    GapWorkspaceRemoved(gap::WorkspaceRemoved) = "gap.workspace_removed", Core, Runtime, aap "silent", aaep "silent";
    ContextCompacted(context::Compacted) = "context.compacted", Core, Runtime, aap "silent; feeds compacted history", aaep "state.changed with a sentence";
    ContextTrimmed(context::Trimmed) = "context.trimmed", Core, Runtime, aap "silent; feeds compacted history", aaep "silent";
}
