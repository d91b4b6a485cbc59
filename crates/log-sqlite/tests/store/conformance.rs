//! The contract of every store.

use recount_log::conformance::Subject;
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

fn subject(durability: Durability) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions { durability, ..SqliteOptions::new(folder.path()) }).unwrap();
    let blobs = folder.path().join("blobs");
    let damage = move |hash: &str| {
        let path = blobs.join(&hash[..2]).join(hash);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    Subject::new(store).keeping(folder).damaging_blobs(damage)
}

mod strict {
    recount_log::conformance_suite!(super::subject(super::Durability::Strict));
}

mod relaxed {
    recount_log::conformance_suite!(super::subject(super::Durability::Relaxed));
}
