//! Reads events of a run from the log. See [`events`].

use recount_event::{Code, Event, RunId, codec};

use super::caller::Face;
use crate::error::Refusal;

/// Some events of a run, from a sequence on.
pub(super) async fn events(face: &Face, run: RunId, from: u64, count: usize) -> Result<Vec<Event>, Refusal> {
    let (page, _) = face.engine.read().read_run(run, from.checked_sub(1), count).await?;
    let read = |(sequence, bytes): &(u64, bytes::Bytes)| {
        codec::decode(bytes).map_err(|why| {
            Refusal::new(Code::StoreCorrupt, format!("event {sequence} of {run} cannot be read: {why}"))
        })
    };
    page.iter().map(read).collect()
}
