//! Encodes and decodes events for the store, and replays runs.

use bytes::Bytes;
use recount_event::{Code, Event, RunId, codec};
use recount_log::{ReadBound, Store, StreamKey};
use recount_run::State;

use crate::{Error, Failure, limits};

pub(crate) fn stream_of(run: RunId) -> StreamKey {
    run.to_string().into()
}

/// Reads a run from its first stored event and calls `each` for every event, in order. `None` for an unknown or
/// erased run.
pub(crate) async fn replay(
    store: &dyn Store,
    stream: &StreamKey,
    mut each: impl FnMut(&Event),
) -> Result<Option<State>, Error> {
    replay_until(store, stream, |event| {
        each(event);
        false
    })
    .await
}

/// The same up to and including the first event for which `is_last` returns true.
pub(crate) async fn replay_until(
    store: &dyn Store,
    stream: &StreamKey,
    mut is_last: impl FnMut(&Event) -> bool,
) -> Result<Option<State>, Error> {
    let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
    let mut replayed: Option<State> = None;
    let Some(tail) = store.end(stream).await? else { return Ok(None) };
    let first = tail.first_sequence;
    let mut next = first;
    loop {
        let page = store.read(stream, next, bound).await?;
        if page.is_empty() {
            return Ok(replayed);
        }
        for record in page {
            let event = decode(&record.bytes, stream, next)?;
            if record.sequence != next || event.sequence != next {
                return Err(Error::bug(format!(
                    "{stream} has event {} where {next} is expected",
                    event.sequence
                )));
            }
            let state = replayed.get_or_insert_with(|| {
                State::beginning_at(first, event.run_id, event.task_id, event.session_id)
            });
            recount_run::apply(state, &event);
            if is_last(&event) {
                return Ok(replayed);
            }
            next += 1;
        }
    }
}

pub(crate) fn decode(bytes: &[u8], stream: &StreamKey, sequence: u64) -> Result<Event, Error> {
    codec::decode(bytes).map_err(|why| {
        Failure::new(Code::StoreCorrupt, format!("{stream} cannot be read at {sequence}: {why}")).into()
    })
}

/// The stored bytes of events. Asserts that their sequences are contiguous.
pub(crate) fn encode(events: &[Event], first: u64) -> Vec<Bytes> {
    (first..)
        .zip(events)
        .map(|(sequence, event)| {
            assert_eq!(event.sequence, sequence, "decided events follow each other");
            Bytes::from(codec::encode(event))
        })
        .collect()
}
