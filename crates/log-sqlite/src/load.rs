//! Reads the index of the hot part from the disk: at open, and when another program changed the database.
//!
//! The work is bounded by what may be hot ([`crate::limits::HOT_BYTES_MAX`]). Everything hot is checked on the way,
//! since a crash or a failing disk would show here. If only the bytes of records are damaged, their streams are marked
//! as damaged and the rest goes on. If their index is damaged, the ends of the streams are unknown, and the store is
//! refused.

use std::collections::HashMap;

use recount_log::Fault;
use rusqlite::Connection;
use tokio::time::Instant;

use crate::fault::{FaultContext as _, corrupt};
use crate::hot::{CommittedGroup, HotIndex, StreamSpan};
use crate::layout::{self, Names, StoreEnd, StoredGroup, Totals};

/// Records of one stream that are in chunks and also still in their groups.
struct PartlySealed {
    next: u64,
    end: u64,
}

/// The hot part that was read so far.
struct Loader<'c> {
    inner: HotIndex,
    names: Names<'c>,
    /// The expected position of the next group.
    next: u64,
    since: Instant,
    partly_sealed: HashMap<i64, PartlySealed>,
}

/// Reads the hot part in one state of the database.
pub(crate) fn load(connection: &Connection) -> Result<HotIndex, Fault> {
    let context = "reading the end of the store";
    let sealed = layout::totals(connection).context(context)?;
    let last_stream = layout::last_stream(connection).context(context)?;
    let mut loader = Loader {
        inner: HotIndex::new(sealed),
        names: Names::new(connection),
        next: layout::last_sealed(connection)? + 1,
        since: recount_world::moment(),
        partly_sealed: HashMap::new(),
    };
    layout::groups_from(connection, 0, &mut |group| loader.add(&group).map(|()| true))?;
    let Loader { mut inner, next, partly_sealed, .. } = loader;
    if let Some((id, left)) = partly_sealed.iter().find(|(_, left)| left.next < left.end) {
        return Err(corrupt(format!(
            "stream number {id} is sealed up to {}, and its newest records end at {}",
            left.end, left.next
        )));
    }
    inner.ends = StoreEnd { last_position: next - 1, last_stream };
    Ok(inner)
}

impl Loader<'_> {
    fn add(&mut self, group: &StoredGroup<'_>) -> Result<(), Fault> {
        let (first_position, last_position) = (group.first_position, group.last_position());
        if first_position != self.next {
            let next = self.next;
            return Err(corrupt(format!(
                "the newest records continue at position {first_position}, expected {next}"
            )));
        }
        self.next = last_position + 1;
        let sound = group.check();
        let (mut totals, mut both) = (Totals::default(), Totals::default());
        let mut spans: Vec<StreamSpan> = Vec::new();
        for (position, slot, bytes) in group.records() {
            let (key, tail) = self.names.get(slot.stream, position)?;
            totals.more(Totals::one(bytes));
            // Already in a chunk: an interrupted round of sealing. These records precede the unsealed ones.
            let left = self
                .partly_sealed
                .entry(slot.stream)
                .or_insert(PartlySealed { next: slot.sequence, end: tail.next_sequence });
            if slot.sequence < left.end && slot.sequence == left.next && !tail.erased {
                left.next += 1;
                both.more(Totals::one(bytes));
            } else if slot.sequence != tail.next_sequence || left.next < left.end || tail.erased {
                return Err(corrupt(format!(
                    "stream {key} has sequence {} at position {position}, expected sequence {}",
                    slot.sequence, tail.next_sequence
                )));
            } else {
                tail.next_sequence += 1;
                tail.last_position = position;
                if sound.is_err() {
                    self.inner.mark_damaged(key, slot.sequence);
                }
            }
            let known = tail.known();
            match spans.last_mut() {
                Some(last) if last.key == *key && last.first_sequence + last.count == slot.sequence => {
                    last.count += 1;
                    last.known = known;
                }
                _ => spans.push(StreamSpan {
                    key: key.clone(),
                    first_sequence: slot.sequence,
                    count: 1,
                    known,
                }),
            }
        }
        if let Err(fault) = sound {
            // The streams of these records are known, so only they are affected.
            tracing::error!(%fault, "records of the newest commits are damaged; their streams accept no more records");
        }
        let since = self.since;
        self.inner.add_both(both);
        self.inner.add_group(&CommittedGroup { first_position, last_position, totals, since, spans: &spans });
        Ok(())
    }
}
