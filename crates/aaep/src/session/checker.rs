//! Passes texts to the checks of events and of sessions, and keeps the open sessions. Entry: [`Checker`].

use super::handshake::Handshakes;
use super::order::{self, Legality, Step};
use super::presumed::PresumedCalls;
use super::prompts::Presumption;
use super::stand::Stand;
use super::track::{Numbering, Track};
use super::view::View;
use super::{prompts, reply, states, stream, tools};
use crate::field::Field;
use crate::hash::{SumMap, Window, sum};
use crate::json::{Piece, Place, Reader, SyntaxError};
use crate::kind::{Kind, Named};
use crate::lex::time::Moment;
use crate::limits;
use crate::reading::Reading;
use crate::rule::{self, Finding, Findings, Profile, check, check_message, message_kind, syntax};
use crate::table::MessageKind;

/// How to check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub profile: Profile,
    /// Each event alone; sessions are not followed.
    pub events_only: bool,
    /// Any number. Who checks files of people who may wish harm gives one that they cannot know.
    pub seed: u64,
}

/// What a text was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Took {
    Event,
    Message(MessageKind),
    /// Not JSON, no object, or neither an event nor a message.
    Nothing,
}

/// Checks texts in the order in which they were sent.
///
/// ```
/// use recount_aaep::session::{Checker, Options};
///
/// let mut checker = Checker::new(Options::default());
/// let event = |kind: &str, id: u8| format!(
///     r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.session.{kind}","event_id":"evt_{id}",
///     "session_id":"sess_1","timestamp":"2026-05-24T14:22:11.342Z","producer":{{"agent_id":"planner"}},
///     "localization_hints":{{"primary_language":"en"}},"summary_normal":"Planning."}}"#
/// );
/// checker.text(1, &event("started", 1));
/// checker.text(2, &event("completed", 2));
/// checker.text(3, &event("completed", 3));
/// checker.finish();
/// let findings = checker.take();
/// assert_eq!((findings[0].line, findings[0].rule.id), (3, "session.end_once"));
/// ```
pub struct Checker {
    options: Options,
    reader: Reader,
    findings: Findings,
    open: SumMap<Track>,
    ended: Window<Kind>,
    event_ids: Window<u64>,
    /// Which session a reply token belongs to.
    tokens: Window<u64>,
    /// Tokens of replies that were of no prompt by then.
    strays: Window<()>,
    /// Replies to confirmations that do not count.
    refused: u64,
    presumed: PresumedCalls,
    handshakes: Handshakes,
    heard: u64,
}

impl Checker {
    pub fn new(options: Options) -> Self {
        Checker {
            options,
            reader: Reader::new(),
            findings: Findings::new(options.profile),
            open: SumMap::default(),
            ended: Window::new(limits::SESSIONS_ENDED_WINDOW),
            event_ids: Window::new(limits::EVENT_ID_WINDOW),
            tokens: Window::new(limits::REPLY_TOKEN_WINDOW),
            strays: Window::new(limits::REPLY_TOKEN_WINDOW),
            refused: 0,
            presumed: PresumedCalls::default(),
            handshakes: Handshakes::default(),
            heard: 0,
        }
    }

    /// What was found since the last time, in the order of the texts. Findings are held until they are taken, so
    /// who checks a long file takes them after each piece.
    pub fn take(&mut self) -> Vec<Finding> {
        self.findings.take()
    }

    /// Sessions that are being followed.
    pub fn open_sessions(&self) -> usize {
        self.open.len()
    }

    /// What is followed of a session; `None` when it has not started or has ended.
    pub fn session(&self, id: &str) -> Option<View<'_>> {
        self.open.get(&sum(self.options.seed, id.as_bytes())).map(|track| View { track })
    }

    /// Checks a piece of a file; see [`crate::json::Splitter`].
    pub fn piece(&mut self, piece: Piece<'_>) -> Took {
        match piece.text {
            Ok(bytes) => self.bytes(piece.line, bytes),
            Err(fault) => {
                let place = Place { line: 1, column: 1 };
                let error = SyntaxError { fault: fault.clone(), offset: 0, place, path: String::new() };
                self.refuse(piece.line, &error);
                Took::Nothing
            }
        }
    }

    /// Checks bytes that are to be one JSON text, which begins in this line of its file.
    pub fn bytes(&mut self, line: usize, bytes: &[u8]) -> Took {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(line, text),
            Err(_) => {
                if let Err(error) = Reader::new().read_bytes(bytes) {
                    self.refuse(line, &error);
                }
                Took::Nothing
            }
        }
    }

    fn refuse(&mut self, line: usize, error: &SyntaxError) {
        let from = self.findings.found.len();
        syntax(error, &mut self.findings);
        self.place(from, line);
    }

    /// Checks one JSON text, which begins in this line of its file.
    pub fn text(&mut self, line: usize, text: &str) -> Took {
        let mut reader = std::mem::take(&mut self.reader);
        let took = match reader.read(text) {
            Err(error) => {
                self.refuse(line, &error);
                Took::Nothing
            }
            Ok(doc) => match Reading::of(doc) {
                Some(reading) => self.reading(line, &reading),
                None => {
                    let from = self.findings.begin();
                    rule::not_an_object(doc.root(), text, &mut self.findings);
                    self.place(from, line);
                    Took::Nothing
                }
            },
        };
        self.reader = reader;
        took
    }

    /// Checks what has been read already.
    pub fn reading(&mut self, line: usize, reading: &Reading<'_>) -> Took {
        let from = self.findings.begin();
        let message = if reading.kind().is_none() { message_kind(reading) } else { None };
        let stranger = message.is_none()
            && !matches!(reading.named(), Named::Core(_) | Named::Extension)
            && !reading.has(Field::Context)
            && !reading.has(Field::EventId);
        let mut ended = None;
        let took = match message {
            // Neither an event with something missing nor a message: a server's own word to its tests, or a mistake.
            None if stranger => {
                let message = || "neither an event nor a message of the protocol".to_owned();
                let text = reading.doc().text();
                self.findings.add(&rule::MESSAGE_TYPE, text, Some(reading.node()), String::new, message);
                Took::Nothing
            }
            Some(kind) => {
                check_message(kind, reading, &mut self.findings);
                if !self.options.events_only {
                    self.message(kind, reading);
                }
                Took::Message(kind)
            }
            None => {
                check(reading, &mut self.findings);
                if !self.options.events_only {
                    ended = self.event(line, reading);
                }
                Took::Event
            }
        };
        if self.findings.found.len() > from {
            let id = reading.text(Field::EventId);
            for finding in self.findings.found[from..].iter_mut().filter(|finding| finding.event_id.is_none())
            {
                finding.event_id = id.as_deref().map(|id| rule::bounded(id.to_owned()));
            }
            self.place(from, line);
        }
        self.findings.found.extend(self.presumed.settle(ended, self.options.profile));
        took
    }

    fn place(&mut self, from: usize, line: usize) {
        for finding in &mut self.findings.found[from..] {
            finding.line = line + finding.place.line - 1;
        }
    }

    /// No more texts come: sessions that are open have no ending, and calls have no replies that are not recorded.
    pub fn finish(&mut self) {
        self.findings.found.extend(self.presumed.finish(self.options.profile));
        let mut left: Vec<Track> = std::mem::take(&mut self.open).into_values().collect();
        left.sort_by_key(|track| track.heard);
        for track in left {
            let Some(severity) = rule::END_MISSING.severity(self.options.profile) else { continue };
            self.findings.found.push(Finding {
                rule: &rule::END_MISSING,
                severity,
                line: track.line,
                event_id: Some(rule::bounded(track.event_id)),
                path: String::new(),
                place: Place { line: 1, column: 1 },
                message: format!("`{}` has no ending", rule::quote(&track.id)),
            });
        }
    }

    fn message(&mut self, kind: MessageKind, message: &Reading<'_>) {
        let seed = self.options.seed;
        match kind {
            MessageKind::ConfirmationReply | MessageKind::ClarificationReply => {
                let Some(text) = message.text(Field::ReplyToken) else { return };
                let token = sum(seed, text.as_bytes());
                let owner = self.tokens.get(token);
                if kind == MessageKind::ConfirmationReply && self.presumed.confirm(token, message) {
                    return;
                }
                let prompt = owner
                    .and_then(|session| self.open.get_mut(&session))
                    .and_then(|track| track.prompts.iter_mut().rev().find(|prompt| prompt.token == token));
                let counts = match (owner, prompt) {
                    (_, Some(prompt)) => reply::answer(prompt, kind, message, seed, &mut self.findings),
                    (Some(_), None) => {
                        let explain = || "the session has ended".to_owned();
                        let text = message.doc().text();
                        self.findings.add(
                            &rule::REPLY_LATE,
                            text,
                            Some(message.node()),
                            String::new,
                            explain,
                        );
                        false
                    }
                    (None, None) => {
                        let explain = || format!("no prompt has the token `{}`", rule::quote(&text));
                        let node = message.get(Field::ReplyToken);
                        let path = || "reply_token".to_owned();
                        self.findings.add(&rule::REPLY_UNKNOWN, message.doc().text(), node, path, explain);
                        self.strays.keep(token, ());
                        false
                    }
                };
                // Where a reply to a prompt that is not known is recorded, those to known prompts would be, too.
                let stray = owner.is_none() && kind == MessageKind::ConfirmationReply;
                if counts || stray {
                    self.presumed.note_reply();
                }
                self.refused += u64::from(!counts && kind == MessageKind::ConfirmationReply);
            }
            _ => self.handshakes.observe(kind, message, seed, &mut self.findings),
        }
    }

    /// Follows an event; returns the sum of its session's id when it ends the session.
    fn event(&mut self, line: usize, event: &Reading<'_>) -> Option<u64> {
        let refused = self.refused;
        let Checker {
            options,
            findings,
            open,
            ended,
            event_ids,
            tokens,
            strays,
            presumed,
            handshakes,
            heard,
            ..
        } = self;
        let seed = options.seed;
        let text = event.doc().text();
        let id = event.text(Field::EventId);
        if let Some(id) = &id {
            let content = sum(seed, event.node().raw().as_bytes());
            if let Some(known) = event_ids.keep(sum(seed, id.as_bytes()), content) {
                let node = event.get(Field::EventId);
                let path = || "event_id".to_owned();
                let message = || format!("`{}` appeared before", rule::quote(id));
                if known == content {
                    findings.add(&rule::DELIVERED_TWICE, text, node, path, message);
                    return None;
                }
                findings.add(&rule::EVENT_ID_REUSED, text, node, path, message);
            }
        }
        handshakes.hold(event, findings);
        let session = event.text(Field::SessionId)?;
        let key = sum(seed, session.as_bytes());
        let step = event.kind().map(Step::Event);
        *heard += 1;
        let track = match open.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                if let Some(ending) = ended.get(key) {
                    behind_the_end(ending, event, &session, findings);
                    return None;
                }
                entry.insert(Track { id: session.as_ref().into(), ..Track::default() })
            }
        };
        track.heard = *heard;
        track.line = line;
        track.event_id.clear();
        track.event_id.push_str(id.as_deref().unwrap_or_default());
        let moment =
            event.text(Field::Timestamp).and_then(|text| Moment::parse(&text)).map(|moment| moment.micros);
        lifecycle(track, step, event, findings);
        time(track, event, moment, findings);
        numbering(track, event, findings);
        if let Some(kind) = event.kind() {
            // Only where a call may need a confirmation is it asked what a recording could hold.
            let unseen = kind == Kind::ToolInvoked && handshakes.are_mute();
            let stand = Stand { speaker: 0, moment, seed, heard: track.heard, refused, unseen };
            let (room, presumption) = follow(track, kind, event, stand, findings);
            if let Some(presumption) = presumption {
                let tool = rule::quote(&event.text(Field::Tool).unwrap_or_default());
                let call = (tool, rule::stakes(event).irreversible);
                presumed.hold(presumption, key, line, &track.event_id, call);
            }
            if kind == Kind::AwaitingConfirmation
                && let Some(token) = event.text(Field::ReplyToken)
                && strays.get(sum(seed, token.as_bytes())).is_some()
                && let Some(prompt) = track.prompts.last_mut()
            {
                // It was answered before it was asked.
                prompt.refused_before = refused.saturating_sub(1);
            }
            if matches!(kind, Kind::AwaitingConfirmation | Kind::AwaitingClarification)
                && let Some(token) = event.text(Field::ReplyToken)
                && tokens.keep(sum(seed, token.as_bytes()), key).is_some()
            {
                let path = || "reply_token".to_owned();
                let message = || format!("`{}` was used before", rule::quote(&token));
                findings.add(&rule::TOKEN_REUSED, text, event.get(Field::ReplyToken), path, message);
            }
            if !room && !track.overflowed {
                track.overflowed = true;
                let message = || format!("`{}` has more parts than the limit", rule::quote(&session));
                findings.add(&rule::LIMIT_SESSION, text, Some(event.node()), String::new, message);
            }
            if kind.is_terminal() {
                open.remove(&key);
                ended.keep(key, kind);
            }
        }
        if open.len() > limits::SESSIONS_OPEN_MAX {
            forget_silent(open);
            let message = || format!("more than {} sessions are open", limits::SESSIONS_OPEN_MAX);
            findings.add(&rule::LIMIT_SESSIONS, text, Some(event.node()), String::new, message);
        }
        event.kind().filter(|kind| kind.is_terminal()).map(|_| key)
    }
}

/// Forgets an eighth of the sessions, those that were silent longest, so that it does not happen at every event.
fn forget_silent(open: &mut SumMap<Track>) {
    let mut heard: Vec<u64> = open.values().map(|track| track.heard).collect();
    let eighth = heard.len() / 8;
    let (_, bound, _) = heard.select_nth_unstable(eighth);
    let bound = *bound;
    open.retain(|_, track| track.heard > bound);
}

fn behind_the_end(ending: Kind, event: &Reading<'_>, session: &str, findings: &mut Findings) {
    let text = event.doc().text();
    let rule = match event.kind() {
        Some(Kind::SessionStarted) => &rule::ID_REUSED,
        Some(kind) if kind.is_terminal() => &rule::END_ONCE,
        _ => &rule::AFTER_END,
    };
    let message = || format!("`{}` has ended with `{}`", rule::quote(session), ending.name());
    findings.add(rule, text, Some(event.node()), String::new, message);
}

fn lifecycle(track: &mut Track, step: Option<Step>, event: &Reading<'_>, findings: &mut Findings) {
    let text = event.doc().text();
    let started = step == Some(Step::Event(Kind::SessionStarted));
    let behind = track.last.map(|before| order::pair(before, Step::Event(Kind::SessionStarted)));
    if started && track.started && behind == Some(Legality::Never) {
        let message = || "`session.started` appears a second time".to_owned();
        findings.add(&rule::START_ONCE, text, Some(event.node()), String::new, message);
    } else if !started && track.last.is_none() {
        // Said once, and not again when the beginning comes late.
        let message = || format!("`{}` begins without `session.started`", track.id);
        findings.add(&rule::START_FIRST, text, Some(event.node()), String::new, message);
    }
    track.started |= started;
    track.last = step.or(track.last).or(Some(Step::Event(Kind::ProgressUpdated)));
}

fn time(track: &mut Track, event: &Reading<'_>, moment: Option<i64>, findings: &mut Findings) {
    let Some(moment) = moment else { return };
    if track.micros.is_some_and(|last| moment < last) {
        let message = || "the previous event of the session has a later time".to_owned();
        let path = || "timestamp".to_owned();
        findings.add(&rule::TIME_FALLS, event.doc().text(), event.get(Field::Timestamp), path, message);
    }
    track.micros = Some(moment);
}

fn numbering(track: &mut Track, event: &Reading<'_>, findings: &mut Findings) {
    let text = event.doc().text();
    let node = event.get(Field::SequenceNumber);
    let path = || "sequence_number".to_owned();
    let number = node.and_then(crate::json::Node::int);
    track.numbering = match (track.numbering, number) {
        (Numbering::Unknown, Some(number)) => {
            if number != 0 {
                let message = || format!("the first number is {number}");
                findings.add(&rule::SEQUENCE_START, text, node, path, message);
            }
            Numbering::At(number)
        }
        (Numbering::Unknown | Numbering::Without, None) => Numbering::Without,
        (Numbering::At(last), Some(number)) => {
            if number != last.saturating_add(1) {
                let message = || format!("{number} follows {last}");
                findings.add(&rule::SEQUENCE_STEP, text, node, path, message);
            }
            Numbering::At(number)
        }
        (Numbering::At(_), None) | (Numbering::Without, Some(_)) => {
            let message = || "only some events of the session have a number".to_owned();
            findings.add(&rule::SEQUENCE_MIXED, text, node.or(Some(event.node())), path, message);
            Numbering::Mixed
        }
        (Numbering::Mixed, _) => Numbering::Mixed,
    };
}

/// Follows the parts of a session. Returns whether there was room for what the event adds, and why a call passed whose
/// prompt has no reply.
fn follow(
    track: &mut Track,
    kind: Kind,
    event: &Reading<'_>,
    stand: Stand,
    findings: &mut Findings,
) -> (bool, Option<Presumption>) {
    let agent = event.agent().map_or(0, |agent| sum(stand.seed, agent.as_bytes()));
    let number = match track.speakers.iter().position(|speaker| speaker.agent == agent) {
        Some(number) => number,
        None if track.speakers.len() >= limits::SESSION_PARTS_MAX => {
            if kind == Kind::ToolInvoked {
                tools::unfollowed(event, findings);
            }
            return (false, None);
        }
        None => {
            track.speakers.push(states::Speaker { agent, ..states::Speaker::default() });
            track.speakers.len() - 1
        }
    };
    let Track { speakers, calls, prompts, outputs, .. } = track;
    let speaker = &mut speakers[number];
    let stand = Stand { speaker: number, ..stand };
    if !prompts.is_empty() {
        prompts::count_down(prompts, stand, kind, event, findings);
    }
    let mut presumption = None;
    let room = match kind {
        Kind::StateChanged => {
            let change = states::changed(speaker, number, calls, event, findings);
            if change.leaves_prompt {
                prompts::left(prompts, stand, change.to_call);
            }
            true
        }
        Kind::ToolInvoked => {
            let (room, passed) = tools::invoked(calls, prompts, speaker, stand, event, findings);
            presumption = passed;
            room
        }
        Kind::ToolCompleted => {
            tools::completed(calls, prompts, speaker, stand, event, findings);
            true
        }
        Kind::OutputStreaming => stream::piece(outputs, speaker, stand, event, findings),
        Kind::AwaitingConfirmation | Kind::AwaitingClarification => {
            prompts::opened(prompts, speaker, stand, kind, event, findings)
        }
        Kind::HandoffRequested => {
            states::handoff(speaker, event, findings);
            true
        }
        _ => true,
    };
    speaker.imply(kind);
    if kind.is_terminal() {
        let completed = kind == Kind::SessionCompleted;
        tools::ended(calls, completed, event, findings);
        prompts::ended(prompts, speakers, completed, event, stand.moment, findings);
        stream::ended(outputs, event, findings);
    } else if kind != Kind::ToolInvoked && !prompts.is_empty() {
        prompts::follow(prompts, stand);
    }
    (room, presumption)
}
