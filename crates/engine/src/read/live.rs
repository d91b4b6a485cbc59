//! The live tail of one stream: a shared, bounded list of events as they were stored, and a cursor for each reader.
//!
//! What readers make of an event is made once and kept beside it: frames at commit, when a reader of frames follows;
//! decoded events when the first reader asks for them. Bounded in bytes: the oldest fall off, and readers that still
//! want them are served from the store. Nothing here slows a writer down. It must not know any protocol. See [`List`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::{Bytes, BytesMut};
use recount_event::codec;
use tokio::sync::watch;

use crate::limits;
use crate::read::shared_event::SharedEvent;

/// How the frames of a face are written.
pub trait Framing: Send + Sync + 'static {
    /// Appends the frame of an event. `cursor` is the event's place in what is read. Called on threads of the store.
    fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut);
}

/// The events of one commit.
struct CommittedEvents {
    first: u64,
    envelopes: Vec<Bytes>,
    /// `None`: one of them cannot be read.
    decoded: OnceLock<Option<Vec<Arc<SharedEvent>>>>,
}

impl CommittedEvents {
    fn end(&self) -> u64 {
        self.first + self.envelopes.len() as u64
    }

    fn decoded(&self) -> Option<&[Arc<SharedEvent>]> {
        let decode = |envelope: &Bytes| codec::decode(envelope).ok().map(SharedEvent::new).map(Arc::new);
        self.decoded.get_or_init(|| self.envelopes.iter().map(decode).collect()).as_deref()
    }
}

/// Frames one after the other.
struct Framed {
    bytes: Bytes,
    /// Where each frame ends within `bytes`.
    ends: Vec<usize>,
}

/// Commits that lie together.
struct Segment {
    commits: Vec<Arc<CommittedEvents>>,
    /// `None` when they were committed before a reader of frames came.
    framed: Option<Framed>,
    /// Events and frames.
    bytes: usize,
    /// How much of one write it fills, by what was made when it was added.
    write_bytes: usize,
}

impl Segment {
    fn of(commit: CommittedEvents) -> Self {
        let bytes = commit.envelopes.iter().map(Bytes::len).sum();
        Segment { commits: vec![Arc::new(commit)], framed: None, bytes, write_bytes: bytes }
    }

    fn first(&self) -> u64 {
        self.commits.first().map_or(0, |commit| commit.first)
    }

    fn last(&self) -> u64 {
        self.commits.last().map_or(0, |commit| commit.end()) - 1
    }

    /// The frames, made when they are not there yet.
    fn framed(&mut self, framing: &dyn Framing) -> &Framed {
        self.framed.get_or_insert_with(|| {
            let (mut bytes, mut ends) = (BytesMut::new(), Vec::new());
            for commit in &self.commits {
                for (cursor, envelope) in (commit.first..).zip(&commit.envelopes) {
                    framing.frame(cursor, envelope, &mut bytes);
                    ends.push(bytes.len());
                }
            }
            self.bytes += bytes.len();
            Framed { bytes: bytes.freeze(), ends }
        })
    }

    /// The frames from `cursor` on.
    fn framed_from(&mut self, cursor: u64, framing: &dyn Framing) -> Bytes {
        let skip = usize::try_from(cursor.saturating_sub(self.first())).unwrap_or(usize::MAX);
        let Framed { bytes, ends } = self.framed(framing);
        match skip.checked_sub(1).and_then(|before| ends.get(before)) {
            Some(start) => bytes.slice(*start..),
            None => bytes.clone(),
        }
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
    /// Whether a reader of frames has come, so that they are made at commit.
    wants_frames: AtomicBool,
    bytes_max: usize,
}

#[derive(Default)]
struct Segments {
    queue: VecDeque<Segment>,
    bytes: usize,
    /// How many of the newest segments may still become one, and the bytes that one write of them has.
    loose: usize,
    loose_bytes: usize,
}

impl Segments {
    /// Adds the newest. Once those before it fill a write they become one segment, so that readers that are behind
    /// share bytes, and nothing is copied for one alone.
    fn push(&mut self, segment: Segment, framing: &dyn Framing) {
        if self.loose_bytes + segment.write_bytes > limits::MERGE_BYTES_MAX {
            self.tie(framing);
        }
        self.bytes += segment.bytes;
        self.loose += 1;
        self.loose_bytes += segment.write_bytes;
        self.queue.push_back(segment);
    }

    fn tie(&mut self, framing: &dyn Framing) {
        let (loose, write_bytes) = (std::mem::take(&mut self.loose), std::mem::take(&mut self.loose_bytes));
        if loose < 2 {
            return;
        }
        let mut parts: Vec<Segment> = self.queue.drain(self.queue.len() - loose..).collect();
        self.bytes -= parts.iter().map(|part| part.bytes).sum::<usize>();
        let framed = parts.iter().any(|part| part.framed.is_some()).then(|| {
            let (mut bytes, mut ends) = (BytesMut::with_capacity(write_bytes), Vec::new());
            for part in &mut parts {
                let (before, framed) = (bytes.len(), part.framed(framing));
                bytes.extend_from_slice(&framed.bytes);
                ends.extend(framed.ends.iter().map(|end| before + end));
            }
            Framed { bytes: bytes.freeze(), ends }
        });
        let bytes = parts.iter().map(|part| part.bytes).sum();
        self.bytes += bytes;
        let commits = parts.into_iter().flat_map(|part| part.commits).collect();
        self.queue.push_back(Segment { commits, framed, bytes, write_bytes });
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.queue.pop_front() {
            self.bytes -= oldest.bytes;
            if self.loose > self.queue.len() {
                self.loose -= 1;
                self.loose_bytes -= oldest.write_bytes;
            }
        }
    }

    /// The segment that holds a cursor, or the next one.
    fn at(&self, cursor: u64) -> usize {
        self.queue.partition_point(|segment| segment.last() < cursor)
    }
}

impl List {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        let level = watch::channel(Level::default()).0;
        Arc::new(List { segments: Mutex::default(), level, wants_frames: AtomicBool::default(), bytes_max })
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
        let commit =
            CommittedEvents { first, envelopes: envelopes.cloned().collect(), decoded: OnceLock::new() };
        let next = commit.end();
        let mut segment = Segment::of(commit);
        if self.wants_frames.load(Ordering::Relaxed) {
            segment.write_bytes = segment.framed(framing).bytes.len();
        }
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = segments.queue.back() {
            assert!(newest.last() < first, "commits are published in order");
            if newest.last() + 1 < first {
                // A commit that was reported as failed has landed after all: readers find it in the
                // store.
                *segments = Segments::default();
            }
        }
        segments.push(segment, framing);
        while segments.bytes > self.bytes_max && segments.queue.len() > 1 {
            segments.drop_oldest();
        }
        drop(segments);
        self.mark_stored(next);
    }

    /// A reader of frames has come. Those of earlier events are made when the first reader asks for them.
    pub(crate) fn want_frames(&self) {
        self.wants_frames.store(true, Ordering::Relaxed);
    }

    /// Whether anybody holds a cursor in it.
    pub(crate) fn is_followed(&self) -> bool {
        self.level.receiver_count() > 0
    }

    /// Takes note of commits up to before `next` without their events: readers find them in the store.
    pub(crate) fn pass_over(&self, next: u64) {
        *self.segments.lock().unwrap_or_else(PoisonError::into_inner) = Segments::default();
        // After the events have gone, so that nobody who hears of it finds a list that ends too early.
        self.mark_stored(next);
    }

    /// Lets go of all events up to a cursor: what was taken away from the store is not handed out from here
    /// either.
    pub(crate) fn forget(&self, last: u64) {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        while segments.queue.front().is_some_and(|oldest| oldest.first() <= last) {
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

    /// How long all events and frames are together.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Whether the event at a cursor is here.
    pub(crate) fn reaches(&self, cursor: u64) -> bool {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.queue.front().is_some_and(|oldest| oldest.first() <= cursor)
    }

    /// Whether the event at a cursor is here, and not only one before it.
    pub(crate) fn holds(&self, cursor: u64) -> bool {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(oldest), Some(newest)) = (segments.queue.front(), segments.queue.back()) else {
            return false;
        };
        (oldest.first()..=newest.last()).contains(&cursor)
    }

    /// Events from `cursor` on: those of one commit, or of some that lie together. They are decoded once for all
    /// readers. `None` when the one at the cursor is not here, or one cannot be read.
    pub(crate) fn events(&self, cursor: u64) -> Option<Vec<Arc<SharedEvent>>> {
        let commits: Vec<Arc<CommittedEvents>> = {
            let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
            let segment =
                segments.queue.get(segments.at(cursor)).filter(|segment| segment.first() <= cursor)?;
            segment.commits.iter().filter(|commit| commit.end() > cursor).cloned().collect()
        };
        let mut events = Vec::new();
        for commit in commits {
            let skip = usize::try_from(cursor.saturating_sub(commit.first)).ok()?;
            events.extend_from_slice(&commit.decoded()?[skip..]);
        }
        Some(events)
    }

    /// Envelopes from `cursor` on, as they were committed. `None` when the one at the cursor is not here.
    pub(crate) fn envelopes(&self, cursor: u64) -> Option<Vec<(u64, Bytes)>> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let segment = segments.queue.get(segments.at(cursor)).filter(|segment| segment.first() <= cursor)?;
        let numbered = |commit: &Arc<CommittedEvents>| {
            (commit.first..).zip(commit.envelopes.iter().cloned()).collect::<Vec<_>>()
        };
        Some(segment.commits.iter().flat_map(numbered).filter(|(at, _)| *at >= cursor).collect())
    }

    /// Frames from `cursor` on, as many as fit one write.
    pub(crate) fn take(&self, cursor: u64, framing: &dyn Framing) -> Found {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(oldest), Some(newest)) = (segments.queue.front(), segments.queue.back()) else {
            return Found::Nothing;
        };
        if cursor > newest.last() {
            return Found::Nothing;
        }
        if cursor < oldest.first() {
            return Found::Fallen;
        }
        let start = segments.at(cursor);
        let Segments { queue, bytes: all, .. } = &mut *segments;
        let mut pieces = Vec::new();
        let mut bytes = 0;
        let mut next = cursor;
        for segment in queue.iter_mut().skip(start) {
            *all -= segment.bytes;
            let piece = segment.framed_from(next, framing);
            *all += segment.bytes;
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
        list.want_frames();
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
        match (list.take(cursor, &Numbered), expected) {
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
            while let Found::Frames(bytes, after) = list.take(next, &Numbered) {
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
        let (Found::Frames(one, _), Found::Frames(other, _)) =
            (list.take(10, &Numbered), list.take(10, &Numbered))
        else {
            panic!("the list reaches back to its start")
        };
        assert_eq!(one.as_ptr(), other.as_ptr());
    }

    #[test]
    fn what_falls_off_is_counted_off() {
        let list = list(1 << 10, &[&["a"; 100], &["b"; 100], &["c"; 100], &["d"; 100]]);
        let segments = list.segments.lock().unwrap();
        let sum = |bytes: fn(&Segment) -> usize| segments.queue.iter().map(bytes).sum::<usize>();
        assert_eq!(
            (segments.bytes, segments.loose_bytes, segments.loose),
            (sum(|segment| segment.bytes), sum(|segment| segment.write_bytes), segments.queue.len())
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
