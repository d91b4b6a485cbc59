//! The simulated database: the rows of nodes and of one store, as `crates/log-postgres` keeps them. Each statement is
//! atomic, and takes its time from the clock of the database.
//!
//! It must not know the network.

use std::collections::BTreeMap;
use std::fmt;

use recount_log_postgres::limits::LEASE;
use recount_log_postgres::rules::{Counters, OwnerSeen};

use super::NodeMutant;

/// One start of a server on a machine, as a node of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) machine: usize,
    pub(super) start: u32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.machine, self.start)
    }
}

/// A record to be appended: its sequence by the memory of its node, and what the client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewRecord {
    pub(super) sequence: u64,
    pub(super) id: u64,
}

/// The statements of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    AddNode,
    Renew,
    RemoveNode,
    Probe,
    /// Deletes the other nodes whose leases have expired.
    Expire,
    Take,
    ReadOwner,
    /// Reads what an engine needs when it opens.
    Load,
    Commit {
        before: Counters,
        after: Counters,
        records: Vec<NewRecord>,
    },
    /// Skips the number after these counters unless it is used.
    Skip(Counters),
    ReadCounters,
    GiveBack {
        epoch: i64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    /// Whether it changed a row, or found one.
    Done(bool),
    Taken(Counters),
    Owner(OwnerSeen),
    /// The sequence of the next record.
    Loaded(u64),
    Counters(Counters),
    /// An error; nothing was changed.
    Error,
}

/// A record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogRecord {
    pub(super) position: u64,
    pub(super) sequence: u64,
    pub(super) id: u64,
}

pub(super) struct SimDatabase {
    pub(super) mutant: Option<NodeMutant>,
    /// When the leases of the nodes expire, in microseconds of the database's clock.
    pub(super) nodes: BTreeMap<Process, u64>,
    pub(super) owner: Option<Process>,
    pub(super) counters: Counters,
    pub(super) log: Vec<LogRecord>,
}

impl SimDatabase {
    pub(super) fn new(mutant: Option<NodeMutant>) -> Self {
        let counters = Counters { epoch: 0, group_number: 0, last_position: 0, last_stream: 0 };
        SimDatabase { mutant, nodes: BTreeMap::new(), owner: None, counters, log: Vec::new() }
    }

    pub(super) fn execute(&mut self, process: Process, statement: &Statement, now_us: u64) -> Response {
        let until_us = now_us + super::micros(LEASE);
        match statement {
            Statement::AddNode => Response::Done(self.nodes.insert(process, until_us).is_none()),
            Statement::Renew => {
                let row = self.nodes.get_mut(&process);
                Response::Done(row.map(|until| *until = until_us).is_some())
            }
            Statement::RemoveNode => Response::Done(self.delete_nodes(|node, _| node == process)),
            Statement::Probe => Response::Done(true),
            Statement::Expire => {
                let ignores_time = self.mutant == Some(NodeMutant::TakeOverEarly);
                let expired = |node, until| node != process && (until < now_us || ignores_time);
                Response::Done(self.delete_nodes(expired))
            }
            // The owner references the row of its node.
            Statement::Take if !self.nodes.contains_key(&process) => Response::Error,
            Statement::Take if self.owner.is_some_and(|owner| owner != process) => Response::Done(false),
            Statement::Take => {
                self.counters.epoch += 1;
                self.owner = Some(process);
                Response::Taken(self.counters)
            }
            Statement::ReadOwner => {
                let owner = self.owner.and_then(|owner| Some((owner, *self.nodes.get(&owner)?)));
                owner.map_or(Response::Done(false), |(owner, until)| {
                    let millis = |us: u64| i64::try_from(us / 1000).unwrap_or(i64::MAX);
                    let remaining_ms = millis(until) - millis(now_us);
                    Response::Owner(OwnerSeen {
                        node: owner.to_string(),
                        until_ms: millis(until),
                        remaining_ms,
                    })
                })
            }
            Statement::Load => Response::Loaded(self.log.len() as u64),
            Statement::Commit { before, after, records } => {
                Response::Done(self.commit(process, *before, *after, records))
            }
            Statement::Skip(before) => {
                let found = self.is_owner(process, *before);
                self.counters.group_number += if found { 2 } else { 0 };
                if found { Response::Counters(self.counters) } else { Response::Done(false) }
            }
            Statement::ReadCounters => Response::Counters(self.counters),
            Statement::GiveBack { epoch } => {
                let found = self.counters.epoch == *epoch;
                self.owner = self.owner.filter(|_| !found);
                Response::Done(found)
            }
        }
    }

    fn is_owner(&self, process: Process, before: Counters) -> bool {
        let is_fenced = self.mutant != Some(NodeMutant::NoFence)
            && (self.counters.epoch != before.epoch || self.owner != Some(process));
        !is_fenced && self.counters.group_number == before.group_number
    }

    fn commit(&mut self, process: Process, before: Counters, after: Counters, records: &[NewRecord]) -> bool {
        if !self.is_owner(process, before) {
            return false;
        }
        let first = after.last_position - records.len() as u64 + 1;
        self.counters =
            Counters { group_number: self.counters.group_number + 1, epoch: self.counters.epoch, ..after };
        let positions = first..=after.last_position;
        self.log.extend(positions.zip(records).map(|(position, record)| LogRecord {
            position,
            sequence: record.sequence,
            id: record.id,
        }));
        true
    }

    fn delete_nodes(&mut self, is_deleted: impl Fn(Process, u64) -> bool) -> bool {
        let before = self.nodes.len();
        self.nodes.retain(|node, until| !is_deleted(*node, *until));
        // ON DELETE SET NULL.
        self.owner = self.owner.filter(|owner| self.nodes.contains_key(owner));
        self.nodes.len() < before
    }
}
