//! The copies that our own runs work in, asked about by run: what changed, and bringing it back.
//!
//! Look at [`WorkHandle::apply_changes`]. Where copies are is the performer's to know.

use std::path::{Path, PathBuf};

use recount_event::family::run::Driver;
use recount_event::{Code, RunId};

use crate::boxed;
use crate::work::handle::WorkHandle;
use crate::{ApplyTo, Error, Narrowing, NewRun, RunRow, WorkspaceChanges, WorkspaceOf};

/// A run that has not ended and works in a folder.
pub(super) enum Active {
    /// Where it is, if that is another folder than the one that was asked about.
    Named(RunId, Option<String>),
    /// One that the caller may not know of.
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
    /// What a run changed in the copy that it worked in, with what runs before and after it changed there. A run that is at
    /// work is named only where it lies `within`.
    #[boxed]
    pub async fn workspace_changes(&self, run: RunId, within: &Narrowing) -> Result<WorkspaceChanges, Error> {
        let (row, copy) = self.copy_of(run).await?;
        let Some(performer) = self.performer() else { return Err(nobody()) };
        let mut changes = performer.changes(copy).await.map(|changes| self.masked(changes))?;
        let folders = [PathBuf::from(&changes.path), PathBuf::from(&changes.source)];
        let active = match self.works_in_copy_of(run, &row, within).await? {
            Some(active) => Some(active),
            None => self.works_in(&folders, within).await?,
        };
        changes.active = active.and_then(|active| active.id());
        Ok(changes)
    }

    /// Brings these changes back to where the copy was made from, all or none. Refused while a run works in the copy, or in
    /// place in the original or in a folder above or below it; the refusal names it only where it lies `within`.
    #[boxed]
    pub async fn apply_changes(
        &self,
        run: RunId,
        to: ApplyTo,
        within: &Narrowing,
    ) -> Result<WorkspaceChanges, Error> {
        let (row, copy) = self.copy_of(run).await?;
        let Some(performer) = self.performer() else { return Err(nobody()) };
        if let Some(active) = self.works_in_copy_of(run, &row, within).await? {
            return Err(active.refusal());
        }
        // Holding waits for tools, and a run that goes on may have one for long.
        self.nobody_works_in(&performer.folders(copy.clone()).await?, within).await?;
        // From here on no run begins in either folder; those that had are in the store, and no tool of one that has ended
        // is alive.
        let held = performer.hold(copy.clone()).await?;
        self.nobody_works_in(&held.folders, within).await?;
        performer.apply(copy, to, held).await.map(|changes| self.masked(changes)).map_err(Error::from)
    }

    async fn copy_of(&self, run: RunId) -> Result<(RunRow, WorkspaceOf), Error> {
        let Some(row) = self.catalogue().run(run).await? else {
            return Err(self.catalogue().missing_run(run).await);
        };
        let Some(path) = row.workspace_path.clone() else {
            let message = format!("{run} has no folder on this server");
            return Err(Error::rejected(Code::WorkspaceRefused, message));
        };
        let copy = WorkspaceOf { mode: row.workspace_mode.clone(), path };
        Ok((row, copy))
    }

    /// The run that works in the same copy, if there is one.
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
        // Of the same session it may be of another task.
        let is_known =
            within.is_none() || self.catalogue().run(active).await?.is_some_and(|row| lies(&row, within));
        Ok(Some(if is_known { Active::Named(active, None) } else { Active::Hidden }))
    }

    /// The run of ours that has not ended and works in one of these folders, or above or below one. One that may be named
    /// comes before others.
    async fn works_in(&self, folders: &[PathBuf], within: &Narrowing) -> Result<Option<Active>, Error> {
        let mut hidden = None;
        for row in self.catalogue().unfinished().await? {
            let Some(path) = &row.workspace_path else { continue };
            let at = Path::new(path);
            if !folders.iter().any(|folder| at.starts_with(folder) || folder.starts_with(at)) {
                continue;
            }
            if lies(&row, within) {
                return Ok(Some(Active::Named(row.id, Some(path.clone()))));
            }
            hidden = Some(Active::Hidden);
        }
        Ok(hidden)
    }

    pub(super) async fn nobody_works_in(&self, folders: &[PathBuf], within: &Narrowing) -> Result<(), Error> {
        match self.works_in(folders, within).await? {
            Some(active) => Err(active.refusal()),
            None => Ok(()),
        }
    }

    /// Without what is secret: this is shown to readers.
    fn masked(&self, mut changes: WorkspaceChanges) -> WorkspaceChanges {
        changes.diff = self.write().redactor().text(&changes.diff).into_owned();
        changes
    }
}

fn lies(row: &RunRow, within: &Narrowing) -> bool {
    within.admits(row.task_id, row.session_id)
}

pub(super) fn nobody() -> Error {
    Error::rejected(Code::KindUnavailable, "this server executes no runs, so no copies exist")
}

impl WorkHandle {
    /// Refuses a run whose workspace may not be worked on, whatever else could be refused of it: that is left to the moment
    /// when it is asked for. Nothing is written.
    pub fn check_workspace(&self, mut new: NewRun) -> Result<(), Error> {
        match self.performer() {
            Some(performer) if new.queued.driver == Driver::Own => Ok(performer.accept_workspace(&mut new)?),
            _ => Ok(()),
        }
    }
}
