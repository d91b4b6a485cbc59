//! Random appends over a network with random faults, compared with the store in memory: what was acknowledged exists once,
//! what was refused does not exist, and the store finds out what happened to the rest.

use std::time::Duration;

use recount_faulty_link::FaultCourse;
use recount_log::{Append, AppendError, Fault, FeedRecord, Guard, MemoryStore, Row, Store, Tail};
use recount_log_conformance::{ALL, block_on, both, cut, erase, records, row};
use recount_log_postgres::{Database, PostgresStore};
use recount_test_postgres::fresh_database;

use super::failures::Load;
use super::work::{
    Dice, Observed, append, check_elsewhere, is_of_the_network, link, options, settled, settled_tail, texts,
};

const SEEDS: u64 = 3;
const TURNS: u64 = 150;
const STREAMS: usize = 4;

/// An append to one or two streams, sometimes with a cut or an erasure, and a row that notes the turn.
fn draw(dice: &mut Dice, model: &MemoryStore, turn: u64) -> Append {
    let name = |stream: usize| format!("s{}", stream % STREAMS);
    let tail = |stream: usize| tail_of(model, &name(stream)).map_or(0, |tail| tail.next_sequence);
    let version = block_on(model.row("space", "turn")).unwrap().map(|row| row.version);
    let guard = version.map_or(Guard::Absent, Guard::Version);
    let mut append = row("space", "turn", guard, Some(turn.to_string().as_bytes()));
    let first = dice.below(STREAMS);
    for stream in first..first + 1 + dice.below(2) {
        let filler = "x".repeat(dice.below(900));
        let texts: Vec<_> = (0..1 + dice.below(4)).map(|n| format!("{turn} {n} {filler}")).collect();
        let bytes: Vec<_> = texts.iter().map(String::as_bytes).collect();
        append = both(append, records(&name(stream), tail(stream), &bytes));
    }
    let other = first + 2;
    match dice.below(40) {
        0..=3 => both(append, cut(&name(other), dice.below(tail(other) as usize + 1) as u64)),
        4 if other.is_multiple_of(STREAMS) => both(append, erase(&name(other))),
        5..=7 => both(append, row("space", &format!("row {}", dice.below(3)), Guard::Any, None)),
        8..=15 => both(append, row("space", &format!("row {}", dice.below(3)), Guard::Any, Some(b"value"))),
        _ => append,
    }
}

fn tail_of(store: &dyn Store, stream: &str) -> Option<Tail> {
    block_on(store.tail(&stream.into())).unwrap()
}

/// Everything that a store holds.
fn whole(store: &dyn Store) -> (Vec<FeedRecord>, Vec<Option<Tail>>, Vec<Row>, u64) {
    let names = block_on(store.streams(None, usize::MAX)).unwrap();
    let range = recount_log::RowRange::first("space", "", usize::MAX);
    (
        block_on(store.read_feed(1, ALL)).unwrap(),
        names.iter().map(|name| tail_of(store, name)).collect(),
        block_on(store.rows(range)).unwrap(),
        block_on(store.last_position()).unwrap(),
    )
}

/// The last turn that the store has committed.
fn last_turn(store: &PostgresStore) -> Option<u64> {
    let row = settled(|| block_on(store.row("space", "turn")))?;
    Some(String::from_utf8(row.value.to_vec()).unwrap().parse().unwrap())
}

fn course(seed: u64) -> FaultCourse {
    FaultCourse { seed, bytes: 200..20_000, pause_max: Duration::from_millis(20) }
}

fn run(seed: u64) {
    println!("seed {seed}");
    let mut dice = Dice::new(seed);
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let model = MemoryStore::new();
    let (observed, expected) = (Observed::of(&store), Observed::of(&model));
    let (mut acknowledged, mut refused, mut unknown, mut unchanged) = (0, 0, 0, 0);
    link.draw_faults(course(seed));
    for turn in 0..TURNS {
        let append = draw(&mut dice, &model, turn);
        match block_on(store.append(append.clone())) {
            Err(AppendError::Fault(fault)) => {
                assert!(is_of_the_network(&fault), "seed {seed}, turn {turn}: {fault}");
                if last_turn(&store) == Some(turn) {
                    block_on(model.append(append)).unwrap();
                    unknown += 1;
                } else {
                    unchanged += 1;
                }
            }
            outcome => {
                acknowledged += u64::from(outcome.is_ok());
                refused += u64::from(outcome.is_err());
                assert_eq!(outcome, block_on(model.append(append)), "seed {seed}, turn {turn}");
            }
        }
    }
    let faults = link.traffic().faults;
    println!(
        "{acknowledged} acknowledged, {refused} refused, {unknown} failed and were committed, {unchanged} failed without a \
         change; {faults:?}"
    );
    assert!(faults.kinds() >= 3, "the network was faulty: {faults:?}");
    link.heal();
    let after = whole(&store);
    assert!(after == whole(&model), "seed {seed}: the store and the model differ");
    assert_eq!(block_on(store.integrity()).unwrap().problems, [""; 0], "seed {seed}");
    assert!(observed.records() == expected.records(), "seed {seed}: observed once and in order");
    block_on(store.close()).unwrap();
    drop(store);
    let store = database.open_store("a").unwrap();
    assert!(after == whole(&store), "seed {seed}: the next owner reads the same");
    database.close();
}

#[test]
fn random_faults_of_the_network_leave_true_outcomes() {
    for seed in 0..recount_tier::times(SEEDS) {
        run(seed);
    }
}

#[test]
fn random_faults_of_the_network_lose_nothing_of_many_writers() {
    const RECORDS: u64 = 60;
    for seed in 0..recount_tier::times(SEEDS) {
        println!("seed {seed}");
        let url = fresh_database();
        let (link, through) = link(&url);
        let database = Database::open(options(&through, "first")).unwrap();
        let store = database.open_store("a").unwrap();
        link.draw_faults(FaultCourse { bytes: 200..4_000, ..course(seed) });
        let mut load = Load::start(store, RECORDS);
        load.wait_written();
        println!("{:?}", link.traffic().faults);
        link.heal();
        let feed = load.check();
        database.close();
        check_elsewhere(&url, "a", &feed);
    }
}

#[test]
fn a_store_opens_over_a_faulty_network_when_it_is_tried_again() {
    for seed in 0..recount_tier::times(SEEDS) {
        println!("seed {seed}");
        let url = fresh_database();
        let (link, through) = link(&url);
        link.draw_faults(FaultCourse { bytes: 50..8_000, ..course(seed) });
        let mut attempts = 0;
        let mut retried = |outcome: Result<(), Fault>| {
            attempts += 1;
            outcome.map_err(|fault| assert!(is_of_the_network(&fault), "seed {seed}: {fault}")).is_ok()
        };
        let database = loop {
            let opened = Database::open(options(&through, "first"));
            if retried(opened.as_ref().map(drop).map_err(Clone::clone)) {
                break opened.unwrap();
            }
        };
        for name in ["a", "b", "c", "d"] {
            let store = loop {
                let opened = database.open_store(name);
                if retried(opened.as_ref().map(drop).map_err(Clone::clone)) {
                    break opened.unwrap();
                }
            };
            while settled_tail(&store, "s") == 0 {
                append(&store, "s", 0, name).ok();
            }
        }
        println!("{attempts} attempts for a database and 4 stores; {:?}", link.traffic().faults);
        link.heal();
        database.close();
        let checks = Database::open(options(&url, "checks")).unwrap();
        for name in ["a", "b", "c", "d"] {
            assert_eq!(texts(&checks.open_store(name).unwrap(), "s"), [name], "seed {seed}");
        }
        checks.close();
    }
}
