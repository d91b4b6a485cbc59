//! One trace: its spans about models, agents and tools are kept in an external run, which gets turns and calls when the trace
//! is complete.
//!
//! Owns the run. Its state can be rebuilt from the log, where spans are durable before they are acknowledged. It must not
//! depend on HTTP. Start with [`start`].

use recount_engine::{Engine, Error, RequestContext};
use recount_event::family::run::Agent;
use recount_event::{Code, SessionId};
use recount_record::genai_spans::{self, TraceSpan};
use recount_record::otlp::Span;
use recount_record::{Ending, session_title};
use recount_world::{Kind, Shutdown};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::Refusal;
use crate::limits;
use crate::open_run::{OpenRun, Opening};
use crate::session::SessionName;

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

/// A report in the queue of its trace. The result is the number of spans that came too late.
pub(crate) struct IncomingSpans {
    pub(crate) report: TraceReport,
    pub(crate) to: oneshot::Sender<Result<usize, Refusal>>,
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
}

/// Starts the task of a trace and returns its queue.
pub(crate) fn start(visitor: &RequestContext, trace_id: &str) -> mpsc::Sender<IncomingSpans> {
    let (queue, receiver) = mpsc::channel(limits::TRACE_QUEUE_MAX);
    let engine = visitor.engine.clone();
    let due = recount_world::moment() + limits::TRACE_QUIET;
    let trace =
        Trace { id: trace_id.to_owned(), engine, run: None, root: Root::NotSeen, due, has_ended: false };
    visitor.engine.world().tasks.spawn(Kind::Effect, |shutdown| trace.work(receiver, shutdown));
    queue
}

struct Trace {
    id: String,
    engine: Engine,
    run: Option<OpenRun>,
    root: Root,
    /// When the run ends.
    due: Instant,
    has_ended: bool,
}

impl Trace {
    async fn work(mut self, mut queue: mpsc::Receiver<IncomingSpans>, mut shutdown: Shutdown) {
        loop {
            let incoming = tokio::select! {
                biased;
                () = shutdown.requested() => break,
                incoming = queue.recv() => incoming,
                () = tokio::time::sleep_until(self.due), if !queue.is_closed() => {
                    self.settle().await;
                    // What is in the queue came too late.
                    queue.close();
                    continue;
                }
            };
            let Some(IncomingSpans { report, to }) = incoming else { return };
            let taken = self.take(&report).await;
            if self.has_ended {
                queue.close();
            }
            // The client may have disconnected.
            drop(to.send(taken.map_err(Refusal::from)));
        }
        if self.root == Root::Seen {
            self.settle().await;
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
                    self.run = None;
                    let again =
                        !matches!(error.code(), Code::Internal | Code::StoreCorrupt | Code::RunDamaged);
                    if !again || tries >= limits::TRIES_MAX {
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
        run.append().await?;
        if self.root < Root::Seen {
            self.root = self.root.max(report.root);
            let wait = match self.root {
                Root::Seen => limits::ROOT_WAIT,
                Root::OfProcess => limits::LOCAL_ROOT_WAIT,
                Root::NotSeen => limits::TRACE_QUIET,
            };
            self.due = recount_world::moment() + wait;
        }
        Ok(0)
    }

    /// Finds the run of the trace in the log, or opens it.
    async fn load(&mut self, report: &TraceReport) -> Result<(), Error> {
        let (engine, agent) = (&self.engine, &report.agent);
        let name = SessionName::of("otlp", &report.session);
        let title = session_title(&agent.name, None, &report.session);
        let session = engine.write().recorded_session(&name.row(), Some(title)).await?.id;
        // Higher than that of an earlier process, whose clock may have been ahead a little.
        let epoch = engine.world().clock.now_ms();
        for row in OpenRun::newest(engine, session, limits::TRACE_RUNS_SEARCHED).await? {
            if row.source.as_deref() != Some(genai_spans::SOURCE) || !self.is_run(&row).await? {
                continue;
            }
            if row.has_ended() {
                self.has_ended = true;
                return Ok(());
            }
            let mut run = OpenRun::load(engine, row.id, &genai_spans::source(), epoch).await?;
            if run.recording.has_turns() {
                // The server stopped while it added turns and calls.
                run.recording.gap("recorder_restarted", "turns and calls of spans in this run");
                run.recording.end(Ending::Finished { status: "end_not_seen".into() });
                run.append().await?;
                self.has_ended = true;
            }
            self.run = Some(run);
            return Ok(());
        }
        self.run = Some(self.open(session, report, epoch).await?);
        Ok(())
    }

    /// Whether a run is that of this trace.
    async fn is_run(&self, row: &recount_engine::RunRow) -> Result<bool, Error> {
        let mut is_same = false;
        let (page, _) = self.engine.read().read_run(row.id, None, OpenRun::HEAD_EVENTS).await?;
        OpenRun::each_of(&page, |_, kind, data| {
            is_same |= kind == "ext.recount.session" && data["raw"]["trace_id"] == *self.id;
        });
        Ok(is_same)
    }

    async fn open(&self, session: SessionId, report: &TraceReport, epoch: u64) -> Result<OpenRun, Error> {
        let opening = Opening {
            title: report.title.clone(),
            agent: report.agent.clone(),
            source: genai_spans::source().with_version(report.agent.version.clone()),
            facts: json!({ "trace_id": self.id, "session_id": report.session }),
            by: report.by.clone(),
        };
        OpenRun::create(&self.engine, session, opening, epoch).await
    }

    /// Adds turns and calls of the kept spans, and ends the run.
    async fn settle(&mut self) {
        let Some(mut run) = self.run.take() else { return };
        self.has_ended = true;
        if let Err(error) = settle(&self.engine, &mut run, self.root >= Root::OfProcess).await {
            tracing::warn!(trace = self.id, run = %run.id, %error, "the run of a trace was not completed");
        }
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
