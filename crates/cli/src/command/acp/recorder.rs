//! Records what was forwarded, and answers what only Recount can answer. See [`AcpRecorder::run`].
//!
//! Nothing waits for it: when it is slow or the server is away, its queue fills and what is dropped is counted.

mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use recount_client::request::CreateSession;
use recount_client::{Client, Kind, Source, TailItem, Until, World, moment};
use recount_record::acp::{Choice, Options};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::account::{AcpAction, AcpConnection};
use super::gate::{Ask, Gate};
use super::leftover::Leftover;
use super::producer::AcpProducer;
use super::queue::{AcpBacklog, AcpItem, DroppedMessages};
use super::relay::Outlet;
use super::run::{SendStop, short, stop};
use crate::limits;
use crate::output::note;
use crate::render::count;

/// What a face of Recount, or the server's clock, decided about an approval.
pub(super) enum AcpDecision {
    Decided {
        kind: String,
        data: Value,
    },
    /// The server is no longer reachable.
    ServerAway {
        run: u64,
    },
}

pub(super) struct AcpRecorder {
    pub(super) world: World,
    pub(super) client: Client,
    pub(super) who: AcpProducer,
    pub(super) account: AcpConnection,
    pub(super) gate: Arc<Gate>,
    pub(super) editor: Arc<Outlet>,
    pub(super) agent: Arc<Outlet>,
    pub(super) ask: Ask,
    pub(super) leftover: Leftover,
    chats: BTreeMap<String, String>,
    followed: BTreeSet<u64>,
    decide: Sender<AcpDecision>,
    decisions: Receiver<AcpDecision>,
    away: Option<AwaySince>,
    is_refused: bool,
    /// Permissions whose approvals are not at the server yet.
    unsent: Vec<String>,
    /// Requests to the agent that `session/load` was turned into.
    resuming: BTreeMap<String, load::Resuming>,
    own_requests: u64,
}

struct AwaySince {
    since: Instant,
    next: Instant,
    wait: Duration,
}

impl AcpRecorder {
    #[expect(clippy::too_many_arguments, reason = "each is one of the parts that the verb has made")]
    pub(super) fn new(
        world: World,
        client: Client,
        who: AcpProducer,
        account: AcpConnection,
        gate: Arc<Gate>,
        editor: Arc<Outlet>,
        agent: Arc<Outlet>,
        ask: Ask,
        leftover: Leftover,
    ) -> Self {
        let (decide, decisions) = channel(limits::ACP_DECISIONS_MAX);
        AcpRecorder {
            world,
            client,
            who,
            account,
            gate,
            editor,
            agent,
            ask,
            leftover,
            chats: BTreeMap::new(),
            followed: BTreeSet::new(),
            decide,
            decisions,
            away: None,
            is_refused: false,
            unsent: Vec::new(),
            resuming: BTreeMap::new(),
            own_requests: 0,
        }
    }

    /// Records until the agent has ended and all of it is sent, or the time for that is over.
    pub(super) async fn run(mut self, mut waiting: AcpBacklog, mut agent_ended: oneshot::Receiver<()>) {
        let mut is_over = false;
        // Something is recorded and not sent yet, and the moment before which more of it is gathered.
        let (mut has_more, mut gather_until) = (false, moment());
        loop {
            let retry = self.away.as_ref().map(|away| away.next);
            let due = has_more && retry.is_none();
            let start_wait = self.account.start_wait();
            // When nothing more comes, what waits is read whether the server is there or not.
            let has_room = is_over || self.waiting_bytes() < limits::ACP_WAITING_BYTES_MAX;
            tokio::select! {
                biased;
                _ = &mut agent_ended, if !is_over => is_over = true,
                Some(decision) = self.decisions.recv() => {
                    self.decision(decision).await;
                    has_more = true;
                }
                item = waiting.next(), if has_room => {
                    let Some(item) = item else { break };
                    if self.items(item, &mut waiting).await {
                        break;
                    }
                    has_more = true;
                }
                () = sleep_until(gather_until), if due => {}
                () = sleep_until(retry.unwrap_or_else(moment)), if retry.is_some() => {}
                () = sleep(limits::ACP_CALL_WAIT), if self.account.has_waiting() => {
                    self.account.settle_known();
                    has_more = true;
                }
                () = sleep(start_wait.unwrap_or_default()), if start_wait.is_some() => {
                    self.account.settle_starting(start_wait.unwrap_or_default());
                    has_more = true;
                }
            }
            let may_send = match &self.away {
                Some(away) => moment() >= away.next,
                None => has_more && (self.is_urgent() || moment() >= gather_until),
            };
            if may_send {
                self.send().await;
                (has_more, gather_until) = (false, moment() + limits::ACP_GATHER);
            }
        }
        let dropped = waiting.take_dropped();
        if dropped != DroppedMessages::default() {
            self.account.dropped(dropped);
        }
        self.finish().await;
    }

    /// Whether what is recorded must be sent at once: a permission request or the end of a prompt.
    fn is_urgent(&self) -> bool {
        !self.unsent.is_empty() || self.account.runs.values().any(|run| run.recording.is_ended())
    }

    /// Takes an item and those that wait after it. Whether it was the last one.
    async fn items(&mut self, first: AcpItem, waiting: &mut AcpBacklog) -> bool {
        let mut next = Some(first);
        for _ in 0..limits::ACP_ITEMS_AT_ONCE {
            let Some(item) = next else { return false };
            let is_last = matches!(item, AcpItem::AgentEnded(_));
            for action in self.account.take(item) {
                self.act(action).await;
            }
            if is_last {
                return true;
            }
            next = waiting.next_now();
        }
        if let Some(item) = next {
            let is_last = matches!(item, AcpItem::AgentEnded(_));
            for action in self.account.take(item) {
                self.act(action).await;
            }
            return is_last;
        }
        false
    }

    async fn act(&mut self, action: AcpAction) {
        match action {
            AcpAction::PermissionRequested { request } => {
                if self.away.is_some() || self.is_refused {
                    self.pass_to_editor(&request, "the server is unreachable").await;
                } else {
                    // Before it is sent: an editor without a dialog answers with an error sooner than the server.
                    self.gate.opened_in_recount(&request);
                }
                self.unsent.push(request);
            }
            AcpAction::CannotAsk { request } => {
                self.pass_to_editor(&request, "the request cannot be shown in Recount").await
            }
            AcpAction::CancelPermission { request, is_taken_back } => {
                self.cancel(&request, is_taken_back).await
            }
            AcpAction::Load { request, session, params } => load::load(self, request, session, params).await,
            AcpAction::RefusePrompt { request } => load::refuse_prompt(self, &request).await,
            AcpAction::OwnAnswer { request, answer } => load::resumed(self, &request, &answer).await,
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.account.runs.values().map(super::run::RecordedRun::waiting_bytes).sum()
    }

    // Sending.

    pub(super) async fn send(&mut self) {
        if self.is_refused {
            self.account.runs.values_mut().for_each(|run| drop(run.recording.drain()));
            self.account.runs.retain(|_, run| !run.recording.is_ended());
            return;
        }
        self.who.agent.clone_from(&self.account.agent);
        self.who.agent_version.clone_from(&self.account.agent_version);
        match self.send_runs().await {
            Ok(()) => self.is_back(),
            Err(SendStop::Away(why)) => self.is_away(&why).await,
            Err(SendStop::Refused(why)) => {
                note(&format!("recording stopped; messages are still forwarded: {why}"));
                self.is_refused = true;
                let open: Vec<String> = self.account.permissions.keys().cloned().collect();
                for request in open {
                    self.pass_to_editor(&request, "the server rejects this recorder").await;
                }
                self.give_up_unsent().await;
            }
        }
    }

    async fn send_runs(&mut self) -> Result<(), SendStop> {
        let runs: Vec<u64> = self.account.runs.keys().copied().collect();
        for key in runs {
            let Some(run) = self.account.runs.get_mut(&key) else { continue };
            run.gather();
            if run.waiting_events() > 0 {
                let session = run.session.clone();
                let mut chat = match self.chats.get(&session) {
                    Some(chat) => Some(chat.clone()),
                    None if session.is_empty() => None,
                    None => Some(self.chat(&session).await?),
                };
                let Some(run) = self.account.runs.get_mut(&key) else { continue };
                let sent = run.send(&self.client, &self.who, &mut chat, &mut self.leftover).await;
                match chat {
                    Some(chat) => drop(self.chats.insert(session, chat)),
                    None => drop(self.chats.remove(&session)),
                }
                sent?;
            }
            self.follow(key);
            if self.account.runs.get(&key).is_some_and(super::run::RecordedRun::is_done)
                && let Some(run) = self.account.runs.remove(&key)
            {
                run.id.iter().for_each(|id| self.leftover.over(id));
                self.account.permissions.retain(|_, open| open.run != key);
            }
        }
        for request in std::mem::take(&mut self.unsent) {
            self.gate.opened_in_recount(&request);
        }
        Ok(())
    }

    /// The session of ours that has the runs of this one of the agent: one that is there already, or a new one.
    async fn chat(&mut self, session: &str) -> Result<String, SendStop> {
        let (folder, is_new) = self.account.session_facts(session);
        let agent = &self.account.agent;
        if !is_new
            && let Some(found) =
                load::find_chat(&self.client, agent, session).await.map_err(|why| stop(&why))?
        {
            return Ok(found);
        }
        let title = load::chat_title(agent, &folder, session);
        // If the response is lost, the request is sent again; the run is created once.
        let once = self.client.once(&format!("{}-{}", self.who.producer, recount_record::map_id(session)));
        let made = once.create_session(&CreateSession { title: Some(title) }).await;
        Ok(made.map_err(|why| stop(&why))?.id)
    }

    async fn is_away(&mut self, why: &str) {
        let now = moment();
        match &mut self.away {
            Some(away) => {
                away.wait = (away.wait * 2).min(limits::ACP_RETRY_WAIT_MAX);
                away.next = now + away.wait;
            }
            None => {
                note(&format!("recording paused; messages are still forwarded: {why}"));
                let wait = limits::ACP_RETRY_WAIT;
                self.away = Some(AwaySince { since: now, next: now + wait, wait });
                let held: Vec<String> = self.held();
                for request in held {
                    self.pass_to_editor(&request, "the server is unreachable").await;
                }
                self.give_up_unsent().await;
            }
        }
    }

    /// Closes permission requests that did not reach the server. Where the editor has answered with an error
    /// meanwhile, they are open nowhere.
    async fn give_up_unsent(&mut self) {
        for request in self.unsent.clone() {
            if !self.gate.closed_in_recount(&request) || self.gate.claim(&request).is_none() {
                continue;
            }
            let why = "the editor cannot show permission requests, and the Recount server is unreachable";
            self.answer_agent(&request, "error", &json!({"code": -32603, "message": why})).await;
            let Some(open) = self.account.permissions.remove(&request) else { continue };
            if let Some(run) = self.account.runs.get_mut(&open.run) {
                run.recording.permission_withdrawn(&request, "recount", why);
            }
        }
    }

    fn is_back(&mut self) {
        let Some(away) = self.away.take() else { return };
        let seconds = (moment() - away.since).as_secs() + 1;
        note(&format!("recording resumed after {seconds} s"));
        let what = format!("earlier events were appended up to {seconds} s after they happened");
        for run in self.account.runs.values_mut() {
            run.recording.gap("server_away", &what);
        }
    }

    fn held(&self) -> Vec<String> {
        let held = self.account.permissions.iter().filter(|(_, open)| open.held_line.is_some());
        held.map(|(request, _)| request.clone()).collect()
    }

    /// Sends the remaining events within the time limit, and reports what could not be sent.
    async fn finish(&mut self) {
        let last = moment() + limits::ACP_FINISH_WAIT_MAX;
        let mut until = moment() + limits::ACP_FINISH_WAIT;
        let mut left = self.left();
        loop {
            if timeout_at(until, self.send()).await.is_err() || self.is_refused {
                break;
            }
            let before = std::mem::replace(&mut left, self.left());
            match &self.away {
                Some(away) if away.next < until => sleep_until(away.next).await,
                Some(_) => break,
                None if left == 0 => break,
                None if left < before => until = (moment() + limits::ACP_FINISH_WAIT).min(last),
                None => {}
            }
        }
        let left = self.left();
        if left > 0 && !self.is_refused {
            let left = count(left as u64, "event");
            note(&format!("{left} not recorded in time: the server is unreachable or slow"));
        }
        self.leftover.end(left);
    }

    /// Events that wait to be sent.
    fn left(&self) -> usize {
        self.account.runs.values().map(super::run::RecordedRun::waiting_events).sum()
    }

    // Permissions.

    /// Follows the answers to a run's approvals, once it has any.
    fn follow(&mut self, key: u64) {
        let asks =
            self.account.permissions.values().any(|open| open.run == key && open.approval_id.is_some());
        if !asks || self.followed.contains(&key) {
            return;
        }
        let Some(run) = self.account.runs.get(&key) else { return };
        let Some(id) = run.id.clone() else { return };
        let task = follow(self.client.clone(), id, key, self.decide.clone());
        self.world.tasks.spawn(Kind::Service, |_| task);
        self.followed.insert(key);
    }

    async fn decision(&mut self, decision: AcpDecision) {
        let (kind, data) = match decision {
            AcpDecision::Decided { kind, data } => (kind, data),
            AcpDecision::ServerAway { run } => {
                let held = self.held();
                for request in held {
                    if self.account.permissions.get(&request).is_some_and(|open| open.run == run) {
                        self.pass_to_editor(&request, "the server is unreachable").await;
                    }
                }
                return;
            }
        };
        let Some(approval) = data["approval_id"].as_str() else { return };
        let found =
            self.account.permissions.iter().find(|(_, open)| open.approval_id.as_deref() == Some(approval));
        // An answer to an approval that is withdrawn already is in the log only.
        let Some((request, open)) = found.map(|(request, open)| (request.clone(), open.clone())) else {
            return;
        };
        let is_open_nowhere = self.gate.closed_in_recount(&request);
        let Some(result) = result_for(&open.options, &kind, &data, is_open_nowhere) else {
            if let Some(run) = self.account.runs.get_mut(&open.run) {
                run.recording.note("left_to_editor", &json!({ "approval_id": approval, "answer": data }));
            }
            return;
        };
        let Some(is_at_editor) = self.gate.claim(&request) else { return };
        self.answer_agent(&request, "result", &result).await;
        if is_at_editor {
            let id = raw(&request);
            let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}});
            write(&self.world, &self.editor, &cancel).await;
        }
        self.account.permissions.remove(&request);
        if let Some(run) = self.account.runs.get_mut(&open.run) {
            run.recording.permission_answered_here(&request, &kind, &data, &result);
        }
    }

    pub(super) async fn answer_agent(&self, request: &str, name: &str, value: &Value) {
        let answer = json!({"jsonrpc": "2.0", "id": raw(request), name: value});
        write(&self.world, &self.agent, &answer).await;
    }

    /// Passes a permission request that was held for Recount to the editor.
    async fn pass_to_editor(&mut self, request: &str, why: &str) {
        let Some(open) = self.account.permissions.get_mut(request) else { return };
        let Some(line) = open.held_line.take() else { return };
        if self.ask != Ask::Recount || !self.gate.pass_to_editor(request) {
            return;
        }
        if let Some(run) = self.account.runs.get_mut(&open.run) {
            run.recording.note("asked_in_editor", &json!({ "reason": why }));
        }
        let editor = Arc::clone(&self.editor);
        drop(self.world.tasks.block(Kind::Effect, move || editor.write(&line)).await);
    }

    async fn cancel(&mut self, request: &str, is_taken_back: bool) {
        if self.gate.claim(request).is_none() {
            return;
        }
        let (by, why) = match is_taken_back {
            true => {
                let error = json!({"code": -32800, "message": "Request cancelled"});
                self.answer_agent(request, "error", &error).await;
                ("agent", "the agent withdrew its request")
            }
            false => {
                let cancelled = json!({"outcome": {"outcome": "cancelled"}});
                self.answer_agent(request, "result", &cancelled).await;
                ("editor", "the prompt was cancelled in the editor")
            }
        };
        let Some(open) = self.account.permissions.remove(request) else { return };
        if let Some(run) = self.account.runs.get_mut(&open.run) {
            run.recording.permission_withdrawn(request, by, why);
        }
    }
}

/// The result that carries a decision to the agent; `None` where the editor's dialog decides.
fn result_for(options: &Options, kind: &str, data: &Value, is_open_nowhere: bool) -> Option<Value> {
    let decision = data["decision"].as_str().unwrap_or("");
    let rejected = || {
        let rejected = options.result(Choice::Reject);
        // The agent offers no option to reject.
        Some(rejected.unwrap_or_else(|| json!({"outcome": {"outcome": "cancelled"}})))
    };
    match (kind, decision) {
        ("approval.resolved", "approved") | ("approval.timed_out", "approved") => {
            let always = matches!(data["scope"].as_str(), Some("run" | "session" | "workspace"));
            let approved = options.result(Choice::Approve { always });
            if approved.is_none() && is_open_nowhere { rejected() } else { approved }
        }
        ("approval.resolved", "rejected") => rejected(),
        // There is no answer here, or it is no longer open here. That decides nothing while it is open in the editor.
        _ if is_open_nowhere => rejected(),
        _ => None,
    }
}

/// Sends each answer to an approval of a run, until the run has ended.
async fn follow(client: Client, run: String, key: u64, decide: Sender<AcpDecision>) {
    let mut after = None;
    loop {
        let mut tail = client.tail(Source::Run(run.clone()), after, Until::Ended);
        loop {
            let item = match tail.next().await {
                None => return,
                Some(Ok(item)) => item,
                Some(Err(why)) if why.may_pass() => break,
                Some(Err(_)) => return,
            };
            let decision = match item {
                TailItem::Event { envelope, .. } => answer_in(&envelope),
                TailItem::Disconnected { .. } => Some(AcpDecision::ServerAway { run: key }),
                _ => None,
            };
            if let Some(decision) = decision
                && decide.send(decision).await.is_err()
            {
                return;
            }
        }
        after = tail.cursor().or(after);
        if decide.send(AcpDecision::ServerAway { run: key }).await.is_err() {
            return;
        }
        tokio::time::sleep(limits::ACP_RETRY_WAIT_MAX).await;
    }
}

fn answer_in(envelope: &str) -> Option<AcpDecision> {
    if !envelope.contains("\"approval.") {
        return None;
    }
    let mut envelope: Value = serde_json::from_str(envelope).ok()?;
    let kind = envelope["type"]
        .as_str()
        .filter(|kind| matches!(*kind, "approval.resolved" | "approval.timed_out"))?;
    let kind = kind.to_owned();
    Some(AcpDecision::Decided { kind, data: envelope["data"].take() })
}

/// An id as it came.
pub(super) fn raw(id: &str) -> Box<RawValue> {
    RawValue::from_string(id.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Writes a message of the recorder's own, without holding up this thread.
pub(super) async fn write(world: &World, outlet: &Arc<Outlet>, message: &Value) {
    let outlet = Arc::clone(outlet);
    let line = format!("{message}\n");
    // Where nothing is read any more, the connection is over.
    drop(world.tasks.block(Kind::Effect, move || outlet.write(line.as_bytes())).await);
}

/// A folder's last part, for people.
pub(super) fn command_name(command: &str) -> String {
    let name = command.rsplit('/').next().unwrap_or(command);
    short(if name.is_empty() { "agent" } else { name }, limits::ACP_NAME_BYTES_MAX)
}
