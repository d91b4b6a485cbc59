//! Names of the row spaces and the shape of their keys: one place, so that no two things share a name.
//!
//! Spaces whose name begins with `catalogue.` are folds of the log and may be thrown away and made again;
//! the others are records: truth that is not history.

use std::sync::Arc;

use recount_event::{RunId, TaskId};
use recount_log::{Guard, RowPut};

/// Whose things these are, until there are tenants.
pub(crate) const TENANT: &str = "default";

/// Fold: a run as lists show it. Key: tenant / run.
pub(crate) const RUNS: &str = "catalogue.runs";
/// Fold: the runs of a task. Key: tenant / task / run.
pub(crate) const TASK_RUNS: &str = "catalogue.task_runs";
/// Fold: a request for permission and what became of it. Key: tenant / approval. Created with a guard,
/// so that one id names one request.
pub(crate) const APPROVALS: &str = "catalogue.approvals";
/// Fold: all requests, in the order they were made. Key: tenant / the event that asked.
pub(crate) const APPROVALS_LISTED: &str = "catalogue.approvals_listed";
/// Fold: the requests that are still open, in the order they were made. Key: tenant / the event that asked.
pub(crate) const APPROVALS_PENDING: &str = "catalogue.approvals_pending";
/// Fold: when a run must be looked at next. Key: run.
pub(crate) const DEADLINES: &str = "catalogue.deadlines";

/// Record: a task as it was asked for. Key: tenant / task.
pub(crate) const TASKS: &str = "record.tasks";
/// Record: the run that a task is busy with. Key: task.
pub(crate) const TASK_ACTIVE: &str = "record.task_active";
/// Record: what a producer's batch became. Key: run / producer / epoch / number.
pub(crate) const PRODUCERS: &str = "record.producers";
/// Record: that nothing of a run may be pruned, since when, and who said so. Key: run.
pub(crate) const PINS: &str = "record.pins";
/// Record: what is left of an erased run, for good. Key: tenant / run.
pub(crate) const ERASED: &str = "record.erased";
/// Record: that a task was deleted, for good. No run may be made for it. Key: task.
pub(crate) const TASKS_ERASED: &str = "record.tasks_erased";
/// Record: that a task is being deleted and its runs are not all erased yet. Key: task.
pub(crate) const ERASING: &str = "record.erasing";
/// Record: the highest position that was ever pruned, under the key `last`.
pub(crate) const PRUNED: &str = "record.pruned";
/// The key of the one row of [`PRUNED`].
pub(crate) const PRUNED_LAST: &str = "last";

/// Record: what was handed out to come in with. Key: token. Of all tenants, in the store of the default one.
pub(crate) const TOKENS: &str = "record.tokens";

/// Record: nothing that stays; written and taken away to see whether there is space.
pub(crate) const PROBE: &str = "record.probe";

/// All folds.
pub(crate) const CATALOGUE: [&str; 6] =
    [RUNS, TASK_RUNS, APPROVALS, APPROVALS_LISTED, APPROVALS_PENDING, DEADLINES];

pub(crate) fn tenant_key(id: impl std::fmt::Display) -> String {
    format!("{TENANT}/{id}")
}

pub(crate) fn task_runs_prefix(task: TaskId) -> String {
    format!("{TENANT}/{task}/")
}

pub(crate) fn producer_prefix(run: RunId, producer: &str) -> String {
    format!("{run}/{producer}/")
}

/// Numbers are padded, so that the order of keys is the order of batches.
pub(crate) fn producer_key(run: RunId, producer: &str, epoch: u64, seq: u64) -> String {
    format!("{}{epoch:020}/{seq:020}", producer_prefix(run, producer))
}

pub(crate) fn put(
    space: &str,
    key: impl Into<Arc<str>>,
    guard: Guard,
    value: &impl serde::Serialize,
) -> RowPut {
    let value = serde_json::to_vec(value).expect("rows hold nothing that JSON cannot say");
    RowPut { space: space.into(), key: key.into(), guard, value: Some(value.into()) }
}

pub(crate) fn delete(space: &str, key: impl Into<Arc<str>>) -> RowPut {
    RowPut { space: space.into(), key: key.into(), guard: Guard::Any, value: None }
}

/// Changes nothing, and lets the append happen only when there is no such row.
pub(crate) fn must_be_absent(space: &str, key: impl Into<Arc<str>>) -> RowPut {
    RowPut { guard: Guard::Absent, ..delete(space, key) }
}
