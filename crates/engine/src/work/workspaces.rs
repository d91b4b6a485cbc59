//! Shows and applies the changes in a run's copy of the workspace.
//!
//! Start with [`WorkHandle::apply_changes`]. Only the performer knows where copies are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recount_event::family::run::Driver;
use recount_event::{Code, RunId};

use crate::boxed;
use crate::work::handle::WorkHandle;
use crate::{
    ApplyTo, Error, HeldFolders, Narrowing, NewRun, Performer, RunRow, WorkspaceChanges, WorkspaceOf,
};

/// An unfinished run that works in a folder.
pub(super) enum Active {
    /// With its folder, if it differs from the requested one.
    Named(RunId, Option<String>),
    /// A run that the caller may not access.
    Hidden,
}

impl Active {
    fn id(&self) -> Option<RunId> {
        match self {
            Active::Named(run, _) => Some(*run),
            Active::Hidden => None,
        }
    }

    pub(super) fn refusal(&self) -> Error {
        let message = match self {
            Active::Named(run, None) => format!("{run} uses the copy; wait until it has ended, or cancel it"),
            Active::Named(run, Some(path)) => {
                format!("{run} uses {path}; wait until it has ended, or cancel it")
            }
            Active::Hidden => {
                "a run that the token may not see uses this folder, or a parent or subfolder of it; try \
                 again after it has ended"
                    .to_owned()
            }
        };
        Error::rejected(Code::RunActive, message)
    }
}

impl WorkHandle {
    /// The changes in the copy of a run, including those of earlier and later runs. An active run is named only if
    /// `within` admits it.
    #[boxed]
    pub async fn workspace_changes(&self, run: RunId, within: &Narrowing) -> Result<WorkspaceChanges, Error> {
        let (row, copy) = self.copy_of(run).await?;
        let Some(performer) = self.performer() else { return Err(no_performer()) };
        let mut changes = performer.changes(copy).await.map(|changes| self.masked(changes))?;
        let folders = [PathBuf::from(&changes.path), PathBuf::from(&changes.source)];
        let active = match self.works_in_copy_of(run, &row, within).await? {
            Some(active) => Some(active),
            None => self.works_in(&folders, within).await?,
        };
        changes.active = active.and_then(|active| active.id());
        Ok(changes)
    }

    /// Applies the changes to the source of the copy, all or none. Refused while a run works in the copy, in the
    /// source, or in a parent or subfolder of it. The refusal names the run only if `within` admits it.
    #[boxed]
    pub async fn apply_changes(
        &self,
        run: RunId,
        to: ApplyTo,
        within: &Narrowing,
    ) -> Result<WorkspaceChanges, Error> {
        let (performer, copy, held) = self.held_copy(run, within).await?;
        performer.apply(copy, to, held).await.map(|changes| self.masked(changes)).map_err(Error::from)
    }

    /// Deletes the copy with all changes in it, and returns what they were. Refused under the same conditions.
    #[boxed]
    pub async fn discard_changes(&self, run: RunId, within: &Narrowing) -> Result<WorkspaceChanges, Error> {
        let (performer, copy, held) = self.held_copy(run, within).await?;
        let changes = performer.changes(copy.clone()).await?;
        performer.forget_copy(copy.path).await;
        drop(held);
        Ok(self.masked(changes))
    }

    /// The copy that a run worked in, with its folders held. Refused while a run works in one of them.
    async fn held_copy(
        &self,
        run: RunId,
        within: &Narrowing,
    ) -> Result<(Arc<dyn Performer>, WorkspaceOf, HeldFolders), Error> {
        let (row, copy) = self.copy_of(run).await?;
        let Some(performer) = self.performer().cloned() else { return Err(no_performer()) };
        if let Some(active) = self.works_in_copy_of(run, &row, within).await? {
            return Err(active.refusal());
        }
        // Holding waits for tools, and an active run may use one for a long time.
        self.refuse_if_in_use(&performer.folders(copy.clone()).await?, within).await?;
        // From here on no run can start in either folder. Runs that started before are in the store, and no tool of
        // an ended run is active.
        let held = performer.hold(copy.clone()).await?;
        self.refuse_if_in_use(&held.folders, within).await?;
        Ok((performer, copy, held))
    }

    async fn copy_of(&self, run: RunId) -> Result<(RunRow, WorkspaceOf), Error> {
        let row = self.catalogue().existing_run(run).await?;
        let Some(path) = row.workspace_path.clone() else {
            let message = format!("{run} has no folder on this server");
            return Err(Error::rejected(Code::WorkspaceRefused, message));
        };
        let copy = WorkspaceOf { mode: row.workspace_mode.clone(), path };
        Ok((row, copy))
    }

    /// The active run in the same copy, if any.
    pub(super) async fn works_in_copy_of(
        &self,
        run: RunId,
        row: &RunRow,
        within: &Narrowing,
    ) -> Result<Option<Active>, Error> {
        if !row.has_ended() {
            return Ok(Some(Active::Named(run, None)));
        }
        let mut active = match row.task_id {
            Some(task) => self.catalogue().active_run(task).await?,
            None => None,
        };
        if active.is_none()
            && let Some(session) = row.session_id
        {
            active = self.catalogue().active_run(session).await?;
        }
        let Some(active) = active else { return Ok(None) };
        // A run of the same session may belong to another task.
        let is_known = within.is_none()
            || self.catalogue().run(active).await?.is_some_and(|row| is_within(&row, within));
        Ok(Some(if is_known { Active::Named(active, None) } else { Active::Hidden }))
    }

    /// The unfinished own run that works in one of these folders, or in a parent or subfolder. Runs that may be named
    /// come first.
    async fn works_in(&self, folders: &[PathBuf], within: &Narrowing) -> Result<Option<Active>, Error> {
        let mut hidden = None;
        for row in self.catalogue().unfinished().await? {
            let Some(path) = &row.workspace_path else { continue };
            let at = Path::new(path);
            if !folders.iter().any(|folder| at.starts_with(folder) || folder.starts_with(at)) {
                continue;
            }
            if is_within(&row, within) {
                return Ok(Some(Active::Named(row.id, Some(path.clone()))));
            }
            hidden = Some(Active::Hidden);
        }
        Ok(hidden)
    }

    pub(super) async fn refuse_if_in_use(
        &self,
        folders: &[PathBuf],
        within: &Narrowing,
    ) -> Result<(), Error> {
        match self.works_in(folders, within).await? {
            Some(active) => Err(active.refusal()),
            None => Ok(()),
        }
    }

    /// Masks secrets in the diff, because readers see it.
    fn masked(&self, mut changes: WorkspaceChanges) -> WorkspaceChanges {
        let redactor = self.write().redactor();
        changes.diff = redactor.text(&changes.diff).into_owned();
        for conflict in changes.changes.iter_mut().filter_map(|change| change.conflict.as_mut()) {
            *conflict = redactor.text(conflict).into_owned();
        }
        changes
    }
}

fn is_within(row: &RunRow, within: &Narrowing) -> bool {
    within.admits(row.task_id, row.session_id)
}

pub(super) fn no_performer() -> Error {
    Error::rejected(Code::KindUnavailable, "this server executes no runs, so no copies exist")
}

impl WorkHandle {
    /// Checks only the workspace of a new run; other reasons for a refusal are checked when the run is created.
    /// Writes nothing.
    pub fn check_workspace(&self, mut new: NewRun) -> Result<(), Error> {
        match self.performer() {
            Some(performer) if new.queued.driver == Driver::Own => Ok(performer.accept_workspace(&mut new)?),
            _ => Ok(()),
        }
    }
}
