//! `gap.*`: history that cannot be had.

use crate::Json;
use crate::family::payload;

payload! {
    /// A prefix of the run was taken away. Stands at the tail, so that numbering goes on.
    EventsPruned { first_pruned_sequence: u64, last_pruned_sequence: u64, pruned_at: String, reason: String } {
        /// What the catalogue knew from the events that are gone.
        catalogue: Json,
    }

    /// Nobody drove the run for a while.
    RunDisconnected { since_sequence: u64, since_at: String, reason: String } {}
}
