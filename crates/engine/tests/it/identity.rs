//! Event ids: a million ids, generated in parallel in one millisecond, are all different.

use std::collections::HashSet;
use std::sync::Arc;

use recount_event::{EventId, Minter, Stamp};
use recount_world::{Entropy as _, SystemEntropy};

#[test]
fn a_million_ids_over_many_runs_are_all_different_and_grow_within_each() {
    const RUNS: usize = 1000;
    const EVENTS: usize = 1000;
    let entropy = Arc::new(SystemEntropy::new());
    let halves: Vec<_> = (0..2)
        .map(|_| {
            let entropy = entropy.clone();
            recount_world::thread("mint", move || {
                let mut seen = HashSet::with_capacity(RUNS * EVENTS / 2);
                for _ in 0..RUNS / 2 {
                    let mut minter = Minter::default();
                    let mut last = None;
                    for event in 0..EVENTS {
                        // A run takes several events from one stamp, as a batch does.
                        let stamp = Stamp { now_ms: 1_777_803_825_123, entropy: entropy.draw() };
                        let id = EventId::new(minter.mint(stamp));
                        assert!(last < Some(id), "event {event}");
                        last = Some(id);
                        assert!(seen.insert(id), "{id} came twice");
                    }
                }
                assert_eq!(seen.len(), RUNS * EVENTS / 2);
                MERGED.lock().unwrap().extend(seen);
            })
        })
        .collect();
    for half in halves {
        half.join().unwrap();
    }
    assert_eq!(MERGED.lock().unwrap().len(), RUNS * EVENTS);
}

static MERGED: std::sync::Mutex<std::collections::BTreeSet<EventId>> =
    std::sync::Mutex::new(std::collections::BTreeSet::new());
