//! One trace: its spans about models, agents and tools are kept in an external run, which gets turns and calls when the trace
//! is complete.
//!
//! Owns the run. Its state can be rebuilt from the log, where spans are durable before they are acknowledged. It must not
//! depend on HTTP. Start with [`start`].

use std::time::Duration;

use recount_engine::{
    Engine, Error, Failure, IdempotencyKey, ListQuery, RequestContext, RequestResult, RequestState, RunRow,
};
use recount_event::digest::digest_of;
use recount_event::family::run::Agent;
use recount_event::{Code, RunId, SessionId};
use recount_record::genai_spans::{self, TraceSpan};
use recount_record::otlp::Span;
use recount_record::{Ending, session_title};
use recount_world::{Kind, Shutdown};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::counted::Counted;
use crate::error::Refusal;
use crate::limits;
use crate::open_run::{OpenRun, Opening};
use crate::session::{SessionName, is_permanent};

/// Spans of one trace in one request.
pub(crate) struct TraceReport {
    spans: Vec<TraceSpan>,
    root: Root,
    /// The conversation, or the trace.
    session: String,
    agent: Agent,
    title: String,
    by: String,
}

/// Whether a request completes a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Root {
    NotSeen,
    /// A span whose parent is in another process.
    OfProcess,
    Seen,
}

/// The event that keeps a root which is not in a kept span: `of` is `trace` or `process`.
const ROOT_KEPT: &str = "ext.recount.trace_root";

impl Root {
    fn name(self) -> &'static str {
        if self == Root::OfProcess { "process" } else { "trace" }
    }

    /// What an event of the run shows.
    fn of_event(kind: &str, data: &Value) -> Root {
        match (kind, data["raw"]["of"].as_str()) {
            (ROOT_KEPT, Some("process")) => Root::OfProcess,
            (ROOT_KEPT, _) => Root::Seen,
            (genai_spans::KEPT, _) if TraceSpan::kept(data).is_some_and(|span| span.is_root()) => Root::Seen,
            _ => Root::NotSeen,
        }
    }

    /// How long the trace waits for its next span.
    fn wait(self) -> Duration {
        match self {
            Root::Seen => limits::ROOT_WAIT,
            Root::OfProcess => limits::LOCAL_ROOT_WAIT,
            Root::NotSeen => limits::TRACE_QUIET,
        }
    }
}

/// A report in the queue of its trace. The result is the number of spans that came too late.
pub(crate) struct IncomingSpans {
    pub(crate) report: TraceReport,
    pub(crate) to: oneshot::Sender<Result<usize, Refusal>>,
    pub(crate) _queued: Counted,
}

/// How a trace comes into memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Begin {
    Spans,
    /// With a run that an earlier process left open.
    Run(RunId),
}

impl TraceReport {
    /// Of at least one span.
    pub(crate) fn new(visitor: &RequestContext, spans: &[Span], about_agents: Vec<TraceSpan>) -> Self {
        let root = |span: &Span| match (span.parent_id.is_empty(), span.is_parent_remote) {
            (true, _) => Root::Seen,
            (false, true) => Root::OfProcess,
            (false, false) => Root::NotSeen,
        };
        let (name, version) = genai_spans::agent(spans);
        let conversation = spans.iter().find_map(genai_spans::conversation);
        let title = about_agents.iter().map(|span| span.title(&name)).find(|title| *title != name);
        TraceReport {
            root: spans.iter().map(root).max().unwrap_or(Root::NotSeen),
            session: conversation.unwrap_or(&spans[0].trace_id).to_owned(),
            title: title.unwrap_or_else(|| name.clone()),
            agent: Agent { name, version },
            by: visitor.caller.name.clone(),
            spans: about_agents,
        }
    }

    /// Bytes that it takes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        // Names and titles are cut, but not the conversation.
        self.spans.iter().map(TraceSpan::bytes).sum::<usize>() + self.session.len() + size_of::<Self>()
    }
}

/// Starts the task of a trace and returns its queue.
pub(crate) fn start(
    visitor: &RequestContext,
    trace_id: &str,
    begin: Begin,
    task: Counted,
) -> mpsc::Sender<IncomingSpans> {
    let (queue, receiver) = mpsc::channel(limits::TRACE_QUEUE_MAX);
    let run_id = match begin {
        Begin::Spans => None,
        Begin::Run(id) => Some(id),
    };
    let trace = Trace {
        id: trace_id.to_owned(),
        engine: visitor.engine.clone(),
        run_id,
        run: None,
        root: Root::NotSeen,
        due: recount_world::moment() + limits::TRACE_QUIET,
        has_ended: false,
        epoch: 0,
        _task: task,
    };
    visitor.engine.world().tasks.spawn(Kind::Effect, |shutdown| trace.work(receiver, shutdown));
    queue
}

/// The open runs of traces among the newest runs, and their traces.
pub(crate) async fn open_runs(engine: &Engine) -> Result<Vec<(String, RunId)>, Error> {
    let mut found = Vec::new();
    let mut query = ListQuery { limit: limits::TRACE_RUNS_PAGE, ..ListQuery::default() };
    for _ in 0..limits::TRACE_RUNS_RESUMED_AMONG / limits::TRACE_RUNS_PAGE {
        let page = engine.catalogue().list_runs(&query).await?;
        let is_open = |row: &&RunRow| row.source.as_deref() == Some(genai_spans::SOURCE) && !row.has_ended();
        for row in page.items.iter().filter(is_open) {
            let (head, _) = engine.read().read_run(row.id, None, OpenRun::HEAD_EVENTS).await?;
            OpenRun::each_of(&head, |_, kind, data| {
                if let ("ext.recount.session", Some(trace)) = (kind, data["raw"]["trace_id"].as_str()) {
                    found.push((trace.to_owned(), row.id));
                }
            });
        }
        query.after = page.end.next;
        if !page.end.has_more || query.after.is_none() {
            break;
        }
    }
    Ok(found)
}

struct Trace {
    id: String,
    engine: Engine,
    /// Its run, if it is known.
    run_id: Option<RunId>,
    /// Its run, if it is in memory.
    run: Option<OpenRun>,
    root: Root,
    /// When the run ends.
    due: Instant,
    has_ended: bool,
    epoch: u64,
    _task: Counted,
}

impl Trace {
    async fn work(mut self, mut queue: mpsc::Receiver<IncomingSpans>, mut shutdown: Shutdown) {
        if let Some(id) = self.run_id
            && let Err(error) = self.load_run(id).await
        {
            tracing::warn!(trace = self.id, run = %id, %error, "the open run of a trace is not loaded yet");
        }
        let mut is_replaced = false;
        while !self.has_ended {
            let incoming = tokio::select! {
                biased;
                () = shutdown.requested() => break,
                incoming = queue.recv(), if !is_replaced => incoming,
                () = tokio::time::sleep_until(self.due) => {
                    self.settle().await;
                    continue;
                }
            };
            match incoming {
                Some(IncomingSpans { report, to, .. }) => {
                    let taken = self.take(&report).await;
                    // The client may have disconnected.
                    drop(to.send(taken.map_err(Refusal::from)));
                }
                // There were too many traces, and this one was quiet.
                None => (is_replaced, self.due) = (true, recount_world::moment()),
            }
        }
        if !self.has_ended && self.root == Root::Seen {
            self.settle().await;
        }
        queue.close();
        if self.has_ended {
            // What is in the queue came too late.
            while let Some(IncomingSpans { report, to, .. }) = queue.recv().await {
                drop(to.send(Ok(report.spans.len())));
            }
        }
    }

    /// Keeps the spans of a report; returns how many came too late. Tries again with the state of the log if the run changed.
    async fn take(&mut self, report: &TraceReport) -> Result<usize, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.keep(report).await {
                Ok(late) => return Ok(late),
                Err(error) => {
                    self.forget_run(&error);
                    if is_permanent(&error) || tries >= limits::TRIES_MAX {
                        tracing::warn!(trace = self.id, %error, "spans were not recorded");
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn keep(&mut self, report: &TraceReport) -> Result<usize, Error> {
        if self.run.is_none() && !self.has_ended {
            self.load(report).await?;
        }
        let Some(run) = self.run.as_mut().filter(|_| !self.has_ended) else { return Ok(report.spans.len()) };
        for span in &report.spans {
            span.keep(&mut run.recording);
        }
        if report.root > self.root && !report.spans.iter().any(TraceSpan::is_root) {
            run.recording.note("trace_root", &json!({ "of": report.root.name() }));
        }
        run.append().await?;
        if self.root < Root::Seen {
            self.root = self.root.max(report.root);
            self.due = recount_world::moment() + self.root.wait();
        }
        Ok(0)
    }

    /// The recording may differ from the log.
    fn forget_run(&mut self, error: &Error) {
        self.run = None;
        if error.code() == Code::ProducerFenced {
            self.epoch += limits::EPOCH_STEP_MS;
        }
    }

    /// Higher than that of an earlier process, whose clock may have been ahead a little.
    fn next_epoch(&mut self) -> u64 {
        self.epoch = self.engine.world().clock.now_ms().max(self.epoch + 1);
        self.epoch
    }

    /// Finds the run of the trace, or opens it.
    async fn load(&mut self, report: &TraceReport) -> Result<(), Error> {
        if let Some(id) = self.run_id {
            return self.load_run(id).await;
        }
        let engine = self.engine.clone();
        let key = IdempotencyKey { key: digest_of(&["otlp", "trace", &self.id]), body: String::new() };
        let claim = engine.write().claim_request(&key).await?;
        if let RequestState::Executed(_, RequestResult::Run(id)) = claim
            && engine.catalogue().run(id).await?.is_some()
        {
            self.run_id = Some(id);
            return self.load_run(id).await;
        }
        if let RequestState::InProgress = claim {
            return Err(Failure::new(Code::StoreBusy, "the run of the trace is being opened").into());
        }
        let name = SessionName::of("otlp", &report.session);
        let title = session_title(&report.agent.name, None, &report.session);
        let session = engine.write().recorded_session(&name.row(), Some(title)).await?.id;
        let run = self.open(session, report, key).await?;
        (self.run_id, self.run) = (Some(run.id), Some(run));
        Ok(())
    }

    async fn load_run(&mut self, id: RunId) -> Result<(), Error> {
        let row = self.engine.catalogue().run(id).await?;
        if row.is_none_or(|row| row.has_ended()) {
            self.has_ended = true;
            return Ok(());
        }
        let (epoch, engine) = (self.next_epoch(), self.engine.clone());
        let (mut root, mut is_named) = (self.root, false);
        let mut run = OpenRun::load_seen(&engine, id, &genai_spans::source(), epoch, |kind, data| {
            is_named |= kind == "ext.recount.session";
            root = root.max(Root::of_event(kind, data));
        })
        .await?;
        if root > self.root {
            (self.root, self.due) = (root, recount_world::moment() + root.wait());
        }
        if !is_named {
            run.recording.note("session", &json!({ "trace_id": self.id }));
        }
        if run.recording.has_turns() {
            // The server stopped while it added turns and calls.
            run.recording.gap("recorder_restarted", "turns and calls of spans in this run");
            run.recording.end(Ending::Finished { status: "end_not_seen".into() });
            run.append().await?;
            self.has_ended = true;
        }
        self.run = Some(run);
        Ok(())
    }

    async fn open(
        &mut self,
        session: SessionId,
        report: &TraceReport,
        key: IdempotencyKey,
    ) -> Result<OpenRun, Error> {
        let opening = Opening {
            title: report.title.clone(),
            agent: report.agent.clone(),
            source: genai_spans::source().with_version(report.agent.version.clone()),
            facts: json!({ "trace_id": self.id, "session_id": report.session }),
            by: report.by.clone(),
            key: Some(key),
        };
        let epoch = self.next_epoch();
        OpenRun::create(&self.engine, session, opening, epoch).await
    }

    /// Ends the run. After a failure it is tried again later.
    async fn settle(&mut self) {
        let Err(error) = self.complete().await else { return };
        self.forget_run(&error);
        self.has_ended = is_permanent(&error);
        self.due = recount_world::moment() + limits::RETRY_WAIT;
        tracing::warn!(trace = self.id, %error, is_final = self.has_ended, "the run of a trace was not completed");
    }

    /// Adds turns and calls of the kept spans, and ends the run.
    async fn complete(&mut self) -> Result<(), Error> {
        if let (None, Some(id)) = (&self.run, self.run_id) {
            self.load_run(id).await?;
        }
        if let Some(run) = self.run.as_mut().filter(|_| !self.has_ended) {
            settle(&self.engine, run, self.root >= Root::OfProcess).await?;
        }
        self.has_ended = true;
        Ok(())
    }
}

async fn settle(engine: &Engine, run: &mut OpenRun, is_complete: bool) -> Result<(), Error> {
    let (mut spans, mut bytes, mut missing) = (Vec::new(), 0, 0);
    OpenRun::each_event(engine, run.id, |_, kind, data| {
        if kind != genai_spans::KEPT {
            return;
        }
        let fits = spans.len() < limits::TRACE_SPANS_MAX && bytes < limits::TRACE_BYTES_MAX;
        match TraceSpan::kept(data).filter(|_| fits) {
            Some(span) => {
                bytes += span.bytes();
                spans.push(span);
            }
            None => missing += 1,
        }
    })
    .await?;
    if missing > 0 {
        run.recording
            .gap("too_many_spans", &format!("turns and calls of {missing} spans, which are kept as events"));
    }
    genai_spans::record(&mut run.recording, spans, is_complete);
    run.append().await
}
