//! Applies and reverts patches in the folder that a run worked in: worked out in memory first, then written as a whole.
//!
//! Look at [`plan`], which writes nothing, and [`PatchPlan::write`], which is safe against crashes as every apply is. It
//! must never know who wants it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use recount_engine::{ChangeState, PatchAction, PatchBytes, PatchOrder, Target};
use recount_event::ForeignId;
use rustix::fs::FileType;

use super::apply::{self, NewContent, NotWritten};
use super::base::{self, Thing};
use super::changes::Change;
use super::folder::{self, Folder, Seen};
use super::stage::{self, NotRecovered};
use crate::limits;
use crate::patch::{FileMode, ReadTree, TreeFile, TreePatch, TreePatchError, TreeResult};
use crate::paths::revision;
use crate::tools::diff;

/// What the revision of a file is called that does not exist.
const ABSENT: &str = "absent";

/// The bits of a mode that git calls executable.
const EXECUTABLE: u32 = 0o111;

/// Why patches are not applied. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotPatched {
    /// The files are not those that the patches were made for.
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

/// Patches that fit, and what they make of the files.
pub(crate) struct PatchPlan {
    tree: FolderTree,
    result: TreeResult,
    /// What takes each patch back, in the order in which it is done.
    pub(crate) steps: Vec<PatchStep>,
}

/// What is done with one patch.
pub(crate) struct PatchStep {
    pub(crate) patch: ForeignId,
    pub(crate) path: Option<String>,
    /// Whether it adds the file that it is of.
    pub(crate) adds: bool,
    /// The diff that is applied, and the file that it changes.
    pub(crate) diff: Vec<u8>,
    pub(crate) target: Target,
    /// `1 hunk, +1/-1 line`.
    pub(crate) summary: String,
}

/// Opens the folder, whose own path may be no link; `is_real`: nor any part of the way there.
fn open(root: &Path, is_real: bool) -> Result<Folder, NotPatched> {
    let opened = if is_real { Folder::open_real(root) } else { Folder::open(root) };
    opened.map_err(|why| NotPatched::Failed(format!("{}: {why}", root.display())))
}

/// Undoes what a crash has left of an earlier apply in the folder. Answers how many files it put back.
pub(crate) fn recover(root: &Path, is_real: bool) -> Result<u64, NotPatched> {
    let folder = open(root, is_real)?;
    stage::recover(&folder, root).map_err(|why| match why {
        NotRecovered::Refused(message) => NotPatched::Drift(message),
        NotRecovered::Failed(why) => NotPatched::Failed(format!("{}: {why}", root.display())),
    })
}

/// Whether a crash has left something of an earlier apply, so that files are not as they will be.
pub(crate) fn is_unsettled(root: &Path) -> bool {
    let names = Folder::open(root).and_then(|folder| folder::names(folder.fd(), ".".as_ref()));
    names.is_ok_and(|names| names.iter().any(|name| stage::is_stage(Path::new(name))))
}

/// Works out what becomes of the files. Writes nothing.
pub(crate) fn plan(root: &Path, is_real: bool, order: &PatchOrder) -> Result<PatchPlan, NotPatched> {
    let tree = FolderTree { folder: open(root, is_real)?, seen: RefCell::default() };
    let mut made = Overlay { tree: &tree, result: TreeResult::new() };
    let mut steps = Vec::new();
    let mut patches: Vec<&PatchBytes> = order.patches.iter().collect();
    if order.action == PatchAction::Revert {
        // The last one made is the first to go.
        patches.reverse();
    }
    for patch in patches {
        steps.push(made.step(order.action, patch)?);
    }
    let result = made.result;
    Ok(PatchPlan { tree, result, steps })
}

impl PatchPlan {
    /// Makes the changes: all of them, or none. `id` was never used before.
    pub(crate) fn write(self, id: u128) -> Result<(), NotPatched> {
        let changes = self.changes()?;
        if changes.is_empty() {
            return Ok(());
        }
        let changes: Vec<&Change> = changes.iter().collect();
        let from = NewContent::Memory(&self.result);
        apply::write_in(&self.tree.folder, from, &changes, id).map_err(|why| match why {
            NotWritten::Changed(path) => {
                NotPatched::Drift(format!("{}: it has changed meanwhile", path.display()))
            }
            NotWritten::Failed(why) => NotPatched::Failed(why.to_string()),
        })
    }

    /// The files and folders that differ afterwards, in the order of their paths.
    fn changes(&self) -> Result<Vec<Change>, NotPatched> {
        let mut changes: BTreeMap<PathBuf, Change> = BTreeMap::new();
        let mut add = |path: &Path, after: Option<Thing>| -> Result<(), NotPatched> {
            let (before, seen) = self.tree.entry(path).map_err(|why| failed(path, &why))?;
            if before.is_some() || after.is_some() {
                let change = Change { path: path.to_owned(), before, after, state: ChangeState::Open, seen };
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
                Some(file) => add(path, Some(self.thing(path, file)?))?,
                // A folder of the same name is made below.
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
                let is_folder = matches!(self.tree.entry(&folder), Ok((Some(Thing::Folder), _)));
                if file.is_some() && !is_folder {
                    add(&folder, Some(Thing::Folder))?;
                } else if file.is_none()
                    && is_folder
                    && !made.contains(&*folder)
                    && !self.result.contains_key(&folder)
                {
                    // As with git, a folder goes with its last file; with more in it, it stays.
                    add(&folder, None)?;
                }
            }
        }
        Ok(changes.into_values().collect())
    }

    /// What a file is afterwards: with the mode that it has, but for what the patch says of it.
    fn thing(&self, path: &Path, file: &TreeFile) -> Result<Thing, NotPatched> {
        if file.mode == FileMode::Link {
            return Ok(Thing::Link { target: file.bytes.clone() });
        }
        let (before, _) = self.tree.entry(path).map_err(|why| failed(path, &why))?;
        let is_executable = file.mode == FileMode::Executable;
        let mode = match before {
            Some(Thing::File { mode, .. }) if (mode & 0o100 != 0) == is_executable => mode,
            Some(Thing::File { mode, .. }) if is_executable => mode | (mode & 0o444) >> 2,
            Some(Thing::File { mode, .. }) => mode & !EXECUTABLE,
            _ if is_executable => 0o777,
            _ => 0o666,
        };
        Ok(Thing::File { mode, length: file.bytes.len() as u64, digest: [0; 32] })
    }
}

fn failed(path: &Path, why: &io::Error) -> NotPatched {
    NotPatched::Failed(format!("{}: {why}", path.display()))
}

// ---- one patch after the other -------------------------------------------------------------------

/// A folder with what earlier patches have made of it.
struct Overlay<'a> {
    tree: &'a FolderTree,
    result: TreeResult,
}

impl ReadTree for Overlay<'_> {
    fn read(&self, path: &Path) -> Result<Option<TreeFile>, TreePatchError> {
        match self.result.get(path) {
            Some(made) => Ok(made.clone()),
            None => self.tree.read(path),
        }
    }
}

impl Overlay<'_> {
    fn step(&mut self, action: PatchAction, patch: &PatchBytes) -> Result<PatchStep, NotPatched> {
        let row = &patch.row;
        let unusable = |why: String| NotPatched::Unusable(format!("patch {} cannot be used: {why}", row.id));
        let read = |why: TreePatchError| unusable(why.to_string());
        let made = TreePatch::parse(&patch.diff).map_err(read)?;
        let inverse = made.inverse().map_err(read)?;
        for path in made.paths() {
            if base::is_gits(path) || stage::is_stage(path) {
                return Err(unusable(format!(
                    "it changes {}, which is git's own or an apply's",
                    path.display()
                )));
            }
        }
        if let Some(path) = &row.path
            && made.paths() != [&PathBuf::from(path)]
        {
            return Err(unusable(format!("its diff is not one of {path}")));
        }
        let (goes, back) = match action {
            PatchAction::Apply => (made, inverse),
            PatchAction::Reject | PatchAction::Revert => (inverse, made),
        };
        let was = self.revision(row.path.as_deref(), &TreeResult::new())?;
        let result = self.fitting(action, patch, &goes, &back, &was)?;
        let [additions, deletions, hunks] = goes.figures();
        let text = goes.written();
        let summary = diff::Patch { text: Vec::new(), additions, deletions, hunks }.summary();
        let path = row.path.clone().unwrap_or_else(|| {
            goes.paths().first().map(|path| path.display().to_string()).unwrap_or_default()
        });
        self.result.extend(result);
        Ok(PatchStep {
            patch: row.id.clone(),
            path: row.path.clone(),
            adds: row.base_revision.as_deref() == Some(ABSENT),
            diff: text,
            target: Target { path, base_revision: was, additions, deletions, hunks },
            summary,
        })
    }

    /// What the patch makes of the files, if the file is the one that it was made for. Nothing where it was done before
    /// and a crash came before the log heard of it.
    fn fitting(
        &self,
        action: PatchAction,
        patch: &PatchBytes,
        goes: &TreePatch,
        back: &TreePatch,
        was: &str,
    ) -> Result<TreeResult, NotPatched> {
        let row = &patch.row;
        let Some(base) = row.base_revision.as_deref().filter(|_| row.path.is_some()) else {
            return Ok(goes.apply(self)?);
        };
        let path = row.path.as_deref();
        // The content before the patch is known by its digest; what comes out of taking it back must have that.
        let comes_to_base = |diff: &TreePatch| -> Result<Option<TreeResult>, NotPatched> {
            match diff.apply(self) {
                Ok(result) if self.revision(path, &result)? == base => Ok(Some(result)),
                Ok(_) | Err(TreePatchError::Drift(_)) => Ok(None),
                Err(why) => Err(why.into()),
            }
        };
        let is_done = match action {
            PatchAction::Apply if was == base => return Ok(goes.apply(self)?),
            PatchAction::Apply => comes_to_base(back)?.is_some(),
            PatchAction::Reject | PatchAction::Revert => match comes_to_base(goes)? {
                Some(result) => return Ok(result),
                None => was == base && back.apply(self).is_ok(),
            },
        };
        if is_done {
            return Ok(TreeResult::new());
        }
        let (name, is) = (path.unwrap_or_default(), shortened(was));
        let wanted = match action {
            PatchAction::Apply => format!("the patch was made for {}", shortened(base)),
            PatchAction::Reject | PatchAction::Revert => {
                "it is not what the patch made of it, and what came after must be reverted first".to_owned()
            }
        };
        Err(NotPatched::Drift(format!("{name} has changed: it is {is} now; {wanted}")))
    }

    /// The digest of a file after a change that is not part of this yet.
    fn revision(&self, path: Option<&str>, result: &TreeResult) -> Result<String, NotPatched> {
        let Some(path) = path.map(Path::new) else { return Ok(ABSENT.to_owned()) };
        let file = match result.get(path) {
            Some(made) => made.clone(),
            None => self.read(path)?,
        };
        Ok(file.map_or_else(|| ABSENT.to_owned(), |file| revision(&file.bytes)))
    }
}

fn shortened(revision: &str) -> &str {
    revision.get(..19).unwrap_or(revision)
}

// ---- files ---------------------------------------------------------------------------------------

/// What was at a path, and what tells it from a later one.
type SeenEntry = (Option<Thing>, Option<Seen>);

/// An open folder, with what was seen of each entry before it was read.
struct FolderTree {
    folder: Folder,
    seen: RefCell<BTreeMap<PathBuf, SeenEntry>>,
}

impl FolderTree {
    /// What is at a path, as it was when it was first looked at. Files are told by their modes alone.
    fn entry(&self, path: &Path) -> io::Result<SeenEntry> {
        if let Some(known) = self.seen.borrow().get(path) {
            return Ok(known.clone());
        }
        let seen = self.folder.seen(path)?;
        let thing = match self.folder.stat(path)? {
            None => None,
            Some(stat) => Some(match folder::kind(&stat) {
                FileType::Directory => Thing::Folder,
                FileType::RegularFile => Thing::File {
                    mode: base::plain_mode(stat.st_mode),
                    length: stat.st_size.cast_unsigned(),
                    digest: [0; 32],
                },
                FileType::Symlink => self
                    .folder
                    .look(path, None)?
                    .ok_or_else(|| io::Error::other("it has changed meanwhile"))?,
                _ => return Err(io::Error::other("it is neither a file, a folder nor a link")),
            }),
        };
        self.seen.borrow_mut().insert(path.to_owned(), (thing.clone(), seen));
        Ok((thing, seen))
    }

    fn content(&self, path: &Path) -> io::Result<Option<TreeFile>> {
        let mode = match self.entry(path)?.0 {
            None | Some(Thing::Folder) => return Ok(None),
            Some(Thing::Link { target }) => {
                return Ok(Some(TreeFile { mode: FileMode::Link, bytes: target }));
            }
            Some(Thing::File { mode, .. }) => mode,
        };
        let most = limits::PATCHED_FILE_BYTES_MAX;
        let mut bytes = Vec::new();
        self.folder.open_file(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(io::Error::other(format!(
                "it has more than the {most} bytes of a file that is patched"
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
