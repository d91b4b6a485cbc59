//! The checks of a play of nodes, made at each step from outside: from the statements that the database executed, from the
//! results that clients got, and from the effects that began.
//!
//! It must not know the rules of `crates/log-postgres`.

use std::collections::{BTreeMap, BTreeSet};

use recount_log_postgres::limits::LEASE;

use super::database::{LogRecord, Process, Response, SimDatabase, Statement};
use crate::trace::{Check, Trace};

#[derive(Default)]
pub(super) struct Auditor {
    /// Who took the store in each epoch, and whose commits succeeded in it.
    takers: BTreeMap<i64, Process>,
    committers: BTreeMap<i64, Process>,
    /// When the lease of each node expires, as it was last granted.
    granted: BTreeMap<Process, u64>,
    /// Nodes that ended their lease themselves, and epochs in which the store was given back.
    left: BTreeSet<Process>,
    given_back: BTreeSet<i64>,
    /// The records of the log by what the client sent.
    committed: BTreeMap<u64, u64>,
    seen: usize,
    acknowledged: BTreeSet<u64>,
    /// What was reported as not committed, and was not sent again.
    refused: BTreeSet<u64>,
    last_acknowledged: BTreeMap<Process, u64>,
}

impl Auditor {
    /// A statement was executed. `epoch` is that of the database before it.
    pub(super) fn executed(
        &mut self,
        trace: &Trace,
        database: &SimDatabase,
        (process, statement, response): (Process, &Statement, &Response),
        now_us: u64,
    ) {
        match (statement, response) {
            (Statement::AddNode | Statement::Renew, Response::Done(true)) => {
                self.granted.insert(process, now_us + super::micros(LEASE));
            }
            (Statement::RemoveNode, _) => drop(self.left.insert(process)),
            (Statement::GiveBack { epoch }, Response::Done(true)) => drop(self.given_back.insert(*epoch)),
            (Statement::Take, Response::Taken(counters)) => {
                self.check_take_over(trace, process, counters.epoch, now_us);
            }
            (Statement::Load, _) if self.takers.values().all(|taker| *taker != process) => {
                trace.wrong(Check::Opening, format_args!("{process} loads before it has taken the store"));
            }
            (Statement::Commit { .. }, Response::Done(true)) => {
                let epoch = database.counters.epoch;
                let first = *self.committers.entry(epoch).or_insert(process);
                let taker = self.takers.get(&epoch);
                if first != process || taker != Some(&process) {
                    trace
                        .wrong(Check::Fence, format_args!("{process} commits in epoch {epoch} of {taker:?}"));
                }
                self.check_log(trace, &database.log);
            }
            _ => {}
        }
    }

    fn check_take_over(&mut self, trace: &Trace, process: Process, epoch: i64, now_us: u64) {
        if let Some(before) = self.takers.get(&(epoch - 1)).copied().filter(|before| *before != process) {
            let has_expired = self.granted.get(&before).is_none_or(|until| *until < now_us);
            if !has_expired && !self.left.contains(&before) && !self.given_back.contains(&(epoch - 1)) {
                trace.wrong(
                    Check::TakeOver,
                    format_args!("{process} takes the store of {before}, whose lease is valid"),
                );
            }
        }
        self.takers.insert(epoch, process);
    }

    /// Checks what was added to the log.
    fn check_log(&mut self, trace: &Trace, log: &[LogRecord]) {
        for (index, record) in log.iter().enumerate().skip(self.seen) {
            let index = index as u64;
            if (record.position, record.sequence) != (index + 1, index) {
                trace.wrong(Check::Dense, format_args!("{record:?} at index {index}"));
            }
            if let Some(earlier) = self.committed.insert(record.id, record.position) {
                trace.wrong(Check::Once, format_args!("{record:?} is also at position {earlier}"));
            }
            if self.refused.contains(&record.id) {
                trace.wrong(Check::Once, format_args!("{record:?} was reported as not committed"));
            }
        }
        self.seen = log.len();
    }

    /// A client was notified that its records are committed.
    pub(super) fn acknowledged(&mut self, trace: &Trace, process: Process, ids: &[u64]) {
        for id in ids {
            let last = self.last_acknowledged.entry(process).or_default();
            match self.committed.get(id) {
                Some(position) if *position > *last => *last = *position,
                Some(position) => trace.wrong(
                    Check::Once,
                    format_args!("{id} at position {position} is acknowledged after position {last}"),
                ),
                None => trace.wrong(Check::Once, format_args!("{id} is acknowledged and not in the log")),
            }
            if !self.acknowledged.insert(*id) {
                trace.wrong(Check::Once, format_args!("{id} is acknowledged twice"));
            }
        }
    }

    pub(super) fn is_acknowledged(&self, id: u64) -> bool {
        self.acknowledged.contains(&id)
    }

    /// A client was notified that a record is certainly not committed.
    pub(super) fn refused(&mut self, trace: &Trace, id: u64) {
        if self.committed.contains_key(&id) {
            trace.wrong(Check::Once, format_args!("{id} is reported as not committed, and is in the log"));
        }
        self.refused.insert(id);
    }

    /// A client sends a refused record again.
    pub(super) fn sent_again(&mut self, id: u64) {
        self.refused.remove(&id);
    }

    /// An effect began.
    pub(super) fn began(&self, trace: &Trace, process: Process) {
        if let Some((epoch, owner)) = self.takers.last_key_value().filter(|(_, owner)| **owner != process) {
            let what =
                format_args!("an effect begins on {process}, and {owner} took the store in epoch {epoch}");
            trace.wrong(Check::Effects, what);
        }
    }
}
