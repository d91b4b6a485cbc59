//! A subscriber test in progress: the stage, the subscriber, the open prompts, and the report so far. [`Trial`] has the
//! operations that the parts are written in. It must not know which results are right.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use recount_world::World;
use tokio::time::Instant;

use super::builder::{Event, EventBuilder, Prompt};
use super::coverage;
use super::piece::Piece;
use super::process::Process;
use super::producer::{Face, Input, OpenStream, Seen, SyntheticProducer};
use super::received::ReceivedMessage;
use super::{Answers, Expectation, Subject, TrialError, TrialNotice};
use crate::conformance::requirements::Requirement;
use crate::conformance::{Check, Outcome, Report, Side};
use crate::limits;

/// A prompt that was sent, and whether it may be answered.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    pub prompt: Prompt,
    pub sent: Instant,
}

/// What became of a subscriber after something was said to it.
#[derive(Debug, Clone)]
pub(super) enum Sign {
    /// It answered the next prompt.
    Answered { after: Duration, reply: Box<ReceivedMessage> },
    /// Nothing is to be answered, and it stayed connected.
    Held,
    /// It stayed connected but did not answer.
    Silent,
    /// Its connection ended.
    Disconnected,
}

impl Sign {
    pub(super) fn is_well(&self) -> bool {
        matches!(self, Sign::Answered { .. } | Sign::Held)
    }
}

pub(super) struct Trial<'a> {
    pub(super) world: &'a World,
    pub(super) subject: &'a Subject,
    pub(super) level: u8,
    pub(super) producer: SyntheticProducer,
    pub(super) builder: EventBuilder,
    pub(super) issued: Vec<Issued>,
    /// Set when it should answer by itself but does not: then nothing more is made of its silence.
    pub(super) mute: bool,
    /// How long replies took.
    pub(super) took: Vec<Duration>,
    process: Option<Process>,
    report: Report,
    sink: &'a mut (dyn FnMut(TrialNotice<'_>) + Send),
    began: Instant,
    /// What was said since the present check began.
    spoken: Vec<(Instant, String)>,
    since: usize,
    /// Ids of events that were sent lately.
    ids: VecDeque<String>,
}

impl<'a> Trial<'a> {
    pub(super) async fn begin(
        world: &'a World,
        subject: &'a Subject,
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
            mute: false,
            took: Vec::new(),
            process: None,
            report,
            sink,
            began: recount_world::moment(),
            spoken: Vec::new(),
            since: 0,
            ids: VecDeque::new(),
        })
    }

    pub(super) async fn finish(mut self) -> Report {
        if let Some(process) = &mut self.process {
            process.kill().await;
        }
        self.producer.close_door().await;
        self.complete();
        self.report.took_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.report
    }

    /// What the trial did not come to is not shown, rather than left out of the report.
    fn complete(&mut self) {
        let looked_at: BTreeSet<&str> = self.report.checks.iter().map(|check| check.requirement).collect();
        let rows = coverage::ALL.iter().filter_map(|(id, _)| Requirement::named(id));
        let missing: Vec<&Requirement> = rows.filter(|row| !looked_at.contains(row.id)).collect();
        for row in missing {
            let why = "the test ended before this check".to_owned();
            self.check(Expectation(row.id, row.text), Outcome::NotShown(why), "");
        }
    }

    pub(super) fn note(&mut self, words: &str) {
        (self.sink)(TrialNotice::Note(words));
    }

    /// The name and version that it gives itself.
    pub(super) fn named(&mut self, name: &str, version: Option<&str>) {
        name.clone_into(&mut self.report.subject);
        self.report.subject_version = version.map(str::to_owned);
    }

    /// Whether its replies can be counted on, so that they show that it is well.
    pub(super) fn answers(&self) -> bool {
        self.subject.answers != Answers::Never && !self.mute
    }

    /// What it is to decide when it answers by itself.
    pub(super) fn decision(&self) -> Option<&'static str> {
        match self.subject.answers {
            Answers::Accept => Some("accept"),
            Answers::Reject => Some("reject"),
            Answers::Never | Answers::Person => None,
        }
    }

    /// How long it usually takes to answer: the middle one of its times.
    pub(super) fn usual(&self) -> Option<Duration> {
        let mut took = self.took.clone();
        took.sort();
        took.get(took.len() / 2).copied()
    }

    /// How long to watch for what must not happen: longer than it usually takes to answer.
    pub(super) fn quiet(&self) -> Duration {
        let usual = self.usual().unwrap_or_default();
        self.subject.times.quiet.max(usual * limits::TRIAL_QUIET_ANSWERS).min(self.subject.times.reply)
    }

    // Checks.

    /// A check begins: what was said before is not its evidence.
    pub(super) fn fresh(&mut self) {
        self.spoken.clear();
        self.since = self.producer.mark();
    }

    /// A check at the level of its requirement; above the level that is tried it is not made.
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

    /// The same where it either holds or not.
    pub(super) fn hold(&mut self, expectation: Expectation, holds: bool, detail: impl Into<String>) {
        let outcome = if holds { Outcome::Passed } else { Outcome::Failed };
        self.check(expectation, outcome, detail);
    }

    pub(super) fn not_shown(&mut self, expectation: Expectation, why: impl Into<String>) {
        self.check(expectation, Outcome::NotShown(why.into()), "");
    }

    pub(super) fn inapplicable(&mut self, expectation: Expectation, why: impl Into<String>) {
        self.check(expectation, Outcome::Inapplicable(why.into()), "");
    }

    /// What was said to and fro since the present check began; of much the end.
    fn conversation(&self) -> Vec<String> {
        let mut lines: Vec<(Instant, String)> =
            self.spoken.iter().map(|(at, text)| (*at, format!("out {text}"))).collect();
        for seen in self.producer.since(self.since) {
            let text = match seen.what {
                Input::Message { text, .. } => format!("in  {text}"),
                Input::Opened { resumes: Some(id), .. } => format!("in  connected behind {id}"),
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

    /// Starts the subscriber where it is started by a command; ends the one of before.
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

    /// Waits until it is connected, at most for so long.
    pub(super) async fn connected(&mut self, patience: Duration) -> Option<OpenStream> {
        let limit = recount_world::moment() + patience;
        loop {
            let left = limit.checked_duration_since(recount_world::moment())?;
            // In steps, because a process that has ended does not come any more.
            if let Some(open) = self.producer.wait_open(left.min(limits::TRIAL_SECOND)).await {
                return Some(open);
            }
            let ended = self.process.as_mut().is_some_and(|process| process.ended().is_some());
            if ended && self.producer.lines().is_empty() {
                return None;
            }
        }
    }

    /// Waits for it to come, at most for so long, and begins a session.
    pub(super) async fn arrive(&mut self, patience: Duration) -> Option<OpenStream> {
        let limit = recount_world::moment() + patience;
        loop {
            let left = limit.checked_duration_since(recount_world::moment())?;
            let open = self.connected(left).await?;
            if open.face == Face::Legacy || open.face == Face::LegacySocket {
                // A handshake may or may not come behind the stream.
                self.producer.wait_subscription(self.subject.times.quiet).await;
            }
            // It may have gone again meanwhile.
            let Some(open) = self.producer.lines().pop() else { continue };
            for event in [self.builder.begin(), self.builder.go("thinking")] {
                self.send_event(&event).await;
            }
            return Some(open);
        }
    }

    /// Sees to it that there is a subscriber: waits for it to come back, and starts it anew where that can be done.
    /// Without one, nothing more can be shown.
    pub(super) async fn present(&mut self) -> Result<bool, TrialError> {
        if !self.producer.lines().is_empty() {
            return Ok(true);
        }
        let patience = if self.process.as_mut().is_some_and(|process| process.ended().is_some()) {
            Duration::ZERO
        } else {
            self.subject.times.returns
        };
        if self.arrive(patience).await.is_some() {
            return Ok(true);
        }
        if self.subject.command.is_none() {
            self.note("The subscriber ended. Start it again to continue the trial.");
            return Ok(self.arrive(self.subject.times.comes).await.is_some());
        }
        self.renew().await
    }

    /// A fresh subscriber, where one can be had; otherwise whether the one there is connected.
    pub(super) async fn renew(&mut self) -> Result<bool, TrialError> {
        if self.subject.command.is_some() {
            self.start().await?;
            return Ok(self.arrive(self.subject.times.comes).await.is_some());
        }
        Ok(!self.producer.lines().is_empty())
    }

    /// What stopped answering is not asked on and on: a fresh one, where one can be had.
    pub(super) async fn recover(&mut self, sign: &Sign) -> Result<(), TrialError> {
        if matches!(sign, Sign::Silent) {
            self.renew().await?;
        }
        Ok(())
    }

    // Talking.

    pub(super) async fn send_piece(&mut self, piece: &Piece) -> usize {
        let text = String::from_utf8_lossy(&piece.data);
        let text = crate::conformance::report::beginning(&text, limits::EVIDENCE_LINE_BYTES_MAX);
        if self.spoken.len() >= limits::TRIAL_SPOKEN_MAX {
            self.spoken.remove(0);
        }
        self.spoken.push((recount_world::moment(), text));
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

    /// Whether an event with this id was sent lately.
    pub(super) fn has_sent(&self, id: &str) -> bool {
        self.ids.iter().any(|sent| sent == id)
    }

    /// Sends a prompt and looks what becomes of it. Where nothing is to be answered, looks whether it stays.
    pub(super) async fn send_prompt(&mut self, prompt: Prompt, piece: &Piece) -> Sign {
        let waits = if self.answers() { self.subject.times.reply } else { self.quiet() };
        self.send_prompt_for(prompt, piece, waits).await
    }

    /// The same for a prompt that need not be answered.
    pub(super) async fn send_prompt_quietly(&mut self, prompt: Prompt) -> Sign {
        let (piece, quiet) = (prompt.event.piece(), self.quiet());
        self.send_prompt_for(prompt, &piece, quiet).await
    }

    pub(super) async fn send_prompt_for(&mut self, prompt: Prompt, piece: &Piece, waits: Duration) -> Sign {
        let mark = self.producer.mark();
        let (token, sent) = (prompt.token.clone(), recount_world::moment());
        self.issued.push(Issued { prompt, sent });
        let sign = match self.send_piece(piece).await {
            0 => Sign::Disconnected,
            _ => self.watch(mark, &token, sent, waits).await,
        };
        if let (Sign::Disconnected, Some(process)) = (&sign, &mut self.process) {
            // A connection ends a moment before its process does.
            process.wait(self.subject.times.quiet).await;
        }
        if let Sign::Answered { after, .. } = &sign {
            self.took.push(*after);
        }
        sign
    }

    /// A confirmation with a token of its own.
    pub(super) fn draw(&mut self, seconds: u32) -> Prompt {
        let token = self.builder.token();
        self.builder.confirmation(token, seconds)
    }

    /// Sends a prompt and does not wait; answers when it was sent.
    pub(super) async fn issue(&mut self, prompt: &Prompt) -> Instant {
        let sent = recount_world::moment();
        self.issued.push(Issued { prompt: prompt.clone(), sent });
        self.send_event(&prompt.event).await;
        sent
    }

    /// Looks for the reply to a token, or for the end of the connection.
    pub(super) async fn watch(&self, mark: usize, token: &str, sent: Instant, waits: Duration) -> Sign {
        let find = |seen: &[Seen]| {
            let reply = seen
                .iter()
                .filter_map(ReceivedMessage::of)
                .find(|message| message.is_reply() && message.token() == token);
            if let Some(reply) = reply {
                let after = reply.at.saturating_duration_since(sent);
                return Some(Sign::Answered { after, reply: Box::new(reply) });
            }
            let disconnected = seen.iter().any(|seen| matches!(seen.what, Input::Closed));
            disconnected.then_some(Sign::Disconnected)
        };
        let silent = if self.answers() { Sign::Silent } else { Sign::Held };
        self.producer.wait(mark, waits, find).await.unwrap_or(silent)
    }

    /// A prompt like any other: looks whether the subscriber is well.
    pub(super) async fn probe(&mut self) -> Sign {
        self.probe_as(|event| event.piece()).await
    }

    /// The same with the prompt put on the wire in a way of its own.
    pub(super) async fn probe_as(&mut self, on_the_wire: impl FnOnce(&Event) -> Piece) -> Sign {
        let waiting = self.builder.go("awaiting_input");
        self.send_event(&waiting).await;
        let prompt = self.draw(limits::TRIAL_PROMPT_SECONDS);
        let piece = on_the_wire(&prompt.event);
        let sign = self.send_prompt(prompt, &piece).await;
        self.follow(&sign).await;
        sign
    }

    /// What a producer says behind a prompt: that it does what was accepted, or goes on without.
    pub(super) async fn follow(&mut self, sign: &Sign) {
        if matches!(sign, Sign::Disconnected) {
            return;
        }
        let accepted = matches!(sign, Sign::Answered { reply, .. } if reply.decision() == "accept");
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

    /// How a sign is told.
    pub(super) fn describe(&mut self, sign: &Sign) -> String {
        match sign {
            Sign::Answered { after, .. } => {
                format!("it answered the next prompt after {} ms", after.as_millis())
            }
            Sign::Held => "it stayed connected".to_owned(),
            Sign::Silent => {
                format!("it did not answer the next prompt within {:?}", self.subject.times.reply)
            }
            Sign::Disconnected => match self.process().and_then(Process::ended) {
                Some(status) => {
                    let words = self.process().and_then(|process| process.last_words());
                    let words = words.map_or(String::new(), |words| format!(", saying “{words}”"));
                    format!("its process ended with {status}{words}")
                }
                None => "its connection ended".to_owned(),
            },
        }
    }

    /// How its process ended, if it has, and what it said last.
    pub(super) fn ending(&mut self) -> String {
        match self.process().and_then(Process::ended) {
            Some(_) => format!("; {}", self.describe(&Sign::Disconnected)),
            None => String::new(),
        }
    }
}
