//! The base of a copy: the state of each entry when it was copied, which later shows the changes on both sides.
//!
//! It must never know runs.
//!
//! Start at [`Base`]. It is stored next to the copy and holds digests, not content.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::workspace::limits;

/// The file with the base, next to the copy.
const NAME: &str = "base";

/// The name of the file while it is written.
const NEW_NAME: &str = "base.new";

/// The file's magic number and version.
const FORMAT: &[u8] = b"recount workspace base 1\n";

/// The state of one entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EntryState {
    Folder,
    File { mode: u32, length: u64, digest: [u8; 32] },
    Link { target: Vec<u8> },
}

/// The base of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Base {
    /// The folder that was copied; `None` for a workspace that started empty.
    pub(crate) source: Option<PathBuf>,
    pub(crate) entries: BTreeMap<PathBuf, EntryState>,
}

/// The stored form: paths need not be UTF-8.
#[derive(Serialize, Deserialize)]
struct StoredBase {
    source: Option<Vec<u8>>,
    entries: Vec<(Vec<u8>, EntryState)>,
}

impl Base {
    pub(crate) fn write(&self, workspace_dir: &Path) -> io::Result<()> {
        let stored = StoredBase {
            source: self.source.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
            entries: self
                .entries
                .iter()
                .map(|(path, state)| (path.as_os_str().as_bytes().to_vec(), state.clone()))
                .collect(),
        };
        let mut bytes = FORMAT.to_vec();
        bytes.extend(postcard::to_stdvec(&stored).map_err(io::Error::other)?);
        let mut file = File::create(workspace_dir.join(NEW_NAME))?;
        file.write_all(&bytes)?;
        // Without this, the name may survive a crash without the bytes.
        file.sync_all()?;
        std::fs::rename(workspace_dir.join(NEW_NAME), workspace_dir.join(NAME))
    }

    /// `None` for copies of earlier releases, which stored no base.
    pub(crate) fn read(workspace_dir: &Path) -> io::Result<Option<Base>> {
        match Base::stored(workspace_dir)? {
            Some(bytes) => Base::parse(&bytes),
            None => Ok(None),
        }
    }

    /// The bytes of the file with the base.
    pub(super) fn stored(workspace_dir: &Path) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(workspace_dir.join(NAME)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// `None`: another format.
    pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<Base>> {
        let Some(bytes) = bytes.strip_prefix(FORMAT) else { return Ok(None) };
        let stored: StoredBase = postcard::from_bytes(bytes).map_err(io::Error::other)?;
        let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
        let entries = stored.entries.into_iter().map(|(name, state)| (path(name), state)).collect();
        Ok(Some(Base { source: stored.source.map(path), entries }))
    }
}

/// Whether a path is in a `.git` folder, at any depth and in any case.
pub(crate) fn is_in_git_folder(path: &Path) -> bool {
    path.components().any(|part| match part {
        Component::Normal(name) => is_git_folder(name),
        _ => false,
    })
}

/// Whether a name is that of git's own folder.
fn is_git_folder(name: &OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(b".git")
}

/// The mode bits that are copied and applied.
pub(crate) fn plain_mode(mode: impl Into<u32>) -> u32 {
    mode.into() & 0o777
}

/// The length of a file and the digest of its content, which does not depend on whether zeros are holes.
pub(crate) fn digest(file: &File) -> io::Result<(u64, [u8; 32])> {
    let length = file.metadata()?.len();
    blocks(file, length, |_, _| Ok(()))
}

/// The same for content in memory.
pub(super) fn digest_bytes(bytes: &[u8]) -> (u64, [u8; 32]) {
    let mut hasher = blake3::Hasher::new();
    for (number, piece) in bytes.chunks(limits::COPY_BLOCK_BYTES).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            hasher.update(&(number as u64).to_le_bytes());
            hasher.update(piece);
        }
    }
    let length = bytes.len() as u64;
    hasher.update(&length.to_le_bytes());
    (length, *hasher.finalize().as_bytes())
}

/// Visits and digests the blocks of a file that are not all zeros. Holes are not read. Returns the visited length and
/// its digest. The length is shorter than requested if the file was truncated meanwhile.
pub(crate) fn blocks(
    file: &File,
    mut length: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<(u64, [u8; 32])> {
    let size = limits::COPY_BLOCK_BYTES as u64;
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0_u8; limits::COPY_BLOCK_BYTES];
    let mut at = 0;
    while at < length {
        at = match next_data(file, at) {
            Some(data) => data / size * size,
            None => break,
        };
        let end = data_end(file, at, length);
        while at < end.min(length) {
            let requested = usize::try_from(size.min(length - at)).unwrap_or(limits::COPY_BLOCK_BYTES);
            let count = fill(file, at, &mut block[..requested])?;
            if count < requested {
                length = at + count as u64;
            }
            let piece = &block[..count];
            if piece.iter().any(|byte| *byte != 0) {
                hasher.update(&(at / size).to_le_bytes());
                hasher.update(piece);
                each(at, piece)?;
            }
            at += size;
        }
    }
    hasher.update(&length.to_le_bytes());
    Ok((length, *hasher.finalize().as_bytes()))
}

/// The offset of the next data that is not a hole. `at`, if the file system does not support this.
fn next_data(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => Some(data.max(at)),
        Err(Errno::NXIO) => None,
        Err(_) => Some(at),
    }
}

/// The offset of the end of that data.
fn data_end(file: &File, at: u64, length: u64) -> u64 {
    // The block may begin in a hole before its data.
    let Some(data) = next_data(file, at) else { return length };
    rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(length)
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &File, mut at: u64, mut room: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while !room.is_empty() {
        match file.read_at(room, at) {
            Ok(0) => break,
            Ok(read) => {
                count += read;
                at += read as u64;
                room = &mut room[read..];
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(count)
}
