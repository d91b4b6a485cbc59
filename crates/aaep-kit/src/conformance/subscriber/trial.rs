//! A subscriber test in progress: the synthetic producer, the subscriber, the open prompts, and the report so far.
//! [`Trial`] provides the operations of the parts. It does not know which results are right.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use recount_world::World;
use tokio::time::Instant;

use super::builder::{Event, EventBuilder, Prompt};
use super::coverage;
use super::piece::Piece;
use super::process::Process;
use super::producer::{Input, Observation, OpenStream, StreamSurface, SyntheticProducer};
use super::received::ReceivedMessage;
use super::{Expectation, ReplyPolicy, SubscriberSubject, TrialError, TrialNotice};
use crate::conformance::requirements::Requirement;
use crate::conformance::{Check, Outcome, Report, Side};
use crate::limits;

/// A prompt that was sent.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    pub prompt: Prompt,
    pub sent: Instant,
}

/// The reaction of a subscriber to a message.
#[derive(Debug, Clone)]
pub(super) enum SubscriberReaction {
    /// It answered the next prompt.
    Answered { after: Duration, reply: Box<ReceivedMessage> },
    /// No replies are expected, and it stayed connected.
    StayedConnected,
    /// It stayed connected but did not answer.
    Silent,
    /// Its connection ended.
    Disconnected,
}

impl SubscriberReaction {
    pub(super) fn is_healthy(&self) -> bool {
        matches!(self, SubscriberReaction::Answered { .. } | SubscriberReaction::StayedConnected)
    }
}

pub(super) struct Trial<'a> {
    pub(super) world: &'a World,
    pub(super) subject: &'a SubscriberSubject,
    pub(super) level: u8,
    pub(super) producer: SyntheticProducer,
    pub(super) builder: EventBuilder,
    pub(super) issued: Vec<Issued>,
    /// Set if it should reply automatically but does not: then its silence proves nothing.
    pub(super) unresponsive: bool,
    /// Reply times.
    pub(super) took: Vec<Duration>,
    process: Option<Process>,
    report: Report,
    sink: &'a mut (dyn FnMut(TrialNotice<'_>) + Send),
    began: Instant,
    /// Messages sent since the current check began.
    sent_messages: Vec<(Instant, String)>,
    since: usize,
    /// Ids of recently sent events.
    ids: VecDeque<String>,
}

impl<'a> Trial<'a> {
    pub(super) async fn begin(
        world: &'a World,
        subject: &'a SubscriberSubject,
        level: u8,
        sink: &'a mut (dyn FnMut(TrialNotice<'_>) + Send),
    ) -> Result<Trial<'a>, TrialError> {
        let address = subject.address;
        let producer = SyntheticProducer::open(world, address, subject.token.clone())
            .await
            .map_err(|why| TrialError::Listen { address, why })?;
        let name = subject.command.as_ref().map_or("subscriber".to_owned(), |command| command.join(" "));
        let mut report = Report::new(world, Side::Subscriber, name, level);
        report.address = producer.base();
        let builder = EventBuilder::new(world);
        Ok(Trial {
            world,
            subject,
            level,
            producer,
            builder,
            issued: Vec::new(),
            unresponsive: false,
            took: Vec::new(),
            process: None,
            report,
            sink,
            began: recount_world::moment(),
            sent_messages: Vec::new(),
            since: 0,
            ids: VecDeque::new(),
        })
    }

    pub(super) async fn finish(mut self) -> Report {
        if let Some(process) = &mut self.process {
            process.kill().await;
        }
        self.producer.stop_listening().await;
        self.complete();
        self.report.took_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.report
    }

    /// Reports untested requirements as not shown, instead of omitting them.
    fn complete(&mut self) {
        let looked_at: BTreeSet<&str> = self.report.checks.iter().map(|check| check.requirement).collect();
        let rows = coverage::ALL.iter().filter_map(|(id, _)| Requirement::named(id));
        let missing: Vec<&Requirement> = rows.filter(|row| !looked_at.contains(row.id)).collect();
        for row in missing {
            let why = "the test ended before this check".to_owned();
            self.check(Expectation(row.id, row.text), Outcome::NotShown(why), "");
        }
    }

    pub(super) fn note(&mut self, text: &str) {
        (self.sink)(TrialNotice::Note(text));
    }

    /// Sets the subscriber's own name and version.
    pub(super) fn named(&mut self, name: &str, version: Option<&str>) {
        name.clone_into(&mut self.report.subject);
        self.report.subject_version = version.map(str::to_owned);
    }

    /// Whether it is expected to reply, so that replies show that it works.
    pub(super) fn answers(&self) -> bool {
        self.subject.answers != ReplyPolicy::Never && !self.unresponsive
    }

    /// The decision that it is configured to send.
    pub(super) fn decision(&self) -> Option<&'static str> {
        match self.subject.answers {
            ReplyPolicy::Accept => Some("accept"),
            ReplyPolicy::Reject => Some("reject"),
            ReplyPolicy::Never | ReplyPolicy::Person => None,
        }
    }

    /// The median reply time.
    pub(super) fn usual(&self) -> Option<Duration> {
        let mut took = self.took.clone();
        took.sort();
        took.get(took.len() / 2).copied()
    }

    /// How long to watch for messages that must not arrive: longer than the usual reply time.
    pub(super) fn quiet(&self) -> Duration {
        let usual = self.usual().unwrap_or_default();
        self.subject.times.quiet.max(usual * limits::TRIAL_QUIET_ANSWERS).min(self.subject.times.reply)
    }

    // Checks.

    /// Starts a check: earlier messages are not its evidence.
    pub(super) fn start_check(&mut self) {
        self.sent_messages.clear();
        self.since = self.producer.mark();
    }

    /// Records a check at the level of its requirement; ignored above the tested level.
    pub(super) fn check(&mut self, expectation: Expectation, outcome: Outcome, detail: impl Into<String>) {
        let Expectation(requirement, name) = expectation;
        let level = Requirement::named(requirement).map_or(1, |row| row.level);
        if level > self.level {
            return;
        }
        let mut check = Check::new(requirement, name, level, outcome, detail);
        if matches!(check.outcome, Outcome::Failed | Outcome::Warned) {
            check = check.with_all(self.conversation());
        }
        (self.sink)(TrialNotice::Check(&check));
        self.report.checks.push(check);
    }

    /// Records a pass or a failure.
    pub(super) fn check_that(&mut self, expectation: Expectation, holds: bool, detail: impl Into<String>) {
        let outcome = if holds { Outcome::Passed } else { Outcome::Failed };
        self.check(expectation, outcome, detail);
    }

    pub(super) fn not_shown(&mut self, expectation: Expectation, why: impl Into<String>) {
        self.check(expectation, Outcome::NotShown(why.into()), "");
    }

    pub(super) fn inapplicable(&mut self, expectation: Expectation, why: impl Into<String>) {
        self.check(expectation, Outcome::Inapplicable(why.into()), "");
    }

    /// The messages in both directions since the current check began; only the last ones.
    fn conversation(&self) -> Vec<String> {
        let mut lines: Vec<(Instant, String)> =
            self.sent_messages.iter().map(|(at, text)| (*at, format!("out {text}"))).collect();
        for seen in self.producer.since(self.since) {
            let text = match seen.what {
                Input::Message { text, .. } => format!("in  {text}"),
                Input::Opened { resumes: Some(id), .. } => format!("in  connected after {id}"),
                Input::Opened { .. } => "in  connected".to_owned(),
                Input::Closed => "in  disconnected".to_owned(),
                Input::Request { .. } => continue,
            };
            lines.push((seen.at, text));
        }
        lines.sort_by_key(|(at, _)| *at);
        let from = lines.len().saturating_sub(limits::EVIDENCE_LINES_MAX);
        let seconds = |at: Instant| at.duration_since(self.began).as_secs_f64();
        lines[from..].iter().map(|(at, text)| format!("{:.3} {text}", seconds(*at))).collect()
    }

    // The subscriber.

    /// Starts the subscriber if it has a command; ends the previous one.
    pub(super) async fn start(&mut self) -> Result<(), TrialError> {
        let Some(command) = &self.subject.command else { return Ok(()) };
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
        self.producer.cut();
        self.process = Some(Process::start(self.world, command, &self.producer.base())?);
        Ok(())
    }

    pub(super) fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Waits until it is connected, for at most `patience`.
    pub(super) async fn connected(&mut self, patience: Duration) -> Option<OpenStream> {
        let limit = recount_world::moment() + patience;
        loop {
            let left = limit.checked_duration_since(recount_world::moment())?;
            // In steps, because an ended process does not connect any more.
            if let Some(open) = self.producer.wait_open(left.min(limits::TRIAL_SECOND)).await {
                return Some(open);
            }
            let ended = self.process.as_mut().is_some_and(|process| process.ended().is_some());
            if ended && self.producer.lines().is_empty() {
                return None;
            }
        }
    }

    /// Waits until it connects, for at most `patience`, and starts a session.
    pub(super) async fn arrive(&mut self, patience: Duration) -> Option<OpenStream> {
        let limit = recount_world::moment() + patience;
        loop {
            let left = limit.checked_duration_since(recount_world::moment())?;
            let open = self.connected(left).await?;
            if open.surface == StreamSurface::Legacy || open.surface == StreamSurface::LegacySocket {
                // A handshake may follow the stream.
                self.producer.wait_subscription(self.subject.times.quiet).await;
            }
            // It may have disconnected meanwhile.
            let Some(open) = self.producer.lines().pop() else { continue };
            for event in [self.builder.begin(), self.builder.go("thinking")] {
                self.send_event(&event).await;
            }
            return Some(open);
        }
    }

    /// Ensures that a subscriber is connected: waits for a reconnect, and restarts it if possible. Returns false if
    /// none is available.
    pub(super) async fn present(&mut self) -> Result<bool, TrialError> {
        if !self.producer.lines().is_empty() {
            return Ok(true);
        }
        let patience = if self.process.as_mut().is_some_and(|process| process.ended().is_some()) {
            Duration::ZERO
        } else {
            self.subject.times.reconnect
        };
        if self.arrive(patience).await.is_some() {
            return Ok(true);
        }
        if self.subject.command.is_none() {
            self.note("The subscriber ended. Start it again to continue the trial.");
            return Ok(self.arrive(self.subject.times.connect).await.is_some());
        }
        self.renew().await
    }

    /// Starts a fresh subscriber if possible; otherwise returns whether one is connected.
    pub(super) async fn renew(&mut self) -> Result<bool, TrialError> {
        if self.subject.command.is_some() {
            self.start().await?;
            return Ok(self.arrive(self.subject.times.connect).await.is_some());
        }
        Ok(!self.producer.lines().is_empty())
    }

    /// Replaces a subscriber that stopped replying, if possible.
    pub(super) async fn recover(&mut self, reaction: &SubscriberReaction) -> Result<(), TrialError> {
        if matches!(reaction, SubscriberReaction::Silent) {
            self.renew().await?;
        }
        Ok(())
    }

    // Talking.

    pub(super) async fn send_piece(&mut self, piece: &Piece) -> usize {
        let text = String::from_utf8_lossy(&piece.data);
        let text = crate::conformance::report::beginning(&text, limits::EVIDENCE_LINE_BYTES_MAX);
        if self.sent_messages.len() >= limits::TRIAL_SPOKEN_MAX {
            self.sent_messages.remove(0);
        }
        self.sent_messages.push((recount_world::moment(), text));
        if let Some(id) = &piece.id {
            if self.ids.len() >= limits::TRIAL_IDS {
                self.ids.pop_front();
            }
            self.ids.push_back(id.clone());
        }
        self.producer.send(piece).await
    }

    pub(super) async fn send_event(&mut self, event: &Event) -> usize {
        self.send_piece(&event.piece()).await
    }

    /// Whether an event with this id was sent recently.
    pub(super) fn has_sent(&self, id: &str) -> bool {
        self.ids.iter().any(|sent| sent == id)
    }

    /// Sends a prompt and waits for the reaction.
    pub(super) async fn send_prompt(&mut self, prompt: Prompt, piece: &Piece) -> SubscriberReaction {
        let waits = if self.answers() { self.subject.times.reply } else { self.quiet() };
        self.send_prompt_for(prompt, piece, waits).await
    }

    /// Sends a prompt that need not be answered.
    pub(super) async fn send_prompt_quietly(&mut self, prompt: Prompt) -> SubscriberReaction {
        let (piece, quiet) = (prompt.event.piece(), self.quiet());
        self.send_prompt_for(prompt, &piece, quiet).await
    }

    pub(super) async fn send_prompt_for(
        &mut self,
        prompt: Prompt,
        piece: &Piece,
        waits: Duration,
    ) -> SubscriberReaction {
        let mark = self.producer.mark();
        let (token, sent) = (prompt.token.clone(), recount_world::moment());
        self.issued.push(Issued { prompt, sent });
        let reaction = match self.send_piece(piece).await {
            0 => SubscriberReaction::Disconnected,
            _ => self.watch(mark, &token, sent, waits).await,
        };
        if let (SubscriberReaction::Disconnected, Some(process)) = (&reaction, &mut self.process) {
            // A connection ends shortly before its process.
            process.wait(self.subject.times.quiet).await;
        }
        if let SubscriberReaction::Answered { after, .. } = &reaction {
            self.took.push(*after);
        }
        reaction
    }

    /// A confirmation with its own token.
    pub(super) fn new_confirmation(&mut self, seconds: u32) -> Prompt {
        let token = self.builder.token();
        self.builder.confirmation(token, seconds)
    }

    /// Sends a prompt without waiting; returns when it was sent.
    pub(super) async fn issue(&mut self, prompt: &Prompt) -> Instant {
        let sent = recount_world::moment();
        self.issued.push(Issued { prompt: prompt.clone(), sent });
        self.send_event(&prompt.event).await;
        sent
    }

    /// Waits for the reply to a token, or for the end of the connection.
    pub(super) async fn watch(
        &self,
        mark: usize,
        token: &str,
        sent: Instant,
        waits: Duration,
    ) -> SubscriberReaction {
        let find = |seen: &[Observation]| {
            let reply = seen
                .iter()
                .filter_map(ReceivedMessage::of)
                .find(|message| message.is_reply() && message.token() == token);
            if let Some(reply) = reply {
                let after = reply.at.saturating_duration_since(sent);
                return Some(SubscriberReaction::Answered { after, reply: Box::new(reply) });
            }
            let disconnected = seen.iter().any(|seen| matches!(seen.what, Input::Closed));
            disconnected.then_some(SubscriberReaction::Disconnected)
        };
        let silent =
            if self.answers() { SubscriberReaction::Silent } else { SubscriberReaction::StayedConnected };
        self.producer.wait(mark, waits, find).await.unwrap_or(silent)
    }

    /// Sends an ordinary prompt to check whether the subscriber still works.
    pub(super) async fn probe(&mut self) -> SubscriberReaction {
        self.probe_as(|event| event.piece()).await
    }

    /// Like [`Trial::probe`], with custom framing of the prompt.
    pub(super) async fn probe_as(&mut self, on_the_wire: impl FnOnce(&Event) -> Piece) -> SubscriberReaction {
        let waiting = self.builder.go("awaiting_input");
        self.send_event(&waiting).await;
        let prompt = self.new_confirmation(limits::TRIAL_PROMPT_SECONDS);
        let piece = on_the_wire(&prompt.event);
        let reaction = self.send_prompt(prompt, &piece).await;
        self.follow(&reaction).await;
        reaction
    }

    /// Sends the events that follow a prompt: the accepted action, or the continuation without it.
    pub(super) async fn follow(&mut self, reaction: &SubscriberReaction) {
        if matches!(reaction, SubscriberReaction::Disconnected) {
            return;
        }
        let accepted =
            matches!(reaction, SubscriberReaction::Answered { reply, .. } if reply.decision() == "accept");
        let mut events = Vec::new();
        if accepted {
            events.push(self.builder.go("calling_tool"));
            events.extend(self.builder.call());
        }
        events.push(self.builder.go("thinking"));
        for event in events {
            self.send_event(&event).await;
        }
    }

    /// Describes a reaction.
    pub(super) fn describe(&mut self, reaction: &SubscriberReaction) -> String {
        match reaction {
            SubscriberReaction::Answered { after, .. } => {
                format!("it answered the next prompt after {} ms", after.as_millis())
            }
            SubscriberReaction::StayedConnected => "it stayed connected".to_owned(),
            SubscriberReaction::Silent => {
                format!("it did not answer the next prompt within {:?}", self.subject.times.reply)
            }
            SubscriberReaction::Disconnected => match self.process().and_then(Process::ended) {
                Some(status) => {
                    let output = self.process().and_then(|process| process.last_output_line());
                    let output = output.map_or(String::new(), |output| format!(", saying “{output}”"));
                    format!("its process ended with {status}{output}")
                }
                None => "its connection ended".to_owned(),
            },
        }
    }

    /// How its process ended, if it has, with its last output.
    pub(super) fn ending(&mut self) -> String {
        match self.process().and_then(Process::ended) {
            Some(_) => format!("; {}", self.describe(&SubscriberReaction::Disconnected)),
            None => String::new(),
        }
    }
}
