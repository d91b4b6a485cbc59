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
use super::{Drive, Subject};
use crate::conformance::judge::{self, Answer};
use crate::conformance::report::Outcome;
use crate::conformance::requirements::{Requirement, Strength};
use crate::conformance::talk::{Talk, millis};
use crate::conformance::transcript::{Line, Scope, Transcript};
use crate::limits;
use crate::link::call::Caller;
use crate::link::{Dial, LinkError, Surface, Target};
use crate::scenario::Scenario;

/// Why a part of the run did not come to its end: what it would have shown is not shown.
pub(super) type Trouble = String;

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
    pub(super) subject: &'r Subject,
    pub(super) level: u8,
    /// The address under test.
    pub(super) target: Target,
    /// Calls with the credentials, and without any; none where there is no HTTP.
    pub(super) caller: Option<Caller>,
    pub(super) stranger: Option<Caller>,
    pub(super) began: Instant,
    /// Whether it answers handshakes.
    pub(super) handshakes: AtomicBool,
    /// Whether a session was waited for in vain, with nothing that kept it from its end.
    is_endless: AtomicBool,
    notes: Mutex<Vec<Note>>,
    transcripts: Mutex<Vec<Transcript>>,
    /// When the producer was asked for something, in milliseconds since the run began.
    requested_ms: Mutex<Vec<u64>>,
    /// Why it answers none, when that is so.
    pub(super) silence_of_handshakes: Mutex<String>,
    /// How replies that must have no effect were answered.
    pub(super) bad_answers: Mutex<Vec<(String, Answer)>>,
    /// Prompts of sessions that are over, with their tokens.
    pub(super) old_tokens: Mutex<Vec<String>>,
}

impl<'r> Harness<'r> {
    pub(super) fn new(
        world: &World,
        subject: &'r Subject,
        level: u8,
        target: Target,
    ) -> Result<Self, LinkError> {
        let (caller, stranger) = match &target {
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
            stranger,
            began: recount_world::moment(),
            handshakes: AtomicBool::new(false),
            is_endless: AtomicBool::new(false),
            notes: Mutex::default(),
            transcripts: Mutex::default(),
            requested_ms: Mutex::default(),
            silence_of_handshakes: Mutex::default(),
            bad_answers: Mutex::default(),
            old_tokens: Mutex::default(),
        })
    }

    /// Whether any of these is asked for.
    pub(super) fn wants(&self, specs: &[&'static Spec]) -> bool {
        specs.iter().any(|spec| self.subject.wants(spec.requirement) && spec.level() <= self.level)
    }

    /// Whether rules on one of these requirements are asked for.
    pub(super) fn wants_rules(&self, requirements: &[&str]) -> bool {
        requirements.iter().any(|id| self.subject.wants(id))
    }

    pub(super) fn patience(&self) -> Duration {
        self.subject.patience
    }

    /// How long nothing must come before that counts as nothing coming.
    pub(super) fn silence(&self) -> Duration {
        self.subject.silence
    }

    pub(super) async fn wait(&self, time: Duration) {
        // tidy: that nothing comes is seen by nothing but waiting; this is the suite's own work and no test of ours.
        tokio::time::sleep(time).await;
    }

    /// Whether two connections are to the same producer.
    pub(super) fn is_shared(&self) -> bool {
        self.subject.shares_producer || !matches!(self.target, Target::Command { .. })
    }

    /// Whether each subscription has terms of its own.
    pub(super) fn has_own_terms(&self) -> bool {
        self.handshakes.load(Ordering::Relaxed)
            && !matches!(self.target, Target::Http { surface: Surface::Legacy, .. })
    }

    /// Whether replies are held to the letter: they must name their subscription and their time.
    pub(super) fn is_strict(&self) -> bool {
        match &self.target {
            Target::Http { surface, .. } => *surface == Surface::Versioned,
            Target::WebSocket { url } => url.contains("/aaep/v1/"),
            Target::Command { .. } => true,
        }
    }

    pub(super) fn needs_own_terms(&self) -> Result<(), Trouble> {
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

    pub(super) fn needs_sharing(&self) -> Result<(), Trouble> {
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

    /// Where replies go, over HTTP.
    pub(super) fn replies_url(&self) -> Option<String> {
        let Target::Http { base, surface } = &self.target else { return None };
        let place = if *surface == Surface::Versioned { "replies" } else { "messages" };
        Some(format!("{base}/{place}"))
    }

    fn post(&self) -> Option<(Caller, String)> {
        Some((self.caller.clone()?, self.replies_url()?))
    }

    /// Opens a subscription that can do everything, with a handshake where each has its own terms.
    pub(super) async fn listen(&self, label: &str, scope: Scope) -> Result<Talk, Trouble> {
        if self.has_own_terms() {
            self.subscribe(label, scope, able(json!({}))).await
        } else {
            self.open(label, scope, self.dial(None)).await
        }
    }

    /// Opens a subscription with these capabilities; a rejection is trouble.
    pub(super) async fn subscribe(
        &self,
        label: &str,
        scope: Scope,
        capabilities: Value,
    ) -> Result<Talk, Trouble> {
        let talk = self.ask(label, scope, &request(capabilities)).await.map_err(|why| why.to_string())?;
        if talk.rejected {
            let answer = talk.answer.clone().unwrap_or_default();
            talk.cut().await;
            return Err(format!("a subscription for \"{label}\" was rejected: {answer}"));
        }
        Ok(talk)
    }

    /// Opens a subscription with this request, whatever the answer.
    pub(super) async fn ask(&self, label: &str, scope: Scope, request: &str) -> Result<Talk, LinkError> {
        let dial = self.dial(Some(request.to_owned()));
        Talk::open(&self.world, self.began, &dial, self.post(), label, scope).await
    }

    /// Goes on with a subscription behind an event.
    pub(super) async fn resume(&self, label: &str, id: Option<String>, last: &str) -> Result<Talk, Trouble> {
        let dial = Dial { subscription: id, last_event_id: Some(last.to_owned()), ..self.dial(None) };
        self.open(label, Scope::Part, dial).await
    }

    async fn open(&self, label: &str, scope: Scope, dial: Dial) -> Result<Talk, Trouble> {
        let talk = Talk::open(&self.world, self.began, &dial, self.post(), label, scope).await;
        talk.map_err(|why| format!("a subscription for \"{label}\" could not be opened: {why}"))
    }

    /// Why there are no handshakes.
    pub(super) fn no_handshake(&self) -> Trouble {
        self.silence_of_handshakes.lock().expect("nothing panics while it notes").clone()
    }

    /// How many agents spoke in one session at most, so far.
    pub(super) fn agents_per_session(&self) -> usize {
        let transcripts = self.transcripts.lock().expect("nothing panics while it keeps");
        let mut agents: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for line in transcripts.iter().flat_map(Transcript::events) {
            let agent = line.json.get("producer").and_then(|producer| producer.get("agent_id"));
            let agent = agent.and_then(Value::as_str).unwrap_or_default().to_owned();
            agents.entry(line.session()).or_default().insert(agent);
        }
        agents.values().map(BTreeSet::len).max().unwrap_or(0)
    }

    /// Ends a conversation; it is held against the rules later.
    pub(super) async fn finish(&self, talk: Talk) {
        if talk.is_whole() {
            self.hear_out(&talk).await;
        }
        let transcript = talk.close().await;
        self.keep(transcript);
    }

    /// Waits for the end of every session that was asked for: a stream may lag after another, and a check that breaks
    /// off may leave a session in the middle. A producer is to blame for a missing end only when the end could have
    /// come.
    async fn hear_out(&self, talk: &Talk) {
        let (opened_ms, requested_ms) = (talk.opened_ms(), self.requests_since(talk.opened_ms()));
        let unended =
            |lines: &[Line]| Sessions::with_requests(lines, opened_ms, &requested_ms).unended(lines);
        let all_ended = |lines: &[Line]| unended(lines).is_empty().then_some(());
        let patience = if self.is_endless.load(Ordering::Relaxed) { self.silence() } else { self.patience() };
        if talk.until(patience, all_ended).await.is_some() {
            return;
        }
        if talk.ended().is_some() {
            return talk.mark_cut_short();
        }
        let waits_for_us =
            |lines: &[Line], number: usize| judge::open_prompt(lines, lines[number].session()).is_some();
        let endless =
            talk.read(|lines| unended(lines).into_iter().any(|number| !waits_for_us(lines, number)));
        if endless {
            // To wait as long for the next one would show nothing new.
            self.is_endless.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn keep(&self, mut transcript: Transcript) {
        transcript.requested_ms = self.requests_since(transcript.opened_ms);
        self.transcripts.lock().expect("nothing panics while it keeps").push(transcript);
    }

    /// When the producer was asked for something since a moment.
    fn requests_since(&self, moment_ms: u64) -> Vec<u64> {
        let requested_ms = self.requested_ms.lock().expect("nothing panics while it asks");
        requested_ms.iter().copied().filter(|request_ms| *request_ms >= moment_ms).collect()
    }

    /// Asks the producer for something.
    pub(super) async fn drive(&self, talk: &Talk, scenario: Scenario) -> Result<(), Trouble> {
        let requested_ms = millis(self.began.elapsed());
        self.requested_ms.lock().expect("nothing panics while it asks").push(requested_ms);
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
                taken(url, reply.status, &reply.body)
            }
            (Drive::Messages, Target::Http { base, .. }, Some(caller)) => {
                let base = base.strip_suffix("/aaep/v1").unwrap_or(base);
                let url = format!("{base}/messages");
                let reply =
                    caller.post(&url, input.to_string().as_bytes()).await.map_err(|why| why.to_string())?;
                if (200..300).contains(&reply.status) {
                    return Ok(());
                }
                // Producers that know no drivers have this instead.
                let sessions = format!("{base}/sessions");
                let body = json!({"user_message": text}).to_string();
                match caller.post(&sessions, body.as_bytes()).await {
                    Ok(reply) if reply.is_success() => Ok(()),
                    _ => taken(&url, reply.status, &reply.body),
                }
            }
            (Drive::Messages, ..) => talk.send_text(&input.to_string()).await.map(|_| ()),
        }
    }

    /// Asks for something and waits until its session begins; answers the id of the session.
    pub(super) async fn begin(&self, talk: &Talk, scenario: Scenario) -> Result<String, Trouble> {
        let from = talk.len();
        self.drive(talk, scenario).await?;
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
        // A producer may forget to say that a session begins: any event of a session that is new will do, when no start
        // follows it. Sessions of other clients are heard in the middle.
        let either = |lines: &[Line]| start(lines).or_else(|| any(lines));
        let found = talk.until(self.patience(), either).await;
        let found = match talk.read(start) {
            None if found.is_some() => talk.until(self.silence(), start).await.or(found),
            started => started,
        };
        found.ok_or_else(|| self.nothing_came(talk, scenario, "no session started"))
    }

    fn nothing_came(&self, talk: &Talk, scenario: Scenario, what: &str) -> Trouble {
        let ended = talk.ended().map_or(String::new(), |why| format!(" ({why})"));
        format!(
            "{what} within {} s of asking \"{}\"{ended}",
            self.patience().as_secs(),
            self.subject.sentence(scenario)
        )
    }

    /// Asks for something and waits for a prompt of a kind, or the end of the session: then that is the trouble.
    pub(super) async fn prompt(&self, talk: &Talk, scenario: Scenario, kind: Kind) -> Result<usize, Trouble> {
        let from = talk.len();
        self.drive(talk, scenario).await?;
        let found = talk
            .until(self.patience(), |lines| {
                // Sessions of other clients end, too.
                let old = |id: &str| lines[..from].iter().any(|line| line.is_event() && line.session() == id);
                let ends = |line: &Line| line.is_terminal() && !old(line.session());
                (from..lines.len()).find(|number| lines[*number].is(kind) || ends(&lines[*number]))
            })
            .await;
        match found {
            Some(number) if talk.read(|lines| lines[number].is(kind)) => Ok(number),
            Some(_) => Err(format!(
                "the session ended without a prompt after asking \"{}\"",
                self.subject.sentence(scenario)
            )),
            None => Err(self.nothing_came(talk, scenario, "no prompt came")),
        }
    }

    /// Waits for the end of a session.
    pub(super) async fn end_of(&self, talk: &Talk, session: &str) -> Option<usize> {
        let ended = |line: &Line| line.is_terminal() && line.session() == session;
        talk.line(0, self.patience(), ended).await
    }

    /// Waits until the session of a line has ended.
    pub(super) async fn end_of_line(&self, talk: &Talk, number: usize) -> Option<usize> {
        let session = talk.read(|lines| lines[number].session().to_owned());
        self.end_of(talk, &session).await
    }

    /// Now, as replies say it.
    pub(super) fn now(&self) -> String {
        time::Moment::write(i64::try_from(self.world.clock.now_ms()).unwrap_or(i64::MAX))
    }

    /// What came out.
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
        self.notes.lock().expect("nothing panics while it notes").push(note);
    }

    /// Drops what was noted: a second look has shown that it was not so.
    pub(super) fn forget(&self, spec: &'static Spec) {
        self.notes.lock().expect("nothing panics while it notes").retain(|note| note.spec != spec);
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

    /// Fails with what is amiss and its evidence, where there is any, and passes otherwise.
    pub(super) fn hold(
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

    pub(super) fn take(self) -> (Vec<Note>, Vec<Transcript>) {
        let notes = self.notes.into_inner().expect("nothing panics while it notes");
        (notes, self.transcripts.into_inner().expect("nothing panics while it keeps"))
    }
}

fn taken(url: &str, status: u16, body: &[u8]) -> Result<(), Trouble> {
    if (200..300).contains(&status) {
        return Ok(());
    }
    Err(format!("{url} does not accept input: it returned {status} {}", String::from_utf8_lossy(body)))
}

async fn drive_by_command(argv: &[String], text: &str, patience: Duration) -> Result<(), Trouble> {
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

/// Capabilities that can do everything, with these over them.
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
