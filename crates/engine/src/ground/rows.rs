//! Names of the row spaces and the shape of their keys: one place, so that no two things share a name.
//!
//! Spaces whose name begins with `catalogue.` are folds of the log and may be thrown away and made again;
//! the others are records: truth that is not history.

use std::sync::Arc;

use bytes::Bytes;
use recount_event::{EventId, RunId, SessionId, TaskId};
use recount_log::{Append, Guard, RowPut};
use recount_run::PromptKind;

use crate::ground::error::{Error, damaged_row};

/// Whose things these are, until there are tenants.
pub(crate) const TENANT: &str = "default";

/// The version of a row that was just made.
pub(crate) const FIRST_VERSION: u64 = 1;

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

/// Fold: a question and what became of it. Key: tenant / question / the event that asked, because stores were
/// written in which two runs asked under one id.
pub(crate) const CLARIFICATIONS: &str = "catalogue.clarifications";

/// Fold: all questions, in the order they were asked. Key: tenant / the event that asked.
pub(crate) const CLARIFICATIONS_LISTED: &str = "catalogue.clarifications_listed";

/// Fold: the questions that are still open. Key: tenant / the event that asked.
pub(crate) const CLARIFICATIONS_PENDING: &str = "catalogue.clarifications_pending";

/// Fold: a handoff and what became of it. Key: as of questions.
pub(crate) const HANDOFFS: &str = "catalogue.handoffs";

/// Fold: all handoffs, in the order they were asked for. Key: tenant / the event that asked.
pub(crate) const HANDOFFS_LISTED: &str = "catalogue.handoffs_listed";

/// Fold: the handoffs that nobody has answered yet. Key: tenant / the event that asked.
pub(crate) const HANDOFFS_PENDING: &str = "catalogue.handoffs_pending";

/// Fold: the runs of a session. Key: tenant / session / run.
pub(crate) const SESSION_RUNS: &str = "catalogue.session_runs";

/// Fold: the runs that come after a run: that retry, resume or continue it. Key: tenant / run / the run after it.
pub(crate) const RUN_SUCCESSORS: &str = "catalogue.run_successors";

/// Fold: something kept apart from the log, as the event told that made it. Key: tenant / artifact / that event,
/// because an id that a producer chose is only unique in its run.
pub(crate) const ARTIFACTS: &str = "catalogue.artifacts";

/// Fold: all of them, in the order they were made. Key: tenant / the event that made it.
pub(crate) const ARTIFACTS_LISTED: &str = "catalogue.artifacts_listed";

/// Fold: those of a run. Key: tenant / run / the event that made it.
pub(crate) const RUN_ARTIFACTS: &str = "catalogue.run_artifacts";

/// Fold: those of a task. Key: tenant / task / the event that made it.
pub(crate) const TASK_ARTIFACTS: &str = "catalogue.task_artifacts";

/// Fold: what changed of them since, told by whatever run. Key: tenant / artifact / the event that told it.
pub(crate) const ARTIFACT_CHANGES: &str = "catalogue.artifact_changes";

/// Fold: who needs a blob. Key: its hash / the event that made an artifact of it.
pub(crate) const BLOB_USES: &str = "catalogue.blob_uses";

/// Fold: when a run must be looked at next. Key: run.
pub(crate) const DEADLINES: &str = "catalogue.deadlines";

/// Fold: the runs of our own that have not ended. Key: run.
pub(crate) const OWN_OPEN: &str = "catalogue.own_open";

/// Record: a task as it was asked for. Key: tenant / task.
pub(crate) const TASKS: &str = "record.tasks";

/// Record: the run that a task is busy with. Key: task.
pub(crate) const TASK_ACTIVE: &str = "record.task_active";

/// Record: a session as it was opened. Key: tenant / session.
pub(crate) const SESSIONS: &str = "record.sessions";

/// Record: with which agent an application set a session up, and what it chose. Key: tenant / session.
pub(crate) const SETUPS: &str = "record.session_setups";

/// Record: what was said before a session began, as it came, cut into parts. Key: tenant / session / part.
pub(crate) const SEEDS: &str = "record.session_seeds";

/// Record: the run of ours that a session is busy with. Key: session.
pub(crate) const SESSION_ACTIVE: &str = "record.session_active";

/// Record: what a producer's batch became. Key: run / producer / epoch / number.
pub(crate) const PRODUCERS: &str = "record.producers";

/// Record: that nothing of a run may be pruned, since when, and who said so. Key: run.
pub(crate) const PINS: &str = "record.pins";

/// Record: what is left of an erased run, for good. Key: tenant / run.
pub(crate) const ERASED: &str = "record.erased";

/// Record: that a task was deleted, for good. No run may be made for it. Key: task.
pub(crate) const TASKS_ERASED: &str = "record.tasks_erased";

/// Record: that a session was deleted, for good. No run may be made in it. Key: session.
pub(crate) const SESSIONS_ERASED: &str = "record.sessions_erased";

/// Record: that a task or a session is being deleted and its runs are not all erased yet. Key: task or session.
pub(crate) const ERASING: &str = "record.erasing";

/// Record: the highest position that was ever pruned, under the key `last`.
pub(crate) const PRUNED: &str = "record.pruned";

/// The key of the one row of [`PRUNED`].
pub(crate) const PRUNED_LAST: &str = "last";

/// Record: a request that is to be done once, and what came of it. Key: as the face makes it.
pub(crate) const ONCE: &str = "record.once";

/// Record: when each of those may be forgotten. Key: that time / its key.
pub(crate) const ONCE_DUE: &str = "record.once_due";

/// Record: what was handed out to come in with. Key: token. Of all tenants, in the store of the default one.
pub(crate) const TOKENS: &str = "record.tokens";

/// Record: which folds there are, as a number under the key `version`; see [`crate::catalogue::rebuild::VERSION`].
pub(crate) const FOLDS: &str = "record.folds";

/// The key of the one row of [`FOLDS`].
pub(crate) const FOLDS_VERSION: &str = "version";

/// Record: something that was sent in and that no run has used yet. Key: tenant / artifact.
pub(crate) const UPLOADS: &str = "record.uploads";

/// Record: when each of those may be forgotten. Key: that time / artifact.
pub(crate) const UPLOADS_DUE: &str = "record.uploads_due";

/// Record: which of those needs a blob. Key: its hash / artifact.
pub(crate) const UPLOAD_BLOBS: &str = "record.upload_blobs";

/// Record: that the bytes of an artifact were here when a run that is driven from outside had it, or later. Key: their
/// hash / the event that made it, as of [`BLOB_USES`].
pub(crate) const BLOBS_KEPT: &str = "record.blobs_kept";

/// Record: that a run came in by an import, so that the bytes of its artifacts may be elsewhere. Key: run.
pub(crate) const IMPORTED: &str = "record.imported";

/// Record: that an artifact was deleted, or went with its run or with the run's beginning, for good. Key: tenant / artifact.
pub(crate) const ARTIFACTS_GONE: &str = "record.artifacts_gone";

/// Record: that an artifact was deleted alone, for good. Key: tenant / the event that made it.
pub(crate) const ARTIFACTS_DELETED: &str = "record.artifacts_deleted";

/// Record: how many bytes such an artifact counted for. Key: its task, or its run without one / the event that made it.
pub(crate) const ARTIFACTS_FREED: &str = "record.artifacts_freed";

/// Record: that an artifact may not go, since when, and who said so. Key: run / the event that made it.
pub(crate) const ARTIFACT_PINS: &str = "record.artifact_pins";

/// Record: what was masked before it was appended, encrypted, for who carries it out, and secret options of sessions.
/// Key: run, or session / what it is of.
pub(crate) const SEALED: &str = "record.sealed";

/// Record: a yes that holds for later calls, too. Key: tenant / allowance.
pub(crate) const ALLOWANCES: &str = "record.allowances";

/// Record: which of them a call is found by. Key: tenant / scope / a digest of whose it is and of the call.
pub(crate) const ALLOWANCES_HELD: &str = "record.allowances_held";

/// Record: those that were given in a run, so that they go with it. Key: run / allowance.
pub(crate) const RUN_ALLOWANCES: &str = "record.run_allowances";

/// Which of our sessions another program's session is recorded in. Key: tenant / a digest of its name.
pub(crate) const RECORDED_SESSIONS: &str = "record.recorded_sessions";

/// Record: nothing that stays; written and taken away to see whether there is space.
pub(crate) const PROBE: &str = "record.probe";

/// All of them, for readers of everything.
pub(crate) const SPACES: &[&str] = &[
    RUNS,
    TASK_RUNS,
    APPROVALS,
    APPROVALS_LISTED,
    APPROVALS_PENDING,
    CLARIFICATIONS,
    CLARIFICATIONS_LISTED,
    CLARIFICATIONS_PENDING,
    HANDOFFS,
    HANDOFFS_LISTED,
    HANDOFFS_PENDING,
    SESSION_RUNS,
    RUN_SUCCESSORS,
    ARTIFACTS,
    ARTIFACTS_LISTED,
    RUN_ARTIFACTS,
    TASK_ARTIFACTS,
    ARTIFACT_CHANGES,
    BLOB_USES,
    DEADLINES,
    OWN_OPEN,
    TASKS,
    TASK_ACTIVE,
    SESSIONS,
    SETUPS,
    SEEDS,
    SESSION_ACTIVE,
    PRODUCERS,
    PINS,
    ERASED,
    TASKS_ERASED,
    SESSIONS_ERASED,
    ERASING,
    PRUNED,
    ONCE,
    ONCE_DUE,
    TOKENS,
    FOLDS,
    UPLOADS,
    UPLOADS_DUE,
    UPLOAD_BLOBS,
    BLOBS_KEPT,
    ARTIFACTS_GONE,
    ARTIFACTS_DELETED,
    ARTIFACTS_FREED,
    ARTIFACT_PINS,
    SEALED,
    ALLOWANCES,
    ALLOWANCES_HELD,
    RUN_ALLOWANCES,
    RECORDED_SESSIONS,
    PROBE,
    IMPORTED,
];

/// All folds.
pub(crate) const CATALOGUE: [&str; 21] = [
    RUNS,
    TASK_RUNS,
    SESSION_RUNS,
    RUN_SUCCESSORS,
    APPROVALS,
    APPROVALS_LISTED,
    APPROVALS_PENDING,
    CLARIFICATIONS,
    CLARIFICATIONS_LISTED,
    CLARIFICATIONS_PENDING,
    HANDOFFS,
    HANDOFFS_LISTED,
    HANDOFFS_PENDING,
    ARTIFACTS,
    ARTIFACTS_LISTED,
    RUN_ARTIFACTS,
    TASK_ARTIFACTS,
    ARTIFACT_CHANGES,
    BLOB_USES,
    DEADLINES,
    OWN_OPEN,
];

/// The folds that the last append of an erasure takes away; all others of a run went before it.
pub(crate) const GO_WITH_THE_RUN: [&str; 5] = [RUNS, DEADLINES, TASK_RUNS, SESSION_RUNS, RUN_SUCCESSORS];

/// The folds of the first version of the catalogue.
pub(crate) const CATALOGUE_VERSION_1: [&str; 6] =
    [RUNS, TASK_RUNS, APPROVALS, APPROVALS_LISTED, APPROVALS_PENDING, DEADLINES];

/// Those that the second version had beside them. The third had [`OWN_OPEN`], too.
pub(crate) const CATALOGUE_VERSION_2: [&str; 7] = [
    SESSION_RUNS,
    CLARIFICATIONS,
    CLARIFICATIONS_LISTED,
    CLARIFICATIONS_PENDING,
    HANDOFFS,
    HANDOFFS_LISTED,
    HANDOFFS_PENDING,
];

/// Where the prompts of one kind are kept.
pub(crate) struct PromptSpaces {
    pub(crate) each: &'static str,
    pub(crate) listed: &'static str,
    pub(crate) pending: &'static str,
}

pub(crate) fn prompts(kind: PromptKind) -> PromptSpaces {
    let (each, listed, pending) = match kind {
        PromptKind::Approval => (APPROVALS, APPROVALS_LISTED, APPROVALS_PENDING),
        PromptKind::Clarification => (CLARIFICATIONS, CLARIFICATIONS_LISTED, CLARIFICATIONS_PENDING),
        PromptKind::Handoff => (HANDOFFS, HANDOFFS_LISTED, HANDOFFS_PENDING),
    };
    PromptSpaces { each, listed, pending }
}

/// The key of one prompt among those of its kind.
pub(crate) fn prompt_key(kind: PromptKind, id: &str, asked: EventId) -> String {
    match kind {
        PromptKind::Approval => tenant_key(id),
        PromptKind::Clarification | PromptKind::Handoff => format!("{}{asked}", prompt_prefix(id)),
    }
}

/// What the keys of questions, or of handoffs, with one id begin with.
pub(crate) fn prompt_prefix(id: &str) -> String {
    format!("{TENANT}/{id}/")
}

/// The run that the key of a row names after a prefix.
pub(crate) fn run_in_key(space: &str, key: &str, prefix: &str) -> Result<RunId, Error> {
    let run = key.strip_prefix(prefix).unwrap_or(key);
    run.parse().map_err(|why| damaged_row(space, key, why))
}

pub(crate) fn tenant_key(id: impl std::fmt::Display) -> String {
    format!("{TENANT}/{id}")
}

pub(crate) fn task_runs_prefix(task: TaskId) -> String {
    format!("{TENANT}/{task}/")
}

/// What the keys begin with of everything about one artifact, of everything that one run or task has made.
pub(crate) fn within(id: impl std::fmt::Display) -> String {
    format!("{TENANT}/{id}/")
}

/// What the keys of secret options of a session begin with.
pub(crate) fn sealed_of_session(session: SessionId) -> String {
    format!("{session}/")
}

/// Parts are padded, so that the order of keys is theirs.
pub(crate) fn seed_key(session: SessionId, part: usize) -> String {
    format!("{}{part:06}", within(session))
}

pub(crate) fn session_runs_prefix(session: SessionId) -> String {
    format!("{TENANT}/{session}/")
}

pub(crate) fn producer_prefix(run: RunId, producer: &str) -> String {
    format!("{run}/{producer}/")
}

/// Numbers are padded, so that the order of keys is the order of batches.
pub(crate) fn producer_key(run: RunId, producer: &str, epoch: u64, seq: u64) -> String {
    format!("{}{epoch:020}/{seq:020}", producer_prefix(run, producer))
}

/// Times are padded, so that the order of keys is that of times.
pub(crate) fn due_key(at_ms: u64, key: &str) -> String {
    format!("{at_ms:020}/{key}")
}

pub(crate) fn put(
    space: &str,
    key: impl Into<Arc<str>>,
    guard: Guard,
    value: &impl serde::Serialize,
) -> RowPut {
    RowPut { space: space.into(), key: key.into(), guard, value: Some(written(value)) }
}

/// A value as rows hold it.
pub(crate) fn written(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value).expect("rows can be written as JSON").into()
}

pub(crate) fn delete(space: &str, key: impl Into<Arc<str>>) -> RowPut {
    RowPut { space: space.into(), key: key.into(), guard: Guard::Any, value: None }
}

/// Changes nothing, and lets the append happen only when there is no such row.
pub(crate) fn must_be_absent(space: &str, key: impl Into<Arc<str>>) -> RowPut {
    RowPut { guard: Guard::Absent, ..delete(space, key) }
}

/// Changes of rows that are part of a deletion, which must work on a full disk, too.
pub(crate) fn taking_away(rows: Vec<RowPut>) -> Append {
    Append { rows, frees_space: true, ..Append::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A space that is missing from the list is never looked at by the scrub.
    #[test]
    fn every_space_is_listed() {
        let named = include_str!("rows.rs").lines().filter_map(|line| {
            let (_, name) = line.strip_prefix("pub(crate) const ")?.split_once(": &str = \"")?;
            let name = name.strip_suffix("\";")?;
            (name.starts_with("catalogue.") || name.starts_with("record.")).then_some(name)
        });
        assert_eq!(named.collect::<BTreeSet<_>>(), SPACES.iter().copied().collect());
    }
}
