//! Finds what to mask: one search for all beginnings, and a check only where one is found.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::DETECTORS;
use crate::detector::{BEFORE_VALUE_MAX, card};
use crate::escape;
use crate::known::Secret;
use crate::scan::{Candidate, MASK, Verdict, Window, joined, mask};
use crate::search::{Search, Trigger, TriggerTarget};
use crate::stripped::Stripped;

/// Masks known secrets and strings that have the shape of one. Created once and shared.
#[derive(Debug)]
pub struct Redactor {
    known: Vec<Secret>,
    /// Those for shapes come first; redactors of other known secrets share them.
    searches: Vec<Arc<Search>>,
    shapes: bool,
    /// Whether a known secret has no part that looks the same in JSON.
    hides: bool,
    /// Known secrets, which are in order, by their first byte.
    known_first: Box<[Range<usize>; 256]>,
    longest_known: usize,
}

/// How many searches there are for shapes.
const SHAPE_SEARCHES: usize = 3;

impl Redactor {
    /// Looks for these values and, with `shapes`, for everything in the table of detectors.
    pub fn new(known: Vec<Secret>, shapes: bool) -> Self {
        let mut searches = Vec::new();
        if shapes {
            let rows = DETECTORS.iter().enumerate();
            let triggers = rows.flat_map(|(index, shape)| {
                shape
                    .triggers
                    .iter()
                    .map(move |trigger| Trigger::new(trigger.as_bytes(), TriggerTarget::Shape(index)))
            });
            // Few short ones are found as quickly as many long ones; many of which some are short are not, and
            // more than 64 are not, either.
            let (short, long): (Vec<_>, Vec<_>) = triggers.partition(Trigger::is_short);
            let is_name = |trigger: &Trigger| match trigger.what {
                TriggerTarget::Shape(index) => DETECTORS[index].is_named(),
                TriggerTarget::Known(..) => false,
            };
            let (names, long): (Vec<_>, Vec<_>) = long.into_iter().partition(is_name);
            searches.extend([long, short, names].map(|triggers| Arc::new(Search::of(triggers))));
        }
        Redactor::of(known, searches, shapes)
    }

    /// Looks for these values, too.
    pub fn knowing(&self, more: Vec<Secret>) -> Self {
        let known = self.known.iter().cloned().chain(more).collect();
        let shapes = if self.shapes { SHAPE_SEARCHES } else { 0 };
        Redactor::of(known, self.searches[..shapes].to_vec(), self.shapes)
    }

    fn of(mut known: Vec<Secret>, mut searches: Vec<Arc<Search>>, shapes: bool) -> Self {
        known.sort_by(|a, b| a.bytes().cmp(b.bytes()));
        known.dedup();
        let mut hides = false;
        let mut triggers = Vec::new();
        for (index, secret) in known.iter().enumerate() {
            match secret.trigger() {
                Some((at, part)) => triggers.push(Trigger::new(part, TriggerTarget::Known(index, at))),
                None => hides = true,
            }
        }
        if !triggers.is_empty() {
            searches.push(Arc::new(Search::of(triggers)));
        }
        let known_first = Box::new(std::array::from_fn(|first| {
            let from = known.partition_point(|secret| usize::from(secret.bytes()[0]) < first);
            let to = known.partition_point(|secret| usize::from(secret.bytes()[0]) <= first);
            from..to
        }));
        let longest_known = known.iter().map(|secret| secret.bytes().len()).max().unwrap_or(0);
        Redactor { known, searches, shapes, hides, known_first, longest_known }
    }

    /// Looks for shapes alone.
    pub fn shapes() -> Self {
        Redactor::new(Vec::new(), true)
    }

    /// Masks nothing.
    pub fn off() -> Self {
        Redactor::new(Vec::new(), false)
    }

    /// How many values are known.
    pub fn known(&self) -> usize {
        self.known.len()
    }

    pub fn is_off(&self) -> bool {
        !self.shapes && self.known.is_empty()
    }

    /// The text with everything masked that is to be, or the text as it is.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text.as_bytes());
        if spans.is_empty() {
            return text.into();
        }
        let mut bytes = text.as_bytes().to_vec();
        mask(&mut bytes, &spans);
        String::from_utf8(bytes).expect("secrets begin and end between characters").into()
    }

    /// The same for bytes of which not all need be text.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let spans = self.spans(bytes);
        if spans.is_empty() {
            return bytes.into();
        }
        let mut bytes = bytes.to_vec();
        mask(&mut bytes, &spans);
        bytes.into()
    }

    /// Whether the text holds something that is to be masked.
    pub fn finds(&self, text: &str) -> bool {
        !self.spans(text.as_bytes()).is_empty()
    }

    /// The ranges of a whole text to mask, in order.
    pub(crate) fn spans(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        self.candidates(&Window::whole(bytes), |candidate| {
            if let Verdict::Yes { from, to, .. } = candidate.verdict {
                candidate.add(from..to, &Window::whole(bytes), &mut spans);
            }
            true
        });
        joined(spans)
    }

    /// Whether a JSON text may contain something to mask, by a search of its raw bytes. Fast, and
    /// wrong in one direction only.
    pub(crate) fn may_contain_secret(&self, json: &[u8]) -> bool {
        // A character written as \u0041 or \/ is only found by decoding, and so may be a secret with a spelled escape
        // sequence of a terminal in it. Other escapes are in no shape, or in one that is decoded if an escape
        // follows its beginning.
        let hidden = memchr::memchr_iter(b'\\', json).any(|at| match json.get(at + 1) {
            Some(b'u' | b'/') => true,
            Some(b'\\') => escape::may_begin(json, at),
            _ => false,
        });
        if hidden {
            return true;
        }
        if self.hides && memchr::memchr(b'\\', json).is_some() {
            return true;
        }
        let mut found = false;
        self.candidates_raw(json, |_| {
            found = true;
            false
        });
        found
            || (self.hides
                && self.known.iter().any(|known| memchr::memmem::find(json, known.bytes()).is_some()))
    }

    fn candidates_raw(&self, json: &[u8], mut each: impl FnMut(usize) -> bool) {
        let window = Window::whole(json);
        for search in &self.searches {
            let mut goes_on = true;
            search.each(json, 0, |found, trigger| {
                let may_be = match trigger.what {
                    TriggerTarget::Known(..) => true,
                    TriggerTarget::Shape(index) => {
                        DETECTORS[index].may_be_in(&window, found, trigger.bytes.len())
                    }
                };
                goes_on = !may_be || each(found);
                goes_on
            });
            if !goes_on {
                return;
            }
        }
        if self.shapes {
            card::each(&window, |candidate| candidate.verdict == Verdict::No || each(candidate.at));
        }
    }

    /// Passes every place where a secret is or may begin to `each`, until it returns `false`.
    pub(crate) fn candidates(&self, window: &Window<'_>, each: impl FnMut(Candidate) -> bool) {
        self.candidates_with(window, Stripped::of(window).as_ref(), each);
    }

    /// The same with the text without escape sequences, if it has any.
    pub(crate) fn candidates_with(
        &self,
        window: &Window<'_>,
        stripped: Option<&Stripped>,
        mut each: impl FnMut(Candidate) -> bool,
    ) {
        match stripped {
            None => self.candidates_in(window, each),
            Some(stripped) => self.candidates_in_both(window, stripped, &mut each),
        }
    }

    fn candidates_in_both(
        &self,
        window: &Window<'_>,
        stripped: &Stripped,
        each: &mut dyn FnMut(Candidate) -> bool,
    ) {
        let mut goes_on = true;
        self.candidates_in(window, |candidate| {
            goes_on = each(candidate);
            goes_on
        });
        if goes_on {
            self.candidates_in(&stripped.window(), |candidate| each(stripped.candidate(candidate)));
        }
    }

    fn candidates_in(&self, window: &Window<'_>, mut each: impl FnMut(Candidate) -> bool) {
        let mut goes_on = true;
        // A match that begins within another of the same shape ends with it. Searching for its end again and
        // again would let a text of beginnings only take quadratic time. One whose name or value may be after
        // that end is a match of its own.
        let mut passed = [0; DETECTORS.len()];
        for search in &self.searches {
            search.each(window.bytes, window.from, |found, trigger| {
                let (begin, named, verdict) = match trigger.what {
                    TriggerTarget::Shape(index)
                        if found + trigger.bytes.len() + BEFORE_VALUE_MAX < passed[index] =>
                    {
                        return true;
                    }
                    TriggerTarget::Shape(index) => {
                        let verdict = DETECTORS[index].look(window, found, trigger.bytes.len());
                        if let Verdict::Yes { to, .. } = verdict {
                            passed[index] = passed[index].max(to);
                        }
                        (found, found + trigger.bytes.len(), verdict)
                    }
                    TriggerTarget::Known(index, offset) => match found.checked_sub(offset) {
                        Some(begin) if begin >= window.from => {
                            (begin, begin, self.known[index].look(window, begin))
                        }
                        _ => return true,
                    },
                };
                goes_on =
                    verdict == Verdict::No || each(Candidate { at: begin, named, verdict, stripped: false });
                goes_on
            });
            if !goes_on {
                return;
            }
        }
        if self.shapes {
            card::each(window, |candidate| {
                goes_on = candidate.verdict == Verdict::No || each(candidate);
                goes_on
            });
        }
        if goes_on {
            self.known_without_trigger(window, each);
        }
    }

    /// Known secrets that the search does not find: those that end after the text, those that are
    /// partly masked already, and those without a trigger.
    fn known_without_trigger(&self, window: &Window<'_>, mut each: impl FnMut(Candidate) -> bool) {
        if self.known.is_empty() {
            return;
        }
        // Where a secret may end after the text, and where a part of it may be masked.
        let open_from = window.len().saturating_sub(self.longest_known.saturating_sub(1)).max(window.from);
        let stored = &window.bytes[..window.masked_until];
        let starred = memchr::memchr(MASK, stored).map_or(0, |_| stored.len());
        let (first, second) = match (self.hides, window.ended) {
            (true, _) => (window.from..window.len(), 0..0),
            (false, true) => (window.from..starred, 0..0),
            (false, false) => (window.from..starred, open_from.max(starred)..window.len()),
        };
        for at in first.chain(second) {
            for secret in &self.known[self.known_first[usize::from(window.bytes[at])].clone()] {
                let verdict = secret.look(window, at);
                let candidate = Candidate { at, named: at, verdict, stripped: false };
                if verdict != Verdict::No && !each(candidate) {
                    return;
                }
            }
        }
    }

    /// The first place from which the text may be the beginning of a trigger that ends after it.
    pub(crate) fn trigger_begins(&self, window: &Window<'_>, stripped: Option<&Stripped>) -> Option<usize> {
        if !self.shapes {
            return None;
        }
        let begin = |window: &Window<'_>| {
            let shapes = self.searches[..SHAPE_SEARCHES].iter();
            shapes.filter_map(|search| search.begins(window.bytes, window.from)).min()
        };
        let within = stripped.and_then(|text| begin(&text.window()).map(|at| text.place(at)));
        begin(window).into_iter().chain(within).min()
    }
}
