//! Compares the SQLite store with the store in memory under random operations.

use recount_log::{Append, MemoryStore, ReadBound, Store};
use recount_log_conformance::{block_on, both, cut, erase};
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

use super::work::{Dice, append_to_both, close, row, scratch};

const SEEDS: u64 = 24;
const TURNS: usize = 160;
const STREAMS: usize = 4;

fn name(stream: usize) -> String {
    format!("run_{stream}")
}

fn payload(dice: &mut Dice) -> Vec<u8> {
    match dice.below(12) {
        0 => (0..dice.below(50)).map(|_| dice.roll() as u8).collect(),
        1 => format!("{{\"long\":\"{}\"}}", "x".repeat(dice.below(90_000))).into_bytes(),
        2 => b"{}, {}".to_vec(),
        _ => format!("{{\"n\":{},\"text\":\"{}\"}}", dice.roll(), "y".repeat(dice.below(200))).into_bytes(),
    }
}

fn draw(dice: &mut Dice, model: &MemoryStore) -> Append {
    let tail = |stream: usize| {
        block_on(model.tail(&name(stream).as_str().into())).unwrap().map_or(0, |tail| tail.next_sequence)
    };
    let mut append = Append::default();
    let first = dice.below(STREAMS);
    for stream in (first..first + 1 + dice.below(2)).map(|stream| stream % STREAMS) {
        let wrong = u64::from(dice.below(20) == 0);
        let payloads: Vec<Vec<u8>> = (0..1 + dice.below(6)).map(|_| payload(dice)).collect();
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let records = recount_log_conformance::records(&name(stream), tail(stream) + wrong, &payloads);
        append = both(append, records);
        if dice.below(12) == 0 {
            append = both(append, cut(&name(stream), dice.below(tail(stream) as usize + 1) as u64));
        }
    }
    let other = (first + 2) % STREAMS;
    match dice.below(60) {
        0..=4 => append = both(append, cut(&name(other), dice.below(tail(other) as usize + 2) as u64)),
        // Rarely, and never the last two.
        5 if other < 2 => append = both(append, erase(&name(other))),
        6..=20 => append = both(append, row("k", b"v")),
        _ => {}
    }
    append
}

/// Compares reads of both stores at a random place.
fn compare(store: &SqliteStore, model: &MemoryStore, dice: &mut Dice, what: &str) {
    let bound = ReadBound { count: 1 + dice.below(30), bytes: 1 << dice.below(18) };
    let last = block_on(model.last_position()).unwrap();
    assert_eq!(block_on(store.last_position()), Ok(last), "{what}");
    let from = dice.below(last as usize + 2) as u64;
    let (found, expected) = (block_on(store.read_feed(from, bound)), block_on(model.read_feed(from, bound)));
    assert!(found == expected, "{what}: the feed from {from} with {bound:?}");
    for stream in 0..STREAMS {
        let key = name(stream).as_str().into();
        let tail = block_on(model.tail(&key)).unwrap();
        assert_eq!(block_on(store.tail(&key)), Ok(tail), "{what}: {key}");
        let from = dice.below(tail.map_or(0, |tail| tail.next_sequence) as usize + 2) as u64;
        let (found, expected) =
            (block_on(store.read(&key, from, bound)), block_on(model.read(&key, from, bound)));
        assert!(found == expected, "{what}: {key} from {from} with {bound:?}");
    }
}

#[test]
fn both_stores_return_the_same() {
    let (mut sealed, mut reopened, mut refused) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut dice = Dice(seed);
        let folder = scratch();
        let hot_records_max = if dice.coin() { 1 + dice.below(60) as u64 } else { u64::MAX };
        let options = SqliteOptions {
            durability: Durability::Relaxed,
            hot_records_max,
            ..SqliteOptions::new(folder.path())
        };
        let mut store = SqliteStore::open(options.clone()).unwrap();
        let model = MemoryStore::new();
        for turn in 0..TURNS {
            let what = format!("seed {seed}, turn {turn}");
            match dice.below(20) {
                0 => {
                    close(store);
                    store = SqliteStore::open(options.clone()).unwrap();
                    reopened += 1;
                }
                1 | 2 => block_on(store.seal_now()).unwrap(),
                _ => {
                    let append = draw(&mut dice, &model);
                    refused += u32::from(!append_to_both(&store, &model, append, &what));
                }
            }
            compare(&store, &model, &mut dice, &what);
        }
        let found = block_on(store.integrity()).unwrap();
        assert_eq!(found, block_on(model.integrity()).unwrap(), "seed {seed}");
        let (stats, plain) = (block_on(store.stats()).unwrap(), block_on(model.stats()).unwrap());
        assert_eq!(stats.hot_records + stats.sealed_records, plain.hot_records, "seed {seed}");
        assert_eq!(stats.hot_bytes + stats.sealed_bytes, plain.hot_bytes, "seed {seed}");
        sealed += stats.sealed_records;
    }
    println!("{sealed} records were sealed at the end, {reopened} times reopened, {refused} appends refused");
    assert!(sealed > 1000 && reopened > 20 && refused > 20);
}
