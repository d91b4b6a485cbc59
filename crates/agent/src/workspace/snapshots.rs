//! The files of a copy at the checkpoints of its runs, from which a new copy can start.
//!
//! It must never know runs.
//!
//! Start at [`record`], [`check`] and [`restore`]. A snapshot lists the entries that differ from the base. The content of
//! changed files is kept next to the copy, once for each digest. Ignored files that were not copied are not part of it,
//! and neither are the objects of git, which only grow.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use recount_engine::FilesCheck;
use rustix::fs::{FileType, Mode, OFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::base::{self, Base, EntryState};
use super::base_content::BaseContent;
use super::copy::{self, CopyCounts};
use super::folder::{self, Folder};
use super::scan::{FileVersion, Index, KnownFiles, Scan, Scanned};
use super::{TREE, WorkspaceError};
use crate::workspace::limits;

/// The folders with snapshots and with their bases, next to the copy.
const SNAPSHOTS: &str = "snapshots";
const BASES: &str = "bases";

/// The index of the last scan, the time of the file system, and the name of a file while it is written. None is the name
/// of a snapshot.
const INDEX: &str = "index.files";
const CLOCK: &str = "clock.now";
const NEW: &str = "file.new";

const FORMAT: &[u8] = b"recount workspace snapshot 1\n";
const INDEX_FORMAT: &[u8] = b"recount workspace index 1\n";

/// The code of a workspace whose files cannot be restored.
pub(super) const NOT_RESTORABLE: &str = "files_not_restorable";

/// The entries of a copy at one time.
struct Snapshot {
    base: Base,
    base_digest: [u8; 32],
    entries: BTreeMap<PathBuf, EntryState>,
}

/// The stored form: paths need not be UTF-8.
#[derive(Serialize, Deserialize)]
struct StoredSnapshot {
    /// The base that the changes refer to, by the digest of its file.
    base: [u8; 32],
    changes: Vec<(Vec<u8>, Option<EntryState>)>,
}

type StoredIndex = Vec<(Vec<u8>, FileVersion, EntryState)>;

/// Records the files of a copy. Blocks.
pub(super) fn record(workspace_dir: &Path, name: &str) -> io::Result<()> {
    check_name(name)?;
    let (tree, folder) = (workspace_dir.join(TREE), workspace_dir.join(SNAPSHOTS));
    fs::create_dir_all(&folder)?;
    let (base, digest) = keep_base(workspace_dir)?;
    let known = read_index(&folder);
    let now = file_system_time(&folder)?;
    let scanned = Scan::new(&tree, &base)?.indexed(KnownFiles::Index(&known), now).files_and_git()?;
    let mut changes: Vec<(&PathBuf, Option<&EntryState>)> = base
        .entries
        .iter()
        .filter(|(path, state)| scanned.found.get(*path) != Some(*state))
        .map(|(path, _)| (path, scanned.found.get(path)))
        .collect();
    let added = scanned.found.iter().filter(|(path, _)| !base.entries.contains_key(*path));
    changes.extend(added.map(|(path, state)| (path, Some(state))));
    keep_content(workspace_dir, &tree, &base, &changes)?;
    let changes = changes
        .into_iter()
        .map(|(path, state)| (path.as_os_str().as_bytes().to_vec(), state.cloned()))
        .collect();
    write(&folder, name, FORMAT, &StoredSnapshot { base: digest, changes })?;
    if scanned.has_read || scanned.index != known {
        write_index(&folder, &scanned.index)?;
    }
    prune(workspace_dir, &folder)
}

/// Indexes a copy that was written just now, so that the first snapshot need not read it. Blocks.
pub(super) fn start_index(
    workspace_dir: &Path,
    base: &Base,
    written: &BTreeMap<PathBuf, EntryState>,
) -> io::Result<Scanned> {
    let folder = workspace_dir.join(SNAPSHOTS);
    fs::create_dir_all(&folder)?;
    let now = file_system_time(&folder)?;
    let tree = workspace_dir.join(TREE);
    let scanned = Scan::new(&tree, base)?.indexed(KnownFiles::Written(written), now).files_and_git()?;
    write_index(&folder, &scanned.index)?;
    Ok(scanned)
}

/// Whether the files of a snapshot can be restored. Writes nothing. Blocks.
pub(super) fn check(workspace_dir: &Path, name: &str) -> io::Result<FilesCheck> {
    let Some(snapshot) = Snapshot::read(workspace_dir, name)? else {
        return Ok(FilesCheck::NotRecorded(
            "they were not recorded: an earlier release made the checkpoint, or it is one of the oldest of \
             very many"
                .to_owned(),
        ));
    };
    let tree = workspace_dir.join(TREE);
    let known = read_index(&workspace_dir.join(SNAPSHOTS));
    let scan = Scan::new(&tree, &snapshot.base)?.indexed(KnownFiles::Index(&known), (0, 0));
    let now = scan.files_and_git()?.found;
    let sources = snapshot.sources(workspace_dir, &tree)?;
    let missing: Vec<(&PathBuf, &EntryState)> = snapshot
        .entries
        .iter()
        .filter(|(path, state)| now.get(*path) != Some(*state) && !sources.have(path, state))
        .collect();
    if !missing.is_empty() {
        return Ok(FilesCheck::NotRestorable(describe_missing(&missing)));
    }
    // What git writes by itself changes no file of the run.
    let files = |entries: &BTreeMap<PathBuf, EntryState>| {
        let files = entries.iter().filter(|(path, _)| !base::is_in_git_folder(path));
        files.map(|(path, state)| (path.clone(), state.clone())).collect::<Vec<_>>()
    };
    let is_current = files(&now) == files(&snapshot.entries);
    Ok(if is_current { FilesCheck::Current } else { FilesCheck::Restorable })
}

/// Creates the tree of a new copy with the files of a snapshot of another one. Returns its size and its base. Ignored
/// files are copied as they are. Blocks.
pub(super) fn restore(
    from: &Path,
    name: &str,
    workspace_dir: &Path,
) -> Result<(CopyCounts, Base), WorkspaceError> {
    let failed = |why: io::Error| {
        let code =
            if why.kind() == io::ErrorKind::StorageFull { "workspace_full" } else { "workspace_failed" };
        WorkspaceError::new(code, format!("{}: {why}", workspace_dir.display()))
    };
    let missing = |why: String| WorkspaceError::new(NOT_RESTORABLE, why);
    let Some(snapshot) = Snapshot::read(from, name).map_err(failed)? else {
        return Err(missing(format!("the files of {name} in {} are no longer recorded", from.display())));
    };
    let (old, new) = (from.join(TREE), workspace_dir.join(TREE));
    let (_, copied) = copy::tree(&old, &new, true)?;
    let sources = snapshot.sources(from, &old).map_err(failed)?;
    let folder = Folder::open(&new).map_err(failed)?;
    let mut not_restored = Vec::new();
    for (path, state) in &snapshot.entries {
        let now = match copied.entries.get(path) {
            Some(now) if !base::is_in_git_folder(path) => Some(now.clone()),
            _ => folder.entry_state(path, Some(state)).map_err(failed)?,
        };
        if now.as_ref() != Some(state) && !sources.place(&folder, &new, path, state).map_err(failed)? {
            not_restored.push((path, state));
        }
    }
    if !not_restored.is_empty() {
        return Err(missing(describe_missing(&not_restored)));
    }
    // The ignore rules are those of the snapshot by now.
    let scanned = start_index(workspace_dir, &snapshot.base, &snapshot.entries).map_err(failed)?;
    for (path, state) in scanned.found.iter().rev() {
        if snapshot.entries.contains_key(path) {
            continue;
        }
        let at = new.join(path);
        match state {
            // It may contain ignored files.
            EntryState::Folder => drop(fs::remove_dir(&at)),
            EntryState::File { .. } | EntryState::Link { .. } => fs::remove_file(&at).map_err(failed)?,
        }
    }
    sources.content.share(workspace_dir).map_err(failed)?;
    Ok((copy::measure(&new)?, snapshot.base))
}

impl Snapshot {
    /// `None`: it does not exist, or it is damaged.
    fn read(workspace_dir: &Path, name: &str) -> io::Result<Option<Snapshot>> {
        check_name(name)?;
        let stored = read::<StoredSnapshot>(&workspace_dir.join(SNAPSHOTS), name, FORMAT);
        let Some(StoredSnapshot { base: base_digest, changes }) = stored else { return Ok(None) };
        let Ok(bytes) = fs::read(base_path(workspace_dir, &base_digest)) else { return Ok(None) };
        if *blake3::hash(&bytes).as_bytes() != base_digest {
            return Ok(None);
        }
        let Some(base) = Base::parse(&bytes)? else { return Ok(None) };
        let mut entries = base.entries.clone();
        for (path, state) in changes {
            let path = PathBuf::from(OsString::from_vec(path));
            match state {
                Some(state) => entries.insert(path, state),
                None => entries.remove(&path),
            };
        }
        Ok(Some(Snapshot { base, base_digest, entries }))
    }

    fn sources<'a>(&'a self, workspace_dir: &'a Path, tree: &'a Path) -> io::Result<Sources<'a>> {
        let source = self.base.source.as_deref();
        let original = source.and_then(|source| Folder::open_real(source).ok());
        let content = BaseContent { workspace_dir, source: source.unwrap_or(tree) };
        Ok(Sources { content, original, base: &self.base, copy: Folder::open(tree)? })
    }
}

/// Where the content of a file may be found.
struct Sources<'a> {
    content: BaseContent<'a>,
    /// The folder that was copied, if it still exists.
    original: Option<Folder>,
    base: &'a Base,
    copy: Folder,
}

impl Sources<'_> {
    /// Whether some source has the content.
    fn have(&self, path: &Path, state: &EntryState) -> bool {
        if self.content.has(state) {
            return true;
        }
        let is_same = |folder: &Folder| {
            let now = folder.entry_state(path, Some(state)).ok().flatten();
            now.is_some_and(|now| is_same_content(&now, state))
        };
        is_same(&self.copy)
            || self.is_of_base(path, state) && self.original.as_ref().is_some_and(is_same)
            || self.committed(path, state).is_some()
    }

    /// Writes an entry into a new tree. `false`: no source has its content.
    fn place(&self, to: &Folder, tree: &Path, path: &Path, state: &EntryState) -> io::Result<bool> {
        if let Some(stat) = to.stat(path)? {
            match folder::kind(&stat) {
                FileType::Directory if *state == EntryState::Folder => return Ok(true),
                FileType::Directory => fs::remove_dir_all(tree.join(path))?,
                _ => fs::remove_file(tree.join(path))?,
            }
        }
        let entry = to.entry(path)?;
        match state {
            EntryState::Folder => {
                rustix::fs::mkdirat(&entry.parent, entry.name, Mode::from_raw_mode(0o777))?;
            }
            EntryState::Link { target } => {
                rustix::fs::symlinkat(OsStr::from_bytes(target), &entry.parent, entry.name)?;
            }
            EntryState::File { mode, .. } => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&entry.parent, entry.name, flags, Mode::RUSR | Mode::WUSR)?;
                let mut file = File::from(file);
                if !self.fill(&mut file, path, state)? {
                    return Ok(false);
                }
                file.set_permissions(fs::Permissions::from_mode(*mode))?;
            }
        }
        Ok(true)
    }

    /// Writes the content of a file from the first source that has it.
    fn fill(&self, to: &mut File, path: &Path, state: &EntryState) -> io::Result<bool> {
        let EntryState::File { length, digest, .. } = state else { return Ok(false) };
        let original = self.original.as_ref().filter(|_| self.is_of_base(path, state));
        let files = [
            self.content.open_kept(state),
            self.copy.open_file(path).ok(),
            original.and_then(|original| original.open_file(path).ok()),
        ];
        for from in files.into_iter().flatten() {
            if from.metadata()?.len() != *length {
                continue;
            }
            to.set_len(0)?;
            let shares = copy::shares_blocks(&from, to);
            let filled = copy::fill(&from, to, shares, limits::WORKSPACE_BYTES_MAX)?;
            if filled.is_some_and(|(now, found, _)| (now, found) == (*length, *digest)) {
                return Ok(true);
            }
        }
        let Some(bytes) = self.committed(path, state) else { return Ok(false) };
        to.set_len(0)?;
        io::Seek::rewind(to)?;
        to.write_all(&bytes)?;
        Ok(true)
    }

    fn committed(&self, path: &Path, state: &EntryState) -> Option<Vec<u8>> {
        if self.is_of_base(path, state) { self.content.read(path, state) } else { None }
    }

    fn is_of_base(&self, path: &Path, state: &EntryState) -> bool {
        self.base.entries.get(path).is_some_and(|then| is_same_content(then, state))
    }
}

fn is_same_content(one: &EntryState, other: &EntryState) -> bool {
    match (one, other) {
        (EntryState::File { length, digest, .. }, EntryState::File { length: other, digest: found, .. }) => {
            (length, digest) == (other, found)
        }
        _ => one == other,
    }
}

/// Names files whose content is missing, with the reason.
fn describe_missing(missing: &[(&PathBuf, &EntryState)]) -> String {
    let named: Vec<String> = missing
        .iter()
        .take(limits::CHANGES_NAMED_MAX)
        .map(|(path, state)| {
            let most = limits::SNAPSHOT_FILE_BYTES_MAX;
            match state {
                EntryState::File { length, .. } if *length > most => {
                    format!("{} ({length} bytes; up to {most} are kept)", path.display())
                }
                _ => path.display().to_string(),
            }
        })
        .collect();
    let more = missing.len().saturating_sub(named.len());
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("the content was not kept of {}{rest}", named.join(", "))
}

/// Keeps the content of changed files, and what they replaced, within the limits. An apply replaces the latter in the
/// folder.
pub(super) fn keep_content(
    workspace_dir: &Path,
    tree: &Path,
    base: &Base,
    changes: &[(&PathBuf, Option<&EntryState>)],
) -> io::Result<()> {
    let source = base.source.as_deref();
    let content = BaseContent { workspace_dir, source: source.unwrap_or(tree) };
    let original = source.and_then(|source| Folder::open_real(source).ok());
    let copy = Folder::open(tree)?;
    let needed = changes.iter().flat_map(|(path, after)| {
        let before = base.entries.get(*path).zip(original.as_ref()).map(|(state, from)| (from, *path, state));
        before.into_iter().chain(after.map(|state| (&copy, *path, state)))
    });
    let needed: Vec<_> = needed.filter(|(.., state)| !content.has(state)).collect();
    if needed.is_empty() {
        return Ok(());
    }
    let mut bytes = content.kept_bytes()?;
    for (from, path, state) in needed {
        let space = limits::SNAPSHOT_CONTENT_BYTES_MAX.saturating_sub(bytes);
        let EntryState::File { length, .. } = state else { continue };
        let most = limits::SNAPSHOT_FILE_BYTES_MAX.min(space);
        if *length > most || copy::check_free_space(&workspace_dir.join(TREE), *length).is_err() {
            continue;
        }
        bytes += content.keep_file(from, path, state, most)?.unwrap_or(0);
    }
    Ok(())
}

/// Keeps the base as it is now, because it changes when changes are applied.
fn keep_base(workspace_dir: &Path) -> io::Result<(Base, [u8; 32])> {
    let missing = || io::Error::other("the copy has no base, because an earlier release created it");
    let bytes = Base::stored(workspace_dir)?.ok_or_else(missing)?;
    let base = Base::parse(&bytes)?.ok_or_else(missing)?;
    let digest = *blake3::hash(&bytes).as_bytes();
    let to = base_path(workspace_dir, &digest);
    if !to.exists() {
        let folder = workspace_dir.join(BASES);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(NEW), &bytes)?;
        fs::rename(folder.join(NEW), to)?;
    }
    Ok((base, digest))
}

fn base_path(workspace_dir: &Path, digest: &[u8; 32]) -> PathBuf {
    workspace_dir.join(BASES).join(blake3::Hash::from_bytes(*digest).to_hex().as_str())
}

/// Deletes the oldest snapshots if there are too many, and what only they needed.
fn prune(workspace_dir: &Path, folder: &Path) -> io::Result<()> {
    let mut snapshots = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().filter(|name| check_name(name).is_ok()) {
            snapshots.push((entry.metadata()?.modified()?, name.to_owned()));
        }
    }
    if snapshots.len() <= limits::SNAPSHOTS_MAX {
        return Ok(());
    }
    snapshots.sort();
    let kept = snapshots.split_off(snapshots.len() - limits::SNAPSHOTS_MAX / 4 * 3);
    let mut needed = BTreeSet::new();
    let mut bases = BTreeSet::new();
    for (_, name) in &kept {
        let Some(snapshot) = Snapshot::read(workspace_dir, name)? else { continue };
        bases.insert(base_path(workspace_dir, &snapshot.base_digest));
        let states = snapshot.base.entries.values().chain(snapshot.entries.values());
        needed.extend(states.filter_map(|state| match state {
            EntryState::File { digest, .. } => Some(*digest),
            EntryState::Folder | EntryState::Link { .. } => None,
        }));
    }
    for (_, name) in snapshots {
        fs::remove_file(folder.join(name))?;
    }
    for entry in fs::read_dir(workspace_dir.join(BASES))? {
        let path = entry?.path();
        if !bases.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    BaseContent { workspace_dir, source: workspace_dir }.retain(&needed)
}

/// The names of snapshots are ids of the server.
fn check_name(name: &str) -> io::Result<()> {
    let is_id = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() || !name.chars().all(is_id) {
        return Err(io::Error::other(format!("{name:?} cannot name a snapshot")));
    }
    Ok(())
}

/// The time that the file system gives to changes now.
fn file_system_time(folder: &Path) -> io::Result<(i64, i64)> {
    let at = folder.join(CLOCK);
    fs::write(&at, b"now")?;
    let about = fs::metadata(&at)?;
    Ok((about.ctime(), about.ctime_nsec()))
}

fn read_index(folder: &Path) -> Index {
    let stored = read::<StoredIndex>(folder, INDEX, INDEX_FORMAT).unwrap_or_default();
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    Index { files: stored.into_iter().map(|(name, then, state)| (path(name), (then, state))).collect() }
}

fn write_index(folder: &Path, index: &Index) -> io::Result<()> {
    let files = index.files.iter();
    let stored: StoredIndex = files
        .map(|(path, (then, state))| (path.as_os_str().as_bytes().to_vec(), *then, state.clone()))
        .collect();
    write(folder, INDEX, INDEX_FORMAT, &stored)
}

/// Writes a file: format, digest, content. It is complete or absent; a torn one does not match its digest.
fn write(folder: &Path, name: &str, format: &[u8], content: &impl Serialize) -> io::Result<()> {
    let content = postcard::to_stdvec(content).map_err(io::Error::other)?;
    let bytes = [format, blake3::hash(&content).as_bytes(), &content].concat();
    fs::write(folder.join(NEW), bytes)?;
    fs::rename(folder.join(NEW), folder.join(name))
}

/// `None`: the file is missing or damaged.
fn read<T: DeserializeOwned>(folder: &Path, name: &str, format: &[u8]) -> Option<T> {
    let bytes = fs::read(folder.join(name)).ok()?;
    let (digest, content) = bytes.strip_prefix(format)?.split_first_chunk::<32>()?;
    if blake3::hash(content).as_bytes() != digest {
        return None;
    }
    postcard::from_bytes(content).ok()
}
