//! Blobs as files: `blobs/<first two digits>/<hash>`, each complete or missing.
//!
//! A blob is written to a temporary file, synced, renamed, and the folder is synced. Its name is the
//! hash of its bytes, so a reader can check them. It must not know SQLite.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use recount_log::Fault;
use recount_log::limits::BLOB_BYTES_MAX;
use recount_world::platform::private_file;

use crate::fault::{FaultContext as _, corrupt};
use crate::folder::{blobs_in, create_folder, sync_folder};

/// The name prefix of an incomplete file.
const UNFINISHED: &str = "unfinished-";

/// The folder of blobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    root: PathBuf,
    counter: Arc<AtomicU64>,
}

/// The result of copying blobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlobsCopied {
    pub copied: u64,
    /// Names of blobs whose bytes do not match their name, or cannot be read.
    pub damaged: Vec<String>,
}

impl Blobs {
    /// Uses this folder; does not touch the disk.
    pub(crate) fn at(root: PathBuf) -> Self {
        Blobs { root, counter: Arc::default() }
    }

    /// The blobs of a data folder.
    pub fn of(data_dir: &Path) -> Self {
        Blobs::at(blobs_in(data_dir))
    }

    /// Creates the folder and removes unfinished files of an earlier process.
    pub(crate) fn prepare(&self) -> Result<(), Fault> {
        create_folder(&self.root)?;
        let context = format!("clearing {}", self.root.display());
        for entry in std::fs::read_dir(&self.root).context(&context)? {
            let entry = entry.context(&context)?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                std::fs::remove_file(entry.path()).context(&context)?;
            }
        }
        Ok(())
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> Result<String, Fault> {
        let hash = blake3::hash(bytes).to_hex().to_string();
        let path = self.path(&hash);
        let folder = path.parent().unwrap_or(&self.root);
        // An existing correct blob stays. The folders are synced anyway: the process that wrote it may have died before
        // its sync.
        if !matches!(self.get(&hash), Ok(Some(_))) {
            create_folder(folder)?;
            let written = self.write(bytes, &path);
            written.context(&format!("writing blob {hash} into {}", folder.display()))?;
        }
        sync_folder(folder)?;
        sync_folder(&self.root)?;
        Ok(hash)
    }

    pub(crate) fn get(&self, hash: &str) -> Result<Option<Bytes>, Fault> {
        if !is_hash(hash) {
            return Ok(None);
        }
        let path = self.path(hash);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(&format!("opening blob {}", path.display())),
        };
        let mut bytes = Vec::new();
        let read = file.take(BLOB_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        read.context(&format!("reading blob {}", path.display()))?;
        let found = blake3::hash(&bytes).to_hex();
        if found.as_str() != hash {
            return Err(corrupt(format!(
                "the content of blob {} does not match its name ({} bytes with hash {found}); store it again \
                 or remove the file",
                path.display(),
                bytes.len()
            )));
        }
        Ok(Some(Bytes::from(bytes)))
    }

    /// Whether a file of this name exists, correct or not.
    pub fn exists(&self, hash: &str) -> bool {
        is_hash(hash) && self.path(hash).is_file()
    }

    /// Removes a blob; a missing one counts as removed.
    pub(crate) fn remove(&self, hash: &str) -> Result<(), Fault> {
        if !is_hash(hash) {
            return Ok(());
        }
        let path = self.path(hash);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.context(&format!("removing blob {}", path.display()))?,
        }
        sync_folder(path.parent().unwrap_or(&self.root))
    }

    /// Names of blobs in order, after one.
    pub(crate) fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<String>, Fault> {
        let context = format!("listing {}", self.root.display());
        let names = |path: &Path| -> Result<Vec<String>, Fault> {
            let entries = std::fs::read_dir(path).context(&context)?;
            let name = |entry: io::Result<std::fs::DirEntry>| {
                entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
            };
            let mut names: Vec<String> = entries.map(name).collect::<io::Result<_>>().context(&context)?;
            names.sort_unstable();
            Ok(names)
        };
        let mut found = Vec::new();
        let first = after.and_then(|after| after.get(..2)).unwrap_or_default();
        for folder in names(&self.root)? {
            let path = self.root.join(&folder);
            if folder.as_str() < first || !path.is_dir() {
                continue;
            }
            for name in names(&path)? {
                if found.len() == limit {
                    return Ok(found);
                }
                if is_hash(&name)
                    && name.starts_with(&folder)
                    && after.is_none_or(|after| name.as_str() > after)
                {
                    found.push(name);
                }
            }
        }
        Ok(found)
    }

    /// Reads every blob and reports each damaged one. Stops early when `stop` returns true.
    pub(crate) fn examine(&self, mut report: impl FnMut(String), stop: &dyn Fn() -> bool) {
        let list = |path: &Path| -> io::Result<Vec<PathBuf>> {
            let mut names: Vec<PathBuf> = std::fs::read_dir(path)?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<io::Result<_>>()?;
            names.sort();
            Ok(names)
        };
        if !self.root.exists() {
            return;
        }
        let folders = list(&self.root).unwrap_or_else(|error| {
            report(format!("cannot read the folder {}: {error}", self.root.display()));
            Vec::new()
        });
        for folder in folders.into_iter().filter(|path| path.is_dir()) {
            let files = list(&folder).unwrap_or_else(|error| {
                report(format!("cannot read the folder {}: {error}", folder.display()));
                Vec::new()
            });
            for file in files {
                if stop() {
                    return;
                }
                let name =
                    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if !is_hash(&name) || self.path(&name) != file {
                    report(format!("{} is not a blob; move it to another folder", file.display()));
                } else if let Err(fault) = self.get(&name) {
                    report(fault.message);
                }
            }
        }
    }

    /// Copies every blob to another folder and returns the number. Stops early when `stop` returns true.
    pub(crate) fn copy_to(&self, other: &Blobs, stop: &dyn Fn() -> bool) -> Result<u64, Fault> {
        other.prepare()?;
        let mut copied = 0;
        let context = format!("copying {}", self.root.display());
        for folder in std::fs::read_dir(&self.root).context(&context)? {
            let folder = folder.context(&context)?.path();
            if !folder.is_dir() {
                continue;
            }
            for file in std::fs::read_dir(folder).context(&context)? {
                if stop() {
                    return Ok(copied);
                }
                let name = file.context(&context)?.file_name();
                // Other files are not of this store; a damaged blob is reported, not copied.
                if let Some(bytes) = self.get(&name.to_string_lossy())? {
                    other.put(&bytes)?;
                    copied += 1;
                }
            }
        }
        Ok(copied)
    }

    /// Copies every whole blob to another folder, and returns the names of damaged ones.
    pub fn copy_sound_to(&self, other: &Blobs) -> Result<BlobsCopied, Fault> {
        other.prepare()?;
        let mut result = BlobsCopied::default();
        // A missing or unreadable folder has no blobs to copy; the rows that name blobs show the missing ones.
        let folders = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        for file in folders.flat_map(|folder| std::fs::read_dir(folder.path())).flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            match self.get(&name) {
                Ok(Some(bytes)) => {
                    other.put(&bytes)?;
                    result.copied += 1;
                }
                Ok(None) => {}
                Err(_) => result.damaged.push(name),
            }
        }
        result.damaged.sort();
        Ok(result)
    }

    fn path(&self, hash: &str) -> PathBuf {
        self.root.join(hash.get(..2).unwrap_or(hash)).join(hash)
    }

    fn write(&self, bytes: &[u8], path: &Path) -> io::Result<()> {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.root.join(format!("{UNFINISHED}{count}"));
        let written = private_file(OpenOptions::new().write(true).create(true).truncate(true))
            .open(&unfinished)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| std::fs::rename(&unfinished, path));
        if written.is_err()
            && let Err(error) = std::fs::remove_file(&unfinished)
        {
            tracing::debug!(
                %error,
                file = %unfinished.display(),
                "cannot remove an unfinished blob; it is removed at the next start"
            );
        }
        written
    }
}

/// Whether a name has the form that [`Blobs::put`] returns; any other could name a file elsewhere.
fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
