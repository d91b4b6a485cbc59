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
mod branch;
mod changes;
pub(crate) mod claims;
mod copy;
mod folder;
mod git_folders;
mod ignored;
mod limits;
pub(crate) mod patched;
mod stage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recount_engine::{NewRun, PatchSet, Unacceptable};
use recount_event::{Code, RunId};

use self::base::Base;
use self::copy::CopyCounts;
use self::patched::NotPatched;

pub(crate) const CLONE: &str = "clone";
pub(crate) const IN_PLACE: &str = "in_place";

/// In the folder of a workspace: the folder that the run works in, and the mark of a complete copy.
const TREE: &str = "tree";
const READY_MARK: &str = "made";

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
    /// Sets the folder that a new run will work in. Refuses folders that are not allowed.
    pub(crate) fn assign_folder(
        &self,
        new: &mut NewRun,
        source: Option<&mut String>,
        lone_name: impl FnOnce() -> String,
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
        if mode == CLONE && kept.is_some_and(|path| self.is_copy(path)) {
            return Ok(());
        }
        new.queued.workspace_path = Some(match (mode.as_str(), source) {
            (CLONE, _) => {
                let owner = match (new.task, new.session) {
                    (Some(task), _) => task.to_string(),
                    (None, Some(session)) => session.to_string(),
                    (None, None) => lone_name(),
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
                "the workspace {text:?} is outside the allowed folders; add it to [workspaces] allow"
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
                "the run's copy {path} no longer exists: it was deleted with its task or session, or because \
                 it was unused"
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
        let copied = match source {
            Some(source) => copy::tree(source, path, ignored_too),
            None => std::fs::create_dir(path).map(|()| <(CopyCounts, Base)>::default()).map_err(failed),
        };
        let copied =
            copied.and_then(|(copied, base)| base.write(workspace_dir).map(|()| copied).map_err(failed));
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

    /// Deletes a copy, if it exists. Blocks.
    pub(crate) fn remove(&self, owner: &str) -> io::Result<()> {
        match std::fs::remove_dir_all(self.home.join(owner)) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
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
