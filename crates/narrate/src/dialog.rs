//! Keys and the state of the key dialog: [`NarratorKey`], [`Dialog`]. Pure.
//!
//! Must not depend on sessions: the narrator executes keys.

use recount_aaep::wire::{Decision, ReplyToken, Response};

use super::open_prompt::{OpenPrompt, PromptKind};
use super::phrases::{PhraseKey, Phrases};
use crate::limits;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NarratorKey {
    Char(char),
    Enter,
    Backspace,
    Escape,
}

/// What the next key applies to.
#[derive(Debug, Default)]
pub(super) enum Dialog {
    /// Every key is a command.
    #[default]
    Commands,
    /// A grave call was accepted and must be confirmed with Enter.
    Confirming(ReplyToken),
    /// A cancellation must be confirmed with Enter.
    Cancelling(u32),
    /// An answer is being typed.
    Typing { token: ReplyToken, text: String },
}

/// An answer to a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PromptAnswer {
    Decision(Decision),
    Response(Response),
}

impl PromptAnswer {
    /// The spoken confirmation that an answer was sent. It does not claim that the answer decided anything.
    pub(super) fn spoken(&self, prompt: &OpenPrompt, phrases: &Phrases) -> String {
        let answered = |answer: &str| phrases.render(PhraseKey::AnswerSent, &[("answer", answer.into())]);
        match self {
            PromptAnswer::Decision(Decision::Accept) => phrases.plain(PhraseKey::ApprovalSent),
            PromptAnswer::Decision(_) => phrases.plain(PhraseKey::RejectionSent),
            PromptAnswer::Response(Response::Bool(true)) => phrases.plain(PhraseKey::AnswerSentYes),
            PromptAnswer::Response(Response::Bool(false)) => phrases.plain(PhraseKey::AnswerSentNo),
            PromptAnswer::Response(Response::Number(number)) => answered(&number.to_string()),
            PromptAnswer::Response(Response::Text(text)) => {
                let label = match &prompt.kind {
                    PromptKind::Clarification { choices, .. } => {
                        choices.iter().find(|choice| choice.value == *text).map(|choice| &choice.label)
                    }
                    PromptKind::Confirmation { .. } => None,
                };
                answered(&super::wording::line(label.unwrap_or(text)))
            }
        }
    }
}

/// The meaning of `y` or `n` for a prompt.
pub(super) enum YesOrNo {
    Answer(PromptAnswer),
    /// Another key must confirm it.
    ConfirmFirst,
    /// The prompt takes no yes or no.
    NotTaken,
}

pub(super) fn yes_or_no(prompt: &OpenPrompt, yes: bool) -> YesOrNo {
    match &prompt.kind {
        PromptKind::Confirmation { may_accept: true, is_grave: true, .. } if yes => YesOrNo::ConfirmFirst,
        PromptKind::Confirmation { may_accept: true, .. } if yes => {
            YesOrNo::Answer(PromptAnswer::Decision(Decision::Accept))
        }
        PromptKind::Confirmation { may_reject: true, .. } if !yes => {
            YesOrNo::Answer(PromptAnswer::Decision(Decision::Reject))
        }
        PromptKind::Clarification { yes_no: true, .. } => {
            YesOrNo::Answer(PromptAnswer::Response(Response::Bool(yes)))
        }
        _ => YesOrNo::NotTaken,
    }
}

/// A typed answer, or the reason why it is invalid.
pub(super) fn typed(prompt: &OpenPrompt, text: &str, phrases: &Phrases) -> Result<PromptAnswer, String> {
    let about = |key| phrases.render(key, &[("text", text.trim().into())]);
    let text = text.trim();
    let PromptKind::Clarification { numeric, freetext, choices, .. } = &prompt.kind else {
        return Err(prompt.kind.keys(phrases));
    };
    if text.is_empty() {
        return Err(phrases.plain(PhraseKey::NothingTyped));
    }
    if let Some(choice) = choices.iter().find(|choice| choice.value == text || choice.label == text) {
        return Ok(PromptAnswer::Response(Response::Text(choice.value.clone())));
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (number, numeric, freetext) {
        (Some(number), true, _) => Ok(PromptAnswer::Response(Response::Number(number))),
        (_, _, true) => Ok(PromptAnswer::Response(Response::Text(text.to_owned()))),
        (None, true, false) => Err(about(PhraseKey::NotANumber)),
        _ => Err(format!("{} {}", about(PhraseKey::NotAChoice), prompt.kind.keys(phrases))),
    }
}

/// Adds a character to the typed text. Returns false if the text is full.
pub(super) fn type_character(text: &mut String, character: char) -> bool {
    let fits = !character.is_control() && text.chars().count() < limits::TYPED_ANSWER_CHARS_MAX;
    if fits {
        text.push(character);
    }
    fits
}
