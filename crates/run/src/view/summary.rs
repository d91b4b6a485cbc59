//! The summary of a run, for lists.

use recount_event::family::approval::DefaultDecision;
use recount_event::family::run::{Agent, Driver, RunKind};
use recount_event::family::tool::RiskLevel;
use recount_event::{ForeignId, Json, RunId, SessionId, TaskId};

use crate::state::{FinalEvent, Phase, Prompt, PromptKind, PromptName, PromptRequest, State, Status, Totals};

/// A run as lists show it.
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
    /// Open prompts, by kind and id.
    pub prompts: Vec<OpenPrompt>,
    pub next_deadline_ms: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// `final_status` of a run that finished, `code` of one that failed, `by` of a cancelled one.
    pub code: String,
    /// For people; a run that finished gives none.
    pub message: Option<String>,
}

/// An open prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenPrompt {
    pub kind: PromptKind,
    pub id: ForeignId,
    pub tool_call_id: Option<ForeignId>,
    pub summary: String,
    pub requested_ms: u64,
    pub deadline_ms: Option<u64>,
    /// What happens at the deadline.
    pub default: Option<PromptDefault>,
    pub risk: Option<RiskLevel>,
}

/// The default when no answer comes.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptDefault {
    Approve,
    Reject,
    Response(Json),
}

impl State {
    /// The summary of the run, for lists.
    pub fn summary(&self) -> Summary {
        let queued = self.queued.as_deref();
        let ended = match &self.phase {
            Phase::Ended(ended) => Some(ended),
            _ => None,
        };
        Summary {
            run_id: self.run_id,
            task_id: self.task_id,
            session_id: self.session_id,
            next_sequence: self.next_sequence,
            kind: self.kind(),
            driver: self.driver(),
            status: self.status(),
            title: queued.and_then(|queued| queued.title.clone()),
            agent: queued.and_then(|queued| queued.agent.clone()),
            created_ms: self.created_ms,
            started_ms: self.started_ms,
            ended_ms: ended.map(|ended| ended.at_ms),
            ending: ended.map(|ended| Ending::of(&ended.how)),
            turns: self.turns.completed,
            totals: self.totals(),
            prompts: self.prompts.iter().map(|(name, prompt)| OpenPrompt::of(name, prompt)).collect(),
            next_deadline_ms: self.prompts.values().filter_map(|prompt| prompt.deadline_ms).min(),
        }
    }
}

impl Ending {
    fn of(how: &FinalEvent) -> Self {
        match how {
            FinalEvent::Finished(finished) => Ending { code: finished.final_status.clone(), message: None },
            FinalEvent::Failed(failed) => {
                Ending { code: failed.code.clone(), message: Some(failed.message.clone()) }
            }
            FinalEvent::Cancelled(cancelled) => {
                Ending { code: cancelled.by.clone(), message: Some(cancelled.reason.clone()) }
            }
        }
    }
}

impl OpenPrompt {
    fn of(name: &PromptName, prompt: &Prompt) -> Self {
        let (summary, default, risk) = match &prompt.request {
            PromptRequest::Approval(request) => {
                let default = match request.default_decision {
                    _ if request.withdrawn_at_deadline == Some(true) => None,
                    Some(DefaultDecision::Approve) if !request.is_grave() => Some(PromptDefault::Approve),
                    _ => Some(PromptDefault::Reject),
                };
                (request.summary.clone(), default, request.risk_level)
            }
            PromptRequest::Clarification(request) => (
                request.question.clone(),
                request.default_response.clone().map(PromptDefault::Response),
                None,
            ),
            PromptRequest::Handoff(request) => {
                (request.summary_terse.clone().unwrap_or_else(|| request.reason.clone()), None, None)
            }
        };
        OpenPrompt {
            kind: name.kind,
            id: name.id.clone(),
            tool_call_id: prompt.tool_call_id().cloned(),
            summary,
            requested_ms: prompt.requested_ms,
            deadline_ms: prompt.deadline_ms,
            default,
            risk,
        }
    }
}
