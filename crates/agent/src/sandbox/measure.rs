//! Measures the disk usage of a folder in small steps, so that the caller can do other work in between.
//!
//! Allocated blocks count, not file lengths. A file with several hard links counts once, and symlinks are not followed.
//! The folder may change during the measurement, also by a malicious process, so the result is an estimate. Start at
//! [`FolderMeasure`]. The module must not depend on the use of a folder or its limits.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::plan::DiskUsage;
use super::tree::Tree;
use crate::limits::WORKSPACE_DEPTH_MAX;
use crate::sandbox::limits;

/// A measurement in progress.
#[derive(Debug)]
pub(crate) struct FolderMeasure {
    /// Folders that are still to be opened.
    waiting: Vec<PathBuf>,
    /// The open folders: the last one is read, the others are its parents.
    open: Vec<Dir>,
    usage: DiskUsage,
    /// Files with several hard links that were already counted.
    counted: HashSet<(u64, u64)>,
    is_complete: bool,
}

impl FolderMeasure {
    /// Measures these folders together. None may be inside another.
    pub(crate) fn of(folders: impl IntoIterator<Item = PathBuf>) -> FolderMeasure {
        let waiting = folders.into_iter().collect();
        FolderMeasure {
            waiting,
            open: Vec::new(),
            usage: DiskUsage::default(),
            counted: HashSet::new(),
            is_complete: true,
        }
    }

    /// Measures up to `entries` more entries. Returns whether the measurement is complete.
    pub(crate) fn step(&mut self, entries: usize) -> bool {
        for _ in 0..entries {
            let Some(folder) = self.open.last_mut() else {
                let Some(next) = self.waiting.pop() else { return true };
                match open(CWD, next.as_path()).and_then(Dir::new) {
                    Ok(folder) => self.open.push(folder),
                    Err(_) => self.is_complete = false,
                }
                continue;
            };
            let entry = match folder.read() {
                Some(Ok(entry)) => entry,
                Some(Err(_)) => {
                    self.is_complete = false;
                    self.open.pop();
                    continue;
                }
                None => {
                    self.open.pop();
                    continue;
                }
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(above) = folder.fd() else { continue };
            // The entry was deleted after its name was read.
            let Ok(about) = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_folder = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
            let below = is_folder.then(|| open(above, name).and_then(Dir::new));
            self.usage.entries += 1;
            if is_folder || about.st_nlink < 2 || self.is_new(about.st_dev, about.st_ino) {
                self.usage.bytes += bytes_of(about.st_blocks);
            }
            match below {
                None | Some(Err(Errno::NOENT)) => {}
                Some(Ok(below)) if self.open.len() < WORKSPACE_DEPTH_MAX => self.open.push(below),
                Some(_) => self.is_complete = false,
            }
        }
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// The usage found so far.
    pub(crate) fn usage(&self) -> DiskUsage {
        self.usage
    }

    /// Whether every folder could be read.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn is_new(&mut self, device: u64, file: u64) -> bool {
        // Beyond the limit each link counts.
        self.counted.len() >= limits::WORKSPACE_LINKS_MAX || self.counted.insert((device, file))
    }
}

/// Bytes of deleted files on these devices that processes of a tree still have open.
pub(crate) fn unlinked_bytes(tree: &Tree, devices: &[u64]) -> u64 {
    let mut counted = HashSet::new();
    let mut bytes = 0;
    for member in &tree.members {
        // The process ended, or its files cannot be listed.
        let Ok(open) = fs::read_dir(format!("/proc/{}/fd", member.pid.as_raw_nonzero())) else { continue };
        for open in open.flatten() {
            let Ok(about) = fs::metadata(open.path()) else { continue };
            let is_unlinked = about.is_file() && about.nlink() == 0 && devices.contains(&about.dev());
            if is_unlinked
                && counted.len() < limits::WORKSPACE_LINKS_MAX
                && counted.insert((about.dev(), about.ino()))
            {
                bytes += about.blocks() * 512;
            }
        }
    }
    bytes
}

fn open<P: rustix::path::Arg>(above: impl std::os::fd::AsFd, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty())
}

fn bytes_of(blocks: impl TryInto<u64>) -> u64 {
    blocks.try_into().unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(folder: &std::path::Path) -> (DiskUsage, bool) {
        let mut walk = FolderMeasure::of([folder.to_owned()]);
        let mut steps = 0;
        while !walk.step(3) {
            steps += 1;
            assert!(steps < 10_000, "it goes on for ever");
        }
        (walk.usage(), walk.is_complete())
    }

    #[test]
    fn blocks_count_once_and_not_lengths() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::create_dir_all(at.join("a/b/c")).unwrap();
        let (before, _) = measured(at);
        assert_eq!(before.entries, 3);
        fs::write(at.join("a/b/c/file"), vec![1; 1 << 20]).unwrap();
        for number in 0..20 {
            fs::hard_link(at.join("a/b/c/file"), at.join(format!("a/link{number}"))).unwrap();
        }
        // A hole uses no blocks, and a symlink's target is not counted.
        fs::File::create(at.join("hole")).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink("/usr", at.join("elsewhere")).unwrap();
        let (after, is_complete) = measured(at);
        assert_eq!((after.entries, is_complete), (before.entries + 23, true));
        let grown = after.bytes - before.bytes;
        assert!((1 << 20..=(1 << 20) + 65_536).contains(&grown), "{grown}");
    }

    #[test]
    fn too_deep_folders_make_a_measurement_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let mut path = folder.path().to_owned();
        for _ in 0..=WORKSPACE_DEPTH_MAX {
            path.push("d");
        }
        fs::create_dir_all(&path).unwrap();
        assert!(!measured(folder.path()).1);
        assert!(!measured(&folder.path().join("nothing")).1);
    }
}
