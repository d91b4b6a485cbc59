//! Patches to apply, reject or revert: checks their status and reads their bytes.
//!
//! Start with [`ReadHandle::patch`]. It must not parse diffs.

use bytes::Bytes;
use recount_event::{Code, ForeignId, RunId};

use crate::boxed;
use crate::catalogue::artifact_rows::PATCH;
use crate::catalogue::run_row::OWN;
use crate::read::handle::ReadHandle;
use crate::{ArtifactRow, Error, FoundArtifact};

/// An action on a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchAction {
    Apply,
    Reject,
    Revert,
}

/// Patches of one run, in creation order, and the action on them.
#[derive(Debug, Clone)]
pub struct PatchSet {
    pub action: PatchAction,
    pub patches: Vec<PatchBytes>,
}

/// A patch with its diff.
#[derive(Debug, Clone)]
pub struct PatchBytes {
    pub row: ArtifactRow,
    pub diff: Bytes,
}

impl PatchAction {
    /// The name in `run.queued`.
    pub fn as_str(self) -> &'static str {
        match self {
            PatchAction::Apply => "apply",
            PatchAction::Reject => "reject",
            PatchAction::Revert => "revert",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [PatchAction::Apply, PatchAction::Reject, PatchAction::Revert]
            .into_iter()
            .find(|action| action.as_str() == word)
    }

    /// Refuses a patch whose status does not allow the action.
    pub fn admits(self, row: &ArtifactRow) -> Result<(), Error> {
        let fits = match self {
            PatchAction::Apply | PatchAction::Reject => row.status == "proposed",
            PatchAction::Revert => row.status == "applied" && row.reverted_at.is_none(),
        };
        if fits {
            return Ok(());
        }
        let (id, action) = (&row.id, self.as_str());
        let is = match &row.reverted_at {
            Some(when) => format!("was reverted at {when}"),
            None => format!("is {}", row.status),
        };
        let needs = match self {
            PatchAction::Apply | PatchAction::Reject => "proposed",
            PatchAction::Revert => "applied and not reverted",
        };
        let message = format!("patch {id} {is}; to {action} it, its status must be {needs}");
        Err(Error::rejected(Code::PatchStatus, message))
    }
}

impl ReadHandle {
    /// A patch with its current status; if `run` is given, of that run.
    #[boxed]
    pub async fn patch(&self, id: &ForeignId, run: Option<RunId>) -> Result<ArtifactRow, Error> {
        let mut other = None;
        for found in self.find_artifacts(id).await? {
            match found {
                FoundArtifact::OfRun(row) if run.is_none_or(|run| row.run_id == run) => {
                    if row.kind == PATCH {
                        return Ok(*row);
                    }
                    other = Some(row.kind);
                }
                FoundArtifact::OfRun(_) => {}
                FoundArtifact::Upload(upload) => other = Some(upload.kind),
            }
        }
        match other {
            None => Err(self.missing_artifact(id).await),
            Some(kind) => {
                let message = format!("artifact {id} has the kind {kind} and is not a patch of a run");
                Err(Error::rejected(Code::PatchUnusable, message))
            }
        }
    }

    /// The diff of a patch, if it is complete and has no masked secret.
    #[boxed]
    pub async fn patch_bytes(&self, row: ArtifactRow) -> Result<PatchBytes, Error> {
        let unusable = |why: &str| {
            Error::rejected(Code::PatchUnusable, format!("patch {} cannot be used: {why}", row.id))
        };
        if row.masked == Some(true) {
            return Err(unusable("a secret in it was masked before it was stored; make the change manually"));
        }
        if row.truncated == Some(true) {
            return Err(unusable("only its beginning was stored; make the change manually"));
        }
        let run = self.catalogue().run(row.run_id).await?;
        if run.is_some_and(|run| run.driver != OWN) {
            return Err(unusable("another program drives its run and has the files"));
        }
        let found = FoundArtifact::OfRun(Box::new(row.clone()));
        let diff = self.artifact_bytes(&found).await?;
        Ok(PatchBytes { row, diff })
    }
}
