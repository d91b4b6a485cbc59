//! Reads the write-ahead log without SQLite: which frames a recovery uses, and the frames after them.
//!
//! ```text
//!   header (32 bytes): magic, format, page size, round, two salts, sum of what precedes
//!   frame  (24 bytes + page): page number, pages after a commit (else 0), the two salts, sum; then the page
//! ```
//!
//! Each sum continues the one before it. A recovery stops at the first frame whose salts or sum do not fit and
//! uses everything up to the last commit before that frame. The file is reused from its start, so frames of an
//! older round with other salts usually follow. Frames with the salts of this round that follow a bad one are in
//! [`Survey::beyond`]: the sum of each is checked against the sum that is stored before it.
//!
//! This module must not know tables, and it never writes. Entry point: [`survey`].

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The last bit gives the byte order of the sums.
const MAGIC: u32 = 0x377f_0682;
/// SQLite's bounds of a page.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// The name of the write-ahead log of a database.
pub(crate) fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Whole frames in the file, of any round.
    pub(crate) frames: u64,
    /// The number of the last frame that a recovery uses; 0 for none. The first frame has number 1.
    pub(crate) reached: u64,
    /// `None`: no frame of this round with a fitting sum, and no commit, follows what a recovery uses.
    pub(crate) beyond: Option<UnusedFrames>,
    shape: Shape,
}

/// Frames of this round that a recovery does not use, though they were written as part of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnusedFrames {
    /// The first frame that does not fit; 0 is the header.
    pub(crate) first_bad: u64,
    pub(crate) last: u64,
    pub(crate) commits: u64,
    /// A frame follows a commit among these. It was written after that commit was synced, so the commit was
    /// whole once: a power cut cannot have left the file like this where commits are synced.
    pub(crate) was_synced: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Shape {
    page_bytes: usize,
    big_endian: bool,
    salts: [u32; 2],
    /// The sum before the first frame.
    start: [u32; 2],
}

/// One frame; its page is in the reader's buffer.
struct WalFrame {
    number: u64,
    is_commit: bool,
    /// Has the salts of this round.
    is_current: bool,
    /// Also fits the sum stored before it.
    is_intact: bool,
}

/// Reads the write-ahead log of a database. `None`: there is none, or it holds no frame.
pub(crate) fn survey(database: &Path) -> io::Result<Option<Survey>> {
    let Some(mut file) = open(&beside(database))? else { return Ok(None) };
    let frames_end = file.metadata()?.len();
    let mut header = [0; HEADER];
    if frames_end <= HEADER as u64 {
        return Ok(None);
    }
    file.read_exact(&mut header)?;
    let (shape, header_fits) = match sound_shape(&header) {
        Some(shape) => (shape, true),
        None => match guessed_shape(&mut file, database, &header)? {
            Some(shape) => (shape, false),
            None => return Ok(None),
        },
    };
    let mut frames = Frames::from(file, &shape, 1, shape.start)?;
    let mut survey = Survey { frames: 0, reached: 0, beyond: None, shape: shape.clone() };
    let mut first_bad = (!header_fits).then_some(0);
    let (mut last, mut commits, mut intact, mut was_synced) = (0, 0, 0_u64, false);
    let mut follows_commit = false;
    while let Some(frame) = frames.next()? {
        survey.frames = frame.number;
        if first_bad.is_none() && frame.is_intact {
            if frame.is_commit {
                survey.reached = frame.number;
            }
            continue;
        }
        first_bad.get_or_insert(frame.number);
        if frame.is_current {
            last = frame.number;
            commits += u64::from(frame.is_commit);
            intact += u64::from(frame.is_intact);
            was_synced |= frame.is_intact && follows_commit;
        }
        follows_commit = frame.is_current && frame.is_commit;
    }
    survey.beyond = first_bad.filter(|_| commits > 0 || intact > 0).map(|first_bad| UnusedFrames {
        first_bad,
        last,
        commits,
        was_synced,
    });
    Ok(Some(survey))
}

impl Survey {
    /// Passes every intact page image that a recovery does not use to a closure, with the size of a page.
    pub(crate) fn pages_beyond(&self, database: &Path, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let Some(mut file) = open(&beside(database))? else { return Ok(()) };
        let start = if self.reached == 0 {
            self.shape.start
        } else {
            let place = self.shape.offset(self.reached) + (FRAME_HEADER as u64 - 8);
            file.seek(SeekFrom::Start(place))?;
            let mut sum = [0; 8];
            file.read_exact(&mut sum)?;
            [word(&sum, 0), word(&sum, 4)]
        };
        let mut frames = Frames::from(file, &self.shape, self.reached + 1, start)?;
        while let Some(frame) = frames.next()? {
            if frame.is_intact {
                take(&frames.buffer[FRAME_HEADER..]);
            }
        }
        Ok(())
    }

    /// The salts, which identify a round of the log.
    pub(crate) fn round(&self) -> String {
        format!("{:08x}{:08x}", self.shape.salts[0], self.shape.salts[1])
    }
}

impl Shape {
    fn frame_bytes(&self) -> usize {
        FRAME_HEADER + self.page_bytes
    }

    fn offset(&self, frame: u64) -> u64 {
        HEADER as u64 + (frame - 1) * self.frame_bytes() as u64
    }

    fn sum(&self, before: [u32; 2], bytes: &[u8]) -> [u32; 2] {
        let [mut one, mut two] = before;
        for pair in bytes.chunks_exact(8) {
            let at = |place: usize| {
                let bytes = [pair[place], pair[place + 1], pair[place + 2], pair[place + 3]];
                if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
            };
            one = one.wrapping_add(at(0)).wrapping_add(two);
            two = two.wrapping_add(at(4)).wrapping_add(one);
        }
        [one, two]
    }
}

/// The shape from a header that SQLite would accept.
fn sound_shape(header: &[u8; HEADER]) -> Option<Shape> {
    let (magic, page_bytes) = (word(header, 0), page_bytes(word(header, 8))?);
    let shape = Shape {
        page_bytes,
        big_endian: magic & 1 == 1,
        salts: [word(header, 16), word(header, 20)],
        start: [word(header, 24), word(header, 28)],
    };
    let fits = magic & !1 == MAGIC && shape.sum([0; 2], &header[..HEADER - 8]) == shape.start;
    fits.then_some(shape)
}

/// The shape guessed from the first frames and the database, for a damaged header. SQLite uses no frame then.
fn guessed_shape(file: &mut File, database: &Path, header: &[u8; HEADER]) -> io::Result<Option<Shape>> {
    let mut beginning = [0; 18];
    let read = File::open(database).and_then(|mut database| database.read_exact(&mut beginning));
    let stored = u32::from(u16::from_be_bytes([beginning[16], beginning[17]]));
    // An unreadable database probably has the default page size.
    let page_bytes = read.ok().and_then(|()| page_bytes(if stored == 1 { 65_536 } else { stored }));
    let page_bytes = page_bytes.unwrap_or(4096);
    let mut first = [0; FRAME_HEADER];
    file.seek(SeekFrom::Start(HEADER as u64))?;
    if file.read_exact(&mut first).is_err() {
        return Ok(None);
    }
    let big_endian = cfg!(target_endian = "big");
    let (salts, start) = ([word(&first, 8), word(&first, 12)], [word(header, 24), word(header, 28)]);
    Ok(Some(Shape { page_bytes, big_endian, salts, start }))
}

fn page_bytes(stored: u32) -> Option<usize> {
    let bytes = usize::try_from(stored).ok()?;
    (bytes.is_power_of_two() && PAGE_BYTES.contains(&bytes)).then_some(bytes)
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], place: usize) -> u32 {
    u32::from_be_bytes([bytes[place], bytes[place + 1], bytes[place + 2], bytes[place + 3]])
}

/// Reads frame after frame.
struct Frames<'s> {
    file: BufReader<File>,
    shape: &'s Shape,
    number: u64,
    /// The sum that is stored before the next frame.
    before: [u32; 2],
    buffer: Vec<u8>,
}

impl<'s> Frames<'s> {
    fn from(mut file: File, shape: &'s Shape, number: u64, before: [u32; 2]) -> io::Result<Self> {
        file.seek(SeekFrom::Start(shape.offset(number)))?;
        let buffer = vec![0; shape.frame_bytes()];
        let file = BufReader::with_capacity(crate::limits::WAL_READ_BYTES, file);
        Ok(Frames { file, shape, number, before, buffer })
    }

    /// The next whole frame; a part of one at the end of the file was never written.
    fn next(&mut self) -> io::Result<Option<WalFrame>> {
        match self.file.read_exact(&mut self.buffer) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let (header, page) = self.buffer.split_at(FRAME_HEADER);
        let is_current = [word(header, 8), word(header, 12)] == self.shape.salts;
        let stored = [word(header, 16), word(header, 20)];
        let sum = || self.shape.sum(self.shape.sum(self.before, &header[..8]), page);
        let is_intact = is_current && word(header, 0) != 0 && sum() == stored;
        let frame = WalFrame { number: self.number, is_commit: word(header, 4) != 0, is_current, is_intact };
        self.before = stored;
        self.number += 1;
        Ok(Some(frame))
    }
}
