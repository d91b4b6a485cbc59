//! Prompts that wait for an answer, in the order in which they came: [`OpenPrompts`]. Pure.
//!
//! A prompt is what was asked and until when. How it is answered by keys is in `dialog`.

use std::collections::VecDeque;

use recount_aaep::wire::{
    AwaitingClarification, AwaitingConfirmation, Choice, Decision, Level, ReplyToken, Reversibility,
};

use super::phrases::{PhraseKey, Phrases, Put};
use super::wording;
use crate::limits;

/// One prompt.
#[derive(Debug, Clone)]
pub(super) struct AskedPrompt {
    pub(super) token: ReplyToken,
    /// The number of its session.
    pub(super) session: u32,
    /// What was spoken, to be repeated.
    pub(super) text: String,
    pub(super) language: String,
    pub(super) deadline_ms: u64,
    pub(super) asks: PromptKind,
    /// A reply was sent. It stays open until an event of its session shows what became of it.
    pub(super) is_answered: bool,
}

/// What a prompt takes for an answer.
#[derive(Debug, Clone)]
pub(super) enum PromptKind {
    Confirmation {
        may_accept: bool,
        may_reject: bool,
        is_grave: bool,
        default: Decision,
    },
    Clarification {
        yes_no: bool,
        numeric: bool,
        freetext: bool,
        choices: Vec<Choice>,
        default: Option<String>,
    },
}

impl PromptKind {
    pub(super) fn of_confirmation(prompt: &AwaitingConfirmation) -> PromptKind {
        let irreversible =
            prompt.irreversible == Some(true) || prompt.reversibility == Some(Reversibility::Irreversible);
        PromptKind::Confirmation {
            may_accept: prompt.allows(&Decision::Accept),
            may_reject: prompt.allows(&Decision::Reject),
            is_grave: irreversible || prompt.risk_level == Some(Level::High),
            default: prompt.default_decision.clone(),
        }
    }

    pub(super) fn of_clarification(prompt: &AwaitingClarification) -> PromptKind {
        let choices = prompt.choices.clone().unwrap_or_default();
        let kinds = prompt.accepted_response_kinds.as_deref();
        let takes = |kind: &str| kinds.is_some_and(|kinds| kinds.iter().any(|known| known == kind));
        let names_none = kinds.is_none_or(<[String]>::is_empty);
        PromptKind::Clarification {
            yes_no: takes("yes_no"),
            numeric: takes("numeric"),
            freetext: takes("freetext") || (names_none && choices.is_empty()),
            choices,
            default: prompt.default_response.clone(),
        }
    }

    /// The keys that answer it.
    pub(super) fn keys(&self, phrases: &Phrases) -> String {
        let keys = match self {
            PromptKind::Confirmation { may_accept, may_reject, .. } => match (may_accept, may_reject) {
                (true, true) => vec![PhraseKey::KeysApproveReject],
                (true, false) => vec![PhraseKey::KeysApprove],
                _ => vec![PhraseKey::KeysReject],
            },
            PromptKind::Clarification { yes_no, numeric, freetext, choices, .. } => {
                let number = (!choices.is_empty()).then_some([PhraseKey::KeysNumber; 2]);
                let yes_no = yes_no.then_some([PhraseKey::KeysYesNo, PhraseKey::KeysOrYesNo]);
                let typed = match (freetext, numeric) {
                    (true, _) => Some([PhraseKey::KeysType, PhraseKey::KeysOrType]),
                    (false, true) => Some([PhraseKey::KeysTypeNumber, PhraseKey::KeysOrTypeNumber]),
                    (false, false) => None,
                };
                let ways = number.into_iter().chain(yes_no).chain(typed).enumerate();
                ways.map(|(at, [first, later])| if at == 0 { first } else { later }).collect()
            }
        };
        keys.into_iter().map(|key| phrases.plain(key)).collect::<Vec<_>>().join(" ")
    }
}

impl AskedPrompt {
    pub(super) fn seconds_left(&self, now_ms: u64) -> u64 {
        self.deadline_ms.saturating_sub(now_ms).div_ceil(1_000)
    }

    /// How long an answer is awaited, and what happens without one.
    pub(super) fn time_left(&self, now_ms: u64, phrases: &Phrases) -> String {
        let time = wording::seconds(self.seconds_left(now_ms), phrases);
        let time = ("time", Put::from(&time));
        match &self.asks {
            PromptKind::Confirmation { default: Decision::Accept, .. } => {
                phrases.say(PhraseKey::TimeLeftApproved, &[time])
            }
            PromptKind::Confirmation { .. } => phrases.say(PhraseKey::TimeLeftRejected, &[time]),
            PromptKind::Clarification { default: Some(answer), .. } => {
                let answer = wording::line(answer);
                phrases.say(PhraseKey::TimeLeftAnswered, &[time, ("answer", (&answer).into())])
            }
            PromptKind::Clarification { default: None, .. } => phrases.say(PhraseKey::TimeLeft, &[time]),
        }
    }
}

/// All open prompts. One of them is current: the one that was read last, which keys answer.
#[derive(Debug, Default)]
pub(super) struct OpenPrompts {
    prompts: VecDeque<AskedPrompt>,
    current: Option<ReplyToken>,
    /// When another prompt became current without a key.
    changed_ms: Option<u64>,
}

/// What adding a prompt means for the listener.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It is current now: read it.
    Current,
    /// Another one is current: announce that it waits.
    Waits,
    /// It was known.
    Known,
}

impl OpenPrompts {
    pub(super) fn add(&mut self, prompt: AskedPrompt) -> Added {
        if let Some(known) = self.prompts.iter_mut().find(|known| known.token == prompt.token) {
            known.deadline_ms = prompt.deadline_ms;
            return Added::Known;
        }
        if self.prompts.len() >= limits::NARRATED_PROMPTS_MAX {
            self.prompts.pop_front();
        }
        let token = prompt.token.clone();
        self.prompts.push_back(prompt);
        if self.current().is_some() {
            return Added::Waits;
        }
        self.current = Some(token);
        Added::Current
    }

    /// The prompt that keys answer.
    pub(super) fn current(&self) -> Option<&AskedPrompt> {
        let current = self.current.as_ref()?;
        self.prompts.iter().find(|prompt| prompt.token == *current && !prompt.is_answered)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = &AskedPrompt> {
        self.prompts.iter().filter(|prompt| !prompt.is_answered)
    }

    pub(super) fn of_session(&self, session: u32) -> usize {
        self.prompts.iter().filter(|prompt| prompt.session == session).count()
    }

    /// The prompt after the current one becomes current, in a circle.
    pub(super) fn turn(&mut self) -> Option<&AskedPrompt> {
        let open: Vec<&ReplyToken> = self.open().map(|prompt| &prompt.token).collect();
        let at = open.iter().position(|token| Some(*token) == self.current.as_ref());
        let next = at.map_or(0, |at| (at + 1) % open.len().max(1));
        self.current = open.get(next).map(|token| (*token).clone());
        self.changed_ms = None;
        self.current()
    }

    pub(super) fn answered(&mut self, token: &ReplyToken) {
        for prompt in self.prompts.iter_mut().filter(|prompt| prompt.token == *token) {
            prompt.is_answered = true;
        }
    }

    /// A reply could not be sent.
    pub(super) fn reopen(&mut self, token: &ReplyToken) {
        for prompt in self.prompts.iter_mut().filter(|prompt| prompt.token == *token) {
            prompt.is_answered = false;
        }
        if self.current().is_none() {
            self.current = Some(token.clone());
        }
    }

    /// Removes the prompts of a session: of several, those alone that were answered here or are overdue, unless `all`.
    pub(super) fn settle(&mut self, session: u32, now_ms: u64, all: bool) {
        let all = all || self.of_session(session) == 1;
        self.prompts.retain(|prompt| {
            let is_over = prompt.is_answered || prompt.deadline_ms <= now_ms;
            prompt.session != session || !(all || is_over)
        });
    }

    /// The next prompt, when there is one and none is current. From now on it is.
    pub(super) fn advance(&mut self, now_ms: u64) -> Option<&AskedPrompt> {
        if self.current().is_some() {
            return None;
        }
        let was_another = self.current.is_some();
        let next = self.open().next().map(|prompt| prompt.token.clone());
        self.current = next;
        self.changed_ms = (was_another && self.current.is_some()).then_some(now_ms);
        self.current()
    }

    /// Whether the current prompt is so new that a key was probably meant for the one before it.
    pub(super) fn has_just_changed(&self, now_ms: u64) -> bool {
        self.changed_ms.is_some_and(|changed| now_ms.saturating_sub(changed) < limits::PROMPT_SWITCH_MS)
    }
}
