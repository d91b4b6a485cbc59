//! Writes one group of appends in an open transaction: each append is checked before anything of it is written, so
//! a refused one affects no other.
//!
//! It must not know when the transaction begins, how it ends or which callers wait.

use recount_log::{Append, AppendError, Fault, FaultKind, FeedRecord, Record, StreamAppend, StreamKey};
use rusqlite::Connection;

use crate::changes::ChangeJournal;
use crate::cut;
use crate::fault::FaultContext as _;
use crate::hot::{self, Hot, RemovedRecords, StreamSpan};
use crate::layout::{self, KnownTail, StoreEnd, Totals};
use crate::packing;
use crate::pending_rows::{PendingRows, RowState, RowStates};
use crate::rows;
use crate::tails::Tails;

/// The appends of one transaction so far.
pub(crate) struct Group<'c> {
    connection: &'c Connection,
    tails: &'c mut Tails,
    shared: GroupContext<'c>,
    ends: StoreEnd,
    written: &'c mut GroupOutcome,
    others_changed: bool,
}

/// The committed state in memory.
#[derive(Clone, Copy)]
pub(crate) struct GroupContext<'c> {
    pub(crate) hot: &'c Hot,
    pub(crate) pending_rows: &'c PendingRows,
    pub(crate) journal: &'c ChangeJournal,
    /// See [`crate::limits::FRESH_ROWS_MAX`].
    pub(crate) fresh_rows_max: usize,
}

/// The outcome of a group, for the observer and the indexes once it is durable. One is reused for all groups, to save
/// allocations.
#[derive(Default)]
pub(crate) struct GroupOutcome {
    pub(crate) records: Vec<FeedRecord>,
    /// For each record the number of its stream.
    owners: Vec<i64>,
    /// In order of position.
    spans: Vec<StreamSpan>,
    removed: Vec<RemovedRecords>,
    ends: StoreEnd,
    totals: Totals,
    /// The new states of rows.
    states: RowStates,
    /// All rows that were pending before are in the table.
    folded: bool,
    /// The new position of the journal of changed rows, if it moved.
    journal: Option<ChangeJournal>,
}

/// A value that can be read back to find out whether a commit was written.
pub(crate) enum CommitProof {
    /// A group that ends at this position exists.
    Position(u64),
    /// The fence was raised to this. (A row's version would prove nothing: the row may have been created again.)
    Fence(i64),
    /// Nothing was changed.
    Nothing,
}

impl<'c> Group<'c> {
    pub(crate) fn begin(
        connection: &'c Connection,
        tails: &'c mut Tails,
        shared: GroupContext<'c>,
        written: &'c mut GroupOutcome,
    ) -> Self {
        written.clear();
        Group { connection, tails, shared, ends: shared.hot.ends(), written, others_changed: false }
    }

    /// Checks one append and writes it if it is valid. Returns the position of its first record; the others follow in
    /// order. A fault voids the whole group. An append that removes records must be the only one of its group.
    pub(crate) fn add(&mut self, append: &Append) -> Result<Result<u64, AppendError>, Fault> {
        let named = append.streams.iter().map(|part| &part.stream);
        let named = named.chain(append.cuts.iter().map(|cut| &cut.stream));
        if let Some(fault) = named.into_iter().find_map(|key| self.shared.hot.refusal(key)) {
            return Ok(Err(fault.into()));
        }
        for part in &append.streams {
            let known = self.known(&part.stream)?;
            let (expected, actual) = (part.expected_tail, known.next_sequence);
            if known.erased {
                return Ok(Err(AppendError::Erased { stream: part.stream.to_string() }));
            }
            if expected != actual {
                let stream = part.stream.to_string();
                return Ok(Err(AppendError::TailMoved { stream, expected, actual }));
            }
        }
        for cut in &append.cuts {
            let (expected, actual) = (cut.keep_from, self.known(&cut.stream)?.next_sequence);
            if expected > actual {
                let stream = cut.stream.to_string();
                return Ok(Err(AppendError::TailMoved { stream, expected, actual }));
            }
        }
        let mut before = Vec::with_capacity(append.rows.len());
        for put in &append.rows {
            let (actual, in_table) = match self.row(&put.space, &put.key) {
                Ok(found) => found,
                // This append has written nothing yet, and a damaged row must not affect other appends.
                Err(fault) if fault.kind == FaultKind::Corrupt => return Ok(Err(fault.into())),
                Err(fault) => return Err(fault),
            };
            if !put.guard.admits(actual) {
                let (space, key) = (put.space.to_string(), put.key.to_string());
                return Ok(Err(AppendError::GuardFailed { space, key, actual }));
            }
            before.push((actual, in_table));
        }

        for cut in &append.cuts {
            let known = self.known(&cut.stream)?;
            if cut.keep_from > known.first_sequence {
                self.remove_from_stream(&cut.stream, known, cut.keep_from, false)?;
            }
        }
        for key in &append.erased {
            let known = self.known(key)?;
            // An unknown stream has no number.
            if known.id != 0 && !known.erased {
                self.remove_from_stream(key, known, known.next_sequence, true)?;
            }
        }
        let first_position = self.ends.last_position + 1;
        for part in &append.streams {
            self.remove_records(part)?;
        }
        for (put, (actual, in_table)) in append.rows.iter().zip(before) {
            let row = put.value.as_ref().map(|value| (actual.unwrap_or(0) + 1, value.clone()));
            if row.is_some() || actual.is_some() {
                self.written.states.put(&put.space, &put.key, RowState { row, in_table });
            }
        }
        Ok(Ok(first_position))
    }

    /// Writes all records as one row, and all row changes as one. Only the commit remains.
    pub(crate) fn finish(mut self) -> Result<CommitProof, Fault> {
        self.write_changes()?;
        let written = self.written;
        written.ends = self.ends;
        match (written.records.first(), written.records.last()) {
            (Some(first), Some(last)) => {
                let bytes = written.records.iter().map(|feed| Some(&feed.record.bytes[..]));
                let joined = packing::join(bytes);
                let slots = written.owners.iter().zip(&written.records);
                let slots = slots.map(|(id, feed)| (*id, feed.record.sequence, feed.record.bytes.len()));
                let index = packing::group_index(first.record.position, &joined, false, slots);
                let position = first.record.position;
                layout::insert_group(self.connection, position, written.records.len(), &index, &joined)
                    .context(&format!("writing the records from position {position} on"))?;
                Ok(CommitProof::Position(last.record.position))
            }
            _ if self.others_changed => {
                Ok(CommitProof::Fence(layout::raise_fence(self.connection).context("updating the fence")?))
            }
            _ => Ok(CommitProof::Nothing),
        }
    }

    /// Writes the changes of rows, and moves earlier ones to the table when there are many. When content was removed,
    /// no copy may remain elsewhere.
    fn write_changes(&mut self) -> Result<(), Fault> {
        let (removes, changes) = (self.written.has_removed(), !self.written.states.is_empty());
        self.others_changed |= changes;
        if !removes && !changes {
            return Ok(());
        }
        let GroupContext { pending_rows, journal, fresh_rows_max, .. } = self.shared;
        let mut journal = journal.clone();
        if removes {
            journal.fold_with(self.connection, pending_rows, &self.written.states)?;
            journal.empty(self.connection)?;
            self.written.states.clear();
            self.written.folded = true;
        } else {
            if journal.is_full() || pending_rows.amount().is_much(fresh_rows_max) {
                journal.fold(self.connection, pending_rows)?;
                self.written.folded = true;
                if journal.holds_much() {
                    journal.empty(self.connection)?;
                }
            }
            journal.record(self.connection, &self.written.states)?;
        }
        self.written.journal = Some(journal);
        Ok(())
    }

    /// The current version of a row, and whether the table has a row of this name.
    fn row(&self, space: &str, key: &str) -> Result<(Option<u64>, bool), Fault> {
        if let Some(state) = self.written.states.get(space, key) {
            return Ok((state.version(), state.in_table));
        }
        if let Some(state) = self.shared.pending_rows.get(space, key) {
            return Ok((state.version(), state.in_table));
        }
        let version = rows::row_version(self.connection, space, key);
        let version = version.context(&format!("reading row {space}/{key}"))?;
        Ok((version, version.is_some()))
    }

    /// The current tail of a stream; without a number if it does not exist.
    fn known(&mut self, key: &StreamKey) -> Result<KnownTail, Fault> {
        self.tails.find(self.connection, self.shared.hot, key)
    }

    fn remove_from_stream(
        &mut self,
        key: &StreamKey,
        known: KnownTail,
        keep_from: u64,
        erased: bool,
    ) -> Result<(), Fault> {
        let removed = cut::cut(self.connection, self.shared.hot, key, known, keep_from, erased)?;
        self.tails.put(key, removed.known);
        self.written.removed.push(removed);
        self.others_changed = true;
        Ok(())
    }

    fn remove_records(&mut self, part: &StreamAppend) -> Result<(), Fault> {
        let mut known = self.known(&part.stream)?;
        if known.id == 0 {
            self.ends.last_stream += 1;
            known.id = self.ends.last_stream;
            layout::insert_stream(self.connection, &part.stream, known.id)
                .context(&format!("writing the name of stream {}", part.stream))?;
        }
        let (key, first_sequence) = (&part.stream, known.next_sequence);
        for bytes in &part.records {
            self.ends.last_position += 1;
            let position = self.ends.last_position;
            let record = Record { position, sequence: known.next_sequence, bytes: bytes.clone() };
            known.next_sequence += 1;
            known.last_position = position;
            self.written.totals.more(Totals::one(bytes));
            self.written.records.push(FeedRecord { stream: key.clone(), record });
            self.written.owners.push(known.id);
        }
        let count = part.records.len() as u64;
        self.written.spans.push(StreamSpan { key: key.clone(), first_sequence, count, known });
        self.tails.put(key, known);
        Ok(())
    }
}

impl GroupOutcome {
    fn clear(&mut self) {
        self.records.clear();
        self.owners.clear();
        self.spans.clear();
        self.removed.clear();
        self.totals = Totals::default();
        self.states.clear();
        self.folded = false;
        self.journal = None;
    }

    /// Whether content was removed, which must then leave the write-ahead log too.
    pub(crate) fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Whether the removed content was of a hot stream. Call it before [`GroupOutcome::publish`].
    pub(crate) fn has_removed_hot(&self, hot: &Hot) -> bool {
        self.removed.iter().any(|removed| hot.known(&removed.key).is_some())
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Publishes the group to the in-memory indexes that readers use.
    pub(crate) fn publish(&mut self, hot: &Hot, pending_rows: &PendingRows, journal: &mut ChangeJournal) {
        if let Some(moved) = self.journal.take() {
            *journal = moved;
            pending_rows.publish(&mut self.states, self.folded, recount_world::moment());
        }
        for removed in &self.removed {
            hot.remove_records(removed);
        }
        if let (Some(first), Some(last)) = (self.records.first(), self.records.last()) {
            let (first_position, last_position) = (first.record.position, last.record.position);
            let since = recount_world::moment();
            let (totals, spans) = (self.totals, &self.spans[..]);
            let group = hot::CommittedGroup { first_position, last_position, totals, since, spans };
            hot.add_group(&group, self.ends);
        }
    }

    /// Drops the changes of a group that was not committed from the writer's cache.
    pub(crate) fn discard(&self, tails: &mut Tails) {
        let (written, removed) =
            (self.spans.iter().map(|span| &span.key), self.removed.iter().map(|one| &one.key));
        written.chain(removed).for_each(|key| tails.forget(key));
    }
}

impl CommitProof {
    /// Whether the group is in the database.
    pub(crate) fn holds(&self, connection: &Connection) -> rusqlite::Result<bool> {
        match self {
            CommitProof::Position(last) => Ok(layout::last_position(connection)? >= *last),
            CommitProof::Fence(count) => Ok(layout::fence(connection)? >= *count),
            CommitProof::Nothing => Ok(false),
        }
    }
}
