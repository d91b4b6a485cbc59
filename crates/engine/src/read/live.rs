//! The live tail of one stream: a shared, bounded list of stored events, with a cursor for each reader.
//!
//! Frames and decoded events are computed once and shared: frames at commit if there is a frame reader, decoded
//! events when the first reader needs them. The list is bounded in bytes: the oldest events are evicted, and slower
//! readers are served from the store. It never delays a writer. It must not depend on a protocol. Start with
//! [`List`].

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::{Bytes, BytesMut};
use recount_event::{Event, codec};
use tokio::sync::watch;

use crate::limits;

/// Encodes the frames of a face.
pub trait Framing: Send + Sync + 'static {
    /// Appends the frame of an event. `cursor` is its sequence or position. Called on threads of the store.
    fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut);
}

/// A decoded event. Each face can store one derived value with it, by type.
pub struct SharedEvent {
    event: Event,
    derived: [OnceLock<Arc<dyn Any + Send + Sync>>; limits::FACE_SLOTS],
}

impl SharedEvent {
    pub(crate) fn new(event: Event) -> Self {
        SharedEvent { event, derived: Default::default() }
    }

    /// The derived value of type `T`: computed for the first reader and shared with all others.
    pub fn derived<T: Send + Sync + 'static>(&self, make: impl Fn(&Event) -> T) -> Arc<T> {
        for slot in &self.derived {
            let value = slot.get_or_init(|| Arc::new(make(&self.event)));
            if let Ok(value) = value.clone().downcast() {
                return value;
            }
        }
        Arc::new(make(&self.event))
    }
}

impl std::ops::Deref for SharedEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

/// The events of one commit.
struct CommittedEvents {
    first: u64,
    envelopes: Vec<Bytes>,
    /// `None`: one of them cannot be decoded.
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

/// Concatenated frames.
struct FrameBuffer {
    bytes: Bytes,
    /// The end of each frame in `bytes`.
    ends: Vec<usize>,
}

/// Adjacent commits.
struct Segment {
    commits: Vec<Arc<CommittedEvents>>,
    /// `None` if they were committed before there was a frame reader.
    framed: Option<FrameBuffer>,
    /// Bytes of events and frames.
    bytes: usize,
    /// Bytes for one write, as known when the segment was added.
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

    /// The frames; encodes them on first use.
    fn framed(&mut self, framing: &dyn Framing) -> &FrameBuffer {
        self.framed.get_or_insert_with(|| {
            let (mut bytes, mut ends) = (BytesMut::new(), Vec::new());
            for commit in &self.commits {
                for (cursor, envelope) in (commit.first..).zip(&commit.envelopes) {
                    framing.frame(cursor, envelope, &mut bytes);
                    ends.push(bytes.len());
                }
            }
            self.bytes += bytes.len();
            FrameBuffer { bytes: bytes.freeze(), ends }
        })
    }

    /// The frames from `cursor` on.
    fn framed_from(&mut self, cursor: u64, framing: &dyn Framing) -> Bytes {
        let skip = usize::try_from(cursor.saturating_sub(self.first())).unwrap_or(usize::MAX);
        let FrameBuffer { bytes, ends } = self.framed(framing);
        match skip.checked_sub(1).and_then(|before| ends.get(before)) {
            Some(start) => bytes.slice(*start..),
            None => bytes.clone(),
        }
    }
}

/// The state that readers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListState {
    /// The cursor after the last event that was published or is known to be in the store; 0 if none since the list
    /// was created.
    pub(crate) next: u64,
    /// The cursor after the last event, once the stream has ended.
    pub(crate) end: Option<u64>,
}

/// The result of a lookup at a cursor.
pub(crate) enum CursorLookup {
    /// Frames, merged for one write, and the cursor after them.
    Frames(Bytes, u64),
    /// Evicted, or never in the list: read the store.
    Evicted,
    /// Not published yet.
    Nothing,
}

pub(crate) struct List {
    segments: Mutex<Segments>,
    state: watch::Sender<ListState>,
    /// Whether there was a frame reader, so that frames are encoded at commit.
    has_frame_readers: AtomicBool,
    bytes_max: usize,
}

#[derive(Default)]
struct Segments {
    queue: VecDeque<Segment>,
    bytes: usize,
    /// The number of newest segments that may still be merged, and their bytes in one write.
    loose: usize,
    loose_bytes: usize,
}

impl Segments {
    /// Adds the newest segment. When the segments before it fill a write, they are merged, so that slower readers
    /// share bytes and nothing is copied for each.
    fn push(&mut self, segment: Segment, framing: &dyn Framing) {
        if self.loose_bytes + segment.write_bytes > limits::MERGE_BYTES_MAX {
            self.merge_loose(framing);
        }
        self.bytes += segment.bytes;
        self.loose += 1;
        self.loose_bytes += segment.write_bytes;
        self.queue.push_back(segment);
    }

    fn merge_loose(&mut self, framing: &dyn Framing) {
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
            FrameBuffer { bytes: bytes.freeze(), ends }
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

    /// The index of the segment with a cursor, or of the next one.
    fn at(&self, cursor: u64) -> usize {
        self.queue.partition_point(|segment| segment.last() < cursor)
    }
}

impl List {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        let state = watch::channel(ListState::default()).0;
        Arc::new(List {
            segments: Mutex::default(),
            state,
            has_frame_readers: AtomicBool::default(),
            bytes_max,
        })
    }

    pub(crate) fn watch(&self) -> watch::Receiver<ListState> {
        self.state.subscribe()
    }

    /// The cursor after the last known event; 0 if none.
    pub(crate) fn known_next(&self) -> u64 {
        self.state.borrow().next
    }

    /// Adds the records of one commit, with contiguous cursors from `first`. Only the publisher may call this, and
    /// only with records that the store has confirmed.
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
        if self.has_frame_readers.load(Ordering::Relaxed) {
            segment.write_bytes = segment.framed(framing).bytes.len();
        }
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = segments.queue.back() {
            assert!(newest.last() < first, "commits are published in order");
            if newest.last() + 1 < first {
                // A commit that was reported as failed was written after all; readers find it in the store.
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

    /// Called for a new frame reader. Frames of earlier events are encoded on first use.
    pub(crate) fn enable_frames(&self) {
        self.has_frame_readers.store(true, Ordering::Relaxed);
    }

    /// Whether any reader has a cursor in it.
    pub(crate) fn is_followed(&self) -> bool {
        self.state.receiver_count() > 0
    }

    /// Skips the events before `next`: readers find them in the store.
    pub(crate) fn skip_to(&self, next: u64) {
        *self.segments.lock().unwrap_or_else(PoisonError::into_inner) = Segments::default();
        // After the events are dropped, so that no woken reader finds a list that ends too early.
        self.mark_stored(next);
    }

    /// Drops all events up to a cursor, because they were removed from the store.
    pub(crate) fn forget(&self, last: u64) {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        while segments.queue.front().is_some_and(|oldest| oldest.first() <= last) {
            segments.drop_oldest();
        }
    }

    /// Notifies readers that everything before `next` is in the store, published here or not.
    pub(crate) fn mark_stored(&self, next: u64) {
        self.state.send_if_modified(|state| {
            let more = next > state.next;
            state.next = state.next.max(next);
            more
        });
    }

    /// Notifies readers that the stream ends at `end`. Not all events before it may have been published.
    pub(crate) fn mark_ended(&self, end: u64) {
        self.state.send_modify(|state| state.end = state.end.max(Some(end)));
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.borrow().end.is_some()
    }

    /// Bytes of all events and frames.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Whether the list starts at or before a cursor.
    pub(crate) fn reaches(&self, cursor: u64) -> bool {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.queue.front().is_some_and(|oldest| oldest.first() <= cursor)
    }

    /// Whether the event at a cursor is in the list.
    pub(crate) fn holds(&self, cursor: u64) -> bool {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(oldest), Some(newest)) = (segments.queue.front(), segments.queue.back()) else {
            return false;
        };
        (oldest.first()..=newest.last()).contains(&cursor)
    }

    /// Events from `cursor` on, of one or several adjacent commits. They are decoded once for all readers. `None` if
    /// the first one is not in the list, or one cannot be decoded.
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

    /// Envelopes from `cursor` on, as committed. `None` if the first one is not in the list.
    pub(crate) fn envelopes(&self, cursor: u64) -> Option<Vec<(u64, Bytes)>> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let segment = segments.queue.get(segments.at(cursor)).filter(|segment| segment.first() <= cursor)?;
        let numbered = |commit: &Arc<CommittedEvents>| {
            (commit.first..).zip(commit.envelopes.iter().cloned()).collect::<Vec<_>>()
        };
        Some(segment.commits.iter().flat_map(numbered).filter(|(at, _)| *at >= cursor).collect())
    }

    /// Frames from `cursor` on, as many as fit one write.
    pub(crate) fn take(&self, cursor: u64, framing: &dyn Framing) -> CursorLookup {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(oldest), Some(newest)) = (segments.queue.front(), segments.queue.back()) else {
            return CursorLookup::Nothing;
        };
        if cursor > newest.last() {
            return CursorLookup::Nothing;
        }
        if cursor < oldest.first() {
            return CursorLookup::Evicted;
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
        CursorLookup::Frames(merge(pieces, bytes), next)
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
        list.enable_frames();
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
            (CursorLookup::Frames(bytes, next), Ok((text, after))) => {
                assert_eq!((std::str::from_utf8(&bytes).unwrap(), next), (text, after));
            }
            (CursorLookup::Evicted, Err("evicted")) | (CursorLookup::Nothing, Err("nothing")) => {}
            (CursorLookup::Frames(bytes, next), other) => panic!("{bytes:?} to {next}, not {other:?}"),
            (CursorLookup::Evicted, other) => panic!("evicted, not {other:?}"),
            (CursorLookup::Nothing, other) => panic!("nothing, not {other:?}"),
        }
    }

    #[test]
    fn a_reader_gets_everything_from_its_cursor_in_one_piece() {
        let list = list(1 << 20, &[&["a", "b"], &["c"], &["d", "e"]]);
        check(&list, 10, Ok(("10:a\n11:b\n12:c\n13:d\n14:e\n", 15)));
        check(&list, 11, Ok(("11:b\n12:c\n13:d\n14:e\n", 15)));
        check(&list, 14, Ok(("14:e\n", 15)));
        check(&list, 15, Err("nothing"));
        check(&list, 9, Err("evicted"));
    }

    #[test]
    fn the_oldest_events_are_evicted() {
        let list = list(12, &[&["a", "b"], &["c"], &["d", "e"]]);
        check(&list, 10, Err("evicted"));
        check(&list, 13, Ok(("13:d\n14:e\n", 15)));
        assert_eq!(list.watch().borrow().next, 15);
    }

    #[test]
    fn an_unobserved_commit_is_read_from_the_store() {
        let list = list(1 << 20, &[&["a", "b"]]);
        list.push_committed(&Numbered, 14, [Bytes::from_static(b"e")].iter());
        check(&list, 11, Err("evicted"));
        check(&list, 12, Err("evicted"));
        check(&list, 14, Ok(("14:e\n", 15)));
    }

    #[test]
    fn segments_that_fill_a_write_are_merged_without_changes() {
        let text: &'static str = Box::leak("x".repeat(limits::MERGE_BYTES_MAX / 10).into_boxed_str());
        let commits: Vec<&[&'static str]> = vec![std::slice::from_ref(&text); 35];
        let list = list(1 << 20, &commits);
        assert!(list.segments.lock().unwrap().queue.len() < 15, "old segments are contiguous");
        for start in 10..45 {
            let (mut next, mut got) = (start, Vec::new());
            while let CursorLookup::Frames(bytes, after) = list.take(next, &Numbered) {
                assert!(bytes.len() <= limits::MERGE_BYTES_MAX);
                got.extend_from_slice(&bytes);
                next = after;
            }
            let expected: String = (start..45).map(|cursor| format!("{cursor}:{text}\n")).collect();
            assert!(next == 45 && got == expected.as_bytes(), "from {start}");
        }
    }

    #[test]
    fn late_readers_share_the_same_bytes() {
        let text: &'static str = Box::leak("x".repeat(limits::MERGE_BYTES_MAX / 10).into_boxed_str());
        let commits: Vec<&[&'static str]> = vec![std::slice::from_ref(&text); 35];
        let list = list(1 << 20, &commits);
        let (CursorLookup::Frames(one, _), CursorLookup::Frames(other, _)) =
            (list.take(10, &Numbered), list.take(10, &Numbered))
        else {
            panic!("the list reaches back to its start")
        };
        assert_eq!(one.as_ptr(), other.as_ptr());
    }

    #[test]
    fn evicted_segments_are_subtracted_from_the_counts() {
        let list = list(1 << 10, &[&["a"; 100], &["b"; 100], &["c"; 100], &["d"; 100]]);
        let segments = list.segments.lock().unwrap();
        let sum = |bytes: fn(&Segment) -> usize| segments.queue.iter().map(bytes).sum::<usize>();
        assert_eq!(
            (segments.bytes, segments.loose_bytes, segments.loose),
            (sum(|segment| segment.bytes), sum(|segment| segment.write_bytes), segments.queue.len())
        );
    }

    #[test]
    fn forgotten_events_are_read_from_the_store() {
        let list = list(1 << 20, &[&["a", "b"], &["c"], &["d", "e"]]);
        list.forget(9);
        check(&list, 10, Ok(("10:a\n11:b\n12:c\n13:d\n14:e\n", 15)));
        list.forget(12);
        check(&list, 12, Err("evicted"));
        check(&list, 13, Ok(("13:d\n14:e\n", 15)));
        list.forget(13);
        check(&list, 14, Err("nothing"));
        assert_eq!(list.watch().borrow().next, 15, "the store has all events up to here");
    }

    #[test]
    fn events_without_a_reader_are_read_from_the_store() {
        let list = list(1 << 20, &[&["a", "b"]]);
        assert!(!list.is_followed());
        list.skip_to(15);
        let follower = list.watch();
        assert!(list.is_followed() && follower.borrow().next == 15);
        check(&list, 11, Err("nothing"));
        list.push_committed(&Numbered, 15, [Bytes::from_static(b"f")].iter());
        check(&list, 14, Err("evicted"));
        check(&list, 15, Ok(("15:f\n", 16)));
        drop(follower);
        assert!(!list.is_followed());
    }

    #[test]
    fn an_empty_list_has_nothing_yet() {
        check(&list(10, &[]), 0, Err("nothing"));
    }
}
