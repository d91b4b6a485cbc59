//! Applying, rejecting and reverting the patches of ended runs. Nothing may follow the ending of a run, so each is a short
//! run of its own: of kind `file`, after the run of the patch, of the same task.
//!
//! Look at [`WorkHandle::order_patch`]. Whether a patch fits is the performer's to say.

use std::path::PathBuf;

use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, RunId};

use crate::boxed;
use crate::read::Delivery;
use crate::work::handle::WorkHandle;
use crate::work::workspaces::nobody;
use crate::{
    ArtifactRow, Error, Narrowing, NewRun, Once, Order, PatchAction, PatchOrder, RunRow, WorkspaceOf, limits,
};

/// What is to become of a patch, and who wants it.
#[derive(Debug, Clone)]
pub struct PatchRequest {
    pub action: PatchAction,
    pub artifact: ForeignId,
    pub requested_by: String,
    pub reason: Option<String>,
    pub traceparent: Option<String>,
}

impl WorkHandle {
    /// Begins the run that does it. Refused before there is a run: a patch whose status does not allow it, that cannot be
    /// used, or that does not fit the files as they are now; and while a run works in the folder.
    #[boxed]
    pub async fn order_patch(
        &self,
        request: PatchRequest,
        within: &Narrowing,
        once: Option<&Once>,
    ) -> Result<RunId, Error> {
        let action = request.action;
        let Some(performer) = self.performer() else { return Err(nobody()) };
        let row = self.read().patch(&request.artifact, None).await?;
        action.admits(&row)?;
        let past = self.write().past(row.run_id).await?;
        let mut queued = Queued::new(RunKind::File);
        past.precede(&mut queued);
        queued.title = Some(title(action, &row));
        queued.requested_by = Some(request.requested_by);
        queued.request_text = request.reason;
        queued.traceparent = request.traceparent;
        queued.action = Some(action.as_str().to_owned());
        queued.patch_artifact_ids = Some(vec![row.id.clone()]);
        let mut order = Order::default();
        // A patch is rejected without a look at files.
        if action != PatchAction::Reject {
            let path = past.queued.workspace_path.clone().ok_or_else(|| {
                let message = format!("{} has no folder on this server", past.run);
                Error::rejected(Code::WorkspaceRefused, message)
            })?;
            self.nobody_works_near(&row, &path, within).await?;
            let patches = vec![self.read().patch_bytes(row).await?];
            let workspace = WorkspaceOf { mode: past.queued.workspace_mode.clone(), path };
            queued.workspace_mode.clone_from(&workspace.mode);
            queued.workspace_path = Some(workspace.path.clone());
            order.workspace_source = past.order()?.workspace_source;
            performer.check_patches(workspace, PatchOrder { action, patches }).await?;
        }
        queued.config = Some(order.written());
        let new = NewRun { queued, task: past.task, session: None, resumed_from: None };
        Ok(self.write().create_run_once(new, once).await?.0)
    }

    /// The run when it has ended, or as it is when that takes long.
    #[boxed]
    pub async fn patch_run(&self, run: RunId) -> Result<RunRow, Error> {
        let mut events = self.read().follow_run(run, None).await?;
        let ended = async {
            loop {
                match events.next().await {
                    Ok(Delivery::Closed) => return Ok(()),
                    Ok(_) => {}
                    Err(error) => return Err(error),
                }
            }
        };
        if let Ok(ended) = tokio::time::timeout(limits::PATCH_RUN_WAIT, ended).await {
            ended?;
        }
        match self.catalogue().run(run).await? {
            Some(row) => Ok(row),
            None => Err(self.catalogue().missing_run(run).await),
        }
    }

    async fn nobody_works_near(
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
        self.nobody_works_in(&[PathBuf::from(path)], within).await
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
