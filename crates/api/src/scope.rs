//! What a token may do, as requests and replies word it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of thing that somebody may do. None of them includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// See tasks, runs, events and what is asked of people.
    Read,
    /// Create and cancel tasks and runs.
    Run,
    /// Answer what runs ask: permissions, questions, handoffs.
    Approve,
    /// Create external runs and append to them.
    Ingest,
    /// Keep the house: tokens, retention, imports, backups.
    Admin,
}
