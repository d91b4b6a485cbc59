//! State that all parts of a producer test share: the subject, how to reach and drive it, and what was received.
//! [`Harness`] knows no requirement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recount_aaep::lex::time;
use recount_aaep::{Kind, VERSION};
use recount_world::World;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::sessions::Sessions;
use super::specs::Spec;
use super::{Drive, ProducerSubject};
use crate::conformance::conversation::{Conversation, millis};
use crate::conformance::judge::{self, Answer};
use crate::conformance::report::Outcome;
use crate::conformance::requirements::{Requirement, Strength};
use crate::conformance::transcript::{Line, Scope, Transcript};
use crate::limits;
use crate::link::call::Caller;
use crate::link::{Dial, LinkError, Surface, Target};
use crate::scenario::Scenario;

/// Why a part of the run could not finish. Its remaining checks are reported as not shown.
pub(super) type PartError = String;

/// One result of a check.
pub(super) struct Note {
    pub(super) spec: &'static Spec,
    pub(super) outcome: Outcome,
    pub(super) detail: String,
    pub(super) evidence: Vec<String>,
}

/// The shared state of a producer test.
pub(super) struct Harness<'r> {
    pub(super) world: World,
    pub(super) subject: &'r ProducerSubject,
    pub(super) level: u8,
    /// The address under test.
    pub(super) target: Target,
    /// Clients with and without credentials; `None` without HTTP.
    pub(super) caller: Option<Caller>,
    pub(super) unauthenticated: Option<Caller>,
    pub(super) began: Instant,
    /// Whether the producer answers handshakes.
    pub(super) handshakes: AtomicBool,
    /// Whether a session did not end in time although nothing prevented it.
    has_endless_session: AtomicBool,
    notes: Mutex<Vec<Note>>,
    transcripts: Mutex<Vec<Transcript>>,
    /// When the producer was requested to act, in milliseconds since the run began.
    requested_ms: Mutex<Vec<u64>>,
    /// Why the producer answers no handshakes, if so.
    pub(super) no_handshake_reason: Mutex<String>,
    /// Responses to replies that must have no effect.
    pub(super) bad_reply_responses: Mutex<Vec<(String, Answer)>>,
    /// Tokens of prompts of ended sessions.
    pub(super) ended_tokens: Mutex<Vec<String>>,
}

impl<'r> Harness<'r> {
    pub(super) fn new(
        world: &World,
        subject: &'r ProducerSubject,
        level: u8,
        target: Target,
    ) -> Result<Self, LinkError> {
        let (caller, unauthenticated) = match &target {
            Target::Http { base, .. } => (
                Some(Caller::new(base, subject.token.as_deref(), subject.patience)?),
                Some(Caller::new(base, None, subject.patience)?),
            ),
            _ => (None, None),
        };
        Ok(Harness {
            world: world.clone(),
            subject,
            level,
            target,
            caller,
            unauthenticated,
            began: recount_world::moment(),
            handshakes: AtomicBool::new(false),
            has_endless_session: AtomicBool::new(false),
            notes: Mutex::default(),
            transcripts: Mutex::default(),
            requested_ms: Mutex::default(),
            no_handshake_reason: Mutex::default(),
            bad_reply_responses: Mutex::default(),
            ended_tokens: Mutex::default(),
        })
    }

    /// Whether any of these checks is selected.
    pub(super) fn has_selected(&self, specs: &[&'static Spec]) -> bool {
        specs.iter().any(|spec| self.subject.selects(spec.requirement) && spec.level() <= self.level)
    }

    /// Whether rules on any of these requirements are selected.
    pub(super) fn has_selected_rules(&self, requirements: &[&str]) -> bool {
        requirements.iter().any(|id| self.subject.selects(id))
    }

    pub(super) fn patience(&self) -> Duration {
        self.subject.patience
    }

    /// How long a stream must stay silent before a message counts as absent.
    pub(super) fn silence(&self) -> Duration {
        self.subject.silence
    }

    pub(super) async fn wait(&self, time: Duration) {
        // tidy: that nothing comes is seen by nothing but waiting; this is the suite's own work and no test of ours.
        tokio::time::sleep(time).await;
    }

    /// Whether two connections reach the same producer.
    pub(super) fn is_shared(&self) -> bool {
        self.subject.shares_producer || !matches!(self.target, Target::Command { .. })
    }

    /// Whether each subscription has terms of its own.
    pub(super) fn has_own_terms(&self) -> bool {
        self.handshakes.load(Ordering::Relaxed)
            && !matches!(self.target, Target::Http { surface: Surface::Legacy, .. })
    }

    /// Whether replies must name their subscription and time.
    pub(super) fn is_strict(&self) -> bool {
        match &self.target {
            Target::Http { surface, .. } => *surface == Surface::Versioned,
            Target::WebSocket { url } => url.contains("/aaep/v1/"),
            Target::Command { .. } => true,
        }
    }

    pub(super) fn require_own_terms(&self) -> Result<(), PartError> {
        if self.has_own_terms() {
            return Ok(());
        }
        Err(if self.handshakes.load(Ordering::Relaxed) {
            "all subscriptions of this endpoint have the same terms; use the URL that ends in /aaep/v1"
                .to_owned()
        } else {
            "the producer does not answer the handshake, so no terms can be agreed".to_owned()
        })
    }

    pub(super) fn require_shared_producer(&self) -> Result<(), PartError> {
        if self.is_shared() {
            return Ok(());
        }
        Err("each connection starts its own producer".to_owned())
    }

    fn dial(&self, request: Option<String>) -> Dial {
        Dial {
            token: self.subject.token.clone(),
            request,
            patience: self.patience(),
            ..Dial::to(self.target.clone())
        }
    }

    /// The address for replies over HTTP.
    pub(super) fn replies_url(&self) -> Option<String> {
        let Target::Http { base, surface } = &self.target else { return None };
        let place = if *surface == Surface::Versioned { "replies" } else { "messages" };
        Some(format!("{base}/{place}"))
    }

    fn post(&self) -> Option<(Caller, String)> {
        Some((self.caller.clone()?, self.replies_url()?))
    }

    /// Opens a subscription with all capabilities, with a handshake if each has its own terms.
    pub(super) async fn listen(&self, label: &str, scope: Scope) -> Result<Conversation, PartError> {
        if self.has_own_terms() {
            self.subscribe(label, scope, able(json!({}))).await
        } else {
            self.open(label, scope, self.dial(None)).await
        }
    }

    /// Opens a subscription with these capabilities. A rejection is an error.
    pub(super) async fn subscribe(
        &self,
        label: &str,
        scope: Scope,
        capabilities: Value,
    ) -> Result<Conversation, PartError> {
        let conversation = self.open_with_request(label, scope, &request(capabilities)).await;
        self.accepted(label, conversation.map_err(|why| why.to_string())?).await
    }

    /// Opens a new subscription that continues after an event of an earlier one.
    pub(super) async fn subscribe_after(
        &self,
        label: &str,
        last: Option<String>,
    ) -> Result<Conversation, PartError> {
        let dial = Dial { last_event_id: last, ..self.dial(Some(request(able(json!({}))))) };
        let conversation = self.open(label, Scope::Part, dial).await?;
        self.accepted(label, conversation).await
    }

    async fn accepted(&self, label: &str, conversation: Conversation) -> Result<Conversation, PartError> {
        if conversation.rejected {
            let answer = conversation.answer.clone().unwrap_or_default();
            conversation.cut().await;
            return Err(format!("a subscription for \"{label}\" was rejected: {answer}"));
        }
        Ok(conversation)
    }

    /// Opens a subscription with this request, whatever the response.
    pub(super) async fn open_with_request(
        &self,
        label: &str,
        scope: Scope,
        request: &str,
    ) -> Result<Conversation, LinkError> {
        let dial = self.dial(Some(request.to_owned()));
        Conversation::open(&self.world, self.began, &dial, self.post(), label, scope).await
    }

    /// Resumes a subscription after an event.
    pub(super) async fn resume(
        &self,
        label: &str,
        id: Option<String>,
        last: &str,
    ) -> Result<Conversation, PartError> {
        let dial = Dial { subscription: id, last_event_id: Some(last.to_owned()), ..self.dial(None) };
        self.open(label, Scope::Part, dial).await
    }

    async fn open(&self, label: &str, scope: Scope, dial: Dial) -> Result<Conversation, PartError> {
        let conversation =
            Conversation::open(&self.world, self.began, &dial, self.post(), label, scope).await;
        conversation.map_err(|why| format!("a subscription for \"{label}\" could not be opened: {why}"))
    }

    /// Why handshakes are not answered.
    pub(super) fn no_handshake(&self) -> PartError {
        self.no_handshake_reason.lock().expect("no code panics while holding this lock").clone()
    }

    /// The largest number of agents in one session so far.
    pub(super) fn agents_per_session(&self) -> usize {
        let transcripts = self.transcripts.lock().expect("no code panics while holding this lock");
        let mut agents: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for line in transcripts.iter().flat_map(Transcript::events) {
            let agent = line.json.get("producer").and_then(|producer| producer.get("agent_id"));
            let agent = agent.and_then(Value::as_str).unwrap_or_default().to_owned();
            agents.entry(line.session()).or_default().insert(agent);
        }
        agents.values().map(BTreeSet::len).max().unwrap_or(0)
    }

    /// Ends a conversation and stores its transcript for the rules.
    pub(super) async fn finish(&self, conversation: Conversation) {
        if conversation.is_whole() {
            self.await_session_ends(&conversation).await;
        }
        let transcript = conversation.close().await;
        self.store_transcript(transcript);
    }

    /// Waits for the end of every requested session: a stream may lag after another, and an aborted check may leave a
    /// session open. A missing end counts against the producer only if it could have arrived.
    async fn await_session_ends(&self, conversation: &Conversation) {
        let (opened_ms, requested_ms) =
            (conversation.opened_ms(), self.requests_since(conversation.opened_ms()));
        let unended =
            |lines: &[Line]| Sessions::with_requests(lines, opened_ms, &requested_ms).unended(lines);
        let all_ended = |lines: &[Line]| unended(lines).is_empty().then_some(());
        let patience =
            if self.has_endless_session.load(Ordering::Relaxed) { self.silence() } else { self.patience() };
        if conversation.until(patience, all_ended).await.is_some() {
            return;
        }
        if conversation.ended().is_some() {
            return conversation.mark_cut_short();
        }
        let waits_for_us =
            |lines: &[Line], number: usize| judge::open_prompt(lines, lines[number].session()).is_some();
        let endless =
            conversation.read(|lines| unended(lines).into_iter().any(|number| !waits_for_us(lines, number)));
        if endless {
            // Waiting as long for the next one would show nothing new.
            self.has_endless_session.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn store_transcript(&self, mut transcript: Transcript) {
        transcript.requested_ms = self.requests_since(transcript.opened_ms);
        self.transcripts.lock().expect("no code panics while holding this lock").push(transcript);
    }

    /// When the producer was requested to act since a moment.
    fn requests_since(&self, moment_ms: u64) -> Vec<u64> {
        let requested_ms = self.requested_ms.lock().expect("no code panics while holding this lock");
        requested_ms.iter().copied().filter(|request_ms| *request_ms >= moment_ms).collect()
    }

    /// Requests that the producer acts.
    pub(super) async fn drive(
        &self,
        conversation: &Conversation,
        scenario: Scenario,
    ) -> Result<(), PartError> {
        let requested_ms = millis(self.began.elapsed());
        self.requested_ms.lock().expect("no code panics while holding this lock").push(requested_ms);
        let text = self.subject.sentence(scenario);
        let input = json!({"kind": "user_input", "text": text});
        match (&self.subject.drive, &self.target, &self.caller) {
            (Drive::Command(argv), ..) => drive_by_command(argv, &text, self.patience()).await,
            (Drive::Url(url), ..) => {
                let caller = Caller::new(url, self.subject.token.as_deref(), self.patience());
                let caller = caller.map_err(|why| why.to_string())?;
                let body = json!({"kind": "user_input", "text": text, "user_message": text});
                let reply =
                    caller.post(url, body.to_string().as_bytes()).await.map_err(|why| why.to_string())?;
                check_accepted(url, reply.status, &reply.body)
            }
            (Drive::Messages, Target::Http { base, .. }, Some(caller)) => {
                let base = base.strip_suffix("/aaep/v1").unwrap_or(base);
                let url = format!("{base}/messages");
                let reply =
                    caller.post(&url, input.to_string().as_bytes()).await.map_err(|why| why.to_string())?;
                if (200..300).contains(&reply.status) {
                    return Ok(());
                }
                // Producers without a driver endpoint have this one.
                let sessions = format!("{base}/sessions");
                let body = json!({"user_message": text}).to_string();
                match caller.post(&sessions, body.as_bytes()).await {
                    Ok(reply) if reply.is_success() => Ok(()),
                    _ => check_accepted(&url, reply.status, &reply.body),
                }
            }
            (Drive::Messages, ..) => conversation.send_text(&input.to_string()).await.map(|_| ()),
        }
    }

    /// Requests a session and waits until it starts; returns its id.
    pub(super) async fn begin(
        &self,
        conversation: &Conversation,
        scenario: Scenario,
    ) -> Result<String, PartError> {
        let from = conversation.len();
        self.drive(conversation, scenario).await?;
        let start = |lines: &[Line]| {
            lines[from..]
                .iter()
                .find(|line| line.is(Kind::SessionStarted))
                .map(|line| line.session().to_owned())
        };
        let any = |lines: &[Line]| {
            let old = |id: &str| lines[..from].iter().any(|line| line.is_event() && line.session() == id);
            let mut events =
                lines[from..].iter().filter(|line| line.is_event() && !line.session().is_empty());
            events.find(|line| !old(line.session())).map(|line| line.session().to_owned())
        };
        // A producer may omit the start event: any event of a new session counts if no start follows. Sessions of
        // other clients are received from the middle.
        let either = |lines: &[Line]| start(lines).or_else(|| any(lines));
        let found = conversation.until(self.patience(), either).await;
        let found = match conversation.read(start) {
            None if found.is_some() => conversation.until(self.silence(), start).await.or(found),
            started => started,
        };
        found.ok_or_else(|| self.no_event_error(conversation, scenario, "no session started"))
    }

    fn no_event_error(&self, conversation: &Conversation, scenario: Scenario, what: &str) -> PartError {
        let ended = conversation.ended().map_or(String::new(), |why| format!(" ({why})"));
        format!(
            "{what} within {} s of asking \"{}\"{ended}",
            self.patience().as_secs(),
            self.subject.sentence(scenario)
        )
    }

    /// Requests a session and waits for a prompt of a kind. If the session ends first, returns an error.
    pub(super) async fn prompt(
        &self,
        conversation: &Conversation,
        scenario: Scenario,
        kind: Kind,
    ) -> Result<usize, PartError> {
        let from = conversation.len();
        self.drive(conversation, scenario).await?;
        let found = conversation
            .until(self.patience(), |lines| {
                // Sessions of other clients may end too.
                let old = |id: &str| lines[..from].iter().any(|line| line.is_event() && line.session() == id);
                let ends = |line: &Line| line.is_terminal() && !old(line.session());
                (from..lines.len()).find(|number| lines[*number].is(kind) || ends(&lines[*number]))
            })
            .await;
        match found {
            Some(number) if conversation.read(|lines| lines[number].is(kind)) => Ok(number),
            Some(_) => Err(format!(
                "the session ended without a prompt after asking \"{}\"",
                self.subject.sentence(scenario)
            )),
            None => Err(self.no_event_error(conversation, scenario, "no prompt came")),
        }
    }

    /// Waits for the end of a session.
    pub(super) async fn end_of(&self, conversation: &Conversation, session: &str) -> Option<usize> {
        let ended = |line: &Line| line.is_terminal() && line.session() == session;
        conversation.line(0, self.patience(), ended).await
    }

    /// Waits until the session of a line has ended.
    pub(super) async fn end_of_line(&self, conversation: &Conversation, number: usize) -> Option<usize> {
        let session = conversation.read(|lines| lines[number].session().to_owned());
        self.end_of(conversation, &session).await
    }

    /// The current time in the format of replies.
    pub(super) fn now(&self) -> String {
        time::Moment::write(i64::try_from(self.world.clock.now_ms()).unwrap_or(i64::MAX))
    }

    /// Records a result.
    pub(super) fn note(
        &self,
        spec: &'static Spec,
        outcome: Outcome,
        detail: impl Into<String>,
        evidence: impl IntoIterator<Item = String>,
    ) {
        let must = Requirement::named(spec.requirement).is_none_or(|row| row.strength == Strength::Must);
        let outcome = if outcome == Outcome::Failed && !must { Outcome::Warned } else { outcome };
        let note = Note { spec, outcome, detail: detail.into(), evidence: evidence.into_iter().collect() };
        self.notes.lock().expect("no code panics while holding this lock").push(note);
    }

    /// Discards results that a second measurement did not confirm.
    pub(super) fn forget(&self, spec: &'static Spec) {
        self.notes.lock().expect("no code panics while holding this lock").retain(|note| note.spec != spec);
    }

    pub(super) fn passed(&self, spec: &'static Spec, detail: impl Into<String>) {
        self.note(spec, Outcome::Passed, detail, []);
    }

    pub(super) fn failed(
        &self,
        spec: &'static Spec,
        detail: impl Into<String>,
        evidence: impl IntoIterator<Item = String>,
    ) {
        self.note(spec, Outcome::Failed, detail, evidence);
    }

    /// Records a failure with its evidence if there is any, and a pass otherwise.
    pub(super) fn check(
        &self,
        spec: &'static Spec,
        evidence: Option<impl IntoIterator<Item = String>>,
        amiss: impl Into<String>,
        right: impl Into<String>,
    ) {
        match evidence {
            Some(evidence) => self.failed(spec, amiss, evidence),
            None => self.passed(spec, right),
        }
    }

    pub(super) fn not_shown(&self, spec: &'static Spec, why: impl Into<String>) {
        self.note(spec, Outcome::NotShown(why.into()), "", []);
    }

    pub(super) fn inapplicable(&self, spec: &'static Spec, why: impl Into<String>) {
        self.note(spec, Outcome::Inapplicable(why.into()), "", []);
    }

    pub(super) fn into_results(self) -> (Vec<Note>, Vec<Transcript>) {
        let notes = self.notes.into_inner().expect("no code panics while holding this lock");
        (notes, self.transcripts.into_inner().expect("no code panics while holding this lock"))
    }
}

fn check_accepted(url: &str, status: u16, body: &[u8]) -> Result<(), PartError> {
    if (200..300).contains(&status) {
        return Ok(());
    }
    Err(format!("{url} does not accept input: it returned {status} {}", String::from_utf8_lossy(body)))
}

async fn drive_by_command(argv: &[String], text: &str, patience: Duration) -> Result<(), PartError> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err("no drive command is set".to_owned());
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).arg(text).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    command.kill_on_drop(true);
    match tokio::time::timeout(patience.max(limits::DRIVE_WAIT), command.status()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => {
            Err(format!("the command {program:?} that drives the producer ended with {status}"))
        }
        Ok(Err(why)) => Err(format!("the command {program:?} that drives the producer cannot be run: {why}")),
        Err(_) => Err(format!("the command {program:?} that drives the producer did not end")),
    }
}

/// All capabilities, overridden by these.
pub(super) fn able(over: Value) -> Value {
    let mut all = json!({
        "supports_confirmation_reply": true, "supports_clarification_reply": true,
        "supported_conformance_levels": [1, 2, 3],
    });
    if let (Some(all), Value::Object(over)) = (all.as_object_mut(), over) {
        all.extend(over);
    }
    all
}

/// A request with these capabilities.
pub(super) fn request(capabilities: Value) -> String {
    json!({
        "type": "subscription.request", "aaep_version": VERSION, "subscriber_id": "recount-conformance",
        "capabilities": capabilities,
    })
    .to_string()
}
