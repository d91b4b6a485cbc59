//! Damaged rows of the catalogue: folded again from the log and written anew in their place. Damaged records, which are
//! no folds, are reported and stay as they are.
//!
//! Where the names of damaged rows are not to be trusted the whole log is read, a run at a time; each of its rows is looked
//! up by its name, and what is to be written is written in pieces, so that the size of the store does not count. That a
//! run is being erased is known here and not in the store: only one process has it, and one that dies begins again.
//!
//! It must not know how a store notices damage, nor who was reading. Entry point: [`Repairs::after`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::RunId;
use recount_log::{DamagedRow, Fault, FaultKind, RepairedRow, RowRepair, Store, StreamKey};

use crate::catalogue::rebuild::fold_run;
use crate::ground::counters::Counters;
use crate::ground::{journal, rows};
use crate::{Error, limits};

/// Repairs the rows of one store, one repair at a time.
pub(crate) struct Repairs {
    store: Arc<dyn Store>,
    meters: Arc<Counters>,
    gate: tokio::sync::Mutex<()>,
    /// Repairs that wrote rows anew.
    done: AtomicU64,
    /// Held while rows are written anew, and while a run comes into `erasing`.
    writing: tokio::sync::Mutex<()>,
    /// Runs that are being erased: their rows go in several appends, and the run itself with the last. What went with the
    /// ones before would not be taken away again.
    erasing: Mutex<BTreeSet<StreamKey>>,
}

/// A run is being erased until this is dropped. See [`Repairs::erasure_of`].
pub(crate) struct Erasure<'r> {
    repairs: &'r Repairs,
    stream: StreamKey,
}

impl Drop for Erasure<'_> {
    fn drop(&mut self) {
        self.repairs.erasing().remove(&self.stream);
    }
}

/// What a repair came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// Rows were written anew.
    pub(crate) repaired: bool,
    /// There is damage that could not be repaired.
    pub(crate) left: bool,
}

impl Outcome {
    /// Whether what failed for damage may succeed now.
    pub(crate) fn is_worth_a_retry(self) -> bool {
        self.repaired || !self.left
    }
}

/// Space and key.
type Name = (String, String);

impl Repairs {
    pub(crate) fn new(store: Arc<dyn Store>, meters: Arc<Counters>) -> Self {
        Repairs {
            store,
            meters,
            gate: tokio::sync::Mutex::default(),
            done: AtomicU64::new(0),
            writing: tokio::sync::Mutex::default(),
            erasing: Mutex::default(),
        }
    }

    /// From here on no repair writes rows of this run that its last append does not take away.
    pub(crate) async fn erasure_of(&self, stream: &StreamKey) -> Erasure<'_> {
        let _turn = self.writing.lock().await;
        self.erasing().insert(stream.clone());
        Erasure { repairs: self, stream: stream.clone() }
    }

    fn erasing(&self) -> std::sync::MutexGuard<'_, BTreeSet<StreamKey>> {
        self.erasing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a row went for good, although its run is still there.
    fn is_going(&self, stream: &StreamKey, space: &str) -> bool {
        !rows::GO_WITH_THE_RUN.contains(&space) && self.erasing().contains(stream)
    }

    /// Repairs what it can after a call to the store that failed. `None` where that does not help: another failure, or
    /// damage that an earlier repair left.
    pub(crate) async fn after(&self, fault: &Fault) -> Option<Outcome> {
        let is_of_rows = fault.kind == FaultKind::Corrupt && fault.damage.is_none();
        if !is_of_rows || self.meters.findings().is_given_up(&fault.message) {
            return None;
        }
        Some(self.repair().await)
    }

    /// The same after a read that named damaged rows.
    pub(crate) async fn after_damage(&self, damaged: &[DamagedRow]) -> Option<Outcome> {
        let findings = self.meters.findings();
        if damaged.iter().all(|row| findings.is_given_up(&row.to_string())) {
            return None;
        }
        Some(self.repair().await)
    }

    /// What is damaged still is not tried again until the next round of the scrub.
    pub(crate) fn give_up(&self, what: String) {
        self.meters.findings().give_up(what);
    }

    async fn repair(&self) -> Outcome {
        let before = self.done.load(Ordering::Relaxed);
        let _one = self.gate.lock().await;
        let mut outcome = self.try_repair().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot rebuild damaged rows of the catalogue; retrying later");
            Outcome { repaired: false, left: true }
        });
        if outcome.repaired {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        // Another call may have repaired the same rows while this one waited.
        outcome.repaired |= self.done.load(Ordering::Relaxed) != before;
        outcome
    }

    async fn try_repair(&self) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        for _ in 0..limits::REPAIR_TRIES {
            let damaged = self.store.damaged_rows().await?;
            let may_be_more = damaged.len() >= recount_log::limits::DAMAGED_ROWS_MAX;
            let (folds, others): (Vec<_>, Vec<_>) = damaged.into_iter().partition(is_of_catalogue);
            for row in &others {
                self.meters.findings().found(format!(
                    "row {row} is damaged and cannot be rebuilt, because it is not part of the catalogue"
                ));
            }
            outcome.left = !others.is_empty();
            if folds.is_empty() {
                return Ok(outcome);
            }
            for row in &folds {
                self.meters.findings().found(format!("catalogue row {row} is damaged"));
            }
            let count = folds.len();
            match self.write_anew(folds).await? {
                Some(Repaired { removed, written }) => {
                    outcome.repaired |= removed + written > 0;
                    outcome.left |= removed < count;
                    if outcome.repaired {
                        tracing::warn!(
                            damaged = removed,
                            rows = written,
                            "damaged rows of the catalogue were rebuilt from the log"
                        );
                    }
                    if !may_be_more || removed == 0 {
                        return Ok(outcome);
                    }
                }
                // The runs went on meanwhile.
                None => outcome.left = true,
            }
        }
        Ok(outcome)
    }

    /// `None` when the runs that the rows are of moved on too fast.
    async fn write_anew(&self, damaged: Vec<DamagedRow>) -> Result<Option<Repaired>, Error> {
        let runs: Option<BTreeSet<StreamKey>> = damaged.iter().map(stream_of).collect();
        let mut work = Work::of(damaged);
        for stream in runs.unwrap_or_default() {
            self.fold_into(&mut work, &stream, false).await?;
        }
        self.flush(&mut work).await?;
        // A name that no fold has is not the one that the row was written with: one that should be there is not.
        if !work.is_done() {
            let mut after = None;
            loop {
                let streams = self.store.streams(after.take(), limits::PAGE_EVENTS).await?;
                let Some(last) = streams.last() else { break };
                after = Some(last.clone());
                for stream in streams {
                    self.fold_into(&mut work, &stream, true).await?;
                }
            }
            self.flush(&mut work).await?;
        }
        // Where a run cannot be read, what is left of its rows is all that tells of them.
        if work.is_whole && !work.moved && !work.is_done() {
            work.gone.extend(std::mem::take(&mut work.named).into_values());
            work.gone.append(&mut work.nameless);
            self.flush(&mut work).await?;
        }
        Ok((!work.moved).then_some(Repaired { removed: work.removed, written: work.written }))
    }

    /// Adds the rows of a run that are damaged and, where the whole log is looked at, those that are missing. What is
    /// in hand is written when it is enough, so that the size of the store does not count.
    async fn fold_into(&self, work: &mut Work, stream: &StreamKey, and_missing: bool) -> Result<(), Error> {
        let Some((puts, tail)) = self.fold_one(stream, &mut work.is_whole).await? else { return Ok(()) };
        for (space, key, value) in puts {
            let name = (space.to_string(), key.to_string());
            match work.named.remove(&name) {
                Some(damaged) => work.gone.push(damaged),
                None if and_missing && self.is_missing(&space, &key).await? => {}
                None => continue,
            }
            work.bytes += value.len();
            let stream = stream.clone();
            work.rows.push(RepairedRow { space, key, value, stream, expected_tail: tail });
            if work.rows.len() >= limits::REPAIR_ROWS_MAX || work.bytes >= limits::REPAIR_BYTES_MAX {
                self.flush(work).await?;
            }
        }
        Ok(())
    }

    /// Whether no whole row has this name.
    async fn is_missing(&self, space: &str, key: &str) -> Result<bool, Error> {
        match self.store.row(space, key).await {
            Ok(row) => Ok(row.is_none()),
            // It is damaged itself, or it is missing and what lies beside its place is damaged.
            Err(fault) if fault.kind == FaultKind::Corrupt && fault.damage.is_none() => Ok(true),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Writes what is in hand in the place of what is damaged of it.
    async fn flush(&self, work: &mut Work) -> Result<(), Error> {
        let (mut rows, gone) = (std::mem::take(&mut work.rows), std::mem::take(&mut work.gone));
        work.bytes = 0;
        if rows.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let streams: BTreeSet<StreamKey> = rows.iter().map(|row| row.stream.clone()).collect();
        let names: BTreeSet<Name> =
            rows.iter().map(|row| (row.space.to_string(), row.key.to_string())).collect();
        for _ in 0..limits::REPAIR_TRIES {
            let written = rows.len();
            if self.write(RowRepair { damaged: gone.clone(), rows }).await? {
                work.removed += gone.len();
                work.written += written;
                return Ok(());
            }
            // Runs went on, or began to be erased.
            rows = Vec::new();
            for stream in &streams {
                let Some((puts, tail)) = self.fold_one(stream, &mut work.is_whole).await? else { continue };
                let wanted = puts
                    .into_iter()
                    .filter(|(space, key, _)| names.contains(&(space.to_string(), key.to_string())));
                rows.extend(wanted.map(|(space, key, value)| {
                    let stream = stream.clone();
                    RepairedRow { space, key, value, stream, expected_tail: tail }
                }));
            }
        }
        work.moved = true;
        Ok(())
    }

    async fn write(&self, repair: RowRepair) -> Result<bool, Error> {
        let _turn = self.writing.lock().await;
        if repair.rows.iter().any(|row| self.is_going(&row.stream, &row.space)) {
            return Ok(false);
        }
        Ok(self.store.repair_rows(repair).await?)
    }

    /// The rows of one run and where it ends; nothing of one that cannot be read.
    async fn fold_one(&self, stream: &StreamKey, is_whole: &mut bool) -> Result<Option<Folded>, Error> {
        match fold_run(&*self.store, stream).await {
            Ok(None) => Ok(None),
            Ok(Some((puts, state))) => {
                let puts = puts.into_iter().filter(|put| !self.is_going(stream, &put.space));
                let puts = puts.filter_map(|put| Some((put.space, put.key, put.value?)));
                Ok(Some((puts.collect(), state.next_sequence())))
            }
            Err(error) if error.is_damage() => {
                *is_whole = false;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Space, key and value of each row, and where the run ends.
type Folded = (Vec<(Arc<str>, Arc<str>, bytes::Bytes)>, u64);

/// What a repair did: damaged rows that are gone, and rows that were written.
struct Repaired {
    removed: usize,
    written: usize,
}

/// What is to be done yet, and what is in hand: at most [`limits::REPAIR_ROWS_MAX`] rows.
struct Work {
    /// Damaged rows whose names can be the ones that they were written with.
    named: BTreeMap<Name, DamagedRow>,
    nameless: Vec<DamagedRow>,
    /// Rows that are written together, and the damaged ones that go then.
    rows: Vec<RepairedRow>,
    gone: Vec<DamagedRow>,
    /// Of the values in hand.
    bytes: usize,
    /// Damaged rows that went so far, and rows that were written.
    removed: usize,
    written: usize,
    /// Whether every run could be read.
    is_whole: bool,
    /// Whether something could not be written, because its runs went on too fast.
    moved: bool,
}

impl Work {
    fn of(damaged: Vec<DamagedRow>) -> Self {
        let mut work = Work {
            named: BTreeMap::new(),
            nameless: Vec::new(),
            rows: Vec::new(),
            gone: Vec::new(),
            bytes: 0,
            removed: 0,
            written: 0,
            is_whole: true,
            moved: false,
        };
        for row in damaged {
            match name_of(&row) {
                Some(name) => drop(work.named.insert(name, row)),
                None => work.nameless.push(row),
            }
        }
        work
    }

    /// Whether nothing damaged is left.
    fn is_done(&self) -> bool {
        self.named.is_empty() && self.nameless.is_empty()
    }
}

/// Whether a damaged row was one of the catalogue. Its spaces come before all others in the order of rows, so what lies
/// before a row of the catalogue was one, whatever its name says now.
fn is_of_catalogue(row: &DamagedRow) -> bool {
    let is_named = str::from_utf8(&row.space).is_ok_and(|space| rows::CATALOGUE.contains(&space));
    is_named || row.after.as_deref().is_some_and(|after| rows::CATALOGUE.contains(&after))
}

/// The name of a row, if it can be the one that it was written with.
fn name_of(row: &DamagedRow) -> Option<Name> {
    let (space, key) = (str::from_utf8(&row.space).ok()?, str::from_utf8(&row.key).ok()?);
    rows::CATALOGUE.contains(&space).then(|| (space.to_owned(), key.to_owned()))
}

/// The run that a row is of, where its key says so.
fn stream_of(row: &DamagedRow) -> Option<StreamKey> {
    let (space, key) = name_of(row)?;
    let run = match space.as_str() {
        rows::RUNS
        | rows::TASK_RUNS
        | rows::SESSION_RUNS
        | rows::RUN_SUCCESSORS
        | rows::DEADLINES
        | rows::OWN_OPEN => key.rsplit('/').next(),
        rows::RUN_ARTIFACTS => key.split('/').nth(1),
        _ => None,
    };
    let run: RunId = run?.parse().ok()?;
    Some(journal::stream_of(run))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn damaged(space: &[u8], key: &str, after: Option<&str>) -> DamagedRow {
        let (space, key) = (Bytes::copy_from_slice(space), Bytes::copy_from_slice(key.as_bytes()));
        DamagedRow { space, key, before: None, after: after.map(Into::into) }
    }

    #[test]
    fn the_order_of_rows_says_what_belongs_to_the_catalogue() {
        for (space, after, expected) in [
            (&b"catalogue.runs"[..], None, true),
            (b"catalogue.runs", Some("record.tasks"), true),
            (b"cat\xe1logue.runs", Some("catalogue.runs"), true),
            (b"cat\xe1logue.runs", Some("record.tasks"), false),
            (b"record.tasks", None, false),
            (b"record.tasks", Some("record.tokens"), false),
        ] {
            assert_eq!(is_of_catalogue(&damaged(space, "k", after)), expected, "{space:?} {after:?}");
        }
        let mut sorted = rows::SPACES.to_vec();
        sorted.sort_unstable();
        let first_others = sorted.iter().position(|space| !rows::CATALOGUE.contains(space)).unwrap();
        assert_eq!(first_others, rows::CATALOGUE.len(), "no other space comes before one of the catalogue");
    }
}
