//! Masks a text that comes in pieces.
//!
//! [`StreamRedactor`] holds back what may be the beginning of a secret until it is decided: however the text is
//! split, the joined output equals the whole text as [`Redactor::text`] masks it. [`Redactor::online`] releases
//! every piece at once and at its length. It masks a possible secret from the place where it can no
//! longer be ordinary text, and uses of the text before only what was released: so it continues from a log as
//! it would from memory.

use std::ops::Range;
use std::sync::Arc;

use crate::limits::{DECIDED_BYTES, HOLD_BYTES_MAX, KEPT_BYTES_MAX, KEPT_QUIET, LOOK_BEHIND};
use crate::redactor::Redactor;
use crate::scan::{Verdict, Window, joined, mask};
use crate::stripped::Stripped;

/// Masks a growing text and holds back what it must. For texts of our own making.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Arc<Redactor>,
    /// The end of the text so far: what is held back, and before it what matters for that.
    kept: Vec<u8>,
    /// How much of that was let out.
    out: usize,
    /// Whether the text begins with it.
    whole: bool,
}

/// The state of a growing text before its next piece: its end, as it was released.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Online {
    kept: Vec<u8>,
    /// Whether something came before what is kept.
    cut: bool,
    /// Whether anything was ever masked in it, or may have been: a `*` was let out.
    starred: bool,
}

/// The findings in a window, and the offset from which they matter for later pieces.
struct Found {
    /// Masked ranges, each with the start of the shape that it belongs to.
    sure: Vec<(usize, Range<usize>)>,
    unsure: Vec<Range<usize>>,
    /// The names of open shapes.
    names: Vec<Range<usize>>,
    /// From here on it depends on what comes.
    open_from: usize,
    keep_from: usize,
}

impl Redactor {
    fn look(&self, window: &Window<'_>) -> Found {
        let end = window.len();
        let mut found =
            Found { sure: Vec::new(), unsure: Vec::new(), names: Vec::new(), open_from: end, keep_from: end };
        let stripped = Stripped::of(window);
        self.candidates_with(window, stripped.as_ref(), |candidate| {
            match candidate.verdict {
                Verdict::No => {}
                Verdict::Open { from } => {
                    candidate.add(from..end, window, &mut found.unsure);
                    found.names.push(candidate.at..candidate.named);
                    found.open_from = found.open_from.min(candidate.at);
                    found.keep_from = found.keep_from.min(candidate.at);
                }
                Verdict::Yes { from, to, goes_on } => {
                    let mut sure = Vec::new();
                    candidate.add(from..to, window, &mut sure);
                    found.sure.extend(sure.into_iter().map(|part| (candidate.at, part)));
                    found.names.push(candidate.at..candidate.named);
                    if goes_on {
                        candidate.add(to..end, window, &mut found.unsure);
                        found.open_from = found.open_from.min(to);
                        found.keep_from = found.keep_from.min(candidate.at);
                    }
                }
            }
            true
        });
        if !window.ended
            && let Some(begin) = self.trigger_begins(window, stripped.as_ref())
        {
            found.open_from = found.open_from.min(begin);
            found.keep_from = found.keep_from.min(begin);
        }
        found
    }

    /// Masks a text that quotes others, which may be cut where the quote ends: what may be the beginning of a
    /// secret there is masked, too.
    pub fn quotes(&self, text: &str) -> String {
        if self.is_off() {
            return text.to_owned();
        }
        let mut masked = self.text(text).into_owned().into_bytes();
        let mut begin = 0;
        let ends = memchr::memchr_iter(b'"', text.as_bytes()).chain([text.len()]);
        for end in ends.collect::<Vec<usize>>() {
            let part = begin..end;
            let (spans, _) = self.online(&Online::default(), &text.as_bytes()[part.clone()], false);
            let spans: Vec<Range<usize>> =
                spans.into_iter().map(|span| span.start + part.start..span.end + part.start).collect();
            mask(&mut masked, &spans);
            begin = end + 1;
        }
        String::from_utf8(masked)
            .unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned())
    }

    /// Masks the next piece of a text without holding anything back. Returns the masked ranges of the piece, and
    /// the state for the next one. `ended`: no other piece comes.
    pub fn online(&self, before: &Online, piece: &[u8], ended: bool) -> (Vec<Range<usize>>, Online) {
        if self.is_off() || (piece.is_empty() && !ended) {
            return (Vec::new(), before.clone());
        }
        let kept_bytes = before.kept.len();
        let mut bytes = Vec::with_capacity(kept_bytes + piece.len());
        bytes.extend_from_slice(&before.kept);
        bytes.extend_from_slice(piece);
        let from = if before.cut { LOOK_BEHIND.min(bytes.len()) } else { 0 };
        let found = self.look(&Window::new(&bytes, ended, from, kept_bytes));
        let mut spans: Vec<Range<usize>> = found.sure.into_iter().map(|(_, span)| span).collect();
        // The trigger of a shape is not masked on suspicion: it would not be found again.
        spans.extend(found.unsure.into_iter().flat_map(|unsure| without(unsure, &found.names)));
        let spans: Vec<Range<usize>> = joined(spans)
            .into_iter()
            .map(|span| span.start.max(kept_bytes)..span.end)
            .filter(|span| span.start < span.end)
            .collect();
        mask(&mut bytes, &spans);
        let starred = before.starred || !spans.is_empty() || memchr::memchr(b'*', piece).is_some();
        let mut next = Online { kept: bytes, cut: before.cut, starred };
        next.trim(found.keep_from);
        (spans.into_iter().map(|span| span.start - kept_bytes..span.end - kept_bytes).collect(), next)
    }
}

/// A range without parts of it.
fn without(range: Range<usize>, parts: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut left = vec![range];
    for part in parts {
        left = left
            .into_iter()
            .flat_map(|range| [range.start..range.end.min(part.start), range.start.max(part.end)..range.end])
            .filter(|range| range.start < range.end)
            .collect();
    }
    left
}

impl Online {
    /// Adds a piece that is in the log already, as stored.
    pub fn add_stored(&mut self, redactor: &Redactor, piece: &[u8]) {
        self.starred |= memchr::memchr(b'*', piece).is_some();
        self.kept.extend_from_slice(piece);
        if self.kept.len() > KEPT_BYTES_MAX {
            let from = if self.cut { LOOK_BEHIND.min(self.kept.len()) } else { 0 };
            let window = Window::new(&self.kept, false, from, self.kept.len());
            let keep_from = redactor.look(&window).keep_from;
            self.trim(keep_from);
        }
    }

    /// Whether anything in the text may have been masked.
    pub fn is_starred(&self) -> bool {
        self.starred
    }

    /// How much memory it holds.
    pub fn bytes(&self) -> usize {
        self.kept.len()
    }

    fn trim(&mut self, keep_from: usize) {
        let cut = keep_from.saturating_sub(KEPT_QUIET);
        self.cut |= cut > 0;
        self.kept.drain(..cut);
        shorten(&mut self.kept, keep_from - cut);
        if self.kept.capacity() > 4 * self.kept.len() {
            self.kept.shrink_to_fit();
        }
    }
}

/// Drops the middle of a secret that is too long to be kept: it is recognised, and
/// only its end matters. Returns how much was dropped.
fn shorten(kept: &mut Vec<u8>, begins: usize) -> usize {
    if kept.len() <= KEPT_BYTES_MAX {
        return 0;
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'*';
    let mut from = (begins + DECIDED_BYTES).min(kept.len());
    while from > 0 && !inner(kept[from - 1]) {
        from -= 1;
    }
    let mut to = kept.len() - HOLD_BYTES_MAX;
    while to < kept.len() && !inner(kept[to]) {
        to += 1;
    }
    if from >= to {
        return 0;
    }
    kept.drain(from..to);
    to - from
}

impl StreamRedactor {
    pub fn new(redactor: Arc<Redactor>) -> Self {
        StreamRedactor { redactor, kept: Vec::new(), out: 0, whole: true }
    }

    /// Takes the next piece and gives what is certain by now.
    pub fn push(&mut self, piece: &str) -> String {
        text(self.push_bytes(piece.as_bytes()))
    }

    /// Returns the rest. The next push starts a new text.
    pub fn finish(&mut self) -> String {
        text(self.finish_bytes())
    }

    /// The same as [`StreamRedactor::push`], of what need not be text or ends within a character.
    pub fn push_bytes(&mut self, piece: &[u8]) -> Vec<u8> {
        self.kept.extend_from_slice(piece);
        self.advance(false)
    }

    /// The same as [`StreamRedactor::finish`], after [`StreamRedactor::push_bytes`].
    pub fn finish_bytes(&mut self) -> Vec<u8> {
        let rest = self.advance(true);
        self.kept.clear();
        self.out = 0;
        self.whole = true;
        rest
    }

    /// Gives what is held back for as long as it identifies no secret, for when nothing more may come for long. What
    /// identifies one stays, and of a secret of which this was the beginning the rest is still masked.
    pub fn release(&mut self) -> String {
        text(self.release_bytes())
    }

    /// The same as [`StreamRedactor::release`], after [`StreamRedactor::push_bytes`].
    pub fn release_bytes(&mut self) -> Vec<u8> {
        let found = self.look(false);
        let unsure = found.unsure.iter().flat_map(|unsure| without(unsure.clone(), &found.names));
        let until = unsure.map(|unsure| unsure.start).fold(self.kept.len(), usize::min);
        self.let_out(found, until)
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.kept.len() - self.out
    }

    fn advance(&mut self, ended: bool) -> Vec<u8> {
        let found = self.look(ended);
        // Escape sequences may make what is undecided longer than any shape.
        let least = if ended { 0 } else { self.kept.len().saturating_sub(HOLD_BYTES_MAX) };
        let until = found.open_from.max(least);
        self.let_out(found, until)
    }

    fn look(&self, ended: bool) -> Found {
        let from = if self.whole { 0 } else { LOOK_BEHIND.min(self.kept.len()) };
        self.redactor.look(&Window::new(&self.kept, ended, from, 0))
    }

    /// Returns everything before an offset, masked. What is undecided there is masked, too.
    fn let_out(&mut self, found: Found, mut until: usize) -> Vec<u8> {
        // Not within a character.
        for _ in 0..3 {
            until -= usize::from(until > 0 && self.kept.get(until).is_some_and(|byte| byte & 0xC0 == 0x80));
        }
        let until = until.max(self.out);
        let mut piece = self.kept[self.out..until].to_vec();
        // Masked text that was not released yet must be found again.
        let masked_later = found.sure.iter().filter(|(_, span)| span.end > until).map(|(at, _)| *at);
        let keep_from = masked_later.fold(found.keep_from.min(until), usize::min);
        let mut spans: Vec<Range<usize>> = found.sure.into_iter().map(|(_, span)| span).collect();
        spans.extend(found.unsure.into_iter().flat_map(|unsure| without(unsure, &found.names)));
        let spans: Vec<Range<usize>> = joined(spans)
            .into_iter()
            .map(|span| span.start.max(self.out)..span.end.min(until))
            .filter(|span| span.start < span.end)
            .map(|span| span.start - self.out..span.end - self.out)
            .collect();
        mask(&mut piece, &spans);
        self.out = until;
        let cut = keep_from.saturating_sub(KEPT_QUIET);
        self.kept.drain(..cut);
        self.out -= cut;
        self.whole &= cut == 0;
        let gone = shorten(&mut self.kept, keep_from - cut);
        self.out -= gone;
        piece
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("secrets begin and end between characters")
}
