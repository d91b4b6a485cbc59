//! Artifacts as rows: one row each, four index rows, and one row for each change.
//!
//! Each row comes from one event, so the fold needs no memory. The artifact row is what the creating event says.
//! Later changes, by its own run or by a run that applies its patch, are separate rows. Readers combine both; see
//! [`crate::read::artifacts`].

use recount_event::{Event, EventId, ForeignId, Json, Payload, RunId, SessionId, TaskId, time};
use recount_log::{Guard, Row, RowPut, RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::ground::rows;
use crate::{Error, UploadRow};

/// An artifact and its current status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArtifactRow {
    pub id: ForeignId,
    /// The event that created it; lists have this order.
    pub event_id: EventId,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    pub kind: String,
    /// `proposed`, `applied` or `rejected` for a patch, otherwise `created`.
    pub status: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_size_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ForeignId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additions: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<u64>,
    /// The first event with its bytes, if they are not stored as a blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_from_sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverted_at: Option<String>,
    /// Whether it is protected from deletion. Set by readers; not part of the row.
    #[serde(skip)]
    pub pinned: bool,
}

/// The meaning of an artifact id: an artifact of a run, or an upload that no run has used.
#[derive(Debug, Clone, PartialEq)]
pub enum FoundArtifact {
    OfRun(Box<ArtifactRow>),
    Upload(UploadRow),
}

impl FoundArtifact {
    pub fn id(&self) -> &ForeignId {
        match self {
            FoundArtifact::OfRun(row) => &row.id,
            FoundArtifact::Upload(upload) => &upload.id,
        }
    }

    pub fn name(&self) -> Option<&str> {
        match self {
            FoundArtifact::OfRun(row) => row.name.as_deref(),
            FoundArtifact::Upload(upload) => upload.name.as_deref(),
        }
    }

    /// Whether its bytes are events of its run.
    pub fn is_in_log(&self) -> bool {
        matches!(self, FoundArtifact::OfRun(row) if row.log_from_sequence.is_some())
    }

    /// The file of the artifact; for a patch, the file that it changes.
    pub fn path(&self) -> Option<&str> {
        match self {
            FoundArtifact::OfRun(row) => row.path.as_deref(),
            FoundArtifact::Upload(_) => None,
        }
    }

    pub fn kind(&self) -> &str {
        match self {
            FoundArtifact::OfRun(row) => &row.kind,
            FoundArtifact::Upload(upload) => &upload.kind,
        }
    }

    pub fn mime(&self) -> Option<&str> {
        match self {
            FoundArtifact::OfRun(row) => row.mime.as_deref(),
            FoundArtifact::Upload(upload) => Some(&upload.mime),
        }
    }

    pub fn size_bytes(&self) -> Option<u64> {
        match self {
            FoundArtifact::OfRun(row) => row.size_bytes,
            FoundArtifact::Upload(upload) => Some(upload.size_bytes),
        }
    }

    pub fn hash(&self) -> Option<&str> {
        match self {
            FoundArtifact::OfRun(row) => row.hash.as_deref(),
            FoundArtifact::Upload(upload) => Some(&upload.hash),
        }
    }
}

/// A later change of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ArtifactChange {
    pub(crate) run_id: RunId,
    pub(crate) at: String,
    pub(crate) field: String,
    pub(crate) value: Json,
}

/// The rows that an event adds. They are deleted with the event.
pub(super) fn rows(event: &Event) -> Vec<RowPut> {
    match event.payload() {
        Payload::ArtifactCreated(_) => artifact_row(event).map(|row| artifact_puts(&row)).unwrap_or_default(),
        Payload::ArtifactUpdated(updated) if is_listed_field(&updated.field) => {
            let change = ArtifactChange {
                run_id: event.run_id,
                at: time::format_ms(event.occurred_ms),
                field: updated.field.clone(),
                value: updated.new_value.clone(),
            };
            let key = format!("{}{}", rows::within(&updated.artifact_id), event.event_id);
            vec![rows::put(rows::ARTIFACT_CHANGES, key, Guard::Any, &change)]
        }
        _ => Vec::new(),
    }
}

/// Whether lists show changes of this field. Other changes are only in their events.
fn is_listed_field(field: &str) -> bool {
    matches!(field, "status" | "reverted_at")
}

fn artifact_row(event: &Event) -> Option<ArtifactRow> {
    let Payload::ArtifactCreated(created) = event.payload() else { return None };
    let is_patch = created.kind == PATCH;
    Some(ArtifactRow {
        id: created.artifact_id.clone(),
        event_id: event.event_id,
        run_id: event.run_id,
        task_id: event.task_id,
        session_id: event.session_id,
        kind: created.kind.clone(),
        status: if is_patch { "proposed" } else { "created" }.into(),
        created_at: time::format_ms(event.occurred_ms),
        summary: created.summary.clone(),
        name: created.name.clone(),
        mime: created.mime.clone(),
        size_bytes: created.size_bytes,
        hash: created.hash.clone(),
        truncated: created.truncated,
        original_size_bytes: created.original_size_bytes,
        masked: created.masked,
        tool_call_id: created.tool_call_id.clone(),
        path: created.path.clone(),
        base_revision: created.base_revision.clone(),
        additions: created.additions,
        deletions: created.deletions,
        hunks: created.hunks,
        log_from_sequence: created.log_from_sequence,
        applied_at: None,
        rejected_at: None,
        reverted_at: None,
        pinned: false,
    })
}

/// The rows of an artifact.
fn artifact_puts(row: &ArtifactRow) -> Vec<RowPut> {
    let event = &row.event_id;
    let key = format!("{}{event}", rows::within(&row.id));
    let blob = row.hash.as_deref().and_then(blob_of);
    let indexed = ArtifactEntry(row.id.clone(), blob.and(row.size_bytes).unwrap_or(0));
    let mut puts = vec![
        rows::put(rows::ARTIFACTS, key, Guard::Any, row),
        rows::put(rows::ARTIFACTS_LISTED, rows::tenant_key(event), Guard::Any, &indexed),
        rows::put(rows::RUN_ARTIFACTS, format!("{}{event}", rows::within(row.run_id)), Guard::Any, &indexed),
    ];
    if let Some(task) = &row.task_id {
        puts.push(rows::put(
            rows::TASK_ARTIFACTS,
            format!("{}{event}", rows::within(task)),
            Guard::Any,
            &indexed,
        ));
    }
    if let Some(hash) = blob {
        puts.push(rows::put(rows::BLOB_USES, format!("{hash}/{event}"), Guard::Any, &()));
    }
    puts
}

/// The row deletions for a removed event, or the artifact that it created; see [`artifact_deletions`] for that one.
pub(crate) fn removal_rows(event: &Event) -> (Vec<RowPut>, Option<ArtifactRow>) {
    match artifact_row(event) {
        Some(artifact) => (Vec::new(), Some(artifact)),
        None => (deletions(rows(event)), None),
    }
}

/// The catalogue deletions for an artifact.
pub(crate) fn artifact_deletions(row: &ArtifactRow) -> Vec<RowPut> {
    deletions(artifact_puts(row))
}

fn deletions(puts: Vec<RowPut>) -> Vec<RowPut> {
    puts.into_iter().map(|put| RowPut { value: None, guard: Guard::Any, ..put }).collect()
}

/// An entry in the lists of artifacts: its id, and the number of its bytes stored here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ArtifactEntry(pub(crate) ForeignId, pub(crate) u64);

/// The only kind with several statuses.
pub(crate) const PATCH: &str = "patch";

/// The record of a deleted artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeletedArtifact {
    pub(crate) artifact_id: ForeignId,
    pub(crate) by: String,
    pub(crate) deleted_at: String,
}

/// Why an artifact no longer exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArtifactRemoval {
    /// `None` for an upload that no run had used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<RunId>,
    /// Whether it was removed because the beginning of its run was pruned.
    pub(crate) pruned: bool,
    /// Present if only the artifact was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deleted: Option<DeletedArtifact>,
}

/// The prefix of artifact ids that the engine generates.
pub(crate) const ARTIFACT_PREFIX: &str = "art_";

/// The prefix of hashes whose bytes this server can store.
pub(crate) const HASH_PREFIX: &str = "blake3:";

/// The blob name in a hash, if it is valid.
pub(crate) fn blob_of(hash: &str) -> Option<&str> {
    let name = hash.strip_prefix(HASH_PREFIX)?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (name.len() == 64 && name.bytes().all(is_digit)).then_some(name)
}

impl ArtifactChange {
    /// A proposed patch is applied or rejected once. An applied patch may be reverted by another patch and stays
    /// applied. Other changes have no effect.
    pub(crate) fn apply(self, row: &mut ArtifactRow) {
        let value: Option<String> = serde_json::from_str(self.value.text()).ok();
        match (self.field.as_str(), value.as_deref(), row.status.as_str()) {
            ("status", Some("applied"), "proposed") => {
                row.status = "applied".into();
                row.applied_at = Some(self.at);
            }
            ("status", Some("rejected"), "proposed") => {
                row.status = "rejected".into();
                row.rejected_at = Some(self.at);
            }
            ("reverted_at", Some(when), "applied") if row.reverted_at.is_none() => {
                let when = time::parse_ms(when).map(time::format_ms);
                row.reverted_at = Some(when.unwrap_or(self.at));
            }
            _ => {}
        }
    }
}

/// Rows of a space whose keys start with the name of a blob.
pub(crate) async fn blob_uses(
    store: &dyn Store,
    space: &str,
    hash: &str,
    limit: usize,
) -> Result<Vec<Row>, Error> {
    let prefix = format!("{hash}/").into();
    Ok(store.rows(RowRange { space: space.into(), prefix, after: None, backwards: false, limit }).await?)
}
