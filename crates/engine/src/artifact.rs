//! What is kept apart from the log: patches, outputs, pictures. Bytes are blobs, named by what they hold; that
//! there is such a thing, and what became of it, is told by events and folded into rows.
//!
//! [`Engine::keep`] keeps bytes and answers the event that says so; who asked reports it, and with that the thing
//! is there. [`Engine::upload`] keeps what comes before there is a run, and [`Engine::attach`] makes it a run's.
//! Here stands how things are read; what keeps the bytes stands in `artifact/`.
//!
//! It must never know what a patch means, nor HTTP.

mod blobs;
mod keep;
mod lost;
mod uploads;

use recount_event::{Code, ForeignId, RunId, TaskId, time};
use recount_log::{FaultKind, RowRange};
use serde::{Deserialize, Serialize};

pub(crate) use self::blobs::{Blobs, named};
pub(crate) use self::keep::Quotas;
pub use self::keep::{Keep, Kept, Target};
pub use self::lost::{MissingBlob, kept_blobs, missing_blobs};
pub(crate) use self::uploads::used;
pub use self::uploads::{Upload, UploadRow};
use crate::catalogue::{ArtifactChange, ArtifactRow};
use crate::engine::read_row;
use crate::error::run_erased;
use crate::{Engine, Error, ListQuery, Listed, Narrowing, RunRow, limits, rows};

/// What the hash of an artifact begins with that we can have the bytes of.
pub(crate) const HASH_PREFIX: &str = "blake3:";

/// The name of the blob that a hash speaks of, if it can be one.
pub(crate) fn blob_of(hash: &str) -> Option<&str> {
    let name = hash.strip_prefix(HASH_PREFIX)?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (name.len() == 64 && name.bytes().all(is_digit)).then_some(name)
}

/// Why an artifact is not there any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gone {
    pub(crate) run_id: String,
    /// Whether only the beginning of its run went.
    pub(crate) pruned: bool,
}

/// Which artifacts are wanted; where a part is missing it does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArtifactFilter {
    pub run: Option<RunId>,
    pub task: Option<TaskId>,
    pub kind: Option<String>,
    pub status: Option<String>,
}

impl ArtifactFilter {
    fn takes(&self, row: &ArtifactRow) -> bool {
        self.run.is_none_or(|run| row.run_id == run.to_string())
            && self.task.is_none_or(|task| row.task_id == Some(task.to_string()))
            && self.kind.as_ref().is_none_or(|kind| row.kind == *kind)
            && self.status.as_ref().is_none_or(|status| row.status == *status)
    }
}

impl Engine {
    /// All that is called so, the first that was made first: an id that a producer chose names one thing of its run
    /// only, and what was sent in before there was a run is a thing of each run that uses it. What no run has used
    /// yet is a row without a run.
    pub async fn artifacts_called(&self, id: &ForeignId) -> Result<Vec<ArtifactRow>, Error> {
        let range = RowRange {
            space: rows::ARTIFACTS.into(),
            prefix: rows::within(id).into(),
            after: None,
            backwards: false,
            limit: limits::ARTIFACT_NAMESAKES_MAX,
        };
        let mut found = Vec::new();
        for row in self.store().rows(range).await? {
            let row = read_row(rows::ARTIFACTS, &row.key, &row.value)?;
            found.push(self.as_it_stands(row).await?);
        }
        if found.is_empty()
            && let Some(upload) = self.uploaded(id).await?
        {
            found.push(upload.artifact());
        }
        Ok(found)
    }

    /// Why an artifact is not there: it never was, or it went with its run.
    pub async fn missing_artifact(&self, id: &ForeignId) -> Error {
        match self.row::<Gone>(rows::ARTIFACTS_GONE, &rows::tenant_key(id)).await {
            Ok(Some(gone)) if gone.pruned => Error::rejected(
                Code::ArtifactPruned,
                format!("artifact {id} went with the beginning of {}, which was pruned", gone.run_id),
            ),
            Ok(Some(gone)) => run_erased(gone.run_id),
            Ok(None) => Error::rejected(Code::ArtifactNotFound, format!("there is no artifact {id}")),
            Err(error) => error,
        }
    }

    /// The run that an artifact went with, if it did.
    pub async fn run_of_gone_artifact(&self, id: &ForeignId) -> Result<Option<RunId>, Error> {
        let gone = self.row::<Gone>(rows::ARTIFACTS_GONE, &rows::tenant_key(id)).await?;
        Ok(gone.and_then(|gone| gone.run_id.parse().ok()))
    }

    /// The bytes of an artifact, checked against its hash.
    pub async fn artifact_bytes(&self, row: &ArtifactRow) -> Result<bytes::Bytes, Error> {
        let missing = |why: &str| {
            let message = format!("the bytes of artifact {} are not here: {why}", row.id);
            Error::rejected(Code::ArtifactBytesMissing, message)
        };
        let Some(hash) = &row.hash else {
            return Err(missing("its event names no hash; whoever reported it has them"));
        };
        let Some(name) = blob_of(hash) else {
            return Err(missing("its hash is not one of this server's; whoever reported it has them"));
        };
        let lost = |why: String| {
            let message = format!("the bytes of artifact {} were kept here and are lost: {why}", row.id);
            Error::rejected(Code::ArtifactBytesLost, message)
        };
        match self.store().blob(name).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) if lost::was_kept(self.store(), row, name).await? => {
                Err(lost(format!("blob {name} is missing")))
            }
            Ok(None) => Err(missing("its run was imported, or its producer kept them elsewhere")),
            Err(fault) if fault.kind == FaultKind::Corrupt => {
                Err(lost(format!("blob {name} was changed on the disk")))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Artifacts that a filter takes, newest first.
    pub async fn list_artifacts(
        &self,
        query: &ListQuery,
        filter: &ArtifactFilter,
        within: &Narrowing,
    ) -> Result<Listed<ArtifactRow>, Error> {
        let (space, prefix) = match (filter.run, filter.task) {
            (Some(run), _) => (rows::RUN_ARTIFACTS, rows::within(run)),
            (None, Some(task)) => (rows::TASK_ARTIFACTS, rows::within(task)),
            (None, None) => (rows::ARTIFACTS_LISTED, rows::tenant_key("")),
        };
        let admits = |row: &ArtifactRow| {
            let task = row.task_id.as_ref().and_then(|task| task.parse().ok());
            let session = row.session_id.as_ref().and_then(|session| session.parse().ok());
            within.is_none() || within.admits(task, session)
        };
        let (items, damaged) = (Vec::new(), Vec::new());
        let mut listed = Listed { items, next: query.after.clone(), has_more: true, damaged };
        let mut looked_at = 0;
        while listed.items.len() < query.limit && looked_at < limits::LIST_SCAN_MAX && listed.has_more {
            let limit = query.limit - listed.items.len();
            let page = ListQuery { after: listed.next.take(), limit, status: None };
            let page = self.list(space, &prefix, &page, |_: &Indexed| String::new()).await?;
            looked_at += page.items.len();
            (listed.next, listed.has_more) = (page.next, page.has_more);
            listed.name_damaged(page.damaged);
            for (Indexed(id, _), event) in page.items.iter().zip(&page.keys) {
                let key = format!("{}{event}", rows::within(id));
                // One that was erased since the list was read is not there any more.
                let row = self.listed_row::<ArtifactRow>(rows::ARTIFACTS, &key, &mut listed.damaged).await?;
                let Some(row) = row else { continue };
                let row = self.as_it_stands(row).await?;
                if admits(&row) && filter.takes(&row) {
                    listed.items.push(row);
                }
            }
        }
        Ok(listed)
    }

    /// An artifact with what was told of it since.
    async fn as_it_stands(&self, mut row: ArtifactRow) -> Result<ArtifactRow, Error> {
        if row.kind != PATCH {
            return Ok(row);
        }
        let range = RowRange {
            space: rows::ARTIFACT_CHANGES.into(),
            prefix: rows::within(&row.id).into(),
            after: None,
            backwards: false,
            limit: limits::ARTIFACT_CHANGES_MAX,
        };
        let mut changes: Vec<ArtifactChange> = Vec::new();
        for change in self.store().rows(range).await? {
            let change: ArtifactChange = read_row(rows::ARTIFACT_CHANGES, &change.key, &change.value)?;
            if change.run_id == row.run_id || self.may_change(&row, &change).await? {
                changes.push(change);
            }
        }
        // Events of two runs are in the order of the clock, which may have been set back between them: what can
        // only come later counts later.
        changes.sort_by_key(|change| change.field != "status");
        changes.into_iter().for_each(|change| change.apply(&mut row));
        Ok(row)
    }

    /// Whether a run may tell of what another one made: one of our own, of the same task.
    async fn may_change(&self, row: &ArtifactRow, change: &ArtifactChange) -> Result<bool, Error> {
        let run: Option<RunRow> = self.row(rows::RUNS, &rows::tenant_key(&change.run_id)).await?;
        Ok(run.is_some_and(|run| run.driver == "own" && run.task_id == row.task_id))
    }
}

/// The kind of what has more states than one.
pub(crate) const PATCH: &str = "patch";

/// What the lists of artifacts hold: its id, and how many bytes of it are kept here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Indexed(pub(crate) String, pub(crate) u64);

impl ArtifactChange {
    /// A patch is proposed, then applied or rejected, for good; what was applied may be reverted by another patch,
    /// and stays applied. Whatever else is told changes nothing here.
    fn apply(self, row: &mut ArtifactRow) {
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
