//! Reads the outcome of calls that are answered late from the log, which has the only record of it.

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

/// The status of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallStatus {
    /// No run ever waited for the call.
    NeverOpen,
    /// A run waits for the call.
    Open { by_client: bool },
    /// The call was answered through this face.
    AnsweredHere,
    /// Another client settled the call, or it timed out: the run continued at this event.
    Elsewhere { run: RunId, reopened: u64 },
    /// The run ended while it waited, for this reason.
    Ended { run: RunId, why: TurnError },
}

/// One status for each call.
pub(super) async fn call_statuses(
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
                // The run was erased in the meantime.
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
        found.extend(traces.statuses(run));
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
    /// The call of each approval.
    approvals: BTreeMap<ForeignId, ForeignId>,
    clients: BTreeSet<ForeignId>,
    traces: BTreeMap<ForeignId, Trace>,
    /// The events at which the run continued, in order.
    continued: Vec<u64>,
    ended: Option<TurnError>,
}

#[derive(Default)]
struct Trace {
    /// The last stop at which the call was open.
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
            Payload::ApprovalRequested(request) if self.ids.contains(&request.tool_call_id) => {
                self.approvals.insert(request.approval_id.clone(), request.tool_call_id.clone());
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
                self.ended = Some(ended("cancelled", "another client took over", false));
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

    fn statuses(self, run: RunId) -> impl Iterator<Item = (ForeignId, CallStatus)> {
        let Traces { clients, traces, continued, ended, .. } = self;
        traces.into_iter().map(move |(id, trace)| {
            let reopened = continued.iter().copied().find(|sequence| *sequence > trace.stop);
            let status = match (trace.answered, reopened, &ended) {
                (Some(SettledBy::Ours), ..) => CallStatus::AnsweredHere,
                (Some(SettledBy::Others), Some(reopened), _) => CallStatus::Elsewhere { run, reopened },
                (_, _, Some(why)) => CallStatus::Ended { run, why: why.clone() },
                // Another client answered the call, and the run waits for more: the response to the rest reports the
                // outcome.
                (answered, ..) => CallStatus::Open { by_client: answered.is_none() && clients.contains(&id) },
            };
            (id, status)
        })
    }
}
