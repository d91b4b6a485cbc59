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
mod ledger;
mod load;
mod pair;
mod placement;
mod recoveries;
mod stored;
mod surroundings;
mod tenant;

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::future::{join, join_all};
use recount_client::admin::AddToken;
use recount_client::scope::Scope;
use recount_world::SeededEntropy;

use self::faults::{NodeFault, PlannedFault};
use self::follower::Follower;
use self::ledger::Ledger;
use self::pair::NodePair;
use self::placement::Placement;
use self::recoveries::Recoveries;
use self::stored::StoredLog;
use self::surroundings::SmallDisk;
use self::tenant::{Course, DEFAULT, Tenant};
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
/// The tenants of servers that spread them, besides the default one.
const OTHERS: [&str; 2] = ["acme", "zeta"];

pub(super) struct NodesPlan {
    pub(super) sequences: u64,
    /// The number of the first sequence.
    pub(super) first: u64,
    pub(super) seed: u64,
    /// The faults of each sequence, by name; empty: random ones.
    pub(super) faults: Vec<String>,
    /// The servers spread tenants, of which there are [`OTHERS`], too.
    pub(super) spreads: bool,
}

impl NodesPlan {
    /// For a summary: how often a tenant changed its server.
    fn moves(&self, count: u64) -> String {
        if self.spreads { format!(", {count} times a tenant changed its server") } else { String::new() }
    }
}

/// One sequence: two servers, and the tenants with what was acknowledged to them.
struct Sequence {
    pair: NodePair,
    /// The default tenant first.
    tenants: Vec<Tenant>,
    placement: Placement,
    course: Rc<Course>,
}

impl Sequence {
    async fn start(
        folder: &Path,
        plan: &NodesPlan,
        number: u64,
        faults: &[PlannedFault],
    ) -> Result<Sequence> {
        let fills_disk = faults.iter().any(|planned| planned.fault == NodeFault::FillDisk);
        let disk = if fills_disk { SmallDisk::mount(&folder.join("disk"))? } else { None };
        let pair = NodePair::start(folder, disk, plan.spreads).await?;
        let course = Rc::new(Course::new(format!("seed {}, sequence {number}", plan.seed)));
        let addresses = pair.slots.each_ref().map(|slot| slot.address.as_str());
        let mut tenants = vec![Tenant::new(DEFAULT, None, addresses, &course)?];
        for name in OTHERS.into_iter().filter(|_| plan.spreads) {
            let admin = &tenants[0].clients[0];
            let request = AddToken {
                name: name.to_owned(),
                scopes: vec![Scope::Read, Scope::Run, Scope::Ingest, Scope::Approve],
                tenant: Some(name.to_owned()),
                tasks: Vec::new(),
                sessions: Vec::new(),
                expires_in_seconds: None,
                requests_per_second: None,
            };
            let added = poll("a new tenant", async || admin.add_token(&request).await.ok()).await?;
            tenants.push(Tenant::new(name, Some(&added.secret), addresses, &course)?);
        }
        if plan.spreads {
            let is_spread =
                async || pair.owners().await.into_values().any(|server| server == 1).then_some(());
            poll("a tenant at the second server", is_spread).await?;
        }
        Ok(Sequence { pair, tenants, placement: Placement::default(), course })
    }

    /// What was acknowledged to all tenants.
    fn ledger(&self) -> Ledger {
        let mut sum = Ledger::default();
        self.tenants.iter().for_each(|tenant| sum.add(&tenant.ledger.borrow()));
        sum
    }

    /// Plays the faults under load, then checks everything. Returns the names of the faults with their recovery times.
    async fn play(&self, faults: &[PlannedFault], recoveries: &mut Recoveries) -> Result<String> {
        let work = async {
            let course = async {
                let played = self.play_faults(faults, recoveries).await;
                self.course.stop.set(true);
                played
            };
            let (played, _) = join(course, join_all(self.tenants.iter().map(use_tenant))).await;
            played
        };
        let played = tokio::select! {
            played = work => played?,
            never = self.pair.supervise(self) => match never? {},
            never = placement::watch(self) => match never {},
        };
        self.pair.stop(self).await?;
        if !self.course.is_broken() && !self.course.expects_loss.get() {
            check::verify(self).await?;
        }
        Ok(played)
    }

    async fn play_faults(&self, faults: &[PlannedFault], recoveries: &mut Recoveries) -> Result<String> {
        let mut played = Vec::new();
        let (tenants, course) = (&self.tenants, &self.course);
        let of_all = |holds: fn(&Ledger, u64) -> bool, than| {
            move || tenants.iter().all(|tenant| holds(&tenant.ledger.borrow(), than))
        };
        course.wait_until("the first append", of_all(|ledger, _| ledger.acknowledged > 0, 0)).await;
        for fault in faults {
            tokio::time::sleep(Duration::from_millis(fault.pause_ms)).await;
            if course.is_broken() {
                break;
            }
            tenants.iter().for_each(|tenant| tenant.ledger.borrow_mut().measure_from(clock::now_ns()));
            let (mut details, hit) = faults::inject(self, fault).await?;
            let over = clock::now_ns();
            let handed_over = hit.handed_over();
            if !handed_over.is_empty() {
                details += &format!("; hit the server of {}, not the main one", handed_over.join(" and "));
            }
            if course.expects_loss.get() {
                played.push(format!("{} ({details})", fault.fault.name()));
                break;
            }
            if fault.overlaps {
                played.push(format!("{} ({details}), overlapping", fault.fault.name()));
                continue;
            }
            let what = format!("an acknowledgement after {} ({details})", fault.fault.name());
            if !course.wait_until(&what, of_all(|ledger, over| ledger.last_sent_ns > over, over)).await {
                break;
            }
            let mut times = Vec::new();
            for tenant in tenants {
                let seconds = tenant.ledger.borrow().gap_max_ns as f64 / 1e9;
                let is_only = tenants.len() == 1;
                recoveries.add(fault.fault, if is_only { "" } else { hit.role(&tenant.name) }, seconds);
                let name = if is_only { String::new() } else { format!("{} ", tenant.name) };
                times.push(format!("{name}{seconds:.1} s"));
            }
            played.push(format!("{} ({details}) {}", fault.fault.name(), times.join(", ")));
        }
        Ok(played.join("; "))
    }
}

/// Uses a tenant until the sequence stops, then checks everything that is stored of it.
async fn use_tenant(tenant: &Tenant) {
    let followers = [Follower::of_feed(), Follower::of_first_run()];
    let load = async {
        load::all(tenant).await;
        let stored = if tenant.course.expects_loss.get() { None } else { StoredLog::read(tenant).await };
        if let Some(stored) = &stored {
            followers.iter().for_each(|follower| follower.finish(stored));
        }
        stored
    };
    let follow = join_all(followers.iter().map(|follower| follower.follow(tenant)));
    let (stored, _) = join(load, follow).await;
    if let Some(stored) = stored.filter(|_| !tenant.course.is_broken()) {
        check::compare(tenant, &stored, &followers);
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
    if plan.spreads && chosen.contains(&NodeFault::FailOverWithLoss) {
        bail!("fail-over-with-loss is about the default tenant; leave --spread out");
    }
    let (mut recoveries, mut total, mut broken, mut moves) = (Recoveries::default(), Ledger::default(), 0, 0);
    for number in plan.first..plan.first + plan.sequences {
        let start = clock::now_ns();
        let place = folder.join(format!("sequence-{number}"));
        std::fs::create_dir(&place)?;
        let dice = Dice(SeededEntropy::new(plan.seed.wrapping_mul(1_000_003).wrapping_add(number)));
        let faults = faults::plan(&dice, &chosen);
        let sequence = Sequence::start(&place, plan, number, &faults).await?;
        let played = sequence.play(&faults, &mut recoveries).await;
        let played = played.with_context(|| format!("{}, {}", sequence.course.name, place.display()))?;
        let (ledger, moved) = (sequence.ledger(), sequence.placement.moves.get());
        println!(
            "sequence {number}: {played}; {ledger}{}; {:.0} s",
            plan.moves(moved),
            clock::seconds_since(start)
        );
        total.add(&ledger);
        moves += moved;
        if sequence.course.is_broken() {
            broken += 1;
            println!("the logs of its servers are in {}", place.display());
        } else {
            drop(sequence);
            std::fs::remove_dir_all(&place)?;
        }
    }
    println!("\n{recoveries}{} sequences, {broken} broken: {total}{}", plan.sequences, plan.moves(moves));
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
