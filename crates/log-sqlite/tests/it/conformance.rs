//! The conformance suite of every store, with several settings.

use recount_log_conformance::Subject;
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

fn subject(durability: Durability) -> Subject {
    subject_with(|options| SqliteOptions { durability, ..options })
}

fn subject_with(choose: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Subject {
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

/// The border between hot and sealed records crosses every stream.
mod sealing {
    recount_log_conformance::conformance_suite!(super::subject_with(|options| super::SqliteOptions {
        durability: super::Durability::Relaxed,
        hot_records_max: 3,
        ..options
    }));
}

/// Hardly any record stays hot, and sealing runs during reads.
mod sealing_at_once {
    recount_log_conformance::conformance_suite!(super::subject_with(|options| super::SqliteOptions {
        durability: super::Durability::Relaxed,
        seal_age: std::time::Duration::ZERO,
        ..options
    }));
}

/// Rows are written to their table constantly, except the newest.
mod folding {
    recount_log_conformance::conformance_suite!(super::subject_with(|options| super::SqliteOptions {
        durability: super::Durability::Relaxed,
        fresh_rows_max: 2,
        ..options
    }));
}
