//! A window of the searched text, and the possible results at an offset in it.

use std::ops::Range;

use crate::escape;

/// The replacement of each byte of a secret.
pub const MASK: u8 = b'*';

/// A text, or the part of a growing one that still matters.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether nothing follows.
    pub(crate) ended: bool,
    /// The first place where a match may begin: the bytes before are only context.
    pub(crate) from: usize,
    /// Before this place a `*` was put there by masking, and matches any byte.
    pub(crate) masked_until: usize,
    /// Where escape sequences were taken out of the text.
    pub(crate) taken: &'a [(usize, usize)],
    /// Whether escape sequences may be in the text or were.
    pub(crate) escapes: bool,
}

/// Whether a secret is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No, whatever follows.
    No,
    /// It depends on what follows. A caller that cannot wait masks everything from here on.
    Open { from: usize },
    /// Yes: these bytes are to be masked. With `goes_on`, later bytes may be part of it, too.
    Yes { from: usize, to: usize, goes_on: bool },
}

/// A possible match at a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) at: usize,
    /// Where its name ends, if it has one: what is searched for.
    pub(crate) named: usize,
    pub(crate) verdict: Verdict,
    /// Whether it was found in the text without escape sequences: those in it are not masked.
    pub(crate) stripped: bool,
}

impl Candidate {
    /// Adds a range of the candidate to others.
    pub(crate) fn add(&self, range: Range<usize>, window: &Window<'_>, ranges: &mut Vec<Range<usize>>) {
        match self.stripped {
            true => escape::around(window.bytes, window.ended, range, ranges),
            false => ranges.push(range),
        }
    }
}

impl<'a> Window<'a> {
    /// A text from its beginning to its end.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Window::new(bytes, true, 0, 0)
    }

    pub(crate) fn new(bytes: &'a [u8], ended: bool, from: usize, masked_until: usize) -> Self {
        Window { bytes, ended, from, masked_until, taken: &[], escapes: escape::may_be_in(bytes) }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// Whether what was here before us has masked this byte.
    pub(crate) fn is_masked(&self, at: usize) -> bool {
        at < self.masked_until && self.get(at) == Some(MASK)
    }

    /// Whether the text that ends at this offset may continue with later bytes.
    pub(crate) fn may_go_on(&self, end: usize) -> bool {
        end >= self.len() && !self.ended
    }

    /// Where a run of such bytes ends that begins at `from` and has at most `max` of them.
    pub(crate) fn run(&self, from: usize, max: usize, class: fn(u8) -> bool) -> usize {
        let last = self.len().min(from.saturating_add(max));
        let mut at = from;
        while at < last && (class(self.bytes[at]) || self.is_masked(at)) {
            at += 1;
        }
        at
    }

    /// Whether a word may begin here: no part of one precedes it. A word may directly follow an escape
    /// sequence, in text that was escaped once more `\n`, and in an address `%20`.
    pub(crate) fn word_begins(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.bytes[before]) else { return true };
        if !before.is_ascii_alphanumeric() {
            return true;
        }
        let earlier = |far: usize| at.checked_sub(far).map(|place| self.bytes[place]);
        let escape = matches!(before, b'n' | b'r' | b't' | b'b' | b'f') && earlier(2) == Some(b'\\');
        let percent = before.is_ascii_hexdigit()
            && earlier(2).is_some_and(|byte| byte.is_ascii_hexdigit())
            && earlier(3) == Some(b'%');
        escape || percent || self.escape_ends(at)
    }

    /// Whether there is an escape sequence of a terminal directly before this place.
    pub(crate) fn escape_ends(&self, at: usize) -> bool {
        self.escapes
            && (self.taken.binary_search_by_key(&at, |(place, _)| *place).is_ok()
                || escape::ends_at(self.bytes, at))
    }
}

/// Puts ranges in order and joins those that touch.
pub(crate) fn joined(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.retain(|span| span.start < span.end);
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

/// Masks ranges of a text. Line breaks stay, so that what was several lines still is.
pub(crate) fn mask(bytes: &mut [u8], spans: &[Range<usize>]) {
    for span in spans {
        for byte in &mut bytes[span.clone()] {
            if !matches!(byte, b'\n' | b'\r') {
                *byte = MASK;
            }
        }
    }
}
