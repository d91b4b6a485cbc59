//! Counters and timings of a store, for [`crate::Store::stats`].

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::values::{Histogram, Stats};

/// Shared by the writer, which counts, and `stats`.
#[derive(Default)]
pub struct Meters(Mutex<MeterValues>);

#[derive(Default)]
struct MeterValues {
    append_micros: Histogram,
    sync_micros: Histogram,
    group_appends: Histogram,
    commits_failed: u64,
}

impl Meters {
    fn lock(&self) -> MutexGuard<'_, MeterValues> {
        self.0.lock().expect("nothing panics while it holds the meters")
    }

    /// Records the latencies of appends that shared a commit.
    pub fn group(&self, appends: impl ExactSizeIterator<Item = Duration>) {
        let mut noted = self.lock();
        noted.group_appends.note(appends.len() as u64);
        appends.for_each(|time| noted.append_micros.note(micros(time)));
    }

    pub fn synced(&self, time: Duration) {
        self.lock().sync_micros.note(micros(time));
    }

    pub fn failed(&self) {
        self.lock().commits_failed += 1;
    }

    pub fn add_to(&self, stats: &mut Stats) {
        let noted = self.lock();
        stats.append_micros = noted.append_micros.clone();
        stats.sync_micros = noted.sync_micros.clone();
        stats.group_appends = noted.group_appends.clone();
        stats.commits_failed = noted.commits_failed;
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
