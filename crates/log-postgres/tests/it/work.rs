//! Shared parts of the tests: databases, links, plain SQL, random numbers, and checks of a whole store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recount_faulty_link::Link;
use recount_log::chain::ChainValue;
use recount_log::{AppendError, Committed, Fault, FaultKind, FeedRecord, Observer, Store};
use recount_log_conformance::{ALL, block_on, records};
use recount_log_postgres::{Database, PostgresOptions, PostgresStore};
use recount_world::{Entropy as _, SeededEntropy};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A lease that a test can wait for.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(2);

/// Options of a node with a lease that no test waits for.
pub(crate) fn options(url: &str, node: &str) -> PostgresOptions {
    PostgresOptions { node: node.into(), ..PostgresOptions::new(url) }
}

pub(crate) fn short_lease(url: &str, node: &str) -> PostgresOptions {
    PostgresOptions { lease: SHORT_LEASE, ..options(url, node) }
}

/// A link to the server of a URL, and the URL through the link.
pub(crate) fn link(url: &str) -> (Link, String) {
    let (rest, database) = url.rsplit_once('/').unwrap();
    let (rest, port) = rest.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    let link = Link::start(([127, 0, 0, 1], port).into()).unwrap();
    let through = format!("{rest}:{}/{database}", link.port());
    (link, through)
}

/// Plain SQL.
pub(crate) struct Sql {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Sql {
    pub(crate) fn connect(url: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).unwrap();
        runtime.spawn(async { drop(connection.await) });
        Sql { runtime, client }
    }

    /// The rows of the last statement, as text.
    #[track_caller]
    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let messages = self.runtime.block_on(self.client.simple_query(sql)).unwrap();
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect())
            }
            _ => None,
        });
        rows.collect()
    }

    /// The number of rows that a statement changed.
    #[track_caller]
    pub(crate) fn change(&self, sql: &str) -> u64 {
        self.runtime.block_on(self.client.execute(sql, &[])).unwrap()
    }

    /// One value, as a number.
    #[track_caller]
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.rows(sql)[0][0].parse().unwrap()
    }

    /// Waits until a condition of the database is true.
    #[track_caller]
    pub(crate) fn wait(&self, condition: &str) {
        until(|| !self.rows(&format!("SELECT 1 WHERE {condition}")).is_empty());
    }
}

/// Waits until a condition is true. Most take seconds, in which a loop would take the processor from what it waits for.
pub(crate) fn until(mut is_true: impl FnMut() -> bool) {
    while !is_true() {
        std::thread::park_timeout(LOOK_EVERY);
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The records that a store reported to its observer.
#[derive(Default)]
pub(crate) struct Observed(Mutex<Vec<FeedRecord>>);

impl Observer for Observed {
    fn committed(&self, records: &[FeedRecord]) {
        self.0.lock().unwrap().extend_from_slice(records);
    }
}

impl Observed {
    pub(crate) fn of(store: &dyn Store) -> Arc<Self> {
        let observed = Arc::new(Observed::default());
        store.observe(observed.clone());
        observed
    }

    pub(crate) fn records(&self) -> Vec<FeedRecord> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn append(
    store: &PostgresStore,
    stream: &str,
    tail: u64,
    record: &str,
) -> Result<Committed, AppendError> {
    block_on(store.append(records(stream, tail, &[record.as_bytes()])))
}

/// The records of a stream, as texts.
pub(crate) fn texts(store: &PostgresStore, stream: &str) -> Vec<String> {
    let records = block_on(store.read(&stream.into(), 0, ALL)).unwrap();
    records.iter().map(|record| String::from_utf8(record.bytes.to_vec()).unwrap()).collect()
}

#[track_caller]
pub(crate) fn fault_of<T: std::fmt::Debug>(outcome: Result<T, AppendError>) -> Fault {
    match outcome {
        Err(AppendError::Fault(fault)) => fault,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

/// Reads where a stream ends, until the store answers. It may refuse while its network or database is faulty.
#[track_caller]
pub(crate) fn settled_tail(store: &PostgresStore, stream: &str) -> u64 {
    settled(|| block_on(store.end(&stream.into()))).map_or(0, |end| end.next_sequence)
}

/// Calls a store until it answers.
#[track_caller]
pub(crate) fn settled<T>(call: impl Fn() -> Result<T, Fault>) -> T {
    loop {
        match call() {
            Ok(answer) => return answer,
            Err(fault) => assert!(is_of_the_network(&fault), "{fault}"),
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Whether a faulty network or database explains a fault.
pub(crate) fn is_of_the_network(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Io | FaultKind::Busy)
}

/// Checks a store to which records were only added: positions and sequences are dense, chains verify, and no problem is
/// found. Returns the feed.
#[track_caller]
pub(crate) fn check_dense(store: &PostgresStore) -> Vec<FeedRecord> {
    let feed = block_on(store.read_feed(1, ALL)).unwrap();
    let mut chains = BTreeMap::new();
    for (place, fed) in feed.iter().enumerate() {
        assert_eq!(fed.record.position, place as u64 + 1, "positions are dense");
        let start = (0, ChainValue::start(&fed.stream));
        let (next, head) = chains.entry(fed.stream.clone()).or_insert(start);
        assert_eq!(fed.record.sequence, *next, "sequences of {} are dense", fed.stream);
        (*next, *head) = (*next + 1, head.then(&fed.record.bytes));
    }
    for (stream, (next, head)) in &chains {
        let tail = block_on(store.tail(stream)).unwrap().unwrap();
        assert_eq!((tail.next_sequence, tail.head), (*next, *head), "the chain of {stream}");
    }
    assert_eq!(block_on(store.last_position()), Ok(feed.len() as u64));
    let found = block_on(store.integrity()).unwrap();
    assert_eq!((found.problems, found.readable_records), (vec![], feed.len() as u64));
    feed
}

/// Opens the store on another node after its owner has given it back, and checks it there too.
#[track_caller]
pub(crate) fn check_elsewhere(url: &str, name: &str, feed: &[FeedRecord]) {
    let database = Database::open(options(url, "checks")).unwrap();
    let store = database.open_store(name).unwrap();
    assert_eq!(check_dense(&store), feed);
    database.close();
}

/// Random numbers that depend only on the seed.
pub(crate) struct Dice(SeededEntropy);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(SeededEntropy::new(seed))
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.0.draw() % bound as u128) as usize
    }
}
