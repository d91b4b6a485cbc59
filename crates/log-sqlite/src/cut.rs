//! Cuts and erasures inside an open transaction: chunks are deleted; the chunk at the cut and the groups with such
//! records are rewritten without them.
//!
//! The writer's connection overwrites freed pages. This file must not know why records are removed.

use recount_log::chain::ChainValue;
use recount_log::{Fault, StreamKey};
use rusqlite::Connection;

use crate::fault::{FaultContext as _, corrupt};
use crate::hot::{Hot, RemovedRecords};
use crate::layout::{self, KnownTail, NewChunk, StreamTail, Totals};
use crate::packing::{self, NO_STREAM};

/// Removes the records before `keep_from`. `known` is the end of the stream and not less than `keep_from`.
pub(crate) fn cut(
    connection: &Connection,
    hot: &Hot,
    key: &StreamKey,
    known: KnownTail,
    keep_from: u64,
    erased: bool,
) -> Result<RemovedRecords, Fault> {
    let context = format!("removing the records of stream {key} before {keep_from}");
    let stored = layout::stream_tail(connection, key).context(&context)?;
    let mut stored = stored.ok_or_else(|| corrupt(format!("stream {key} has no name")))?;
    let mut removed = RemovedRecords {
        key: key.clone(),
        known,
        hot: Vec::new(),
        sealed: Totals::default(),
        both: Totals::default(),
    };

    let mut start = stored.head;
    if keep_from < stored.next_sequence {
        start = split_chunk(connection, &stored, key, keep_from, &mut removed.sealed)?;
    }
    removed.sealed.more(layout::delete_chunks(connection, stored.id, keep_from).context(&context)?);
    // Records in a chunk may still be in their group.
    let head = remove_hot(connection, hot, &stored, keep_from, erased, &mut removed)?;
    if keep_from > stored.next_sequence {
        start = head;
        // The stream counts as sealed up to the cut, without records.
        stored.next_sequence = keep_from;
        stored.head = start;
    }
    let mut sealed = layout::totals(connection).context(&context)?;
    sealed.less(removed.sealed);
    layout::set_totals(connection, sealed).context(&context)?;

    stored.first_sequence = keep_from;
    stored.start = start;
    stored.erased = erased;
    if keep_from == known.next_sequence {
        stored.last_position = known.last_position;
    }
    layout::update_stream(connection, key, &stored).context(&context)?;
    removed.known = KnownTail { first_sequence: keep_from, erased, ..known };
    Ok(removed)
}

/// Rewrites the chunk at the cut with only the records that stay. Returns the chain value before them.
fn split_chunk(
    connection: &Connection,
    stored: &StreamTail,
    key: &StreamKey,
    keep_from: u64,
    removed: &mut Totals,
) -> Result<ChainValue, Fault> {
    let context = format!("cutting a chunk of stream {key}");
    let missing = || corrupt(format!("stream {key} has no sequence {keep_from} to cut it at"));
    let chunk =
        layout::chunk_with(connection, stored.id, keep_from).context(&context)?.ok_or_else(missing)?;
    let (start, kept) = layout::take_chunk(connection, stored, chunk, |chunk| {
        if chunk.end() <= keep_from {
            return Err(missing());
        }
        let mut start = chunk.start;
        let mut kept = Vec::new();
        for (sequence, position, bytes) in chunk.records() {
            if sequence < keep_from {
                start = start.then(bytes);
                removed.more(Totals::one(bytes));
            } else {
                kept.push((position, bytes.to_vec()));
            }
        }
        Ok((start, kept))
    })?;
    let records: Vec<(u64, &[u8])> = kept.iter().map(|(position, bytes)| (*position, &bytes[..])).collect();
    let chunk =
        NewChunk { stream: stored.id, first_sequence: keep_from, start, records: &records, damaged: false };
    layout::insert_chunk(connection, &chunk).context(&context)?;
    Ok(start)
}

/// Rewrites the groups with such records. Returns the chain after the last removed record that was not in a
/// chunk. An erased stream is removed from damaged groups too; the rest of those stays damaged.
fn remove_hot(
    connection: &Connection,
    hot: &Hot,
    stored: &StreamTail,
    keep_from: u64,
    erased: bool,
    removed: &mut RemovedRecords,
) -> Result<ChainValue, Fault> {
    let mut head = stored.head;
    let mut next = stored.next_sequence;
    let mut parts = hot.parts(&removed.key, 0, usize::MAX);
    parts.retain(|part| part.first_sequence < keep_from);
    // A group may hold more than one part of the stream.
    parts.dedup_by_key(|part| part.group);
    for part in parts {
        let mut removed_here = Totals::default();
        let (index, events) = layout::group_at(connection, part.group, |group| {
            let sound = group.check();
            let damaged = sound.is_err();
            if !erased {
                sound?;
            }
            let ours = |stream: i64, sequence: u64| stream == stored.id && sequence < keep_from;
            for (_, slot, bytes) in group.records().filter(|(_, slot, _)| ours(slot.stream, slot.sequence)) {
                removed_here.more(Totals::one(bytes));
                if slot.sequence < stored.next_sequence {
                    removed.both.more(Totals::one(bytes));
                } else if slot.sequence == next {
                    head = head.then(bytes);
                    next += 1;
                }
            }
            let remaining = group.slots.iter().map(|slot| {
                let stays = !slot.is_removed() && !ours(slot.stream, slot.sequence);
                stays.then(|| (slot, group.record(slot)))
            });
            let events = packing::join(remaining.clone().map(|remaining| remaining.map(|(_, bytes)| bytes)));
            let damaged = damaged && remaining.clone().any(|remaining| remaining.is_some());
            let slots = remaining.map(|remaining| {
                remaining.map_or((NO_STREAM, 0, 0), |(slot, bytes)| (slot.stream, slot.sequence, bytes.len()))
            });
            Ok((packing::group_index(part.group, &events, damaged, slots), events))
        })?;
        layout::update_group(connection, part.group, &index, &events)
            .context(&format!("removing records of stream {}", removed.key))?;
        if removed_here.records > 0 {
            removed.hot.push((part.group, removed_here));
        }
    }
    if next < keep_from {
        let key = &removed.key;
        return Err(corrupt(format!("stream {key} has no sequence {next} to cut it at")));
    }
    Ok(head)
}
