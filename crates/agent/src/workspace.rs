//! The folder that a run works in: a copy of its own, or the folder that was named.
//!
//! Look at [`Workspaces`]. Copies lie under one folder, one for each task, session or lone run, and live until that
//! is deleted or they have not been used for long. What was made is marked when it is whole, so a copy that a crash
//! cut off is made again. It must never know what runs do in it.

mod apply;
mod back;
mod base;
mod branch;
mod changes;
pub(crate) mod claims;
mod copy;
mod folder;
mod gits;
mod ignored;
mod limits;
pub(crate) mod patched;
mod stage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recount_engine::{NewRun, PatchOrder, Unacceptable};
use recount_event::{Code, RunId};

use self::base::Base;
use self::copy::Copied;
use self::patched::NotPatched;

pub(crate) const CLONE: &str = "clone";
pub(crate) const IN_PLACE: &str = "in_place";

/// The folder with what is worked in, and the mark that it is whole.
const TREE: &str = "tree";
const MADE: &str = "made";

/// Where workspaces are, and what they may be made of.
#[derive(Debug, Clone)]
pub struct Workspaces {
    /// Where copies are kept.
    pub home: PathBuf,
    /// Folders that may be copied or worked in, with all below them.
    pub allowed: Arc<[PathBuf]>,
    /// Folders that may not, although they lie in one that may: where the server keeps its data.
    pub forbidden: Arc<[PathBuf]>,
}

/// Why there is no workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoWorkspace {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl NoWorkspace {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        NoWorkspace { code, message: message.into() }
    }
}

/// A workspace that was made ready.
#[derive(Debug)]
pub(crate) struct PreparedWorkspace {
    /// What is in it, when it was made now.
    pub(crate) made: Option<Copied>,
}

/// A copy that nobody has used for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unused {
    pub(crate) whose: String,
    /// The run that used it last.
    pub(crate) run: Option<RunId>,
}

impl Workspaces {
    /// Says in a run that is to be where it will work, and refuses a folder that may not be worked in.
    pub(crate) fn settle(
        &self,
        new: &mut NewRun,
        source: Option<&mut String>,
        own_name: impl FnOnce() -> String,
    ) -> Result<(), Unacceptable> {
        let mode = new.queued.workspace_mode.get_or_insert_with(|| CLONE.to_owned()).clone();
        let source = match source {
            Some(text) => {
                let found = self.source(text)?;
                text.clone_from(&found.display().to_string());
                Some(found)
            }
            None => None,
        };
        // A run that goes on from another works where that did.
        let kept = new.queued.workspace_path.as_deref().map(Path::new);
        if mode == CLONE && kept.is_some_and(|path| self.is_ours(path)) {
            return Ok(());
        }
        new.queued.workspace_path = Some(match (mode.as_str(), source) {
            (CLONE, _) => {
                let whose = match (new.task, new.session) {
                    (Some(task), _) => task.to_string(),
                    (None, Some(session)) => session.to_string(),
                    (None, None) => own_name(),
                };
                self.home.join(whose).join(TREE).display().to_string()
            }
            (IN_PLACE, Some(source)) => source.display().to_string(),
            (IN_PLACE, None) => {
                return Err(refused(
                    "workspace_mode is \"in_place\", but no workspace is named; name a folder",
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
    fn is_ours(&self, path: &Path) -> bool {
        let house = path.parent().filter(|_| path.file_name().is_some_and(|name| name == TREE));
        house.and_then(Path::parent) == Some(&*self.home)
    }

    /// A folder that was named, as it really is.
    fn source(&self, text: &str) -> Result<PathBuf, Unacceptable> {
        let path = Path::new(text);
        if !path.is_absolute() {
            return Err(refused(format!("the workspace is {text:?}; name it from the root on")));
        }
        let found = path
            .canonicalize()
            .map_err(|why| refused(format!("the workspace {text:?} cannot be looked at: {why}")))?;
        if !found.is_dir() {
            return Err(refused(format!("the workspace {text:?} is not a folder")));
        }
        if found.to_str().is_none() {
            return Err(refused(format!("the workspace {text:?} has a name that is not UTF-8")));
        }
        for forbidden in self.forbidden.iter() {
            if found.starts_with(forbidden) || forbidden.starts_with(&found) {
                let message = format!("the workspace {text:?} holds the server's own data, or lies in it");
                return Err(refused(message));
            }
        }
        if !self.allowed.iter().any(|allowed| found.starts_with(allowed)) {
            return Err(refused(format!(
                "the workspace {text:?} lies outside of the folders that runs may work in; see [workspaces] allow"
            )));
        }
        Ok(found)
    }

    /// Whether patches fit the files of a workspace as they are now. Writes nothing. Blocks.
    pub(crate) fn check_patches(
        &self,
        mode: Option<&str>,
        path: &str,
        order: &PatchOrder,
    ) -> Result<(), Unacceptable> {
        let root = Path::new(path);
        let is_real = mode == Some(IN_PLACE);
        if is_real {
            self.source(path)?;
        } else if !self.is_ours(root) || !root.is_dir() {
            let message = format!(
                "the run's copy {path} is gone: it was removed with its task or session, or after a while unused"
            );
            return Err(Unacceptable { code: Code::WorkspaceGone, message });
        }
        if patched::is_unsettled(root) {
            // What a crash has left is undone first; the run that does it looks then.
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
    pub(crate) fn ready(
        &self,
        mode: &str,
        path: &Path,
        source: Option<&Path>,
        ignored_too: bool,
        run: RunId,
    ) -> Result<PreparedWorkspace, NoWorkspace> {
        if mode == IN_PLACE {
            return match path.canonicalize() {
                Ok(found) if found == path && found.is_dir() => Ok(PreparedWorkspace { made: None }),
                Ok(_) => Err(NoWorkspace::new(
                    "workspace_gone",
                    format!("{} is not the folder it was", path.display()),
                )),
                Err(why) => Err(NoWorkspace::new("workspace_gone", format!("{}: {why}", path.display()))),
            };
        }
        let Some(house) = path.parent().filter(|_| self.is_ours(path)) else {
            let elsewhere = format!("{} is not where workspaces are kept", path.display());
            return Err(NoWorkspace::new("workspace_gone", elsewhere));
        };
        let failed = |why: io::Error| {
            let code =
                if why.kind() == io::ErrorKind::StorageFull { "workspace_full" } else { "workspace_failed" };
            NoWorkspace::new(code, format!("{}: {why}", house.display()))
        };
        let mark = house.join(MADE);
        if mark.exists() {
            if path.is_dir() {
                std::fs::write(&mark, run.to_string()).map_err(failed)?;
                return Ok(PreparedWorkspace { made: None });
            }
            return Err(NoWorkspace::new("workspace_gone", format!("{} was taken away", path.display())));
        }
        if path.exists() {
            std::fs::remove_dir_all(path).map_err(failed)?;
        }
        std::fs::create_dir_all(house).map_err(failed)?;
        let made = match source {
            Some(source) => copy::tree(source, path, ignored_too),
            None => std::fs::create_dir(path).map(|()| <(Copied, Base)>::default()).map_err(failed),
        };
        let made = made.and_then(|(made, base)| base.write(house).map(|()| made).map_err(failed));
        let made = match made {
            Ok(made) => made,
            Err(none) => {
                // Nothing is left of what could not be made.
                std::fs::remove_dir_all(house).ok();
                return Err(none);
            }
        };
        // Who used it last, and when, is seen from this.
        std::fs::write(&mark, run.to_string()).map_err(failed)?;
        Ok(PreparedWorkspace { made: Some(made) })
    }

    /// Takes a copy away, if there is one. Blocks.
    pub(crate) fn remove(&self, whose: &str) -> io::Result<()> {
        match std::fs::remove_dir_all(self.home.join(whose)) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        }
    }

    /// The same, unless a run has used it in the meantime.
    pub(crate) fn remove_unused(&self, whose: &str, age: Duration) -> io::Result<()> {
        if is_older(&self.home.join(whose), age) { self.remove(whose) } else { Ok(()) }
    }

    /// Copies that were not used for so long. Blocks.
    pub(crate) fn unused(&self, age: Duration) -> io::Result<Vec<Unused>> {
        let mut found = Vec::new();
        let houses = match std::fs::read_dir(&self.home) {
            Ok(houses) => houses,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(why) => return Err(why),
        };
        for house in houses {
            let house = house?;
            let mark = house.path().join(MADE);
            if is_older(&house.path(), age)
                && let Some(whose) = house.file_name().to_str()
            {
                let run = std::fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse().ok());
                found.push(Unused { whose: whose.to_owned(), run });
            }
        }
        Ok(found)
    }

    /// Where the copy of this name is worked in.
    pub(crate) fn tree(&self, whose: &str) -> PathBuf {
        self.home.join(whose).join(TREE)
    }
}

/// Whether a copy was last used so long ago.
fn is_older(house: &Path, age: Duration) -> bool {
    let marked = house.join(MADE).metadata().or_else(|_| house.metadata());
    marked.and_then(|marked| marked.modified()).is_ok_and(|at| at.elapsed().unwrap_or_default() >= age)
}

fn refused(message: impl Into<String>) -> Unacceptable {
    Unacceptable { code: Code::WorkspaceRefused, message: message.into() }
}

#[cfg(test)]
mod tests;
