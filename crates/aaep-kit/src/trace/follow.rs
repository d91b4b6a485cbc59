//! Follows a file message by message: the checker finds broken rules, and [`Follower`] records what opened and closed.
//! It stores no entries; the caller takes what [`Follower::piece`] returns.

mod parts;

use std::collections::HashMap;

use super::aaep::field::Field;
use super::aaep::json::{Piece as Text, Reader};
use super::aaep::kind::Kind;
use super::aaep::lex::time::Moment;
use super::aaep::rule::{Finding, Profile};
use super::aaep::session::{Checker, InputKind, Options};
use super::aaep::{MessageKind, Reading};
use super::describe;
use super::model::{Entry, EntryKind, Producer, Session, StatePeriod, Totals};
use super::sentence::{Languages, SentenceBuilder, TextDirection, cut_to};
use crate::limits;

/// The result of following one text.
pub(super) struct FollowedText {
    /// Index of the session it belongs to.
    pub(super) session: Option<usize>,
    pub(super) entry: Entry,
    pub(super) findings: Vec<Finding>,
}

/// Follows all sessions of a file.
pub(super) struct Follower {
    checker: Checker,
    reader: Reader,
    sentence: SentenceBuilder,
    pub(super) languages: Languages,
    pub(super) totals: Totals,
    pub(super) sessions: Vec<Session>,
    index: HashMap<Box<str>, usize>,
    /// Indexes of removed sessions, for reuse.
    free: Vec<usize>,
    /// Prompts by token: session and event number.
    tokens: HashMap<Box<str>, (usize, u64)>,
    /// Whether states are kept for a drawing.
    draws: bool,
}

impl Follower {
    pub(super) fn new(profile: Profile, seed: u64, draws: bool) -> Self {
        Follower {
            checker: Checker::new(Options { profile, seed, ..Options::default() }),
            reader: Reader::new(),
            sentence: SentenceBuilder::default(),
            languages: Languages::default(),
            totals: Totals::default(),
            sessions: Vec::new(),
            index: HashMap::new(),
            free: Vec::new(),
            tokens: HashMap::new(),
            draws,
        }
    }

    /// Checks a text and describes it.
    pub(super) fn piece(&mut self, piece: Text<'_>) -> FollowedText {
        let text = piece.text.ok().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let mut reader = std::mem::take(&mut self.reader);
        let reading = text.and_then(|text| reader.read(text).ok()).and_then(Reading::of);
        let (session, entry) = match reading {
            Some(reading) => self.reading(piece.line, &reading),
            None => {
                self.checker.piece(piece);
                self.sentence.literal("This cannot be parsed.");
                (None, self.entry(piece.line, None, EntryKind::Unreadable))
            }
        };
        self.reader = reader;
        let findings = self.checker.take();
        self.count(entry.what);
        for finding in &findings {
            self.totals.count(finding.severity);
        }
        if let Some(session) = session.and_then(|at| self.sessions.get_mut(at)) {
            session.totals.texts += 1;
            findings.iter().for_each(|finding| session.totals.count(finding.severity));
        }
        FollowedText { session, entry, findings }
    }

    /// Checks a text without describing it.
    pub(super) fn check_only(&mut self, piece: Text<'_>) {
        let what = match self.checker.piece(piece) {
            InputKind::Event => EntryKind::OtherEvent,
            InputKind::Message(kind) => EntryKind::Message(kind),
            InputKind::Nothing => EntryKind::Unreadable,
        };
        self.count(what);
        self.totals.texts_left_out += 1;
        for finding in self.checker.take() {
            self.totals.count(finding.severity);
            self.totals.problems_left_out += 1;
        }
    }

    /// Ends the file: returns the findings on open sessions.
    pub(super) fn finish(&mut self) -> Vec<(Option<usize>, Finding)> {
        self.checker.finish();
        let findings = self.checker.take();
        let open = self.sessions.iter().enumerate().filter(|(_, session)| session.ending.is_none());
        let places: HashMap<(usize, &str), usize> =
            open.map(|(at, session)| ((session.last_line, &*session.last_event), at)).collect();
        // Late findings may concern any line of a session, even of an ended one.
        let mut lines: Option<HashMap<usize, usize>> = None;
        let mut left = Vec::new();
        for finding in findings {
            let event = finding.event_id.as_deref().unwrap_or_default();
            let at = places.get(&(finding.line, event)).copied().or_else(|| {
                let lines = lines.get_or_insert_with(|| self.lines());
                lines.get(&finding.line).copied()
            });
            left.push((at, finding));
        }
        for (at, finding) in &left {
            self.totals.count(finding.severity);
            if let Some(session) = at.and_then(|at| self.sessions.get_mut(at)) {
                session.totals.count(finding.severity);
            }
        }
        left
    }

    /// The session of each line.
    fn lines(&self) -> HashMap<usize, usize> {
        let all = self.sessions.iter().enumerate();
        all.flat_map(|(at, session)| session.entries.iter().map(move |entry| (entry.line, at))).collect()
    }

    fn count(&mut self, what: EntryKind) {
        let totals = &mut self.totals;
        totals.texts += 1;
        match what {
            EntryKind::Event(_) | EntryKind::OtherEvent => totals.events += 1,
            EntryKind::Message(_) => totals.messages += 1,
            EntryKind::Other | EntryKind::Unreadable => totals.unreadable += 1,
        }
    }

    fn entry(&mut self, line: usize, at_ms: Option<i64>, what: EntryKind) -> Entry {
        Entry { line, at_ms, what, sentence: self.sentence.done(), problems: (0, 0) }
    }

    fn reading(&mut self, line: usize, reading: &Reading<'_>) -> (Option<usize>, Entry) {
        match self.checker.reading(line, reading) {
            InputKind::Message(kind) => self.message(line, kind, reading),
            InputKind::Event => self.event(line, reading),
            InputKind::Nothing => {
                self.sentence.literal("This is neither an event nor a message of the protocol");
                if let Some(kind) = reading.text(Field::Type) {
                    self.sentence.literal("; its type is ").name(&kind);
                }
                self.sentence.literal(".");
                (None, self.entry(line, None, EntryKind::Other))
            }
        }
    }

    fn event(&mut self, line: usize, event: &Reading<'_>) -> (Option<usize>, Entry) {
        let language = self.language(event);
        let kind = event.kind();
        let what = kind.map_or(EntryKind::OtherEvent, EntryKind::Event);
        describe::front(event, kind.is_none(), &mut self.sentence);
        match kind {
            Some(kind) => describe::event(kind, event, language, &mut self.sentence),
            None => describe::other_event(event, language, &mut self.sentence),
        }
        let Some(id) = event.text(Field::SessionId) else {
            self.sentence.literal(" It has no session id.");
            return (None, self.entry(line, None, what));
        };
        let at = self.session_named(&id);
        let moment = moment(event);
        let view = self.checker.session(&id);
        let session = &mut self.sessions[at];
        let event_number = view.map(|view| view.last_event());
        let follows = match event_number {
            Some(event_number) => event_number > session.event_number,
            None => session.ending.is_none() && kind.is_some_and(Kind::is_terminal),
        };
        let at_ms = session.offset_ms(moment);
        if follows {
            session.event_number = event_number.unwrap_or(session.event_number);
            session.last_line = line;
            session.last_event.clear();
            session.last_event.push_str(&event.text(Field::EventId).unwrap_or_default());
            let producer_index = session.producer_of(event);
            if let Some(kind) = kind {
                if let Some(opened) = parts::opened(session, view, kind, line, event) {
                    parts::describe_opened(&session.parts[opened], &mut self.sentence);
                    if session.parts[opened].is_prompt() {
                        let part = &session.parts[opened];
                        self.tokens.insert(part.key.clone(), (at, part.event_number));
                    }
                }
                parts::settle(session, view, kind, event, &mut self.sentence);
                if self.draws {
                    session.record_state_change(producer_index, kind, event);
                }
                if kind.is_terminal() {
                    session.ending = Some(kind);
                }
            }
        } else if session.ending.is_some() {
            self.sentence.literal(" The session has already ended.");
        } else {
            self.sentence.literal(" It is a repetition and changes nothing.");
        }
        session.entry_count += 1;
        (Some(at), self.entry(line, at_ms, what))
    }

    fn message(&mut self, line: usize, kind: MessageKind, message: &Reading<'_>) -> (Option<usize>, Entry) {
        describe::message(kind, message, &mut self.sentence);
        let what = EntryKind::Message(kind);
        if !matches!(kind, MessageKind::ConfirmationReply | MessageKind::ClarificationReply) {
            return (None, self.entry(line, None, what));
        }
        let token = message.text(Field::ReplyToken);
        let Some(&(at, event_number)) = token.and_then(|token| self.tokens.get(&*token)) else {
            self.sentence.literal(" It answers an unknown prompt.");
            return (None, self.entry(line, None, what));
        };
        let session = &mut self.sessions[at];
        let status = self.checker.session(&session.id).and_then(|view| view.prompt(event_number));
        parts::answered(session, event_number, status, &mut self.sentence);
        let at_ms = session.reply_offset_ms(moment(message));
        session.entry_count += 1;
        (Some(at), self.entry(line, at_ms, what))
    }

    fn language(&mut self, event: &Reading<'_>) -> u8 {
        let hints = event.get(Field::LocalizationHints);
        let own = event.text(Field::Language);
        let stated = hints.and_then(|hints| hints.get("primary_language")?.str());
        let direction = match hints.and_then(|hints| hints.get("text_direction")?.str()).as_deref() {
            Some("ltr") => TextDirection::Left,
            Some("rtl") => TextDirection::Right,
            _ => TextDirection::Auto,
        };
        self.languages.number(own.as_deref().or(stated.as_deref()), direction)
    }

    fn session_named(&mut self, id: &str) -> usize {
        if let Some(at) = self.index.get(id) {
            return *at;
        }
        let session = Session { id: id.into(), ..Session::default() };
        self.totals.sessions += 1;
        let at = match self.free.pop() {
            Some(at) => {
                self.sessions[at] = session;
                at
            }
            None => {
                self.sessions.push(session);
                self.sessions.len() - 1
            }
        };
        self.index.insert(id.into(), at);
        at
    }

    /// Removes an ended session, and closed parts of a long one. Not for callers that collect a whole trace.
    pub(super) fn drop_session(&mut self, at: usize) {
        let Follower { checker, sessions, index, tokens, free, .. } = self;
        let session = &mut sessions[at];
        if checker.session(&session.id).is_none() {
            session
                .parts
                .iter()
                .filter(|part| part.is_prompt())
                .for_each(|part| _ = tokens.remove(&part.key));
            index.remove(&session.id);
            *session = Session::default();
            free.push(at);
        } else if session.parts.len() > limits::TRACE_LIVE_PARTS_MAX {
            parts::forget_closed(session, |part| _ = tokens.remove(&part.key));
        }
        if index.len() > super::aaep::limits::SESSIONS_OPEN_MAX {
            // The checker has dropped some sessions itself.
            index.retain(|id, at| {
                let followed = checker.session(id).is_some();
                if !followed {
                    sessions[*at] = Session::default();
                    free.push(*at);
                }
                followed
            });
        }
    }
}

fn moment(reading: &Reading<'_>) -> Option<i64> {
    reading.text(Field::Timestamp).and_then(|text| Moment::parse(&text)).map(|moment| moment.micros)
}

impl Session {
    /// Milliseconds since the start of the session.
    fn offset_ms(&mut self, moment: Option<i64>) -> Option<i64> {
        let moment = moment?;
        let began = *self.began.get_or_insert(moment);
        self.last = Some(self.last.map_or(moment, |last| last.max(moment)));
        Some((moment - began) / 1_000)
    }

    /// The same for the sender of a reply, whose clock does not extend the session.
    fn reply_offset_ms(&self, moment: Option<i64>) -> Option<i64> {
        Some((moment? - self.began?) / 1_000)
    }

    fn producer_of(&mut self, event: &Reading<'_>) -> Option<usize> {
        let agent = event.agent()?;
        let agent = cut_to(&agent, limits::TRACE_NAME_CHARS_MAX).0;
        if let Some(at) = self.producers.iter().position(|producer| *producer.id == *agent) {
            return Some(at);
        }
        if self.producers.len() >= super::aaep::limits::SESSION_PARTS_MAX {
            return None;
        }
        self.producers.push(Producer { id: agent.into(), state_period: None });
        Some(self.producers.len() - 1)
    }

    /// Records a change of state.
    fn record_state_change(&mut self, producer_index: Option<usize>, kind: Kind, event: &Reading<'_>) {
        let now = self.entry_count;
        if kind.is_terminal() {
            for producer in &mut self.producers {
                if let Some(state_period) = producer.state_period.take() {
                    self.states[state_period].to = Some(now);
                }
            }
        }
        let Some(producer_index) = producer_index.filter(|_| kind == Kind::StateChanged) else { return };
        if let Some(state_period) = self.producers[producer_index].state_period.take() {
            self.states[state_period].to = Some(now);
        }
        let state = event.text(Field::ToState).unwrap_or_default();
        let state = cut_to(&state, limits::TRACE_NAME_CHARS_MAX).0.into();
        self.producers[producer_index].state_period = Some(self.states.len());
        self.states.push(StatePeriod { producer: producer_index, state, from: now, to: None });
    }
}
