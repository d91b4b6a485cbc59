//! Repairs damaged catalogue rows: folds their runs again and rewrites the rows. Damaged records cannot be rebuilt;
//! they are reported and stay.
//!
//! If the names of damaged rows are unreliable, the whole log is read run by run, and each row is looked up by name.
//! Rows are written in pieces of limited size. Running erasures are tracked in memory only: one process owns the
//! store, and after a crash the erasure starts again.
//!
//! It must not know how a store detects damage, nor who reads. Start with [`Repairs::after`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::RunId;
use recount_log::{DamagedRow, Fault, FaultKind, ReadResult as _, RepairedRow, RowRepair, Store, StreamKey};

use crate::catalogue::rebuild::fold_run;
use crate::ground::counters::Counters;
use crate::ground::{journal, rows};
use crate::{Error, limits};

/// Repairs the rows of one store, one repair at a time.
pub(crate) struct Repairs {
    store: Arc<dyn Store>,
    counters: Arc<Counters>,
    gate: tokio::sync::Mutex<()>,
    /// The number of repairs that rewrote rows.
    done: AtomicU64,
    /// Held while rows are rewritten and while a run is added to `erasing`.
    writing: tokio::sync::Mutex<()>,
    /// Runs that are being erased: several appends delete their rows, and the last one the run. A row deleted by an
    /// earlier append must not be rewritten, because nothing would delete it again.
    erasing: Mutex<BTreeSet<StreamKey>>,
}

/// Marks a run as being erased until it is dropped. See [`Repairs::erasure_of`].
pub(crate) struct Erasure<'r> {
    repairs: &'r Repairs,
    stream: StreamKey,
}

impl Drop for Erasure<'_> {
    fn drop(&mut self) {
        self.repairs.erasing().remove(&self.stream);
    }
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// Rows were rewritten.
    pub(crate) repaired: bool,
    /// Damage remains that could not be repaired.
    pub(crate) has_damage: bool,
}

impl Outcome {
    /// Whether a call that failed because of damage may succeed now.
    pub(crate) fn is_worth_a_retry(self) -> bool {
        self.repaired || !self.has_damage
    }
}

/// Space and key.
type RowName = (String, String);

impl Repairs {
    pub(crate) fn new(store: Arc<dyn Store>, counters: Arc<Counters>) -> Self {
        Repairs {
            store,
            counters,
            gate: tokio::sync::Mutex::default(),
            done: AtomicU64::new(0),
            writing: tokio::sync::Mutex::default(),
            erasing: Mutex::default(),
        }
    }

    /// From now on no repair writes rows of this run that its last append does not delete.
    pub(crate) async fn erasure_of(&self, stream: &StreamKey) -> Erasure<'_> {
        let _turn = self.writing.lock().await;
        self.erasing().insert(stream.clone());
        Erasure { repairs: self, stream: stream.clone() }
    }

    fn erasing(&self) -> std::sync::MutexGuard<'_, BTreeSet<StreamKey>> {
        self.erasing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a row was deleted permanently although its run still exists.
    fn is_being_erased(&self, stream: &StreamKey, space: &str) -> bool {
        !rows::DELETED_WITH_THE_RUN.contains(&space) && self.erasing().contains(stream)
    }

    /// Repairs rows after a failed call to the store. `None` if that cannot help: another kind of failure, or damage
    /// that an earlier repair could not fix.
    pub(crate) async fn after(&self, fault: &Fault) -> Option<Outcome> {
        let is_of_rows = fault.kind == FaultKind::Corrupt && fault.damage.is_none();
        if !is_of_rows || self.counters.findings().is_given_up(&fault.message) {
            return None;
        }
        Some(self.repair().await)
    }

    /// The same after a read that named damaged rows.
    pub(crate) async fn after_damage(&self, damaged: &[DamagedRow]) -> Option<Outcome> {
        let findings = self.counters.findings();
        if damaged.iter().all(|row| findings.is_given_up(&row.to_string())) {
            return None;
        }
        Some(self.repair().await)
    }

    /// Marks damage as not repairable until the next scrub round.
    pub(crate) fn give_up(&self, what: String) {
        self.counters.findings().give_up(what);
    }

    async fn repair(&self) -> Outcome {
        let before = self.done.load(Ordering::Relaxed);
        let _one = self.gate.lock().await;
        let mut outcome = self.try_repair().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot rebuild damaged rows of the catalogue; retrying later");
            Outcome { repaired: false, has_damage: true }
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
                self.counters.findings().found(format!(
                    "row {row} is damaged and cannot be rebuilt, because it is not part of the catalogue"
                ));
            }
            outcome.has_damage = !others.is_empty();
            if folds.is_empty() {
                return Ok(outcome);
            }
            for row in &folds {
                self.counters.findings().found(format!("catalogue row {row} is damaged"));
            }
            let count = folds.len();
            match self.write_anew(folds).await? {
                Some(RepairCounts { removed, written }) => {
                    outcome.repaired |= removed + written > 0;
                    outcome.has_damage |= removed < count;
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
                // The runs got new events meanwhile.
                None => outcome.has_damage = true,
            }
        }
        Ok(outcome)
    }

    /// `None` if the runs of the rows changed too fast.
    async fn write_anew(&self, damaged: Vec<DamagedRow>) -> Result<Option<RepairCounts>, Error> {
        let runs: Option<BTreeSet<StreamKey>> = damaged.iter().map(stream_of).collect();
        let mut work = RepairWork::of(damaged);
        for stream in runs.unwrap_or_default() {
            self.fold_into(&mut work, &stream, false).await?;
        }
        self.flush(&mut work).await?;
        // A name that no fold has is itself damaged, so an expected row is missing.
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
        // If a run is unreadable, its remaining rows are the only information about it.
        if work.is_whole && !work.moved && !work.is_done() {
            work.replaced.extend(std::mem::take(&mut work.named).into_values());
            work.replaced.append(&mut work.nameless);
            self.flush(&mut work).await?;
        }
        Ok((!work.moved).then_some(RepairCounts { removed: work.removed, written: work.written }))
    }

    /// Adds the damaged rows of a run and, if `and_missing`, its missing rows. Writes when a piece is full, so that
    /// memory use does not depend on the size of the store.
    async fn fold_into(
        &self,
        work: &mut RepairWork,
        stream: &StreamKey,
        and_missing: bool,
    ) -> Result<(), Error> {
        let Some((puts, tail)) = self.fold_one(stream, &mut work.is_whole).await? else { return Ok(()) };
        for (space, key, value) in puts {
            let name = (space.to_string(), key.to_string());
            match work.named.remove(&name) {
                Some(damaged) => work.replaced.push(damaged),
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

    /// Whether no undamaged row has this name.
    async fn is_missing(&self, space: &str, key: &str) -> Result<bool, Error> {
        match self.store.row(space, key).await {
            Ok(row) => Ok(row.is_none()),
            // The row itself is damaged, or it is missing next to damaged bytes.
            Err(fault) if fault.kind == FaultKind::Corrupt && fault.damage.is_none() => Ok(true),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Writes the collected rows in place of the damaged ones.
    async fn flush(&self, work: &mut RepairWork) -> Result<(), Error> {
        let (mut rows, replaced) = (std::mem::take(&mut work.rows), std::mem::take(&mut work.replaced));
        work.bytes = 0;
        if rows.is_empty() && replaced.is_empty() {
            return Ok(());
        }
        let streams: BTreeSet<StreamKey> = rows.iter().map(|row| row.stream.clone()).collect();
        let names: BTreeSet<RowName> =
            rows.iter().map(|row| (row.space.to_string(), row.key.to_string())).collect();
        for _ in 0..limits::REPAIR_TRIES {
            let written = rows.len();
            if self.write(RowRepair { damaged: replaced.clone(), rows }).await? {
                work.removed += replaced.len();
                work.written += written;
                return Ok(());
            }
            // Runs got new events, or their erasure started.
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
        if repair.rows.iter().any(|row| self.is_being_erased(&row.stream, &row.space)) {
            return Ok(false);
        }
        Ok(self.store.repair_rows(repair).await?)
    }

    /// The rows of one run and its next sequence. `None` if the run is unreadable.
    async fn fold_one(&self, stream: &StreamKey, is_whole: &mut bool) -> Result<Option<FoldedRun>, Error> {
        let folded = fold_run(&*self.store, stream).await.readable()?.whole_or(|_| *is_whole = false);
        let Some((puts, state)) = folded.flatten() else { return Ok(None) };
        let puts = puts.into_iter().filter(|put| !self.is_being_erased(stream, &put.space));
        let puts = puts.filter_map(|put| Some((put.space, put.key, put.value?)));
        Ok(Some((puts.collect(), state.next_sequence())))
    }
}

/// Space, key and value of each row, and the next sequence of the run.
type FoldedRun = (Vec<(Arc<str>, Arc<str>, bytes::Bytes)>, u64);

/// Numbers of damaged rows removed and of rows written.
struct RepairCounts {
    removed: usize,
    written: usize,
}

/// Pending and collected rows; at most [`limits::REPAIR_ROWS_MAX`] are collected.
struct RepairWork {
    /// Damaged rows whose names may be intact.
    named: BTreeMap<RowName, DamagedRow>,
    nameless: Vec<DamagedRow>,
    /// Rows to write together, and the damaged rows that they replace.
    rows: Vec<RepairedRow>,
    replaced: Vec<DamagedRow>,
    /// Bytes of the collected values.
    bytes: usize,
    /// Totals of damaged rows removed and of rows written.
    removed: usize,
    written: usize,
    /// Whether every run was readable.
    is_whole: bool,
    /// Whether rows could not be written because their runs changed too fast.
    moved: bool,
}

impl RepairWork {
    fn of(damaged: Vec<DamagedRow>) -> Self {
        let mut work = RepairWork {
            named: BTreeMap::new(),
            nameless: Vec::new(),
            rows: Vec::new(),
            replaced: Vec::new(),
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

    /// Whether no damaged row remains.
    fn is_done(&self) -> bool {
        self.named.is_empty() && self.nameless.is_empty()
    }
}

/// Whether a damaged row belongs to the catalogue. The catalogue spaces sort before all others, so a row before a
/// catalogue row belongs to the catalogue even if its name is damaged.
fn is_of_catalogue(row: &DamagedRow) -> bool {
    let is_named = str::from_utf8(&row.space).is_ok_and(|space| rows::CATALOGUE.contains(&space));
    is_named || row.after.as_deref().is_some_and(|after| rows::CATALOGUE.contains(&after))
}

/// The name of a row, if it may be intact.
fn name_of(row: &DamagedRow) -> Option<RowName> {
    let (space, key) = (str::from_utf8(&row.space).ok()?, str::from_utf8(&row.key).ok()?);
    rows::CATALOGUE.contains(&space).then(|| (space.to_owned(), key.to_owned()))
}

/// The run of a row, if its key names it.
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
    fn catalogue_rows_are_recognized_by_their_order() {
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
