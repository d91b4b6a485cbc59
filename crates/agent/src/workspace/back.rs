//! Applies the changes of a run's copy to the folder that was copied.
//!
//! It must never know how a run is executed.
//!
//! Start at [`Workspaces::changes`] and [`Workspaces::apply_changes`].

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use recount_engine::{ApplyTo, ChangeState, Conflicts, Unacceptable, WorkspaceChanges};
use recount_event::Code;

use super::base::{Base, EntryState};
use super::base_content::BaseContent;
use super::changes::{Change, Comparison, describe, full_diff, list_names};
use super::folder::Folder;
use super::merge::Merge;
use super::stage::{self, NotRecovered};
use super::{CLONE, Workspaces, apply, branch, snapshots};
use crate::patch::TreeResult;
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
        let original = Folder::open_real(&opened.source).map_err(|why| failed(&opened.source, &why))?;
        let replaced =
            compared.changes.iter().filter_map(|change| Some((&*change.path, change.before.as_ref()?)));
        if let Err(error) = opened.content().keep(&original, replaced) {
            tracing::warn!(%error, "the replaced files could not be kept for later merges");
        }
        Ok(opened.report(&compared))
    }

    /// The copy and its source folder.
    pub(crate) fn both_folders(&self, mode: Option<&str>, path: &str) -> Result<[PathBuf; 2], Unacceptable> {
        let opened = self.open_copy(mode, path)?;
        Ok([opened.tree, opened.source])
    }

    /// Applies the selected changes to the original, or to a branch of it: all or none, except for conflicts. First undoes what a crash left of an earlier apply. `id` must not have been used before. Blocks.
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
        let mut compared = opened.compare()?;
        if to.shown_digest.as_ref().is_some_and(|shown| *shown != compared.digest()) {
            let message =
                "nothing was written: the changes are no longer those that were shown; show them again";
            return Err(Unacceptable { code: Code::ApplyConflict, message: message.to_owned() });
        }
        select(&mut compared, &to.paths)?;
        let plan = ApplyPlan::of(&compared.changes, to.conflicts);
        if to.conflicts == Conflicts::Refuse && !plan.skipped.is_empty() {
            return Err(conflict(&list_names(plan.skipped.iter().copied()), &opened.source));
        }
        let mut report = opened.report(&compared);
        report.put_back = put_back;
        if plan.writes.is_empty() {
            return Ok(report);
        }
        let writes: Vec<&Change> = plan.writes.iter().collect();
        if let Some(name) = &to.branch {
            let (tree, source) = (&opened.tree, &opened.source);
            let sides = branch::Sides { copy: tree, original: source, merged: &plan.merged };
            let made = branch::commit(name, &to.message, &sides, &opened.workspace_dir, &writes);
            report.commit = Some(made.map_err(|why| no_branch(why, source))?);
            report.branch = Some(name.clone());
            return Ok(report);
        }
        let replaced: Vec<_> = writes.iter().map(|change| (&change.path, None)).collect();
        let (workspace_dir, tree) = (&opened.workspace_dir, &opened.tree);
        if let Err(error) = snapshots::keep_content(workspace_dir, tree, &opened.base, &replaced) {
            tracing::warn!(%error, "the replaced files could not be kept for later runs");
        }
        apply::write(&opened.tree, &opened.source, &writes, &plan.merged, id).map_err(|why| match why {
            apply::NotWritten::Changed(path) => conflict(&path.display().to_string(), &opened.source),
            apply::NotWritten::Failed(why) => failed(&opened.source, &why),
        })?;
        let written: BTreeSet<&Path> = plan.writes.iter().map(|change| &*change.path).collect();
        // The base becomes the state of the copy, also for later changes of runs.
        for change in compared.changes.iter().filter(|change| written.contains(&*change.path)) {
            match &change.after {
                Some(state) => opened.base.entries.insert(change.path.clone(), state.clone()),
                None => opened.base.entries.remove(&change.path),
            };
        }
        opened.base.write(&opened.workspace_dir).map_err(|why| {
            let (source, workspace_dir) = (opened.source.display(), opened.workspace_dir.display());
            refused(format!(
                "the changes were written to {source}, but this could not be recorded in {workspace_dir} ({why}); \
                 later changes of the run may be reported as conflicts"
            ))
        })?;
        for change in report.changes.iter_mut().filter(|change| written.contains(Path::new(&change.path))) {
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
                "the run's copy {path} no longer exists: it was discarded, deleted with its task or session, or \
                 unused for too long"
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
        Comparison::of(&self.tree, &self.base, &self.source, &self.content())
            .map_err(|why| failed(&self.tree, &why))
    }

    fn content(&self) -> BaseContent<'_> {
        BaseContent { workspace_dir: &self.workspace_dir, source: &self.source }
    }

    fn report(&self, compared: &Comparison) -> WorkspaceChanges {
        let (diff, diff_cut) = full_diff(&self.tree, &self.source, &compared.changes);
        // Files that other programs execute are listed beyond the limit too: people read them before they are applied.
        let listed = compared.changes.iter().map(describe).enumerate();
        let listed =
            listed.filter(|(at, change)| *at < limits::CHANGES_LISTED_MAX || change.executed_by.is_some());
        WorkspaceChanges {
            path: self.tree.display().to_string(),
            source: self.source.display().to_string(),
            changes: listed.map(|(_, change)| change).collect(),
            count: compared.changes.len() as u64,
            ignored: compared.ignored,
            diff: String::from_utf8_lossy(&diff).into_owned(),
            diff_cut,
            branch: None,
            commit: None,
            active: None,
            put_back: 0,
            digest: compared.digest(),
        }
    }
}

/// What an apply writes and what it skips.
struct ApplyPlan<'a> {
    writes: Vec<Change>,
    /// The content of files that both sides changed.
    merged: TreeResult,
    skipped: Vec<&'a Change>,
}

impl ApplyPlan<'_> {
    fn of(changes: &[Change], conflicts: Conflicts) -> ApplyPlan<'_> {
        let mut plan = ApplyPlan { writes: Vec::new(), merged: TreeResult::new(), skipped: Vec::new() };
        for change in changes {
            // What belongs into a folder that is skipped has no place.
            let in_skipped = plan.skipped.iter().any(|skipped| change.path.starts_with(&skipped.path));
            let merged = change
                .merged()
                .filter(|_| change.state == ChangeState::Mergeable || conflicts == Conflicts::Mark);
            match (change.state, merged) {
                (ChangeState::Applied, _) => {}
                (ChangeState::Open, _) if !in_skipped => plan.writes.push(change.clone()),
                (ChangeState::Mergeable | ChangeState::Conflict, Some(merged)) if !in_skipped => {
                    let file = change.merge.as_ref().map(Merge::file);
                    plan.merged.insert(change.path.clone(), file);
                    plan.writes.push(merged);
                }
                _ => plan.skipped.push(change),
            }
        }
        // A folder with something that stays cannot be replaced by a file.
        let stays = |change: &Change| {
            change.before == Some(EntryState::Folder)
                && change.after.as_ref().is_some_and(|after| *after != EntryState::Folder)
                && plan.skipped.iter().any(|skipped| skipped.path.starts_with(&change.path))
        };
        let staying: BTreeSet<PathBuf> =
            plan.writes.iter().filter(|change| stays(change)).map(|change| change.path.clone()).collect();
        plan.writes.retain(|change| !staying.contains(&change.path));
        plan.skipped.extend(changes.iter().filter(|change| staying.contains(&change.path)));
        plan
    }
}

/// Reduces a comparison to the selected paths, what is below them, and the new folders above them.
fn select(compared: &mut Comparison, paths: &[String]) -> Result<(), Unacceptable> {
    if paths.is_empty() {
        return Ok(());
    }
    let below = |change: &Change, path: &str| change.path.starts_with(path.trim_end_matches('/'));
    for path in paths {
        if !compared.changes.iter().any(|change| below(change, path)) {
            return Err(refused(format!(
                "there is nothing to apply at {path:?}: it is the same in the folder and the copy; name changed paths, relative to the folder"
            )));
        }
    }
    let selected = |change: &Change| paths.iter().any(|path| below(change, path));
    let parents: BTreeSet<PathBuf> = compared
        .changes
        .iter()
        .filter(|change| selected(change) && change.after.is_some())
        .flat_map(|change| change.path.ancestors().skip(1).map(Path::to_owned))
        .collect();
    compared.changes.retain(|change| {
        selected(change) || change.after == Some(EntryState::Folder) && parents.contains(&change.path)
    });
    Ok(())
}

fn no_branch(why: branch::NoBranch, source: &Path) -> Unacceptable {
    match why {
        branch::NoBranch::Refused(message) => refused(message),
        branch::NoBranch::Changed(path) => {
            refused(format!("the copy changed during the apply, in {}; apply again", path.display()))
        }
        branch::NoBranch::NotCommitted(paths) => {
            let names: Vec<String> =
                paths.iter().take(limits::CHANGES_NAMED_MAX).map(|path| path.display().to_string()).collect();
            refused(format!(
                "the branch would include uncommitted changes in {}; commit them first, or apply without a \
                 branch",
                names.join(", ")
            ))
        }
        branch::NoBranch::Failed(why) => failed(source, &why),
    }
}

fn conflict(names: &str, source: &Path) -> Unacceptable {
    let message = format!(
        "nothing was written: {} has changed since it was copied, in {names}; apply the other changes \
         (\"conflicts\": \"skip\"), or write both versions between conflict markers (\"conflicts\": \"mark\")",
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
