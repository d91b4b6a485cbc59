//! Follows a file message by message: the checker finds broken rules, and [`Follower`] notes what opened and closed.
//! It keeps no account; the caller takes what [`Follower::piece`] returns.

mod parts;

use std::collections::HashMap;

use super::aaep::field::Field;
use super::aaep::json::{Piece as Text, Reader};
use super::aaep::kind::Kind;
use super::aaep::lex::time::Moment;
use super::aaep::rule::{Finding, Profile};
use super::aaep::session::{Checker, Options, Took};
use super::aaep::{MessageKind, Reading};
use super::describe;
use super::model::{Entry, Producer, Session, Stay, Totals, What};
use super::sentence::{SentenceBuilder, TextDirection, Tongues, cut_to};
use crate::limits;

/// What became of one text.
pub(super) struct Followed {
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
    pub(super) tongues: Tongues,
    pub(super) totals: Totals,
    pub(super) sessions: Vec<Session>,
    index: HashMap<Box<str>, usize>,
    /// Sessions that were forgotten, to be used again.
    free: Vec<usize>,
    /// Prompts by their tokens: session, and the number of the event.
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
            tongues: Tongues::default(),
            totals: Totals::default(),
            sessions: Vec::new(),
            index: HashMap::new(),
            free: Vec::new(),
            tokens: HashMap::new(),
            draws,
        }
    }

    /// Follows a text and tells it.
    pub(super) fn piece(&mut self, piece: Text<'_>) -> Followed {
        let text = piece.text.ok().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let mut reader = std::mem::take(&mut self.reader);
        let reading = text.and_then(|text| reader.read(text).ok()).and_then(Reading::of);
        let (session, entry) = match reading {
            Some(reading) => self.reading(piece.line, &reading),
            None => {
                self.checker.piece(piece);
                self.sentence.words("This cannot be parsed.");
                (None, self.entry(piece.line, None, What::Unreadable))
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
        Followed { session, entry, findings }
    }

    /// Checks a text that is not told any more.
    pub(super) fn pass_over(&mut self, piece: Text<'_>) {
        let what = match self.checker.piece(piece) {
            Took::Event => What::OtherEvent,
            Took::Message(kind) => What::Message(kind),
            Took::Nothing => What::Unreadable,
        };
        self.count(what);
        self.totals.texts_left_out += 1;
        for finding in self.checker.take() {
            self.totals.count(finding.severity);
            self.totals.problems_left_out += 1;
        }
    }

    /// No more texts come: what is found of sessions that are open.
    pub(super) fn finish(&mut self) -> Vec<(Option<usize>, Finding)> {
        self.checker.finish();
        let findings = self.checker.take();
        let open = self.sessions.iter().enumerate().filter(|(_, session)| session.ending.is_none());
        let places: HashMap<(usize, &str), usize> =
            open.map(|(at, session)| ((session.last_line, &*session.last_event), at)).collect();
        // What is judged late may be about any line of a session, of one that has ended, too.
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

    /// Which session each line belongs to.
    fn lines(&self) -> HashMap<usize, usize> {
        let all = self.sessions.iter().enumerate();
        all.flat_map(|(at, session)| session.entries.iter().map(move |entry| (entry.line, at))).collect()
    }

    fn count(&mut self, what: What) {
        let totals = &mut self.totals;
        totals.texts += 1;
        match what {
            What::Event(_) | What::OtherEvent => totals.events += 1,
            What::Message(_) => totals.messages += 1,
            What::Stranger | What::Unreadable => totals.unreadable += 1,
        }
    }

    fn entry(&mut self, line: usize, at_ms: Option<i64>, what: What) -> Entry {
        Entry { line, at_ms, what, sentence: self.sentence.done(), problems: (0, 0) }
    }

    fn reading(&mut self, line: usize, reading: &Reading<'_>) -> (Option<usize>, Entry) {
        match self.checker.reading(line, reading) {
            Took::Message(kind) => self.message(line, kind, reading),
            Took::Event => self.event(line, reading),
            Took::Nothing => {
                self.sentence.words("This is neither an event nor a message of the protocol");
                if let Some(kind) = reading.text(Field::Type) {
                    self.sentence.words("; its type is ").name(&kind);
                }
                self.sentence.words(".");
                (None, self.entry(line, None, What::Stranger))
            }
        }
    }

    fn event(&mut self, line: usize, event: &Reading<'_>) -> (Option<usize>, Entry) {
        let tongue = self.tongue(event);
        let kind = event.kind();
        let what = kind.map_or(What::OtherEvent, What::Event);
        describe::front(event, kind.is_none(), &mut self.sentence);
        match kind {
            Some(kind) => describe::event(kind, event, tongue, &mut self.sentence),
            None => describe::other_event(event, tongue, &mut self.sentence),
        }
        let Some(id) = event.text(Field::SessionId) else {
            self.sentence.words(" It has no session id.");
            return (None, self.entry(line, None, what));
        };
        let at = self.session_named(&id);
        let moment = moment(event);
        let view = self.checker.session(&id);
        let session = &mut self.sessions[at];
        let heard = view.map(|view| view.heard());
        let follows = match heard {
            Some(heard) => heard > session.heard,
            None => session.ending.is_none() && kind.is_some_and(Kind::is_terminal),
        };
        let at_ms = session.place(moment);
        if follows {
            session.heard = heard.unwrap_or(session.heard);
            session.last_line = line;
            session.last_event.clear();
            session.last_event.push_str(&event.text(Field::EventId).unwrap_or_default());
            let speaker = session.speaker(event);
            if let Some(kind) = kind {
                if let Some(opened) = parts::opened(session, view, kind, line, event) {
                    parts::describe_opened(&session.parts[opened], &mut self.sentence);
                    if session.parts[opened].is_prompt() {
                        let part = &session.parts[opened];
                        self.tokens.insert(part.key.clone(), (at, part.heard));
                    }
                }
                parts::settle(session, view, kind, event, &mut self.sentence);
                if self.draws {
                    session.moved(speaker, kind, event);
                }
                if kind.is_terminal() {
                    session.ending = Some(kind);
                }
            }
        } else if session.ending.is_some() {
            self.sentence.words(" The session has already ended.");
        } else {
            self.sentence.words(" It is a repetition and changes nothing.");
        }
        session.entry_count += 1;
        (Some(at), self.entry(line, at_ms, what))
    }

    fn message(&mut self, line: usize, kind: MessageKind, message: &Reading<'_>) -> (Option<usize>, Entry) {
        describe::message(kind, message, &mut self.sentence);
        let what = What::Message(kind);
        if !matches!(kind, MessageKind::ConfirmationReply | MessageKind::ClarificationReply) {
            return (None, self.entry(line, None, what));
        }
        let token = message.text(Field::ReplyToken);
        let Some(&(at, heard)) = token.and_then(|token| self.tokens.get(&*token)) else {
            self.sentence.words(" It answers an unknown prompt.");
            return (None, self.entry(line, None, what));
        };
        let session = &mut self.sessions[at];
        let standing = self.checker.session(&session.id).and_then(|view| view.prompt(heard));
        parts::answered(session, heard, standing, &mut self.sentence);
        let at_ms = session.place_reply(moment(message));
        session.entry_count += 1;
        (Some(at), self.entry(line, at_ms, what))
    }

    fn tongue(&mut self, event: &Reading<'_>) -> u8 {
        let hints = event.get(Field::LocalizationHints);
        let own = event.text(Field::Language);
        let stated = hints.and_then(|hints| hints.get("primary_language")?.str());
        let direction = match hints.and_then(|hints| hints.get("text_direction")?.str()).as_deref() {
            Some("ltr") => TextDirection::Left,
            Some("rtl") => TextDirection::Right,
            _ => TextDirection::Auto,
        };
        self.tongues.number(own.as_deref().or(stated.as_deref()), direction)
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

    /// Forgets a session when it is not followed any more, and what is closed of one that is long. Not for who
    /// collects an account.
    pub(super) fn let_go(&mut self, at: usize) {
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
            // The checker has forgotten some of its own accord.
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
    /// Milliseconds since the beginning.
    fn place(&mut self, moment: Option<i64>) -> Option<i64> {
        let moment = moment?;
        let began = *self.began.get_or_insert(moment);
        self.last = Some(self.last.map_or(moment, |last| last.max(moment)));
        Some((moment - began) / 1_000)
    }

    /// The same for who answers, whose clock says nothing about the session.
    fn place_reply(&self, moment: Option<i64>) -> Option<i64> {
        Some((moment? - self.began?) / 1_000)
    }

    fn speaker(&mut self, event: &Reading<'_>) -> Option<usize> {
        let agent = event.agent()?;
        let agent = cut_to(&agent, limits::TRACE_NAME_CHARS_MAX).0;
        if let Some(at) = self.producers.iter().position(|producer| *producer.id == *agent) {
            return Some(at);
        }
        if self.producers.len() >= super::aaep::limits::SESSION_PARTS_MAX {
            return None;
        }
        self.producers.push(Producer { id: agent.into(), stay: None });
        Some(self.producers.len() - 1)
    }

    /// Notes a change of state.
    fn moved(&mut self, speaker: Option<usize>, kind: Kind, event: &Reading<'_>) {
        let now = self.entry_count;
        if kind.is_terminal() {
            for producer in &mut self.producers {
                if let Some(stay) = producer.stay.take() {
                    self.states[stay].to = Some(now);
                }
            }
        }
        let Some(speaker) = speaker.filter(|_| kind == Kind::StateChanged) else { return };
        if let Some(stay) = self.producers[speaker].stay.take() {
            self.states[stay].to = Some(now);
        }
        let state = event.text(Field::ToState).unwrap_or_default();
        let state = cut_to(&state, limits::TRACE_NAME_CHARS_MAX).0.into();
        self.producers[speaker].stay = Some(self.states.len());
        self.states.push(Stay { producer: speaker, state, from: now, to: None });
    }
}
