//! Brings the changes of a run's copy back to the folder that the copy was made of.
//!
//! Look at [`Workspaces::changes`] and [`Workspaces::bring_back`]. It must never know how a run is done.

use std::io;
use std::path::{Path, PathBuf};

use recount_engine::{ApplyTo, ChangeState, Unacceptable, WorkspaceChanges};
use recount_event::Code;

use super::base::Base;
use super::changes::{Comparison, in_words, named, whole_diff};
use super::folder::Folder;
use super::stage::{self, NotRecovered};
use super::{CLONE, Workspaces, apply, branch};
use crate::workspace::limits;

/// A copy, what it was made of, and where that is.
struct Opened {
    house: PathBuf,
    tree: PathBuf,
    base: Base,
    source: PathBuf,
}

impl Workspaces {
    /// What a run changed in its copy. Blocks.
    pub(crate) fn changes(&self, mode: Option<&str>, path: &str) -> Result<WorkspaceChanges, Unacceptable> {
        let opened = self.open_copy(mode, path)?;
        let compared = opened.compare()?;
        Ok(opened.told(&compared))
    }

    /// The copy and the folder it was made of.
    pub(crate) fn both_folders(&self, mode: Option<&str>, path: &str) -> Result<[PathBuf; 2], Unacceptable> {
        let opened = self.open_copy(mode, path)?;
        Ok([opened.tree, opened.source])
    }

    /// Makes the changes in the original, or on a branch of it. Refused as a whole where the original has changed in the
    /// same places. What a crash left of an earlier one is undone first. `id` was never used before. Blocks.
    pub(crate) fn bring_back(
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
            return Err(conflict(&named(compared.conflicts()), &opened.source));
        }
        let open: Vec<_> = compared.open().collect();
        let mut told = opened.told(&compared);
        told.put_back = put_back;
        if open.is_empty() {
            return Ok(told);
        }
        if let Some(name) = &to.branch {
            let (tree, source) = (&opened.tree, &opened.source);
            let made = branch::commit(name, &to.message, tree, source, &opened.house, &open);
            told.commit = Some(made.map_err(|why| match why {
                branch::NoBranch::Refused(message) => refused(message),
                branch::NoBranch::Changed(path) => {
                    refused(format!("the copy has changed meanwhile, in {}; apply again", path.display()))
                }
                branch::NoBranch::NotCommitted(paths) => {
                    let names: Vec<String> =
                        paths.iter().take(limits::CHANGES_NAMED_MAX).map(|path| path.display().to_string()).collect();
                    refused(format!(
                        "the branch would take along what is not committed in {}; commit it first, or apply without a \
                         branch",
                        names.join(", ")
                    ))
                }
                branch::NoBranch::Failed(why) => failed(&opened.source, &why),
            })?);
            told.branch = Some(name.clone());
            return Ok(told);
        }
        let written = apply::write(&opened.tree, &opened.source, &open, id).map_err(|why| match why {
            apply::NotWritten::Changed(path) => conflict(&path.display().to_string(), &opened.source),
            apply::NotWritten::Failed(why) => failed(&opened.source, &why),
        })?;
        // From now on this is what the original is known to be, also for what runs change later.
        for (path, thing) in written {
            match thing {
                Some(thing) => opened.base.entries.insert(path, thing),
                None => opened.base.entries.remove(&path),
            };
        }
        opened.base.write(&opened.house).map_err(|why| {
            let (source, house) = (opened.source.display(), opened.house.display());
            refused(format!(
                "the changes were written to {source}, but {house} does not say so because of an error ({why}); what the \
                 run changes there later may be taken for a conflict"
            ))
        })?;
        for change in told.changes.iter_mut().filter(|change| change.state == ChangeState::Open) {
            change.state = ChangeState::Applied;
        }
        Ok(told)
    }

    fn open_copy(&self, mode: Option<&str>, path: &str) -> Result<Opened, Unacceptable> {
        if mode != Some(CLONE) {
            return Err(refused("the run worked in the folder itself, so nothing is to be brought back"));
        }
        let tree = Path::new(path);
        let Some(house) = tree.parent().filter(|_| self.is_ours(tree)) else {
            return Err(gone(format!("the run's copy {path} is not on this server")));
        };
        if !tree.is_dir() {
            return Err(gone(format!(
                "the run's copy {path} is gone: it was removed with its task or session, or after a while unused"
            )));
        }
        let base = Base::read(house).map_err(|why| failed(house, &why))?;
        let Some(base) = base else {
            return Err(refused(format!(
                "it is not known what the copy {path} was made of, because an earlier release made it; compare it by hand"
            )));
        };
        let Some(source) = base.source.clone() else {
            return Err(refused(format!("the run began in an empty folder; its files are in {path}")));
        };
        let known = self.source(&source.display().to_string())?;
        if known != source {
            return Err(refused(format!("{} is not the folder it was", source.display())));
        }
        Ok(Opened { house: house.to_owned(), tree: tree.to_owned(), base, source })
    }
}

impl Opened {
    fn compare(&self) -> Result<Comparison, Unacceptable> {
        Comparison::of(&self.tree, &self.base, &self.source).map_err(|why| failed(&self.tree, &why))
    }

    fn told(&self, compared: &Comparison) -> WorkspaceChanges {
        let (diff, diff_cut) = whole_diff(&self.tree, &self.source, &compared.changes);
        let told = compared.changes.iter().take(limits::CHANGES_TOLD_MAX);
        WorkspaceChanges {
            path: self.tree.display().to_string(),
            source: self.source.display().to_string(),
            changes: told.map(in_words).collect(),
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
        "nothing was written: {} has changed since it was copied, in {names}; look at both, and copy by hand or undo \
         one of them",
        source.display()
    );
    Unacceptable { code: Code::ApplyConflict, message }
}

fn gone(message: String) -> Unacceptable {
    Unacceptable { code: Code::WorkspaceGone, message }
}

fn refused(message: impl Into<String>) -> Unacceptable {
    Unacceptable { code: Code::WorkspaceRefused, message: message.into() }
}

fn failed(path: &Path, why: &io::Error) -> Unacceptable {
    refused(format!("{}: {why}", path.display()))
}
