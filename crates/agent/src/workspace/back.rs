//! Applies the changes of a run's copy to the folder that was copied.
//!
//! It must never know how a run is executed.
//!
//! Start at [`Workspaces::changes`] and [`Workspaces::apply_changes`].

use std::io;
use std::path::{Path, PathBuf};

use recount_engine::{ApplyTo, ChangeState, Unacceptable, WorkspaceChanges};
use recount_event::Code;

use super::base::Base;
use super::changes::{Comparison, describe, full_diff, list_names};
use super::folder::Folder;
use super::stage::{self, NotRecovered};
use super::{CLONE, Workspaces, apply, branch};
use crate::workspace::limits;

/// A copy, its base and its source folder.
struct OpenedCopy {
    workspace_dir: PathBuf,
    tree: PathBuf,
    base: Base,
    source: PathBuf,
}

impl Workspaces {
    /// The changes that a run made in its copy. Blocks.
    pub(crate) fn changes(&self, mode: Option<&str>, path: &str) -> Result<WorkspaceChanges, Unacceptable> {
        let opened = self.open_copy(mode, path)?;
        let compared = opened.compare()?;
        Ok(opened.report(&compared))
    }

    /// The copy and its source folder.
    pub(crate) fn both_folders(&self, mode: Option<&str>, path: &str) -> Result<[PathBuf; 2], Unacceptable> {
        let opened = self.open_copy(mode, path)?;
        Ok([opened.tree, opened.source])
    }

    /// Applies the changes to the original, or to a branch of it. Refused as a whole if the original has changed at the
    /// same paths. First undoes what a crash left of an earlier apply. `id` must not have been used before. Blocks.
    pub(crate) fn apply_changes(
        &self,
        mode: Option<&str>,
        path: &str,
        to: &ApplyTo,
        id: u128,
    ) -> Result<WorkspaceChanges, Unacceptable> {
        let mut opened = self.open_copy(mode, path)?;
        let original = Folder::open_real(&opened.source).map_err(|why| failed(&opened.source, &why))?;
        let put_back = stage::recover(&original, &opened.source).map_err(|why| match why {
            NotRecovered::Refused(message) => Unacceptable { code: Code::ApplyConflict, message },
            NotRecovered::Failed(why) => failed(&opened.source, &why),
        })?;
        let compared = opened.compare()?;
        if compared.conflicts().next().is_some() {
            return Err(conflict(&list_names(compared.conflicts()), &opened.source));
        }
        let open: Vec<_> = compared.open().collect();
        let mut report = opened.report(&compared);
        report.put_back = put_back;
        if open.is_empty() {
            return Ok(report);
        }
        if let Some(name) = &to.branch {
            let (tree, source) = (&opened.tree, &opened.source);
            let made = branch::commit(name, &to.message, tree, source, &opened.workspace_dir, &open);
            report.commit = Some(made.map_err(|why| match why {
                branch::NoBranch::Refused(message) => refused(message),
                branch::NoBranch::Changed(path) => {
                    refused(format!("the copy changed during the apply, in {}; apply again", path.display()))
                }
                branch::NoBranch::NotCommitted(paths) => {
                    let names: Vec<String> = paths
                        .iter()
                        .take(limits::CHANGES_NAMED_MAX)
                        .map(|path| path.display().to_string())
                        .collect();
                    refused(format!(
                        "the branch would include uncommitted changes in {}; commit them first, or apply \
                         without a branch",
                        names.join(", ")
                    ))
                }
                branch::NoBranch::Failed(why) => failed(&opened.source, &why),
            })?);
            report.branch = Some(name.clone());
            return Ok(report);
        }
        let written = apply::write(&opened.tree, &opened.source, &open, id).map_err(|why| match why {
            apply::NotWritten::Changed(path) => conflict(&path.display().to_string(), &opened.source),
            apply::NotWritten::Failed(why) => failed(&opened.source, &why),
        })?;
        // The base becomes the applied state, also for later changes of runs.
        for (path, state) in written {
            match state {
                Some(state) => opened.base.entries.insert(path, state),
                None => opened.base.entries.remove(&path),
            };
        }
        opened.base.write(&opened.workspace_dir).map_err(|why| {
            let (source, workspace_dir) = (opened.source.display(), opened.workspace_dir.display());
            refused(format!(
                "the changes were written to {source}, but this could not be recorded in {workspace_dir} ({why}); \
                 later changes of the run may be reported as conflicts"
            ))
        })?;
        for change in report.changes.iter_mut().filter(|change| change.state == ChangeState::Open) {
            change.state = ChangeState::Applied;
        }
        Ok(report)
    }

    fn open_copy(&self, mode: Option<&str>, path: &str) -> Result<OpenedCopy, Unacceptable> {
        if mode != Some(CLONE) {
            return Err(refused("the run worked in the folder itself, so there is nothing to apply"));
        }
        let tree = Path::new(path);
        let Some(workspace_dir) = tree.parent().filter(|_| self.is_copy(tree)) else {
            return Err(copy_missing(format!("the run's copy {path} is not on this server")));
        };
        if !tree.is_dir() {
            return Err(copy_missing(format!(
                "the run's copy {path} no longer exists: it was deleted with its task or session, or because \
                 it was unused"
            )));
        }
        let base = Base::read(workspace_dir).map_err(|why| failed(workspace_dir, &why))?;
        let Some(base) = base else {
            return Err(refused(format!(
                "the source of the copy {path} is unknown because an earlier release created it; compare the \
                 files by hand"
            )));
        };
        let Some(source) = base.source.clone() else {
            return Err(refused(format!(
                "the run started in an empty folder, so there is nothing to apply to; its files are in {path}"
            )));
        };
        let current = self.check_source(&source.display().to_string())?;
        if current != source {
            return Err(refused(format!("{} has been replaced by another folder", source.display())));
        }
        Ok(OpenedCopy { workspace_dir: workspace_dir.to_owned(), tree: tree.to_owned(), base, source })
    }
}

impl OpenedCopy {
    fn compare(&self) -> Result<Comparison, Unacceptable> {
        Comparison::of(&self.tree, &self.base, &self.source).map_err(|why| failed(&self.tree, &why))
    }

    fn report(&self, compared: &Comparison) -> WorkspaceChanges {
        let (diff, diff_cut) = full_diff(&self.tree, &self.source, &compared.changes);
        let report = compared.changes.iter().take(limits::CHANGES_LISTED_MAX);
        WorkspaceChanges {
            path: self.tree.display().to_string(),
            source: self.source.display().to_string(),
            changes: report.map(describe).collect(),
            count: compared.changes.len() as u64,
            ignored: compared.ignored,
            diff: String::from_utf8_lossy(&diff).into_owned(),
            diff_cut,
            branch: None,
            commit: None,
            active: None,
            put_back: 0,
        }
    }
}

fn conflict(names: &str, source: &Path) -> Unacceptable {
    let message = format!(
        "nothing was written: {} has changed since it was copied, in {names}; compare both versions and \
         resolve the conflict by hand",
        source.display()
    );
    Unacceptable { code: Code::ApplyConflict, message }
}

fn copy_missing(message: String) -> Unacceptable {
    Unacceptable { code: Code::WorkspaceGone, message }
}

fn refused(message: impl Into<String>) -> Unacceptable {
    Unacceptable { code: Code::WorkspaceRefused, message: message.into() }
}

fn failed(path: &Path, why: &io::Error) -> Unacceptable {
    refused(format!("{}: {why}", path.display()))
}
