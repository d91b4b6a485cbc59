//! Cases: random appends, compared with a simple model.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::*;

const SEQUENTIAL_CASES: u32 = 24;
const CONCURRENT_CASES: u32 = 4;
const WRITERS: usize = 64;

/// One append as the generator draws it.
#[derive(Debug, Clone)]
struct Drawn {
    /// By stream: the error of the writer's expected tail, and the records.
    streams: BTreeMap<u8, (u64, Vec<Vec<u8>>)>,
    rows: BTreeMap<u8, (DrawnGuard, Option<Vec<u8>>)>,
}

#[derive(Debug, Clone, Copy)]
enum DrawnGuard {
    Any,
    Absent,
    /// The real version plus this.
    Version(u64),
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let off = prop_oneof![9 => Just(0_u64), 1 => 1..3_u64];
    let records = vec(vec(any::<u8>(), 0..40), 1..5);
    let guard = prop_oneof![
        4 => Just(DrawnGuard::Any),
        1 => Just(DrawnGuard::Absent),
        3 => Just(DrawnGuard::Version(0)),
        1 => Just(DrawnGuard::Version(1)),
    ];
    let value = proptest::option::weighted(0.8, vec(any::<u8>(), 0..20));
    (btree_map(0..4_u8, (off, records), 0..4), btree_map(0..4_u8, (guard, value), 0..3))
        .prop_map(|(streams, rows)| Drawn { streams, rows })
}

/// The expected content of a store.
#[derive(Default)]
struct Model {
    feed: Vec<(String, Vec<u8>)>,
    rows: BTreeMap<String, (u64, Vec<u8>)>,
}

impl Model {
    fn tail(&self, stream: &str) -> u64 {
        self.feed.iter().filter(|(name, _)| name == stream).count() as u64
    }

    fn version(&self, key: &str) -> Option<u64> {
        self.rows.get(key).map(|(version, _)| *version)
    }

    /// Builds the append, and whether it must be accepted.
    fn prepare(&self, drawn: &Drawn) -> (Append, bool) {
        let mut append = Append::default();
        let mut good = true;
        for (name, (off, records)) in &drawn.streams {
            let stream = format!("s{name}");
            let expected_tail = self.tail(&stream) + off;
            good &= *off == 0;
            let records = records.iter().cloned().map(Bytes::from).collect();
            append.streams.push(StreamAppend { stream: stream.into(), expected_tail, records });
        }
        for (name, (guard, value)) in &drawn.rows {
            let key = format!("k{name}");
            let actual = self.version(&key);
            let guard = match guard {
                DrawnGuard::Any => Guard::Any,
                DrawnGuard::Absent => Guard::Absent,
                DrawnGuard::Version(off) => Guard::Version(actual.unwrap_or(7) + off),
            };
            good &= match guard {
                Guard::Any => true,
                Guard::Absent => actual.is_none(),
                Guard::Version(version) => actual == Some(version),
            };
            let value = value.clone().map(Bytes::from);
            append.rows.push(RowPut { space: "s".into(), key: key.into(), guard, value });
        }
        (append, good)
    }

    fn land(&mut self, append: Append) {
        for part in append.streams {
            for record in part.records {
                self.feed.push((part.stream.to_string(), record.to_vec()));
            }
        }
        for put in append.rows {
            let key = put.key.to_string();
            match put.value {
                Some(value) => {
                    let version = self.version(&key).unwrap_or(0) + 1;
                    self.rows.insert(key, (version, value.to_vec()));
                }
                None => {
                    self.rows.remove(&key);
                }
            }
        }
    }
}

pub fn any_sequence_of_appends_agrees_with_the_model(make: Make<'_>) {
    run(SEQUENTIAL_CASES, &vec(drawn(), 1..25), |appends| {
        let subject = make();
        let calls = Calls(&*subject.store);
        let mut model = Model::default();
        for drawn in appends {
            let (append, good) = model.prepare(&drawn);
            let answer = calls.append(append.clone());
            assert_eq!(answer.is_ok(), good, "{append:?} was answered {answer:?}");
            if good {
                model.land(append);
            }
        }
        let feed: Vec<_> = calls
            .feed(1, ALL)
            .into_iter()
            .map(|feed| (feed.stream.to_string(), feed.record.bytes.to_vec()))
            .collect();
        assert_eq!(feed, model.feed);
        let rows: BTreeMap<_, _> = calls
            .rows("s")
            .into_iter()
            .map(|row| (row.key.to_string(), (row.version, row.value.to_vec())))
            .collect();
        assert_eq!(rows, model.rows);
        calls.check_whole();
    });
}

pub fn any_shape_of_writers_on_one_stream_adds_up(make: Make<'_>) {
    run(CONCURRENT_CASES, &vec(vec(1..4_usize, 0..3), WRITERS), |shape| {
        super::order::contend(make, 1, &shape)
    });
}

pub fn any_shape_of_writers_on_many_streams_adds_up(make: Make<'_>) {
    let shapes = (2..=WRITERS, vec(vec(1..6_usize, 1..6), WRITERS));
    run(CONCURRENT_CASES, &shapes, |(streams, shape)| super::order::contend(make, streams, &shape));
}

/// Runs a property. A panic in it is a failed case, which is then shrunk.
fn run<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value)) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        property(value);
        Ok::<(), TestCaseError>(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
