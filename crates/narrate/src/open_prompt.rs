//! The open prompts, oldest first: [`OpenPrompts`]. Pure.
//!
//! Must not depend on keys: `dialog` has the keys that answer a prompt.

use std::collections::VecDeque;

use recount_aaep::wire::{
    AwaitingClarification, AwaitingConfirmation, Choice, Decision, Level, ReplyToken, Reversibility,
};

use super::phrases::{PhraseArg, PhraseKey, Phrases};
use super::wording;
use crate::limits;

/// One prompt.
#[derive(Debug, Clone)]
pub(super) struct OpenPrompt {
    pub(super) token: ReplyToken,
    /// The number of its session.
    pub(super) session: u32,
    /// The spoken text, for repetition.
    pub(super) text: String,
    pub(super) language: String,
    pub(super) deadline_ms: u64,
    pub(super) kind: PromptKind,
    /// When a reply was sent. The prompt stays open until an event of its session settles it.
    pub(super) answered_ms: Option<u64>,
}

/// The answers that a prompt takes.
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

impl OpenPrompt {
    fn is_answered(&self) -> bool {
        self.answered_ms.is_some()
    }

    /// When a reply without an event that settles the prompt had no effect. After the deadline its default applies.
    fn no_effect_ms(&self) -> Option<u64> {
        let due_ms = self.answered_ms? + limits::REPLY_EFFECT_WAIT_MS;
        (due_ms < self.deadline_ms).then_some(due_ms)
    }

    pub(super) fn seconds_left(&self, now_ms: u64) -> u64 {
        self.deadline_ms.saturating_sub(now_ms).div_ceil(1_000)
    }

    /// The remaining time, and what happens without an answer.
    pub(super) fn time_left(&self, now_ms: u64, phrases: &Phrases) -> String {
        let time = wording::seconds(self.seconds_left(now_ms), phrases);
        let time = ("time", PhraseArg::from(&time));
        match &self.kind {
            PromptKind::Confirmation { default: Decision::Accept, .. } => {
                phrases.render(PhraseKey::TimeLeftApproved, &[time])
            }
            PromptKind::Confirmation { .. } => phrases.render(PhraseKey::TimeLeftRejected, &[time]),
            PromptKind::Clarification { default: Some(answer), .. } => {
                let answer = wording::line(answer);
                phrases.render(PhraseKey::TimeLeftAnswered, &[time, ("answer", (&answer).into())])
            }
            PromptKind::Clarification { default: None, .. } => phrases.render(PhraseKey::TimeLeft, &[time]),
        }
    }
}

/// All open prompts. One of them is current: the last one that was read, which keys answer.
#[derive(Debug, Default)]
pub(super) struct OpenPrompts {
    prompts: VecDeque<OpenPrompt>,
    current: Option<ReplyToken>,
    /// When another prompt became current without a key press.
    changed_ms: Option<u64>,
}

/// The effect of adding a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AddOutcome {
    /// The prompt is current: read it.
    Current,
    /// Another prompt is current: announce this one.
    Waits,
    /// The prompt was known.
    Known,
}

impl OpenPrompts {
    pub(super) fn add(&mut self, prompt: OpenPrompt) -> AddOutcome {
        if let Some(known) = self.prompts.iter_mut().find(|known| known.token == prompt.token) {
            known.deadline_ms = prompt.deadline_ms;
            return AddOutcome::Known;
        }
        if self.prompts.len() >= limits::NARRATED_PROMPTS_MAX {
            self.prompts.pop_front();
        }
        let token = prompt.token.clone();
        self.prompts.push_back(prompt);
        if self.current().is_some() {
            return AddOutcome::Waits;
        }
        self.current = Some(token);
        AddOutcome::Current
    }

    /// The prompt that keys answer.
    pub(super) fn current(&self) -> Option<&OpenPrompt> {
        let current = self.current.as_ref()?;
        self.prompts.iter().find(|prompt| prompt.token == *current && !prompt.is_answered())
    }

    pub(super) fn open(&self) -> impl Iterator<Item = &OpenPrompt> {
        self.prompts.iter().filter(|prompt| !prompt.is_answered())
    }

    pub(super) fn of_session(&self, session: u32) -> usize {
        self.prompts.iter().filter(|prompt| prompt.session == session).count()
    }

    /// Makes the next prompt current, in a circle.
    pub(super) fn turn(&mut self) -> Option<&OpenPrompt> {
        let open: Vec<&ReplyToken> = self.open().map(|prompt| &prompt.token).collect();
        let at = open.iter().position(|token| Some(*token) == self.current.as_ref());
        let next = at.map_or(0, |at| (at + 1) % open.len().max(1));
        self.current = open.get(next).map(|token| (*token).clone());
        self.changed_ms = None;
        self.current()
    }

    pub(super) fn answered(&mut self, token: &ReplyToken, now_ms: u64) {
        for prompt in self.prompts.iter_mut().filter(|prompt| prompt.token == *token) {
            prompt.answered_ms = Some(now_ms);
        }
    }

    /// When the next reply counts as without effect.
    pub(super) fn next_no_effect_ms(&self) -> Option<u64> {
        self.prompts.iter().filter_map(OpenPrompt::no_effect_ms).min()
    }

    /// Reopens the prompts whose reply had no effect. Returns whether there was one.
    pub(super) fn reopen_without_effect(&mut self, now_ms: u64) -> bool {
        let due = |prompt: &&OpenPrompt| prompt.no_effect_ms().is_some_and(|due_ms| due_ms <= now_ms);
        let tokens: Vec<ReplyToken> =
            self.prompts.iter().filter(due).map(|prompt| prompt.token.clone()).collect();
        tokens.iter().for_each(|token| self.reopen(token));
        !tokens.is_empty()
    }

    /// Reopens a prompt whose reply could not be sent or had no effect.
    pub(super) fn reopen(&mut self, token: &ReplyToken) {
        for prompt in self.prompts.iter_mut().filter(|prompt| prompt.token == *token) {
            prompt.answered_ms = None;
        }
        if self.current().is_none() {
            self.current = Some(token.clone());
        }
    }

    /// Removes the prompts of a session. If there are several and not `all`, only those that were answered here or are
    /// overdue.
    pub(super) fn settle(&mut self, session: u32, now_ms: u64, all: bool) {
        let all = all || self.of_session(session) == 1;
        self.prompts.retain(|prompt| {
            let is_over = prompt.is_answered() || prompt.deadline_ms <= now_ms;
            prompt.session != session || !(all || is_over)
        });
    }

    /// Makes the next prompt current if none is, and returns it.
    pub(super) fn advance(&mut self, now_ms: u64) -> Option<&OpenPrompt> {
        if self.current().is_some() {
            return None;
        }
        let was_another = self.current.is_some();
        let next = self.open().next().map(|prompt| prompt.token.clone());
        self.current = next;
        self.changed_ms = (was_another && self.current.is_some()).then_some(now_ms);
        self.current()
    }

    /// Whether the current prompt is so new that a key was probably meant for the previous one.
    pub(super) fn has_just_changed(&self, now_ms: u64) -> bool {
        self.changed_ms.is_some_and(|changed| now_ms.saturating_sub(changed) < limits::PROMPT_SWITCH_MS)
    }
}
