//! Random appends over a network with random faults, compared with a model: what was acknowledged exists once, what was
//! refused does not exist, and the store finds out what happened to the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use recount_faulty_link::FaultCourse;
use recount_log::{Append, AppendError, Guard, Store};
use recount_log_conformance::{block_on, both, records, row};
use recount_log_postgres::Database;
use recount_test_postgres::fresh_database;

use super::work::{
    Dice, Observed, check_dense, check_elsewhere, is_of_the_network, link, options, settled_tail,
};

const SEEDS: u64 = 3;
const TURNS: u64 = 120;
const STREAMS: usize = 4;

/// What the store must hold.
#[derive(Default)]
struct Model {
    streams: BTreeMap<String, Vec<String>>,
    /// Key, version and value.
    rows: BTreeMap<String, (u64, String)>,
}

impl Model {
    fn tail(&self, stream: &str) -> u64 {
        self.streams.get(stream).map_or(0, |records| records.len() as u64)
    }

    /// An append to one or two streams and a row that counts the turns, with texts that exist once.
    fn draw(&self, dice: &mut Dice, turn: u64) -> (Append, Vec<(String, Vec<String>)>) {
        let first = dice.below(STREAMS);
        let (mut append, mut drawn) = (Append::default(), Vec::new());
        for stream in first..first + 1 + dice.below(2) {
            let stream = format!("s{}", stream % STREAMS);
            let count = 1 + dice.below(4);
            let filler = "x".repeat(dice.below(900));
            let texts: Vec<_> = (0..count).map(|n| format!("{stream} {turn} {n} {filler}")).collect();
            let bytes: Vec<_> = texts.iter().map(String::as_bytes).collect();
            append = both(append, records(&stream, self.tail(&stream), &bytes));
            drawn.push((stream, texts));
        }
        let guard = self.rows.get("turn").map_or(Guard::Absent, |(version, _)| Guard::Version(*version));
        append = both(append, row("space", "turn", guard, Some(turn.to_string().as_bytes())));
        (append, drawn)
    }

    fn land(&mut self, turn: u64, drawn: Vec<(String, Vec<String>)>) {
        for (stream, texts) in drawn {
            self.streams.entry(stream).or_default().extend(texts);
        }
        let version = self.rows.get("turn").map_or(0, |(version, _)| *version);
        self.rows.insert("turn".into(), (version + 1, turn.to_string()));
    }
}

fn run(seed: u64) {
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    let observed = Observed::of(&store);
    let mut model = Model::default();
    let (mut acknowledged, mut unknown, mut unchanged) = (0, 0, 0);
    link.draw_faults(FaultCourse { seed, bytes: 200..20_000, pause_max: Duration::from_millis(20) });
    for turn in 0..TURNS {
        let (append, drawn) = model.draw(&mut dice, turn);
        let stream = drawn[0].0.clone();
        let added = drawn[0].1.len() as u64;
        match block_on(store.append(append)) {
            Ok(committed) => {
                assert_eq!(committed.streams.len(), drawn.len());
                assert_eq!(
                    committed.streams[0].first_sequence,
                    model.tail(&stream),
                    "seed {seed}, turn {turn}"
                );
                model.land(turn, drawn);
                acknowledged += 1;
            }
            Err(AppendError::Fault(fault)) => {
                assert!(is_of_the_network(&fault), "seed {seed}, turn {turn}: {fault}");
                let (before, now) = (model.tail(&stream), settled_tail(&store, &stream));
                if now == before {
                    unchanged += 1;
                } else {
                    assert_eq!(now, before + added, "seed {seed}, turn {turn}: all or nothing");
                    model.land(turn, drawn);
                    unknown += 1;
                }
            }
            Err(other) => panic!("seed {seed}, turn {turn}: {other}"),
        }
    }
    let faults = link.traffic().faults;
    println!(
        "{acknowledged} acknowledged, {unknown} failed and were committed, {unchanged} failed without a change; {faults:?}"
    );
    assert!(faults.kinds() >= 3, "the network was faulty: {faults:?}");
    link.heal();
    let feed = check_dense(&store);
    let mut streams = BTreeMap::<String, Vec<String>>::new();
    for fed in &feed {
        let text = String::from_utf8(fed.record.bytes.to_vec()).unwrap();
        streams.entry(fed.stream.to_string()).or_default().push(text);
    }
    assert!(streams == model.streams, "seed {seed}: the store and the model differ");
    let row = block_on(store.row("space", "turn")).unwrap().unwrap();
    let row = (row.version, String::from_utf8(row.value.to_vec()).unwrap());
    assert_eq!(Some(&row), model.rows.get("turn"), "seed {seed}");
    assert!(observed.records() == feed, "seed {seed}: the observer gets each record once and in order");
    block_on(store.close()).unwrap();
    database.close();
    check_elsewhere(&url, "a", &feed);
}

#[test]
fn random_faults_of_the_network_leave_true_outcomes() {
    for seed in 0..recount_tier::times(SEEDS) {
        run(seed);
    }
}
