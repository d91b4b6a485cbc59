//! The engine as faces see it: create, submit, read, follow, list, shut down.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{Code, Draft, Minter, RunId, SessionId, Stamp, TaskId};
use recount_log::{
    Append, Damage, End, Guard, Integrity, ReadBound, RowPut, RowRange, Store, StreamKey, Tail, WholeRows,
};
use recount_redact::Redactor;
use recount_run::Command;
use recount_world::World;
use serde::de::DeserializeOwned;

use crate::artifact::{Blobs, Quotas};
use crate::catalogue;
use crate::dispatch::Dispatch;
use crate::error::{Failure, run_erased};
use crate::follow::Join;
use crate::fresh::Fresh;
use crate::import::{self, Import, Imported, Taken};
use crate::ingest::Triple;
use crate::live::{Framing, List};
use crate::metered::Metered;
use crate::meters::{EngineStats, Meters};
use crate::once::{Doing, Once};
use crate::publish::Publisher;
use crate::redaction::{Redaction, SessionRedactions};
use crate::sealed::{SEAL_KEY_BYTES, Seal};
use crate::sieve::{Sieve, Sifter};
use crate::subscribe::Subscription;
use crate::timers::Timers;
use crate::writer::{Receipt, Tools, Work, run_not_found};
use crate::writers::Writers;
use crate::{Error, Events, Narrowing, Profiles, RunRow, Whose, journal, limits, rows};

/// A run to be.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub queued: Queued,
    pub task: Option<TaskId>,
    pub session: Option<SessionId>,
    /// Where in another run this one goes on from.
    pub resumed_from: Option<ResumedFromEvent>,
}

/// Which part of a list is wanted. Lists run from the newest to the oldest.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only things older than the one with this id.
    pub after: Option<String>,
    pub limit: usize,
    pub status: Option<String>,
}

/// Which runs, or which tasks by their latest run, are wanted; where a part is missing it does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub status: Option<String>,
    pub kind: Option<String>,
    /// Whether somebody must answer something before it can go on.
    pub needs_attention: Option<bool>,
    /// A part of a title or of a last message, in whatever case.
    pub text: Option<String>,
}

impl RunFilter {
    pub fn is_open(&self) -> bool {
        *self == RunFilter::default()
    }

    pub fn takes(&self, row: &RunRow) -> bool {
        self.takes_what(&row.status, Some(&row.kind), !row.pending.is_empty(), &[&row.title, &row.message])
    }

    /// The same of something that has a run or none.
    pub fn takes_what(
        &self,
        status: &str,
        kind: Option<&str>,
        needs_attention: bool,
        texts: &[&Option<String>],
    ) -> bool {
        let said = |part: &str| {
            let holds = |text: &String| text.to_lowercase().contains(part);
            texts.iter().any(|text| text.as_ref().is_some_and(holds))
        };
        self.status.as_deref().is_none_or(|wanted| wanted == status)
            && self.kind.as_deref().is_none_or(|wanted| Some(wanted) == kind)
            && self.needs_attention.is_none_or(|wanted| wanted == needs_attention)
            && self.text.as_ref().is_none_or(|part| said(&part.to_lowercase()))
    }
}

/// A part of a list. `next` continues it, also when nothing of what was looked at was wanted.
#[derive(Debug, Clone)]
pub struct Listed<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
    pub has_more: bool,
    /// Rows, as space and key, that belong to the list or may, and cannot be read because their bytes are damaged.
    pub damaged: Vec<String>,
}

impl<T> Listed<T> {
    /// Each once.
    pub(crate) fn name_damaged(&mut self, rows: Vec<String>) {
        rows.into_iter().for_each(|row| {
            if !self.damaged.contains(&row) {
                self.damaged.push(row);
            }
        });
    }
}

/// A page of the feed. `next` continues it, also when nothing of what was looked at was wanted.
#[derive(Debug, Clone)]
pub struct FeedPage {
    pub events: Vec<(u64, Bytes)>,
    pub next: Option<u64>,
    pub has_more: bool,
    /// Events that cannot be read because their bytes are damaged; `next` goes on after them.
    pub damage: Option<Damage>,
}

/// See [`Engine::instance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EngineInstance(usize);

/// What a run's bytes add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    pub events: u64,
    pub head: String,
    /// The first event that is left, and the chain before it.
    pub first_sequence: u64,
    pub start: String,
}

/// See the crate's head for what it promises. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) tools: Arc<Tools>,
    pub(crate) writers: Arc<Writers>,
    minter: Arc<Mutex<Minter>>,
    /// One prune or deletion at a time.
    pub(crate) housekeeping: Arc<tokio::sync::Mutex<()>>,
    pub(crate) doing: Arc<Doing>,
}

impl Engine {
    /// Starts on a store. Nothing else may write to it from now on. Secrets are known by their shapes alone.
    pub async fn open(store: Arc<dyn Store>, world: World, framing: Arc<dyn Framing>) -> Result<Self, Error> {
        Engine::open_with(store, world, framing, Arc::new(Redactor::shapes())).await
    }

    /// The same with more, or less, that counts as a secret.
    pub async fn open_with(
        store: Arc<dyn Store>,
        world: World,
        framing: Arc<dyn Framing>,
        redactor: Arc<Redactor>,
    ) -> Result<Self, Error> {
        Engine::open_with_key(store, world, framing, redactor, None).await
    }

    /// The same with a key that is kept elsewhere, under which originals are sealed that stay when the process ends.
    pub async fn open_with_key(
        store: Arc<dyn Store>,
        world: World,
        framing: Arc<dyn Framing>,
        redactor: Arc<Redactor>,
        key: Option<[u8; SEAL_KEY_BYTES]>,
    ) -> Result<Self, Error> {
        let meters = Arc::new(Meters::default());
        let metered = Metered::new(store, meters.clone());
        let repairs = metered.repairs.clone();
        let store: Arc<dyn Store> = Arc::new(metered);
        let publisher = Publisher::new(framing, meters);
        store.observe(publisher.clone());
        let timers = Arc::new(Timers::default());
        catalogue::restore(&*store).await?;
        timers.load(&*store, &world).await?;
        let redaction = Redaction::new(redactor);
        let (dispatch, performer) = (Dispatch::default(), OnceLock::new());
        let (blobs, quotas, seal) = (Blobs::new(store.clone()), Quotas::default(), Seal::new(key));
        let tools = Arc::new(Tools {
            store,
            repairs,
            world,
            publisher,
            timers,
            redaction,
            session_redactions: SessionRedactions::default(),
            blobs,
            quotas,
            seal,
            dispatch,
            performer,
            profiles: OnceLock::new(),
            fresh: Fresh::default(),
        });
        tools.dispatch.find_lost(&*tools.store).await?;
        let writers = Writers::new(tools.clone());
        tools.timers.start(&tools.world, &writers);
        let engine = Engine {
            tools,
            writers,
            minter: Arc::default(),
            housekeeping: Arc::default(),
            doing: Arc::default(),
        };
        engine.finish_deletions();
        engine.look_after_blobs();
        Ok(engine)
    }

    /// What is masked before it is appended, for all who put what they were told into words elsewhere.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.tools.redaction.redactor
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.tools.store
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { now_ms: self.tools.world.clock.now_ms(), entropy: self.tools.world.entropy.draw() }
    }

    /// What is minted from now on is later than this, although the clock may have been set back.
    pub(crate) fn mint_after(&self, other: ulid::Ulid) {
        // The ids right behind it may be taken, also by what was erased since: so it is one of the next millisecond.
        let later = ulid::Ulid::from_parts(other.timestamp_ms() + 1, self.tools.world.entropy.draw());
        self.minter.lock().unwrap_or_else(PoisonError::into_inner).pass(later);
    }

    pub(crate) fn mint(&self, stamp: Stamp) -> ulid::Ulid {
        self.minter.lock().unwrap_or_else(PoisonError::into_inner).mint(stamp)
    }

    // ---- commands ----------------------------------------------------------------------------

    /// Creates a run; its first event is durable when this answers.
    pub async fn create_run(&self, new: NewRun) -> Result<(RunId, Receipt), Error> {
        self.create_run_once(new, None).await
    }

    /// The same for a request that is to be done once.
    pub async fn create_run_once(&self, new: NewRun, once: Option<&Once>) -> Result<(RunId, Receipt), Error> {
        if let Some(task) = new.task
            && self.task(task).await?.is_none()
        {
            return Err(self.missing_task(task).await);
        }
        if let Some(session) = new.session
            && self.session(session).await?.is_none()
        {
            return Err(self.missing_session(session).await);
        }
        self.queue(new, Vec::new(), once).await
    }

    /// Submits a command to a run. `None`: there was nothing to write.
    pub async fn submit(&self, run: RunId, command: Command) -> Result<Option<Receipt>, Error> {
        self.writers.ask(run, Work::Command(command)).await
    }

    /// Appends a batch from the producer of an external run, exactly once for each triple.
    pub async fn ingest(&self, run: RunId, triple: Triple, drafts: Vec<Draft>) -> Result<Receipt, Error> {
        if drafts.is_empty() {
            return Err(Error::rejected(Code::BodyMalformed, "a batch without events; send at least one"));
        }
        if drafts.len() > limits::BATCH_EVENTS_MAX {
            return Err(Error::rejected(
                Code::LimitReached,
                format!("{} events in one batch; send at most {}", drafts.len(), limits::BATCH_EVENTS_MAX),
            ));
        }
        let receipt = self.writers.ask(run, Work::Ingest(triple, drafts)).await?;
        receipt.ok_or_else(|| Error::bug("an accepted batch has no receipt"))
    }

    /// Takes a whole run from elsewhere, with its ids and its bytes, or nothing of it.
    pub async fn import(&self, import: Import) -> Result<Imported, Error> {
        let run = import.run;
        self.tools.fresh.forget_lately();
        match import::judge_and_append(self.store(), import).await {
            Ok(Taken { imported, ended, deadline }) => {
                if imported.is_new {
                    if ended {
                        self.tools.publisher.mark_ended(&journal::stream_of(run), imported.events);
                    }
                    self.tools.timers.set(run, deadline, &self.tools.world);
                }
                Ok(imported)
            }
            Err(error) => {
                // It may be in the log all the same; where it is not, looking finds nothing.
                if matches!(error, Error::Failed(_)) {
                    self.tools.timers.look_again(run, &self.tools.world);
                }
                Err(error)
            }
        }
    }

    /// The run that a task, or a session, is busy with: of a session one of ours that has not ended.
    pub async fn active_run(&self, whose: impl Into<Whose>) -> Result<Option<RunId>, Error> {
        let (space, key) = match whose.into() {
            Whose::Task(task) => (rows::TASK_ACTIVE, task.to_string()),
            Whose::Session(session) => (rows::SESSION_ACTIVE, session.to_string()),
        };
        let text: Option<String> = self.row(space, &key).await?;
        text.map(|text| text.parse().map_err(|why| Error::bug(format!("the active run of {key}: {why}"))))
            .transpose()
    }

    // ---- agents ------------------------------------------------------------------------------

    /// The agents that applications may work with. The first to say so is right.
    pub fn introduce(&self, profiles: Arc<Profiles>) {
        if self.tools.profiles.set(profiles).is_err() {
            tracing::warn!("agents were introduced before; those stay");
        }
    }

    /// The agents that were introduced; none before that.
    pub fn profiles(&self) -> &Profiles {
        static NONE: LazyLock<Profiles> = LazyLock::new(Profiles::default);
        self.tools.profiles.get().map_or(&NONE, |profiles| profiles)
    }

    // ---- reading -----------------------------------------------------------------------------

    /// Stored bytes of a run's events after a sequence, and whether there are more. Where the first of them is
    /// not the one after it, those between were pruned.
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
        let found = self.store().read(&stream, from, bound).await?;
        if found.is_empty() && from < tail.next_sequence {
            // It was erased in the meantime, or something is very wrong.
            self.end_of(run).await?;
            return Err(Error::bug(format!("{run} has nothing at {from} although it ends later")));
        }
        let next = found.last().map_or(from, |record| record.sequence + 1);
        let records = found.into_iter().map(|record| (record.sequence, record.bytes)).collect();
        Ok((records, next < tail.next_sequence))
    }

    /// Stored bytes of all runs' events after a position, and whether there are more.
    pub async fn read_feed(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<(u64, Bytes)>, bool), Error> {
        let last = self.store().last_position().await?;
        let from = next_after(after.or(Some(0)), last + 1, "position")?;
        self.not_below_retention(after).await?;
        let bound = ReadBound { count: limit, bytes: limits::PAGE_BYTES.max(limit * 512) };
        let found = self.store().read_feed(from, bound).await?;
        // Where nothing is left up to the end, there is no more.
        let next = found.last().map_or(last + 1, |found| found.record.position + 1);
        let records = found.into_iter().map(|found| (found.record.position, found.record.bytes)).collect();
        Ok((records, next <= last))
    }

    /// The same, of what passes a sieve. Looks at a bounded number of events, so that a page may be short, or empty,
    /// although there are more.
    pub async fn read_feed_of(
        &self,
        after: Option<u64>,
        limit: usize,
        sieve: Sieve,
    ) -> Result<FeedPage, Error> {
        let last = self.store().last_position().await?;
        let mut from = next_after(after.or(Some(0)), last + 1, "position")?;
        self.not_below_retention(after).await?;
        let sifter = Sifter::new(sieve, self.tools.store.clone());
        let mut events = Vec::new();
        let mut looked_at = 0;
        while events.len() < limit && looked_at < limits::FEED_SCAN_MAX && from <= last {
            let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
            let found = match self.store().read_feed(from, bound).await {
                Ok(found) => found,
                Err(fault) => match fault.damage.as_deref().and_then(|damage| damage.positions.clone()) {
                    // What stands before it is given first.
                    Some(_) if !events.is_empty() => break,
                    Some(positions) => {
                        let (next, damage) = (Some(*positions.end()), fault.damage.map(|damage| *damage));
                        return Ok(FeedPage { events, next, has_more: *positions.end() < last, damage });
                    }
                    None => return Err(fault.into()),
                },
            };
            looked_at += found.len();
            // Where nothing is left up to the end, there is no more.
            let end = found.last().map_or(last + 1, |found| found.record.position + 1);
            let mut wanted = sifter.sift(found).await?;
            let room = limit - events.len();
            // The cursor stays before what finds no room.
            from = wanted.get(room).map_or(end, |first_left| first_left.record.position);
            wanted.truncate(room);
            events.extend(wanted.into_iter().map(|found| (found.record.position, found.record.bytes)));
        }
        let next = if from > 1 { Some(from - 1) } else { after };
        Ok(FeedPage { events, next, has_more: from <= last, damage: None })
    }

    /// Follows a run from after a sequence, or from its start.
    pub async fn follow_run(&self, run: RunId, after: Option<u64>) -> Result<Subscription, Error> {
        Ok(Subscription::new(self.join(run, after).await?))
    }

    /// The same as events, for those who make something of them. What was pruned of a run is passed over.
    pub async fn follow_events(&self, run: RunId, after: Option<u64>) -> Result<Events, Error> {
        let stream = journal::stream_of(run);
        let list = self.tools.publisher.run(&stream);
        let next = after.map_or(0, |after| after.saturating_add(1));
        let join = match list.holds(next) {
            // What is there was committed since there is a list, and so the list is told of everything behind it, an
            // ending included. Such a reader is not told when it is level, so nobody has to look how far the store is.
            true => self.joined(list.clone(), Some(stream.clone()), next, list.known_next()),
            false => self.join(run, after).await?,
        };
        Ok(Events::new(stream, join))
    }

    /// Where a reader comes in.
    async fn join(&self, run: RunId, after: Option<u64>) -> Result<Join, Error> {
        let stream = journal::stream_of(run);
        // First the list, then whether the run has ended, then where its stream ends: see [`Join`]. An
        // ending that is known of then lies before that place, told to the list already or not.
        let list = self.tools.publisher.run(&stream);
        let has_ended = self.run(run).await?.is_some_and(|row| row.has_ended());
        let tail = self.end_of(run).await?;
        let next = next_after(after, tail.next_sequence, "sequence")?;
        if has_ended {
            list.mark_ended(tail.next_sequence);
        }
        Ok(self.joined(list, Some(stream), next, tail.next_sequence))
    }

    fn joined(&self, list: Arc<List>, stream: Option<StreamKey>, next: u64, watermark: u64) -> Join {
        Join::new(self.tools.store.clone(), self.tools.publisher.clone(), list, stream, next, watermark)
    }

    /// Follows all runs from after a position, or from the start.
    pub async fn follow_feed(&self, after: Option<u64>) -> Result<Subscription, Error> {
        let list = self.tools.publisher.feed();
        let last = self.store().last_position().await?;
        let next = next_after(after.or(Some(0)), last + 1, "position")?;
        self.not_below_retention(after).await?;
        Ok(Subscription::new(self.joined(list, None, next, last + 1)))
    }

    /// The same, of what passes a sieve. Such a reader is served from the store.
    pub async fn follow_feed_of(&self, after: Option<u64>, sieve: Sieve) -> Result<Subscription, Error> {
        let subscription = self.follow_feed(after).await?;
        Ok(subscription.sifted(Sifter::new(sieve, self.tools.store.clone())))
    }

    /// Where the feed ends now; 0 when nothing has happened yet.
    pub async fn last_position(&self) -> Result<u64, Error> {
        Ok(self.store().last_position().await?)
    }

    /// Where a run ends, if it exists: the sequence its next event will get.
    pub async fn tail(&self, run: RunId) -> Result<Option<u64>, Error> {
        let tail = self.store().end(&journal::stream_of(run)).await?;
        Ok(tail.map(|tail| tail.next_sequence))
    }

    pub async fn digest(&self, run: RunId) -> Result<Digest, Error> {
        let tail = self.tail_of(run).await?;
        Ok(Digest {
            events: tail.next_sequence,
            head: tail.head.to_string(),
            first_sequence: tail.first_sequence,
            start: tail.start.to_string(),
        })
    }

    /// Where a run that is there begins and ends.
    async fn end_of(&self, run: RunId) -> Result<End, Error> {
        match self.store().end(&journal::stream_of(run)).await? {
            None => Err(run_not_found(run)),
            Some(end) if end.erased => Err(run_erased(run)),
            Some(end) => Ok(end),
        }
    }

    /// The same, with what its events add up to.
    async fn tail_of(&self, run: RunId) -> Result<Tail, Error> {
        match self.store().tail(&journal::stream_of(run)).await? {
            None => Err(run_not_found(run)),
            Some(tail) if tail.erased => Err(run_erased(run)),
            Some(tail) => Ok(tail),
        }
    }

    // ---- lists -------------------------------------------------------------------------------

    pub async fn run(&self, run: RunId) -> Result<Option<RunRow>, Error> {
        self.row(rows::RUNS, &rows::tenant_key(run)).await
    }

    /// Runs that a filter takes, newest first.
    pub async fn list_runs_of_interest(
        &self,
        query: &ListQuery,
        filter: &RunFilter,
        within: &Narrowing,
    ) -> Result<Listed<RunRow>, Error> {
        let admits = |row: &RunRow| {
            let task = row.task_id.as_ref().and_then(|task| task.parse().ok());
            let session = row.session_id.as_ref().and_then(|session| session.parse().ok());
            within.is_none() || within.admits(task, session)
        };
        let is_filtered = !filter.is_open() || !within.is_none();
        let wants = |row: &RunRow| admits(row) && filter.takes(row);
        self.list_where(rows::RUNS, &rows::tenant_key(""), query, is_filtered, wants).await.map(Listed::from)
    }

    pub async fn list_runs(&self, query: &ListQuery) -> Result<Listed<RunRow>, Error> {
        let status = |row: &RunRow| row.status.clone();
        self.list(rows::RUNS, &rows::tenant_key(""), query, status).await.map(Listed::from)
    }

    /// The runs of a task, newest first.
    pub async fn list_task_runs(&self, task: TaskId, query: &ListQuery) -> Result<Listed<RunRow>, Error> {
        self.list_runs_of(rows::TASK_RUNS, &rows::task_runs_prefix(task), query).await
    }

    /// How many runs a task has, counted up to a bound.
    pub async fn count_task_runs(&self, task: TaskId) -> Result<u64, Error> {
        self.count_runs_of(rows::TASK_RUNS, &rows::task_runs_prefix(task)).await
    }

    /// The runs that an index names, newest first.
    pub(crate) async fn list_runs_of(
        &self,
        index: &str,
        prefix: &str,
        query: &ListQuery,
    ) -> Result<Listed<RunRow>, Error> {
        let listed = self.list(index, prefix, query, |(): &()| String::new()).await?;
        let mut items = Vec::with_capacity(listed.items.len());
        let mut damaged = listed.damaged;
        for id in &listed.keys {
            let key = rows::tenant_key(id);
            // One that was erased since the list was read is not there any more.
            items.extend(self.listed_row::<RunRow>(rows::RUNS, &key, &mut damaged).await?);
        }
        Ok(Listed { items, next: listed.next, has_more: listed.has_more, damaged })
    }

    pub(crate) async fn count_runs_of(&self, index: &str, prefix: &str) -> Result<u64, Error> {
        let query = ListQuery { limit: limits::LIST_SCAN_MAX, ..ListQuery::default() };
        let listed = self.list(index, prefix, &query, |(): &()| String::new()).await?;
        Ok(listed.items.len() as u64)
    }

    pub(crate) async fn row<T: DeserializeOwned>(&self, space: &str, key: &str) -> Result<Option<T>, Error> {
        let Some(row) = self.store().row(space, key).await? else { return Ok(None) };
        read_row(space, &row.key, &row.value).map(Some)
    }

    /// The same for a list, which goes on without a row that is damaged and names it.
    pub(crate) async fn listed_row<T: DeserializeOwned>(
        &self,
        space: &str,
        key: &str,
        damaged: &mut Vec<String>,
    ) -> Result<Option<T>, Error> {
        match self.row(space, key).await {
            Err(error) if error.code() == Code::StoreCorrupt => {
                damaged.push(format!("{space}/{key}"));
                Ok(None)
            }
            found => found,
        }
    }

    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        space: &str,
        prefix: &str,
        query: &ListQuery,
        status: impl Fn(&T) -> String,
    ) -> Result<ListedRows<T>, Error> {
        let wants = |item: &T| query.status.as_deref().is_none_or(|wanted| status(item) == wanted);
        self.list_where(space, prefix, query, query.status.is_some(), wants).await
    }

    pub(crate) async fn list_where<T: DeserializeOwned>(
        &self,
        space: &str,
        prefix: &str,
        query: &ListQuery,
        is_filtered: bool,
        wants: impl Fn(&T) -> bool,
    ) -> Result<ListedRows<T>, Error> {
        let mut listed = ListedRows { next: query.after.clone(), has_more: true, ..ListedRows::default() };
        let mut looked_at = 0;
        while listed.items.len() < query.limit && looked_at < limits::LIST_SCAN_MAX && listed.has_more {
            // A filter lets few through: then look at many at once.
            let missing = query.limit - listed.items.len();
            let wanted = if is_filtered { missing.max(limits::LIST_CHUNK) } else { missing };
            let range = RowRange {
                space: space.into(),
                prefix: prefix.into(),
                after: listed.next.as_deref().map(|id| format!("{prefix}{id}").into()),
                backwards: true,
                // One more than wanted tells whether there are more.
                limit: wanted + 1,
            };
            let WholeRows { rows: page, damaged } = self.store().whole_rows(range).await?;
            for row in damaged.iter().map(ToString::to_string) {
                if !listed.damaged.contains(&row) {
                    listed.damaged.push(row);
                }
            }
            let mut left = page.len();
            for row in page.into_iter().take(wanted) {
                if listed.items.len() == query.limit {
                    break;
                }
                looked_at += 1;
                left -= 1;
                let id = row.key.strip_prefix(prefix).unwrap_or(&row.key).to_owned();
                let item: T = read_row(space, &row.key, &row.value)?;
                listed.next = Some(id.clone());
                if wants(&item) {
                    listed.items.push(item);
                    listed.keys.push(id);
                }
            }
            listed.has_more = left > 0;
        }
        Ok(listed)
    }

    // ---- the house ---------------------------------------------------------------------------

    /// What tells this engine, and so its tenant, from the others of the process. The same for all clones.
    pub fn instance(&self) -> EngineInstance {
        EngineInstance(Arc::as_ptr(&self.tools) as usize)
    }

    /// How many runs have a writer awake.
    pub fn awake(&self) -> usize {
        self.writers.awake()
    }

    /// What there is and what was counted, for metrics.
    pub async fn stats(&self) -> Result<EngineStats, Error> {
        let store = self.store().stats().await?;
        let sum = self.tools.publisher.meters().add_up();
        let (runs_at_work, runs_in_line) = self.tools.dispatch.counts();
        let scrubbed = self.scrubbed();
        Ok(EngineStats { store, runs_awake: self.awake(), runs_at_work, runs_in_line, scrubbed, ..sum })
    }

    /// Whether the store can be read, and has space. Where that is not known, because nothing was appended yet or the
    /// last append found none, it is tried.
    pub async fn ready(&self) -> Result<(), Error> {
        self.store().last_position().await?;
        let bound = ReadBound { count: 1, bytes: 1 };
        match self.store().read_feed(1, bound).await {
            // A store with damaged events answers for all others.
            Err(fault) if fault.damage.is_none() => return Err(fault.into()),
            Ok(_) | Err(_) => {}
        }
        let has_space = self.store().space().await;
        if has_space.is_ok() && self.tools.publisher.meters().is_known_to_have_space() {
            return Ok(());
        }
        // Who asks may keep everybody else away as long as the answer is no: so it is found out here.
        for value in [Some(Bytes::from(vec![0; limits::SPACE_PROBE_BYTES])), None] {
            let row = RowPut { space: rows::PROBE.into(), key: "space".into(), guard: Guard::Any, value };
            self.store().append(Append { rows: vec![row], ..Append::default() }).await?;
        }
        Ok(self.store().space().await?)
    }

    /// Reads every record once. Slow.
    pub async fn integrity(&self) -> Result<Integrity, Error> {
        Ok(self.store().integrity().await?)
    }

    /// Copies the whole store, as it is at one moment, to a folder that is not there yet. Work goes on.
    pub async fn backup(&self, to: std::path::PathBuf) -> Result<(), Error> {
        Ok(self.store().backup(to).await?)
    }

    pub fn world(&self) -> &World {
        &self.tools.world
    }

    /// What the catalogue would say if it were made anew from the log: `(space, key) → value`, ordered.
    pub async fn fold_again(&self) -> Result<BTreeMap<(String, String), Bytes>, Error> {
        catalogue::fold_again(self.store()).await
    }

    /// Finishes what was accepted, refuses what comes, and ends. Answers how many tasks did not end in time.
    pub async fn shutdown(&self) -> usize {
        let left = self.tools.world.tasks.end_all(limits::SHUTDOWN_PATIENCE).await;
        if let Err(fault) = self.store().close().await {
            tracing::warn!(%fault, "the store did not close cleanly; nothing acknowledged is lost");
        }
        left
    }
}

pub(crate) struct ListedRows<T> {
    pub(crate) items: Vec<T>,
    /// The keys of the items, without their prefix.
    pub(crate) keys: Vec<String>,
    pub(crate) next: Option<String>,
    pub(crate) has_more: bool,
    /// See [`Listed::damaged`].
    pub(crate) damaged: Vec<String>,
}

impl<T> Default for ListedRows<T> {
    fn default() -> Self {
        ListedRows { items: Vec::new(), keys: Vec::new(), next: None, has_more: false, damaged: Vec::new() }
    }
}

impl<T> From<ListedRows<T>> for Listed<T> {
    fn from(listed: ListedRows<T>) -> Self {
        let ListedRows { items, next, has_more, damaged, .. } = listed;
        Listed { items, next, has_more, damaged }
    }
}

pub(crate) fn read_row<T: DeserializeOwned>(space: &str, key: &str, value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value).map_err(|why| damaged_row(space, key, why))
}

/// A stored row that does not say what its writer wrote. It is never the client's mistake.
pub(crate) fn damaged_row(space: &str, key: &str, why: impl std::fmt::Display) -> Error {
    Error::Failed(Failure {
        code: Code::StoreCorrupt,
        message: format!("the row {space}/{key} cannot be read: {why}; run `recount verify --all`"),
        retry_after: None,
        damage: None,
    })
}

/// The place after an exclusive cursor, when it lies within what exists.
fn next_after(after: Option<u64>, tail: u64, what: &str) -> Result<u64, Error> {
    let next = after.map_or(0, |after| after.saturating_add(1));
    if next > tail {
        return Err(Error::rejected(
            Code::CursorAhead,
            format!(
                "the cursor is {what} {}, but the last one there is {}",
                next - 1,
                tail.checked_sub(1).map_or("none".to_owned(), |last| last.to_string())
            ),
        ));
    }
    Ok(next)
}
