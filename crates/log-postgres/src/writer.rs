//! The writer of a store: takes groups from the queue, commits each in one statement, and reports the outcome.
//!
//! ```text
//!   take a group ─▶ load what it names ─▶ judge each append ─▶ commit ─▶ committed     observer, results
//!                                                                 ├─────▶ refused       results: a fault
//!                                                                 ├─────▶ fenced, lost  the end of this writer
//!                                                                 └─────▶ unknown       skip its number if it was not,
//!                                                                                       then one of the above
//! ```
//!
//! Nothing is committed while the outcome of a group is unknown. The results of a committed group are sent while the
//! database executes the next one. Start at [`Writer::run`].

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use recount_log::{Append, AppendError, Committed, Fault, FaultKind, ReadBound, Retry, RowRepair, StreamKey};
use tokio::sync::watch;
use tokio_postgres::types::ToSql;

use crate::connect::{Link, Session};
use crate::core::Core;
use crate::fault::{QueryError, corrupt, fenced, stopped};
use crate::group::{Group, Known, Removal, RowName, row_sum};
use crate::queue::{Job, Task};
use crate::rules::{CommitAttempt, CommitEvent, CommitOutcome, CommitStep, Counters};
use crate::shared::loss;
use crate::streams::{StreamState, number, record_sum};
use crate::{limits, schema};

pub(crate) struct Writer {
    pub(crate) core: Arc<Core>,
    pub(crate) link: Link,
    /// As of the last group that was committed.
    pub(crate) counters: Counters,
    /// Positions before this one have a partition.
    pub(crate) covered_to: u64,
    pub(crate) known: Known,
    /// A group whose outcome could not be found out while its callers waited.
    pub(crate) unsettled: Option<Group>,
    /// Whether other nodes may have the store when this writer has ended.
    pub(crate) gives_back: bool,
    /// Closes when this writer has ended.
    pub(crate) ending: watch::Sender<()>,
}

/// What became of a group.
enum Outcome {
    Committed,
    /// Nothing was changed.
    Refused(Fault),
    /// This writer may not, or must not, continue.
    Ended(Fault),
    /// Not known within [`limits::OUTAGE_WAIT`].
    Unknown(Fault),
}

/// A committed group that this process does not see yet, and the results of its appends.
struct Done {
    group: Group,
    jobs: Vec<Job>,
    results: Vec<Result<Committed, AppendError>>,
}

impl Done {
    fn publish(self, core: &Core) {
        if !self.group.is_empty() {
            publish(core, &self.group);
        }
        let now = recount_world::moment();
        core.meters.group(self.jobs.iter().map(|job| now - job.since));
        for (job, result) in self.jobs.into_iter().zip(self.results) {
            // The caller may have stopped waiting.
            drop(job.result.send(result));
        }
    }
}

/// Fails what waits if the writer panics, as it does when an observer panics.
struct Abandon(Arc<Core>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.queue.abandon(&stopped());
    }
}

impl Writer {
    /// Carries tasks out until the queue is closed or the store is lost, then gives the store back.
    pub(crate) async fn run(mut self) {
        let abandon = Abandon(self.core.clone());
        let mut done: Option<Done> = None;
        loop {
            if let Some(group) = self.unsettled.take() {
                if !self.settle_late(group).await && self.core.queue.is_closed() {
                    break;
                }
                continue;
            }
            let tasks = match &done {
                Some(_) => self.core.queue.take_now(),
                None => match self.core.queue.take().await {
                    Some(tasks) => tasks,
                    None => break,
                },
            };
            let core = self.core.clone();
            let publishing = async {
                if let Some(done) = done.take() {
                    // First the connection sends the next group.
                    tokio::task::yield_now().await;
                    done.publish(&core);
                }
            };
            (done, ()) = tokio::join!(self.carry_out(tasks), publishing);
        }
        let name = self.core.name();
        let epoch = self.counters.epoch;
        if self.gives_back
            && let Err(error) =
                self.link.query("giving the store back", &self.core.sql.give_back, &[&name, &epoch]).await
        {
            let fault = error.into_fault();
            tracing::debug!(%fault, store = name, "the store was not given back; its lease expires");
        }
        self.core.node.open_names().remove(self.core.name());
        drop(abandon);
        drop(self.ending);
    }

    async fn carry_out(&mut self, mut tasks: Vec<Task>) -> Option<Done> {
        if self.core.node.lease().is_lost() {
            let fault = fenced(self.core.name());
            tasks.into_iter().for_each(|task| task.fail(fault.clone()));
            self.core.queue.abandon(&fault);
            return None;
        }
        if let Some(Task::Repair(..)) = tasks.first()
            && let Some(Task::Repair(repair, result)) = tasks.pop()
        {
            // The caller may have stopped waiting.
            drop(result.send(self.repair(repair).await));
            return None;
        }
        let jobs = tasks.into_iter().filter_map(|task| match task {
            Task::Append(job) => Some(job),
            Task::Repair(..) => None,
        });
        let jobs: Vec<Job> = jobs.collect();
        if jobs.is_empty() { None } else { self.append(jobs).await }
    }

    async fn append(&mut self, jobs: Vec<Job>) -> Option<Done> {
        let removals = match self.prepare(&jobs).await {
            Ok(removals) => removals,
            Err(fault) => {
                self.fail(jobs, &fault);
                return None;
            }
        };
        let mut group = Group::after(self.counters);
        let mut removals = Some(removals);
        let results: Vec<_> = jobs
            .iter()
            .map(|job| group.add(&mut self.known, &job.append, removals.take().unwrap_or_default()))
            .collect();
        let outcome = if group.is_empty() { Outcome::Committed } else { self.commit(&mut group).await };
        match outcome {
            Outcome::Committed => {
                if !group.is_empty() {
                    self.advance(&group);
                }
                return Some(Done { group, jobs, results });
            }
            Outcome::Refused(fault) => {
                self.known.clear();
                self.fail(jobs, &fault);
            }
            Outcome::Ended(fault) => {
                self.fail(jobs, &fault);
                self.core.queue.abandon(&fault);
            }
            Outcome::Unknown(fault) => {
                // Before the callers know: what they read now may not be what is there later.
                self.core.is_unsettled.store(true, Ordering::SeqCst);
                self.fail(jobs, &fault);
                self.core.queue.fail_waiting(&fault);
                self.unsettled = Some(group);
            }
        }
        None
    }

    fn fail(&self, jobs: Vec<Job>, fault: &Fault) {
        self.core.meters.failed();
        if fault.kind == FaultKind::Full {
            self.core.is_full.store(true, Ordering::Relaxed);
        }
        tracing::warn!(%fault, store = self.core.name(), appends = jobs.len(), "a commit failed");
        jobs.into_iter().for_each(|job| Task::Append(job).fail(fault.clone()));
    }

    /// Later groups follow this committed one.
    fn advance(&mut self, group: &Group) {
        self.counters = group.counters;
        self.known.limit();
    }

    // ---- before a group ----

    /// Loads the streams and rows that the jobs name, and finds out what their removals take. Only a job that is alone
    /// has removals.
    async fn prepare(&mut self, jobs: &[Job]) -> Result<Vec<Removal>, Fault> {
        let mut session = self.session().await?;
        let mut streams: Vec<StreamKey> = Vec::new();
        let mut rows: Vec<RowName> = Vec::new();
        let (mut new_streams, mut new_rows) = (HashSet::new(), HashSet::new());
        for job in jobs {
            let append = &job.append;
            let named = append.streams.iter().map(|part| &part.stream);
            let removed = append.cuts.iter().map(|cut| &cut.stream).chain(&append.erased);
            for stream in named.chain(removed) {
                if !self.known.knows_stream(stream) && new_streams.insert(stream.clone()) {
                    streams.push(stream.clone());
                }
            }
            for put in &append.rows {
                let name = (put.space.clone(), put.key.clone());
                if !self.known.knows_row(&name) && new_rows.insert(name.clone()) {
                    rows.push(name);
                }
            }
        }
        let mut loaded = self.load(&session, &streams, &rows).await;
        if let Err(QueryError::Lost(_)) = &loaded {
            // The connection was lost before this group, and nothing was sent.
            self.link.forget(&session).await;
            session = self.session().await?;
            loaded = self.load(&session, &streams, &rows).await;
        }
        let (states, versions) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return Err(self.fault_on(&session, error).await),
        };
        streams.into_iter().zip(states).for_each(|(name, state)| self.known.put_stream(name, state));
        rows.into_iter().zip(versions).for_each(|(name, version)| self.known.put_version(name, version));
        match jobs {
            [job] => self.removals(&job.append).await,
            _ => Ok(Vec::new()),
        }
    }

    /// The states of streams and the versions of rows.
    async fn load(
        &self,
        session: &Session,
        streams: &[StreamKey],
        rows: &[RowName],
    ) -> Result<(Vec<StreamState>, Vec<Option<u64>>), QueryError> {
        tokio::try_join!(load_streams(&self.core, session, streams), load_versions(&self.core, session, rows))
    }

    async fn removals(&self, append: &Append) -> Result<Vec<Removal>, Fault> {
        let cuts = append.cuts.iter().map(|cut| (&cut.stream, cut.keep_from, false));
        let erased = append.erased.iter().map(|stream| (stream, u64::MAX, true));
        let mut removals = Vec::new();
        for (stream, keep_from, erased) in cuts.chain(erased) {
            let state = self.known.stream(stream);
            let keep_from = keep_from.min(state.next_sequence);
            let is_done = keep_from <= state.first_sequence && (!erased || state.erased);
            if state.id != 0 && !is_done {
                removals.push(self.removal(stream, &state, keep_from, erased).await?);
            }
        }
        Ok(removals)
    }

    /// Reads what will be removed: the chain over it has to be kept.
    async fn removal(
        &self,
        stream: &StreamKey,
        state: &StreamState,
        keep_from: u64,
        erased: bool,
    ) -> Result<Removal, Fault> {
        let (stream, start) = (stream.clone(), state.start_of(stream));
        let mut removal = Removal { stream, keep_from, erased, start, records: 0, bytes: 0 };
        let mut next = state.first_sequence;
        let bound = ReadBound { count: limits::SCAN_PAGE, bytes: limits::SCAN_PAGE_BYTES };
        while next < keep_from {
            let page = self.core.reading().page((state.id, state.first_position), next, bound).await?;
            let Some(last) = page.last() else { break };
            next = last.record.sequence + 1;
            for stored in page.iter().filter(|stored| stored.record.sequence < keep_from) {
                removal.start = removal.start.then(&stored.record.bytes);
                removal.records += 1;
                removal.bytes += stored.record.bytes.len() as u64;
            }
        }
        if removal.records < keep_from - state.first_sequence {
            tracing::warn!(stream = &*removal.stream, "some of the records to remove were already missing");
        }
        Ok(removal)
    }

    // ---- the commit ----

    /// The connection of this writer. After a loss it waits for the database, at most [`limits::OUTAGE_WAIT`].
    async fn session(&self) -> Result<Arc<Session>, Fault> {
        let patience = recount_world::moment() + limits::OUTAGE_WAIT;
        loop {
            match self.link.session().await {
                Ok(session) => return Ok(session),
                Err(fault) if fault.retry == Retry::Never || recount_world::moment() > patience => {
                    self.core.queue.fail_waiting(&fault);
                    return Err(fault);
                }
                Err(_) => tokio::time::sleep(limits::RECONNECT_PAUSE).await,
            }
        }
    }

    async fn commit(&mut self, group: &mut Group) -> Outcome {
        let session = match self.session().await {
            Ok(session) => session,
            Err(fault) => return Outcome::Refused(fault),
        };
        while self.covered_to <= group.counters.last_position + self.core.partition_records / 2 {
            let sql = schema::partition(
                &self.core.sql.schema,
                self.counters.epoch,
                self.covered_to,
                self.core.partition_records,
            );
            if let Err(error) = session.execute("adding a partition", &sql).await {
                return Outcome::Refused(self.fault_on(&session, error).await);
            }
            self.covered_to += self.core.partition_records;
            // The newest partition may have been empty already.
            self.core.partitions_changed.notify_one();
        }
        let started = recount_world::moment();
        let attempt = CommitAttempt::new(self.counters, group.counters);
        let outcome = self.carry_through(attempt, (CommitEvent::Due, None), group).await;
        // At least the time that publishing the previous group took, which runs meanwhile.
        self.core.meters.synced(started.elapsed());
        outcome
    }

    /// The fault of a statement that changed nothing. A session that does not respond is given up.
    async fn fault_on(&self, session: &Arc<Session>, error: QueryError) -> Fault {
        if let QueryError::Lost(_) = &error {
            self.link.forget(session).await;
        }
        error.into_fault()
    }

    /// Executes the steps of an attempt until its outcome. `first` is what has happened, and the fault of that.
    async fn carry_through(
        &mut self,
        mut attempt: CommitAttempt,
        first: (CommitEvent, Option<Fault>),
        group: &mut Group,
    ) -> Outcome {
        let (mut event, mut fault) = first;
        loop {
            event = match attempt.step(event, recount_world::uptime()) {
                CommitStep::Execute => {
                    group.counters = attempt.after();
                    let (event, cause) = match self.session().await {
                        Ok(session) => {
                            let executed = execute(&self.core, &session, group).await;
                            self.event_of(&session, executed).await
                        }
                        Err(fault) => (CommitEvent::Refused, Some(fault)),
                    };
                    fault = cause.or(fault);
                    event
                }
                CommitStep::Skip => match self.skip(attempt.before()).await {
                    Ok(found) => CommitEvent::Found(found),
                    Err(_) => CommitEvent::Lost,
                },
                CommitStep::ReadCounters => {
                    let name = self.core.name();
                    match self.link.query("reading the counters", &self.core.sql.counters, &[&name]).await {
                        Ok(rows) => CommitEvent::Found(rows.first().map(Counters::of_row)),
                        Err(error) => {
                            fault = Some(error.into_fault());
                            CommitEvent::Refused
                        }
                    }
                }
                CommitStep::Pause(pause) => {
                    tokio::time::sleep(pause).await;
                    CommitEvent::Due
                }
                CommitStep::Finish(outcome) => {
                    self.counters = attempt.before();
                    return self.conclude(outcome, fault).await;
                }
            };
        }
    }

    /// What happened to the statement of a group. A session that does not respond is given up.
    async fn event_of(
        &self,
        session: &Arc<Session>,
        executed: Result<bool, QueryError>,
    ) -> (CommitEvent, Option<Fault>) {
        match executed {
            Ok(changed) => (CommitEvent::Executed { changed }, None),
            Err(QueryError::Refused(fault)) => (CommitEvent::Refused, Some(fault)),
            Err(QueryError::Lost(fault)) => {
                self.link.forget(session).await;
                (CommitEvent::Lost, Some(fault))
            }
        }
    }

    /// Skips the number of the next group unless that was committed. Returns the counters afterwards.
    async fn skip(&self, before: Counters) -> Result<Option<Counters>, QueryError> {
        let (context, name) = ("finding out whether a group was committed", self.core.name());
        let Counters { epoch, group_number, .. } = before;
        let skipped = self.link.query(context, &self.core.sql.skip, &[&name, &epoch, &group_number]).await?;
        if let Some(row) = skipped.first() {
            return Ok(Some(Counters::of_row(row)));
        }
        // A statement of its own, because a group may have been committed while the other one waited for it.
        let rows = self.link.query(context, &self.core.sql.counters, &[&name]).await?;
        Ok(rows.first().map(Counters::of_row))
    }

    /// The outcome of a group for its callers. `fault` is that of the last statement of the group.
    async fn conclude(&mut self, outcome: CommitOutcome, fault: Option<Fault>) -> Outcome {
        let name = self.core.name();
        let is_settled = fault.is_some();
        if outcome.ends_lease() {
            self.core.node.lease().lose();
        }
        let fault = fault
            .unwrap_or_else(|| Fault::new(FaultKind::Io, Retry::Maybe, "the database cannot be reached"));
        let fault = match outcome {
            CommitOutcome::Committed => {
                if is_settled {
                    tracing::info!(store = name, "a commit without a response was completed");
                }
                return Outcome::Committed;
            }
            CommitOutcome::Refused => return Outcome::Refused(fault),
            CommitOutcome::Unknown => {
                let message = format!(
                    "{}; the append may have been committed: read the stream to find out",
                    fault.message
                );
                return Outcome::Unknown(Fault { message, ..fault });
            }
            CommitOutcome::Replaced => {
                self.core.queue.abandon(&fenced(name));
                let message = format!(
                    "{}; another node owns the store now, and the append may have been committed before",
                    fault.message
                );
                return Outcome::Ended(Fault::new(FaultKind::Io, Retry::Maybe, message));
            }
            CommitOutcome::Fenced => fenced(name),
            CommitOutcome::Behind(last_position) => {
                let acknowledged = self.counters.last_position;
                let (epoch, until) = (self.counters.epoch, number(acknowledged));
                let context = "noting a loss";
                let noted =
                    self.link.query(context, &self.core.sql.note_loss, &[&name, &epoch, &until]).await;
                if let Err(error) = noted {
                    let fault = error.into_fault();
                    tracing::error!(%fault, "the loss is not noted; the store is not given back");
                    self.gives_back = false;
                }
                loss(name, acknowledged, last_position)
            }
            CommitOutcome::Altered => {
                corrupt(format!("another program changed the counters of store {name:?}"))
            }
            CommitOutcome::Missing => corrupt(format!("store {name:?} is missing from the table of stores")),
        };
        tracing::error!(%fault, store = name, "the writer of the store stops");
        Outcome::Ended(fault)
    }

    /// `false`: the outcome is still unknown.
    async fn settle_late(&mut self, mut group: Group) -> bool {
        let attempt = CommitAttempt::late(self.counters, group.counters, recount_world::uptime());
        match self.carry_through(attempt, (CommitEvent::Due, None), &mut group).await {
            Outcome::Committed => {
                self.advance(&group);
                publish(&self.core, &group);
            }
            Outcome::Refused(_) => self.known.clear(),
            Outcome::Ended(fault) => self.core.queue.abandon(&fault),
            Outcome::Unknown(fault) => {
                self.core.queue.fail_waiting(&fault);
                self.unsettled = Some(group);
                return false;
            }
        }
        self.core.is_unsettled.store(false, Ordering::SeqCst);
        true
    }

    // ---- repairs ----

    async fn repair(&mut self, repair: RowRepair) -> Result<bool, Fault> {
        let session = self.session().await?;
        let mut streams: Vec<StreamKey> = repair.rows.iter().map(|row| row.stream.clone()).collect();
        streams.sort_unstable();
        streams.dedup();
        let states = match load_streams(&self.core, &session, &streams).await {
            Ok(states) => states,
            Err(error) => return Err(self.fault_on(&session, error).await),
        };
        let ends = |row: &recount_log::RepairedRow| {
            let index = streams.binary_search(&row.stream).ok()?;
            states.get(index).map(|state| state.next_sequence)
        };
        if !repair.rows.iter().all(|row| ends(row) == Some(row.expected_tail)) {
            return Ok(false);
        }
        let names: Vec<RowName> =
            repair.rows.iter().map(|row| (row.space.clone(), row.key.clone())).collect();
        let versions = match load_versions(&self.core, &session, &names).await {
            Ok(versions) => versions,
            Err(error) => return Err(self.fault_on(&session, error).await),
        };
        let mut put = Columns::default();
        for (row, version) in repair.rows.iter().zip(versions) {
            put.add(row.space.as_bytes(), row.key.as_bytes(), version.unwrap_or(0) + 1, &row.value);
        }
        let replaced: HashSet<(&[u8], &[u8])> =
            put.spaces.iter().copied().zip(put.keys.iter().copied()).collect();
        let deleted = repair.damaged.iter().map(|row| (&row.space[..], &row.key[..]));
        let (spaces, keys): (Vec<&[u8]>, Vec<&[u8]>) = deleted.filter(|row| !replaced.contains(row)).unzip();
        let before = self.counters;
        let name = self.core.name();
        let parameters: [&(dyn ToSql + Sync); 10] = [
            &name,
            &before.epoch,
            &before.group_number,
            &put.spaces,
            &put.keys,
            &put.versions,
            &put.values,
            &put.sums,
            &spaces,
            &keys,
        ];
        let done = session.query("repairing rows", &self.core.sql.repair, &parameters).await;
        self.known.clear();
        let mut group = Group::after(before);
        let first = self.event_of(&session, done.map(|rows| !rows.is_empty())).await;
        let attempt = CommitAttempt::sent(before, group.counters);
        let outcome = self.carry_through(attempt, first, &mut group).await;
        match outcome {
            Outcome::Committed => {
                self.advance(&group);
                publish(&self.core, &group);
                Ok(true)
            }
            Outcome::Refused(fault) => Err(fault),
            Outcome::Ended(fault) => {
                self.core.queue.abandon(&fault);
                Err(fault)
            }
            Outcome::Unknown(fault) => {
                self.core.is_unsettled.store(true, Ordering::SeqCst);
                self.unsettled = Some(group);
                Err(fault)
            }
        }
    }
}

/// Makes a committed group visible to this process.
fn publish(core: &Core, group: &Group) {
    core.last_position.store(group.counters.last_position, Ordering::SeqCst);
    core.is_full.store(false, Ordering::Relaxed);
    if !group.bounds.is_empty() {
        core.partitions_changed.notify_one();
    }
    if let Some(observer) = core.observer.get()
        && !group.records.is_empty()
    {
        observer.committed(&group.records);
    }
}

/// Rows as columns.
#[derive(Default)]
struct Columns<'a> {
    spaces: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
    versions: Vec<i64>,
    values: Vec<&'a [u8]>,
    sums: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn add(&mut self, space: &'a [u8], key: &'a [u8], version: u64, value: &'a [u8]) {
        self.spaces.push(space);
        self.keys.push(key);
        self.versions.push(number(version));
        self.values.push(value);
        self.sums.push(row_sum(space, key, version, value));
    }
}

async fn load_streams(
    core: &Core,
    session: &Session,
    names: &[StreamKey],
) -> Result<Vec<StreamState>, QueryError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let rows = session.query("reading the ends of streams", &core.sql.streams_by_name, &[&bytes]).await?;
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    StreamState::of_rows(&rows, &names).map_err(QueryError::Refused)
}

async fn load_versions(
    core: &Core,
    session: &Session,
    rows: &[RowName],
) -> Result<Vec<Option<u64>>, QueryError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let spaces: Vec<&[u8]> = rows.iter().map(|(space, _)| space.as_bytes()).collect();
    let keys: Vec<&[u8]> = rows.iter().map(|(_, key)| key.as_bytes()).collect();
    let found = session.query("reading versions of rows", &core.sql.row_versions, &[&spaces, &keys]).await?;
    let mut versions = vec![None; rows.len()];
    for row in &found {
        let place = usize::try_from(row.get::<_, i64>(0)).unwrap_or_default();
        if let Some(version) = place.checked_sub(1).and_then(|index| versions.get_mut(index)) {
            *version = Some(row.get::<_, i64>(1).cast_unsigned());
        }
    }
    Ok(versions)
}

/// Writes a group in one statement. `false`: the counters were not as expected, and nothing was changed.
async fn execute(core: &Core, session: &Session, group: &Group) -> Result<bool, QueryError> {
    let (name, counters) = (core.name(), group.counters);
    let (before, last_position) = (counters.group_number - 1, number(counters.last_position));
    let new = &group.new_streams;
    let stream_ids: Vec<i64> = new.iter().map(|(_, state)| state.id).collect();
    let stream_names: Vec<&[u8]> = new.iter().map(|(name, _)| name.as_bytes()).collect();
    let stream_firsts: Vec<i64> = new.iter().map(|(_, state)| number(state.first_position)).collect();
    let stream_sums: Vec<i64> = new.iter().map(|(name, state)| state.sum(name)).collect();

    let records = group.records.iter().map(|record| &record.record);
    let positions: Vec<i64> = records.clone().map(|record| number(record.position)).collect();
    let sequences: Vec<i64> = records.clone().map(|record| number(record.sequence)).collect();
    let bodies: Vec<&[u8]> = records.clone().map(|record| &record.bytes[..]).collect();
    let sums: Vec<i64> = records
        .zip(&group.owners)
        .map(|(record, owner)| record_sum(record.position, *owner, record.sequence, &record.bytes))
        .collect();

    let mut put = Columns::default();
    let (mut deleted_spaces, mut deleted_keys): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for ((space, key), state) in &group.rows {
        match state {
            Some((version, value)) => put.add(space.as_bytes(), key.as_bytes(), *version, value),
            None => {
                deleted_spaces.push(space.as_bytes());
                deleted_keys.push(key.as_bytes());
            }
        }
    }
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![
        &name,
        &counters.epoch,
        &before,
        &last_position,
        &counters.last_stream,
        &group.added_records,
        &group.added_bytes,
        &stream_ids,
        &stream_names,
        &stream_firsts,
        &stream_sums,
        &positions,
        &group.owners,
        &sequences,
        &bodies,
        &sums,
        &put.spaces,
        &put.keys,
        &put.versions,
        &put.values,
        &put.sums,
        &deleted_spaces,
        &deleted_keys,
    ];
    if group.bounds.is_empty() {
        let done = session.query("committing a group", &core.sql.commit, &parameters).await?;
        return Ok(!done.is_empty());
    }
    let bounds = &group.bounds;
    let ids: Vec<i64> = bounds.iter().map(|(_, state)| state.id).collect();
    let firsts: Vec<i64> = bounds.iter().map(|(_, state)| number(state.first_sequence)).collect();
    let starts: Vec<Option<&[u8]>> =
        bounds.iter().map(|(_, state)| state.start.as_ref().map(|start| &start.0[..])).collect();
    let nexts: Vec<i64> = bounds.iter().map(|(_, state)| number(state.removal_end().0)).collect();
    let lasts: Vec<i64> = bounds.iter().map(|(_, state)| number(state.removal_end().1)).collect();
    let erased: Vec<bool> = bounds.iter().map(|(_, state)| state.erased).collect();
    let bound_sums: Vec<i64> = bounds.iter().map(|(name, state)| state.sum(name)).collect();
    let removal: [&(dyn ToSql + Sync); 7] = [&ids, &firsts, &starts, &nexts, &lasts, &erased, &bound_sums];
    parameters.extend(removal);
    let done = session.query("committing a removal", &core.sql.commit_removal, &parameters).await?;
    Ok(!done.is_empty())
}
