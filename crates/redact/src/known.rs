//! Secrets with known values.

use std::fmt;

use crate::limits;
use crate::scan::{Verdict, Window};

/// The value of a secret. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

/// Why a value is not accepted as a secret. Contains only the length of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "has {bytes} bytes without surrounding whitespace; a secret needs at least {min} bytes to be found \
         in text; use a longer one",
        min = limits::KNOWN_BYTES_MIN
    )]
    TooShort { bytes: usize },
    #[error(
        "has {bytes} bytes; a secret can have at most {max} bytes to be found in text",
        max = limits::KNOWN_BYTES_MAX
    )]
    TooLong { bytes: usize },
    #[error("consists of one repeated character, which also occurs in ordinary text")]
    Uniform,
}

impl Secret {
    /// Takes a value without the white space around it.
    pub fn new(value: &str) -> Result<Self, Refused> {
        let value = value.trim();
        let bytes = value.len();
        if bytes < limits::KNOWN_BYTES_MIN {
            return Err(Refused::TooShort { bytes });
        }
        if bytes > limits::KNOWN_BYTES_MAX {
            return Err(Refused::TooLong { bytes });
        }
        if value.bytes().all(|byte| Some(byte) == value.bytes().next()) {
            return Err(Refused::Uniform);
        }
        Ok(Secret(value.as_bytes().into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many of its first bytes stay when nothing may be held back.
    pub(crate) fn shown(&self) -> usize {
        (self.0.len() / 4).min(limits::SHOWN_BYTES_MAX)
    }

    /// A part of the value that looks the same in JSON, and its offset: what is searched for. `None` when
    /// no such part is long enough to be distinctive.
    pub(crate) fn trigger(&self) -> Option<(usize, &[u8])> {
        const ENOUGH: usize = 16;
        let plain = |byte: &u8| *byte >= 0x20 && !matches!(byte, b'"' | b'\\' | b'/');
        let mut best: Option<(usize, &[u8])> = None;
        let mut at = 0;
        for part in self.0.split(|byte| !plain(byte)) {
            if best.is_none_or(|(_, longest)| part.len() > longest.len()) {
                best = Some((at, part));
            }
            if part.len() >= ENOUGH {
                break;
            }
            at += part.len() + 1;
        }
        best.filter(|(_, part)| part.len() >= 4).map(|(at, part)| (at, &part[..part.len().min(ENOUGH)]))
    }

    /// Whether the secret is here, or begins here and the text ends within it.
    pub(crate) fn look(&self, window: &Window<'_>, at: usize) -> Verdict {
        let there = &window.bytes[at..window.len().min(at + self.0.len())];
        let mut wanted = self.0.iter();
        let same = there
            .iter()
            .enumerate()
            .all(|(place, byte)| wanted.next() == Some(byte) || (place > 0 && window.is_masked(at + place)));
        if !same {
            return Verdict::No;
        }
        if there.len() == self.0.len() {
            return Verdict::Yes { from: at, to: at + there.len(), goes_on: false };
        }
        if window.ended {
            return Verdict::No;
        }
        Verdict::Open { from: window.len().min(at + self.shown()) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
