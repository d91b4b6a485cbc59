//! The changes of a run's copy, compared with its base and with the current original.
//!
//! It writes nothing and must never know runs.
//!
//! Start at [`Comparison::of`]. Git's own folders are excluded, and so are ignored files that were not copied.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use recount_engine::{ChangeKind, ChangeState, WorkspaceChange};
use rustix::fs::FileType;

use super::base::{Base, EntryState};
use super::base_content::BaseContent;
use super::executed::executed_by;
use super::folder::{self, Fingerprint, Folder};
use super::git_folders;
use super::merge::Merge;
use super::scan::{Scan, Scanned};
use super::stage;
use crate::tools::diff;
use crate::workspace::limits;

/// One path that differs between the copy and its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    /// `None`: the run added it.
    pub(super) before: Option<EntryState>,
    /// `None`: the run deleted it.
    pub(super) after: Option<EntryState>,
    pub(super) state: ChangeState,
    /// Identifies the file in the original that was compared.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Both changes in one file, if the original has changed too.
    pub(super) merge: Option<Merge>,
}

impl Change {
    /// The change that writes the merged file.
    pub(super) fn merged(&self) -> Option<Change> {
        let merge = self.merge.as_ref()?;
        Some(Change { before: Some(merge.before.clone()), after: Some(merge.after()), ..self.clone() })
    }
}

/// The result of a comparison.
#[derive(Debug)]
pub(super) struct Comparison {
    /// In the order of their paths.
    pub(super) changes: Vec<Change>,
    /// Ignored files and folders of the copy.
    pub(super) ignored: u64,
}

impl Comparison {
    pub(super) fn of(
        copy: &Path,
        base: &Base,
        original: &Path,
        content: &BaseContent<'_>,
    ) -> io::Result<Comparison> {
        let (original, real) = (&Folder::open_real(original)?, original);
        let (Scanned { found, ignored, .. }, copy) = Scan::new(copy, base)?.files()?;
        let git_folders = git_folders::linked_git_folders(real, base)?;
        // Entries by which the run may have turned a folder into a git folder.
        let added_names: BTreeSet<PathBuf> = found
            .keys()
            .filter(|path| !base.entries.contains_key(*path) && git_folders::is_sign(path))
            .cloned()
            .collect();
        let mut changes = Vec::new();
        for (path, before) in &base.entries {
            match found.get(path) {
                Some(after) if after == before => {}
                after => changes.push((path.clone(), Some(before.clone()), after.cloned())),
            }
        }
        let added = found.into_iter().filter(|(path, _)| !base.entries.contains_key(path));
        changes.extend(added.map(|(path, after)| (path, None, Some(after))));
        let mut git_folder_check = git_folders::GitFolderCheck::new(original, added_names);
        let mut kept = Vec::with_capacity(changes.len());
        for change in changes {
            let path = &change.0;
            // An earlier release may have copied the stage of an apply.
            let is_kept =
                !stage::is_stage(path) && !git_folders.iter().any(|folder| path.starts_with(folder));
            if is_kept && !git_folder_check.is_within(path)? {
                kept.push(change);
            }
        }
        let mut changes = kept;
        changes.sort_by(|change_diff, other| change_diff.0.cmp(&other.0));
        let mut changes: Vec<Change> = changes
            .into_iter()
            .map(|(path, before, after)| Change {
                path,
                before,
                after,
                state: ChangeState::Open,
                fingerprint: None,
                merge: None,
            })
            .collect();
        let paths: BTreeSet<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
        for change in &mut changes {
            change.fingerprint = original.fingerprint(&change.path)?;
            change.state = judge(change, original, &paths)?;
        }
        let conflicts = changes.iter_mut().filter(|change| change.state == ChangeState::Conflict);
        for change in conflicts.take(limits::MERGES_MAX) {
            let sides = [change.before.as_ref(), change.after.as_ref()];
            change.merge = Merge::of(&change.path, sides, [&copy, original], content)?;
            if change.merge.as_ref().is_some_and(|merge| !merge.has_conflicts) {
                change.state = ChangeState::Mergeable;
            }
        }
        Ok(Comparison { changes, ignored })
    }

    /// Identifies the changes: both sides of each, its state, and the merged content.
    pub(super) fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for change in &self.changes {
            let sides = (change.path.as_os_str().as_bytes(), &change.before, &change.after);
            // These types are always serialised.
            hasher.update(&postcard::to_stdvec(&sides).unwrap_or_default());
            hasher.update(format!("{:?}", change.state).as_bytes());
            if let Some(merge) = &change.merge {
                hasher.update(&merge.bytes);
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Whether a change can be applied to the original.
fn judge(change: &Change, original: &Folder, paths: &BTreeSet<PathBuf>) -> io::Result<ChangeState> {
    // The parents must be folders, or be changed too.
    for parent in change.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()) {
        if paths.contains(parent) {
            continue;
        }
        match original.stat(parent)? {
            Some(stat) if folder::kind(&stat) == FileType::Directory => {}
            Some(_) => return Ok(ChangeState::Conflict),
            None if change.after.is_none() => return Ok(ChangeState::Applied),
            None => return Ok(ChangeState::Conflict),
        }
    }
    let now = original.entry_state(&change.path, change.after.as_ref())?;
    let is_odd = now.is_none() && original.stat(&change.path)?.is_some();
    if now == change.after && !is_odd {
        return Ok(ChangeState::Applied);
    }
    let now = original.entry_state(&change.path, change.before.as_ref())?;
    if now != change.before || is_odd {
        return Ok(ChangeState::Conflict);
    }
    // A folder that is replaced by a file must contain nothing that stays.
    if change.before == Some(EntryState::Folder) && change.after.is_some() {
        for name in original.names(&change.path)? {
            if !paths.contains(&change.path.join(name)) {
                return Ok(ChangeState::Conflict);
            }
        }
    }
    Ok(ChangeState::Open)
}

/// The public form of a change.
pub(super) fn describe(change: &Change) -> WorkspaceChange {
    let kind = match (&change.before, &change.after) {
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Changed,
    };
    let thing = match change.after.as_ref().or(change.before.as_ref()) {
        Some(EntryState::Folder) => "folder",
        Some(EntryState::Link { .. }) => "link",
        _ => "file",
    };
    let conflict = change.merge.as_ref().filter(|_| change.state == ChangeState::Conflict);
    WorkspaceChange {
        path: change.path.to_string_lossy().into_owned(),
        kind,
        thing,
        state: change.state,
        conflict: conflict.map(Merge::conflicting_parts),
        executed_by: executed_by(&change.path).filter(|_| thing != "folder" && change.after.is_some()),
    }
}

/// All changes as one diff, up to a limit. `true`: it was truncated.
pub(super) fn full_diff(copy: &Path, original: &Path, changes: &[Change]) -> (Vec<u8>, bool) {
    let mut text = Vec::new();
    // A folder that cannot be opened is shown like unreadable files.
    let (copy, original) = (Folder::open(copy).ok(), Folder::open_real(original).ok());
    for change in changes.iter().filter(|change| change.state != ChangeState::Applied) {
        let piece = change_diff(copy.as_ref(), original.as_ref(), change);
        if text.len() + piece.len() > limits::CHANGES_DIFF_BYTES_MAX {
            return (text, true);
        }
        text.extend(piece);
    }
    (text, false)
}

fn change_diff(copy: Option<&Folder>, original: Option<&Folder>, change: &Change) -> Vec<u8> {
    let name = change.path.to_string_lossy();
    let (a, b) = (diff::named("a/", &name), diff::named("b/", &name));
    let mut text = format!("diff --git {a} {b}\n").into_bytes();
    let mode = |entry: &EntryState| match entry {
        EntryState::Folder => "040000".to_owned(),
        EntryState::File { mode, .. } => format!("100{mode:03o}"),
        EntryState::Link { .. } => "120000".to_owned(),
    };
    match (&change.before, &change.after) {
        (None, Some(after)) => text.extend(format!("new file mode {}\n", mode(after)).bytes()),
        (Some(before), None) => text.extend(format!("deleted file mode {}\n", mode(before)).bytes()),
        (Some(before), Some(after)) if mode(before) != mode(after) => {
            text.extend(format!("old mode {}\nnew mode {}\n", mode(before), mode(after)).bytes());
        }
        _ => {}
    }
    let content = |folder: Option<&Folder>, entry: Option<&EntryState>| -> Result<Option<Vec<u8>>, u64> {
        match entry {
            None | Some(EntryState::Folder) => Ok(None),
            Some(EntryState::Link { target }) => Ok(Some(target.clone())),
            Some(EntryState::File { length, .. }) if *length > limits::CHANGES_FILE_BYTES_MAX => Err(*length),
            Some(EntryState::File { length, .. }) => {
                let folder = folder.ok_or(*length)?;
                let file = folder.open_file(&change.path).map_err(|_| *length)?;
                let mut bytes = Vec::new();
                let most = limits::CHANGES_FILE_BYTES_MAX;
                io::Read::read_to_end(&mut io::Read::take(file, most), &mut bytes).map_err(|_| *length)?;
                if bytes.contains(&0) { Err(*length) } else { Ok(Some(bytes)) }
            }
        }
    };
    let merged = change.merge.as_ref().filter(|_| change.state == ChangeState::Mergeable);
    let before = content(original, merged.map(|merge| &merge.before).or(change.before.as_ref()));
    let after = match merged {
        Some(merge) => Ok(Some(merge.bytes.clone())),
        None => content(copy, change.after.as_ref()),
    };
    match (before, after) {
        (Ok(None), Ok(None)) => {}
        (Ok(before), Ok(after)) if before == after => {}
        (Ok(before), Ok(after)) => {
            let patch = diff::unified(&name, before.as_deref(), after.as_deref().unwrap_or_default());
            text.extend(if after.is_some() { patch.text } else { as_deletion(&patch.text) });
        }
        _ => text.extend(format!("Binary files {a} and {b} differ\n").bytes()),
    }
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text
}

/// The same diff as a deletion.
fn as_deletion(patch: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = patch.split_inclusive(|byte| *byte == b'\n').collect();
    if let Some(line) = lines.get_mut(1) {
        *line = b"+++ /dev/null\n";
    }
    lines.concat()
}

/// The names of some changes, for a message.
pub(super) fn list_names<'a>(changes: impl Iterator<Item = &'a Change>) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut more = 0;
    for change in changes {
        if names.len() < limits::CHANGES_NAMED_MAX {
            names.push(String::from_utf8_lossy(change.path.as_os_str().as_bytes()).into_owned());
        } else {
            more += 1;
        }
    }
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}
