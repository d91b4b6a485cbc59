//! Prompts: one at a time, each with a token and a deadline, a confirmation bound to its call.

use super::open::{Grant, OpenPrompt, PromptHandle, PromptRequest};
use super::session::{Phase, call_id, needs_confirmation};
use super::stamp::Stamp;
use super::{Misuse, ProducerSession};
use crate::build::Draft;
use crate::limits::{PRODUCED_GRANTS_MAX, PRODUCED_TOKENS_MAX};
use crate::wire::{
    AwaitingClarification, AwaitingConfirmation, Body, Decision, Event, ReplyToken, Response, Reversibility,
    ToolInvoked,
};

/// The default that was applied because no reply arrived in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppliedDefault {
    /// The call may start.
    Accepted,
    Rejected,
    /// The default response of a question. It allows no action.
    Response(String),
    /// A question without a response.
    Unanswered,
}

/// The result of advancing the time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AdvanceResult {
    /// The prompt that timed out, and its default.
    pub default: Option<(PromptHandle, AppliedDefault)>,
    pub events: Vec<Event>,
}

/// How a prompt is settled.
pub(super) enum Settlement {
    Accepted,
    Rejected,
    Answered,
    Default(AppliedDefault),
    Withdrawn,
}

impl ProducerSession {
    /// Requests confirmation of a call. The session adds the call, its arguments, risk and irreversibility to the
    /// prompt that `ask` builds with the token. A call that cannot be undone must have an `args_summary`.
    pub fn confirm(
        &mut self,
        stamp: Stamp,
        call: &Draft<ToolInvoked>,
        ask: impl FnOnce(ReplyToken) -> Draft<AwaitingConfirmation>,
    ) -> Result<(PromptHandle, Vec<Event>), Misuse> {
        self.running()?;
        self.no_prompt()?;
        let tool = call.body.tool.clone();
        if call.body.tool_call_id.is_some() {
            return Err(Misuse::IdGiven("tool_call_id"));
        }
        let irreversible = call.body.irreversible == Some(true);
        if irreversible && call.body.args_summary.is_none() {
            return Err(Misuse::ArgumentsNotShown(tool));
        }
        if self.grants.len() >= PRODUCED_GRANTS_MAX {
            return Err(Misuse::LimitReached { what: "accepted prompts", most: PRODUCED_GRANTS_MAX });
        }
        let number = self.next_call;
        let id = call_id(number);
        // Validates the call now, so that no call is accepted that cannot be announced.
        self.frame.numbered("evt_0", 0, 0, call.clone().tool_call_id(id.clone()))?;
        let token = self.token(stamp)?;
        let mut draft = ask(token.clone()).for_call(&tool, &id);
        if needs_confirmation(&call.body) && draft.body.default_decision == Decision::Accept {
            return Err(Misuse::DefaultAccepts(tool));
        }
        if let Some(arguments) = &call.body.args_summary {
            draft = draft.for_arguments(arguments);
        }
        draft.body.reply_token = token.clone();
        draft.body.risk_level = call.body.risk_level.clone().or(draft.body.risk_level);
        if irreversible {
            draft.body.irreversible = Some(true);
            draft.body.reversibility = Some(Reversibility::Irreversible);
        }
        let seconds = draft.body.timeout_seconds;
        let grant = Box::new(Grant { call: call.body.clone(), number });
        let request = PromptRequest::Confirmation { prompt: Box::new(draft.body.clone()), grant };
        let opened = self.open(stamp, draft, token, seconds, request)?;
        self.next_call += 1;
        Ok(opened)
    }

    /// Asks a question, which `ask` builds with the token.
    pub fn clarify(
        &mut self,
        stamp: Stamp,
        ask: impl FnOnce(ReplyToken) -> Draft<AwaitingClarification>,
    ) -> Result<(PromptHandle, Vec<Event>), Misuse> {
        self.running()?;
        self.no_prompt()?;
        let token = self.token(stamp)?;
        let mut draft = ask(token.clone());
        draft.body.reply_token = token.clone();
        let seconds = draft.body.timeout_seconds;
        let request = PromptRequest::Clarification(Box::new(draft.body.clone()));
        self.open(stamp, draft, token, seconds, request)
    }

    /// The next token: random, and unique within a session whatever the entropy.
    fn token(&self, stamp: Stamp) -> Result<ReplyToken, Misuse> {
        let (_, half) = stamp.halves();
        let token = ReplyToken::new(format!("rpl_{half:032x}{:x}", self.next_prompt));
        Ok(token.map_err(crate::build::BuildError::from)?)
    }

    fn open<B: Into<Body>>(
        &mut self,
        stamp: Stamp,
        draft: Draft<B>,
        token: ReplyToken,
        seconds: u32,
        request: PromptRequest,
    ) -> Result<(PromptHandle, Vec<Event>), Misuse> {
        let events = self.emit(stamp, |batch| {
            batch.enter("awaiting_input", &batch.texts.awaiting_input)?;
            batch.push(draft)
        })?;
        let handle = PromptHandle(self.next_prompt);
        self.next_prompt += 1;
        // Counted from the timestamp of the prompt.
        let deadline_ms = self.last_ms + i64::from(seconds) * 1_000;
        self.prompt = Some(OpenPrompt { handle, token, deadline_ms, request });
        Ok((handle, events))
    }

    /// Withdraws the open prompt: its token becomes invalid.
    pub fn withdraw(&mut self, stamp: Stamp) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        if self.prompt.is_none() {
            return Err(Misuse::NoPromptOpen);
        }
        self.settle(stamp, &Settlement::Withdrawn)
    }

    /// Applies the default of the open prompt if its deadline has passed.
    pub fn advance(&mut self, stamp: Stamp) -> Result<AdvanceResult, Misuse> {
        let Some(prompt) = &self.prompt else { return Ok(AdvanceResult::default()) };
        if self.now_ms(stamp) < prompt.deadline_ms {
            return Ok(AdvanceResult::default());
        }
        let handle = prompt.handle;
        let default = match &prompt.request {
            PromptRequest::Confirmation { prompt, .. } if prompt.default_decision == Decision::Accept => {
                AppliedDefault::Accepted
            }
            PromptRequest::Confirmation { .. } => AppliedDefault::Rejected,
            PromptRequest::Clarification(question) => match &question.default_response {
                Some(response) => AppliedDefault::Response(response.clone()),
                None => AppliedDefault::Unanswered,
            },
        };
        let events = self.settle(stamp, &Settlement::Default(default.clone()))?;
        Ok(AdvanceResult { default: Some((handle, default)), events })
    }

    /// The deadline of the open prompt in milliseconds since 1970; call [`Self::advance`] then.
    pub fn next_deadline(&self) -> Option<i64> {
        self.prompt.as_ref().map(|prompt| prompt.deadline_ms)
    }

    /// The token of the open prompt.
    pub fn open_token(&self) -> Option<&ReplyToken> {
        self.prompt.as_ref().map(|prompt| &prompt.token)
    }

    /// Announces the outcome of the open prompt and closes it.
    pub(super) fn settle(&mut self, stamp: Stamp, settlement: &Settlement) -> Result<Vec<Event>, Misuse> {
        let accepted =
            matches!(settlement, Settlement::Accepted | Settlement::Default(AppliedDefault::Accepted));
        let back = if self.calls.is_empty() { "thinking" } else { "calling_tool" };
        let events = self.emit(stamp, |batch| {
            let texts = batch.texts;
            let text = match settlement {
                Settlement::Accepted => &texts.accepted,
                Settlement::Rejected => &texts.rejected,
                Settlement::Answered => &texts.answered,
                Settlement::Default(AppliedDefault::Accepted) => &texts.accepted_by_default,
                Settlement::Default(AppliedDefault::Rejected) => &texts.rejected_by_default,
                Settlement::Default(_) => &texts.unanswered,
                Settlement::Withdrawn => &texts.withdrawn,
            };
            batch.change(if accepted { "calling_tool" } else { back }, text)
        })?;
        if let Some(prompt) = self.close_prompt()
            && accepted
            && let PromptRequest::Confirmation { grant, .. } = prompt.request
        {
            self.grants.insert(prompt.handle.0, *grant);
        }
        Ok(events)
    }

    /// Closes the open prompt without an event.
    pub(super) fn close_prompt(&mut self) -> Option<OpenPrompt> {
        let prompt = self.prompt.take()?;
        if self.settled.len() >= PRODUCED_TOKENS_MAX {
            self.settled.pop_front();
        }
        self.settled.push_back(prompt.token.clone());
        Some(prompt)
    }

    pub(super) fn end(&mut self) {
        self.close_prompt();
        self.calls.clear();
        self.outputs.clear();
        self.grants.clear();
        self.phase = Phase::Ended;
    }
}

/// Why a response does not fit a question; `None` if it fits.
pub(super) fn response_mismatch(question: &AwaitingClarification, response: &Response) -> Option<String> {
    let choices = question.choices.as_deref();
    // Without kinds: a choice if there are choices, free text otherwise.
    let takes = |kind: &str, default: bool| match &question.accepted_response_kinds {
        Some(kinds) => kinds.iter().any(|known| known == kind),
        None => default,
    };
    let fits = match response {
        Response::Bool(_) => takes("yes_no", false),
        Response::Number(_) => takes("numeric", false),
        Response::Text(text) => {
            let chosen = || choices.is_some_and(|choices| choices.iter().any(|choice| choice.value == *text));
            takes("freetext", choices.is_none()) || (takes("multiple_choice", choices.is_some()) && chosen())
        }
    };
    (!fits).then(|| "the response kind is not accepted by the question".to_owned())
}
