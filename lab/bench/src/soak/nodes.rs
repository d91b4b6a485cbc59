//! Bad days of two servers on one PostgreSQL: sequences of random faults, drawn from a seed, under load.
//!
//! Each sequence has a PostgreSQL of its own and two servers, the owner and a standby, each behind a faulty link to the
//! database. [`load`] appends, runs an agent and approves, and keeps a ledger of what was acknowledged; [`follower`] follows.
//! [`faults`] kills, freezes, stops and disconnects. [`check`] compares what is stored with the ledger. A broken guarantee is
//! one sentence with the seed and the number of the sequence, and the program exits with status 1. Start at [`run`].

mod check;
mod failover;
mod faults;
mod follower;
mod load;
mod pair;
mod recoveries;
mod stored;
mod surroundings;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::future::{join, join_all};
use recount_client::Client;
use recount_world::SeededEntropy;

use self::faults::{NodeFault, PlannedFault};
use self::follower::Follower;
use self::load::Ledger;
use self::pair::NodePair;
use self::recoveries::Recoveries;
use self::stored::StoredLog;
use self::surroundings::SmallDisk;
use super::salvage::Dice;
use crate::clock;

/// Faults of one sequence.
const FAULTS_MIN: u64 = 3;
const FAULTS_MAX: u64 = 6;
/// How long a sequence may take until an append is acknowledged again, an own run has ended, or a reader has all events.
/// Longer than every wait of the product together.
const PATIENCE_SECONDS: f64 = 120.0;
/// The interval at which conditions are checked.
const LOOK: Duration = Duration::from_millis(LOOK_MS);
const LOOK_MS: u64 = 50;

pub(super) struct NodesPlan {
    pub(super) sequences: u64,
    /// The number of the first sequence.
    pub(super) first: u64,
    pub(super) seed: u64,
    /// The faults of each sequence, by name; empty: random ones.
    pub(super) faults: Vec<String>,
}

/// One sequence: two servers, what was acknowledged by them, and the guarantees that they broke.
struct Sequence {
    pair: NodePair,
    clients: [Client; 2],
    /// The server that most recently responded.
    preferred: Cell<usize>,
    ledger: RefCell<Ledger>,
    broken: RefCell<Vec<String>>,
    /// Nothing new is started.
    stop: Cell<bool>,
    /// The database lost acknowledged events on purpose, so the store must refuse to work.
    expects_loss: Cell<bool>,
    /// The disk of PostgreSQL is full, so `store_full` is a good response.
    is_full: Cell<bool>,
    /// Seed and number of the sequence.
    name: String,
}

impl Sequence {
    async fn start(folder: &Path, seed: u64, number: u64, faults: &[PlannedFault]) -> Result<Sequence> {
        let fills_disk = faults.iter().any(|planned| planned.fault == NodeFault::FillDisk);
        let disk = if fills_disk { SmallDisk::mount(&folder.join("disk"))? } else { None };
        let pair = NodePair::start(folder, disk).await?;
        let client = |slot: usize| Client::new(&format!("http://{}", pair.slots[slot].address), None);
        let clients = [client(0)?, client(1)?];
        Ok(Sequence {
            pair,
            clients,
            preferred: Cell::new(0),
            ledger: RefCell::default(),
            broken: RefCell::default(),
            stop: Cell::new(false),
            expects_loss: Cell::new(false),
            is_full: Cell::new(false),
            name: format!("seed {seed}, sequence {number}"),
        })
    }

    fn broke(&self, what: impl Into<String>) {
        let what = what.into();
        println!("broken: {}: {what}", self.name);
        self.broken.borrow_mut().push(what);
        self.stop.set(true);
    }

    /// Whether a guarantee was broken, after which nothing is waited for.
    fn is_broken(&self) -> bool {
        !self.broken.borrow().is_empty()
    }

    /// Waits until a condition holds. `false`: it did not in time, or a guarantee was broken.
    async fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) -> bool {
        let start = clock::now_ns();
        while !holds() {
            if self.is_broken() {
                return false;
            }
            if clock::seconds_since(start) > PATIENCE_SECONDS {
                self.broke(format!("{what} did not happen within {PATIENCE_SECONDS} s"));
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Plays the faults under load, then checks everything. Returns the names of the faults with their recovery times.
    async fn play(&self, faults: &[PlannedFault], recoveries: &mut Recoveries) -> Result<String> {
        let work = async {
            let followers = [Follower::of_feed(), Follower::of_first_run()];
            let course = async {
                let played = self.play_faults(faults, recoveries).await;
                self.stop.set(true);
                played
            };
            let load = async {
                let (played, ()) = join(course, load::all(self)).await;
                let stored = if self.expects_loss.get() { None } else { StoredLog::read(self).await };
                if let Some(stored) = &stored {
                    followers.iter().for_each(|follower| follower.finish(stored));
                }
                anyhow::Ok((played?, stored))
            };
            let follow = join_all(followers.iter().map(|follower| follower.follow(self)));
            let (loaded, _) = join(load, follow).await;
            let (played, stored) = loaded?;
            if let Some(stored) = stored.filter(|_| !self.is_broken()) {
                check::compare(self, &stored, &followers);
            }
            anyhow::Ok(played)
        };
        let played = tokio::select! {
            played = work => played?,
            never = self.pair.supervise(self) => match never? {},
        };
        self.pair.stop(self).await?;
        if !self.is_broken() && !self.expects_loss.get() {
            check::verify(self).await?;
        }
        Ok(played)
    }

    async fn play_faults(&self, faults: &[PlannedFault], recoveries: &mut Recoveries) -> Result<String> {
        let mut played = Vec::new();
        self.wait_until("the first append", || self.ledger.borrow().acknowledged > 0).await;
        for fault in faults {
            tokio::time::sleep(Duration::from_millis(fault.pause_ms)).await;
            if self.is_broken() {
                break;
            }
            self.ledger.borrow_mut().measure_from(clock::now_ns());
            let details = faults::inject(self, fault).await?;
            let over = clock::now_ns();
            if self.expects_loss.get() {
                played.push(format!("{} ({details})", fault.fault.name()));
                break;
            }
            if fault.overlaps {
                played.push(format!("{} ({details}), overlapping", fault.fault.name()));
                continue;
            }
            let what = format!("an acknowledgement after {} ({details})", fault.fault.name());
            if !self.wait_until(&what, || self.ledger.borrow().last_sent_ns > over).await {
                break;
            }
            let seconds = self.ledger.borrow().gap_max_ns as f64 / 1e9;
            recoveries.add(fault.fault, seconds);
            played.push(format!("{} ({details}) {seconds:.1} s", fault.fault.name()));
        }
        Ok(played.join("; "))
    }
}

/// Plays the sequences. `false`: a guarantee was broken; the logs of that sequence are kept.
pub(super) async fn run(folder: &Path, plan: &NodesPlan) -> Result<bool> {
    println!("seed {}, {} sequences from {}, {}", plan.seed, plan.sequences, plan.first, folder.display());
    let chosen: Vec<NodeFault> = plan
        .faults
        .iter()
        .map(|name| NodeFault::parse(name).with_context(|| format!("no fault is named {name:?}")))
        .collect::<Result<_>>()?;
    let (mut recoveries, mut total, mut broken) = (Recoveries::default(), Ledger::default(), 0);
    for number in plan.first..plan.first + plan.sequences {
        let start = clock::now_ns();
        let place = folder.join(format!("sequence-{number}"));
        std::fs::create_dir(&place)?;
        let dice = Dice(SeededEntropy::new(plan.seed.wrapping_mul(1_000_003).wrapping_add(number)));
        let faults = faults::plan(&dice, &chosen);
        let sequence = Sequence::start(&place, plan.seed, number, &faults).await?;
        let played = sequence.play(&faults, &mut recoveries).await;
        let played = played.with_context(|| format!("{}, {}", sequence.name, place.display()))?;
        let ledger = sequence.ledger.borrow();
        println!("sequence {number}: {played}; {ledger}; {:.0} s", clock::seconds_since(start));
        total.add(&ledger);
        if sequence.is_broken() {
            broken += 1;
            println!("the logs of its servers are in {}", place.display());
        } else {
            drop(ledger);
            drop(sequence);
            std::fs::remove_dir_all(&place)?;
        }
    }
    println!("\n{recoveries}{} sequences, {broken} broken: {total}", plan.sequences);
    println!("{}", if broken == 0 { "every promise was kept" } else { "promises were broken" });
    Ok(broken == 0)
}

/// Waits until a future result is some value; for conditions that need a request.
async fn poll<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    let start = clock::now_ns();
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        if clock::seconds_since(start) > PATIENCE_SECONDS {
            bail!("{what} did not happen within {PATIENCE_SECONDS} s");
        }
        tokio::time::sleep(LOOK).await;
    }
}
