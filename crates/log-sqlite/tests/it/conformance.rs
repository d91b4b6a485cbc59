//! The contract of every store.

use recount_log_conformance::Subject;
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

fn subject(durability: Durability) -> Subject {
    made(|options| SqliteOptions { durability, ..options })
}

fn made(choose: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(choose(SqliteOptions::new(folder.path()))).unwrap();
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
    recount_log_conformance::conformance_suite!(super::subject(super::Durability::Strict));
}

mod relaxed {
    recount_log_conformance::conformance_suite!(super::subject(super::Durability::Relaxed));
}

/// The border between what is hot and what is sealed goes through everything.
mod sealing {
    recount_log_conformance::conformance_suite!(super::made(|options| super::SqliteOptions {
        durability: super::Durability::Relaxed,
        hot_records_max: 3,
        ..options
    }));
}

/// Hardly anything stays hot, and sealing goes on while the rest is read.
mod sealing_at_once {
    recount_log_conformance::conformance_suite!(super::made(|options| super::SqliteOptions {
        durability: super::Durability::Relaxed,
        seal_age: std::time::Duration::ZERO,
        ..options
    }));
}

/// Rows are brought to their table all the time, though never the newest.
mod folding {
    recount_log_conformance::conformance_suite!(super::made(|options| super::SqliteOptions {
        durability: super::Durability::Relaxed,
        fresh_rows_max: 2,
        ..options
    }));
}
