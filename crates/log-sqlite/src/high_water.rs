//! The high-water mark: a small file beside the database with the last acknowledged position.
//!
//! The database and its write-ahead log cannot show that their end was cut off, or that they were replaced by an
//! older copy; this file can. A thread of its own writes it, so no append waits for it, and it lags behind what was
//! acknowledged by [`limits::HIGH_WATER_EVERY`] after a kill, and by [`limits::HIGH_WATER_SYNC_EVERY`] more after a
//! power cut. It is written only after a commit, so it never names more than was committed. It has two slots in two
//! sectors that are written in turn: a torn write leaves the other one.
//!
//! This module must not know the database. Start at [`read`] and [`HighWater`].

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use recount_log::Fault;
use recount_world::platform::private_file;

use crate::fault::FaultContext as _;
use crate::folder::sync_folder;
use crate::limits;
use crate::options::Durability;

const MAGIC: &[u8; 8] = b"rcnthw\0\x01";
/// Magic, count, position, durability, sum.
const SLOT: usize = 8 + 8 + 8 + 8 + 16;
const SLOTS: [u64; 2] = [0, 512];
const FILE_BYTES: u64 = 1024;

/// The content of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// How often the mark was written; the higher one counts.
    count: u64,
    pub(crate) position: u64,
    pub(crate) durability: Durability,
}

/// The content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMark {
    Missing,
    /// The file exists, and both slots are damaged.
    Unreadable,
    Mark(Mark),
}

/// Reads the newest mark.
pub(crate) fn read(path: &Path) -> Result<ReadMark, Fault> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadMark::Missing),
        read => read.context(&format!("reading {}", path.display()))?,
    };
    let marks = SLOTS.iter().filter_map(|place| {
        let place = usize::try_from(*place).ok()?;
        Mark::decode(bytes.get(place..place + SLOT)?)
    });
    Ok(marks.max_by_key(|mark| mark.count).map_or(ReadMark::Unreadable, ReadMark::Mark))
}

impl Mark {
    fn encode(self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        slot[..8].copy_from_slice(MAGIC);
        slot[8..16].copy_from_slice(&self.count.to_be_bytes());
        slot[16..24].copy_from_slice(&self.position.to_be_bytes());
        slot[24] = u8::from(self.durability == Durability::Relaxed);
        let sum = blake3::hash(&slot[..32]);
        slot[32..].copy_from_slice(&sum.as_bytes()[..16]);
        slot
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let number = |place: usize| Some(u64::from_be_bytes(*slot.get(place..)?.first_chunk()?));
        let durability = if slot[24] == 0 { Durability::Strict } else { Durability::Relaxed };
        let mark = Mark { count: number(8)?, position: number(16)?, durability };
        (mark.encode() == slot).then_some(mark)
    }
}

/// The writer's handle. When it is dropped, the thread writes and syncs the last position.
pub(crate) struct HighWater {
    position: Arc<AtomicU64>,
    signal: SyncSender<()>,
    /// Dropping it ends a pause of the thread.
    _alive: SyncSender<()>,
}

impl HighWater {
    /// Writes the mark of a store that was just opened, and starts the thread; it keeps `held` until it ends.
    pub(crate) fn start(
        path: &Path,
        position: u64,
        durability: Durability,
        held: impl Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), Fault> {
        let context = format!("writing {}", path.display());
        let found = read(path)?;
        let count = match found {
            ReadMark::Mark(mark) => mark.count,
            ReadMark::Missing | ReadMark::Unreadable => 0,
        };
        let file = private_file(OpenOptions::new().write(true).create(true).truncate(false))
            .open(path)
            .context(&context)?;
        file.set_len(FILE_BYTES).context(&context)?;
        let mut written = MarkFile { file, mark: Mark { count, position, durability } };
        written.write(position).context(&context)?;
        written.file.sync_all().context(&context)?;
        if found == ReadMark::Missing
            && let Some(folder) = path.parent()
        {
            sync_folder(folder)?;
        }
        let shared = Arc::new(AtomicU64::new(position));
        let theirs = shared.clone();
        let (signal, inbox) = sync_channel(limits::HIGH_WATER_NEWS_MAX);
        let (alive, end) = sync_channel(limits::SIGNS_OF_LIFE_MAX);
        let thread = recount_world::thread("recount-high", move || {
            write_marks(&mut written, &theirs, &inbox, &end);
            drop(written);
            drop(held);
        });
        Ok((HighWater { position: shared, signal, _alive: alive }, thread))
    }

    /// Everything up to this position was committed. Does not wait.
    pub(crate) fn acknowledge(&self, position: u64) {
        if self.position.swap(position, Ordering::Relaxed) != position {
            // If a signal is pending already, the thread reads the newest position with it.
            let _full = self.signal.try_send(());
        }
    }
}

struct MarkFile {
    file: File,
    /// The last written mark.
    mark: Mark,
}

impl MarkFile {
    fn write(&mut self, position: u64) -> io::Result<()> {
        self.mark = Mark { count: self.mark.count + 1, position, ..self.mark };
        let slot = SLOTS[usize::from(!self.mark.count.is_multiple_of(2))];
        self.file.seek(SeekFrom::Start(slot))?;
        self.file.write_all(&self.mark.encode())
    }
}

fn write_marks(written: &mut MarkFile, position: &AtomicU64, inbox: &Receiver<()>, end: &Receiver<()>) {
    let mut synced = recount_world::moment();
    let mut unsynced = false;
    loop {
        let received = match unsynced {
            true => inbox.recv_timeout(limits::HIGH_WATER_SYNC_EVERY),
            false => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if received == Err(RecvTimeoutError::Disconnected) {
            break;
        }
        let mut outcome = Ok(());
        if received.is_ok() {
            outcome = written.write(position.load(Ordering::Relaxed));
            unsynced = true;
        }
        if outcome.is_ok() && synced.elapsed() >= limits::HIGH_WATER_SYNC_EVERY {
            outcome = written.file.sync_data();
            (synced, unsynced) = (recount_world::moment(), false);
        }
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot write the high-water mark; retrying with the next commit");
        }
        if end.recv_timeout(limits::HIGH_WATER_EVERY) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    let last = written.write(position.load(Ordering::Relaxed)).and_then(|()| written.file.sync_data());
    if let Err(error) = last {
        tracing::warn!(%error, "cannot write the high-water mark at shutdown");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(path: &Path, positions: &[u64]) {
        let (mark, thread) = HighWater::start(path, 0, Durability::Strict, ()).unwrap();
        positions.iter().for_each(|position| mark.acknowledge(*position));
        drop(mark);
        thread.join().unwrap();
    }

    fn position(path: &Path) -> Option<u64> {
        match read(path).unwrap() {
            ReadMark::Mark(mark) => Some(mark.position),
            ReadMark::Missing | ReadMark::Unreadable => None,
        }
    }

    #[test]
    fn the_last_position_is_written_at_shutdown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        assert_eq!(read(&path), Ok(ReadMark::Missing));
        for last in [1, 7, 7, 12] {
            marked(&path, &[last]);
            assert_eq!(position(&path), Some(last));
        }
        let (mark, thread) = HighWater::start(&path, 5, Durability::Relaxed, ()).unwrap();
        let Ok(ReadMark::Mark(found)) = read(&path) else { panic!("a mark") };
        assert_eq!((found.position, found.durability), (5, Durability::Relaxed), "a start sets it anew");
        drop(mark);
        thread.join().unwrap();
    }

    #[test]
    fn a_damaged_slot_leaves_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        marked(&path, &[3]);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len() as u64, FILE_BYTES);
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert!(matches!(position(&path), Some(0 | 3)), "{place}");
        }
        std::fs::write(&path, vec![0; 1024]).unwrap();
        assert_eq!(read(&path), Ok(ReadMark::Unreadable));
    }
}
