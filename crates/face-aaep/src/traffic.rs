//! Counts the events that all streams have sent and left out, for the metrics. Must not depend on streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recount_aaep::shaping::Counts;

/// Counters of all streams since the process began. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Traffic(Arc<Counters>);

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    filtered: AtomicU64,
    merged: AtomicU64,
    ahead: AtomicU64,
}

/// The counts that one stream has reported.
pub(crate) struct Reported(Counts);

impl Reported {
    pub(crate) fn new(counts: Counts) -> Self {
        Reported(counts)
    }
}

impl Traffic {
    /// Adds the counts of a stream since its last report.
    pub(crate) fn report(&self, reported: &mut Reported, now: Counts) {
        if reported.0 == now {
            return;
        }
        let before = std::mem::replace(&mut reported.0, now);
        let pairs = [
            (&self.0.sent, now.sent, before.sent),
            (&self.0.filtered, now.filtered, before.filtered),
            (&self.0.merged, now.merged, before.merged),
            (&self.0.ahead, now.ahead, before.ahead),
        ];
        for (counter, now, before) in pairs {
            counter.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// The current counters. They do not include the critical events of a stream.
    pub(crate) fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            sent: of(&self.0.sent),
            filtered: of(&self.0.filtered),
            merged: of(&self.0.merged),
            ahead: of(&self.0.ahead),
            ..Counts::default()
        }
    }
}
