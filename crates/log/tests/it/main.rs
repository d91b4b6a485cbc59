//! The store in memory keeps the contract of every store.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use bytes::Bytes;
use recount_log::{
    Append, AppendError, Fault, FaultKind, FeedRecord, MemoryStore, Observer, Store as _, StreamAppend,
};
use recount_log_conformance::{Subject, block_on};

recount_log_conformance::conformance_suite!(Subject::new(MemoryStore::new()));

#[test]
fn an_observer_that_panics_stops_the_store() {
    struct Panics;
    impl Observer for Panics {
        fn committed(&self, _: &[FeedRecord]) {
            panic!("as the test demands");
        }
    }
    let store = MemoryStore::new();
    store.observe(Arc::new(Panics));
    let append = || Append {
        streams: vec![StreamAppend {
            stream: "a".into(),
            expected_tail: 0,
            records: vec![Bytes::from_static(b"x")],
        }],
        ..Append::default()
    };
    let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.append(append())));
    assert!(first.is_err());
    let second = block_on(store.append(append()));
    assert!(matches!(second, Err(AppendError::Fault(Fault { kind: FaultKind::Closed, .. }))), "{second:?}");
}
