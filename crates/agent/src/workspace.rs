//! The workspace of a run: a copy of a folder, or the folder itself.
//!
//! It must never know what runs do in it.
//!
//! Start at [`Workspaces`]. Copies are in one folder, one for each task, session or separate run. They are deleted with
//! it, or when they were unused for long. A complete copy gets a mark, so a copy that a crash interrupted is made
//! again.

mod apply;
mod back;
mod base;
mod base_content;
mod branch;
mod changes;
pub(crate) mod claims;
mod copy;
mod executed;
mod folder;
mod git_folders;
mod ignored;
mod limits;
mod merge;
pub(crate) mod patched;
mod scan;
mod snapshots;
mod stage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recount_engine::{FilesCheck, FilesFrom, NewRun, PatchSet, Unacceptable};
use recount_event::{Code, RunId};

use self::base::Base;
use self::copy::CopyCounts;
use self::patched::NotPatched;

pub(crate) const CLONE: &str = "clone";
pub(crate) const IN_PLACE: &str = "in_place";

/// In the folder of a workspace: the folder that the run works in, and the mark of a complete copy.
const TREE: &str = "tree";
const READY_MARK: &str = "made";

/// Between a task or session and the unique part, in the name of a branch's copy.
const BRANCH: &str = ".";

/// Where workspaces are stored, and which folders they may be copied from.
#[derive(Debug, Clone)]
pub struct Workspaces {
    /// The folder with all copies.
    pub home: PathBuf,
    /// Folders that may be copied or worked in, including everything below them.
    pub allowed: Arc<[PathBuf]>,
    /// Folders that are excluded even if they are inside an allowed one: the server's data.
    pub forbidden: Arc<[PathBuf]>,
}

/// Why there is no workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspaceError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl WorkspaceError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        WorkspaceError { code, message: message.into() }
    }
}

/// A workspace that is ready.
#[derive(Debug)]
pub(crate) struct PreparedWorkspace {
    /// The counts of the copy, if it was made by this call.
    pub(crate) copied: Option<CopyCounts>,
}

/// A copy that was not used for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unused {
    pub(crate) owner: String,
    /// The run that used it last.
    pub(crate) run: Option<RunId>,
}

impl Workspaces {
    /// Sets the folder that a new run will work in. Refuses folders that are not allowed. `restores`: the run starts from
    /// the files of an earlier one, in a copy of its own.
    pub(crate) fn assign_folder(
        &self,
        new: &mut NewRun,
        source: Option<&mut String>,
        restores: bool,
        unique_name: impl FnOnce() -> String,
    ) -> Result<(), Unacceptable> {
        let mode = new.queued.workspace_mode.get_or_insert_with(|| CLONE.to_owned()).clone();
        let source = match source {
            Some(text) => {
                let found = self.check_source(text)?;
                text.clone_from(&found.display().to_string());
                Some(found)
            }
            None => None,
        };
        // A run that continues another one works in the same folder.
        let kept = new.queued.workspace_path.as_deref().map(Path::new);
        if mode == CLONE && !restores && kept.is_some_and(|path| self.is_copy(path)) {
            return Ok(());
        }
        new.queued.workspace_path = Some(match (mode.as_str(), source) {
            (CLONE, _) => {
                let shared_by = match (new.task, new.session) {
                    (Some(task), _) => Some(task.to_string()),
                    (None, session) => session.map(|session| session.to_string()),
                };
                let owner = match shared_by {
                    Some(owner) if restores => format!("{owner}{BRANCH}{}", unique_name()),
                    Some(owner) => owner,
                    None => format!("lone_{}", unique_name()),
                };
                self.home.join(owner).join(TREE).display().to_string()
            }
            (IN_PLACE, Some(source)) => source.display().to_string(),
            (IN_PLACE, None) => {
                return Err(refused(
                    "workspace_mode is \"in_place\", but no workspace is given; name a folder",
                ));
            }
            (other, _) => {
                let message = format!("workspace_mode is {other:?}; send \"clone\" or \"in_place\"");
                return Err(Unacceptable { code: Code::OrderRefused, message });
            }
        });
        Ok(())
    }

    /// Whether a path is that of a copy.
    fn is_copy(&self, path: &Path) -> bool {
        let workspace_dir = path.parent().filter(|_| path.file_name().is_some_and(|name| name == TREE));
        workspace_dir.and_then(Path::parent) == Some(&*self.home)
    }

    /// Checks a folder that a client named, and returns its canonical path.
    fn check_source(&self, text: &str) -> Result<PathBuf, Unacceptable> {
        let path = Path::new(text);
        if !path.is_absolute() {
            return Err(refused(format!(
                "the workspace {text:?} is not an absolute path; use an absolute path"
            )));
        }
        let found = path
            .canonicalize()
            .map_err(|why| refused(format!("cannot read the workspace {text:?}: {why}")))?;
        if !found.is_dir() {
            return Err(refused(format!("the workspace {text:?} is not a folder")));
        }
        if found.to_str().is_none() {
            return Err(refused(format!("the name of the workspace {text:?} is not UTF-8")));
        }
        for forbidden in self.forbidden.iter() {
            if found.starts_with(forbidden) || forbidden.starts_with(&found) {
                let message =
                    format!("the workspace {text:?} contains the server's data folder or is inside it");
                return Err(refused(message));
            }
        }
        if !self.allowed.iter().any(|allowed| found.starts_with(allowed)) {
            return Err(refused(format!(
                "the workspace {text:?} is outside the allowed folders; start the server with --allow-workspace \
                 {text:?}, or add the folder to workspaces.allow in its configuration"
            )));
        }
        Ok(found)
    }

    /// Checks whether patches fit the current files of a workspace. Writes nothing. Blocks.
    pub(crate) fn check_patches(
        &self,
        mode: Option<&str>,
        path: &str,
        order: &PatchSet,
    ) -> Result<(), Unacceptable> {
        let root = Path::new(path);
        let is_real = mode == Some(IN_PLACE);
        if is_real {
            self.check_source(path)?;
        } else if !self.is_copy(root) || !root.is_dir() {
            let message = format!(
                "the run's copy {path} no longer exists: it was discarded, deleted with its task or session, or \
                 unused for too long"
            );
            return Err(Unacceptable { code: Code::WorkspaceGone, message });
        }
        if patched::is_unsettled(root) {
            // Leftovers of a crash are undone first; the run that does so checks afterwards.
            return Ok(());
        }
        patched::plan(root, is_real, order).map(|_| ()).map_err(|why| match why {
            NotPatched::Drift(why) => {
                Unacceptable { code: Code::PatchDrift, message: format!("nothing was written: {why}") }
            }
            NotPatched::Unusable(message) => Unacceptable { code: Code::PatchUnusable, message },
            NotPatched::Failed(why) => refused(why),
        })
    }

    /// Makes a workspace ready. Blocks.
    pub(crate) fn prepare(
        &self,
        mode: &str,
        path: &Path,
        source: Option<&Path>,
        ignored_too: bool,
        run: RunId,
    ) -> Result<PreparedWorkspace, WorkspaceError> {
        if mode == IN_PLACE {
            return match path.canonicalize() {
                Ok(found) if found == path && found.is_dir() => Ok(PreparedWorkspace { copied: None }),
                Ok(_) => Err(WorkspaceError::new(
                    "workspace_gone",
                    format!("{} has been replaced by another folder", path.display()),
                )),
                Err(why) => Err(WorkspaceError::new("workspace_gone", format!("{}: {why}", path.display()))),
            };
        }
        self.prepare_copy(path, run, |workspace_dir, failed| {
            let Some(source) = source else {
                return std::fs::create_dir(path).map(|()| <(CopyCounts, Base)>::default()).map_err(failed);
            };
            let (copied, base) = copy::tree(source, path, ignored_too)?;
            if let Err(error) = snapshots::start_index(workspace_dir, &base, &base.entries) {
                tracing::warn!(path = %path.display(), %error, "the files of a copy could not be indexed");
            }
            Ok((copied, base))
        })
    }

    /// Makes a copy with the files of an earlier run ready. Blocks.
    pub(crate) fn prepare_restored(
        &self,
        path: &Path,
        from: &FilesFrom,
        run: RunId,
    ) -> Result<PreparedWorkspace, WorkspaceError> {
        let earlier = Path::new(&from.workspace_path);
        let Some(earlier_dir) = earlier.parent().filter(|_| self.is_copy(earlier) && earlier.is_dir()) else {
            let message = format!("{} was deleted", earlier.display());
            return Err(WorkspaceError::new(snapshots::NOT_RESTORABLE, message));
        };
        self.prepare_copy(path, run, |workspace_dir, _| {
            snapshots::restore(earlier_dir, &from.snapshot, workspace_dir)
        })
    }

    fn prepare_copy(
        &self,
        path: &Path,
        run: RunId,
        fill: impl FnOnce(
            &Path,
            &dyn Fn(io::Error) -> WorkspaceError,
        ) -> Result<(CopyCounts, Base), WorkspaceError>,
    ) -> Result<PreparedWorkspace, WorkspaceError> {
        let Some(workspace_dir) = path.parent().filter(|_| self.is_copy(path)) else {
            let message = format!("{} is not inside the folder for workspaces", path.display());
            return Err(WorkspaceError::new("workspace_gone", message));
        };
        let failed = |why: io::Error| {
            let code =
                if why.kind() == io::ErrorKind::StorageFull { "workspace_full" } else { "workspace_failed" };
            WorkspaceError::new(code, format!("{}: {why}", workspace_dir.display()))
        };
        let mark = workspace_dir.join(READY_MARK);
        if mark.exists() {
            if path.is_dir() {
                std::fs::write(&mark, run.to_string()).map_err(failed)?;
                return Ok(PreparedWorkspace { copied: None });
            }
            return Err(WorkspaceError::new("workspace_gone", format!("{} was deleted", path.display())));
        }
        if path.exists() {
            std::fs::remove_dir_all(path).map_err(failed)?;
        }
        std::fs::create_dir_all(workspace_dir).map_err(failed)?;
        let copied = fill(workspace_dir, &failed)
            .and_then(|(copied, base)| base.write(workspace_dir).map(|()| copied).map_err(failed));
        let copied = match copied {
            Ok(copied) => copied,
            Err(error) => {
                // A failed copy leaves nothing behind.
                std::fs::remove_dir_all(workspace_dir).ok();
                return Err(error);
            }
        };
        // Records the run that used the workspace last; its file time is the time of use.
        std::fs::write(&mark, run.to_string()).map_err(failed)?;
        Ok(PreparedWorkspace { copied: Some(copied) })
    }

    /// Records the current files of a copy under a name, which is an id of the server. Blocks.
    pub(crate) fn record_files(&self, path: &Path, name: &str) -> io::Result<()> {
        match path.parent().filter(|_| self.is_copy(path)) {
            Some(workspace_dir) => snapshots::record(workspace_dir, name),
            None => Ok(()),
        }
    }

    /// Whether the files of a place in an earlier run can be restored. Writes nothing. Blocks.
    pub(crate) fn check_files(
        &self,
        mode: Option<&str>,
        from: &FilesFrom,
    ) -> Result<FilesCheck, Unacceptable> {
        let tree = Path::new(&from.workspace_path);
        if mode == Some(IN_PLACE) {
            let why = format!("the run worked in {} itself, and not in a copy", tree.display());
            return Ok(FilesCheck::NotRecorded(why));
        }
        let Some(workspace_dir) = tree.parent().filter(|_| self.is_copy(tree) && tree.is_dir()) else {
            let why = format!(
                "the run's copy {} no longer exists: it was discarded, deleted with its task or session, or \
                 unused for long",
                tree.display()
            );
            return Ok(FilesCheck::NotRecorded(why));
        };
        snapshots::check(workspace_dir, &from.snapshot)
            .map_err(|why| refused(format!("{}: {why}", workspace_dir.display())))
    }

    /// Deletes a copy, if it exists. Blocks.
    pub(crate) fn remove(&self, owner: &str) -> io::Result<()> {
        let workspace_dir = self.home.join(owner);
        // Without its mark, a copy of which only a part could be deleted is made again and never used.
        for deleted in
            [std::fs::remove_file(workspace_dir.join(READY_MARK)), std::fs::remove_dir_all(&workspace_dir)]
        {
            match deleted {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes the copy of a task or session, and those of its branches. Blocks.
    pub(crate) fn remove_all_of(&self, owner: &str) -> io::Result<()> {
        self.remove(owner)?;
        let copies = match std::fs::read_dir(&self.home) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
            copies => copies?,
        };
        for copy in copies {
            let name = copy?.file_name();
            if let Some(name) = name.to_str().filter(|name| shared_by(name) == owner) {
                self.remove(name)?;
            }
        }
        Ok(())
    }

    /// Deletes the copy that has this folder; any other folder stays. Blocks.
    pub(crate) fn remove_copy(&self, path: &Path) -> io::Result<()> {
        let owner = path.parent().and_then(Path::file_name).and_then(|owner| owner.to_str());
        match owner {
            Some(owner) if self.is_copy(path) && self.tree(owner) == path => self.remove(owner),
            _ => Ok(()),
        }
    }

    /// Deletes a copy unless a run has used it in the meantime.
    pub(crate) fn remove_unused(&self, owner: &str, age: Duration) -> io::Result<()> {
        if is_older(&self.home.join(owner), age) { self.remove(owner) } else { Ok(()) }
    }

    /// Copies that were not used for at least `age`. Blocks.
    pub(crate) fn unused(&self, age: Duration) -> io::Result<Vec<Unused>> {
        let mut found = Vec::new();
        let workspace_dirs = match std::fs::read_dir(&self.home) {
            Ok(workspace_dirs) => workspace_dirs,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(why) => return Err(why),
        };
        for workspace_dir in workspace_dirs {
            let workspace_dir = workspace_dir?;
            let mark = workspace_dir.path().join(READY_MARK);
            if is_older(&workspace_dir.path(), age)
                && let Some(owner) = workspace_dir.file_name().to_str()
            {
                let run = std::fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse().ok());
                found.push(Unused { owner: owner.to_owned(), run });
            }
        }
        Ok(found)
    }

    /// The folder that runs work in, in the copy of this owner.
    pub(crate) fn tree(&self, owner: &str) -> PathBuf {
        self.home.join(owner).join(TREE)
    }
}

/// The task or session that a copy belongs to, if it belongs to one.
pub(crate) fn shared_by(owner: &str) -> &str {
    owner.split_once(BRANCH).map_or(owner, |(shared_by, _)| shared_by)
}

/// Whether a copy was last used at least `age` ago.
fn is_older(workspace_dir: &Path, age: Duration) -> bool {
    let marked = workspace_dir.join(READY_MARK).metadata().or_else(|_| workspace_dir.metadata());
    marked.and_then(|marked| marked.modified()).is_ok_and(|at| at.elapsed().unwrap_or_default() >= age)
}

fn refused(message: impl Into<String>) -> Unacceptable {
    Unacceptable { code: Code::WorkspaceRefused, message: message.into() }
}

#[cfg(test)]
mod tests;
