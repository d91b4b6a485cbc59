//! Test fixture: an engine on a store with fault injection, and helpers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use recount_engine::{
    BatchId, Delivery, Engine, Error, Framing, NewRun, Receipt, Redactor, SEAL_KEY_BYTES, Subscription,
};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Draft, Event, ForeignId, RunId, SessionId, TaskId, codec, door};
use recount_faulty_store::{Disk, FaultyStore};
use recount_run::{Auditor, CancelledBy, Command};
use recount_world::{Clock, RuntimeClock, World};

pub(crate) const START_MS: u64 = 1_777_803_825_000;

/// Frames without additional bytes.
pub(crate) struct Bare;

impl Framing for Bare {
    fn frame(&self, _: u64, envelope: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(envelope);
    }
}

/// Frames with cursor, lengths, envelope and padding.
struct Padded {
    padding: usize,
}

impl Framing for Padded {
    fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        for number in [cursor, envelope.len() as u64, self.padding as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(envelope);
        out.resize(out.len() + self.padding, b' ');
    }
}

/// The cursors and envelopes in a delivery.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let mut number = || {
            let (number, rest) = bytes.split_first_chunk().expect("a frame begins with three numbers");
            bytes = rest;
            u64::from_le_bytes(*number)
        };
        let (cursor, length, padding) = (number(), number() as usize, number() as usize);
        found.push((cursor, bytes[..length].to_vec()));
        bytes = &bytes[length + padding..];
    }
    found
}

pub(crate) struct Scene {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) disk: Arc<Disk>,
    padding: usize,
    opened: u64,
    /// The seal key of the next engines.
    pub(crate) key: u8,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Scene::padded(0).await
    }

    /// With frames so large that only a few fit a live list.
    pub(crate) async fn padded(padding: usize) -> Self {
        let disk = Disk::new();
        let store = FaultyStore::new(&disk);
        let engine = open(&store, 0, START_MS, padding, 7).await;
        Scene { engine, store, disk, padding, opened: 1, key: 7 }
    }

    /// Stops the engine like a crash, and opens another one on the durable state, with a clock at `now_ms`.
    pub(crate) async fn reopen_at(&mut self, now_ms: u64) {
        self.cut().await;
        self.engine = open(&self.store, self.opened, now_ms, self.padding, self.key).await;
    }

    /// The same with a clock that is set back by a minute after it has first shown `at_ms`.
    pub(crate) async fn reopen_with_a_step_back(&mut self, at_ms: u64) {
        let now_ms = self.engine.world().clock.now_ms();
        let clock = RuntimeClock::starting_at(now_ms);
        let world = World {
            clock: Arc::new(StepsBack { clock, at_ms, stepped: AtomicBool::new(false) }),
            ..World::seeded(self.opened, now_ms)
        };
        self.cut().await;
        let framing = Arc::new(Padded { padding: self.padding });
        self.engine = Engine::open(self.store.clone(), world, framing).await.unwrap();
    }

    async fn cut(&mut self) {
        self.store.cut();
        self.engine.world().tasks.end_all(Duration::ZERO).await;
        self.store = FaultyStore::new(&self.disk);
        self.opened += 1;
    }

    pub(crate) async fn reopen(&mut self) {
        let now_ms = self.engine.world().clock.now_ms();
        self.reopen_at(now_ms).await;
    }

    pub(crate) async fn queue(&self) -> RunId {
        self.queue_for(None).await.unwrap()
    }

    pub(crate) async fn queue_for(&self, task: Option<TaskId>) -> Result<RunId, Error> {
        let new = NewRun { queued: Queued::new(RunKind::External), task, session: None, resumed_from: None };
        self.engine.write().create_run(new).await.map(|(run, _)| run)
    }

    pub(crate) async fn queue_in(&self, session: SessionId) -> Result<RunId, Error> {
        let new = NewRun {
            queued: Queued::new(RunKind::External),
            task: None,
            session: Some(session),
            resumed_from: None,
        };
        self.engine.write().create_run(new).await.map(|(run, _)| run)
    }

    /// An external run that has started; it has two events.
    pub(crate) async fn start(&self) -> RunId {
        let run = self.queue().await;
        self.report(run, 0, &[("run.started", "{}")]).await.unwrap();
        run
    }

    /// Sends batch `seq` of producer `p` in epoch 0.
    pub(crate) async fn report(
        &self,
        run: RunId,
        seq: u64,
        events: &[(&str, &str)],
    ) -> Result<Receipt, Error> {
        self.engine.write().ingest(run, batch_id("p", 0, seq), drafts(events)).await
    }

    /// Sends one event from a new producer, so that the order does not matter.
    pub(crate) async fn note(&self, run: RunId, name: &str) -> Result<Receipt, Error> {
        self.engine.write().ingest(run, batch_id(name, 0, 0), drafts(&[("ext.test.note", "{}")])).await
    }

    pub(crate) async fn cancel(&self, run: RunId) -> Result<Option<Receipt>, Error> {
        let command = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
        self.engine.write().submit(run, command).await
    }

    pub(crate) async fn answer(
        &self,
        run: RunId,
        id: &str,
        approve: bool,
        by: &str,
    ) -> Result<Option<Receipt>, Error> {
        let command = Command::ResolveApproval {
            approval_id: ForeignId::parse(id).unwrap(),
            approve,
            by: by.into(),
            comment: None,
            remember: None,
        };
        self.engine.write().submit(run, command).await
    }

    pub(crate) async fn events(&self, run: RunId) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map(|event| event.sequence);
            let (page, more) = self.engine.read().read_run(run, after, 100).await.unwrap();
            events.extend(page.iter().map(|(_, bytes)| codec::decode(bytes).unwrap()));
            if !more {
                return events;
            }
        }
    }

    pub(crate) async fn types(&self, run: RunId) -> Vec<String> {
        self.events(run).await.iter().map(|event| event.type_name().to_owned()).collect()
    }

    /// Checks an idle store: all runs are legal, and the catalogue matches them.
    pub(crate) async fn check(&self) {
        assert_eq!(self.disk.catalogue().await, self.engine.admin().fold_again().await.unwrap());
        let query = recount_engine::ListQuery { limit: 1000, ..Default::default() };
        for row in self.engine.catalogue().list_runs(&query).await.unwrap().items {
            let events = self.events(row.id).await;
            assert_eq!(events[0].sequence, row.first_sequence, "{}", row.id);
            let mut auditor = Auditor::beginning_at(row.first_sequence);
            events.iter().for_each(|event| auditor.read(event).unwrap());
            assert_eq!(auditor.finish(), Ok(()), "{}", row.id);
        }
    }
}

struct StepsBack {
    clock: RuntimeClock,
    at_ms: u64,
    stepped: AtomicBool,
}

impl Clock for StepsBack {
    fn now_ms(&self) -> u64 {
        let now_ms = self.clock.now_ms();
        if self.stepped.load(Ordering::SeqCst) {
            return now_ms - 60_000;
        }
        self.stepped.store(now_ms >= self.at_ms, Ordering::SeqCst);
        now_ms
    }
}

async fn open(store: &Arc<FaultyStore>, life: u64, now_ms: u64, padding: usize, key: u8) -> Engine {
    let world = World::seeded(life, now_ms);
    let (framing, redactor) = (Arc::new(Padded { padding }), Arc::new(Redactor::shapes()));
    let key = Some([key; SEAL_KEY_BYTES]);
    let engine = Engine::open_with_key(store.clone(), world, framing, redactor, key).await.unwrap();
    // Only appends after startup are counted.
    store.count_appends_from_here();
    engine
}

pub(crate) fn batch_id(producer: &str, epoch: u64, seq: u64) -> BatchId {
    BatchId { producer: ForeignId::parse(producer).unwrap(), epoch, seq }
}

pub(crate) fn drafts(events: &[(&str, &str)]) -> Vec<Draft> {
    events.iter().map(|(type_name, data)| door::draft(type_name, data).unwrap()).collect()
}

pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> Code {
    answer.expect_err("this should be refused").code()
}

/// The approval request of most tests; approved by default.
pub(crate) const APPROVAL: (&str, &str) = (
    "approval.requested",
    r#"{"approval_id":"a1","tool_call_id":"c1","kind":"shell","summary":"list files","timeout_seconds":30,"default_decision":"approve"}"#,
);

/// Everything a reader gets at once, and how it ended.
pub(crate) struct ReadResult {
    pub(crate) cursors: Vec<u64>,
    pub(crate) bytes: Vec<Vec<u8>>,
    /// The reported gaps.
    pub(crate) gaps: Vec<(u64, u64)>,
    pub(crate) end: End,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum End {
    CaughtUp,
    Closed,
    /// Nothing arrived for a minute.
    Quiet,
}

/// Reads until an item without events arrives, or nothing for a minute.
pub(crate) async fn read(subscription: &mut Subscription) -> ReadResult {
    let mut reading =
        ReadResult { cursors: Vec::new(), bytes: Vec::new(), gaps: Vec::new(), end: End::Quiet };
    loop {
        let next = tokio::time::timeout(Duration::from_secs(60), subscription.next());
        match next.await.map(Result::unwrap) {
            Ok(Delivery::Frames { bytes, last }) => {
                for (cursor, envelope) in frames(&bytes) {
                    reading.cursors.push(cursor);
                    reading.bytes.push(envelope);
                }
                assert_eq!(reading.cursors.last(), Some(&last));
                assert_eq!(subscription.last(), Some(last));
                continue;
            }
            Ok(Delivery::Gap { first, last }) => {
                reading.gaps.push((first, last));
                continue;
            }
            Ok(Delivery::Damaged(damage)) => panic!("{damage}"),
            Ok(Delivery::Passed { .. }) => panic!("nothing is filtered"),
            Ok(Delivery::CaughtUp) => reading.end = End::CaughtUp,
            Ok(Delivery::Closed) => reading.end = End::Closed,
            Err(_) => {}
        }
        return reading;
    }
}
