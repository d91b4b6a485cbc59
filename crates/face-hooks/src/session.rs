//! One session of an agent: records its hooks in order, appends them to its run, and holds permissions open.
//!
//! The events of the agent's telemetry are recorded by `telemetry`. Owns the state of the session, which can be rebuilt from the log. Must not depend on HTTP. Start with
//! [`Session::work`].

mod telemetry;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use recount_engine::{Engine, Error, Events, PromptRow, RequestContext, RunRow};
use recount_event::family::run::Agent;
use recount_event::{Code, ForeignId, PromptKind, RunId, SessionId};
use recount_record::claude_telemetry::{self, TelemetryEvent};
use recount_record::hooks::{self, Hook, Seen};
use recount_record::{Answer, Elsewhere, Ending};
use recount_world::Shutdown;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::counted::Counted;
use crate::error::Refusal;
use crate::limits;
use crate::open_run::{OpenRun, Opening, data_of};
use telemetry::Telemetry;

/// What an agent reports.
pub(crate) enum Report {
    Hook { hook: Box<Hook>, hold: Option<PermissionHold> },
    Telemetry(Vec<TelemetryEvent>),
}

/// A report in the queue of its session.
pub(crate) struct Incoming {
    pub(crate) report: Report,
    pub(crate) to: oneshot::Sender<Result<Value, Refusal>>,
    pub(crate) _queued: Counted,
}

/// How long a permission request is held open for an answer of Recount's faces.
pub(crate) struct PermissionHold {
    /// Counted from the arrival of the request, because its client waits from then on.
    pub(crate) until: Instant,
    pub(crate) _held: Counted,
}

/// The name of an agent's session in rows.
pub(crate) struct SessionName(blake3::Hash);

impl SessionName {
    pub(crate) fn of(agent: &str, session: &str) -> Self {
        SessionName(blake3::hash(format!("hooks {agent} {session}").as_bytes()))
    }

    pub(crate) fn short(&self) -> u64 {
        u64::from_le_bytes(self.0.as_bytes()[..8].try_into().expect("a digest has 32 bytes"))
    }

    pub(crate) fn row(&self) -> String {
        self.0.to_hex().as_str()[..32].to_owned()
    }
}

/// A permission request that is held open.
struct Waiter {
    approval: String,
    agent: &'static str,
    until: Instant,
    to: oneshot::Sender<Result<Value, Refusal>>,
    _hold: PermissionHold,
}

/// The stop hook of a prompt whose calls have no outcome yet or whose tokens are not reported yet. It was acknowledged, so it
/// is pending until the end of its run is in the log.
struct PendingStop {
    hook: Hook,
    run: RunId,
    due: Instant,
}

pub(crate) struct Session {
    visitor: RequestContext,
    agent: &'static str,
    name: SessionName,
    title: String,
    /// Whether this process had the session in memory before, so that no hook was missed.
    is_known: bool,
    id: Option<SessionId>,
    run: Option<OpenRun>,
    /// Whether the session had a run.
    had_runs: bool,
    /// Ids of the messages that started runs, and their runs.
    prompts: VecDeque<(String, RunId)>,
    /// Hooks that wait for a run.
    held: VecDeque<Hook>,
    held_dropped: bool,
    stopping: Option<PendingStop>,
    telemetry: Telemetry,
    waiters: Vec<Waiter>,
    held_permissions: Arc<AtomicUsize>,
    /// The events of the run, while an agent waits for an answer.
    follow: Option<Events>,
    epoch: u64,
}

/// The event that woke the task.
enum Woken {
    Hook(Option<Box<Incoming>>),
    Events(Result<Option<Vec<(String, Value)>>, Error>),
    /// The client of a held permission disconnected.
    WaiterClosed,
    Time,
    Shutdown,
}

impl Session {
    pub(crate) fn new(
        visitor: RequestContext,
        agent: &'static str,
        name: SessionName,
        is_known: bool,
        held_permissions: Arc<AtomicUsize>,
        reports_usage: Arc<AtomicBool>,
    ) -> Self {
        Session {
            visitor,
            agent,
            name,
            title: agent.to_owned(),
            is_known,
            id: None,
            run: None,
            had_runs: false,
            prompts: VecDeque::new(),
            held: VecDeque::new(),
            held_dropped: false,
            stopping: None,
            telemetry: Telemetry::new(reports_usage),
            waiters: Vec::new(),
            held_permissions,
            follow: None,
            epoch: 0,
        }
    }

    /// Takes hooks until there are none for a while, or the server ends.
    pub(crate) async fn work(mut self, mut inbox: mpsc::Receiver<Incoming>, mut shutdown: Shutdown) {
        // The session left memory, so no hook follows; only deadlines and answers are handled.
        let mut is_leaving = false;
        while !is_leaving || !self.waiters.is_empty() || self.stopping.is_some() {
            let idle = self.waiters.is_empty()
                && self.stopping.is_none()
                && self.held.is_empty()
                && !self.telemetry.is_due();
            let due = self.due();
            let woken = tokio::select! {
                biased;
                () = shutdown.requested() => Woken::Shutdown,
                incoming = inbox.recv(), if !is_leaving => Woken::Hook(incoming.map(Box::new)),
                events = next_of(&mut self.follow) => Woken::Events(events),
                () = waiter_closed(&mut self.waiters) => Woken::WaiterClosed,
                () = tokio::time::sleep_until(due) => Woken::Time,
            };
            match woken {
                Woken::Shutdown => break,
                Woken::Hook(None) => {
                    is_leaving = true;
                    self.expire(recount_world::moment() + limits::SESSION_IDLE).await;
                }
                Woken::Hook(Some(incoming)) => self.handle(*incoming).await,
                Woken::Events(events) => self.observe(events).await,
                Woken::WaiterClosed => self.expire_closed_waiters(),
                Woken::Time if idle && !inbox.is_empty() => {}
                Woken::Time if idle => inbox.close(),
                Woken::Time => self.expire(recount_world::moment()).await,
            }
            self.answer_settled().await;
        }
        if is_leaving {
            self.end_usage_run().await;
        }
        // At shutdown. The prompt has ended; only its tokens were waited for.
        for _ in 0..limits::TRIES_MAX {
            self.end_stopped(false).await;
        }
        // Open permissions stay open in the log; the agent's own dialog decides.
        self.waiters.drain(..).for_each(|waiter| reply(waiter.to, Ok(Value::Null)));
        self.count_waiters();
    }

    /// The next deadline.
    fn due(&self) -> Instant {
        let stop = self.stopping.as_ref().map(|stop| stop.due);
        let waits = self.waiters.iter().map(|waiter| waiter.until).min();
        let idle = recount_world::moment() + limits::SESSION_IDLE;
        stop.into_iter().chain(waits).chain(self.telemetry.due).min().unwrap_or(idle)
    }

    /// Handles one report. Retries with the state of the log if the run changed at the same time.
    async fn handle(&mut self, incoming: Incoming) {
        let Incoming { report, to, _queued } = incoming;
        let mut tries = 0;
        let done = loop {
            tries += 1;
            let done = match &report {
                Report::Hook { hook, hold } => self.process(hook, hold.as_ref()).await,
                Report::Telemetry(events) => self.record_telemetry(events).await.map(|()| None),
            };
            match done {
                Ok(approval) => break Ok(approval),
                Err(error) => {
                    // The recording may differ from the log: load it again.
                    self.forget_run();
                    if matches!(report, Report::Telemetry(_)) {
                        self.telemetry.forget_keys();
                    }
                    if is_permanent(&error) || tries >= limits::TRIES_MAX {
                        break Err(error);
                    }
                    if error.code() == Code::ProducerFenced {
                        self.epoch += limits::EPOCH_STEP_MS;
                    }
                }
            }
        };
        match (done, report) {
            (Ok(Some(approval)), Report::Hook { hook, hold: Some(hold) }) => {
                // The engine withdraws the approval at its deadline, and this follows its events.
                let until = hold.until + limits::WITHDRAW_WAIT;
                self.waiters.push(Waiter { approval, agent: hook.agent, until, to, _hold: hold });
                self.count_waiters();
            }
            (Ok(_), _) => reply(to, Ok(Value::Null)),
            (Err(error), report) => {
                let event = match &report {
                    Report::Hook { hook, .. } => hook.event.as_str(),
                    Report::Telemetry(_) => "telemetry",
                };
                tracing::warn!(agent = self.agent, event, %error, "a report of an agent was not recorded");
                reply(to, Err(error.into()));
            }
        }
    }

    fn count_waiters(&self) {
        self.held_permissions.store(self.waiters.len(), Ordering::SeqCst);
    }

    fn forget_run(&mut self) {
        self.run = None;
        self.telemetry.forget_run();
        self.id = None;
        self.follow = None;
        self.is_known = true;
    }

    fn next_epoch(&mut self) -> u64 {
        self.epoch = self.visitor.engine.world().clock.now_ms().max(self.epoch + 1);
        self.epoch
    }

    /// Finds the session and its newest run in the log.
    async fn load_session(&mut self) -> Result<SessionId, Error> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let engine = self.visitor.engine.clone();
        let row = engine.write().recorded_session(&self.name.row(), Some(self.title.clone())).await?;
        let runs = OpenRun::newest(&engine, row.id, limits::NEWEST_RUNS).await?;
        let of_telemetry = |run: &&RunRow| run.source.as_deref() == Some(claude_telemetry::SOURCE);
        let newest = runs.iter().find(|run| !of_telemetry(run));
        self.had_runs = newest.is_some();
        if let Some(newest) = newest {
            for message in OpenRun::messages(&engine, newest.id).await? {
                self.remember_prompt(message, newest.id);
            }
            if !newest.has_ended() {
                let epoch = self.next_epoch();
                let source = hooks::source(self.agent, None);
                let mut run = OpenRun::load(&engine, newest.id, &source, epoch).await?;
                if !self.is_known {
                    run.recording.gap("recorder_restarted", "hooks sent while the server was not running");
                }
                self.run = Some(run);
            }
        }
        self.drop_stop_of_other_run();
        if let Some(open) = runs.iter().find(|run| of_telemetry(run) && !run.has_ended()) {
            let epoch = self.next_epoch();
            self.load_usage_run(open.id, epoch).await?;
        }
        self.look_for_usage().await?;
        self.is_known = true;
        self.id = Some(row.id);
        Ok(row.id)
    }

    fn remember_prompt(&mut self, id: String, run: RunId) {
        if self.prompts.len() >= limits::PROMPTS_REMEMBERED_MAX {
            self.prompts.pop_front();
        }
        self.prompts.push_back((id, run));
    }

    /// The run that a prompt started.
    fn run_of(&self, prompt: &str) -> Option<RunId> {
        self.prompts.iter().rev().find(|(id, _)| id == prompt).map(|(_, run)| *run)
    }

    /// Records a hook and appends. Returns the approval that was requested.
    async fn process(&mut self, hook: &Hook, hold: Option<&PermissionHold>) -> Result<Option<String>, Error> {
        self.title = hook.session_title();
        let session = self.load_session().await?;
        if self.run.as_ref().is_some_and(|run| run.recording.is_ended()) {
            self.run = None;
        }
        if matches!(hook.seen, Seen::SessionEnded { .. }) && self.awaits_usage() {
            // The prompt has ended before, and the agent sends the rest now.
            self.hurry_usage();
            return Ok(None);
        }
        if matches!(hook.seen, Seen::CallStarting(_) | Seen::Permission { .. }) && self.awaits_usage() {
            // The agent continues after its stop, so the call belongs to another run.
            self.stop_if_settled(true);
            self.append().await?;
            self.run = None;
        }
        if matches!(hook.seen, Seen::Prompted { .. }) && !self.end_previous_prompt(hook).await? {
            return Ok(None);
        }
        if self.run.is_none() && !self.open_run_for(hook, session).await? {
            return Ok(None);
        }
        let awaits_usage = matches!(hook.seen, Seen::Stopped { .. }) && self.expects_usage();
        let Some(run) = &mut self.run else { return Ok(None) };
        if self.held_dropped {
            run.recording.gap("too_many", "events that the agent sent between two runs");
        }
        for held in &self.held {
            held.record(&mut run.recording, false);
        }
        let approval = hold.and_then(|hold| {
            let wait = hold.until.saturating_duration_since(recount_world::moment());
            if wait.is_zero() {
                return None;
            }
            let world = self.visitor.engine.world();
            let ulid = ulid::Ulid::from_parts(world.clock.now_ms(), world.entropy.draw());
            hook.ask(&mut run.recording, &format!("appr_{ulid}"), wait.as_millis().div_ceil(1_000) as u64)
        });
        if approval.is_none() {
            if matches!(hook.seen, Seen::Stopped { .. } | Seen::SessionEnded { .. }) {
                hooks::withdraw_all(&mut run.recording, hook.agent, "the agent continued without an answer");
            }
            let patches = hook.patches(&run.recording);
            if awaits_usage {
                hook.record_before_end(&mut run.recording);
                self.telemetry.await_usage();
                let due = recount_world::moment() + limits::USAGE_WAIT;
                self.stopping.get_or_insert(PendingStop { hook: hook.clone(), run: run.id, due });
            } else if hook.record(&mut run.recording, false) && self.stopping.is_none() {
                let due = recount_world::moment() + limits::STOP_WAIT;
                self.stopping = Some(PendingStop { hook: hook.clone(), run: run.id, due });
            }
            for patch in patches {
                run.add_patch(&patch, &self.visitor.caller.id).await;
            }
        }
        self.stop_if_settled(false);
        self.append().await?;
        self.held.clear();
        self.held_dropped = false;
        if let (Seen::Prompted { .. }, Some(run)) = (&hook.seen, &self.run) {
            let run = run.id;
            self.remember_prompt(hook.message_id(), run);
        }
        Ok(approval)
    }

    /// Returns whether a prompt is new. Ends a run with another prompt first, unless its calls are open: then the
    /// prompt is a message to the working agent.
    async fn end_previous_prompt(&mut self, hook: &Hook) -> Result<bool, Error> {
        let id = hook.message_id();
        let Some(run) = &mut self.run else {
            return Ok(hook.prompt.is_none() || self.run_of(&id).is_none());
        };
        if run.recording.has_message(&id) {
            return Ok(false);
        }
        if !run.recording.has_prompt() || (self.stopping.is_none() && !run.recording.open_calls().is_empty())
        {
            return Ok(true);
        }
        if hook.prompt.is_some() && self.prompts.iter().any(|(known, _)| *known == id) {
            return Ok(false);
        }
        if self.stopping.is_some() {
            self.stop_if_settled(true);
        } else {
            run.recording.gap("stop_lost", "the end of the turn and what the agent did before it");
            run.recording.end(Ending::Finished { status: "end_not_seen".into() });
        }
        self.append().await?;
        self.run = None;
        Ok(true)
    }

    /// Opens a run if the hook starts one. Other hooks are kept for the next run.
    async fn open_run_for(&mut self, hook: &Hook, session: SessionId) -> Result<bool, Error> {
        let ends_unused =
            matches!(hook.seen, Seen::SessionEnded { .. }) && !self.had_runs && !self.held.is_empty();
        // For example the end of a sub-agent that outlived the prompt.
        let is_late = matches!(hook.seen, Seen::Other)
            && hook.prompt.is_some()
            && self.run_of(&hook.message_id()).is_some();
        if (!hook.opens_run() || is_late) && !ends_unused {
            // The end of a prompt or session is redundant when all runs have ended.
            let is_news = is_late || matches!(hook.seen, Seen::SessionStarted | Seen::Aside);
            if is_news && !self.held.iter().any(|held| held.key == hook.key) {
                if self.held.len() >= limits::HELD_MAX {
                    self.held.pop_front();
                    self.held_dropped = true;
                }
                self.held.push_back(hook.clone());
            }
            return Ok(false);
        }
        let epoch = self.next_epoch();
        let opening = Opening {
            title: hook.title(),
            agent: Agent { name: hook.agent_name().to_owned(), version: hook.version.clone() },
            source: hooks::source(hook.agent, hook.version.clone()),
            facts: hook.session_facts(),
            by: self.visitor.caller.name.clone(),
            key: None,
        };
        let run = OpenRun::create(&self.visitor.engine, session, opening, epoch).await?;
        self.had_runs = true;
        self.stopping = None;
        self.run = Some(run);
        Ok(true)
    }

    /// Records the pending stop when all calls have outcomes and the tokens are reported, or `now`. It is pending until the
    /// append succeeds, since a failed one loses what is recorded.
    fn stop_if_settled(&mut self, now: bool) {
        let Some(run) = &mut self.run else { return };
        if let Some(stop) = &self.stopping
            && (now || (run.recording.open_calls().is_empty() && !self.telemetry.awaits_usage))
        {
            stop.hook.record(&mut run.recording, true);
        }
    }

    /// Appends the end of a stopped prompt: with `now`, or if only its tokens are missing. Loads its run if it is not in
    /// memory. After a failure it is tried again later.
    async fn end_stopped(&mut self, now: bool) {
        if self.stopping.is_none() {
            return;
        }
        let done = async {
            if self.run.is_none() {
                self.load_session().await?;
                self.drop_stop_of_other_run();
            }
            let is_settled = |run: &OpenRun| run.recording.open_calls().is_empty();
            self.stop_if_settled(now || self.run.as_ref().is_some_and(is_settled));
            self.append().await
        };
        let Err(error) = done.await else { return };
        self.forget_run();
        if is_permanent(&error) {
            tracing::error!(agent = self.agent, %error, "the end of a prompt cannot be recorded");
            (self.stopping, self.telemetry.awaits_usage) = (None, false);
        } else if let Some(stop) = &mut self.stopping {
            tracing::warn!(run = %stop.run, %error, "the end of a prompt is not recorded yet");
            stop.due = recount_world::moment() + limits::RETRY_WAIT;
        }
    }

    /// Drops a pending stop whose run has ended meanwhile.
    fn drop_stop_of_other_run(&mut self) {
        let run = self.run.as_ref().map(|run| run.id);
        if let Some(stop) = self.stopping.take_if(|stop| Some(stop.run) != run) {
            tracing::info!(run = %stop.run, "the run of a stopped prompt has ended before");
            self.telemetry.awaits_usage = false;
        }
    }

    async fn append(&mut self) -> Result<(), Error> {
        let Some(run) = &mut self.run else { return Ok(()) };
        run.append().await?;
        if run.recording.is_ended() {
            self.stopping = None;
            self.telemetry.awaits_usage = false;
            self.follow = None;
        }
        Ok(())
    }

    /// Takes events that other clients appended to the run.
    async fn observe(&mut self, events: Result<Option<Vec<(String, Value)>>, Error>) {
        let events = match events {
            Ok(events) => events.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "cannot follow the answers to a permission");
                return self.forget_run();
            }
        };
        let Some(run) = &mut self.run else { return };
        if events.is_empty() {
            self.follow = None;
        }
        for (kind, data) in &events {
            match kind.as_str() {
                "approval.resolved" | "approval.timed_out" => run.recording.saw_resolved(kind, data),
                "run.cancelled" | "run.failed" | "run.finished" => run.recording.saw(kind, data),
                _ => {}
            }
        }
        if let Err(error) = self.append().await {
            tracing::warn!(%error, "a denied call was not recorded as denied");
            self.forget_run();
        }
    }

    /// Handles deadlines: permissions without an answer, and a stop whose calls have no outcome.
    async fn expire(&mut self, now: Instant) {
        let (over, left) =
            std::mem::take(&mut self.waiters).into_iter().partition(|waiter| waiter.until <= now);
        self.waiters = left;
        let over: Vec<Waiter> = over;
        if let Some(run) = &mut self.run {
            for waiter in &over {
                let why = match waiter.to.is_closed() {
                    true => "the agent no longer waits for an answer",
                    false => "there was no answer in time; the agent's own dialog decides",
                };
                run.recording.withdraw(&waiter.approval, &Elsewhere::undecided(self.agent, why));
            }
        }
        if let Err(error) = self.append().await {
            // An answer was appended at the same time and is read below, or the store failed.
            tracing::info!(%error, "expired permissions could not be recorded");
            self.forget_run();
        }
        if self.stopping.as_ref().is_some_and(|stop| stop.due <= now) {
            self.end_stopped(true).await;
        }
        if self.telemetry.due.is_some_and(|due| due <= now) {
            self.end_usage_run().await;
        }
        let engine = self.visitor.engine.clone();
        for waiter in over {
            answer(&engine, waiter).await;
        }
        self.count_waiters();
    }

    /// Expires the waiters whose client disconnected.
    fn expire_closed_waiters(&mut self) {
        let now = recount_world::moment();
        self.waiters.iter_mut().filter(|waiter| waiter.to.is_closed()).for_each(|waiter| waiter.until = now);
    }

    /// Replies to the waiters whose approval is closed. Follows the run for the others.
    async fn answer_settled(&mut self) {
        if self.waiters.is_empty() {
            self.follow = None;
            return;
        }
        if self.run.is_none() && self.load_session().await.is_err() {
            return;
        }
        let is_open = |approval: &str| self.run.as_ref().is_some_and(|run| run.recording.is_asking(approval));
        let (left, settled) =
            std::mem::take(&mut self.waiters).into_iter().partition(|waiter| is_open(&waiter.approval));
        self.waiters = left;
        let settled: Vec<Waiter> = settled;
        let engine = self.visitor.engine.clone();
        for waiter in settled {
            answer(&engine, waiter).await;
        }
        self.count_waiters();
        let Some(run) = self.run.as_ref().filter(|_| self.follow.is_none() && !self.waiters.is_empty())
        else {
            return;
        };
        // From the last known event: an answer may have been appended since.
        match self.visitor.engine.read().follow_events(run.id, run.last).await {
            Ok(events) => self.follow = Some(events),
            Err(error) => tracing::warn!(%error, "cannot follow the answers to a permission"),
        }
    }
}

/// Whether a repetition fails, too.
pub(crate) fn is_permanent(error: &Error) -> bool {
    matches!(error.code(), Code::Internal | Code::StoreCorrupt | Code::RunDamaged)
}

/// Replies to the agent with the outcome of its permission.
async fn answer(engine: &Engine, waiter: Waiter) {
    let prompt = match ForeignId::parse(&waiter.approval) {
        Ok(id) => engine.read().prompt(PromptKind::Approval, &id).await.ok().flatten(),
        Err(_) => None,
    };
    let (answer, comment) = match prompt {
        Some(PromptRow::Approval(row)) => {
            let answer = match row.status.as_str() {
                "approved" => Some(Answer::Approved),
                "rejected" => Some(Answer::Rejected),
                _ => None,
            };
            (answer, row.comment)
        }
        _ => (None, None),
    };
    reply(waiter.to, Ok(hooks::permission_answer(waiter.agent, answer, comment.as_deref())));
}

fn reply(to: oneshot::Sender<Result<Value, Refusal>>, answer: Result<Value, Refusal>) {
    // The agent may have disconnected; its hook is recorded anyway.
    drop(to.send(answer));
}

/// The next events of the followed run; pending forever without one.
async fn next_of(follow: &mut Option<Events>) -> Result<Option<Vec<(String, Value)>>, Error> {
    match follow {
        Some(events) => {
            let events = events.next().await?;
            Ok(events.map(|events| events.iter().map(|event| data_of(event)).collect()))
        }
        None => std::future::pending().await,
    }
}

/// Resolves when the client of an unexpired waiter has disconnected.
async fn waiter_closed(waiters: &mut [Waiter]) {
    let now = recount_world::moment();
    std::future::poll_fn(|cx| {
        let left =
            waiters.iter_mut().any(|waiter| waiter.until > now && waiter.to.poll_closed(cx).is_ready());
        if left { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}
