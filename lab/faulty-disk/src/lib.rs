//! A faulty file system for SQLite: a VFS that delays, limits, fails or records the writes and syncs of databases.
//!
//! The database, its write-ahead log and its rollback journal are affected. The shared-memory file is not: SQLite
//! rebuilds it after a crash. This must not know what is written, nor which store writes it. Start at [`FaultyDisk`];
//! [`DiskImage`] computes from a recording what a machine finds after a power cut.

mod course;
mod image;
mod vfs;

use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use rusqlite::ffi;

pub use course::FaultCounts;
pub use image::DiskImage;

use course::{Call, FaultCourse};

/// One file system. It stays registered with SQLite as long as the process lives.
pub struct FaultyDisk {
    /// The name under which SQLite knows the VFS.
    pub name: String,
    state: &'static Mutex<State>,
}

/// One entry of a recording.
#[derive(Debug, Clone)]
pub enum Note {
    /// A file's name without its folder, and what happened to it.
    Op(String, Op),
    /// A number that the test set, to find this moment again.
    Mark(u64),
}

/// A change of a file.
#[derive(Debug, Clone)]
pub enum Op {
    Create,
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate(u64),
    Sync,
    /// Whether the removal of the name was synced at once.
    Delete {
        synced: bool,
    },
}

#[derive(Default)]
struct State {
    /// What happened, in order. `None`: nothing is recorded, and syncs reach the real disk.
    recording: Option<Vec<Note>>,
    sizes: HashMap<String, u64>,
    /// Maximum bytes of all files together, the reserve included.
    bytes_max: Option<u64>,
    /// The data folder's reserve, which is a file of the real disk.
    reserve: Option<PathBuf>,
    /// Writes that still succeed before one fails.
    writes_before_failure: Option<u32>,
    /// Syncs of the write-ahead log that fail from now on.
    failing_wal_syncs: u32,
    course: Option<FaultCourse>,
    counts: FaultCounts,
}

/// What happens to one write.
struct Admission {
    /// How many of its bytes reach the file.
    bytes: usize,
    /// The error that SQLite gets, or `SQLITE_OK`.
    code: c_int,
}

impl FaultyDisk {
    /// A disk whose writes and syncs are recorded. Syncs do not reach the real disk: what survives a power cut is
    /// computed by [`DiskImage`].
    pub fn recording() -> Result<Self> {
        vfs::register(State { recording: Some(Vec::new()), ..State::default() })
    }

    /// A disk that writes and syncs through to the real one and records nothing.
    pub fn writing_through() -> Result<Self> {
        vfs::register(State::default())
    }

    fn state(&self) -> MutexGuard<'static, State> {
        lock(self.state)
    }

    /// Adds a mark to the recording.
    pub fn mark(&self, mark: u64) {
        self.state().record(Note::Mark(mark));
    }

    /// The recording so far.
    pub fn notes(&self) -> Vec<Note> {
        self.state().recording.clone().unwrap_or_default()
    }

    /// Lets the files grow by this many bytes in total, and no more.
    pub fn leave_room(&self, bytes: u64) {
        let mut state = self.state();
        state.bytes_max = Some(state.used_bytes() + bytes);
    }

    /// Counts the reserve of a data folder among the files. The returned gate is called with a number of bytes before
    /// the reserve is allocated, and fails where they do not fit.
    pub fn watch_reserve(&self, folder: &Path) -> Arc<dyn Fn(u64) -> io::Result<()> + Send + Sync> {
        self.state().reserve = Some(folder.join("reserve"));
        let state = self.state;
        Arc::new(move |bytes| {
            let state = lock(state);
            match state.bytes_max {
                Some(most) if state.used_bytes() + bytes > most => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        })
    }

    /// Fails one write, after so many that succeed.
    pub fn fail_write_after(&self, writes: u32) {
        self.state().writes_before_failure = Some(writes);
    }

    /// Fails this many of the next syncs of the write-ahead log.
    pub fn fail_wal_syncs(&self, count: u32) {
        self.state().failing_wal_syncs = count;
    }

    /// From now on calls are delayed, and some of them fail, as drawn from a seed.
    pub fn draw_faults(&self, seed: u64, delay_max: Duration) {
        self.state().course = Some(FaultCourse::new(seed, delay_max));
    }

    /// Makes everything work again. Returns the counts of all drawn faults.
    pub fn heal(&self) -> FaultCounts {
        let mut state = self.state();
        (state.bytes_max, state.writes_before_failure, state.failing_wal_syncs) = (None, None, 0);
        state.course = None;
        state.counts
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        let reserve = self.reserve.as_ref().and_then(|path| std::fs::metadata(path).ok());
        self.sizes.values().sum::<u64>() + reserve.map_or(0, |file| file.len())
    }

    /// How long a call takes, and the drawn error that it ends with.
    fn draw(&mut self, call: Call) -> (Duration, Option<c_int>) {
        let Some(course) = &mut self.course else { return (Duration::ZERO, None) };
        let (delay, error) = course.draw(call);
        self.counts.add(delay, error);
        (delay, error)
    }

    fn admit(&mut self, file: &str, offset: u64, length: usize) -> Admission {
        if let Some(writes) = &mut self.writes_before_failure {
            if *writes == 0 {
                self.writes_before_failure = None;
                return Admission::failed(length, ffi::SQLITE_IOERR_WRITE);
            }
            *writes -= 1;
        }
        let size = self.sizes.get(file).copied().unwrap_or(0);
        let others = self.used_bytes() - size;
        let end = offset + length as u64;
        match self.bytes_max {
            Some(most) if end > size && others + end > most => {
                let fits = (most.saturating_sub(others)).max(size).saturating_sub(offset);
                Admission { bytes: (fits as usize).min(length), code: ffi::SQLITE_FULL }
            }
            _ => Admission { bytes: length, code: ffi::SQLITE_OK },
        }
    }

    /// Whether this sync fails without reaching the disk.
    fn fails_sync(&mut self, file: &str) -> bool {
        let fails = file.ends_with("-wal") && self.failing_wal_syncs > 0;
        self.failing_wal_syncs -= u32::from(fails);
        fails
    }

    fn record(&mut self, note: Note) {
        if let Some(notes) = &mut self.recording {
            notes.push(note);
        }
    }

    /// Notes a write. Its bytes are copied only where they are recorded.
    fn note_write(&mut self, file: &str, offset: u64, bytes: &[u8]) {
        let size = self.sizes.entry(file.to_owned()).or_default();
        *size = (*size).max(offset + bytes.len() as u64);
        if self.recording.is_some() {
            self.record(Note::Op(file.to_owned(), Op::Write { offset, bytes: bytes.to_vec() }));
        }
    }

    /// Notes anything but a write.
    fn note(&mut self, file: &str, op: Op) {
        let size = self.sizes.entry(file.to_owned()).or_default();
        match &op {
            Op::Truncate(length) => *size = *length,
            Op::Delete { .. } => *size = 0,
            Op::Create | Op::Write { .. } | Op::Sync => {}
        }
        self.record(Note::Op(file.to_owned(), op));
    }
}

impl Admission {
    /// A write that fails may have reached the disk in part.
    fn failed(length: usize, code: c_int) -> Self {
        Admission { bytes: length / 2, code }
    }
}

/// A panic of another thread leaves maps and counters valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
