//! A projected event with its owner and number, and the function that creates it from an event of the log. Pure.

use std::sync::Arc;

use recount_aaep::Event as AaepEvent;
use recount_event::{Event, RunId, SessionId, TaskId};

use crate::limits;
use crate::project::{Place, Projector};
use crate::reply_tokens::ReplyTokens;

/// The owner of an event: run, task and session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunOwner {
    pub(crate) run: RunId,
    pub(crate) task: Option<TaskId>,
    pub(crate) session: Option<SessionId>,
}

/// An event that all subscriptions share.
pub(crate) struct Projected {
    pub(crate) event: AaepEvent,
    pub(crate) place: Place,
    /// Its number among the events of its run.
    pub(crate) index: u64,
    pub(crate) owner: RunOwner,
    /// The approximate memory in bytes.
    pub(super) bytes: usize,
}

/// Receives events of several runs.
pub(super) trait ProjectedSink: Send + Sync {
    fn push(&self, event: Arc<Projected>);
}

/// Projects one event of the log. `next` is the number of the first projected event.
pub(super) fn project(
    projector: &mut Projector,
    event: &Event,
    tokens: &ReplyTokens,
    next: u64,
) -> Vec<Arc<Projected>> {
    let owner = RunOwner { run: event.run_id, task: event.task_id, session: event.session_id };
    let projected = projector.event(event, &|prompt| tokens.of(event.run_id, prompt));
    numbered(projected, owner, event.sequence, next)
}

/// Projects a damaged event at a sequence, which ends the session.
pub(super) fn project_damage(
    projector: &mut Projector,
    owner: RunOwner,
    sequence: u64,
    next: u64,
) -> Vec<Arc<Projected>> {
    numbered(projector.damaged(sequence), owner, sequence, next)
}

fn numbered(projected: Vec<AaepEvent>, owner: RunOwner, sequence: u64, next: u64) -> Vec<Arc<Projected>> {
    let of_one = |(number, projected): (u64, AaepEvent)| {
        let place = Place::parse(projected.envelope.event_id.as_str());
        let place = place.unwrap_or(Place { run: owner.run, sequence, part: 0 });
        let bytes = limits::PROJECTED_BYTES_LEAST + text_bytes(&projected);
        Arc::new(Projected { event: projected, place, index: number, owner, bytes })
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
