//! Missing events in words: pruned ones, and those that the store has damaged.

use recount_client::reply::{DamagedRange, Gap};

pub(crate) fn gap_words(gap: &Gap) -> String {
    match gap {
        Gap::Pruned { first_pruned_sequence: first, last_pruned_sequence: last } if first == last => {
            format!("event {first} was pruned")
        }
        Gap::Pruned { first_pruned_sequence: first, last_pruned_sequence: last } => {
            format!("events {first} to {last} were pruned")
        }
        Gap::Damaged(range) => damage_words(range),
    }
}

pub(crate) fn damage_words(damaged: &DamagedRange) -> String {
    let range = |name: &str, first: Option<u64>, last: Option<u64>| match (first, last) {
        (Some(first), Some(last)) if first == last => Some(format!("{name} {first}")),
        (Some(first), Some(last)) => Some(format!("{name}s {first} to {last}")),
        _ => None,
    };
    let of = damaged.run_id.as_ref().map(|run| format!(" of {run}")).unwrap_or_default();
    let events = range("event", damaged.first_sequence, damaged.last_sequence)
        .or_else(|| range("position", damaged.first_position, damaged.last_position))
        .unwrap_or_else(|| "some events".to_owned());
    format!("{events}{of}: damaged in the store, not shown")
}
