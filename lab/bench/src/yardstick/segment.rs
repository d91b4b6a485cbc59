//! A segment file: filled with zeros in advance and overwritten repeatedly, with one write and one sync per group.
//!
//! The fastest possible durable log on this disk; it could not be read back.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::Result;

use super::group::Commit;

/// Bytes of the file; then it is reused from its start, as a log that recycles its segments would.
const SEGMENT_BYTES: u64 = 256 << 20;

pub(crate) struct Segment {
    file: File,
    at: u64,
}

impl Segment {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let file = zero_filled(&folder.join("segment"), SEGMENT_BYTES)?;
        Ok(Segment { file, at: 0 })
    }
}

/// A file with all its blocks allocated.
pub(crate) fn zero_filled(path: &Path, bytes: u64) -> Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        file.write_all_at(&zeros, at)?;
        at += zeros.len() as u64;
    }
    file.sync_all()?;
    Ok(file)
}

impl Commit for Segment {
    fn commit(&mut self, group: &[u8]) -> Result<()> {
        if self.at + group.len() as u64 > SEGMENT_BYTES {
            self.at = 0;
        }
        self.file.write_all_at(group, self.at)?;
        self.file.sync_data()?;
        self.at += group.len() as u64;
        Ok(())
    }
}
