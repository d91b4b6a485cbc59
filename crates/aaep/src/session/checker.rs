//! The checker of event streams: runs the checks of events and sessions, and tracks open sessions. Start at
//! [`Checker`].

use super::event_context::EventContext;
use super::handshake::Handshakes;
use super::order::{self, Legality, Step};
use super::presumed::PresumedCalls;
use super::prompts::Presumption;
use super::track::{Numbering, Track};
use super::view::SessionView;
use super::{prompts, reply, states, stream, tools};
use crate::field::Field;
use crate::hash::{HashedMap, Window, hash_text};
use crate::json::{Piece, Place, Reader, SyntaxError};
use crate::kind::{Kind, TypeClass};
use crate::lex::time::Moment;
use crate::limits;
use crate::reading::Reading;
use crate::rule::{self, Finding, Findings, Profile, check, check_message, message_kind, syntax};
use crate::table::MessageKind;

/// Options of a checker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub profile: Profile,
    /// Checks each event alone, without session rules.
    pub events_only: bool,
    /// The seed of hashes. Use an unpredictable number for untrusted files.
    pub seed: u64,
}

/// The kind of a checked text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    Event,
    Message(MessageKind),
    /// Not JSON, not an object, or neither an event nor a message.
    Nothing,
}

/// Checks texts in sending order.
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
    open: HashedMap<Track>,
    ended: Window<Kind>,
    event_ids: Window<u64>,
    /// Maps a reply token to its session.
    tokens: Window<u64>,
    /// Tokens of replies without a prompt so far.
    unmatched_replies: Window<()>,
    /// Number of confirmation replies that do not count.
    invalid_replies: u64,
    presumed: PresumedCalls,
    handshakes: Handshakes,
    event_count: u64,
}

impl Checker {
    pub fn new(options: Options) -> Self {
        Checker {
            options,
            reader: Reader::new(),
            findings: Findings::new(options.profile),
            open: HashedMap::default(),
            ended: Window::new(limits::SESSIONS_ENDED_WINDOW),
            event_ids: Window::new(limits::EVENT_ID_WINDOW),
            tokens: Window::new(limits::REPLY_TOKEN_WINDOW),
            unmatched_replies: Window::new(limits::REPLY_TOKEN_WINDOW),
            invalid_replies: 0,
            presumed: PresumedCalls::default(),
            handshakes: Handshakes::default(),
            event_count: 0,
        }
    }

    /// Takes the findings since the last call, in the order of the texts. Findings accumulate, so take them after each
    /// piece of a long file.
    pub fn take(&mut self) -> Vec<Finding> {
        self.findings.take()
    }

    /// Number of open sessions.
    pub fn open_sessions(&self) -> usize {
        self.open.len()
    }

    /// The state of a session; `None` if it has not started or has ended.
    pub fn session(&self, id: &str) -> Option<SessionView<'_>> {
        self.open.get(&hash_text(self.options.seed, id.as_bytes())).map(|track| SessionView { track })
    }

    /// Checks a piece of a file; see [`crate::json::Splitter`].
    pub fn piece(&mut self, piece: Piece<'_>) -> InputKind {
        match piece.text {
            Ok(bytes) => self.bytes(piece.line, bytes),
            Err(fault) => {
                let place = Place { line: 1, column: 1 };
                let error = SyntaxError { fault: fault.clone(), offset: 0, place, path: String::new() };
                self.add_syntax_error(piece.line, &error);
                InputKind::Nothing
            }
        }
    }

    /// Checks the bytes of one JSON text, which begins in this line of its file.
    pub fn bytes(&mut self, line: usize, bytes: &[u8]) -> InputKind {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(line, text),
            Err(_) => {
                if let Err(error) = Reader::new().read_bytes(bytes) {
                    self.add_syntax_error(line, &error);
                }
                InputKind::Nothing
            }
        }
    }

    fn add_syntax_error(&mut self, line: usize, error: &SyntaxError) {
        let from = self.findings.found.len();
        syntax(error, &mut self.findings);
        self.set_lines(from, line);
    }

    /// Checks one JSON text, which begins in this line of its file.
    pub fn text(&mut self, line: usize, text: &str) -> InputKind {
        let mut reader = std::mem::take(&mut self.reader);
        let took = match reader.read(text) {
            Err(error) => {
                self.add_syntax_error(line, &error);
                InputKind::Nothing
            }
            Ok(doc) => match Reading::of(doc) {
                Some(reading) => self.reading(line, &reading),
                None => {
                    let from = self.findings.begin();
                    rule::not_an_object(doc.root(), text, &mut self.findings);
                    self.set_lines(from, line);
                    InputKind::Nothing
                }
            },
        };
        self.reader = reader;
        took
    }

    /// Checks a parsed event or message.
    pub fn reading(&mut self, line: usize, reading: &Reading<'_>) -> InputKind {
        let from = self.findings.begin();
        let message = if reading.kind().is_none() { message_kind(reading) } else { None };
        let is_unrelated = message.is_none()
            && !matches!(reading.type_class(), TypeClass::Core(_) | TypeClass::Extension)
            && !reading.has(Field::Context)
            && !reading.has(Field::EventId);
        let mut ended = None;
        let took = match message {
            // Neither an incomplete event nor a message: a server's own test message, or a mistake.
            None if is_unrelated => {
                let message = || "neither an event nor a message of the protocol".to_owned();
                let text = reading.doc().text();
                self.findings.add(&rule::MESSAGE_TYPE, text, Some(reading.node()), String::new, message);
                InputKind::Nothing
            }
            Some(kind) => {
                check_message(kind, reading, &mut self.findings);
                if !self.options.events_only {
                    self.message(kind, reading);
                }
                InputKind::Message(kind)
            }
            None => {
                check(reading, &mut self.findings);
                if !self.options.events_only {
                    ended = self.event(line, reading);
                }
                InputKind::Event
            }
        };
        if self.findings.found.len() > from {
            let id = reading.text(Field::EventId);
            for finding in self.findings.found[from..].iter_mut().filter(|finding| finding.event_id.is_none())
            {
                finding.event_id = id.as_deref().map(|id| rule::bounded(id.to_owned()));
            }
            self.set_lines(from, line);
        }
        self.findings.found.extend(self.presumed.settle(ended, self.options.profile));
        took
    }

    fn set_lines(&mut self, from: usize, line: usize) {
        for finding in &mut self.findings.found[from..] {
            finding.line = line + finding.place.line - 1;
        }
    }

    /// Ends the check: open sessions have no ending, and pending calls get no further replies.
    pub fn finish(&mut self) {
        self.findings.found.extend(self.presumed.finish(self.options.profile));
        let mut unfinished: Vec<Track> = std::mem::take(&mut self.open).into_values().collect();
        unfinished.sort_by_key(|track| track.last_event);
        for track in unfinished {
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
                let token = hash_text(seed, text.as_bytes());
                let owner = self.tokens.get(token);
                if kind == MessageKind::ConfirmationReply && self.presumed.confirm(token, message) {
                    return;
                }
                let prompt = owner
                    .and_then(|session| self.open.get_mut(&session))
                    .and_then(|track| track.prompts.iter_mut().rev().find(|prompt| prompt.token == token));
                let counts = match (owner, prompt) {
                    (_, Some(prompt)) => reply::apply_reply(prompt, kind, message, seed, &mut self.findings),
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
                        self.unmatched_replies.keep(token, ());
                        false
                    }
                };
                // A reply to an unknown prompt shows that the recording contains replies.
                let is_unmatched = owner.is_none() && kind == MessageKind::ConfirmationReply;
                if counts || is_unmatched {
                    self.presumed.note_reply();
                }
                self.invalid_replies += u64::from(!counts && kind == MessageKind::ConfirmationReply);
            }
            _ => self.handshakes.observe(kind, message, seed, &mut self.findings),
        }
    }

    /// Tracks an event; returns the hash of its session id if it ends the session.
    fn event(&mut self, line: usize, event: &Reading<'_>) -> Option<u64> {
        let id = event.text(Field::EventId);
        if id.as_deref().is_some_and(|id| self.is_repeated(event, id)) {
            return None;
        }
        let invalid_replies = self.invalid_replies;
        let Checker {
            options,
            findings,
            open,
            ended,
            tokens,
            unmatched_replies,
            presumed,
            handshakes,
            event_count,
            ..
        } = self;
        let seed = options.seed;
        let text = event.doc().text();
        handshakes.check_event(event, findings);
        let session = event.text(Field::SessionId)?;
        let key = hash_text(seed, session.as_bytes());
        let step = event.kind().map(Step::Event);
        *event_count += 1;
        let track = match open.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                if let Some(ending) = ended.get(key) {
                    check_after_end(ending, event, &session, findings);
                    return None;
                }
                entry.insert(Track { id: session.as_ref().into(), ..Track::default() })
            }
        };
        track.last_event = *event_count;
        track.line = line;
        track.event_id.clear();
        track.event_id.push_str(id.as_deref().unwrap_or_default());
        let moment =
            event.text(Field::Timestamp).and_then(|text| Moment::parse(&text)).map(|moment| moment.micros);
        check_lifecycle(track, step, event, findings);
        check_time(track, event, moment, findings);
        check_numbering(track, event, findings);
        if let Some(kind) = event.kind() {
            // Only calls may need a confirmation.
            let prompts_hidden = kind == Kind::ToolInvoked && handshakes.none_can_reply();
            let context = EventContext {
                speaker: 0,
                moment,
                seed,
                event_number: track.last_event,
                invalid_replies,
                prompts_hidden,
            };
            let (room, presumption) = follow_event(track, kind, event, context, findings);
            if let Some(presumption) = presumption {
                let tool = rule::quote(&event.text(Field::Tool).unwrap_or_default());
                let call = (tool, rule::stakes(event).irreversible);
                presumed.add(presumption, key, line, &track.event_id, call);
            }
            if kind == Kind::AwaitingConfirmation
                && let Some(token) = event.text(Field::ReplyToken)
                && unmatched_replies.get(hash_text(seed, token.as_bytes())).is_some()
                && let Some(prompt) = track.prompts.last_mut()
            {
                // Its reply was recorded before it.
                prompt.invalid_replies_before = invalid_replies.saturating_sub(1);
            }
            if matches!(kind, Kind::AwaitingConfirmation | Kind::AwaitingClarification)
                && let Some(token) = event.text(Field::ReplyToken)
                && tokens.keep(hash_text(seed, token.as_bytes()), key).is_some()
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
            drop_idle_sessions(open);
            let message = || format!("more than {} sessions are open", limits::SESSIONS_OPEN_MAX);
            findings.add(&rule::LIMIT_SESSIONS, text, Some(event.node()), String::new, message);
        }
        event.kind().filter(|kind| kind.is_terminal()).map(|_| key)
    }

    /// Whether an event was delivered before. An event with the same id and another content is not.
    fn is_repeated(&mut self, event: &Reading<'_>, id: &str) -> bool {
        let seed = self.options.seed;
        let content = hash_text(seed, event.node().raw().as_bytes());
        let Some(known) = self.event_ids.keep(hash_text(seed, id.as_bytes()), content) else { return false };
        let rule = if known == content { &rule::DELIVERED_TWICE } else { &rule::EVENT_ID_REUSED };
        let path = || "event_id".to_owned();
        let message = || format!("`{}` appeared before", rule::quote(id));
        self.findings.add(rule, event.doc().text(), event.get(Field::EventId), path, message);
        known == content
    }
}

/// Drops the eighth of the sessions that was idle longest, so that this does not happen at every event.
fn drop_idle_sessions(open: &mut HashedMap<Track>) {
    let mut last_events: Vec<u64> = open.values().map(|track| track.last_event).collect();
    let eighth = last_events.len() / 8;
    let (_, bound, _) = last_events.select_nth_unstable(eighth);
    let bound = *bound;
    open.retain(|_, track| track.last_event > bound);
}

fn check_after_end(ending: Kind, event: &Reading<'_>, session: &str, findings: &mut Findings) {
    let text = event.doc().text();
    let rule = match event.kind() {
        Some(Kind::SessionStarted) => &rule::ID_REUSED,
        Some(kind) if kind.is_terminal() => &rule::END_ONCE,
        _ => &rule::AFTER_END,
    };
    let message = || format!("`{}` has ended with `{}`", rule::quote(session), ending.name());
    findings.add(rule, text, Some(event.node()), String::new, message);
}

fn check_lifecycle(track: &mut Track, step: Option<Step>, event: &Reading<'_>, findings: &mut Findings) {
    let text = event.doc().text();
    let started = step == Some(Step::Event(Kind::SessionStarted));
    let legality = track.last.map(|before| order::pair(before, Step::Event(Kind::SessionStarted)));
    if started && track.started && legality == Some(Legality::Never) {
        let message = || "`session.started` appears a second time".to_owned();
        findings.add(&rule::START_ONCE, text, Some(event.node()), String::new, message);
    } else if !started && track.last.is_none() {
        // Reported once, not again if the start arrives late.
        let message = || format!("`{}` begins without `session.started`", track.id);
        findings.add(&rule::START_FIRST, text, Some(event.node()), String::new, message);
    }
    track.started |= started;
    track.last = step.or(track.last).or(Some(Step::Event(Kind::ProgressUpdated)));
}

fn check_time(track: &mut Track, event: &Reading<'_>, moment: Option<i64>, findings: &mut Findings) {
    let Some(moment) = moment else { return };
    if track.micros.is_some_and(|last| moment < last) {
        let message = || "the previous event of the session has a later time".to_owned();
        let path = || "timestamp".to_owned();
        findings.add(&rule::TIME_FALLS, event.doc().text(), event.get(Field::Timestamp), path, message);
    }
    track.micros = Some(moment);
}

fn check_numbering(track: &mut Track, event: &Reading<'_>, findings: &mut Findings) {
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

/// Tracks the parts of a session. Returns whether the event's part is tracked, and the presumption by which a call
/// without a recorded reply passed.
fn follow_event(
    track: &mut Track,
    kind: Kind,
    event: &Reading<'_>,
    context: EventContext,
    findings: &mut Findings,
) -> (bool, Option<Presumption>) {
    let agent = event.agent().map_or(0, |agent| hash_text(context.seed, agent.as_bytes()));
    let number = match track.speakers.iter().position(|speaker| speaker.agent == agent) {
        Some(number) => number,
        None if track.speakers.len() >= limits::SESSION_PARTS_MAX => {
            if kind == Kind::ToolInvoked {
                tools::check_untracked_call(event, findings);
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
    let context = EventContext { speaker: number, ..context };
    if !prompts.is_empty() {
        prompts::check_countdowns(prompts, context, kind, event, findings);
    }
    let mut presumption = None;
    let room = match kind {
        Kind::StateChanged => {
            let change = states::change_state(speaker, calls, context, event, findings);
            if change.leaves_prompt {
                prompts::leave_prompts(prompts, context, change.to_call);
            }
            true
        }
        Kind::ToolInvoked => {
            let (room, passed) = tools::invoke_call(calls, prompts, speaker, context, event, findings);
            presumption = passed;
            room
        }
        Kind::ToolCompleted => {
            tools::complete_call(calls, prompts, speaker, context, event, findings);
            true
        }
        Kind::OutputStreaming => stream::add_chunk(outputs, speaker, context, event, findings),
        Kind::AwaitingConfirmation | Kind::AwaitingClarification => {
            prompts::open_prompt(prompts, speaker, context, kind, event, findings)
        }
        Kind::HandoffRequested => {
            states::request_handoff(speaker, event, findings);
            true
        }
        _ => true,
    };
    speaker.imply(kind);
    if kind.is_terminal() {
        let completed = kind == Kind::SessionCompleted;
        tools::check_end(calls, completed, event, findings);
        prompts::check_end(prompts, speakers, completed, event, context.moment, findings);
        stream::check_end(outputs, event, findings);
    } else if kind != Kind::ToolInvoked && !prompts.is_empty() {
        prompts::mark_followed(prompts, context);
    }
    (room, presumption)
}
