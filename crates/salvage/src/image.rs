//! The pages of a database file, overlaid with those of its write-ahead log, read without SQLite.
//!
//! SQLite stops at the first damaged frame of the log. Each frame's checksum continues that of the frame before it, so
//! a frame can be checked alone with the checksum that is stored there: what follows a damaged frame is read, too.
//! Nothing is opened for writing. This file must not know what a page holds. Entry point: [`Image::open`].

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use recount_log::{Fault, FaultKind, Retry};

/// Bytes of a page: every store uses SQLite's default, and a damaged header may be wrong.
pub(super) const PAGE_BYTES: usize = 4096;

/// The offset of the number of pages in the header of the database.
const PAGES_AT: usize = 28;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const FRAME_BYTES: usize = FRAME_HEADER_BYTES + PAGE_BYTES;
/// The last bit of the magic number: checksums are made of big-endian words.
const BIG_ENDIAN: u32 = 1;

pub(super) struct Image {
    database: Option<File>,
    log: Option<File>,
    /// The log offset of the newest committed content of each page.
    newest: HashMap<u32, u64>,
    pages: u32,
    pub(super) log_state: LogState,
}

/// The state of the write-ahead log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LogState {
    /// Intact frames of commits.
    pub(super) sound: u64,
    /// Frames that were changed or cannot be read.
    pub(super) damaged: u64,
    /// Whether content is lost: a damaged frame that no later one replaces.
    pub(super) lost: bool,
}

impl Image {
    /// `database` and its write-ahead log. A missing file has no pages.
    pub(super) fn open(database: &Path) -> Result<Self, Fault> {
        let mut image = Image {
            database: open(database)?,
            log: open(&log_of(database))?,
            newest: HashMap::new(),
            pages: 0,
            log_state: LogState::default(),
        };
        let bytes =
            image.database.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |about| about.len());
        image.pages = u32::try_from(bytes.div_ceil(PAGE_BYTES as u64)).unwrap_or(u32::MAX);
        image.read_log();
        Ok(image)
    }

    /// Pages are numbered from 1 to this.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Fills `page` with a page's content, or with zeros if it is unreadable. Returns whether it was read.
    pub(super) fn read(&mut self, number: u32, page: &mut [u8; PAGE_BYTES]) -> bool {
        page.fill(0);
        let (file, offset) = match self.newest.get(&number) {
            Some(offset) => (&mut self.log, *offset),
            None => (&mut self.database, u64::from(number.saturating_sub(1)) * PAGE_BYTES as u64),
        };
        let Some(file) = file else { return false };
        // The last page of a truncated file may be partial.
        number > 0 && fill(file, offset, page).is_ok_and(|filled| filled > 0)
    }

    /// The number of pages in the header of the database.
    pub(super) fn pages_noted(&mut self) -> u32 {
        let mut page = [0; PAGE_BYTES];
        let is_header = self.read(1, &mut page) && page.starts_with(b"SQLite format 3\0");
        if is_header { word(&page, PAGES_AT) } else { 0 }
    }

    fn read_log(&mut self) {
        let Some(log) = &mut self.log else { return };
        let mut header = [0; HEADER_BYTES];
        if !fill(log, 0, &mut header).is_ok_and(|filled| filled == HEADER_BYTES) {
            return;
        }
        let big_endian = word(&header, 0) & BIG_ENDIAN == BIG_ENDIAN;
        let stored = [word(&header, 24), word(&header, 28)];
        let computed = sum(big_endian, [0, 0], &header[..24]);
        let mut frame = vec![0; FRAME_BYTES];
        let mut salts = [word(&header, 16), word(&header, 20)];
        if stored != computed {
            self.log_state.damaged += 1;
            // The header is damaged: the first frame has the same salts.
            if fill(log, HEADER_BYTES as u64, &mut frame).is_ok_and(|filled| filled == FRAME_BYTES) {
                salts = [word(&frame, 8), word(&frame, 12)];
            }
        }
        let mut seeds = [stored, computed];
        let (mut follows_sound, mut frames) = (true, Vec::new());
        for number in 0.. {
            let offset = HEADER_BYTES as u64 + number * FRAME_BYTES as u64;
            match fill(log, offset, &mut frame) {
                Ok(FRAME_BYTES) => {}
                Ok(_) => break,
                Err(_) => frame.fill(0),
            }
            let stored = [word(&frame, 16), word(&frame, 20)];
            let computed = seeds.map(|seed| {
                let head = sum(big_endian, seed, &frame[..8]);
                sum(big_endian, head, &frame[FRAME_HEADER_BYTES..])
            });
            let is_current = [word(&frame, 8), word(&frame, 12)] == salts;
            // Frames of an earlier round of the log have other salts, so they never follow a current frame.
            let sound = computed.contains(&stored) && (is_current || follows_sound);
            let (page, commits) = (word(&frame, 0), word(&frame, 4) > 0);
            frames.push(FrameEntry {
                page,
                commits,
                is_current,
                sound,
                content: offset + FRAME_HEADER_BYTES as u64,
            });
            seeds = [stored, computed[0]];
            follows_sound = sound;
        }
        self.take(&frames);
    }

    /// Takes the frames of all commits.
    fn take(&mut self, frames: &[FrameEntry]) {
        let commits = frames.iter().rposition(|frame| frame.commits && (frame.sound || frame.is_current));
        let Some(last) = commits else { return };
        let mut missing = BTreeSet::new();
        let last_ours = frames.iter().rposition(|frame| frame.sound || frame.is_current).unwrap_or(last);
        for frame in &frames[..=last] {
            if !frame.sound {
                self.log_state.damaged += 1;
                missing.insert(frame.page);
                continue;
            }
            self.log_state.sound += 1;
            missing.remove(&frame.page);
            self.newest.insert(frame.page, frame.content);
            self.pages = self.pages.max(frame.page);
        }
        // Frames after the last commit were never acknowledged, unless their commit frame is damaged.
        self.log_state.lost =
            !missing.is_empty() || frames[last..=last_ours].iter().any(|frame| !frame.sound);
    }
}

struct FrameEntry {
    page: u32,
    commits: bool,
    /// It has the salts of this round of the log.
    is_current: bool,
    sound: bool,
    content: u64,
}

pub(super) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn open(path: &Path) -> Result<Option<File>, Fault> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("opening {}: {error}", path.display());
            Err(Fault::new(FaultKind::Io, Retry::Maybe, message))
        }
    }
}

/// Reads up to the length of `into`, or to the end of the file.
fn fill(file: &mut File, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    let mut filled = 0;
    while filled < into.len() {
        match file.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word))
}

/// SQLite's checksum of the log: over pairs of words, continuing the previous sum.
fn sum(big_endian: bool, [mut first, mut second]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let number = |word: &[u8]| {
        let word = word.first_chunk().copied().unwrap_or_default();
        if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(number(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(number(&pair[4..])).wrapping_add(first);
    }
    [first, second]
}
