//! A run in a few words, for lists.

use recount_event::family::approval::DefaultDecision;
use recount_event::family::run::{Agent, Driver, RunKind};
use recount_event::family::tool::RiskLevel;
use recount_event::{ForeignId, Json, RunId, SessionId, TaskId};

use crate::state::{Asked, How, Phase, Prompt, PromptKind, PromptName, State, Totals};

/// What a list says of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    pub session_id: Option<SessionId>,
    pub next_sequence: u64,
    pub kind: RunKind,
    pub driver: Driver,
    pub status: Status,
    pub title: Option<String>,
    pub agent: Option<Agent>,
    pub created_ms: u64,
    /// The first `run.started`.
    pub started_ms: Option<u64>,
    pub ended_ms: Option<u64>,
    pub ending: Option<Ending>,
    /// Turns completed.
    pub turns: u64,
    /// Earlier runs of the chain included.
    pub totals: Totals,
    /// What people are asked for, by kind and name.
    pub prompts: Vec<OpenPrompt>,
    pub next_deadline_ms: Option<u64>,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Queued,
    Running,
    /// Suspended on people or applications. External runs are never suspended: see their prompts.
    Waiting,
    Finished,
    Failed,
    Cancelled,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// `final_status` of a run that finished, `code` of one that failed, `by` of a cancelled one.
    pub code: String,
    /// For people; a run that finished gives none.
    pub message: Option<String>,
}

/// Something asked of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenPrompt {
    pub kind: PromptKind,
    pub id: ForeignId,
    pub tool_call_id: Option<ForeignId>,
    pub summary: String,
    pub asked_ms: u64,
    pub deadline_ms: Option<u64>,
    /// What happens at the deadline.
    pub default: Option<PromptDefault>,
    pub risk: Option<RiskLevel>,
}

/// What stands in for an answer that does not come.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptDefault {
    Approve,
    Reject,
    Response(Json),
}

impl Status {
    pub const ALL: &[Status] = &[
        Status::Queued,
        Status::Running,
        Status::Waiting,
        Status::Finished,
        Status::Failed,
        Status::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Finished => "finished",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// What can be said of a run that stands so: "it has finished".
    pub(crate) fn said(self) -> &'static str {
        match self {
            Status::Queued => "is queued",
            Status::Running => "is running",
            Status::Waiting => "is waiting",
            Status::Finished => "has finished",
            Status::Failed => "has failed",
            Status::Cancelled => "was cancelled",
        }
    }

    pub fn is_ended(self) -> bool {
        matches!(self, Status::Finished | Status::Failed | Status::Cancelled)
    }
}

impl Summary {
    pub(crate) fn of(state: &State) -> Self {
        let queued = state.queued.as_deref();
        let ended = match &state.phase {
            Phase::Ended(ended) => Some(ended),
            _ => None,
        };
        Summary {
            run_id: state.run_id,
            task_id: state.task_id,
            session_id: state.session_id,
            next_sequence: state.next_sequence,
            kind: state.kind(),
            driver: state.driver(),
            status: state.status(),
            title: queued.and_then(|queued| queued.title.clone()),
            agent: queued.and_then(|queued| queued.agent.clone()),
            created_ms: state.created_ms,
            started_ms: state.started_ms,
            ended_ms: ended.map(|ended| ended.at_ms),
            ending: ended.map(|ended| Ending::of(&ended.how)),
            turns: state.turns.completed,
            totals: state.totals(),
            prompts: state.prompts.iter().map(|(name, prompt)| OpenPrompt::of(name, prompt)).collect(),
            next_deadline_ms: state.prompts.values().filter_map(|prompt| prompt.deadline_ms).min(),
        }
    }
}

impl Ending {
    fn of(how: &How) -> Self {
        match how {
            How::Finished(finished) => Ending { code: finished.final_status.clone(), message: None },
            How::Failed(failed) => {
                Ending { code: failed.code.clone(), message: Some(failed.message.clone()) }
            }
            How::Cancelled(cancelled) => {
                Ending { code: cancelled.by.clone(), message: Some(cancelled.reason.clone()) }
            }
        }
    }
}

impl OpenPrompt {
    fn of(name: &PromptName, prompt: &Prompt) -> Self {
        let (summary, default, risk) = match &prompt.asked {
            Asked::Approval(asked) => {
                let default = match asked.default_decision {
                    Some(DefaultDecision::Approve) if !asked.is_grave() => PromptDefault::Approve,
                    _ => PromptDefault::Reject,
                };
                (asked.summary.clone(), Some(default), asked.risk_level)
            }
            Asked::Clarification(asked) => {
                (asked.question.clone(), asked.default_response.clone().map(PromptDefault::Response), None)
            }
            Asked::Handoff(asked) => {
                (asked.summary_terse.clone().unwrap_or_else(|| asked.reason.clone()), None, None)
            }
        };
        OpenPrompt {
            kind: name.kind,
            id: name.id.clone(),
            tool_call_id: prompt.tool_call_id().cloned(),
            summary,
            asked_ms: prompt.asked_ms,
            deadline_ms: prompt.deadline_ms,
            default,
            risk,
        }
    }
}
