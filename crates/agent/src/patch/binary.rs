//! Binary content in diffs of git (`git diff --binary`): compressed, in base 85, whole or as a delta.

use crate::limits;

/// One direction of a binary change, as it is written in a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BinaryPiece {
    pub(super) kind: BinaryKind,
    /// What comes out of decompressing it.
    pub(super) data: Vec<u8>,
    /// The lines as they came; they are written as such.
    pub(super) lines: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryKind {
    Literal,
    Delta,
}

impl BinaryKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            BinaryKind::Literal => "literal",
            BinaryKind::Delta => "delta",
        }
    }
}

impl BinaryPiece {
    /// `size` is what the diff says that comes out.
    pub(super) fn read(kind: BinaryKind, size: usize, lines: Vec<Vec<u8>>) -> Result<Self, String> {
        if size > limits::PATCHED_FILE_BYTES_MAX {
            let most = limits::PATCHED_FILE_BYTES_MAX;
            return Err(format!("{size} bytes of binary content; {most} are the most"));
        }
        let mut packed = Vec::new();
        for line in &lines {
            decoded(line, &mut packed)?;
        }
        let data = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&packed, size)
            .map_err(|error| format!("binary content that cannot be decompressed: {error}"))?;
        if data.len() != size {
            return Err(format!("{} bytes of binary content where {size} were announced", data.len()));
        }
        Ok(BinaryPiece { kind, data, lines })
    }

    /// The content afterwards; `None` where the delta was made for other content.
    pub(super) fn apply(&self, before: &[u8]) -> Option<Vec<u8>> {
        match self.kind {
            BinaryKind::Literal => Some(self.data.clone()),
            BinaryKind::Delta => patched(before, &self.data),
        }
    }
}

const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Adds what a line holds: its first letter is how many bytes, then five digits for each four of them.
fn decoded(line: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let malformed = || "a line of binary content that is malformed".to_owned();
    let (first, digits) = line.split_first().ok_or_else(malformed)?;
    let count = match first {
        b'A'..=b'Z' => usize::from(first - b'A') + 1,
        b'a'..=b'z' => usize::from(first - b'a') + 27,
        _ => return Err(malformed()),
    };
    if digits.len() != count.div_ceil(4) * 5 {
        return Err(malformed());
    }
    let end = out.len() + count;
    for group in digits.chunks(5) {
        let mut value: u32 = 0;
        for digit in group {
            let digit = DIGITS.iter().position(|known| known == digit).ok_or_else(malformed)?;
            let digit = u32::try_from(digit).map_err(|_| malformed())?;
            value = value.checked_mul(85).and_then(|value| value.checked_add(digit)).ok_or_else(malformed)?;
        }
        out.extend_from_slice(&value.to_be_bytes());
    }
    out.truncate(end);
    Ok(())
}

/// Git's own form of a delta: two sizes, then pieces that are copied from the old content or inserted.
fn patched(before: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut delta = delta.iter().copied();
    let (old, new) = (size(&mut delta)?, size(&mut delta)?);
    if old != before.len() || new > limits::PATCHED_FILE_BYTES_MAX {
        return None;
    }
    let mut out = Vec::with_capacity(new);
    while let Some(code) = delta.next() {
        if code & 0x80 == 0 {
            for _ in 0..code {
                out.push(delta.next()?);
            }
            if code == 0 {
                return None;
            }
        } else {
            let mut number = |bits: std::ops::Range<u32>| -> Option<usize> {
                let mut value = 0;
                for (place, bit) in bits.enumerate() {
                    if code >> bit & 1 == 1 {
                        value |= usize::from(delta.next()?) << (8 * place);
                    }
                }
                Some(value)
            };
            let (from, count) = (number(0..4)?, number(4..7)?);
            let count = if count == 0 { 0x10000 } else { count };
            out.extend_from_slice(before.get(from..from.checked_add(count)?)?);
        }
        if out.len() > new {
            return None;
        }
    }
    (out.len() == new).then_some(out)
}

/// Seven bits in a byte, the lowest first.
fn size(bytes: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut value: usize = 0;
    for place in 0..8 {
        let byte = bytes.next()?;
        value |= usize::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
