//! The faults of a sequence: drawn from a seed, then injected into servers, PostgreSQL and the links between them.
//!
//! It must not know the load. Start at [`plan`] and [`inject`].

use std::time::Duration;

use anyhow::{Context as _, Result};
use recount_faulty_link::{Cut, Direction, Flow, Link, Trap};
use recount_log_postgres::limits::LEASE;
use recount_world::{Entropy as _, SeededEntropy};
use rustix::process::Signal;
use tokio_postgres::NoTls;

use super::placement::Hit;
use super::tenant::DEFAULT;
use super::{FAULTS_MAX, FAULTS_MIN, Sequence, failover, poll, surroundings};
use crate::clock;
use crate::soak::salvage::{Dice, on_thread};

/// Pause before a fault.
const PAUSE_MS_MIN: u64 = 300;
const PAUSE_MS_MAX: u64 = 4_000;
/// One of so many faults is followed by the next one before the servers have recovered.
const OVERLAPS_ONE_OF: u64 = 5;
/// How long a link is faulty at most: longer than a statement may take, and than a lease.
const LINK_MS_MAX: u64 = 20_000;
const DELAY_MS_MAX: u64 = 400;
/// How much longer than two leases a server is frozen at most.
const FREEZE_MORE_MS_MAX: u64 = 4_000;
/// How long PostgreSQL is down at most.
const DOWN_MS_MAX: u64 = 4_000;
/// How long its disk is full at most.
const FULL_MS_MAX: u64 = 6_000;
/// Attempts to find a backend in a statement.
const BACKEND_LOOKS: u32 = 200;
/// In each commit of the load, and in no other statement.
const IN_COMMITS: &[u8] = b"user.message";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeFault {
    KillOwner,
    KillStandby,
    StopOwner,
    FreezeOwner,
    KillBoth,
    StopBoth,
    QuitPostgres,
    RestartPostgres,
    TerminateBackend,
    StallOneDirection,
    CutLink,
    DelayLink,
    SwallowResponse,
    /// Only by name: PostgreSQL fails over to a standby that has everything.
    FailOver,
    /// Only by name, and the last of its sequence: the standby lacks commits.
    FailOverWithLoss,
    /// Only by name: the disk of PostgreSQL is full for a time.
    FillDisk,
    /// Only by name: a server starts whose clock is wrong.
    WrongClock,
}

use NodeFault::*;

/// What random sequences consist of.
const RANDOM: [NodeFault; 13] = [
    KillOwner,
    KillStandby,
    StopOwner,
    FreezeOwner,
    KillBoth,
    StopBoth,
    QuitPostgres,
    RestartPostgres,
    TerminateBackend,
    StallOneDirection,
    CutLink,
    DelayLink,
    SwallowResponse,
];

impl NodeFault {
    pub(super) fn name(self) -> &'static str {
        match self {
            KillOwner => "kill-owner",
            KillStandby => "kill-standby",
            StopOwner => "stop-owner",
            FreezeOwner => "freeze-owner",
            KillBoth => "kill-both",
            StopBoth => "stop-both",
            QuitPostgres => "quit-postgres",
            RestartPostgres => "restart-postgres",
            TerminateBackend => "terminate-backend",
            StallOneDirection => "stall-one-direction",
            CutLink => "cut-link",
            DelayLink => "delay-link",
            SwallowResponse => "swallow-response",
            FailOver => "fail-over",
            FailOverWithLoss => "fail-over-with-loss",
            FillDisk => "fill-disk",
            WrongClock => "wrong-clock",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let by_name = [FailOver, FailOverWithLoss, FillDisk, WrongClock];
        RANDOM.into_iter().chain(by_name).find(|fault| fault.name() == name)
    }
}

/// A fault with all that is random about it.
pub(super) struct PlannedFault {
    pub(super) fault: NodeFault,
    pub(super) pause_ms: u64,
    /// The next fault is injected before the servers have recovered from this one.
    pub(super) overlaps: bool,
    dice: Dice,
}

/// Draws the faults of a sequence, unless they are chosen.
pub(super) fn plan(dice: &Dice, chosen: &[NodeFault]) -> Vec<PlannedFault> {
    let count = FAULTS_MIN + dice.below(FAULTS_MAX - FAULTS_MIN + 1);
    let drawn: Vec<NodeFault> = (0..count).map(|_| *dice.of(&RANDOM)).collect();
    let faults = if chosen.is_empty() { &drawn } else { chosen };
    let planned = faults.iter().enumerate().map(|(index, fault)| PlannedFault {
        fault: *fault,
        pause_ms: PAUSE_MS_MIN + dice.below(PAUSE_MS_MAX - PAUSE_MS_MIN),
        overlaps: dice.below(OVERLAPS_ONE_OF) == 0 && chosen.is_empty() && index + 1 < faults.len(),
        dice: Dice(SeededEntropy::new(u64::try_from(dice.0.draw() % (1 << 64)).unwrap_or(0))),
    });
    planned.collect()
}

/// Injects a fault and waits until it is over. Returns its details, and what it hit.
pub(super) async fn inject(sequence: &Sequence, planned: &PlannedFault) -> Result<(String, Hit)> {
    let dice = &planned.dice;
    // Between two owners, one of the servers.
    let drawn = usize::try_from(dice.below(2))?;
    let mut owners = sequence.pair.owners().await;
    owners.retain(|store, _| sequence.tenants.iter().any(|tenant| tenant.name == *store));
    let main = owners.get(DEFAULT).copied().unwrap_or(drawn);
    // Half of the faults hit the server that has a tenant while another one is the main server.
    let elsewhere = owners.iter().find(|(_, server)| **server != main).map(|(store, _)| store.as_str());
    let elsewhere = elsewhere.filter(|_| dice.below(2) == 1);
    let owner = if elsewhere.is_some() { 1 - main } else { main };
    let store = elsewhere.unwrap_or(DEFAULT);
    let details = inject_at(sequence, planned, (main, owner), (store, owners.contains_key(store))).await?;
    let servers = match planned.fault {
        KillStandby => vec![1 - main],
        KillOwner | StopOwner | FreezeOwner | StallOneDirection | CutLink | DelayLink | SwallowResponse => {
            vec![owner]
        }
        WrongClock => Vec::new(),
        _ => vec![0, 1],
    };
    Ok((details, Hit::new(servers, owners)))
}

/// Injects a fault into the owner of a store, which is the main server or not.
async fn inject_at(
    sequence: &Sequence,
    planned: &PlannedFault,
    (main, owner): (usize, usize),
    (store, is_owner): (&str, bool),
) -> Result<String> {
    let (pair, dice) = (&sequence.pair, &planned.dice);
    let slot = &pair.slots[owner];
    let millis = |most: u64| Duration::from_millis(1 + dice.below(most));
    Ok(match planned.fault {
        KillOwner => {
            slot.kill()?;
            format!("server {owner}")
        }
        KillStandby => {
            pair.slots[1 - main].kill()?;
            format!("server {}", 1 - main)
        }
        StopOwner => {
            let ends = slot.ends.get();
            slot.signal(Signal::TERM)?;
            sequence.course.wait_until("the end of a server after SIGTERM", || slot.ends.get() > ends).await;
            format!("server {owner}")
        }
        FreezeOwner => freeze(sequence, owner, (store, is_owner), millis(FREEZE_MORE_MS_MAX)).await?,
        KillBoth => {
            pair.slots.iter().try_for_each(|slot| slot.kill())?;
            "both servers".to_owned()
        }
        StopBoth => {
            let ends = pair.slots.each_ref().map(|slot| slot.ends.get());
            pair.slots.iter().try_for_each(|slot| slot.signal(Signal::TERM))?;
            let have_ended = || pair.slots.iter().zip(ends).all(|(slot, ends)| slot.ends.get() > ends);
            sequence.course.wait_until("the end of both servers after SIGTERM", have_ended).await;
            "both servers".to_owned()
        }
        QuitPostgres | RestartPostgres => {
            let quits = planned.fault == QuitPostgres;
            let signal =
                if quits { recount_test_postgres::Signal::QUIT } else { recount_test_postgres::Signal::INT };
            let (postgres, down) = (pair.postgres(), millis(DOWN_MS_MAX));
            let ending = postgres.clone();
            on_thread(move || ending.end(signal)).await??;
            tokio::time::sleep(down).await;
            on_thread(move || postgres.restart()).await??;
            format!("{:.1} s", down.as_secs_f64())
        }
        TerminateBackend => terminate_backend(sequence).await?,
        StallOneDirection | CutLink | DelayLink | SwallowResponse => {
            let details = disturb(planned, &slot.link).await?;
            format!("server {owner}, {details}")
        }
        FailOver => failover::without_loss(sequence).await?,
        FailOverWithLoss => failover::with_loss(sequence).await?,
        FillDisk => surroundings::fill_disk(sequence, millis(FULL_MS_MAX)).await?,
        WrongClock => surroundings::start_with_wrong_clock(sequence).await?,
    })
}

/// Stops a server for longer than two leases while it writes. If it was the owner of a store, and another server is afterwards,
/// it ends.
async fn freeze(
    sequence: &Sequence,
    owner: usize,
    (store, is_owner): (&str, bool),
    more: Duration,
) -> Result<String> {
    let slot = &sequence.pair.slots[owner];
    let (ends, time) = (slot.ends.get(), 2 * LEASE + more);
    slot.signal(Signal::STOP)?;
    tokio::time::sleep(time).await;
    slot.signal(Signal::CONT)?;
    let is_replaced = is_owner && sequence.pair.owners().await.get(store) == Some(&(1 - owner));
    if is_replaced {
        sequence
            .course
            .wait_until("the end of a former owner that wakes up", || slot.ends.get() > ends)
            .await;
    }
    let outcome = if is_replaced { "replaced" } else { "not replaced" };
    Ok(format!("server {owner}, {:.0} s, {outcome}", time.as_secs_f64()))
}

/// Terminates a random backend of the servers, one in a statement if one is found.
async fn terminate_backend(sequence: &Sequence) -> Result<String> {
    let url = sequence.pair.url();
    let connecting = async || tokio_postgres::connect(&url, NoTls).await.ok();
    let (client, connection) = poll("a connection to PostgreSQL", connecting).await?;
    let terminating = async {
        for look in 0..=BACKEND_LOOKS {
            let state = if look < BACKEND_LOOKS { "state = 'active' AND " } else { "" };
            let terminate = format!(
                "SELECT query, pg_terminate_backend(pid) FROM pg_stat_activity WHERE {state} application_name = 'recount' \
                 AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
            );
            if let Some(row) = client.query(&terminate, &[]).await?.first() {
                let query: String = row.get(0);
                let start: Vec<&str> = query.split_whitespace().take(3).collect();
                return Ok(format!(
                    "{}, \"{} …\"",
                    if look < BACKEND_LOOKS { "in a statement" } else { "idle" },
                    start.join(" ")
                ));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok("there was none".to_owned())
    };
    tokio::select! {
        done = terminating => done,
        ended = connection => {
            ended.context("the connection to PostgreSQL was lost")?;
            Ok("the connection ended".to_owned())
        }
    }
}

/// Makes a link faulty for a random time.
async fn disturb(planned: &PlannedFault, link: &Link) -> Result<String> {
    let dice = &planned.dice;
    let time = Duration::from_millis(1 + dice.below(LINK_MS_MAX));
    let details = match planned.fault {
        StallOneDirection => {
            let direction = *dice.of(&[Direction::ToServer, Direction::ToClient]);
            let flow = *dice.of(&[Flow::Stall, Flow::Swallow]);
            link.set(direction, flow);
            format!("{direction:?} {flow:?}")
        }
        CutLink => {
            link.set_both(Flow::Stall);
            match dice.below(3) {
                0 => "both directions stall".to_owned(),
                1 => {
                    link.cut(Cut::Reset);
                    "reset, then no response".to_owned()
                }
                _ => {
                    // Connects again at once.
                    link.heal();
                    link.cut(*dice.of(&[Cut::Reset, Cut::Finish]));
                    return Ok("cut once".to_owned());
                }
            }
        }
        DelayLink => {
            let delay = Duration::from_millis(1 + dice.below(DELAY_MS_MAX));
            link.set_both(Flow::Delay(delay));
            format!("{} ms each direction", delay.as_millis())
        }
        _ => {
            let before = link.traffic().sprung;
            link.set_trap(IN_COMMITS, Trap::SwallowAnswer);
            let start = clock::now_ns();
            while link.traffic().sprung == before && clock::seconds_since(start) < time.as_secs_f64() {
                tokio::time::sleep(super::LOOK).await;
            }
            let is_sprung = link.traffic().sprung > before;
            if is_sprung && dice.below(2) == 0 {
                tokio::time::sleep(time).await;
                link.heal();
                link.cut(Cut::Reset);
                return Ok(format!("reset after {:.1} s", time.as_secs_f64()));
            }
            link.heal();
            return Ok(if is_sprung { "never reset" } else { "no commit came" }.to_owned());
        }
    };
    tokio::time::sleep(time).await;
    link.heal();
    Ok(format!("{details}, {:.1} s", time.as_secs_f64()))
}
