//! One session of an agent: takes its hooks in order, keeps the run they belong to, appends, holds permissions open.
//!
//! The only owner of what is known of the session; everything here can be rebuilt from the log. Begin at
//! [`Session::work`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use recount_engine::{Engine, Error, Events, Visitor};
use recount_event::{Code, ForeignId, SessionId};
use recount_record::hooks::{self, Hook, Seen};
use recount_record::{Answer, Elsewhere, Ending};
use recount_world::Shutdown;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::counted::Counted;
use crate::error::Refusal;
use crate::limits;
use crate::open_run::{OpenRun, data_of};

/// A hook that waits for its turn.
pub(crate) struct Incoming {
    pub(crate) hook: Hook,
    pub(crate) ask: Option<Ask>,
    pub(crate) to: oneshot::Sender<Result<Value, Refusal>>,
    pub(crate) _queued: Counted,
}

/// A permission is to be asked of Recount's faces.
pub(crate) struct Ask {
    pub(crate) wait: Duration,
    pub(crate) _held: Counted,
}

/// How the rows name a session of an agent.
pub(crate) struct SessionName(blake3::Hash);

impl SessionName {
    pub(crate) fn of(agent: &str, session: &str) -> Self {
        SessionName(blake3::hash(format!("hooks {agent} {session}").as_bytes()))
    }

    pub(crate) fn short(&self) -> u64 {
        u64::from_le_bytes(self.0.as_bytes()[..8].try_into().expect("a digest has 32 bytes"))
    }

    fn row(&self) -> String {
        self.0.to_hex().as_str()[..32].to_owned()
    }
}

/// A permission request that is held open.
struct Waiter {
    approval: String,
    agent: &'static str,
    until: Instant,
    to: oneshot::Sender<Result<Value, Refusal>>,
    _ask: Ask,
}

pub(crate) struct Session {
    visitor: Visitor,
    agent: &'static str,
    name: SessionName,
    title: String,
    /// Whether this process had it in memory before, so that nothing was missed.
    is_known: bool,
    id: Option<SessionId>,
    run: Option<OpenRun>,
    /// How many runs there were, as far as it matters: none, or some.
    had_runs: bool,
    /// Ids of the messages that began runs.
    prompts: VecDeque<String>,
    /// Hooks that wait for a run.
    held: VecDeque<Hook>,
    held_dropped: bool,
    /// A prompt is answered, but calls have no outcome yet.
    stopping: Option<(Hook, Instant)>,
    waiters: Vec<Waiter>,
    asking: Arc<AtomicUsize>,
    /// The events of the run, while an agent waits for an answer.
    follow: Option<Events>,
    epoch: u64,
}

/// What woke the task.
enum Woken {
    Hook(Option<Box<Incoming>>),
    Events(Result<Option<Vec<(String, Value)>>, Error>),
    /// Someone who waited for a permission has left.
    Left,
    Time,
    Shutdown,
}

impl Session {
    pub(crate) fn new(
        visitor: Visitor,
        agent: &'static str,
        name: SessionName,
        is_known: bool,
        asking: Arc<AtomicUsize>,
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
            waiters: Vec::new(),
            asking,
            follow: None,
            epoch: 0,
        }
    }

    /// Takes hooks until there are none for a while, or the server ends.
    pub(crate) async fn work(mut self, mut inbox: mpsc::Receiver<Incoming>, mut shutdown: Shutdown) {
        loop {
            let idle = self.waiters.is_empty() && self.stopping.is_none() && self.held.is_empty();
            let due = self.due();
            let woken = tokio::select! {
                biased;
                () = shutdown.requested() => Woken::Shutdown,
                incoming = inbox.recv() => Woken::Hook(incoming.map(Box::new)),
                events = next_of(&mut self.follow) => Woken::Events(events),
                () = one_left(&mut self.waiters) => Woken::Left,
                () = tokio::time::sleep_until(due) => Woken::Time,
            };
            match woken {
                Woken::Shutdown => break,
                Woken::Hook(None) if self.waiters.is_empty() && self.stopping.is_none() => break,
                // Forgotten, but not done: no hook comes, so only time and answers are waited for.
                Woken::Hook(None) => self.time_is_up(recount_world::moment() + limits::SESSION_IDLE).await,
                Woken::Hook(Some(incoming)) => self.take(*incoming).await,
                Woken::Events(events) => self.saw(events).await,
                Woken::Left => self.let_go(),
                Woken::Time if idle && !inbox.is_empty() => {}
                Woken::Time if idle => inbox.close(),
                Woken::Time => self.time_is_up(recount_world::moment()).await,
            }
            self.answer_settled().await;
        }
        // What is open stays open in the log; the agents' own dialogs decide.
        self.waiters.drain(..).for_each(|waiter| reply(waiter.to, Ok(Value::Null)));
        self.count_waiters();
    }

    /// When something is to be done without a hook.
    fn due(&self) -> Instant {
        let stop = self.stopping.as_ref().map(|(_, due)| *due);
        let waits = self.waiters.iter().map(|waiter| waiter.until).min();
        let idle = recount_world::moment() + limits::SESSION_IDLE;
        stop.into_iter().chain(waits).min().unwrap_or(idle)
    }

    /// One hook. What fails because the run changed in the same moment is tried again with what the log has.
    async fn take(&mut self, incoming: Incoming) {
        let Incoming { hook, ask, to, _queued } = incoming;
        let mut tries = 0;
        let done = loop {
            tries += 1;
            match self.process(&hook, ask.as_ref()).await {
                Ok(approval) => break Ok(approval),
                Err(error) => {
                    // What the recording has and the log has not is not known: read it again.
                    self.forget_run();
                    let again =
                        !matches!(error.code(), Code::Internal | Code::StoreCorrupt | Code::RunDamaged);
                    if !again || tries >= limits::TRIES_MAX {
                        break Err(error);
                    }
                    if error.code() == Code::ProducerFenced {
                        self.epoch += limits::EPOCH_STEP_MS;
                    }
                }
            }
        };
        match (done, ask) {
            (Ok(Some(approval)), Some(ask)) => {
                let until = recount_world::moment() + ask.wait;
                self.waiters.push(Waiter { approval, agent: hook.agent, until, to, _ask: ask });
                self.count_waiters();
            }
            (Ok(_), _) => reply(to, Ok(Value::Null)),
            (Err(error), _) => {
                tracing::warn!(agent = hook.agent, event = hook.event, %error, "a hook was not recorded");
                reply(to, Err(error.into()));
            }
        }
    }

    fn count_waiters(&self) {
        self.asking.store(self.waiters.len(), Ordering::SeqCst);
    }

    fn forget_run(&mut self) {
        self.run = None;
        self.id = None;
        self.follow = None;
        self.is_known = true;
    }

    fn next_epoch(&mut self) -> u64 {
        self.epoch = self.visitor.engine.world().clock.now_ms().max(self.epoch + 1);
        self.epoch
    }

    /// Finds the session and its newest run in the log.
    async fn settle_in(&mut self) -> Result<SessionId, Error> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let engine = self.visitor.engine.clone();
        let row = engine.write().recorded_session(&self.name.row(), Some(self.title.clone())).await?;
        let newest = OpenRun::newest(&engine, row.id).await?;
        self.had_runs = newest.is_some();
        if let Some(newest) = newest {
            for message in OpenRun::messages(&engine, newest.id).await? {
                self.remember_prompt(message);
            }
            if !newest.has_ended() {
                let epoch = self.next_epoch();
                let mut run = OpenRun::load(&engine, newest.id, self.agent, epoch).await?;
                if !self.is_known {
                    run.recording.gap("recorder_restarted", "hooks that came while the server was away");
                }
                self.run = Some(run);
            }
        }
        self.is_known = true;
        self.id = Some(row.id);
        Ok(row.id)
    }

    fn remember_prompt(&mut self, id: String) {
        if self.prompts.len() >= limits::PROMPTS_REMEMBERED_MAX {
            self.prompts.pop_front();
        }
        self.prompts.push_back(id);
    }

    /// Records a hook and appends. The approval that is asked is returned.
    async fn process(&mut self, hook: &Hook, ask: Option<&Ask>) -> Result<Option<String>, Error> {
        self.title = hook.session_title();
        let session = self.settle_in().await?;
        if self.run.as_ref().is_some_and(|run| run.recording.is_ended()) {
            self.run = None;
        }
        if matches!(hook.seen, Seen::Prompted { .. }) && !self.makes_room_for(hook).await? {
            return Ok(None);
        }
        if self.run.is_none() && !self.opens_for(hook, session).await? {
            return Ok(None);
        }
        let Some(run) = &mut self.run else { return Ok(None) };
        if self.held_dropped {
            run.recording.gap("too_many", "events of the agent between two runs");
        }
        for held in &self.held {
            held.record(&mut run.recording, false);
        }
        let asked = ask.and_then(|ask| {
            let world = self.visitor.engine.world();
            let ulid = ulid::Ulid::from_parts(world.clock.now_ms(), world.entropy.draw());
            let seconds = ask.wait.as_secs().saturating_add(limits::ASK_SECONDS_MORE);
            hook.ask(&mut run.recording, &format!("appr_{ulid}"), seconds)
        });
        if asked.is_none() {
            if matches!(hook.seen, Seen::Stopped { .. } | Seen::SessionEnded { .. }) {
                hooks::withdraw_all(&mut run.recording, hook.agent, "the agent went on without an answer");
            }
            if hook.record(&mut run.recording, false) && self.stopping.is_none() {
                let due = recount_world::moment() + limits::STOP_WAIT;
                self.stopping = Some((hook.clone(), due));
            }
        }
        self.stop_if_settled(false);
        self.append().await?;
        self.held.clear();
        self.held_dropped = false;
        if matches!(hook.seen, Seen::Prompted { .. }) {
            self.remember_prompt(hook.message_id());
        }
        Ok(asked)
    }

    /// Whether a prompt is new. A run that has another prompt is ended first, unless calls of it are open: then it is a
    /// message to the agent at work.
    async fn makes_room_for(&mut self, hook: &Hook) -> Result<bool, Error> {
        let id = hook.message_id();
        let Some(run) = &mut self.run else {
            return Ok(hook.prompt.is_none() || !self.prompts.contains(&id));
        };
        if run.recording.has_message(&id) {
            return Ok(false);
        }
        if !run.recording.has_prompt() || (self.stopping.is_none() && !run.recording.open_calls().is_empty())
        {
            return Ok(true);
        }
        if self.prompts.contains(&id) && hook.prompt.is_some() {
            return Ok(false);
        }
        if self.stopping.is_some() {
            self.stop_if_settled(true);
        } else {
            run.recording.gap("stop_lost", "the end of the prompt, and what the agent did before it");
            run.recording.end(Ending::Finished { status: "end_not_seen".into() });
        }
        self.append().await?;
        self.run = None;
        Ok(true)
    }

    /// Opens a run for a hook, if it is one that does. Others are kept for the next run.
    async fn opens_for(&mut self, hook: &Hook, session: SessionId) -> Result<bool, Error> {
        let ends_unused =
            matches!(hook.seen, Seen::SessionEnded { .. }) && !self.had_runs && !self.held.is_empty();
        // Such as the end of a sub-agent that went on after the prompt.
        let is_late = matches!(hook.seen, Seen::Other)
            && hook.prompt.is_some()
            && self.prompts.contains(&hook.message_id());
        if (!hook.opens_run() || is_late) && !ends_unused {
            // The end of a prompt or of a session says nothing new where all runs have ended.
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
        let by = self.visitor.caller.name.clone();
        let run = OpenRun::create(&self.visitor.engine, session, hook, (&by, epoch)).await?;
        self.had_runs = true;
        self.stopping = None;
        self.run = Some(run);
        Ok(true)
    }

    /// Ends a run whose prompt is answered, when its calls have their outcomes or the time for them is over.
    fn stop_if_settled(&mut self, now: bool) {
        let Some(run) = &mut self.run else { return };
        if let Some((hook, _)) = &self.stopping
            && (now || run.recording.open_calls().is_empty())
        {
            hook.record(&mut run.recording, true);
            self.stopping = None;
        }
    }

    async fn append(&mut self) -> Result<(), Error> {
        let Some(run) = &mut self.run else { return Ok(()) };
        run.append().await?;
        if run.recording.is_ended() {
            self.stopping = None;
            self.follow = None;
        }
        Ok(())
    }

    /// Events of the run that others appended.
    async fn saw(&mut self, events: Result<Option<Vec<(String, Value)>>, Error>) {
        let events = match events {
            Ok(events) => events.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "answers to a permission cannot be followed");
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
            tracing::warn!(%error, "a denied call was not recorded as such");
            self.forget_run();
        }
    }

    /// What is due: the time of a permission is over, or the outcomes of calls did not come.
    async fn time_is_up(&mut self, now: Instant) {
        let (over, left) =
            std::mem::take(&mut self.waiters).into_iter().partition(|waiter| waiter.until <= now);
        self.waiters = left;
        let over: Vec<Waiter> = over;
        if let Some(run) = &mut self.run {
            for waiter in &over {
                let why = match waiter.to.is_closed() {
                    true => "the agent does not wait for an answer any more",
                    false => "nobody answered in time; the agent's own dialog decides",
                };
                run.recording.withdraw(&waiter.approval, &Elsewhere::undecided(self.agent, why));
            }
        }
        if self.stopping.as_ref().is_some_and(|(_, due)| *due <= now) {
            self.stop_if_settled(true);
        }
        if let Err(error) = self.append().await {
            // An answer came in the same moment, and is read below; or the store failed.
            tracing::info!(%error, "what was due could not be recorded");
            self.forget_run();
        }
        let engine = self.visitor.engine.clone();
        for waiter in over {
            answer(&engine, waiter).await;
        }
        self.count_waiters();
    }

    /// Those who left are not waited for.
    fn let_go(&mut self) {
        let now = recount_world::moment();
        self.waiters.iter_mut().filter(|waiter| waiter.to.is_closed()).for_each(|waiter| waiter.until = now);
    }

    /// Answers those whose approval is not open any more: it was answered, or the agent went on. Others go on
    /// waiting, for which the run is followed.
    async fn answer_settled(&mut self) {
        if self.waiters.is_empty() {
            self.follow = None;
            return;
        }
        if self.run.is_none() && self.settle_in().await.is_err() {
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
        // From what is known on: an answer may have come before this.
        match self.visitor.engine.read().follow_events(run.id, run.last).await {
            Ok(events) => self.follow = Some(events),
            Err(error) => tracing::warn!(%error, "answers to a permission cannot be followed"),
        }
    }
}

/// Tells the agent what the log says of its permission.
async fn answer(engine: &Engine, waiter: Waiter) {
    let row = match ForeignId::parse(&waiter.approval) {
        Ok(id) => engine.read().approval(&id).await.ok().flatten(),
        Err(_) => None,
    };
    let answer = match row.as_ref().map(|row| row.status.as_str()) {
        Some("approved") => Some(Answer::Approved),
        Some("rejected") => Some(Answer::Rejected),
        _ => None,
    };
    let comment = row.and_then(|row| row.comment);
    reply(waiter.to, Ok(hooks::permission_answer(waiter.agent, answer, comment.as_deref())));
}

fn reply(to: oneshot::Sender<Result<Value, Refusal>>, answer: Result<Value, Refusal>) {
    // The agent may have left; what it said is recorded all the same.
    drop(to.send(answer));
}

/// The next events of a run that is followed; never, of none.
async fn next_of(follow: &mut Option<Events>) -> Result<Option<Vec<(String, Value)>>, Error> {
    match follow {
        Some(events) => {
            let events = events.next().await?;
            Ok(events.map(|events| events.iter().map(|event| data_of(event)).collect()))
        }
        None => std::future::pending().await,
    }
}

/// When one of those who wait has left, and is still to be let go.
async fn one_left(waiters: &mut [Waiter]) {
    let now = recount_world::moment();
    std::future::poll_fn(|cx| {
        let left =
            waiters.iter_mut().any(|waiter| waiter.until > now && waiter.to.poll_closed(cx).is_ready());
        if left { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}
