//! The content of files as they were when the folder was copied, and at checkpoints.
//!
//! It must never know runs.
//!
//! Start at [`BaseContent::read`]. The base holds digests only. The content is kept next to the copy for files that the run
//! changed ([`BaseContent::keep`], [`BaseContent::keep_file`]); the history of a git repository has the committed
//! versions. Every content is compared with its digest.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::base::{self, EntryState};
use super::copy;
use super::folder::Folder;
use crate::git::Repository;
use crate::workspace::limits;

/// The folder with kept files, next to the copy. Each is named by its digest.
const NAME: &str = "content";

/// The name of a file while it is written.
const NEW_NAME: &str = "new";

/// Where the content of a copy's base may be found.
pub(super) struct BaseContent<'a> {
    pub(super) workspace_dir: &'a Path,
    /// The folder that was copied.
    pub(super) source: &'a Path,
}

impl BaseContent<'_> {
    /// The content that a file had when it was copied; `None` if it is no longer known.
    pub(super) fn read(&self, path: &Path, state: &EntryState) -> Option<Vec<u8>> {
        let EntryState::File { length, digest, .. } = state else { return None };
        if *length > limits::CHANGES_FILE_BYTES_MAX {
            return None;
        }
        let is_it = |bytes: &Vec<u8>| base::digest_bytes(bytes) == (*length, *digest);
        let kept = fs::read(self.kept_path(digest)).ok().filter(is_it);
        kept.or_else(|| self.committed(path).find(is_it))
    }

    /// The newest committed versions of a file, newest first.
    fn committed(&self, path: &Path) -> impl Iterator<Item = Vec<u8>> {
        let repository = Repository::open(self.source).ok();
        let name = path.to_str().map(|path| format!("./{path}"));
        let (repository, name) = repository.zip(name).unzip();
        let most = format!("--max-count={}", limits::BASE_COMMITS_MAX);
        let commits = repository.as_ref().zip(name.as_ref()).and_then(|(repository, name)| {
            let args = ["--literal-pathspecs", "log", &most, "--format=%H", "HEAD", "--", name];
            let listed = repository.call(&args, None).ok()?;
            Some(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect::<Vec<_>>())
        });
        commits.unwrap_or_default().into_iter().filter_map(move |commit| {
            let (repository, name) = (repository.as_ref()?, name.as_ref()?);
            let found = repository.call(&["cat-file", "blob", &format!("{commit}:{name}")], None).ok()?;
            found.ok.then_some(found.stdout)
        })
    }

    /// Keeps the content of files that the run changed, as long as the folder still has it: the folder may change before
    /// the changes are applied. Files beyond a limit are not kept.
    pub(super) fn keep<'c>(
        &self,
        original: &Folder,
        replaced: impl Iterator<Item = (&'c Path, &'c EntryState)>,
    ) -> io::Result<()> {
        let folder = self.workspace_dir.join(NAME);
        let mut total = 0;
        for (path, state) in replaced {
            let EntryState::File { length, digest, .. } = state else { continue };
            total += length;
            if *length > limits::CHANGES_FILE_BYTES_MAX || total > limits::BASE_CONTENT_BYTES_MAX {
                continue;
            }
            let to = self.kept_path(digest);
            // A torn file of a crash is written again.
            if self.has(state) {
                continue;
            }
            let mut bytes = Vec::new();
            let Ok(file) = original.open_file(path) else { continue };
            file.take(limits::CHANGES_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
            if base::digest_bytes(&bytes) != (*length, *digest) {
                continue;
            }
            fs::create_dir_all(&folder)?;
            // Complete or absent; a torn one would not match its digest.
            fs::write(&to, &bytes)?;
        }
        Ok(())
    }

    /// Keeps one file if it still has the expected content. Returns how many bytes that took; `None`: it is not kept.
    /// `most` limits its length.
    pub(super) fn keep_file(
        &self,
        from: &Folder,
        path: &Path,
        state: &EntryState,
        most: u64,
    ) -> io::Result<Option<u64>> {
        let EntryState::File { length, digest, .. } = state else { return Ok(None) };
        if self.has(state) {
            return Ok(Some(0));
        }
        if *length > most {
            return Ok(None);
        }
        let Ok(file) = from.open_file(path) else { return Ok(None) };
        let folder = self.workspace_dir.join(NAME);
        fs::create_dir_all(&folder)?;
        let new = folder.join(NEW_NAME);
        let to = File::options().read(true).write(true).create(true).truncate(true).open(&new)?;
        let shares = copy::shares_blocks(&file, &to);
        let filled = copy::fill(&file, &to, shares, most)?;
        let is_expected = filled.is_some_and(|(now, found, _)| (now, found) == (*length, *digest));
        if is_expected {
            fs::rename(&new, self.kept_path(digest))?;
        } else {
            fs::remove_file(&new)?;
        }
        Ok(filled.filter(|_| is_expected).map(|(.., bytes)| bytes))
    }

    /// Whether the content of a file is kept.
    pub(super) fn has(&self, state: &EntryState) -> bool {
        let EntryState::File { length, digest, .. } = state else { return true };
        self.kept_path(digest).metadata().is_ok_and(|about| about.len() == *length)
    }

    /// The kept content of a file, which the caller compares with its digest.
    pub(super) fn open_kept(&self, state: &EntryState) -> Option<File> {
        let EntryState::File { digest, .. } = state else { return None };
        File::open(self.kept_path(digest)).ok()
    }

    /// Bytes of all kept files.
    pub(super) fn kept_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for file in self.kept_files()? {
            bytes += file.metadata()?.blocks() * 512;
        }
        Ok(bytes)
    }

    /// Shares all kept files with another copy.
    pub(super) fn share(&self, workspace_dir: &Path) -> io::Result<()> {
        let to = workspace_dir.join(NAME);
        fs::create_dir_all(&to)?;
        for file in self.kept_files()? {
            let to = to.join(file.file_name());
            if fs::hard_link(file.path(), &to).is_err() {
                fs::copy(file.path(), &to)?;
            }
        }
        Ok(())
    }

    /// Deletes kept files that are not needed. `needed` has digests.
    pub(super) fn retain(&self, needed: &BTreeSet<[u8; 32]>) -> io::Result<()> {
        for file in self.kept_files()? {
            let name = file.file_name();
            let digest = name.to_str().and_then(|name| blake3::Hash::from_hex(name).ok());
            if digest.is_none_or(|digest| !needed.contains(digest.as_bytes())) {
                fs::remove_file(file.path())?;
            }
        }
        Ok(())
    }

    fn kept_files(&self) -> io::Result<Vec<fs::DirEntry>> {
        match fs::read_dir(self.workspace_dir.join(NAME)) {
            Ok(files) => files.collect(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(why) => Err(why),
        }
    }

    fn kept_path(&self, digest: &[u8; 32]) -> PathBuf {
        let name = blake3::Hash::from_bytes(*digest).to_hex();
        self.workspace_dir.join(NAME).join(name.as_str())
    }
}
