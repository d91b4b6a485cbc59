//! One event of a projection, and the step that makes such events from an event of the log. Pure.

use std::sync::Arc;

use recount_aaep::Event as AaepEvent;
use recount_event::{Event, ForeignId, Payload, RunId, SessionId, TaskId};
use tokio::time::Instant;

use crate::limits;
use crate::project::{Place, Projector};
use crate::reply_tokens::ReplyTokens;

/// What a run belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunOwner {
    pub(crate) run: RunId,
    pub(crate) task: Option<TaskId>,
    pub(crate) session: Option<SessionId>,
}

/// An event as all subscriptions share it.
pub(crate) struct Projected {
    pub(crate) event: AaepEvent,
    pub(crate) place: Place,
    /// Its number among the events of its run.
    pub(crate) index: u64,
    pub(crate) owner: RunOwner,
    /// The prompt that it shows.
    pub(crate) prompt: Option<ForeignId>,
    /// When it was made; `None` if that was not when it happened.
    pub(crate) made_at: Option<Instant>,
    /// How much memory it takes, roughly.
    pub(super) bytes: usize,
}

/// What an event of the log does to the prompts of its run.
pub(super) enum PromptChange<'e> {
    Opens(&'e ForeignId),
    Settles(&'e ForeignId),
}

pub(super) fn prompt_change(payload: &Payload) -> Option<PromptChange<'_>> {
    Some(match payload {
        Payload::ApprovalRequested(asked) => PromptChange::Opens(&asked.approval_id),
        Payload::ApprovalResolved(outcome) => PromptChange::Settles(&outcome.approval_id),
        Payload::ApprovalTimedOut(outcome) => PromptChange::Settles(&outcome.approval_id),
        Payload::ClarificationRequested(asked) => PromptChange::Opens(&asked.clarification_id),
        Payload::ClarificationAnswered(outcome) => PromptChange::Settles(&outcome.clarification_id),
        Payload::ClarificationTimedOut(outcome) => PromptChange::Settles(&outcome.clarification_id),
        Payload::HandoffRequested(asked) => PromptChange::Opens(&asked.handoff_id),
        Payload::HandoffAcknowledged(outcome) => PromptChange::Settles(&outcome.handoff_id),
        Payload::HandoffRejected(outcome) => PromptChange::Settles(&outcome.handoff_id),
        Payload::HandoffTimedOut(outcome) => PromptChange::Settles(&outcome.handoff_id),
        _ => return None,
    })
}

/// Projects one event of the log. `next` is the number of the first event that comes of it.
pub(super) fn project(
    projector: &mut Projector,
    event: &Event,
    tokens: &ReplyTokens,
    next: u64,
    made_at: Option<Instant>,
) -> Vec<Arc<Projected>> {
    let owner = RunOwner { run: event.run_id, task: event.task_id, session: event.session_id };
    let opened = match prompt_change(event.payload()) {
        Some(PromptChange::Opens(prompt)) => Some(prompt),
        _ => None,
    };
    let projected = projector.event(event, &|prompt| tokens.of(event.run_id, prompt));
    let of_one = |(number, projected): (u64, AaepEvent)| {
        let critical = projected.kind().is_some_and(recount_aaep::Kind::is_critical);
        let place = Place::parse(projected.envelope.event_id.as_str());
        let place = place.unwrap_or(Place { run: event.run_id, sequence: event.sequence, part: 0 });
        let bytes = limits::PROJECTED_BYTES_LEAST + text_bytes(&projected);
        let prompt = opened.filter(|_| critical).cloned();
        Arc::new(Projected { event: projected, place, index: number, owner, prompt, made_at, bytes })
    };
    (next..).zip(projected).map(of_one).collect()
}

/// Bytes of the texts that vary most.
fn text_bytes(event: &AaepEvent) -> usize {
    let summaries = &event.summaries;
    let summaries = [&summaries.terse, &summaries.normal, &summaries.detailed];
    let summaries: usize = summaries.into_iter().flatten().map(String::len).sum();
    let body = match &event.body {
        recount_aaep::Body::OutputStreaming(output) => output.chunk.len(),
        _ => summaries,
    };
    summaries + body
}
