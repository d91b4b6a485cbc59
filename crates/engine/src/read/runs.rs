//! The events of one run: its beginning, pages, followed, and its end. It must not know the content of other events.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{Code, Payload, RunId};
use recount_log::{Damage, End, ReadBound, StreamKey, Tail};

use crate::boxed;
use crate::ground::error::{run_erased, run_not_found};
use crate::ground::journal;
use crate::read::handle::ReadHandle;
use crate::read::join::Join;
use crate::read::live::List;
use crate::{Error, Events, Subscription, limits};

/// `run.queued` is the first event of a run, or the second if it resumes another run.
const BEGINNING: usize = 2;

/// A page of events. `next` continues it, also if no scanned event matched.
#[derive(Debug, Clone)]
pub struct EventPage {
    pub events: Vec<(u64, Bytes)>,
    pub next: Option<u64>,
    pub has_more: bool,
    /// Damaged events that cannot be read; `next` continues after them.
    pub damage: Option<Damage>,
}

impl EventPage {
    /// The events after a cursor.
    pub(crate) fn after(after: Option<u64>, (events, has_more): (Vec<(u64, Bytes)>, bool)) -> Self {
        let next = events.last().map(|(cursor, _)| *cursor).or(after);
        EventPage { events, next, has_more, damage: None }
    }

    /// Damaged events in place of events. `last` is the last event of all.
    pub(crate) fn skipping((damage, range): (Damage, RangeInclusive<u64>), last: u64) -> Self {
        let (next, has_more) = (Some(*range.end()), *range.end() < last);
        EventPage { events: Vec::new(), next, has_more, damage: Some(damage) }
    }
}

/// The digest of a run's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    pub events: u64,
    pub head: String,
    /// The first stored event, and the chain value before it.
    pub first_sequence: u64,
    pub start: String,
}

/// Waits for the ending of one run.
pub struct RunEnd(Arc<List>);

impl RunEnd {
    /// Returns when the run has ended.
    #[boxed]
    pub async fn reached(&self) {
        if self.0.watch().wait_for(|state| state.end.is_some()).await.is_err() {
            // The list lives as long as this value, so the channel stays open.
        }
    }
}

impl ReadHandle {
    /// Stored bytes of a run's events after a sequence, and whether there are more. A jump at the beginning means
    /// that the events between were pruned.
    #[boxed]
    pub async fn read_run(
        &self,
        run: RunId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<(u64, Bytes)>, bool), Error> {
        let stream = journal::stream_of(run);
        let tail = self.end_of(run).await?;
        let from = next_after(after, tail.next_sequence, "sequence")?;
        let bound = ReadBound { count: limit, bytes: limits::PAGE_BYTES.max(limit * 512) };
        let found = self.ground().store().read(&stream, from, bound).await?;
        if found.is_empty() && from < tail.next_sequence {
            // It was erased in the meantime, or an invariant is broken.
            self.end_of(run).await?;
            return Err(Error::bug(format!("{run} has no event {from} although it ends later")));
        }
        let next = found.last().map_or(from, |record| record.sequence + 1);
        let records = found.into_iter().map(|record| (record.sequence, record.bytes)).collect();
        Ok((records, next < tail.next_sequence))
    }

    /// The same, with damaged events as a page of their own.
    #[boxed]
    pub async fn run_page(&self, run: RunId, after: Option<u64>, limit: usize) -> Result<EventPage, Error> {
        match self.read_run(run, after, limit).await {
            Ok(page) => Ok(EventPage::after(after, page)),
            Err(error) => {
                let skipped = error.into_skipped(|damage| damage.sequences.clone())?;
                let tail = self.tail(run).await?;
                Ok(EventPage::skipping(skipped, tail.map_or(0, |tail| tail.saturating_sub(1))))
            }
        }
    }

    /// Follows a run after a sequence, or from its start.
    #[boxed]
    pub async fn follow_run(&self, run: RunId, after: Option<u64>) -> Result<Subscription, Error> {
        Ok(Subscription::new(self.join(run, after).await?))
    }

    /// The same as decoded events. Pruned events are skipped.
    #[boxed]
    pub async fn follow_events(&self, run: RunId, after: Option<u64>) -> Result<Events, Error> {
        let stream = journal::stream_of(run);
        let list = self.publisher.run(&stream);
        let next = after.map_or(0, |after| after.saturating_add(1));
        let join = match list.holds(next) {
            // The list has this event, so it receives every later commit including the ending. These readers get no
            // notice that they are caught up, so the end of the store is not needed.
            true => self.joined(list.clone(), Some(stream.clone()), next, list.known_next()),
            false => self.join(run, after).await?,
        };
        Ok(Events::new(stream, join))
    }

    /// Registers a reader.
    async fn join(&self, run: RunId, after: Option<u64>) -> Result<Join, Error> {
        let stream = journal::stream_of(run);
        // First the list, then whether the run has ended, then the end of the stream: see [`Join`]. So a known ending
        // is before that end, published to the list or not.
        let list = self.publisher.run(&stream);
        let has_ended = self.catalogue().run(run).await?.is_some_and(|row| row.has_ended());
        let tail = self.end_of(run).await?;
        let next = next_after(after, tail.next_sequence, "sequence")?;
        if has_ended {
            list.mark_ended(tail.next_sequence);
        }
        Ok(self.joined(list, Some(stream), next, tail.next_sequence))
    }

    pub(crate) fn joined(
        &self,
        list: Arc<List>,
        stream: Option<StreamKey>,
        next: u64,
        watermark: u64,
    ) -> Join {
        Join::new(self.ground().store.clone(), self.publisher.clone(), list, stream, next, watermark)
    }

    /// The sequence of a run's next event, if the run exists.
    #[boxed]
    pub async fn tail(&self, run: RunId) -> Result<Option<u64>, Error> {
        let tail = self.ground().store().end(&journal::stream_of(run)).await?;
        Ok(tail.map(|tail| tail.next_sequence))
    }

    #[boxed]
    pub async fn digest(&self, run: RunId) -> Result<Digest, Error> {
        let tail = self.tail_of(run).await?;
        Ok(Digest {
            events: tail.next_sequence,
            head: tail.head.to_string(),
            first_sequence: tail.first_sequence,
            start: tail.start.to_string(),
        })
    }

    /// Subscribes to the ending of a run, also of one that has ended.
    #[boxed]
    pub async fn run_end(&self, run: RunId) -> Result<RunEnd, Error> {
        // First the list, then the row: a later ending is published to the list.
        let list = self.publisher.run(&journal::stream_of(run));
        let Some(row) = self.catalogue().run(run).await? else { return Err(run_not_found(run)) };
        if row.has_ended() {
            list.mark_ended(self.tail(run).await?.unwrap_or(0));
        }
        Ok(RunEnd(list))
    }

    /// The queued data of a run; `None` if they were pruned or the run does not exist.
    #[boxed]
    pub async fn queued(&self, run: RunId) -> Result<Option<Queued>, Error> {
        let stream = journal::stream_of(run);
        let bound = ReadBound { count: BEGINNING, bytes: limits::PAGE_BYTES };
        for record in self.ground().store().read(&stream, 0, bound).await? {
            let event = journal::decode(&record.bytes, &stream, record.sequence)?;
            if let Payload::RunQueued(queued) = event.payload() {
                return Ok(Some((**queued).clone()));
            }
        }
        Ok(None)
    }

    /// The event in another run from which this run continues; `None` if it does not, or if its beginning was pruned.
    #[boxed]
    pub async fn resumed_from(&self, run: RunId) -> Result<Option<ResumedFromEvent>, Error> {
        let stream = journal::stream_of(run);
        let bound = ReadBound { count: 1, bytes: limits::PAGE_BYTES };
        let Some(record) = self.ground().store().read(&stream, 0, bound).await?.into_iter().next() else {
            return Ok(None);
        };
        let event = journal::decode(&record.bytes, &stream, record.sequence)?;
        match event.payload() {
            Payload::RunResumedFromEvent(resumed) => Ok(Some((**resumed).clone())),
            _ => Ok(None),
        }
    }

    /// The first and the next sequence of an existing run.
    async fn end_of(&self, run: RunId) -> Result<End, Error> {
        match self.ground().store().end(&journal::stream_of(run)).await? {
            None => Err(run_not_found(run)),
            Some(end) if end.erased => Err(run_erased(run)),
            Some(end) => Ok(end),
        }
    }

    /// The same with the chain values.
    async fn tail_of(&self, run: RunId) -> Result<Tail, Error> {
        match self.ground().store().tail(&journal::stream_of(run)).await? {
            None => Err(run_not_found(run)),
            Some(tail) if tail.erased => Err(run_erased(run)),
            Some(tail) => Ok(tail),
        }
    }
}

/// The position after an exclusive cursor. Refuses a cursor beyond the end.
pub(crate) fn next_after(after: Option<u64>, tail: u64, what: &str) -> Result<u64, Error> {
    let next = after.map_or(0, |after| after.saturating_add(1));
    if next > tail {
        return Err(Error::rejected(
            Code::CursorAhead,
            format!(
                "the cursor is {what} {}, but the last {what} is {}",
                next - 1,
                tail.checked_sub(1).map_or("none".to_owned(), |last| last.to_string())
            ),
        ));
    }
    Ok(next)
}
