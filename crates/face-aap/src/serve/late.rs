//! The outcome of calls that are answered late, read from the log, which is the only record of it.

use std::collections::{BTreeMap, BTreeSet};

use recount_engine::ListQuery;
use recount_event::family::run::WaitKind;
use recount_event::family::tool::Executor;
use recount_event::{Code, Event, ForeignId, Payload, RunId, SessionId};

use super::caller::Face;
use super::events::events;
use crate::error::Refusal;
use crate::limits;
use crate::wire::TurnError;

/// The protocol of an answer.
pub(super) const VIA: &str = "aap";

/// See the file's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallStatus {
    /// No run ever waited for it.
    NeverOpen,
    /// It is waited for.
    Open { by_client: bool },
    /// It was answered through this face.
    AnsweredHere,
    /// Another client settled it, or it timed out: the run continued at this event.
    Elsewhere { run: RunId, reopened: u64 },
    /// The run ended while it waited, for this reason.
    Ended { run: RunId, why: TurnError },
}

/// One fate for each call.
pub(super) async fn fates(
    face: &Face,
    session: SessionId,
    ids: &[ForeignId],
) -> Result<Vec<CallStatus>, Refusal> {
    let mut found: BTreeMap<ForeignId, CallStatus> = BTreeMap::new();
    let query = ListQuery { limit: limits::RUNS_LOOKED_AT_MAX, ..ListQuery::default() };
    let mut looked_at = 0;
    for row in face.engine.catalogue().list_session_runs(session, &query).await?.items {
        if found.len() == ids.len() || looked_at >= limits::LATE_EVENTS_MAX {
            break;
        }
        let run = row.id;
        let mut traces = Traces::new(ids.iter().filter(|id| !found.contains_key(*id)).cloned().collect());
        let mut from = row.first_sequence;
        while looked_at < limits::LATE_EVENTS_MAX {
            let page = match events(face, run, from, limits::PAGE_EVENTS).await {
                // It was erased in the meantime.
                Err(refusal) if matches!(refusal.code, Code::RunErased | Code::RunNotFound) => break,
                Err(refusal) => return Err(refusal),
                Ok(page) if page.is_empty() => break,
                Ok(page) => page,
            };
            looked_at += page.len();
            for event in &page {
                traces.event(event);
                from = event.sequence + 1;
            }
        }
        found.extend(traces.fates(run));
    }
    Ok(ids.iter().map(|id| found.remove(id).unwrap_or(CallStatus::NeverOpen)).collect())
}

/// The tools of the calls of a run.
pub(super) async fn tools(face: &Face, run: RunId) -> Result<BTreeMap<ForeignId, String>, Refusal> {
    let mut tools = BTreeMap::new();
    let (mut from, mut looked_at) = (0, 0);
    while looked_at < limits::LATE_EVENTS_MAX {
        let page = events(face, run, from, limits::PAGE_EVENTS).await?;
        let Some(last) = page.last() else { break };
        (from, looked_at) = (last.sequence + 1, looked_at + page.len());
        for event in &page {
            if let Payload::AssistantToolCallProposed(call) = event.payload() {
                tools.insert(call.tool_call_id.clone(), call.tool_name.clone());
            }
        }
    }
    Ok(tools)
}

fn ended(code: &str, message: &str, retryable: bool) -> TurnError {
    TurnError { code: code.to_owned(), message: message.to_owned(), retryable }
}

/// The events of one run about some calls.
struct Traces {
    ids: BTreeSet<ForeignId>,
    /// Which call an approval is about.
    approvals: BTreeMap<ForeignId, ForeignId>,
    clients: BTreeSet<ForeignId>,
    traces: BTreeMap<ForeignId, Trace>,
    /// Where the run continued, in order.
    continued: Vec<u64>,
    ended: Option<TurnError>,
}

#[derive(Default)]
struct Trace {
    /// The last stop at which it was open.
    stop: u64,
    answered: Option<SettledBy>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SettledBy {
    Ours,
    Others,
}

impl Traces {
    fn new(ids: BTreeSet<ForeignId>) -> Self {
        Traces {
            ids,
            approvals: BTreeMap::new(),
            clients: BTreeSet::new(),
            traces: BTreeMap::new(),
            continued: Vec::new(),
            ended: None,
        }
    }

    fn event(&mut self, event: &Event) {
        match event.payload() {
            Payload::ApprovalRequested(asked) if self.ids.contains(&asked.tool_call_id) => {
                self.approvals.insert(asked.approval_id.clone(), asked.tool_call_id.clone());
            }
            Payload::ToolInvoked(invoked)
                if invoked.executor == Some(Executor::Client) && self.ids.contains(&invoked.tool_call_id) =>
            {
                self.clients.insert(invoked.tool_call_id.clone());
            }
            Payload::RunWaiting(waiting) => {
                for one in &waiting.waits_for {
                    let call = match one.kind {
                        WaitKind::Approval => self.approvals.get(&one.id).cloned(),
                        WaitKind::ClientTool => Some(one.id.clone()).filter(|id| self.ids.contains(id)),
                        WaitKind::Clarification | WaitKind::Handoff => None,
                    };
                    if let Some(call) = call {
                        self.traces.entry(call).or_default().stop = event.sequence;
                    }
                }
            }
            Payload::ApprovalResolved(resolved) => {
                let whose =
                    if resolved.via.as_deref() == Some(VIA) { SettledBy::Ours } else { SettledBy::Others };
                self.answered_approval(&resolved.approval_id, whose);
            }
            Payload::ApprovalTimedOut(missed) => {
                self.answered_approval(&missed.approval_id, SettledBy::Others)
            }
            Payload::ToolCompleted(ended) if self.clients.contains(&ended.tool_call_id) => {
                self.answered(&ended.tool_call_id.clone(), SettledBy::Ours);
            }
            Payload::ToolFailed(ended) | Payload::ToolCancelled(ended) | Payload::ToolTimedOut(ended)
                if self.clients.contains(&ended.tool_call_id) =>
            {
                self.answered(&ended.tool_call_id.clone(), SettledBy::Others);
            }
            Payload::RunContinued(_) => self.continued.push(event.sequence),
            Payload::RunCancelled(cancelled) => {
                self.ended = Some(ended("cancelled", &cancelled.reason, false));
            }
            Payload::RunFailed(failed) => {
                self.ended = Some(ended(&failed.code, &failed.message, failed.retriable));
            }
            Payload::RunFinished(_) => {
                self.ended = Some(ended("cancelled", "another client has taken over", false));
            }
            _ => {}
        }
    }

    fn answered_approval(&mut self, approval: &ForeignId, whose: SettledBy) {
        if let Some(call) = self.approvals.get(approval).cloned() {
            self.answered(&call, whose);
        }
    }

    fn answered(&mut self, call: &ForeignId, whose: SettledBy) {
        if let Some(trace) = self.traces.get_mut(call) {
            trace.answered.get_or_insert(whose);
        }
    }

    fn fates(self, run: RunId) -> impl Iterator<Item = (ForeignId, CallStatus)> {
        let Traces { clients, traces, continued, ended, .. } = self;
        traces.into_iter().map(move |(id, trace)| {
            let reopened = continued.iter().copied().find(|sequence| *sequence > trace.stop);
            let fate = match (trace.answered, reopened, &ended) {
                (Some(SettledBy::Ours), ..) => CallStatus::AnsweredHere,
                (Some(SettledBy::Others), Some(reopened), _) => CallStatus::Elsewhere { run, reopened },
                (_, _, Some(why)) => CallStatus::Ended { run, why: why.clone() },
                // Another client answered it, and more is awaited: the response to the rest reports the outcome.
                (answered, ..) => CallStatus::Open { by_client: answered.is_none() && clients.contains(&id) },
            };
            (id, fate)
        })
    }
}
