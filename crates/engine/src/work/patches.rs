//! Applies, rejects and reverts patches of ended runs. No event may follow the ending of a run, so each action is a
//! short run of kind `file` in the same task.
//!
//! Start with [`WorkHandle::start_patch_run`]. The performer decides whether a patch fits the files.

use std::path::PathBuf;

use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, RunId};

use crate::boxed;
use crate::read::Delivery;
use crate::work::handle::WorkHandle;
use crate::work::workspaces::no_performer;
use crate::{
    ArtifactRow, Error, IdempotencyKey, Narrowing, NewRun, PatchAction, PatchSet, RunConfig, RunRow,
    WorkspaceOf, limits,
};

/// A requested action on a patch.
#[derive(Debug, Clone)]
pub struct PatchRequest {
    pub action: PatchAction,
    pub artifact: ForeignId,
    pub requested_by: String,
    pub reason: Option<String>,
    pub traceparent: Option<String>,
}

impl WorkHandle {
    /// Starts the run of the action. Refuses a patch whose status does not allow it, that is unusable or does not fit
    /// the current files, and refuses while a run works in the folder.
    #[boxed]
    pub async fn start_patch_run(
        &self,
        request: PatchRequest,
        within: &Narrowing,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<RunId, Error> {
        let action = request.action;
        let Some(performer) = self.performer() else { return Err(no_performer()) };
        let row = self.read().patch(&request.artifact, None).await?;
        action.admits(&row)?;
        let ended = self.write().ended_run(row.run_id).await?;
        let mut queued = Queued::new(RunKind::File);
        ended.set_predecessor(&mut queued);
        queued.title = Some(title(action, &row));
        queued.requested_by = Some(request.requested_by);
        queued.request_text = request.reason;
        queued.traceparent = request.traceparent;
        queued.action = Some(action.as_str().to_owned());
        queued.patch_artifact_ids = Some(vec![row.id.clone()]);
        let mut config = RunConfig::default();
        // Rejecting a patch does not read files.
        if action != PatchAction::Reject {
            let path = ended.queued.workspace_path.clone().ok_or_else(|| {
                let message = format!("{} has no folder on this server", ended.run);
                Error::rejected(Code::WorkspaceRefused, message)
            })?;
            self.refuse_if_copy_in_use(&row, &path, within).await?;
            let patches = vec![self.read().patch_bytes(row).await?];
            let workspace = WorkspaceOf { mode: ended.queued.workspace_mode.clone(), path };
            queued.workspace_mode.clone_from(&workspace.mode);
            queued.workspace_path = Some(workspace.path.clone());
            config.workspace_source = ended.run_config()?.workspace_source;
            performer.check_patches(workspace, PatchSet { action, patches }).await?;
        }
        queued.config = Some(config.written());
        let new = NewRun { queued, task: ended.task, session: None, resumed_from: None };
        Ok(self.write().create_run_keyed(new, idempotency).await?.0)
    }

    /// Waits for the run to end. Returns the run as it is after a timeout.
    #[boxed]
    pub async fn wait_for_patch_run(&self, run: RunId) -> Result<RunRow, Error> {
        let mut events = self.read().follow_run(run, None).await?;
        let wait = async {
            loop {
                match events.next().await {
                    Ok(Delivery::Closed) => return Ok(()),
                    Ok(_) => {}
                    Err(error) => return Err(error),
                }
            }
        };
        if let Ok(ended) = tokio::time::timeout(limits::PATCH_RUN_WAIT, wait).await {
            ended?;
        }
        self.catalogue().existing_run(run).await
    }

    async fn refuse_if_copy_in_use(
        &self,
        patch: &ArtifactRow,
        path: &str,
        within: &Narrowing,
    ) -> Result<(), Error> {
        if let Some(row) = self.catalogue().run(patch.run_id).await?
            && let Some(active) = self.works_in_copy_of(patch.run_id, &row, within).await?
        {
            return Err(active.refusal());
        }
        self.refuse_if_in_use(&[PathBuf::from(path)], within).await
    }
}

fn title(action: PatchAction, row: &ArtifactRow) -> String {
    let verb = match action {
        PatchAction::Apply => "Apply",
        PatchAction::Reject => "Reject",
        PatchAction::Revert => "Revert",
    };
    match &row.path {
        Some(path) => format!("{verb} the patch of {path}"),
        None => format!("{verb} patch {}", row.id),
    }
}
