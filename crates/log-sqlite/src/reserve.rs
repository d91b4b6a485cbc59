//! The disk reserve for deletions: a preallocated file in the data folder.
//!
//! SQLite writes before it frees, so a full disk could not be emptied. When an append that may use the reserve finds no
//! space, the file is removed and the append is tried again. From then on the reserve is *spent*: ordinary appends are
//! refused as full until the file can be created again, so that they do not take the space of the next deletion.
//! See `docs/decisions/0032`. This must not know SQLite. Start at [`Reserve`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recount_log::Fault;
use recount_world::platform::private_file;

use crate::fault::FaultContext as _;
use crate::limits;

/// Returns an error when the disk has no space for so many bytes. For tests with a simulated disk.
pub type ReserveGate = Arc<dyn Fn(u64) -> io::Result<()> + Send + Sync>;

/// The reserve file. Cheap to clone; all clones share one file.
#[derive(Clone)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
    gate: Option<ReserveGate>,
    is_held: Arc<AtomicBool>,
}

impl Reserve {
    /// Uses this file; does not touch the disk.
    pub(crate) fn at(path: PathBuf, bytes: u64, gate: Option<ReserveGate>) -> Self {
        Reserve { path, bytes, gate, is_held: Arc::default() }
    }

    /// Whether the reserve is used up or could not be created.
    pub(crate) fn is_spent(&self) -> bool {
        !self.is_held.load(Ordering::Relaxed)
    }

    /// Creates the file, unless it exists.
    pub(crate) fn create(&self) -> Result<(), Fault> {
        if !self.is_spent() {
            return Ok(());
        }
        let outcome = self.allocate();
        if outcome.is_err() {
            self.remove();
        }
        outcome.context(&format!("reserving {} bytes in {}", self.bytes, self.path.display()))?;
        self.is_held.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Frees the space of the file. Returns `false` without a file.
    pub(crate) fn spend(&self) -> bool {
        self.is_held.store(false, Ordering::Relaxed);
        self.remove()
    }

    fn remove(&self) -> bool {
        let there = std::fs::metadata(&self.path).is_ok_and(|file| file.len() > 0);
        match std::fs::remove_file(&self.path) {
            Ok(()) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                tracing::warn!(file = %self.path.display(), %error, "cannot release the reserved space");
                false
            }
        }
    }

    fn allocate(&self) -> io::Result<()> {
        if let Some(gate) = &self.gate {
            let there = std::fs::metadata(&self.path).map_or(0, |file| file.len());
            gate(self.bytes.saturating_sub(there))?;
        }
        let mut file =
            private_file(OpenOptions::new().write(true).create(true).truncate(false)).open(&self.path)?;
        match fallocate(&file, self.bytes) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.write_zeros(&mut file),
            allocated => allocated,
        }
    }

    /// For file systems that cannot allocate without writing.
    fn write_zeros(&self, file: &mut File) -> io::Result<()> {
        let zeros = vec![0; limits::RESERVE_PIECE_BYTES];
        let mut remaining = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        while remaining > 0 {
            let piece = remaining.min(zeros.len());
            file.write_all(&zeros[..piece])?;
            remaining -= piece;
        }
        file.sync_data()
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn fallocate(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            Err(io::ErrorKind::Unsupported.into())
        }
        allocated => Ok(allocated?),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn fallocate(_: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use recount_log::FaultKind;

    use super::*;

    fn allocated(reserve: &Reserve) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(&reserve.path).map_or(0, |file| file.blocks() * 512)
    }

    #[test]
    fn the_reserve_takes_real_space_and_returns_it() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = limits::RESERVE_PIECE_BYTES as u64 * 2 + 1;
        let reserve = Reserve::at(folder.path().join("reserve"), bytes, None);
        assert!(reserve.is_spent() && !reserve.spend(), "no file exists yet");
        reserve.create().unwrap();
        assert!(!reserve.is_spent());
        assert!(allocated(&reserve) >= bytes, "no hole");
        // Another process uses the existing file.
        let next = Reserve::at(reserve.path.clone(), bytes, None);
        next.create().unwrap();
        assert!(next.spend() && next.is_spent());
        assert_eq!(allocated(&next), 0);
    }

    #[test]
    fn a_reserve_that_cannot_be_allocated_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = limits::RESERVE_PIECE_BYTES as u64 * 2 + 1;
        let reserve = Reserve::at(folder.path().join("reserve"), bytes, None);
        let mut file = File::create(&reserve.path).unwrap();
        reserve.write_zeros(&mut file).unwrap();
        assert_eq!(std::fs::metadata(&reserve.path).unwrap().len(), bytes);
    }

    #[test]
    fn without_space_no_file_remains_and_it_is_created_later() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(10));
        let gate: ReserveGate = {
            let free = free.clone();
            Arc::new(move |bytes| match bytes <= free.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(io::ErrorKind::StorageFull.into()),
            })
        };
        let reserve = Reserve::at(folder.path().join("reserve"), 4096, Some(gate));
        let fault = reserve.create().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Full, "{fault}");
        assert!(reserve.is_spent() && !reserve.path.exists());
        free.store(4096, Ordering::SeqCst);
        reserve.create().unwrap();
        assert!(!reserve.is_spent());
    }
}
