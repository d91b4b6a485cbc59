//! The scopes of a token, as requests and replies name them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a token allows. No scope includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read tasks, runs, events, and open approvals and questions.
    Read,
    /// Create and cancel tasks and runs.
    Run,
    /// Answer approvals, questions and handoffs.
    Approve,
    /// Create external runs and append to them.
    Ingest,
    /// Administer the server: tokens, retention, imports, backups.
    Admin,
}
