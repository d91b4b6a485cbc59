//! Applies and reverts patches in the folder of a run: computed in memory first, then written as a whole.
//!
//! It must never know who requests it.
//!
//! Start at [`plan`], which writes nothing, and [`PatchPlan::write`], which is as crash-safe as every apply.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use recount_engine::{ChangeState, PatchAction, PatchBytes, PatchSet, PatchTarget};
use recount_event::ForeignId;
use rustix::fs::FileType;

use super::apply::{self, NewContent, NotWritten};
use super::base::{self, EntryState};
use super::changes::Change;
use super::folder::{self, Fingerprint, Folder};
use super::stage::{self, NotRecovered};
use crate::limits;
use crate::patch::{FileMode, ReadTree, TreeFile, TreePatch, TreePatchError, TreeResult};
use crate::paths::revision;
use crate::tools::diff;

/// The revision of a file that does not exist.
const ABSENT: &str = "absent";

/// The executable bits of a mode.
const EXECUTABLE: u32 = 0o111;

/// Why patches are not applied. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotPatched {
    /// The files differ from those that the patches were made for.
    Drift(String),
    /// The patches cannot be used.
    Unusable(String),
    /// Something outside failed.
    Failed(String),
}

impl From<TreePatchError> for NotPatched {
    fn from(why: TreePatchError) -> Self {
        match why {
            TreePatchError::Drift(_) => NotPatched::Drift(why.to_string()),
            TreePatchError::Malformed { .. } | TreePatchError::Unsupported(_) => {
                NotPatched::Unusable(why.to_string())
            }
            TreePatchError::Unreadable(why) => NotPatched::Failed(why),
        }
    }
}

/// Patches that fit, and the resulting files.
pub(crate) struct PatchPlan {
    tree: FolderTree,
    result: TreeResult,
    /// The steps, in the order of their execution.
    pub(crate) steps: Vec<PatchStep>,
}

/// The application or inversion of one patch.
pub(crate) struct PatchStep {
    pub(crate) patch: ForeignId,
    pub(crate) path: Option<String>,
    /// Whether the patch adds its file.
    pub(crate) adds: bool,
    /// The diff that is applied, and the file that it changes.
    pub(crate) diff: Vec<u8>,
    pub(crate) target: PatchTarget,
    /// `1 hunk, +1/-1 line`.
    pub(crate) summary: String,
}

/// Opens the folder, which must not be a link; with `is_real`, no parent may be one either.
fn open(root: &Path, is_real: bool) -> Result<Folder, NotPatched> {
    let opened = if is_real { Folder::open_real(root) } else { Folder::open(root) };
    opened.map_err(|why| NotPatched::Failed(format!("{}: {why}", root.display())))
}

/// Undoes what a crash left of an earlier apply in the folder. Returns the number of restored files.
pub(crate) fn recover(root: &Path, is_real: bool) -> Result<u64, NotPatched> {
    let folder = open(root, is_real)?;
    stage::recover(&folder, root).map_err(|why| match why {
        NotRecovered::Refused(message) => NotPatched::Drift(message),
        NotRecovered::Failed(why) => NotPatched::Failed(format!("{}: {why}", root.display())),
    })
}

/// Whether a crash left parts of an earlier apply, which a later apply will undo.
pub(crate) fn is_unsettled(root: &Path) -> bool {
    let names = Folder::open(root).and_then(|folder| folder::names(folder.fd(), ".".as_ref()));
    names.is_ok_and(|names| names.iter().any(|name| stage::is_stage(Path::new(name))))
}

/// Computes the resulting files. Writes nothing.
pub(crate) fn plan(root: &Path, is_real: bool, order: &PatchSet) -> Result<PatchPlan, NotPatched> {
    let tree = FolderTree { folder: open(root, is_real)?, known: RefCell::default() };
    let mut overlay = Overlay { tree: &tree, result: TreeResult::new() };
    let mut steps = Vec::new();
    let mut patches: Vec<&PatchBytes> = order.patches.iter().collect();
    if order.action == PatchAction::Revert {
        // The last patch is reverted first.
        patches.reverse();
    }
    for patch in patches {
        steps.push(overlay.step(order.action, patch)?);
    }
    let result = overlay.result;
    Ok(PatchPlan { tree, result, steps })
}

impl PatchPlan {
    /// Writes all changes or none. `id` must not have been used before.
    pub(crate) fn write(self, id: u128) -> Result<(), NotPatched> {
        let changes = self.changes()?;
        if changes.is_empty() {
            return Ok(());
        }
        let changes: Vec<&Change> = changes.iter().collect();
        let from = NewContent::Memory(&self.result);
        apply::write_in(&self.tree.folder, from, &changes, id).map_err(|why| match why {
            NotWritten::Changed(path) => {
                NotPatched::Drift(format!("{}: it changed during the operation", path.display()))
            }
            NotWritten::Failed(why) => NotPatched::Failed(why.to_string()),
        })
    }

    /// The files and folders that differ afterwards, in the order of their paths.
    fn changes(&self) -> Result<Vec<Change>, NotPatched> {
        let mut changes: BTreeMap<PathBuf, Change> = BTreeMap::new();
        let mut add = |path: &Path, after: Option<EntryState>| -> Result<(), NotPatched> {
            let (before, fingerprint) = self.tree.entry(path).map_err(|why| failed(path, &why))?;
            if before.is_some() || after.is_some() {
                let change = Change {
                    path: path.to_owned(),
                    before,
                    after,
                    state: ChangeState::Open,
                    fingerprint,
                    merge: None,
                };
                changes.insert(path.to_owned(), change);
            }
            Ok(())
        };
        let made: BTreeSet<&Path> = self
            .result
            .iter()
            .filter(|(_, file)| file.is_some())
            .flat_map(|(path, _)| path.ancestors().skip(1))
            .collect();
        for (path, file) in &self.result {
            match file {
                Some(file) => add(path, Some(self.new_state(path, file)?))?,
                // A folder with this name is created below.
                None if made.contains(&**path) => {}
                None => add(path, None)?,
            }
        }
        let above = |path: &Path| -> Vec<PathBuf> {
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            above.map(Path::to_owned).collect()
        };
        for (path, file) in &self.result {
            for folder in above(path) {
                let is_folder = matches!(self.tree.entry(&folder), Ok((Some(EntryState::Folder), _)));
                if file.is_some() && !is_folder {
                    add(&folder, Some(EntryState::Folder))?;
                } else if file.is_none()
                    && is_folder
                    && !made.contains(&*folder)
                    && !self.result.contains_key(&folder)
                {
                    // As in git, a folder is deleted with its last file; if it contains more, it stays.
                    add(&folder, None)?;
                }
            }
        }
        Ok(changes.into_values().collect())
    }

    /// The new state of a file: its current mode, except for what the patch changes.
    fn new_state(&self, path: &Path, file: &TreeFile) -> Result<EntryState, NotPatched> {
        if file.mode == FileMode::Link {
            return Ok(EntryState::Link { target: file.bytes.clone() });
        }
        let (before, _) = self.tree.entry(path).map_err(|why| failed(path, &why))?;
        let is_executable = file.mode == FileMode::Executable;
        let mode = match before {
            Some(EntryState::File { mode, .. }) if (mode & 0o100 != 0) == is_executable => mode,
            Some(EntryState::File { mode, .. }) if is_executable => mode | (mode & 0o444) >> 2,
            Some(EntryState::File { mode, .. }) => mode & !EXECUTABLE,
            _ if is_executable => 0o777,
            _ => 0o666,
        };
        Ok(EntryState::File { mode, length: file.bytes.len() as u64, digest: [0; 32] })
    }
}

fn failed(path: &Path, why: &io::Error) -> NotPatched {
    NotPatched::Failed(format!("{}: {why}", path.display()))
}

// ---- one patch after the other -------------------------------------------------------------------

/// A folder with the results of earlier patches.
struct Overlay<'a> {
    tree: &'a FolderTree,
    result: TreeResult,
}

impl ReadTree for Overlay<'_> {
    fn read(&self, path: &Path) -> Result<Option<TreeFile>, TreePatchError> {
        match self.result.get(path) {
            Some(changed) => Ok(changed.clone()),
            None => self.tree.read(path),
        }
    }
}

impl Overlay<'_> {
    fn step(&mut self, action: PatchAction, patch: &PatchBytes) -> Result<PatchStep, NotPatched> {
        let row = &patch.row;
        let unusable =
            |why: String| NotPatched::Unusable(format!("the patch {} cannot be used: {why}", row.id));
        let read = |why: TreePatchError| unusable(why.to_string());
        let parsed = TreePatch::parse(&patch.diff).map_err(read)?;
        let inverse = parsed.inverse().map_err(read)?;
        for path in parsed.paths() {
            if base::is_in_git_folder(path) || stage::is_stage(path) {
                return Err(unusable(format!(
                    "it changes {}, which belongs to git or to an apply",
                    path.display()
                )));
            }
        }
        if let Some(path) = &row.path
            && parsed.paths() != [&PathBuf::from(path)]
        {
            return Err(unusable(format!("its diff is not for {path}")));
        }
        let (forward, backward) = match action {
            PatchAction::Apply => (parsed, inverse),
            PatchAction::Reject | PatchAction::Revert => (inverse, parsed),
        };
        let current_revision = self.revision(row.path.as_deref(), &TreeResult::new())?;
        let result = self.fit(action, patch, &forward, &backward, &current_revision)?;
        let [additions, deletions, hunks] = forward.figures();
        let text = forward.to_bytes();
        let summary = diff::Patch { text: Vec::new(), additions, deletions, hunks }.summary();
        let path = row.path.clone().unwrap_or_else(|| {
            forward.paths().first().map(|path| path.display().to_string()).unwrap_or_default()
        });
        self.result.extend(result);
        Ok(PatchStep {
            patch: row.id.clone(),
            path: row.path.clone(),
            adds: row.base_revision.as_deref() == Some(ABSENT),
            diff: text,
            target: PatchTarget { path, base_revision: current_revision, additions, deletions, hunks },
            summary,
        })
    }

    /// The result of the patch, if the file is the one that it was made for. Empty if it was already applied before a
    /// crash kept the log from recording it.
    fn fit(
        &self,
        action: PatchAction,
        patch: &PatchBytes,
        forward: &TreePatch,
        backward: &TreePatch,
        current_revision: &str,
    ) -> Result<TreeResult, NotPatched> {
        let row = &patch.row;
        let Some(base) = row.base_revision.as_deref().filter(|_| row.path.is_some()) else {
            return Ok(forward.apply(self)?);
        };
        let path = row.path.as_deref();
        // The content before the patch is known by its digest; reverting must produce that.
        let reaches_base = |diff: &TreePatch| -> Result<Option<TreeResult>, NotPatched> {
            match diff.apply(self) {
                Ok(result) if self.revision(path, &result)? == base => Ok(Some(result)),
                Ok(_) | Err(TreePatchError::Drift(_)) => Ok(None),
                Err(why) => Err(why.into()),
            }
        };
        let is_done = match action {
            PatchAction::Apply if current_revision == base => return Ok(forward.apply(self)?),
            PatchAction::Apply => reaches_base(backward)?.is_some(),
            PatchAction::Reject | PatchAction::Revert => match reaches_base(forward)? {
                Some(result) => return Ok(result),
                None => current_revision == base && backward.apply(self).is_ok(),
            },
        };
        if is_done {
            return Ok(TreeResult::new());
        }
        let (name, is) = (path.unwrap_or_default(), shortened(current_revision));
        let detail = match action {
            PatchAction::Apply => format!("the patch was made for {}", shortened(base)),
            PatchAction::Reject | PatchAction::Revert => {
                "it differs from the patch's result; revert later changes first".to_owned()
            }
        };
        Err(NotPatched::Drift(format!("{name} has changed: it is {is} now; {detail}")))
    }

    /// The revision of a file after a change that is not part of the overlay yet.
    fn revision(&self, path: Option<&str>, result: &TreeResult) -> Result<String, NotPatched> {
        let Some(path) = path.map(Path::new) else { return Ok(ABSENT.to_owned()) };
        let file = match result.get(path) {
            Some(changed) => changed.clone(),
            None => self.read(path)?,
        };
        Ok(file.map_or_else(|| ABSENT.to_owned(), |file| revision(&file.bytes)))
    }
}

fn shortened(revision: &str) -> &str {
    revision.get(..19).unwrap_or(revision)
}

// ---- files ---------------------------------------------------------------------------------------

/// The state of a path, and the fingerprint that identifies the file.
type KnownEntry = (Option<EntryState>, Option<Fingerprint>);

/// An open folder, with the state of each entry before it was read.
struct FolderTree {
    folder: Folder,
    known: RefCell<BTreeMap<PathBuf, KnownEntry>>,
}

impl FolderTree {
    /// The state of a path when it was first inspected. Files are not digested.
    fn entry(&self, path: &Path) -> io::Result<KnownEntry> {
        if let Some(known) = self.known.borrow().get(path) {
            return Ok(known.clone());
        }
        let fingerprint = self.folder.fingerprint(path)?;
        let state = match self.folder.stat(path)? {
            None => None,
            Some(stat) => Some(match folder::kind(&stat) {
                FileType::Directory => EntryState::Folder,
                FileType::RegularFile => EntryState::File {
                    mode: base::plain_mode(stat.st_mode),
                    length: stat.st_size.cast_unsigned(),
                    digest: [0; 32],
                },
                FileType::Symlink => self
                    .folder
                    .entry_state(path, None)?
                    .ok_or_else(|| io::Error::other("it changed during the operation"))?,
                _ => return Err(io::Error::other("it is not a file, folder or symbolic link")),
            }),
        };
        self.known.borrow_mut().insert(path.to_owned(), (state.clone(), fingerprint));
        Ok((state, fingerprint))
    }

    fn content(&self, path: &Path) -> io::Result<Option<TreeFile>> {
        let mode = match self.entry(path)?.0 {
            None | Some(EntryState::Folder) => return Ok(None),
            Some(EntryState::Link { target }) => {
                return Ok(Some(TreeFile { mode: FileMode::Link, bytes: target }));
            }
            Some(EntryState::File { mode, .. }) => mode,
        };
        let most = limits::PATCHED_FILE_BYTES_MAX;
        let mut bytes = Vec::new();
        self.folder.open_file(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(io::Error::other(format!(
                "it is larger than {most} bytes, the limit for patched files"
            )));
        }
        let mode = if mode & 0o100 == 0 { FileMode::Plain } else { FileMode::Executable };
        Ok(Some(TreeFile { mode, bytes }))
    }
}

impl ReadTree for FolderTree {
    fn read(&self, path: &Path) -> Result<Option<TreeFile>, TreePatchError> {
        self.content(path).map_err(|why| TreePatchError::Unreadable(format!("{}: {why}", path.display())))
    }
}
