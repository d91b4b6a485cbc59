//! Measures the cost of a tool call without the model, the tool and the disk: in process, because only there each of
//! the three can be timed.
//!
//! From the end of the model's output to the next request to the model, with one call in between. The time of the tool
//! and of every append is subtracted; both are timed where they are called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use futures_util::future::BoxFuture;
use recount_agent::model::scripted::Scripted;
use recount_agent::model::scripted::script::Script;
use recount_agent::model::{Capability, Failure, Model, ModelName, Piece, Registry, Reply, Request};
use recount_agent::tool::{Assessment, Job, Outcome, Tool};
use recount_agent::tools::Tools;
use recount_agent::{Agent, Settings, Workspaces};
use recount_engine::{Delivery, Engine, NewRun, RunConfig};
use recount_event::family::run::{Queued, RunKind};
use recount_face_aep::SseFraming;
use recount_log::{Answer, Append, AppendError, Committed, Store, forward_store};
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_world::World;
use serde_json::Value;

use super::{Bench, Sheet};
use crate::clock::now_ns;
use crate::histogram::Histogram;
use crate::sheet::{Bar, SheetRow};
use crate::yardstick::group;

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "calls.overhead",
        what: "a tool call, p50 beyond model, tool and durable waits",
        unit: "ms",
        bar: Bar::AtMost(1.0),
    },
    SheetRow {
        key: "calls.waits",
        what: "a tool call, durable waits from the model's answer to the next question to it",
        unit: "",
        bar: Bar::AtMost(3.0),
    },
    SheetRow {
        key: "calls.durable",
        what: "a tool call, p50 of these waits together",
        unit: "ms",
        bar: Bar::None,
    },
];

/// Calls of one run: as many as a long run has.
const CALLS: usize = 60;

pub(super) fn pair(bench: &Bench, _pair: usize, sheet: &mut Sheet) -> Result<()> {
    let runs = bench.pick(1, 10);
    let scratch = bench.scratch("engine")?;
    let call_times = Arc::new(CallTimes::default());
    let runtime = group::runtime()?;
    runtime.block_on(async {
        let store = SqliteStore::open(SqliteOptions::new(scratch.path().join("data")))?;
        let world = World::real();
        let timed: Arc<dyn Store> = Arc::new(TimedStore { inner: store, call_times: call_times.clone() });
        let engine = Engine::open(timed, world.clone(), Arc::new(SseFraming)).await?;
        let settings = settings(scratch.path(), &call_times)?;
        engine.work().attach_performer(Arc::new(Agent::new(settings, world)), 1).await?;
        for _ in 0..runs {
            let mut queued = Queued::new(RunKind::AgentLoop);
            queued.request_text = Some("Go on.".into());
            queued.config = Some(RunConfig::default().written());
            let new = NewRun { queued, task: None, session: None, resumed_from: None };
            let (run, _) = engine.write().create_run(new).await?;
            let mut follow = engine.read().follow_run(run, None).await?;
            while !matches!(follow.next().await?, Delivery::Closed) {}
        }
        engine.shutdown().await;
        anyhow::Ok(())
    })?;
    let calls = std::mem::take(&mut *call_times.calls.lock().expect("nothing panics with it"));
    sheet
        .must(calls.len() == runs * CALLS, || format!("{} calls were seen of {}", calls.len(), runs * CALLS));
    let (mut overhead, mut durable, mut waits) = (Histogram::default(), Histogram::default(), 0);
    for call in &calls {
        overhead.add(call.whole_ns.saturating_sub(call.tool_ns + call.durable_ns));
        durable.add(call.durable_ns);
        waits += call.waits;
    }
    sheet.one("calls.overhead", overhead.p50_ms());
    sheet.one("calls.durable", durable.p50_ms());
    sheet.one("calls.waits", waits as f64 / calls.len().max(1) as f64);
    sheet.note(format!("a tool call beyond its waits: p99 {:.2} ms", overhead.p99_ms()));
    Ok(())
}

fn settings(folder: &std::path::Path, call_times: &Arc<CallTimes>) -> Result<Settings> {
    let turn = "[[turn]]\ncall = [{ name = \"todo_write\", input = { todos = [{ content = \"This\", status = \"pending\" }] } }]\n";
    let script = Script::parse(&turn.repeat(CALLS)).map_err(anyhow::Error::msg)?;
    let mut registry = Registry {
        default: Some(ModelName { provider: "play".into(), model: "it".into() }),
        ..Registry::default()
    };
    let model = TimedModel { inner: Scripted::new(script), call_times: call_times.clone() };
    registry.models.by_name.insert("play".into(), Arc::new(model));
    let mut tools = Tools::standard();
    let inner = tools.get("todo_write").context("there is a list of things to do")?.clone();
    tools.add(TimedTool { inner, call_times: call_times.clone() });
    let home = folder.join("workspaces");
    let workspaces = Workspaces { home, allowed: [].into(), forbidden: [].into() };
    Ok(Settings {
        sandbox_layer: "off".into(),
        sandboxed: true,
        ..Settings::new(registry, tools, workspaces)
    })
}

/// The times of the current call, and of completed ones.
#[derive(Default)]
struct CallTimes {
    finished_ns: AtomicU64,
    tool_ns: AtomicU64,
    durable_ns: AtomicU64,
    waits: AtomicU64,
    calls: Mutex<Vec<OneCall>>,
}

struct OneCall {
    whole_ns: u64,
    tool_ns: u64,
    durable_ns: u64,
    waits: u64,
}

impl CallTimes {
    /// Called when the model has finished: from here the time counts.
    fn finished(&self) {
        for count in [&self.tool_ns, &self.durable_ns, &self.waits] {
            count.store(0, Ordering::Relaxed);
        }
        self.finished_ns.store(now_ns(), Ordering::Relaxed);
    }

    /// Called when the model is requested: the previous call is complete, if there was one.
    fn requested(&self) {
        let finished_ns = self.finished_ns.swap(0, Ordering::Relaxed);
        let tool_ns = self.tool_ns.load(Ordering::Relaxed);
        if finished_ns > 0 && tool_ns > 0 {
            self.calls.lock().expect("nothing panics with it").push(OneCall {
                whole_ns: now_ns() - finished_ns,
                tool_ns,
                durable_ns: self.durable_ns.load(Ordering::Relaxed),
                waits: self.waits.load(Ordering::Relaxed),
            });
        }
    }
}

struct TimedModel {
    inner: Scripted,
    call_times: Arc<CallTimes>,
}

impl Model for TimedModel {
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply> {
        self.call_times.requested();
        Box::new(TimedReply { inner: self.inner.begin(request), call_times: self.call_times.clone() })
    }

    fn can(&self, model: &str, capability: Capability) -> bool {
        self.inner.can(model, capability)
    }
}

struct TimedReply {
    inner: Box<dyn Reply>,
    call_times: Arc<CallTimes>,
}

impl Reply for TimedReply {
    fn next(&mut self) -> BoxFuture<'_, Result<Piece, Failure>> {
        Box::pin(async move {
            let piece = self.inner.next().await;
            if let Ok(Piece::Finish { .. }) = piece {
                self.call_times.finished();
            }
            piece
        })
    }
}

struct TimedTool {
    inner: Arc<dyn Tool>,
    call_times: Arc<CallTimes>,
}

impl Tool for TimedTool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn description(&self) -> &str {
        self.inner.description()
    }

    fn schema(&self) -> Value {
        self.inner.schema()
    }

    fn assess(&self, input: &Value) -> Assessment {
        self.inner.assess(input)
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let start = now_ns();
            let outcome = self.inner.run(job).await;
            self.call_times.tool_ns.fetch_add(now_ns() - start, Ordering::Relaxed);
            outcome
        })
    }
}

/// A store that times its appends.
struct TimedStore {
    inner: SqliteStore,
    call_times: Arc<CallTimes>,
}

impl Store for TimedStore {
    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let (start, answer, call_times) = (now_ns(), self.inner.append(append), self.call_times.clone());
        Box::pin(async move {
            let answer = answer.await;
            call_times.durable_ns.fetch_add(now_ns() - start, Ordering::Relaxed);
            call_times.waits.fetch_add(1, Ordering::Relaxed);
            answer
        })
    }

    forward_store!(self, |call| call(&self.inner); observe, read, read_feed, tail, last_position, streams, row, rows, put_blob, blob, remove_blob, blobs, integrity, backup, stats, is_owner, close);
}
