//! Binary content in git diffs (`git diff --binary`): compressed, in base 85, complete or as a delta.

use crate::limits;

/// One direction of a binary change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BinaryPiece {
    pub(super) kind: BinaryKind,
    /// The decompressed bytes.
    pub(super) data: Vec<u8>,
    /// The original lines; they are written unchanged.
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
    /// `size` is the decompressed size according to the diff.
    pub(super) fn read(kind: BinaryKind, size: usize, lines: Vec<Vec<u8>>) -> Result<Self, String> {
        if size > limits::PATCHED_FILE_BYTES_MAX {
            let most = limits::PATCHED_FILE_BYTES_MAX;
            return Err(format!("{size} bytes of binary content; the limit is {most}"));
        }
        let mut packed = Vec::new();
        for line in &lines {
            decode_line(line, &mut packed)?;
        }
        let data = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&packed, size)
            .map_err(|error| format!("the binary content cannot be decompressed: {error}"))?;
        if data.len() != size {
            return Err(format!("the binary content has {} bytes; the header says {size}", data.len()));
        }
        Ok(BinaryPiece { kind, data, lines })
    }

    /// The new content; `None` if the delta was made for other content.
    pub(super) fn apply(&self, before: &[u8]) -> Option<Vec<u8>> {
        match self.kind {
            BinaryKind::Literal => Some(self.data.clone()),
            BinaryKind::Delta => apply_delta(before, &self.data),
        }
    }
}

const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Decodes a line: its first letter is the number of bytes, then five digits encode four of them.
fn decode_line(line: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let malformed = || "a line of binary content is malformed".to_owned();
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

/// Applies a git delta: two sizes, then pieces that are copied from the old content or inserted.
fn apply_delta(before: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
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

/// A number with seven bits in a byte, the lowest first.
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
