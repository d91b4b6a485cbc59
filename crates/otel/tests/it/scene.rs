//! An engine on a store that survives a crash, runs in it, and an exporter.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use recount_engine::{BatchId, Engine, Framing, Import, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Event, ForeignId, RunId, codec, door};
use recount_faulty_store::{Disk, FaultyStore};
use recount_log::chain::ChainValue;
use recount_otel::{Endpoint, ExportFigures, ExportSettings, Exporter, Headers};
use recount_world::World;

struct Bare;

impl Framing for Bare {
    fn frame(&self, _: u64, envelope: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(envelope);
    }
}

pub(crate) struct Scene {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<FaultyStore>,
    disk: Arc<Disk>,
    exporter: Option<Exporter>,
}

pub(crate) fn settings(url: &str) -> ExportSettings {
    let headers = Headers::parse("authorization=Bearer%20a-long-secret").unwrap();
    ExportSettings {
        traces: Some(Endpoint::parse(url).unwrap()),
        logs: None,
        headers: headers.clone(),
        logs_headers: headers,
        service_name: "test".to_owned(),
        resource: vec![("deployment.environment.name".to_owned(), "here".to_owned())],
        contents: false,
        history: false,
    }
}

async fn open(store: &Arc<FaultyStore>) -> Engine {
    Engine::open(store.clone(), World::real(), Arc::new(Bare)).await.unwrap()
}

impl Scene {
    pub(crate) async fn new() -> Scene {
        let disk = Disk::new();
        let store = FaultyStore::new(&disk);
        Scene { engine: open(&store).await, store, disk, exporter: None }
    }

    pub(crate) async fn export(&mut self, settings: ExportSettings) {
        let exporter = Exporter::new(settings).unwrap();
        exporter.follow("acme", &self.engine).await;
        self.exporter = Some(exporter);
    }

    pub(crate) fn figures(&self) -> ExportFigures {
        self.exporter.as_ref().unwrap().figures()["acme"].clone()
    }

    /// Ends the process at once, and starts another one without an exporter.
    pub(crate) async fn crash(&mut self) {
        self.store.cut();
        self.engine.world().tasks.end_all(Duration::ZERO).await;
        self.restart().await;
    }

    /// The same in good order.
    pub(crate) async fn stop_and_start(&mut self) {
        assert_eq!(self.engine.shutdown().await, 0);
        self.restart().await;
    }

    async fn restart(&mut self) {
        self.store = FaultyStore::new(&self.disk);
        self.engine = open(&self.store).await;
        self.exporter = None;
    }

    pub(crate) async fn cursor(&self) -> u64 {
        self.cursor_of("otel").await
    }

    pub(crate) async fn cursor_of(&self, export: &str) -> u64 {
        self.engine.admin().cursor(export).await.unwrap().unwrap_or(0)
    }

    /// Puts a whole run of a story into the store.
    pub(crate) async fn import(&self, events: &[Event]) -> RunId {
        let run = events[0].run_id;
        let records: Vec<Bytes> = events.iter().map(|event| codec::encode(event).into()).collect();
        let start = ChainValue::start(&run.to_string());
        let head = records.iter().fold(start, |head, record| head.then(record)).to_string();
        let import = Import { run, events: records.len() as u64, head, records };
        self.engine.admin().import(import).await.unwrap();
        run
    }

    pub(crate) async fn start(&self) -> RunId {
        self.start_with(Queued::new(RunKind::External)).await
    }

    pub(crate) async fn start_with(&self, queued: Queued) -> RunId {
        let new = NewRun { queued, task: None, session: None, resumed_from: None };
        self.engine.write().create_run(new).await.unwrap().0
    }

    pub(crate) async fn report(&self, run: RunId, seq: u64, events: &[(&str, String)]) {
        let drafts = events.iter().map(|(name, data)| door::draft(name, data).unwrap()).collect();
        let producer = ForeignId::parse("p").unwrap();
        self.engine.write().ingest(run, BatchId { producer, epoch: 1, seq }, drafts).await.unwrap();
    }

    /// A run that ends at once.
    pub(crate) async fn short_run(&self) -> RunId {
        let run = self.start().await;
        self.report(run, 0, &[("run.started", "{}".into()), ending()]).await;
        run
    }
}

pub(crate) fn ending() -> (&'static str, String) {
    ("run.finished", r#"{"final_status":"completed"}"#.to_owned())
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await; // tidy: looks again until it holds
    }
    panic!("it does not come to: {what}");
}
