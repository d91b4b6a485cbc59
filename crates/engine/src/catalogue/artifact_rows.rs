//! What is kept apart from the log, as lists show it: a row each, four that list it, and one for each change.
//!
//! No row is made of two events, so nothing needs to be remembered between them: an artifact is as the event says
//! that made it, and what was told of it since, by its own run or by a later one that applies its patch, stands
//! beside it. Who reads puts both together; see [`crate::read::artifacts`].

use recount_event::{Event, EventId, ForeignId, Json, Payload, RunId, SessionId, TaskId, time};
use recount_log::{Guard, Row, RowPut, RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::ground::rows;
use crate::{Error, UploadRow};

/// Something that was kept, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArtifactRow {
    pub id: ForeignId,
    /// The event that made it; lists are in its order.
    pub event_id: EventId,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    pub kind: String,
    /// `proposed`, `applied` or `rejected` of a patch, else `created`.
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
    /// Where the events begin that hold its bytes, if they are not stored apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_from_sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverted_at: Option<String>,
    /// Whether it may not go; no part of the row, but of what readers put beside it.
    #[serde(skip)]
    pub pinned: bool,
}

/// What an id names: artifacts of runs, or what was sent in and no run has used yet.
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

    /// The file that it is of, of a patch the one that it changes.
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

/// One thing that was told of an artifact later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ArtifactChange {
    pub(crate) run_id: RunId,
    pub(crate) at: String,
    pub(crate) field: String,
    pub(crate) value: Json,
}

/// The rows that an event makes. The same that go when the event goes.
pub(super) fn rows(event: &Event) -> Vec<RowPut> {
    match event.payload() {
        Payload::ArtifactCreated(_) => made(event).map(|row| made_rows(&row)).unwrap_or_default(),
        Payload::ArtifactUpdated(updated) if is_told(&updated.field) => {
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

/// What lists tell of; other changes are to be read from their events.
fn is_told(field: &str) -> bool {
    matches!(field, "status" | "reverted_at")
}

fn made(event: &Event) -> Option<ArtifactRow> {
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

/// The rows of an artifact that an event made.
fn made_rows(row: &ArtifactRow) -> Vec<RowPut> {
    let event = &row.event_id;
    let key = format!("{}{event}", rows::within(&row.id));
    let blob = row.hash.as_deref().and_then(blob_of);
    let indexed = Indexed(row.id.clone(), blob.and(row.size_bytes).unwrap_or(0));
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

/// What goes from the catalogue with an event that made no artifact, and the artifact that goes if it made one; with that
/// goes [`artifact_goes`].
pub(crate) fn leaves(event: &Event) -> (Vec<RowPut>, Option<ArtifactRow>) {
    match made(event) {
        Some(artifact) => (Vec::new(), Some(artifact)),
        None => (gone(rows(event)), None),
    }
}

/// What goes from the catalogue with an artifact.
pub(crate) fn artifact_goes(row: &ArtifactRow) -> Vec<RowPut> {
    gone(made_rows(row))
}

fn gone(puts: Vec<RowPut>) -> Vec<RowPut> {
    puts.into_iter().map(|put| RowPut { value: None, guard: Guard::Any, ..put }).collect()
}

/// What the lists of artifacts hold: its id, and how many bytes of it are kept here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Indexed(pub(crate) ForeignId, pub(crate) u64);

/// The kind of what has more states than one.
pub(crate) const PATCH: &str = "patch";

/// What is left of a deleted artifact, besides the events that name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeletedArtifact {
    pub(crate) artifact_id: ForeignId,
    pub(crate) by: String,
    pub(crate) deleted_at: String,
}

/// Why an artifact is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gone {
    /// None of what no run had used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<RunId>,
    /// Whether only the beginning of its run went.
    pub(crate) pruned: bool,
    /// Present if it was deleted alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deleted: Option<DeletedArtifact>,
}

/// What the ids of artifacts begin with that we make.
pub(crate) const ARTIFACT_PREFIX: &str = "art_";

/// What the hash of an artifact begins with that we can have the bytes of.
pub(crate) const HASH_PREFIX: &str = "blake3:";

/// The name of the blob that a hash speaks of, if it can be one.
pub(crate) fn blob_of(hash: &str) -> Option<&str> {
    let name = hash.strip_prefix(HASH_PREFIX)?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (name.len() == 64 && name.bytes().all(is_digit)).then_some(name)
}

impl ArtifactChange {
    /// A patch is proposed, then applied or rejected, for good; what was applied may be reverted by another patch,
    /// and stays applied. Whatever else is told changes nothing here.
    pub(crate) fn apply(self, row: &mut ArtifactRow) {
        let said: Option<String> = serde_json::from_str(self.value.text()).ok();
        match (self.field.as_str(), said.as_deref(), row.status.as_str()) {
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

/// Rows of a space whose keys begin with the name of a blob.
pub(crate) async fn blob_uses(
    store: &dyn Store,
    space: &str,
    hash: &str,
    limit: usize,
) -> Result<Vec<Row>, Error> {
    let prefix = format!("{hash}/").into();
    Ok(store.rows(RowRange { space: space.into(), prefix, after: None, backwards: false, limit }).await?)
}
