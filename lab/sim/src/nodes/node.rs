//! A node of a play: a server that uses the rules of `crates/log-postgres` as that crate does, with statements that take
//! time instead of a connection.
//!
//! It must not know the database, the network or other nodes. What it wants done is in [`SimNode::out`].

use std::collections::VecDeque;
use std::time::Duration;

use recount_log_postgres::limits::{LEASE, STATEMENT_WAIT};
use recount_log_postgres::rules::{
    CommitAttempt, CommitEvent, CommitOutcome, CommitStep, Counters, LeaseEvent, LeaseStep, NodeLease,
    TakeOver, TakeOverStep,
};

use super::NodeMutant;
use super::database::{NewRecord, Process, Response, Statement};

/// Pause of a standby between two attempts to open the stores, as in `crates/server`.
const STANDBY_RETRY: Duration = Duration::from_secs(1);

/// How long a server that stops takes to close its other stores.
const OTHER_STORES: Duration = Duration::from_secs(2);

/// Records of one group.
const GROUP_MAX: usize = 3;

/// What a statement or a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    Join,
    Renewal,
    Probe,
    Expire,
    Take,
    ReadOwner,
    Load,
    Commit,
    Skip,
    Counters,
    GiveBack,
    Leave,
}

/// What a node wants done.
#[derive(Debug)]
pub(super) enum Order {
    /// Sends a statement, and waits for the response this long.
    Send(Errand, Statement, Duration),
    Timer(Errand, Duration),
    /// The store is open.
    Opened,
    Acknowledge(Vec<u64>),
    /// These records are certainly not committed.
    Refuse(Vec<u64>),
    /// These records may be committed.
    LeaveOpen(Vec<u64>),
    /// The database is not as this node left it.
    Complain(CommitOutcome),
    Exit,
}

/// The response to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Response(Response),
    /// The connection is lost.
    Lost,
    TimedOut,
}

/// The clocks of a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Never steps back, and counts while the machine is suspended.
    pub(super) now: Duration,
    /// How long the machine was suspended.
    pub(super) suspended: Duration,
    /// Steps in both directions.
    pub(super) wall: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeStage {
    Joining,
    /// Standby.
    Opening,
    Loading,
    Owning,
    /// The writer of the store has ended.
    Ended,
    Leaving,
}

/// A group in flight. Its clients have results already if it is late.
struct Flight {
    attempt: CommitAttempt,
    ids: Vec<u64>,
    is_late: bool,
}

pub(super) struct SimNode {
    pub(super) process: Process,
    mutant: Option<NodeMutant>,
    pub(super) out: Vec<Order>,
    stage: NodeStage,
    lease: Option<NodeLease>,
    take_over: TakeOver,
    counters: Counters,
    /// The sequence of the next record, as it was loaded.
    next_sequence: Option<u64>,
    queue: VecDeque<u64>,
    flight: Option<Flight>,
    /// No append is accepted any more.
    is_closed: bool,
    is_stopping: bool,
    /// When the last renewal was sent, and a deadline from wrong clocks, for mutants.
    sent_at: Duration,
    wrong_deadline: Duration,
}

impl SimNode {
    /// A server that has just started.
    pub(super) fn start(process: Process, mutant: Option<NodeMutant>, clocks: Reading) -> Self {
        let mut node = SimNode {
            process,
            mutant,
            out: Vec::new(),
            stage: NodeStage::Joining,
            lease: None,
            take_over: TakeOver::default(),
            counters: Counters { epoch: 0, group_number: 0, last_position: 0, last_stream: 0 },
            next_sequence: None,
            queue: VecDeque::new(),
            flight: None,
            is_closed: false,
            is_stopping: false,
            sent_at: clocks.now,
            wrong_deadline: node_clock(mutant, clocks) + NodeLease::usable(LEASE),
        };
        node.send(Errand::Join, Statement::AddNode);
        node
    }

    fn send(&mut self, errand: Errand, statement: Statement) {
        self.out.push(Order::Send(errand, statement, STATEMENT_WAIT));
    }

    /// Whether it has the store open, in this epoch.
    pub(super) fn owns(&self) -> Option<i64> {
        (self.stage == NodeStage::Owning && !self.is_closed).then_some(self.counters.epoch)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Whether an effect may begin.
    pub(super) fn allows_effect(&self, clocks: Reading) -> bool {
        let Some(lease) = &self.lease else { return false };
        match self.mutant {
            Some(NodeMutant::EffectAfterDeadline) => !lease.is_lost() && !self.is_closed,
            Some(NodeMutant::EffectAfterGivingBack) => lease.allows_effect(false, clocks.now),
            Some(
                NodeMutant::CountFromArrival | NodeMutant::WallClock | NodeMutant::ClockStopsInSuspension,
            ) => {
                let is_valid = node_clock(self.mutant, clocks) < self.wrong_deadline;
                !lease.is_lost() && !self.is_closed && is_valid
            }
            _ => lease.allows_effect(self.is_closed, clocks.now),
        }
    }

    // ---- input ----

    pub(super) fn receive(&mut self, errand: Errand, reply: Reply, clocks: Reading) {
        match (errand, reply) {
            (Errand::Join, Reply::Response(_)) => {
                self.lease = Some(NodeLease::granted(LEASE, self.sent_at));
                self.stage = NodeStage::Opening;
                self.renew(LeaseEvent::Due, clocks);
                self.open();
            }
            (Errand::Join | Errand::Load | Errand::Leave, Reply::Lost | Reply::TimedOut) => {
                self.out.push(Order::Exit);
            }
            (Errand::Renewal | Errand::Probe, reply) => self.renew(lease_event(errand, &reply), clocks),
            (Errand::Expire | Errand::Take | Errand::ReadOwner | Errand::Load, reply) => {
                self.opening(errand, reply);
            }
            (Errand::Commit, reply) => self.committing(self.executed(&reply), clocks),
            (Errand::Skip, Reply::Response(Response::Done(_))) => {
                self.send(Errand::Counters, Statement::ReadCounters);
            }
            (Errand::Skip | Errand::Counters, reply) => {
                let event = match reply {
                    Reply::Response(Response::Counters(found)) => CommitEvent::Found(Some(found)),
                    _ => CommitEvent::Lost,
                };
                self.committing(event, clocks);
            }
            (Errand::GiveBack, _) if self.is_stopping => {
                self.out.push(Order::Timer(Errand::Leave, OTHER_STORES));
            }
            (Errand::GiveBack, _) => {}
            (Errand::Leave, _) => self.out.push(Order::Exit),
        }
    }

    pub(super) fn timer(&mut self, errand: Errand, clocks: Reading) {
        match errand {
            Errand::Renewal => self.renew(LeaseEvent::Due, clocks),
            Errand::Commit => self.committing(CommitEvent::Due, clocks),
            Errand::Leave => self.leave(),
            _ => self.open(),
        }
    }

    /// A client appends a record.
    pub(super) fn append(&mut self, id: u64, clocks: Reading) {
        if self.is_closed {
            self.out.push(Order::Refuse(vec![id]));
            return;
        }
        self.queue.push_back(id);
        self.write(clocks);
    }

    /// The server is stopped: it finishes what was accepted, gives the store back, and ends its lease.
    pub(super) fn stop(&mut self, clocks: Reading) {
        if std::mem::replace(&mut self.is_stopping, true) {
            return;
        }
        self.is_closed = true;
        match self.stage {
            NodeStage::Joining => self.out.push(Order::Exit),
            NodeStage::Owning => self.write(clocks),
            _ => self.leave(),
        }
    }

    /// What was accepted and has no result, when the process ends.
    pub(super) fn unfinished(&mut self) -> Vec<u64> {
        let flight = self.flight.take().filter(|flight| !flight.is_late);
        flight.map(|flight| flight.ids).unwrap_or_default().into_iter().chain(self.queue.drain(..)).collect()
    }

    // ---- the lease ----

    fn renew(&mut self, event: LeaseEvent, clocks: Reading) {
        let Some(lease) = &mut self.lease else { return };
        if event == LeaseEvent::Renewed {
            let counted_from = match self.mutant {
                Some(NodeMutant::CountFromArrival) => clocks.now,
                _ => self.sent_at,
            };
            self.wrong_deadline = self.wrong_deadline.max(counted_from + NodeLease::usable(LEASE));
        }
        let mut step = lease.step(event, clocks.now);
        if let (LeaseStep::Probe(_), Some(NodeMutant::RenewTwice)) = (step, self.mutant) {
            step = lease.step(LeaseEvent::Answered, clocks.now);
        }
        match step {
            LeaseStep::Wait(pause) | LeaseStep::ResetAndWait(pause) => {
                self.out.push(Order::Timer(Errand::Renewal, pause));
            }
            LeaseStep::Renew(wait) => {
                self.sent_at = node_clock(self.mutant, clocks);
                self.out.push(Order::Send(Errand::Renewal, Statement::Renew, wait));
            }
            LeaseStep::Probe(wait) => self.out.push(Order::Send(Errand::Probe, Statement::Probe, wait)),
            LeaseStep::Stop => self.out.push(Order::Exit),
        }
    }

    fn leave(&mut self) {
        self.stage = NodeStage::Leaving;
        if let Some(lease) = &mut self.lease {
            lease.lose();
        }
        self.send(Errand::Leave, Statement::RemoveNode);
    }

    // ---- taking the store over ----

    fn open(&mut self) {
        match self.mutant {
            Some(NodeMutant::LoadEarly) if self.next_sequence.is_none() => {
                self.send(Errand::Load, Statement::Load)
            }
            _ => self.send(Errand::Expire, Statement::Expire),
        }
    }

    fn opening(&mut self, errand: Errand, reply: Reply) {
        if !matches!(self.stage, NodeStage::Opening | NodeStage::Loading) {
            return;
        }
        match (errand, reply) {
            (Errand::Expire, Reply::Response(_)) => self.send(Errand::Take, Statement::Take),
            (Errand::Take, Reply::Response(Response::Taken(counters))) => {
                self.counters = counters;
                if self.mutant == Some(NodeMutant::LoadEarly) {
                    return self.opened();
                }
                self.stage = NodeStage::Loading;
                self.send(Errand::Load, Statement::Load);
            }
            (Errand::Take, Reply::Response(Response::Done(_))) => {
                self.send(Errand::ReadOwner, Statement::ReadOwner);
            }
            (Errand::ReadOwner, Reply::Response(Response::Owner(owner)))
                if owner.node != self.process.to_string() =>
            {
                match self.take_over.see(owner) {
                    TakeOverStep::Wait(pause) => self.out.push(Order::Timer(Errand::Expire, pause)),
                    TakeOverStep::OwnerIsAlive => self.open_later(),
                }
            }
            (Errand::ReadOwner, Reply::Response(_)) => self.send(Errand::Expire, Statement::Expire),
            (Errand::Load, Reply::Response(Response::Loaded(next_sequence))) => {
                self.next_sequence = Some(next_sequence);
                match self.stage {
                    NodeStage::Loading => self.opened(),
                    _ => self.send(Errand::Expire, Statement::Expire),
                }
            }
            _ => self.open_later(),
        }
    }

    fn opened(&mut self) {
        self.stage = NodeStage::Owning;
        self.out.push(Order::Opened);
    }

    fn open_later(&mut self) {
        self.take_over = TakeOver::default();
        self.out.push(Order::Timer(Errand::Expire, STANDBY_RETRY));
    }

    // ---- the writer ----

    /// Begins the next group, if no other one is in flight.
    fn write(&mut self, clocks: Reading) {
        if self.stage != NodeStage::Owning || self.flight.is_some() {
            return;
        }
        if self.lease.is_some_and(|lease| lease.is_lost()) {
            return self.refuse_queue();
        }
        let count = self.queue.len().min(GROUP_MAX);
        if count == 0 {
            if self.is_stopping {
                self.stage = NodeStage::Ended;
                self.send(Errand::GiveBack, Statement::GiveBack { epoch: self.counters.epoch });
            }
            return;
        }
        let after = Counters {
            group_number: self.counters.group_number + 1,
            last_position: self.counters.last_position + count as u64,
            ..self.counters
        };
        let attempt = CommitAttempt::new(self.counters, after);
        self.flight = Some(Flight { attempt, ids: self.queue.drain(..count).collect(), is_late: false });
        self.committing(CommitEvent::Due, clocks);
    }

    /// What happened to the statement of a group.
    fn executed(&self, reply: &Reply) -> CommitEvent {
        match (reply, self.mutant) {
            (Reply::Response(Response::Done(changed)), _) => CommitEvent::Executed { changed: *changed },
            (Reply::Response(_), _) => CommitEvent::Refused,
            (_, Some(NodeMutant::UnknownIsCommitted)) => CommitEvent::Executed { changed: true },
            (_, Some(NodeMutant::UnknownIsRefused)) => CommitEvent::Refused,
            _ => CommitEvent::Lost,
        }
    }

    fn committing(&mut self, event: CommitEvent, clocks: Reading) {
        let Some(flight) = &mut self.flight else { return };
        match flight.attempt.step(event, clocks.now) {
            CommitStep::Execute => {
                let (before, after) = (flight.attempt.before(), flight.attempt.after());
                let sequences = self.next_sequence.unwrap_or_default()..;
                let records =
                    sequences.zip(&flight.ids).map(|(sequence, id)| NewRecord { sequence, id: *id });
                let records = records.collect();
                self.send(Errand::Commit, Statement::Commit { before, after, records });
            }
            CommitStep::Skip => {
                let before = flight.attempt.before();
                self.send(Errand::Skip, Statement::Skip(before));
            }
            CommitStep::ReadCounters => self.send(Errand::Counters, Statement::ReadCounters),
            CommitStep::Pause(pause) => self.out.push(Order::Timer(Errand::Commit, pause)),
            CommitStep::Finish(outcome) => self.conclude(outcome, clocks),
        }
    }

    fn conclude(&mut self, outcome: CommitOutcome, clocks: Reading) {
        let Some(Flight { attempt, ids, is_late }) = self.flight.take() else { return };
        let result = |result: Order| (!is_late).then_some(result);
        self.counters = attempt.before();
        if let Some(lease) = self.lease.as_mut().filter(|_| outcome.ends_lease()) {
            lease.lose();
            self.out.push(Order::Exit);
        }
        match outcome {
            CommitOutcome::Committed => {
                self.counters = attempt.after();
                self.next_sequence = self.next_sequence.map(|next| next + ids.len() as u64);
                self.out.extend(result(Order::Acknowledge(ids)));
            }
            CommitOutcome::Refused => self.out.extend(result(Order::Refuse(ids))),
            CommitOutcome::Unknown => {
                self.out.extend(result(Order::LeaveOpen(ids.clone())));
                self.refuse_queue();
                let attempt = CommitAttempt::late(self.counters, attempt.after(), clocks.now);
                self.flight = Some(Flight { attempt, ids, is_late: true });
                return self.committing(CommitEvent::Due, clocks);
            }
            CommitOutcome::Fenced => {
                self.out.extend(result(Order::Refuse(ids)));
                self.end_store();
            }
            CommitOutcome::Replaced => {
                self.out.extend(result(Order::LeaveOpen(ids)));
                self.end_store();
            }
            CommitOutcome::Behind(_) | CommitOutcome::Altered | CommitOutcome::Missing => {
                self.out.extend(result(Order::Refuse(ids)));
                self.out.push(Order::Complain(outcome));
                self.end_store();
            }
        }
        self.write(clocks);
    }

    /// The writer ends, and gives the store back.
    fn end_store(&mut self) {
        self.is_closed = true;
        self.stage = NodeStage::Ended;
        self.refuse_queue();
        self.send(Errand::GiveBack, Statement::GiveBack { epoch: self.counters.epoch });
    }

    fn refuse_queue(&mut self) {
        let ids: Vec<u64> = self.queue.drain(..).collect();
        self.out.push(Order::Refuse(ids));
    }
}

/// The clock by which a lease is counted.
fn node_clock(mutant: Option<NodeMutant>, clocks: Reading) -> Duration {
    match mutant {
        Some(NodeMutant::WallClock) => clocks.wall,
        Some(NodeMutant::ClockStopsInSuspension) => clocks.now - clocks.suspended,
        _ => clocks.now,
    }
}

fn lease_event(errand: Errand, reply: &Reply) -> LeaseEvent {
    match (errand, reply) {
        (Errand::Probe, Reply::Response(_)) => LeaseEvent::Answered,
        (_, Reply::Response(Response::Done(true))) => LeaseEvent::Renewed,
        (_, Reply::Response(Response::Done(false))) => LeaseEvent::Deleted,
        (_, Reply::TimedOut) => LeaseEvent::TimedOut,
        (_, _) => LeaseEvent::Failed,
    }
}
