//! The conformance suite of every store on PostgreSQL: as it is, with small partitions, and over a slow network.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use recount_faulty_link::{Flow, Link};
use recount_log_conformance::Subject;
use recount_log_postgres::{Database, PostgresOptions};
use recount_test_postgres::fresh_database;

use super::work::{Sql, link, options};

/// A database whose stores are the subjects of a suite.
struct Fixture {
    database: Database,
    url: String,
    stores: AtomicU32,
    _link: Option<Link>,
}

impl Fixture {
    fn new(choose: impl FnOnce(PostgresOptions) -> PostgresOptions, flow: Flow) -> Self {
        let url = fresh_database();
        let (through, link) = match flow {
            Flow::Pass => (url.clone(), None),
            flow => {
                let (link, through) = link(&url);
                link.set_both(flow);
                (through, Some(link))
            }
        };
        let database = Database::open(choose(options(&through, "suite"))).unwrap();
        Fixture { database, url, stores: AtomicU32::new(0), _link: link }
    }

    /// A new store of the database.
    fn subject(&self) -> Subject {
        let name = format!("store{}", self.stores.fetch_add(1, Ordering::Relaxed));
        let store = self.database.open_store(&name).unwrap();
        let url = self.url.clone();
        Subject::new(store).damaging_blobs(move |hash| {
            let sql = Sql::connect(&url);
            assert_eq!(super::damage::damage_blob(&sql, &name, hash), 1);
        })
    }
}

fn direct() -> Subject {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| Fixture::new(|options| options, Flow::Pass)).subject()
}

fn partitioned() -> Subject {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    let small = |options| PostgresOptions { partition_records: 3, ..options };
    FIXTURE.get_or_init(|| Fixture::new(small, Flow::Pass)).subject()
}

fn slow() -> Subject {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    let delay = Flow::Delay(Duration::from_millis(1));
    FIXTURE.get_or_init(|| Fixture::new(|options| options, delay)).subject()
}

mod plain {
    recount_log_conformance::conformance_suite!(super::direct());
}

/// The border between partitions crosses every stream and most appends.
mod small_partitions {
    recount_log_conformance::conformance_suite!(super::partitioned());
}

/// Every chunk that the store sends or receives waits.
mod over_a_slow_link {
    recount_log_conformance::conformance_suite!(super::slow());
}
