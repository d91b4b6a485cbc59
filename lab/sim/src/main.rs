//! `recount-sim`: plays seeds, counts their coverage, and reports the seed that failed.
//!
//! `fixed` plays the same seeds each time, `random --seconds N` new ones for a while, and `seed N` one seed with its
//! traces. `nodes` plays only the nodes.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail, ensure};
use recount_sim::nodes::{self, NodeCounts};
use recount_sim::rules::Tally;
use recount_sim::trace::Counts;
use recount_sim::{engine_play, rules};
use recount_world::{Clock, Entropy, SystemClock, SystemEntropy};

const USAGE: &str = "usage: recount-sim fixed [--seeds N [--from SEED]] | random --seconds N | seed N | \
                     nodes --seeds N [--from SEED]";

/// The default number of engine seeds for `fixed`.
const FIXED_SEEDS: &str = "60";

/// Every n-th seed is played twice, to check that only the seed decides.
const TWICE_EVERY: u64 = 20;

/// Plays of the rules for each play of the engine.
const RULES_PER_ENGINE: u64 = 5;

/// Plays of the nodes for each play of the engine.
const NODES_PER_ENGINE: u64 = 25;

/// Concurrent plays.
const PLAYERS: u64 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match *arguments {
        ["fixed"] => fixed(FIXED_SEEDS, "0"),
        ["fixed", "--seeds", seeds] => fixed(seeds, "0"),
        ["fixed", "--seeds", seeds, "--from", first] => fixed(seeds, first),
        ["random", "--seconds", seconds] => random(seconds),
        ["seed", seed] => one(seed),
        ["nodes", "--seeds", seeds] => all_nodes(seeds, "0"),
        ["nodes", "--seeds", seeds, "--from", first] => all_nodes(seeds, first),
        _ => Err(anyhow::anyhow!("{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&mut std::io::stderr(), &format!("recount-sim: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line. Errors are ignored, so that a closed output does not fail a play.
fn print_line(to: &mut impl std::io::Write, line: &str) {
    drop(writeln!(to, "{line}"));
}

/// The coverage of all tiers.
#[derive(Default)]
struct Sum {
    rules_seeds: u64,
    rules: Tally,
    engine_seeds: u64,
    engine_play: Counts,
    node_seeds: u64,
    nodes: NodeCounts,
}

impl Sum {
    fn words(&self) -> String {
        let (a, b, c) = (&self.rules, &self.engine_play, &self.nodes);
        let mut words = String::new();
        let rules = format_args!(
            "rules:  {} seeds, {} runs, {} events, {} commands, {} refusals, {} crashes, {} endings\n",
            self.rules_seeds, a.runs, a.events, a.commands, a.refusals, a.crashes, a.endings
        );
        let engine_play = format_args!(
            "engine: {} seeds, {} runs, {} events, {} batches, {} answers, {} refusals, {} readers, \
             {} deliveries, {} crashes, {} shutdowns, {} faults; {} prunes, {} pins, {} deletions, {} gaps delivered, \
             {} readers cut off\n",
            self.engine_seeds,
            b.runs,
            b.events,
            b.batches,
            b.answers,
            b.refusals,
            b.readers,
            b.deliveries,
            b.crashes,
            b.shutdowns,
            b.faults,
            b.prunes,
            b.pins,
            b.deletions,
            b.gaps,
            b.cut_off
        );
        let nodes = format_args!(
            "nodes:  {} seeds, {} take-overs, {} commits, {} acknowledged, {} refused, {} unknown, {} effects, \
             {} withheld, {} kills, {} stops, {} pauses, {} cuts, {} unanswered, {} calms",
            self.node_seeds,
            c.take_overs,
            c.commits,
            c.acknowledged,
            c.refused,
            c.unknown,
            c.effects,
            c.withheld,
            c.kills,
            c.stops,
            c.pauses,
            c.cuts,
            c.unanswered,
            c.calms
        );
        for part in [rules, engine_play, nodes] {
            words.write_fmt(part).expect("writing into a string does not fail");
        }
        words
    }
}

/// Plays one seed. The error names the seed, also after a panic.
fn played<T>(what: &str, seed: u64, play: impl FnOnce() -> T) -> anyhow::Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(play))
        .map_err(|_| anyhow::anyhow!("{what} panicked with seed {seed}"))
}

fn play_rules(seed: u64, sum: &Mutex<Sum>) -> anyhow::Result<()> {
    let tally = played("the rules", seed, || rules::play(seed, None))?
        .with_context(|| format!("the rules broke with seed {seed}"))?;
    let mut sum = sum.lock().expect("no player panics with the sum in hand");
    sum.rules_seeds += 1;
    sum.rules += tally;
    Ok(())
}

fn play_engine(seed: u64, twice: bool, sum: &Mutex<Sum>) -> anyhow::Result<()> {
    let outcome = played("the engine", seed, || engine_play::play(seed, None))?;
    if !outcome.wrong.is_empty() {
        bail!("the engine broke with seed {seed}: {}", outcome.wrong.join("; "));
    }
    if twice {
        let again = engine_play::play(seed, None);
        ensure!(again.trace == outcome.trace, "seed {seed} does not play the same way twice");
    }
    let mut sum = sum.lock().expect("no player panics with the sum in hand");
    sum.engine_seeds += 1;
    sum.engine_play += outcome.counts;
    Ok(())
}

fn play_nodes(seed: u64, twice: bool, sum: &Mutex<Sum>) -> anyhow::Result<()> {
    let (outcome, counts) = played("the nodes", seed, || nodes::play(seed, None))?;
    if !outcome.wrong.is_empty() {
        bail!("the nodes broke with seed {seed}: {}", outcome.wrong.join("; "));
    }
    if twice {
        let again = nodes::play(seed, None).0;
        ensure!(again.trace == outcome.trace, "seed {seed} of the nodes does not play the same way twice");
    }
    let mut sum = sum.lock().expect("no player panics with the sum in hand");
    sum.node_seeds += 1;
    sum.nodes += counts;
    Ok(())
}

/// Runs players until one fails or reports the end.
fn all_players(
    turn: impl Fn(u64, &Mutex<Sum>) -> anyhow::Result<bool> + Send + Sync + 'static,
) -> anyhow::Result<Sum> {
    let (turn, next, stop) = (Arc::new(turn), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let sum = Arc::new(Mutex::new(Sum::default()));
    let first_error = Arc::new(Mutex::new(None));
    let players: Vec<_> = (0..PLAYERS)
        .map(|n| {
            let (turn, next, stop) = (turn.clone(), next.clone(), stop.clone());
            let (sum, first_error) = (sum.clone(), first_error.clone());
            recount_world::thread(&format!("player-{n}"), move || {
                while !stop.load(Ordering::SeqCst) {
                    match turn(next.fetch_add(1, Ordering::SeqCst), &sum) {
                        Ok(true) => continue,
                        Ok(false) => {}
                        Err(error) => {
                            first_error.lock().expect("no player panics here").get_or_insert(error);
                        }
                    }
                    stop.store(true, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for player in players {
        player.join().map_err(|_| anyhow::anyhow!("a player panicked"))?;
    }
    match first_error.lock().expect("no player panics here").take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut *sum.lock().expect("no player panics with the sum in hand"))),
    }
}

/// Plays the engine with seeds from the first on, and the rules and the nodes with [`RULES_PER_ENGINE`] and
/// [`NODES_PER_ENGINE`] times as many.
fn fixed(seeds: &str, first: &str) -> anyhow::Result<()> {
    let engine_seeds: u64 = seeds.parse().context(USAGE)?;
    let first: u64 = first.parse().context(USAGE)?;
    let before_nodes = engine_seeds.saturating_mul(1 + RULES_PER_ENGINE);
    let all_seeds = before_nodes.saturating_add(engine_seeds.saturating_mul(NODES_PER_ENGINE));
    let start_ms = SystemClock.now_ms();
    let sum = all_players(move |n, sum| {
        if n < engine_seeds {
            play_engine(first.wrapping_add(n), n.is_multiple_of(TWICE_EVERY), sum)?;
        } else if n < before_nodes {
            play_rules((n - engine_seeds).wrapping_add(first.wrapping_mul(RULES_PER_ENGINE)), sum)?;
        } else if n < all_seeds {
            let seed = (n - before_nodes).wrapping_add(first.wrapping_mul(NODES_PER_ENGINE));
            play_nodes(seed, n.is_multiple_of(TWICE_EVERY), sum)?;
        }
        Ok(n + 1 < all_seeds)
    })?;
    report(start_ms, &sum);
    Ok(())
}

/// Plays only the nodes.
fn all_nodes(seeds: &str, first: &str) -> anyhow::Result<()> {
    let seeds: u64 = seeds.parse().context(USAGE)?;
    let first: u64 = first.parse().context(USAGE)?;
    let start_ms = SystemClock.now_ms();
    let sum = all_players(move |n, sum| {
        if n < seeds {
            play_nodes(first.wrapping_add(n), n.is_multiple_of(TWICE_EVERY), sum)?;
        }
        Ok(n + 1 < seeds)
    })?;
    report(start_ms, &sum);
    Ok(())
}

fn random(seconds: &str) -> anyhow::Result<()> {
    let seconds: u64 = seconds.parse().context(USAGE)?;
    let (start_ms, entropy) = (SystemClock.now_ms(), SystemEntropy::new());
    let sum = all_players(move |n, sum| {
        let seed = entropy.draw() as u64;
        play_engine(seed, n.is_multiple_of(TWICE_EVERY), sum)?;
        for seed in (0..RULES_PER_ENGINE).map(|n| seed.wrapping_add(n)) {
            play_rules(seed, sum)?;
        }
        for seed in (0..NODES_PER_ENGINE).map(|n| seed.wrapping_add(n)) {
            play_nodes(seed, false, sum)?;
        }
        Ok(SystemClock.now_ms() < start_ms + seconds * 1000)
    })?;
    report(start_ms, &sum);
    Ok(())
}

fn report(start_ms: u64, sum: &Sum) {
    let took_ms = SystemClock.now_ms().saturating_sub(start_ms);
    print_line(&mut std::io::stdout(), &format!("{}\nall held, in {took_ms} ms", sum.words()));
}

fn one(seed: &str) -> anyhow::Result<()> {
    let seed = seed.parse().context(USAGE)?;
    let (start_ms, sum) = (SystemClock.now_ms(), Mutex::new(Sum::default()));
    print_line(&mut std::io::stdout(), engine_play::play(seed, None).trace.trim_end());
    print_line(&mut std::io::stdout(), nodes::play(seed, None).0.trace.trim_end());
    play_rules(seed, &sum)?;
    play_engine(seed, true, &sum)?;
    play_nodes(seed, true, &sum)?;
    report(start_ms, &sum.into_inner().expect("no player panicked while it held the sum"));
    Ok(())
}
