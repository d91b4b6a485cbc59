//! Records what the clients observed, to compare it with the stored events.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use recount_engine::Receipt;
use recount_event::{Draft, RunId, TaskId, codec};
use recount_faulty_store::answer_now;
use recount_log::ReadBound;

use super::EnginePlay;
use super::stored::{at, begins};
use crate::trace::Check;

/// The target of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Run(RunId),
    Feed,
}

/// A batch: run, producer, epoch, sequence number.
pub(super) type Batch = (RunId, String, u64, u64);

#[derive(Default)]
pub(super) struct ClientRecord {
    pub(super) runs: Vec<RunId>,
    /// Hashes of acknowledged events.
    pub(super) acknowledged: BTreeMap<(RunId, u64), blake3::Hash>,
    /// Hashes of events that were read.
    pub(super) seen: BTreeMap<(Target, u64), blake3::Hash>,
    /// Batches that were sent, and their receipt if they were acknowledged.
    pub(super) batches: BTreeMap<Batch, Option<Receipt>>,
    /// Accepted resolutions by approval, with run and sequence.
    pub(super) answers: BTreeMap<String, Vec<(RunId, u64, String)>>,
    /// The run and event that was read at a position of the feed.
    pub(super) feed_places: BTreeMap<u64, (RunId, u64)>,
    pub(super) tasks: Vec<TaskId>,
    pub(super) task_of: BTreeMap<RunId, TaskId>,
    /// The first remaining event, as acknowledged by a prune.
    pub(super) pruned: BTreeMap<RunId, u64>,
    /// Runs that are pinned now, and those that were ever pinned.
    pub(super) held: BTreeSet<RunId>,
    pub(super) ever_pinned: BTreeSet<RunId>,
    /// Tasks whose deletion was requested, and whether it was acknowledged.
    pub(super) deletions: BTreeMap<TaskId, bool>,
}

const WITHDRAWALS: [&str; 3] = ["approval.resolved", "clarification.timed_out", "handoff.rejected"];

const EVERYTHING: ReadBound = ReadBound { count: usize::MAX, bytes: usize::MAX };

impl EnginePlay {
    /// The stored events of a run.
    pub(super) fn stored(&self, run: RunId) -> Vec<(u64, u64, Bytes)> {
        let found = answer_now(self.disk.store().read(&run.to_string().into(), 0, EVERYTHING));
        let found = found.expect("the memory is never closed");
        found.into_iter().map(|record| (record.sequence, record.position, record.bytes)).collect()
    }

    /// The stored events of the feed.
    pub(super) fn stored_feed(&self) -> Vec<(u64, Bytes)> {
        let found = answer_now(self.disk.store().read_feed(1, EVERYTHING));
        let found = found.expect("the memory is never closed");
        found.into_iter().map(|found| (found.record.position, found.record.bytes)).collect()
    }

    /// Records acknowledged events. They must already be stored, unless they were removed in the meantime.
    pub(super) fn acknowledge(&self, run: RunId, receipt: Receipt, drafts: &[Draft]) {
        let stored = self.stored(run);
        let is_whole = !self.may_be_removed(run, receipt.first_sequence);
        for sequence in receipt.first_sequence..=receipt.last_sequence {
            let Some((_, position, bytes)) = at(&stored, sequence) else {
                if self.may_be_removed(run, sequence) {
                    continue;
                }
                self.trace
                    .wrong(Check::Durable, format_args!("{run} {sequence} was acknowledged and is missing"));
                return;
            };
            if sequence == receipt.last_sequence && *position != receipt.position {
                let wrong = format!("{run} {sequence} is at {position}, not at {}", receipt.position);
                self.trace.wrong(Check::Durable, wrong);
            }
            self.client_record().acknowledged.insert((run, sequence), blake3::hash(bytes));
        }
        if !is_whole {
            return;
        }
        let from = stored.iter().take_while(|found| found.0 < receipt.first_sequence).count();
        let count = usize::try_from(receipt.last_sequence - receipt.first_sequence + 1).unwrap_or(usize::MAX);
        let mut left = drafts.iter().peekable();
        for (sequence, _, bytes) in stored.iter().skip(from).take(count) {
            let found = codec::Envelope::read(bytes).ok();
            let is = |draft: &Draft, found: &codec::Envelope<'_>| {
                found.type_name == draft.payload.type_name() && Some(found.data) == draft.verbatim.as_deref()
            };
            let next = left.next_if(|draft| found.as_ref().is_some_and(|found| is(draft, found)));
            // Before an ending the server itself withdraws pending prompts.
            let withdrawn = found.is_some_and(|found| WITHDRAWALS.contains(&&*found.type_name));
            // Receipts of commands have no drafts, so there is nothing to compare.
            if next.is_none() && !withdrawn && !drafts.is_empty() {
                self.trace.wrong(Check::Once, format_args!("{run} {sequence} is not what its producer sent"));
            }
        }
        if left.peek().is_some() {
            self.trace.wrong(Check::Once, format_args!("{run} has not all that its producer sent"));
        }
    }

    /// Checks that everything that was ever acknowledged is stored.
    pub(super) fn compare_acknowledged(&self) {
        let acknowledged = self.client_record().acknowledged.clone();
        let mut run_at = None;
        let (mut stored, mut removed_before) = (Vec::new(), 0);
        for ((run, sequence), hash) in &acknowledged {
            if run_at != Some(*run) {
                run_at = Some(*run);
                stored = self.stored(*run);
                let is_erased = self.is_erased(*run) && self.is_deletion_requested(*run);
                removed_before = if is_erased { u64::MAX } else { begins(&stored) };
            }
            let found = at(&stored, *sequence);
            let is_removed = found.is_none() && *sequence < removed_before;
            if !is_removed && found.is_none_or(|(.., bytes)| blake3::hash(bytes) != *hash) {
                self.trace
                    .wrong(Check::Durable, format_args!("{run} {sequence} is not as it was acknowledged"));
            }
        }
    }
}
