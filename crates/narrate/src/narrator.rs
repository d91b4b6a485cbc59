//! Converts AAEP events to speech, and key presses to replies: [`Narrator`]. Pure: the caller passes the time and
//! executes each [`NarratorEffect`]. Must not depend on connections or speech engines. Start with [`Narrator::hear`].

use std::collections::{HashSet, VecDeque};

use recount_aaep::markdown::MarkdownPart;
use recount_aaep::wire::{EventId, ReplyToken, SessionId, StateChanged, SubscriptionId};
use recount_aaep::{Body, Event, Message};

use super::dialog::Dialog;
use super::level::SpeechLevel;
use super::open_prompt::{AddOutcome, OpenPrompt, OpenPrompts, PromptKind};
use super::outgoing::Outgoing;
use super::phrases::{PhraseArg, PhraseKey, Phrases};
use super::sessions::{HeldAnswer, NarratedSession, NarratedSessions, SessionEnd};
use super::utterance::{SpeechPriority, SpeechSubject, Utterance};
use super::wording::{self, AWAITING};
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
    Signal(NarratorSignal),
    Quit,
}

/// A sound besides speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NarratorSignal {
    /// A prompt or a handoff needs a person.
    NeedsYou,
    Finished,
    /// A session failed or was cancelled.
    Failed,
}

/// Settings of a narrator.
#[derive(Debug, Clone, Copy, Default)]
pub struct NarratorOptions {
    /// The session has ended already: its prompts are facts, and nothing interrupts.
    pub is_history: bool,
    /// Output is spoken when its session ends: the last output, whole.
    pub is_at_end: bool,
    /// Whether to return [`NarratorEffect::Signal`].
    pub has_signals: bool,
}

/// Follows any number of sessions.
#[derive(Debug)]
pub struct Narrator {
    pub(super) level: SpeechLevel,
    pub(super) phrases: &'static Phrases,
    options: NarratorOptions,
    /// Whether sessions are named by their number where the speaker changes.
    pub(super) names_sessions: bool,
    pub(super) subscription: Option<SubscriptionId>,
    /// The subscription that the tokens of the prompts are of.
    prompts_of: Option<SubscriptionId>,
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
            options: NarratorOptions::default(),
            names_sessions,
            subscription: None,
            prompts_of: None,
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

    pub fn with_options(self, options: NarratorOptions) -> Self {
        Narrator { options, ..self }
    }

    pub fn level(&self) -> SpeechLevel {
        self.level
    }

    /// The subscription that replies name; `None` while there is none. A new one replaces the tokens of the former: open
    /// prompts are emitted again.
    pub fn subscribed(&mut self, subscription: Option<SubscriptionId>) {
        if subscription.is_some() && subscription != self.prompts_of {
            self.prompts = OpenPrompts::default();
            self.end_dialog_of_closed_prompt();
            self.prompts_of.clone_from(&subscription);
        }
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
                let mut begins = false;
                let ready =
                    self.sessions.get_mut(session).map(|known| known.held.take(piece, now_ms, &mut begins));
                if let (true, Some(known)) = (begins, self.sessions.get_mut(session)) {
                    known.answer = HeldAnswer::default();
                }
                for (part, language) in ready.unwrap_or_default() {
                    self.speak_text(session, part, language.unwrap_or_else(|| own.clone()));
                }
            } else {
                self.hear_other(event, session, now_ms);
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// When to call [`Narrator::quiet`], if no event arrives before.
    pub fn next_due_ms(&self) -> Option<u64> {
        let held = self.sessions.all().filter_map(|session| session.held.due_ms()).min();
        let no_effect = self.subscription.as_ref().and_then(|_| self.prompts.next_no_effect_ms());
        held.into_iter().chain(no_effect).min()
    }

    /// Speaks held text that has no boundary and was not continued in time, and reopens prompts whose reply had no
    /// effect in time.
    pub fn quiet(&mut self, now_ms: u64) -> Vec<NarratorEffect> {
        let due = |session: &&mut NarratedSession| session.held.due_ms().is_some_and(|due| due <= now_ms);
        let mut ready = Vec::new();
        for session in self.sessions.all_mut().filter(due) {
            let number = session.number;
            let language = session.language.clone();
            let held = session.held.flush().into_iter();
            ready.extend(held.map(|(part, own)| (number, part, own.unwrap_or_else(|| language.clone()))));
        }
        for (number, part, language) in ready {
            self.speak_text(number, part, language);
        }
        if self.subscription.is_some() && self.prompts.reopen_without_effect(now_ms) {
            self.speak_phrase(SpeechPriority::Important, &self.phrases.plain(PhraseKey::ReplyWithoutEffect));
        }
        std::mem::take(&mut self.effects)
    }

    fn hear_other(&mut self, event: &Event, session: u32, now_ms: u64) {
        let language = language(event);
        self.settle(event, session, now_ms);
        let mut spoken = wording::of_event(event, self.level, self.phrases);
        if self.options.is_history {
            let past = wording::past_prompt(event, self.phrases);
            spoken =
                spoken.map(|(priority, text)| (priority.min(SpeechPriority::Text), past.unwrap_or(text)));
        }
        if spoken.as_ref().is_some_and(|(priority, _)| *priority != SpeechPriority::Progress) {
            let held = self.sessions.get_mut(session).map(|known| known.held.flush()).unwrap_or_default();
            for (part, own) in held {
                self.speak_text(session, part, own.unwrap_or_else(|| language.clone()));
            }
        }
        self.note_activity(event, session, &language);
        let end = end_of(&event.body);
        if end.is_some() {
            self.speak_answer(session, &language);
        }
        let prompt = Self::prompt_of(event, session, &language, spoken.as_ref());
        match prompt.filter(|_| !self.options.is_history) {
            Some(prompt) => self.add_prompt(prompt, now_ms),
            None => {
                if let Some((priority, text)) = spoken {
                    let subject = self.subject_of(event, session);
                    self.speak(session, (priority, subject), text, language);
                }
                if matches!(event.body, Body::HandoffRequested(_)) {
                    self.signal(NarratorSignal::NeedsYou);
                }
            }
        }
        if let Some(end) = end {
            if let Some(known) = self.sessions.get_mut(session) {
                known.end = Some(end);
            }
            let is_good = end == SessionEnd::Completed;
            self.signal(if is_good { NarratorSignal::Finished } else { NarratorSignal::Failed });
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
            && let Some(text) = wording::text_of(event, SpeechLevel::Normal, self.phrases)
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
            answered_ms: None,
        })
    }

    fn add_prompt(&mut self, prompt: OpenPrompt, now_ms: u64) {
        let session = prompt.session;
        match self.prompts.add(prompt) {
            AddOutcome::Known => {}
            AddOutcome::Current => {
                if let Some(prompt) = self.prompts.current().cloned() {
                    self.read(&prompt, now_ms);
                    self.signal(NarratorSignal::NeedsYou);
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
                self.signal(NarratorSignal::NeedsYou);
            }
        }
    }

    fn signal(&mut self, signal: NarratorSignal) {
        if self.options.has_signals && !self.options.is_history {
            self.effects.push(NarratorEffect::Signal(signal));
        }
    }

    /// What an event is about. The sentence that leaves a prompt is about the prompt.
    fn subject_of(&mut self, event: &Event, session: u32) -> SpeechSubject {
        let subject = match &event.body {
            Body::AwaitingConfirmation(_) => SpeechSubject::Permission,
            Body::AwaitingClarification(_) => SpeechSubject::Question,
            Body::HandoffRequested(_) => SpeechSubject::Handoff,
            Body::ToolInvoked(_) | Body::ToolCompleted(_) | Body::ProgressUpdated(_) => SpeechSubject::Tool,
            Body::SessionErrored(_) => SpeechSubject::Error,
            Body::StateChanged(change) if change.from_state == AWAITING => {
                return self.sessions.get(session).map_or(SpeechSubject::Run, |known| known.prompted);
            }
            _ => return SpeechSubject::Run,
        };
        if let (SpeechSubject::Permission | SpeechSubject::Question, Some(known)) =
            (subject, self.sessions.get_mut(session))
        {
            known.prompted = subject;
        }
        subject
    }

    /// Speaks a prompt, and then the keys that answer it.
    pub(super) fn read(&mut self, prompt: &OpenPrompt, now_ms: u64) {
        let subject = match prompt.kind {
            PromptKind::Confirmation { .. } => SpeechSubject::Permission,
            PromptKind::Clarification { .. } => SpeechSubject::Question,
        };
        if let Some(known) = self.sessions.get_mut(prompt.session) {
            known.prompted = subject;
        }
        let importance = (SpeechPriority::Important, subject);
        self.speak(prompt.session, importance, prompt.text.clone(), prompt.language.clone());
        let mut keys =
            format!("{} {}", prompt.kind.keys(self.phrases), prompt.time_left(now_ms, self.phrases));
        let others = self.prompts.open().count().saturating_sub(1);
        if others > 0 {
            let others = PhraseArg::from(others as u64);
            keys = format!("{keys} {}", self.phrases.render(PhraseKey::MorePrompts, &[("count", others)]));
        }
        self.speak_phrase(SpeechPriority::Message, &keys);
    }

    /// Speaks a part of the output, or holds it until the end of the session.
    fn speak_text(&mut self, session: u32, part: MarkdownPart, language: String) {
        if self.options.is_at_end {
            if let Some(known) = self.sessions.get_mut(session) {
                known.answer.push((part, Some(language)));
            }
        } else if self.level != SpeechLevel::Brief {
            self.speak_part(session, &part, &language);
        }
    }

    fn speak_part(&mut self, session: u32, part: &MarkdownPart, language: &str) {
        for text in wording::of_part(part, self.level, self.phrases) {
            self.speak(session, (SpeechPriority::Text, SpeechSubject::Agent), text, language.to_owned());
        }
    }

    /// Speaks the output that was held until the end of the session.
    fn speak_answer(&mut self, session: u32, own: &str) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let answer = std::mem::take(&mut known.answer);
        for (part, language) in &answer.parts {
            self.speak_part(session, part, language.as_deref().unwrap_or(own));
        }
        if answer.is_cut {
            self.speak_phrase(SpeechPriority::Text, &self.phrases.plain(PhraseKey::AnswerCut));
        }
    }

    /// Speaks a text of a session and adds it to the history.
    fn speak(
        &mut self,
        session: u32,
        (priority, subject): (SpeechPriority, SpeechSubject),
        text: String,
        language: String,
    ) {
        let text = if self.names_sessions && self.last_session != session {
            self.with_run_number(session, &text)
        } else {
            text
        };
        self.last_session = session;
        let utterance = Utterance { priority, subject, text, language, session };
        if self.history.len() >= limits::NARRATED_HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(utterance.clone());
        self.push_speech(&utterance);
    }

    /// Speaks a text of any length.
    pub(super) fn push_speech(&mut self, utterance: &Utterance) {
        for text in wording::utterances(&utterance.text) {
            let piece = Utterance { text: text.to_owned(), ..utterance.clone() };
            self.effects.push(NarratorEffect::Speak(piece));
        }
    }

    /// A text with the number of its run.
    pub(super) fn with_run_number(&self, session: u32, text: &str) -> String {
        self.phrases.render(PhraseKey::RunText, &[("run", u64::from(session).into()), ("text", text.into())])
    }

    pub(super) fn speak_phrase(&mut self, priority: SpeechPriority, text: &str) {
        self.push_speech(&Utterance::own(priority, text, self.phrases.tag()));
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
