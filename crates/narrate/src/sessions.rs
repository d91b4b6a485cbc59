//! The sessions of a narrator, with their state: [`NarratedSessions`]. Pure.

use std::collections::VecDeque;

use recount_aaep::wire::SessionId;

use super::held_text::{HeldText, ReadyText};
use super::utterance::SpeechSubject;
use crate::limits;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    Completed,
    Errored,
    Cancelled,
}

/// One session.
#[derive(Debug)]
pub(super) struct NarratedSession {
    /// The number of the session, in order of its first event, from 1.
    pub(super) number: u32,
    pub(super) id: SessionId,
    /// The last sentence about its activity.
    pub(super) doing: String,
    pub(super) language: String,
    pub(super) held: HeldText,
    /// The last output, if it is spoken when the run ends.
    pub(super) answer: HeldAnswer,
    /// What the last prompt was, for the sentence with its outcome.
    pub(super) prompted: SpeechSubject,
    /// It left `awaiting_input` with several open prompts: the next event shows whether some are still open.
    pub(super) has_left_prompts: bool,
    pub(super) end: Option<SessionEnd>,
}

/// An output that is held until its run ends.
#[derive(Debug, Default)]
pub(super) struct HeldAnswer {
    pub(super) parts: Vec<ReadyText>,
    bytes: usize,
    /// Whether the rest was not kept.
    pub(super) is_cut: bool,
}

impl HeldAnswer {
    pub(super) fn push(&mut self, ready: ReadyText) {
        let bytes = ready.0.byte_len();
        self.is_cut |= self.bytes + bytes > limits::HELD_ANSWER_BYTES_MAX;
        if !self.is_cut {
            self.bytes += bytes;
            self.parts.push(ready);
        }
    }
}

/// The sessions, limited: the oldest ended session is removed first, otherwise the oldest.
#[derive(Debug, Default)]
pub(super) struct NarratedSessions {
    sessions: VecDeque<NarratedSession>,
    count: u32,
}

impl NarratedSessions {
    /// The number of a session; a new one is added.
    pub(super) fn number(&mut self, id: &SessionId) -> u32 {
        if let Some(known) = self.sessions.iter().find(|session| session.id == *id) {
            return known.number;
        }
        if self.sessions.len() >= limits::NARRATED_SESSIONS_MAX {
            let ended = self.sessions.iter().position(|session| session.end.is_some());
            self.sessions.remove(ended.unwrap_or(0));
        }
        self.count += 1;
        self.sessions.push_back(NarratedSession {
            number: self.count,
            id: id.clone(),
            doing: String::new(),
            language: "en".to_owned(),
            held: HeldText::default(),
            answer: HeldAnswer::default(),
            prompted: SpeechSubject::Run,
            has_left_prompts: false,
            end: None,
        });
        self.count
    }

    pub(super) fn get(&self, number: u32) -> Option<&NarratedSession> {
        self.sessions.iter().find(|session| session.number == number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut NarratedSession> {
        self.sessions.iter_mut().find(|session| session.number == number)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &NarratedSession> {
        self.sessions.iter()
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut NarratedSession> {
        self.sessions.iter_mut()
    }

    /// The active sessions, oldest first.
    pub(super) fn active(&self) -> impl DoubleEndedIterator<Item = &NarratedSession> {
        self.sessions.iter().filter(|session| session.end.is_none())
    }

    pub(super) fn last(&self) -> Option<&NarratedSession> {
        self.sessions.back()
    }
}
