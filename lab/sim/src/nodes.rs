//! Tier C: plays several nodes on one simulated database, with the rules by which `crates/log-postgres` renews leases, takes
//! stores over and settles commits.
//!
//! Each machine has a clock of its own speed. Machines freeze, are suspended, die and start; the network delays, loses and
//! cuts; statements arrive after their sender gave up. A play is a plain loop over events in time order. Stormy and calm
//! times alternate: in a calm, some machines keep a fault, and the others must own the store in time. Start at [`play`].

mod auditor;
mod database;
mod faults;
mod node;

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use recount_log_postgres::limits::{LEASE, OUTAGE_WAIT, STATEMENT_WAIT};
use recount_world::ManualClock;

use crate::dice::Dice;
use crate::trace::{Check, Outcome, Trace};
use auditor::Auditor;
use database::{Process, Response, SimDatabase, Statement};
use faults::{HEALTHY, Network};
use node::{Errand, Order, Reading, Reply, SimNode};

/// A deliberate error that a check must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeMutant {
    /// A commit does not check the epoch and the owner.
    NoFence,
    /// A node reads the log before it takes the store.
    LoadEarly,
    /// A lease is counted from when the response arrived.
    CountFromArrival,
    /// A lease is counted by a clock that is set.
    WallClock,
    /// A lease is counted by a clock that stops while the machine is suspended.
    ClockStopsInSuspension,
    /// The clock of a node is slower than a lease allows for.
    ClockTooSlow,
    /// An effect may begin after the deadline of the lease.
    EffectAfterDeadline,
    /// An effect may begin for a store that was given back.
    EffectAfterGivingBack,
    /// A commit without a response counts as committed.
    UnknownIsCommitted,
    /// A commit without a response counts as not committed.
    UnknownIsRefused,
    /// A renewal is sent while the last one has no response.
    RenewTwice,
    /// The database lets a node delete leases that have not expired.
    TakeOverEarly,
    /// Something else changes the counters.
    AlterCounters,
}

impl NodeMutant {
    pub const ALL: [NodeMutant; 13] = [
        NodeMutant::NoFence,
        NodeMutant::LoadEarly,
        NodeMutant::CountFromArrival,
        NodeMutant::WallClock,
        NodeMutant::ClockStopsInSuspension,
        NodeMutant::ClockTooSlow,
        NodeMutant::EffectAfterDeadline,
        NodeMutant::EffectAfterGivingBack,
        NodeMutant::UnknownIsCommitted,
        NodeMutant::UnknownIsRefused,
        NodeMutant::RenewTwice,
        NodeMutant::TakeOverEarly,
        NodeMutant::AlterCounters,
    ];
}

/// The coverage of a play.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounts {
    pub take_overs: u64,
    pub commits: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
    pub effects: u64,
    /// Effects that were not allowed to begin.
    pub withheld: u64,
    pub kills: u64,
    pub stops: u64,
    pub pauses: u64,
    pub cuts: u64,
    /// Statements without a response that were executed.
    pub unanswered: u64,
    /// Calm times after which a node owned the store.
    pub calms: u64,
}

impl AddAssign for NodeCounts {
    fn add_assign(&mut self, other: NodeCounts) {
        self.take_overs += other.take_overs;
        self.commits += other.commits;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.effects += other.effects;
        self.withheld += other.withheld;
        self.kills += other.kills;
        self.stops += other.stops;
        self.pauses += other.pauses;
        self.cuts += other.cuts;
        self.unanswered += other.unanswered;
        self.calms += other.calms;
    }
}

/// The speed of the database's clock, and those of the slowest and fastest node: a sixteenth less and more. Leases are safe
/// only if no node is slower than that.
const SPEED: u64 = 16_000;
const SPEED_MIN: u64 = 15_010;
const SPEED_MAX: u64 = 17_000;

/// Storms and calms of a play.
const ROUNDS: u64 = 4;

/// How long after its sender gave up a statement may be executed.
const LATE_MAX: Duration = Duration::from_secs(5);

/// How long a calm may last before a node owns the store: the lease, a statement without a response, one that is late, and
/// what is left of joining, pauses and delays.
const OWNED_WITHIN: Duration =
    Duration::from_secs(LEASE.as_secs() + STATEMENT_WAIT.as_secs() + LATE_MAX.as_secs() + 4);

/// How long an append to an owner without faults may take: a statement without a response and its settlement.
const APPENDED_WITHIN: Duration = Duration::from_secs(2 * STATEMENT_WAIT.as_secs() + OUTAGE_WAIT.as_secs());

/// Plays one seed to its end.
pub fn play(seed: u64, mutant: Option<NodeMutant>) -> (Outcome, NodeCounts) {
    let mut play = NodesPlay::new(seed, mutant);
    play.play();
    (play.trace.outcome(), play.counts)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
enum Happening {
    /// A statement reaches the database. The response leaves it unless the sender has given up.
    Arrive {
        process: Process,
        statement: Statement,
        call: Option<u64>,
    },
    /// To a process, which may be frozen.
    Inside(Process, Inside),
    Start {
        machine: usize,
    },
    Wake {
        machine: usize,
        pause: u64,
    },
    Heal {
        machine: usize,
        change: u64,
    },
    DatabaseUp,
    Append,
    Fault,
}

#[derive(Debug)]
enum Inside {
    Reply(u64, Reply),
    Timer(Errand),
    Append(u64),
    Effect,
    Exit,
}

struct Pause {
    number: u64,
    since_us: u64,
    is_suspended: bool,
    /// What happens inside when the machine continues, with its time.
    inbox: Vec<(u64, Process, Inside)>,
}

/// A machine, with the server on it.
struct Machine {
    starts: u32,
    node: Option<SimNode>,
    /// Statements without a response.
    calls: BTreeMap<u64, Errand>,
    speed: u64,
    suspended_us: u64,
    wall_us: u64,
    network: Network,
    /// Changes of the network so far.
    changes: u64,
    pause: Option<Pause>,
    /// Whether the server is started again when it has ended.
    is_kept_down: bool,
}

struct NodesPlay {
    dice: Dice,
    clock: Arc<ManualClock>,
    trace: Trace,
    mutant: Option<NodeMutant>,
    now_us: u64,
    happenings: BTreeMap<(u64, u64), Happening>,
    /// Numbers for happenings, calls, pauses and records.
    next: u64,
    machines: Vec<Machine>,
    database: SimDatabase,
    is_database_up: bool,
    is_stormy: bool,
    /// The longest time between two appends of clients.
    append_ms: u64,
    /// The longest delay of a message in a storm, without a fault of the network.
    storm_delay_ms: u64,
    auditor: Auditor,
    /// Records that were certainly not committed, to be sent again.
    again: Vec<u64>,
    counts: NodeCounts,
}

impl NodesPlay {
    fn new(seed: u64, mutant: Option<NodeMutant>) -> Self {
        let dice = Dice::new(seed);
        let machines = (0..2 + dice.index(3)).map(|_| Machine {
            starts: 0,
            node: None,
            calls: BTreeMap::new(),
            speed: match dice.below(4) {
                _ if mutant == Some(NodeMutant::ClockTooSlow) => SPEED - SPEED / 8,
                0 => SPEED_MIN,
                1 => SPEED_MAX,
                _ => SPEED_MIN + dice.below(SPEED_MAX - SPEED_MIN),
            },
            suspended_us: 0,
            wall_us: 1_000_000_000,
            network: HEALTHY,
            changes: 0,
            pause: None,
            is_kept_down: false,
        });
        let machines = machines.collect();
        let clock = Arc::new(ManualClock::at(0));
        let append_ms = [100, 400, 1_500, 6_000][dice.index(4)];
        let storm_delay_ms = [20, 20, 300, 1_500][dice.index(4)];
        NodesPlay {
            dice,
            trace: Trace::new(clock.clone()),
            clock,
            mutant,
            now_us: 0,
            happenings: BTreeMap::new(),
            next: 0,
            machines,
            database: SimDatabase::new(mutant),
            is_database_up: true,
            is_stormy: false,
            append_ms,
            storm_delay_ms,
            auditor: Auditor::default(),
            again: Vec::new(),
            counts: NodeCounts::default(),
        }
    }

    fn play(&mut self) {
        for machine in 0..self.machines.len() {
            self.at(self.dice.below(500_000), Happening::Start { machine });
        }
        self.at(0, Happening::Append);
        let mut owner = None;
        for _ in 0..ROUNDS {
            self.storm();
            let healthy = self.calm();
            self.run_for(micros(OWNED_WITHIN));
            owner = self.check_owned(&healthy);
        }
        let Some(owner) = owner else { return };
        let id = self.number();
        self.trace.log(format_args!("the last append is {id}"));
        self.at(0, Happening::Inside(owner, Inside::Append(id)));
        self.run_for(micros(APPENDED_WITHIN));
        if !self.auditor.is_acknowledged(id) {
            self.trace.wrong(Check::Owned, format_args!("{owner} does not acknowledge {id}"));
        }
    }

    // ---- time ----

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Adds a happening for later.
    fn at(&mut self, in_us: u64, happening: Happening) {
        let number = self.number();
        self.happenings.insert((self.now_us + in_us, number), happening);
    }

    fn run_for(&mut self, us: u64) {
        let end = self.now_us + us;
        while let Some(entry) = self.happenings.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), happening) = entry.remove_entry();
            self.advance(at);
            self.happen(happening);
        }
        self.advance(end);
    }

    fn advance(&mut self, to_us: u64) {
        self.now_us = to_us;
        self.clock.set(to_us / 1000);
    }

    fn clocks(&self, machine: usize) -> Reading {
        let Machine { speed, suspended_us, wall_us, .. } = self.machines[machine];
        Reading {
            now: Duration::from_micros(self.now_us * speed / SPEED),
            suspended: Duration::from_micros(suspended_us * speed / SPEED),
            wall: Duration::from_micros(wall_us + self.now_us),
        }
    }

    // ---- what happens ----

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive { process, statement, call } => self.arrive(process, &statement, call),
            Happening::Inside(process, inside) => self.happen_inside(process, inside),
            Happening::Start { machine } => self.start(machine),
            Happening::Wake { machine, pause } => {
                if self.machines[machine].pause.as_ref().is_some_and(|now| now.number == pause) {
                    self.wake(machine);
                }
            }
            Happening::Heal { machine, change } if self.machines[machine].changes == change => {
                self.heal(machine);
            }
            Happening::Heal { .. } => {}
            Happening::DatabaseUp => self.is_database_up = true,
            Happening::Append => self.append(),
            Happening::Fault => self.fault(),
        }
    }

    fn arrive(&mut self, process: Process, statement: &Statement, call: Option<u64>) {
        if !self.is_database_up {
            return;
        }
        let response = self.database.execute(process, statement, self.now_us);
        self.trace.log(format_args!("{process} {statement:?}: {response:?}"));
        let step = (process, statement, &response);
        self.auditor.executed(&self.trace, &self.database, step, self.now_us);
        match (statement, &response) {
            (Statement::Take, Response::Taken(_)) => self.counts.take_overs += 1,
            (Statement::Commit { .. }, Response::Done(true)) => self.counts.commits += 1,
            _ => {}
        }
        let network = self.machines[process.machine].network;
        match call {
            Some(call) if network.to_node => {
                let delay = self.delay(network);
                self.at(delay, Happening::Inside(process, Inside::Reply(call, Reply::Response(response))));
            }
            _ => self.counts.unanswered += 1,
        }
    }

    fn delay(&self, network: Network) -> u64 {
        500 + self.dice.below(network.delay_ms * 1000)
    }

    fn happen_inside(&mut self, process: Process, inside: Inside) {
        let Process { machine, .. } = process;
        let clocks = self.clocks(machine);
        let here = &mut self.machines[machine];
        let Some(node) = here.node.as_mut().filter(|node| node.process == process) else { return };
        if let Some(pause) = &mut here.pause {
            pause.inbox.push((self.now_us, process, inside));
            return;
        }
        match inside {
            Inside::Reply(call, reply) => match here.calls.remove(&call) {
                Some(errand) => node.receive(errand, reply, clocks),
                None => return,
            },
            Inside::Timer(errand) => node.timer(errand, clocks),
            Inside::Append(id) => node.append(id, clocks),
            Inside::Effect => {
                if node.allows_effect(clocks) {
                    self.counts.effects += 1;
                    self.auditor.began(&self.trace, process);
                } else {
                    self.counts.withheld += 1;
                }
            }
            Inside::Exit => {
                self.trace.log(format_args!("{process} ends"));
                return self.end(machine);
            }
        }
        self.carry_out(machine);
    }

    /// Does what a node wants done.
    fn carry_out(&mut self, machine: usize) {
        let Some(node) = &mut self.machines[machine].node else { return };
        let process = node.process;
        for order in std::mem::take(&mut node.out) {
            match order {
                Order::Send(errand, statement, wait) => self.send(process, errand, statement, wait),
                Order::Timer(errand, pause) => {
                    let us = self.of_machine(machine, pause);
                    self.at(us, Happening::Inside(process, Inside::Timer(errand)));
                }
                Order::Opened => self.trace.log(format_args!("{process} owns the store")),
                Order::Acknowledge(ids) => {
                    self.trace.log(format_args!("{process} acknowledges {ids:?}"));
                    self.auditor.acknowledged(&self.trace, process, &ids);
                    self.counts.acknowledged += ids.len() as u64;
                    // Some effects begin at once, others wait for a slot or an approval.
                    for us in ids.iter().flat_map(|_| [300_000, 16_000_000]) {
                        let us = self.dice.below(us);
                        self.at(us, Happening::Inside(process, Inside::Effect));
                    }
                }
                Order::Refuse(ids) => {
                    ids.iter().for_each(|id| self.auditor.refused(&self.trace, *id));
                    self.counts.refused += ids.len() as u64;
                    self.again.extend(ids);
                }
                Order::LeaveOpen(ids) => {
                    self.trace.log(format_args!("{process} does not know about {ids:?}"));
                    self.counts.unknown += ids.len() as u64;
                }
                Order::Complain(outcome) => {
                    self.trace.wrong(Check::Sound, format_args!("{process} finds {outcome:?}"));
                }
                Order::Exit => {
                    let us = self.dice.below(300_000);
                    self.at(us, Happening::Inside(process, Inside::Exit));
                }
            }
        }
    }

    /// A duration by the clock of a machine, in real time.
    fn of_machine(&self, machine: usize, time: Duration) -> u64 {
        micros(time) * SPEED / self.machines[machine].speed + 1
    }

    fn send(&mut self, process: Process, errand: Errand, statement: Statement, wait: Duration) {
        let Process { machine, .. } = process;
        let (call, network) = (self.number(), self.machines[machine].network);
        self.machines[machine].calls.insert(call, errand);
        let timed_out = Inside::Reply(call, Reply::TimedOut);
        let patience = self.of_machine(machine, wait);
        self.at(patience, Happening::Inside(process, timed_out));
        let delay = self.delay(network);
        let is_lost = self.dice.permille(network.losses);
        if network.to_database && !is_lost {
            return self.at(delay, Happening::Arrive { process, statement, call: Some(call) });
        }
        // The sender may learn that the connection is lost, and the statement may arrive all the same, also later.
        if self.dice.permille(500) {
            self.at(delay, Happening::Inside(process, Inside::Reply(call, Reply::Lost)));
        }
        if self.dice.permille(500) {
            let late = self.dice.below(micros(LATE_MAX));
            self.at(delay.min(micros(LATE_MAX)) + late, Happening::Arrive { process, statement, call: None });
        }
    }

    // ---- machines ----

    fn start(&mut self, machine: usize) {
        let clocks = self.clocks(machine);
        let here = &mut self.machines[machine];
        if here.node.is_some() || here.is_kept_down {
            return;
        }
        here.starts += 1;
        let process = Process { machine, start: here.starts };
        here.node = Some(SimNode::start(process, self.mutant, clocks));
        self.trace.log(format_args!("{process} starts"));
        self.carry_out(machine);
    }

    /// The process ends, and its supervisor starts it again.
    fn end(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        here.calls.clear();
        if let Some(pause) = &mut here.pause {
            pause.inbox.clear();
        }
        if let Some(mut node) = here.node.take() {
            self.counts.unknown += node.unfinished().len() as u64;
        }
        let us = if self.is_stormy { self.dice.below(6_000_000) } else { 500_000 };
        self.at(us, Happening::Start { machine });
    }

    fn pause(&mut self, machine: usize, in_us: Option<u64>) {
        if self.machines[machine].pause.is_some() {
            return;
        }
        let number = self.number();
        let is_suspended = self.dice.permille(500);
        self.trace.log(format_args!("n{machine} {}", if is_suspended { "is suspended" } else { "freezes" }));
        let pause = Pause { number, since_us: self.now_us, is_suspended, inbox: Vec::new() };
        self.machines[machine].pause = Some(pause);
        self.counts.pauses += 1;
        if let Some(us) = in_us {
            self.at(us, Happening::Wake { machine, pause: number });
        }
    }

    fn wake(&mut self, machine: usize) {
        let Some(mut pause) = self.machines[machine].pause.take() else { return };
        self.trace.log(format_args!("n{machine} continues"));
        if pause.is_suspended {
            self.machines[machine].suspended_us += self.now_us - pause.since_us;
        }
        // The tasks of a process continue in any order.
        while !pause.inbox.is_empty() {
            let (at_us, process, inside) = pause.inbox.swap_remove(self.dice.index(pause.inbox.len()));
            let is_timer = matches!(inside, Inside::Timer(_) | Inside::Reply(_, Reply::TimedOut));
            // Timers do not advance while the machine is suspended.
            let us = if is_timer && pause.is_suspended { at_us - pause.since_us } else { 0 };
            self.at(us, Happening::Inside(process, inside));
        }
    }

    // ---- clients ----

    fn append(&mut self) {
        let us = self.dice.below(self.append_ms * 1000);
        self.at(us, Happening::Append);
        let owners = self.machines.iter().flat_map(|machine| &machine.node);
        let owners = owners.filter(|node| node.owns().is_some()).map(|node| node.process);
        let Some(owner) = self.dice.pick(&owners.collect::<Vec<_>>()).copied() else { return };
        let id = match self.again.pop() {
            Some(id) => {
                self.auditor.sent_again(id);
                id
            }
            None => self.number(),
        };
        self.happen_inside(owner, Inside::Append(id));
    }

    /// Checks that one of these machines owns the store. Returns it.
    fn check_owned(&mut self, healthy: &[usize]) -> Option<Process> {
        let owner = |machine: &usize| {
            let node = self.machines[*machine].node.as_ref()?;
            let owns = node.owns() == Some(self.database.counters.epoch)
                && self.database.owner == Some(node.process)
                && node.allows_effect(self.clocks(*machine));
            owns.then_some(node.process)
        };
        let found = healthy.iter().find_map(owner);
        self.counts.calms += u64::from(found.is_some());
        if found.is_none() {
            let owner = self.database.owner.map(|owner| owner.to_string());
            let what = format_args!("none of n{healthy:?} owns the store after a calm, but {owner:?}");
            self.trace.wrong(Check::Owned, what);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn fixed_seeds_hold() {
        let mut counts = NodeCounts::default();
        for seed in 0..limits::NODE_SEEDS {
            let (outcome, more) = play(seed, None);
            assert!(outcome.wrong.is_empty(), "seed {seed}: {:#?}", outcome.wrong);
            counts += more;
        }
        println!("{counts:?}");
        let rare = [counts.unknown, counts.withheld, counts.kills, counts.stops, counts.unanswered];
        assert!(rare.iter().all(|count| *count > 100), "{counts:?}");
    }

    #[test]
    fn the_same_seed_plays_the_same_way() {
        for seed in [3, 4] {
            assert_eq!(play(seed, None), play(seed, None));
        }
        assert_ne!(play(3, None).0.trace, play(4, None).0.trace);
    }

    /// Each check fails for a mutant, and each mutant is found.
    #[test]
    fn every_mutant_is_detected_by_its_check() {
        let mutants = [
            (NodeMutant::NoFence, Check::Fence),
            (NodeMutant::LoadEarly, Check::Opening),
            (NodeMutant::LoadEarly, Check::Dense),
            (NodeMutant::CountFromArrival, Check::Effects),
            (NodeMutant::WallClock, Check::Effects),
            (NodeMutant::ClockStopsInSuspension, Check::Effects),
            (NodeMutant::ClockTooSlow, Check::Effects),
            (NodeMutant::EffectAfterDeadline, Check::Effects),
            (NodeMutant::EffectAfterGivingBack, Check::Effects),
            (NodeMutant::UnknownIsCommitted, Check::Once),
            (NodeMutant::UnknownIsRefused, Check::Once),
            (NodeMutant::RenewTwice, Check::Owned),
            (NodeMutant::TakeOverEarly, Check::TakeOver),
            (NodeMutant::AlterCounters, Check::Sound),
        ];
        for mutant in NodeMutant::ALL {
            assert!(mutants.iter().any(|(listed, _)| *listed == mutant), "{mutant:?}");
        }
        for (mutant, check) in mutants {
            let is_found = |seed: &u64| play(*seed, Some(mutant)).0.checks.contains(&check);
            let found = (0..limits::SEEDS_PER_MUTANT).find(is_found);
            println!("{mutant:?} is found by {check:?} with seed {found:?}");
            assert!(found.is_some(), "{mutant:?} is not found by {check:?}");
        }
    }
}
