//! Chooses where a stream begins: at the start of a run, now, after the last received frame, or with a summary of what
//! was missed. Start with [`run`] and [`all`].

use recount_aaep::Event;
use recount_aaep_host::Problem;
use recount_engine::{Engine, Error};
use recount_event::RunId;
use recount_event::codec::Envelope;

use super::FaceState;
use crate::delivery::Delivery;
use crate::project::{JoinReason, Place, aged_out};
use crate::projections::{Broken, RunReader, TenantReader};
use crate::request::StartPoint;
use crate::resume::Mark;
use crate::sending::Sending;
use crate::subscription::{RetainedStream, Subscription};

/// Opens a stream of one run; without a reader no more events follow.
pub(super) async fn run(
    state: &FaceState,
    subscription: &Subscription,
    run: RunId,
    last_event_id: Option<&str>,
) -> Result<(Option<RunReader>, Sending), Problem> {
    let engine = subscription.engine();
    let (speech, view) = (subscription.speech(), subscription.view());
    let sending = |after| {
        Sending::new(Delivery::of_run(subscription.terms(), subscription.replies().clone(), view, after))
    };
    let row = engine.catalogue().run(run).await.map_err(unavailable)?.ok_or(Problem::SubscriptionUnknown)?;
    let tail = engine.read().tail(run).await.map_err(unavailable)?.ok_or(Problem::SubscriptionUnknown)?;
    let mark = last_event_id.and_then(Mark::parse).filter(|mark| {
        let (of, sequence) = mark.of();
        of == run && sequence < tail
    });
    // The first events were pruned, so the run cannot be projected.
    let from_start = || RunReader::open(&state.projections, engine, run, speech, None);
    let pruned = || {
        let mut sending = sending(None);
        sending.take_lead_in(&[aged_out(run, speech, engine.world().clock.now_ms())]);
        (None, sending)
    };
    if mark.is_some() && row.has_ended() {
        let join_state = from_start().skip_to_now(tail, JoinReason::Missed).await;
        if join_state.has_failed {
            return Err(Problem::Unavailable);
        }
        if join_state.owner.is_none() {
            return Ok(pruned());
        }
    }
    if let Some(mark) = mark {
        let reader = RunReader::open(&state.projections, engine, run, speech, mark.after());
        if reader.is_at_the_end(tail).await {
            // The ending was received. The error stops clients that reconnect automatically.
            return Err(Problem::SubscriptionUnknown);
        }
        let mut sending = sending(Some(mark));
        if !row.has_ended() {
            sending.take_prompts_again(prompts_before(engine, &reader, mark, tail).await?);
        }
        return Ok((Some(reader), sending));
    }
    let mut reader = from_start();
    let reason = if last_event_id.is_some() { JoinReason::Missed } else { JoinReason::Joined };
    let join_state = reader.skip_to_now(tail, reason).await;
    if join_state.has_failed {
        return Err(Problem::Unavailable);
    }
    let mut sending = sending(None);
    match join_state.sequence {
        _ if join_state.owner.is_none() && row.has_ended() => return Ok(pruned()),
        Some(sequence) if !join_state.lead_in.is_empty() && !begins_at_start(subscription, reason) => {
            sending.left_out(Place { run, sequence, part: Place::JOIN_PART - 1 });
            sending.take_lead_in(&join_state.lead_in);
        }
        // The run has not started or has ended, or the subscriber requested all events.
        _ => reader = from_start(),
    }
    Ok((Some(reader), sending))
}

/// The open prompts that were sent before a mark, for a subscription that has no tokens for them: each with the place of
/// the event after which it is sent. That is the newest event: some of those after the mark may have been received
/// already, and at the end of each event of the log the state with an open prompt is `awaiting_input`.
async fn prompts_before(
    engine: &Engine,
    reader: &RunReader,
    mark: Mark,
    tail: u64,
) -> Result<Vec<(Option<Place>, Event)>, Problem> {
    let mut open = reader.open_prompts(tail).await;
    open.retain(|prompt| prompt.opened.is_some_and(|place| mark.covers(place)));
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let (after, at_ms) = match reader.newest() {
        Some((place, at_ms)) => (Some(place), at_ms),
        None => {
            let (run, sequence) = mark.of();
            let (records, _) =
                engine.read().read_run(run, sequence.checked_sub(1), 1).await.map_err(unavailable)?;
            let at_ms = records.first().and_then(|(_, bytes)| Some(Envelope::read(bytes).ok()?.occurred_ms));
            (None, at_ms.and_then(|at_ms| i64::try_from(at_ms).ok()).unwrap_or_default())
        }
    };
    Ok(open.iter().map(|prompt| (after, prompt.at(at_ms))).collect())
}

/// Whether a joining subscriber requested the events from the start.
fn begins_at_start(subscription: &Subscription, reason: JoinReason) -> bool {
    reason == JoinReason::Joined && subscription.options().from == StartPoint::Start
}

/// Opens a stream of all runs of a tenant.
pub(super) async fn all(
    state: &FaceState,
    subscription: &Subscription,
    last_event_id: Option<&str>,
) -> Result<(TenantReader, Sending), Problem> {
    let sending = || {
        let (terms, view) = (subscription.terms(), subscription.view());
        Sending::new(Delivery::of_all(terms, subscription.replies().clone(), view))
    };
    if let Some(retained) = subscription.take_retained().await {
        let RetainedStream { reader, sending: retained } = *retained;
        let Some(id) = last_event_id else { return Ok((reader, retained.unwrap_or_else(sending))) };
        if let Some(mut retained) = retained
            && retained.resume_after(id)
        {
            return Ok((reader, retained));
        }
    }
    let reader =
        joining(state, subscription, JoinReason::Missed).await.map_err(|Broken| Problem::Unavailable)?;
    Ok((reader, sending()))
}

/// A reader of all runs of a tenant that starts now.
pub(super) async fn joining(
    state: &FaceState,
    subscription: &Subscription,
    reason: JoinReason,
) -> Result<TenantReader, Broken> {
    let (engine, narrowing) = (subscription.engine(), subscription.caller().narrowing.clone());
    let mut reader = TenantReader::open(&state.projections, engine, narrowing, subscription.speech(), reason);
    reader.begin().await?;
    Ok(reader)
}

fn unavailable(error: Error) -> Problem {
    tracing::warn!(%error, "a stream cannot be opened");
    Problem::Unavailable
}
