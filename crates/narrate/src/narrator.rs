//! Converts AAEP events to speech, and key presses to replies: [`Narrator`]. Pure: the caller passes the time and
//! executes each [`NarratorEffect`]. Must not depend on connections or speech engines. Start with [`Narrator::hear`].

use std::collections::{HashSet, VecDeque};

use recount_aaep::wire::{EventId, ReplyToken, SessionId, StateChanged, SubscriptionId};
use recount_aaep::{Body, Event, Message};

use super::dialog::Dialog;
use super::level::SpeechLevel;
use super::open_prompt::{AddOutcome, OpenPrompt, OpenPrompts, PromptKind};
use super::outgoing::Outgoing;
use super::phrases::{PhraseArg, PhraseKey, Phrases};
use super::sessions::{NarratedSession, NarratedSessions, SessionEnd};
use super::utterance::{SpeechPriority, Utterance};
use super::wording;
use crate::limits;

/// What the caller does for the narrator.
#[derive(Debug, Clone, PartialEq)]
pub enum NarratorEffect {
    Speak(Utterance),
    /// Stop the current utterance and discard waiting text.
    Silence,
    /// Stop the current utterance: the reply to a key follows.
    Cut,
    /// Show the typed text.
    Echo(String),
    /// Send to the producer. If that fails, call [`Narrator::not_sent`].
    Send(Outgoing),
    Ended {
        session: SessionId,
        end: SessionEnd,
    },
    Quit,
}

/// Follows any number of sessions.
#[derive(Debug)]
pub struct Narrator {
    pub(super) level: SpeechLevel,
    pub(super) phrases: &'static Phrases,
    /// Whether sessions are named by their number where the speaker changes.
    pub(super) names_sessions: bool,
    pub(super) subscription: Option<SubscriptionId>,
    pub(super) sessions: NarratedSessions,
    pub(super) prompts: OpenPrompts,
    pub(super) dialog: Dialog,
    /// Digits that were pressed before a command.
    pub(super) digits: String,
    pub(super) history: VecDeque<Utterance>,
    /// The session of the last utterance.
    pub(super) last_session: u32,
    pub(super) effects: Vec<NarratorEffect>,
    seen: SeenIds,
}

impl Narrator {
    /// With `names_sessions`, utterances name their session when it changes. `phrases` are the narrator's own texts.
    pub fn new(level: SpeechLevel, names_sessions: bool, phrases: &'static Phrases) -> Self {
        Narrator {
            level,
            phrases,
            names_sessions,
            subscription: None,
            sessions: NarratedSessions::default(),
            prompts: OpenPrompts::default(),
            dialog: Dialog::default(),
            digits: String::new(),
            history: VecDeque::new(),
            last_session: 0,
            effects: Vec::new(),
            seen: SeenIds::default(),
        }
    }

    pub fn level(&self) -> SpeechLevel {
        self.level
    }

    /// The subscription that replies name; `None` while there is none.
    pub fn subscribed(&mut self, subscription: Option<SubscriptionId>) {
        self.subscription = subscription;
    }

    pub fn is_subscribed(&self) -> bool {
        self.subscription.is_some()
    }

    /// Speaks a phrase of the narrator, such as that the connection is lost.
    pub fn announce(&mut self, priority: SpeechPriority, what: PhraseKey) -> Vec<NarratorEffect> {
        self.speak_phrase(priority, &self.phrases.plain(what));
        std::mem::take(&mut self.effects)
    }

    /// Reopens the prompt of a reply that could not be sent.
    pub fn not_sent(&mut self, outgoing: &Outgoing, why: &str) -> Vec<NarratorEffect> {
        let text = self.phrases.render(PhraseKey::NotSent, &[("why", why.into())]);
        if let Outgoing::Message(message) = outgoing {
            match &**message {
                Message::ConfirmationReply(reply) => self.prompts.reopen(&reply.reply_token),
                Message::ClarificationReply(reply) => self.prompts.reopen(&reply.reply_token),
                _ => {}
            }
        }
        self.speak_phrase(SpeechPriority::Important, &text);
        std::mem::take(&mut self.effects)
    }

    /// [`Narrator::not_sent`] because too many messages wait for the connection.
    pub fn too_much_waits(&mut self, outgoing: &Outgoing) -> Vec<NarratorEffect> {
        self.not_sent(outgoing, &self.phrases.plain(PhraseKey::TooMuchWaits))
    }

    /// Takes an event of the producer. Repeated events and events of other protocols are ignored.
    pub fn hear(&mut self, event: &Event, now_ms: u64) -> Vec<NarratorEffect> {
        if event.envelope.context.is_core() && self.seen.is_new(&event.envelope.event_id) {
            let session = self.sessions.number(&event.envelope.session_id);
            if let Body::OutputStreaming(piece) = &event.body {
                let own = language(event);
                let ready = self.sessions.get_mut(session).map(|known| known.held.take(piece, now_ms));
                for (text, language) in ready.unwrap_or_default() {
                    self.speak_text(session, &text, language.unwrap_or_else(|| own.clone()));
                }
            } else {
                self.hear_other(event, session, now_ms);
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// When to call [`Narrator::quiet`], if no event arrives before.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.sessions.all().filter_map(|session| session.held.due_ms()).min()
    }

    /// Speaks held text that has no boundary and was not continued in time.
    pub fn quiet(&mut self, now_ms: u64) -> Vec<NarratorEffect> {
        let due = |session: &&mut NarratedSession| session.held.due_ms().is_some_and(|due| due <= now_ms);
        let mut ready = Vec::new();
        for session in self.sessions.all_mut().filter(due) {
            let number = session.number;
            let language = session.language.clone();
            ready.extend(session.held.flush().map(|(text, own)| (number, text, own.unwrap_or(language))));
        }
        for (number, text, language) in ready {
            self.speak_text(number, &text, language);
        }
        std::mem::take(&mut self.effects)
    }

    fn hear_other(&mut self, event: &Event, session: u32, now_ms: u64) {
        let language = language(event);
        self.settle(event, session, now_ms);
        let spoken = wording::of_event(event, self.level, self.phrases);
        if spoken.as_ref().is_some_and(|(priority, _)| *priority != SpeechPriority::Progress)
            && let Some((text, own)) = self.sessions.get_mut(session).and_then(|known| known.held.flush())
        {
            self.speak_text(session, &text, own.unwrap_or_else(|| language.clone()));
        }
        self.note_activity(event, session, &language);
        match Self::prompt_of(event, session, &language, spoken.as_ref()) {
            Some(prompt) => self.add_prompt(prompt, now_ms),
            None => {
                if let Some((priority, text)) = spoken {
                    self.speak(session, priority, text, language);
                }
            }
        }
        if let Some(end) = end_of(&event.body) {
            if let Some(known) = self.sessions.get_mut(session) {
                known.end = Some(end);
            }
            self.effects.push(NarratorEffect::Ended { session: event.envelope.session_id.clone(), end });
        }
        self.end_dialog_of_closed_prompt();
        if let Some(next) = self.prompts.advance(now_ms).cloned() {
            self.read(&next, now_ms);
        }
    }

    /// Removes the prompts that this event settles.
    fn settle(&mut self, event: &Event, session: u32, now_ms: u64) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let leaves = matches!(&event.body, Body::StateChanged(StateChanged { from_state, to_state, .. })
            if from_state == AWAITING && to_state != AWAITING);
        let still_awaits = matches!(&event.body, Body::StateChanged(StateChanged { to_state, .. })
            if to_state == AWAITING);
        if std::mem::take(&mut known.has_left_prompts) && !still_awaits {
            self.prompts.settle(session, now_ms, true);
        }
        if event.kind().is_some_and(recount_aaep::Kind::is_terminal) {
            self.prompts.settle(session, now_ms, true);
        } else if leaves {
            self.prompts.settle(session, now_ms, false);
            known.has_left_prompts = self.prompts.of_session(session) > 0;
        }
    }

    fn note_activity(&mut self, event: &Event, session: u32, language: &str) {
        let of_interest = matches!(
            event.body,
            Body::SessionStarted(_) | Body::StateChanged(_) | Body::ToolInvoked(_) | Body::ProgressUpdated(_)
        );
        if let (true, Some(known)) = (of_interest, self.sessions.get_mut(session))
            && let Some((_, text)) = wording::of_event(event, SpeechLevel::Normal, self.phrases)
        {
            known.doing = text;
            known.language = language.to_owned();
        }
    }

    fn prompt_of(
        event: &Event,
        session: u32,
        language: &str,
        spoken: Option<&(SpeechPriority, String)>,
    ) -> Option<OpenPrompt> {
        let (token, timeout_seconds, kind) = match &event.body {
            Body::AwaitingConfirmation(prompt) => {
                (&prompt.reply_token, prompt.timeout_seconds, PromptKind::of_confirmation(prompt))
            }
            Body::AwaitingClarification(prompt) => {
                (&prompt.reply_token, prompt.timeout_seconds, PromptKind::of_clarification(prompt))
            }
            _ => return None,
        };
        let opened_ms = u64::try_from(event.envelope.timestamp.millis()).unwrap_or_default();
        Some(OpenPrompt {
            token: token.clone(),
            session,
            text: spoken.map(|(_, text)| text.clone()).unwrap_or_default(),
            language: language.to_owned(),
            deadline_ms: opened_ms.saturating_add(u64::from(timeout_seconds) * 1_000),
            kind,
            is_answered: false,
        })
    }

    fn add_prompt(&mut self, prompt: OpenPrompt, now_ms: u64) {
        let session = prompt.session;
        match self.prompts.add(prompt) {
            AddOutcome::Known => {}
            AddOutcome::Current => {
                if let Some(prompt) = self.prompts.current().cloned() {
                    self.read(&prompt, now_ms);
                }
            }
            // The current prompt keeps the keys, so this one is only announced.
            AddOutcome::Waits => {
                let text = match self.names_sessions {
                    true => {
                        self.phrases.render(PhraseKey::AnotherPromptOf, &[("run", u64::from(session).into())])
                    }
                    false => self.phrases.plain(PhraseKey::AnotherPrompt),
                };
                self.speak_phrase(SpeechPriority::Important, &text);
            }
        }
    }

    /// Speaks a prompt, and then the keys that answer it.
    pub(super) fn read(&mut self, prompt: &OpenPrompt, now_ms: u64) {
        self.speak(prompt.session, SpeechPriority::Important, prompt.text.clone(), prompt.language.clone());
        let mut keys =
            format!("{} {}", prompt.kind.keys(self.phrases), prompt.time_left(now_ms, self.phrases));
        let others = self.prompts.open().count().saturating_sub(1);
        if others > 0 {
            let others = PhraseArg::from(others as u64);
            keys = format!("{keys} {}", self.phrases.render(PhraseKey::MorePrompts, &[("count", others)]));
        }
        self.speak_phrase(SpeechPriority::Message, &keys);
    }

    fn speak_text(&mut self, session: u32, text: &str, language: String) {
        let text = wording::line(text);
        if self.level != SpeechLevel::Brief && !text.is_empty() {
            self.speak(session, SpeechPriority::Text, text, language);
        }
    }

    /// Speaks a text of a session and adds it to the history.
    fn speak(&mut self, session: u32, priority: SpeechPriority, text: String, language: String) {
        let text = if self.names_sessions && self.last_session != session {
            self.with_run_number(session, &text)
        } else {
            text
        };
        self.last_session = session;
        let utterance = Utterance { priority, text, language, session };
        if self.history.len() >= limits::NARRATED_HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(utterance.clone());
        self.effects.push(NarratorEffect::Speak(utterance));
    }

    /// A text with the number of its run.
    pub(super) fn with_run_number(&self, session: u32, text: &str) -> String {
        self.phrases.render(PhraseKey::RunText, &[("run", u64::from(session).into()), ("text", text.into())])
    }

    pub(super) fn speak_phrase(&mut self, priority: SpeechPriority, text: &str) {
        self.effects.push(NarratorEffect::Speak(Utterance::own(priority, text, self.phrases.tag())));
    }

    /// Replies to a key at once with a phrase.
    pub(super) fn reply(&mut self, key: PhraseKey) {
        self.speak_reply(&self.phrases.plain(key));
    }

    /// Replies to a key at once with a text.
    pub(super) fn speak_reply(&mut self, text: &str) {
        self.effects.push(NarratorEffect::Cut);
        self.speak_phrase(SpeechPriority::Message, text);
    }

    /// Ends the dialog of a prompt that is settled.
    fn end_dialog_of_closed_prompt(&mut self) {
        let (Dialog::Confirming(token) | Dialog::Typing { token, .. }) = &self.dialog else { return };
        if self.open_prompt(token).is_none() {
            self.dialog = Dialog::Commands;
            self.speak_phrase(SpeechPriority::Message, &self.phrases.plain(PhraseKey::PromptClosed));
        }
    }

    /// The open prompt with this token.
    pub(super) fn open_prompt(&self, token: &ReplyToken) -> Option<OpenPrompt> {
        self.prompts.open().find(|prompt| prompt.token == *token).cloned()
    }
}

/// The state in which a prompt is open.
const AWAITING: &str = "awaiting_input";

fn end_of(body: &Body) -> Option<SessionEnd> {
    match body {
        Body::SessionCompleted(_) => Some(SessionEnd::Completed),
        Body::SessionErrored(_) => Some(SessionEnd::Errored),
        Body::SessionCancelled(_) => Some(SessionEnd::Cancelled),
        _ => None,
    }
}

fn language(event: &Event) -> String {
    let hints = event.envelope.localization_hints.as_ref();
    let primary = hints.and_then(|hints| hints.primary_language.as_deref());
    primary.unwrap_or("en").to_owned()
}

/// Ids of the last events, so that none is spoken twice.
#[derive(Debug, Default)]
struct SeenIds {
    known: HashSet<EventId>,
    order: VecDeque<EventId>,
}

impl SeenIds {
    fn is_new(&mut self, id: &EventId) -> bool {
        if !self.known.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id.clone());
        if self.order.len() > limits::NARRATED_IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
