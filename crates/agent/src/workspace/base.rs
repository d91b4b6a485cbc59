//! What a copy was made of: each entry as it was when it was copied, so that changes on both sides can be found later.
//!
//! Look at [`Base`]. It is kept next to the copy and holds digests, not content. It must never know runs.

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

/// The file that it is kept in, next to the copy.
const NAME: &str = "base";

/// Names files while they are written.
const NEW: &str = "base.new";

/// Says what the file is and which layout it has.
const FORMAT: &[u8] = b"recount workspace base 1\n";

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Thing {
    Folder,
    File { mode: u32, length: u64, digest: [u8; 32] },
    Link { target: Vec<u8> },
}

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Base {
    /// The folder that was copied; `None` for a workspace that began empty.
    pub(crate) source: Option<PathBuf>,
    pub(crate) entries: BTreeMap<PathBuf, Thing>,
}

/// As it is stored: paths need not be UTF-8.
#[derive(Serialize, Deserialize)]
struct StoredBase {
    source: Option<Vec<u8>>,
    entries: Vec<(Vec<u8>, Thing)>,
}

impl Base {
    pub(crate) fn write(&self, house: &Path) -> io::Result<()> {
        let stored = StoredBase {
            source: self.source.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
            entries: self
                .entries
                .iter()
                .map(|(path, thing)| (path.as_os_str().as_bytes().to_vec(), thing.clone()))
                .collect(),
        };
        let mut bytes = FORMAT.to_vec();
        bytes.extend(postcard::to_stdvec(&stored).map_err(io::Error::other)?);
        let mut file = File::create(house.join(NEW))?;
        file.write_all(&bytes)?;
        // Without it the name may be there after a crash and the bytes not.
        file.sync_all()?;
        std::fs::rename(house.join(NEW), house.join(NAME))
    }

    /// `None` for a copy that an earlier release made, which kept none.
    pub(crate) fn read(house: &Path) -> io::Result<Option<Base>> {
        let bytes = match std::fs::read(house.join(NAME)) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
        let Some(bytes) = bytes.strip_prefix(FORMAT) else { return Ok(None) };
        let stored: StoredBase = postcard::from_bytes(bytes).map_err(io::Error::other)?;
        let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
        let entries = stored.entries.into_iter().map(|(name, thing)| (path(name), thing)).collect();
        Ok(Some(Base { source: stored.source.map(path), entries }))
    }
}

/// Whether a path is git's own, at any depth and in any case that a file system may take for the same.
pub(crate) fn is_gits(path: &Path) -> bool {
    path.components().any(|part| match part {
        Component::Normal(name) => is_git_folder(name),
        _ => false,
    })
}

/// Whether a name is that of git's own folder.
fn is_git_folder(name: &OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(b".git")
}

/// The bits of a mode that are copied and brought back.
pub(crate) fn plain_mode(mode: u32) -> u32 {
    mode & 0o777
}

/// The length of a file and the digest of its content, which is the same whether its zeros are holes or not.
pub(crate) fn digest(file: &File) -> io::Result<(u64, [u8; 32])> {
    let length = file.metadata()?.len();
    blocks(file, length, |_, _| Ok(()))
}

/// Goes through the blocks of a file that are not all zeros, and digests them. Holes are not read. Answers the digest of
/// what was gone through, and its length, which is less than was asked for when the file became shorter meanwhile.
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
            let wanted = usize::try_from(size.min(length - at)).unwrap_or(limits::COPY_BLOCK_BYTES);
            let count = fill(file, at, &mut block[..wanted])?;
            if count < wanted {
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

/// Where the next bytes are that are no hole. Where the file system cannot say, here.
fn next_data(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => Some(data.max(at)),
        Err(Errno::NXIO) => None,
        Err(_) => Some(at),
    }
}

/// Where they end.
fn data_end(file: &File, at: u64, length: u64) -> u64 {
    // The block may begin within a hole that its data follows.
    let Some(data) = next_data(file, at) else { return length };
    rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(length)
}

/// Reads until there is no more room or no more file.
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
