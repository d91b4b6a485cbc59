//! The live tail of one stream: a shared, bounded list of framed bytes, and a cursor for each reader.
//!
//! Frames are made once, at commit, and shared by all readers. Bounded in bytes: the oldest fall off,
//! and who still wanted them is served from the store. Nothing here slows a writer down.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use recount_log::Framing;
use tokio::sync::watch;

use crate::limits;

/// The frames of one commit.
struct Segment {
    first: u64,
    framed: Bytes,
    /// Where each frame ends within `framed`.
    ends: Vec<usize>,
}

impl Segment {
    fn last(&self) -> u64 {
        self.first + self.ends.len() as u64 - 1
    }

    /// The frames from `cursor` on.
    fn from(&self, cursor: u64) -> Bytes {
        let skip = usize::try_from(cursor.saturating_sub(self.first)).unwrap_or(usize::MAX);
        match skip.checked_sub(1).and_then(|before| self.ends.get(before)) {
            Some(start) => self.framed.slice(*start..),
            None => self.framed.clone(),
        }
    }

    /// The same, each by itself.
    fn each_from(&self, cursor: u64) -> Vec<Bytes> {
        let skip = usize::try_from(cursor.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).skip(skip).map(|(start, end)| self.framed.slice(start..*end)).collect()
    }
}

/// What readers wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Level {
    /// The cursor after the last one that was published or is known to be in the store; 0 when nothing was
    /// heard of since the list was made.
    pub(crate) next: u64,
    /// Where the stream ends: the cursor after its last event, once it has come to its end.
    pub(crate) end: Option<u64>,
}

/// What a reader finds at its cursor.
pub(crate) enum Found {
    /// Frames, merged for one write, and the cursor after them.
    Frames(Bytes, u64),
    /// Not here any more, or never was: ask the store.
    Fallen,
    /// Nothing yet.
    Nothing,
}

pub(crate) struct List {
    segments: Mutex<Segments>,
    level: watch::Sender<Level>,
    bytes_max: usize,
}

#[derive(Default)]
struct Segments {
    queue: VecDeque<Segment>,
    bytes: usize,
    /// How many of the newest segments may still become one, and their bytes.
    loose: usize,
    loose_bytes: usize,
}

impl Segments {
    /// Adds the newest. Once those before it fill a write they become one segment: so a reader that is
    /// behind is handed shared bytes, and nothing is copied for it alone.
    fn push(&mut self, segment: Segment) {
        let bytes = segment.framed.len();
        if self.loose_bytes + bytes > limits::MERGE_BYTES_MAX {
            self.tie();
        }
        self.bytes += bytes;
        self.loose += 1;
        self.loose_bytes += bytes;
        self.queue.push_back(segment);
    }

    fn tie(&mut self) {
        let (loose, bytes) = (std::mem::take(&mut self.loose), std::mem::take(&mut self.loose_bytes));
        if loose < 2 {
            return;
        }
        let mut framed = BytesMut::with_capacity(bytes);
        let mut ends = Vec::new();
        let mut first = None;
        for segment in self.queue.drain(self.queue.len() - loose..) {
            first.get_or_insert(segment.first);
            let before = framed.len();
            framed.extend_from_slice(&segment.framed);
            ends.extend(segment.ends.iter().map(|end| before + end));
        }
        if let Some(first) = first {
            self.queue.push_back(Segment { first, framed: framed.freeze(), ends });
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.queue.pop_front() {
            self.bytes -= oldest.framed.len();
            if self.loose > self.queue.len() {
                self.loose -= 1;
                self.loose_bytes -= oldest.framed.len();
            }
        }
    }
}

impl List {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(List { segments: Mutex::default(), level: watch::channel(Level::default()).0, bytes_max })
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Level> {
        self.level.subscribe()
    }

    /// The cursor after the last event that was heard of; 0 when none was.
    pub(crate) fn known_next(&self) -> u64 {
        self.level.borrow().next
    }

    /// Adds the records of one commit, cursors contiguous from `first`. Only the publisher calls this,
    /// and only with what the store has confirmed.
    pub(crate) fn push_committed<'a>(
        &self,
        framing: &dyn Framing,
        first: u64,
        envelopes: impl Iterator<Item = &'a Bytes>,
    ) {
        let mut framed = BytesMut::new();
        let mut ends = Vec::new();
        for (cursor, envelope) in (first..).zip(envelopes) {
            framing.frame(cursor, envelope, &mut framed);
            ends.push(framed.len());
        }
        let next = first + ends.len() as u64;
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = segments.queue.back() {
            assert!(newest.last() < first, "commits are published in order");
            if newest.last() + 1 < first {
                // A commit that was told to have failed has landed after all: it is in the store, and
                // whoever needs it finds it there.
                *segments = Segments::default();
            }
        }
        segments.push(Segment { first, framed: framed.freeze(), ends });
        while segments.bytes > self.bytes_max && segments.queue.len() > 1 {
            segments.drop_oldest();
        }
        drop(segments);
        self.mark_stored(next);
    }

    /// Whether anybody holds a cursor in it.
    pub(crate) fn is_followed(&self) -> bool {
        self.level.receiver_count() > 0
    }

    /// Takes note of commits up to before `next` without a frame of them: whoever wants them finds them in the
    /// store.
    pub(crate) fn pass_over(&self, next: u64) {
        *self.segments.lock().unwrap_or_else(PoisonError::into_inner) = Segments::default();
        // After the frames have gone, so that nobody who hears of it finds a list that ends too early.
        self.mark_stored(next);
    }

    /// Lets go of all frames up to a cursor: what was taken away from the store is not handed out from here
    /// either.
    pub(crate) fn forget(&self, last: u64) {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        while segments.queue.front().is_some_and(|oldest| oldest.first <= last) {
            segments.drop_oldest();
        }
    }

    /// Tells readers that everything before `next` is in the store, published here or not.
    pub(crate) fn mark_stored(&self, next: u64) {
        self.level.send_if_modified(|level| {
            let more = next > level.next;
            level.next = level.next.max(next);
            more
        });
    }

    /// Tells readers that nothing follows the events before `end`. They may not all have been published.
    pub(crate) fn mark_ended(&self, end: u64) {
        self.level.send_modify(|level| level.end = level.end.max(Some(end)));
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.level.borrow().end.is_some()
    }

    /// How long all frames are together.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Whether the frame at a cursor is here.
    pub(crate) fn reaches(&self, cursor: u64) -> bool {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.queue.front().is_some_and(|oldest| oldest.first <= cursor)
    }

    /// Whether the frame at a cursor is here, and not only one before it.
    pub(crate) fn holds(&self, cursor: u64) -> bool {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(oldest), Some(newest)) = (segments.queue.front(), segments.queue.back()) else {
            return false;
        };
        (oldest.first..=newest.last()).contains(&cursor)
    }

    /// Frames from `cursor` on, each by itself: those of one commit, or of some that lie together. `None` when the
    /// one at the cursor is not here.
    pub(crate) fn frames(&self, cursor: u64) -> Option<Vec<Bytes>> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let at = segments.queue.partition_point(|segment| segment.last() < cursor);
        segments
            .queue
            .get(at)
            .filter(|segment| segment.first <= cursor)
            .map(|segment| segment.each_from(cursor))
    }

    /// Frames from `cursor` on, as many as fit one write.
    pub(crate) fn take(&self, cursor: u64) -> Found {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(oldest), Some(newest)) = (segments.queue.front(), segments.queue.back()) else {
            return Found::Nothing;
        };
        if cursor > newest.last() {
            return Found::Nothing;
        }
        if cursor < oldest.first {
            return Found::Fallen;
        }
        let start = segments.queue.partition_point(|segment| segment.last() < cursor);
        let mut pieces = Vec::new();
        let mut bytes = 0;
        let mut next = cursor;
        for segment in segments.queue.iter().skip(start) {
            let piece = segment.from(next);
            if bytes > 0 && bytes + piece.len() > limits::MERGE_BYTES_MAX {
                break;
            }
            bytes += piece.len();
            next = segment.last() + 1;
            pieces.push(piece);
        }
        drop(segments);
        Found::Frames(merge(pieces, bytes), next)
    }
}

fn merge(mut pieces: Vec<Bytes>, bytes: usize) -> Bytes {
    if pieces.len() == 1 {
        return pieces.swap_remove(0);
    }
    let mut merged = BytesMut::with_capacity(bytes);
    for piece in pieces {
        merged.extend_from_slice(&piece);
    }
    merged.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered;

    impl Framing for Numbered {
        fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut) {
            out.extend_from_slice(format!("{cursor}:").as_bytes());
            out.extend_from_slice(envelope);
            out.extend_from_slice(b"\n");
        }
    }

    fn list(bytes_max: usize, commits: &[&[&'static str]]) -> Arc<List> {
        let list = List::new(bytes_max);
        let mut first = 10;
        for commit in commits {
            let envelopes: Vec<Bytes> =
                commit.iter().map(|text| Bytes::from_static(text.as_bytes())).collect();
            list.push_committed(&Numbered, first, envelopes.iter());
            first += commit.len() as u64;
        }
        list
    }

    fn check(list: &List, cursor: u64, expected: Result<(&str, u64), &str>) {
        match (list.take(cursor), expected) {
            (Found::Frames(bytes, next), Ok((text, after))) => {
                assert_eq!((std::str::from_utf8(&bytes).unwrap(), next), (text, after));
            }
            (Found::Fallen, Err("fallen")) | (Found::Nothing, Err("nothing")) => {}
            (Found::Frames(bytes, next), other) => panic!("{bytes:?} to {next}, not {other:?}"),
            (Found::Fallen, other) => panic!("fallen, not {other:?}"),
            (Found::Nothing, other) => panic!("nothing, not {other:?}"),
        }
    }

    #[test]
    fn a_reader_gets_everything_from_its_cursor_in_one_piece() {
        let list = list(1 << 20, &[&["a", "b"], &["c"], &["d", "e"]]);
        check(&list, 10, Ok(("10:a\n11:b\n12:c\n13:d\n14:e\n", 15)));
        check(&list, 11, Ok(("11:b\n12:c\n13:d\n14:e\n", 15)));
        check(&list, 14, Ok(("14:e\n", 15)));
        check(&list, 15, Err("nothing"));
        check(&list, 9, Err("fallen"));
    }

    #[test]
    fn the_oldest_fall_off() {
        let list = list(12, &[&["a", "b"], &["c"], &["d", "e"]]);
        check(&list, 10, Err("fallen"));
        check(&list, 13, Ok(("13:d\n14:e\n", 15)));
        assert_eq!(list.watch().borrow().next, 15);
    }

    #[test]
    fn a_commit_that_was_not_heard_of_is_looked_for_in_the_store() {
        let list = list(1 << 20, &[&["a", "b"]]);
        list.push_committed(&Numbered, 14, [Bytes::from_static(b"e")].iter());
        check(&list, 11, Err("fallen"));
        check(&list, 12, Err("fallen"));
        check(&list, 14, Ok(("14:e\n", 15)));
    }

    #[test]
    fn segments_that_fill_a_write_become_one_and_say_the_same() {
        let text: &'static str = Box::leak("x".repeat(limits::MERGE_BYTES_MAX / 10).into_boxed_str());
        let commits: Vec<&[&'static str]> = vec![std::slice::from_ref(&text); 35];
        let list = list(1 << 20, &commits);
        assert!(list.segments.lock().unwrap().queue.len() < 15, "old segments lie together");
        for start in 10..45 {
            let (mut next, mut got) = (start, Vec::new());
            while let Found::Frames(bytes, after) = list.take(next) {
                assert!(bytes.len() <= limits::MERGE_BYTES_MAX);
                got.extend_from_slice(&bytes);
                next = after;
            }
            let expected: String = (start..45).map(|cursor| format!("{cursor}:{text}\n")).collect();
            assert!(next == 45 && got == expected.as_bytes(), "from {start}");
        }
    }

    #[test]
    fn a_reader_behind_is_handed_bytes_that_all_share() {
        let text: &'static str = Box::leak("x".repeat(limits::MERGE_BYTES_MAX / 10).into_boxed_str());
        let commits: Vec<&[&'static str]> = vec![std::slice::from_ref(&text); 35];
        let list = list(1 << 20, &commits);
        let (Found::Frames(one, _), Found::Frames(other, _)) = (list.take(10), list.take(10)) else {
            panic!("the list reaches back to its start")
        };
        assert_eq!(one.as_ptr(), other.as_ptr());
    }

    #[test]
    fn what_falls_off_is_counted_off() {
        let list = list(1 << 10, &[&["a"; 100], &["b"; 100], &["c"; 100], &["d"; 100]]);
        let segments = list.segments.lock().unwrap();
        let bytes: usize = segments.queue.iter().map(|segment| segment.framed.len()).sum();
        assert_eq!(
            (segments.bytes, segments.loose_bytes, segments.loose),
            (bytes, bytes, segments.queue.len())
        );
    }

    #[test]
    fn what_is_forgotten_is_looked_for_in_the_store() {
        let list = list(1 << 20, &[&["a", "b"], &["c"], &["d", "e"]]);
        list.forget(9);
        check(&list, 10, Ok(("10:a\n11:b\n12:c\n13:d\n14:e\n", 15)));
        list.forget(12);
        check(&list, 12, Err("fallen"));
        check(&list, 13, Ok(("13:d\n14:e\n", 15)));
        list.forget(13);
        check(&list, 14, Err("nothing"));
        assert_eq!(list.watch().borrow().next, 15, "which the store has up to here");
    }

    #[test]
    fn what_nobody_followed_is_looked_for_in_the_store() {
        let list = list(1 << 20, &[&["a", "b"]]);
        assert!(!list.is_followed());
        list.pass_over(15);
        let follower = list.watch();
        assert!(list.is_followed() && follower.borrow().next == 15);
        check(&list, 11, Err("nothing"));
        list.push_committed(&Numbered, 15, [Bytes::from_static(b"f")].iter());
        check(&list, 14, Err("fallen"));
        check(&list, 15, Ok(("15:f\n", 16)));
        drop(follower);
        assert!(!list.is_followed());
    }

    #[test]
    fn an_empty_list_has_nothing_yet() {
        check(&list(10, &[]), 0, Err("nothing"));
    }
}
