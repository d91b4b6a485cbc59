//! One event, one write into a zero-filled file, one `fdatasync`: the cost of durability itself on this disk.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::Result;

use super::segment::zero_filled;
use crate::clock::{now_ns, seconds_since};
use crate::histogram::Histogram;
use crate::scene;

/// Bytes of the file that is written over.
const FILE_BYTES: u64 = 16 << 20;

/// Durations of single syncs in sequence, for so many seconds.
pub(crate) fn run(folder: &Path, seconds: f64) -> Result<Histogram> {
    let file = zero_filled(&folder.join("single"), FILE_BYTES)?;
    let event = scene::stored(1, 1);
    let mut times = Histogram::default();
    let (start, mut at) = (now_ns(), 0);
    while seconds_since(start) < seconds {
        let start = now_ns();
        file.write_all_at(&event, at)?;
        file.sync_data()?;
        times.add(now_ns() - start);
        at = (at + event.len() as u64) % (FILE_BYTES - event.len() as u64);
    }
    Ok(times)
}
