//! Names of the row spaces and formats of their keys, in one file so that all names are unique.
//!
//! Spaces that start with `catalogue.` are folds of the log and can be rebuilt. The others are records: state that is
//! not in the log.

use std::sync::Arc;

use bytes::Bytes;
use recount_event::{EventId, ForeignId, RunId, SessionId, TaskId};
use recount_log::{Append, Guard, RowPut};
use recount_run::PromptKind;

use crate::ground::error::{Error, damaged_row};

/// The tenant in all keys; each tenant has its own store.
pub(crate) const TENANT: &str = "default";

/// The version of a new row.
pub(crate) const FIRST_VERSION: u64 = 1;

/// Fold: a run as shown in lists. Key: tenant / run.
pub(crate) const RUNS: &str = "catalogue.runs";

/// Fold: the runs of a task. Key: tenant / task / run.
pub(crate) const TASK_RUNS: &str = "catalogue.task_runs";

/// Fold: an approval and its result. Key: tenant / approval. Created with a guard, so that ids are unique.
pub(crate) const APPROVALS: &str = "catalogue.approvals";

/// Fold: all approvals, in request order. Key: tenant / requesting event.
pub(crate) const APPROVALS_LISTED: &str = "catalogue.approvals_listed";

/// Fold: pending approvals, in request order. Key: tenant / requesting event.
pub(crate) const APPROVALS_PENDING: &str = "catalogue.approvals_pending";

/// Fold: a clarification and its result. Key: tenant / clarification / requesting event, because in older stores two
/// runs may use one id.
pub(crate) const CLARIFICATIONS: &str = "catalogue.clarifications";

/// Fold: all clarifications, in request order. Key: tenant / requesting event.
pub(crate) const CLARIFICATIONS_LISTED: &str = "catalogue.clarifications_listed";

/// Fold: pending clarifications. Key: tenant / requesting event.
pub(crate) const CLARIFICATIONS_PENDING: &str = "catalogue.clarifications_pending";

/// Fold: a handoff and its result. Key: as for clarifications.
pub(crate) const HANDOFFS: &str = "catalogue.handoffs";

/// Fold: all handoffs, in request order. Key: tenant / requesting event.
pub(crate) const HANDOFFS_LISTED: &str = "catalogue.handoffs_listed";

/// Fold: pending handoffs. Key: tenant / requesting event.
pub(crate) const HANDOFFS_PENDING: &str = "catalogue.handoffs_pending";

/// Fold: the runs of a session. Key: tenant / session / run.
pub(crate) const SESSION_RUNS: &str = "catalogue.session_runs";

/// Fold: the runs that retry, resume or continue a run. Key: tenant / run / successor.
pub(crate) const RUN_SUCCESSORS: &str = "catalogue.run_successors";

/// Fold: an artifact as reported by its creating event. Key: tenant / artifact / event, because an id chosen by a
/// producer is unique only in its run.
pub(crate) const ARTIFACTS: &str = "catalogue.artifacts";

/// Fold: all artifacts, in creation order. Key: tenant / creating event.
pub(crate) const ARTIFACTS_LISTED: &str = "catalogue.artifacts_listed";

/// Fold: the artifacts of a run. Key: tenant / run / creating event.
pub(crate) const RUN_ARTIFACTS: &str = "catalogue.run_artifacts";

/// Fold: the artifacts of a task. Key: tenant / task / creating event.
pub(crate) const TASK_ARTIFACTS: &str = "catalogue.task_artifacts";

/// Fold: later changes of an artifact, by any run. Key: tenant / artifact / changing event.
pub(crate) const ARTIFACT_CHANGES: &str = "catalogue.artifact_changes";

/// Fold: the uses of a blob. Key: hash / event that created the artifact.
pub(crate) const BLOB_USES: &str = "catalogue.blob_uses";

/// Fold: the next deadline of a run. Key: run.
pub(crate) const DEADLINES: &str = "catalogue.deadlines";

/// Fold: the unfinished own runs. Key: run.
pub(crate) const OWN_OPEN: &str = "catalogue.own_open";

/// Record: a task. Key: tenant / task.
pub(crate) const TASKS: &str = "record.tasks";

/// Record: the active run of a task. Key: task.
pub(crate) const TASK_ACTIVE: &str = "record.task_active";

/// Record: a session. Key: tenant / session.
pub(crate) const SESSIONS: &str = "record.sessions";

/// Record: the setup of a session. Key: tenant / session.
pub(crate) const SETUPS: &str = "record.session_setups";

/// Record: the seed messages of a session, in parts. Key: tenant / session / part.
pub(crate) const SEEDS: &str = "record.session_seeds";

/// Record: the active own run of a session. Key: session.
pub(crate) const SESSION_ACTIVE: &str = "record.session_active";

/// Record: the receipt of a producer's batch. Key: run / producer / epoch / number.
pub(crate) const PRODUCERS: &str = "record.producers";

/// Record: the pin of a run, with its owner and time. Key: run.
pub(crate) const PINS: &str = "record.pins";

/// Record: the tombstone of an erased run. Key: tenant / run.
pub(crate) const ERASED: &str = "record.erased";

/// Record: a deleted task, for which no run can be created. Key: task.
pub(crate) const TASKS_ERASED: &str = "record.tasks_erased";

/// Record: a deleted session, in which no run can be created. Key: session.
pub(crate) const SESSIONS_ERASED: &str = "record.sessions_erased";

/// Record: a task or a session whose deletion is pending. Key: task or session.
pub(crate) const ERASING: &str = "record.erasing";

/// Record: the highest position that was ever pruned, under the key `last`.
pub(crate) const PRUNED: &str = "record.pruned";

/// The key of the only row of [`PRUNED`].
pub(crate) const PRUNED_LAST: &str = "last";

/// Record: an idempotency key and the result of its request. Key: as chosen by the face.
pub(crate) const IDEMPOTENCY_KEYS: &str = "record.once";

/// Record: the expiry of an idempotency key. Key: time / idempotency key.
pub(crate) const IDEMPOTENCY_KEYS_DUE: &str = "record.once_due";

/// Record: a token. Key: token. The store of the default tenant has the tokens of all tenants.
pub(crate) const TOKENS: &str = "record.tokens";

/// Record: the version of the folds, under the key `version`; see [`crate::catalogue::rebuild::VERSION`].
pub(crate) const FOLDS: &str = "record.folds";

/// The key of the only row of [`FOLDS`].
pub(crate) const FOLDS_VERSION: &str = "version";

/// Record: an upload that no run has used. Key: tenant / artifact.
pub(crate) const UPLOADS: &str = "record.uploads";

/// Record: the expiry of an upload. Key: time / artifact.
pub(crate) const UPLOADS_DUE: &str = "record.uploads_due";

/// Record: the blob of an upload. Key: hash / artifact.
pub(crate) const UPLOAD_BLOBS: &str = "record.upload_blobs";

/// Record: the bytes of an artifact of an external run were in this store when it was reported, or later. Key: hash /
/// creating event, as in [`BLOB_USES`].
pub(crate) const BLOBS_KEPT: &str = "record.blobs_kept";

/// Record: a run was imported, so the bytes of its artifacts may be elsewhere. Key: run.
pub(crate) const IMPORTED: &str = "record.imported";

/// Record: an artifact was deleted, erased or pruned. Key: tenant / artifact.
pub(crate) const ARTIFACTS_REMOVED: &str = "record.artifacts_gone";

/// Record: an artifact was deleted individually. Key: tenant / creating event.
pub(crate) const ARTIFACTS_DELETED: &str = "record.artifacts_deleted";

/// Record: the bytes of such an artifact, which no longer count for the quota. Key: task, or run without a task /
/// creating event.
pub(crate) const ARTIFACTS_FREED: &str = "record.artifacts_freed";

/// Record: the pin of an artifact, with its owner and time. Key: run / creating event.
pub(crate) const ARTIFACT_PINS: &str = "record.artifact_pins";

/// Record: encrypted originals of masked data, and secret options of sessions. Key: run or session / call, patch or
/// option.
pub(crate) const SEALED: &str = "record.sealed";

/// Record: an approval that applies to later calls. Key: tenant / allowance.
pub(crate) const ALLOWANCES: &str = "record.allowances";

/// Record: the allowance that applies to a call. Key: tenant / scope / digest of owner and call.
pub(crate) const ALLOWANCES_HELD: &str = "record.allowances_held";

/// Record: the allowances given in a run; they are deleted with it. Key: run / allowance.
pub(crate) const RUN_ALLOWANCES: &str = "record.run_allowances";

/// Record: the session that records another program's session. Key: tenant / digest of its name.
pub(crate) const RECORDED_SESSIONS: &str = "record.recorded_sessions";

/// Record: the signed head of an ended run. Key: run.
pub(crate) const SIGNED_HEADS: &str = "record.signed_heads";

/// Record: a public key that signs heads, or did. Key: id of the key.
pub(crate) const SIGNING_KEYS: &str = "record.signing_keys";

/// Record: up to where heads were signed, under the key `progress`.
pub(crate) const SIGNING: &str = "record.signing";

/// The key of the only row of [`SIGNING`].
pub(crate) const SIGNING_PROGRESS: &str = "progress";

/// Record: up to where a webhook has delivered events. Key: name of the webhook.
pub(crate) const WEBHOOKS: &str = "record.webhooks";

/// Record: an event that a webhook gave up. Key: name of the webhook / slot of a ring.
pub(crate) const WEBHOOK_DEAD_LETTERS: &str = "record.webhook_dead_letters";

/// The key of a private signing key in [`SEALED`].
pub(crate) fn signing_seed(key_id: &str) -> String {
    format!("signing/{key_id}")
}

/// Record: how far an export of the log is, as a position. Key: the name of the export.
pub(crate) const CURSORS: &str = "record.cursors";

/// Record: a probe row, written and deleted to check for space.
pub(crate) const PROBE: &str = "record.probe";

/// All spaces.
pub const SPACES: &[&str] = &[
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
    IDEMPOTENCY_KEYS,
    IDEMPOTENCY_KEYS_DUE,
    TOKENS,
    FOLDS,
    UPLOADS,
    UPLOADS_DUE,
    UPLOAD_BLOBS,
    BLOBS_KEPT,
    ARTIFACTS_REMOVED,
    ARTIFACTS_DELETED,
    ARTIFACTS_FREED,
    ARTIFACT_PINS,
    SEALED,
    ALLOWANCES,
    ALLOWANCES_HELD,
    RUN_ALLOWANCES,
    RECORDED_SESSIONS,
    CURSORS,
    PROBE,
    IMPORTED,
    SIGNED_HEADS,
    SIGNING_KEYS,
    SIGNING,
    WEBHOOKS,
    WEBHOOK_DEAD_LETTERS,
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

/// The folds that the last append of an erasure deletes. Earlier appends delete all others of the run.
pub(crate) const DELETED_WITH_THE_RUN: [&str; 5] = [RUNS, DEADLINES, TASK_RUNS, SESSION_RUNS, RUN_SUCCESSORS];

/// The folds of the first version of the catalogue.
pub(crate) const CATALOGUE_VERSION_1: [&str; 6] =
    [RUNS, TASK_RUNS, APPROVALS, APPROVALS_LISTED, APPROVALS_PENDING, DEADLINES];

/// The folds that version 2 added. Version 3 added [`OWN_OPEN`].
pub(crate) const CATALOGUE_VERSION_2: [&str; 7] = [
    SESSION_RUNS,
    CLARIFICATIONS,
    CLARIFICATIONS_LISTED,
    CLARIFICATIONS_PENDING,
    HANDOFFS,
    HANDOFFS_LISTED,
    HANDOFFS_PENDING,
];

/// The spaces of one kind of prompt.
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

/// The key of a prompt in its space.
pub(crate) fn prompt_key(kind: PromptKind, id: &str, event_id: EventId) -> String {
    match kind {
        PromptKind::Approval => tenant_key(id),
        PromptKind::Clarification | PromptKind::Handoff => format!("{}{event_id}", prompt_prefix(id)),
    }
}

/// The key prefix of clarifications or handoffs with one id.
pub(crate) fn prompt_prefix(id: &str) -> String {
    format!("{TENANT}/{id}/")
}

/// The run in a key after a prefix.
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

/// The key prefix for an artifact, or for the items of a run, task or session.
pub(crate) fn within(id: impl std::fmt::Display) -> String {
    format!("{TENANT}/{id}/")
}

/// The key prefix of the secret options of a session.
pub(crate) fn sealed_of_session(session: SessionId) -> String {
    format!("{session}/")
}

/// Parts are zero-padded, so that keys sort by part.
pub(crate) fn seed_key(session: SessionId, part: usize) -> String {
    format!("{}{part:06}", within(session))
}

pub(crate) fn session_runs_prefix(session: SessionId) -> String {
    format!("{TENANT}/{session}/")
}

pub(crate) fn producer_prefix(run: RunId, producer: &str) -> String {
    format!("{run}/{producer}/")
}

/// Numbers are zero-padded, so that keys sort by batch.
pub(crate) fn producer_key(run: RunId, producer: &str, epoch: u64, seq: u64) -> String {
    format!("{}{epoch:020}/{seq:020}", producer_prefix(run, producer))
}

/// The sealed original of a call or a patch.
pub(crate) fn sealed_key(run: RunId, id: &ForeignId) -> String {
    format!("{run}/{id}")
}

/// Times are zero-padded, so that keys sort by time.
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

/// The JSON of a row.
pub(crate) fn written(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value).expect("rows can be written as JSON").into()
}

pub(crate) fn delete(space: &str, key: impl Into<Arc<str>>) -> RowPut {
    RowPut { space: space.into(), key: key.into(), guard: Guard::Any, value: None }
}

/// Changes nothing, and fails the append if the row exists.
pub(crate) fn must_be_absent(space: &str, key: impl Into<Arc<str>>) -> RowPut {
    RowPut { guard: Guard::Absent, ..delete(space, key) }
}

/// An append that is part of a deletion, and so works on a full disk.
pub(crate) fn deletion(rows: Vec<RowPut>) -> Append {
    Append { rows, frees_space: true, ..Append::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The scrub skips spaces that are missing in the list.
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
