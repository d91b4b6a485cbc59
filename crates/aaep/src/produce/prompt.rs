//! Prompts: one at a time, each with a token and a deadline, a confirmation bound to its call.

use super::open::{Grant, OpenPrompt, PromptAsk, PromptHandle};
use super::session::{Phase, call_id, is_grave};
use super::stamp::Stamp;
use super::{Misuse, ProducerSession};
use crate::build::Draft;
use crate::limits::{PRODUCED_GRANTS_MAX, PRODUCED_TOKENS_MAX};
use crate::wire::{
    AwaitingClarification, AwaitingConfirmation, Body, Decision, Event, ReplyToken, Response, Reversibility,
    ToolInvoked,
};

/// What was done because nobody replied in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppliedDefault {
    /// The call may begin.
    Accepted,
    Rejected,
    /// A question has its default as its answer. It allows no action.
    Response(String),
    /// A question has no answer.
    Unanswered,
}

/// What became of the time that has passed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Advanced {
    /// The prompt whose time was up, and its default.
    pub default: Option<(PromptHandle, AppliedDefault)>,
    pub events: Vec<Event>,
}

/// How a prompt is settled.
pub(super) enum Verdict {
    Accepted,
    Rejected,
    Answered,
    Default(AppliedDefault),
    Withdrawn,
}

impl ProducerSession {
    /// Asks whether a call may be made. The prompt names the call, its arguments, risk and irreversibility by itself;
    /// `ask` makes it with the token that it is given. A call that cannot be undone has to show its `args_summary`.
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
        // The call is tried now, so that nothing is accepted that cannot be announced.
        self.frame.numbered("evt_0", 0, 0, call.clone().tool_call_id(id.clone()))?;
        let token = self.token(stamp)?;
        let mut draft = ask(token.clone()).for_call(&tool, &id);
        if is_grave(&call.body) && draft.body.default_decision == Decision::Accept {
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
        let asks = PromptAsk::Confirmation { prompt: Box::new(draft.body.clone()), grant };
        let opened = self.open(stamp, draft, token, seconds, asks)?;
        self.next_call += 1;
        Ok(opened)
    }

    /// Asks a question; `ask` makes it with the token that it is given.
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
        let asks = PromptAsk::Clarification(Box::new(draft.body.clone()));
        self.open(stamp, draft, token, seconds, asks)
    }

    /// The next token: random, and within a session never twice whatever the entropy is.
    fn token(&self, stamp: Stamp) -> Result<ReplyToken, Misuse> {
        let (_, half) = stamp.halves();
        let token = ReplyToken::new(format!("rpl_{half:032x}{:x}", self.next_prompt));
        Ok(token.map_err(crate::build::Refused::from)?)
    }

    fn open<B: Into<Body>>(
        &mut self,
        stamp: Stamp,
        draft: Draft<B>,
        token: ReplyToken,
        seconds: u32,
        asks: PromptAsk,
    ) -> Result<(PromptHandle, Vec<Event>), Misuse> {
        let events = self.emit(stamp, |batch| {
            batch.enter("awaiting_input", &batch.texts.awaiting_input)?;
            batch.push(draft)
        })?;
        let handle = PromptHandle(self.next_prompt);
        self.next_prompt += 1;
        // Counted from the time that the prompt itself says.
        let deadline_ms = self.last_ms + i64::from(seconds) * 1_000;
        self.prompt = Some(OpenPrompt { handle, token, deadline_ms, asks });
        Ok((handle, events))
    }

    /// Takes back the open prompt: its token is good no more.
    pub fn withdraw(&mut self, stamp: Stamp) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        if self.prompt.is_none() {
            return Err(Misuse::NoPromptOpen);
        }
        self.settle(stamp, &Verdict::Withdrawn)
    }

    /// Lets time pass: applies the default of the open prompt when its deadline has come.
    pub fn advance(&mut self, stamp: Stamp) -> Result<Advanced, Misuse> {
        let Some(prompt) = &self.prompt else { return Ok(Advanced::default()) };
        if self.now_ms(stamp) < prompt.deadline_ms {
            return Ok(Advanced::default());
        }
        let handle = prompt.handle;
        let default = match &prompt.asks {
            PromptAsk::Confirmation { prompt, .. } if prompt.default_decision == Decision::Accept => {
                AppliedDefault::Accepted
            }
            PromptAsk::Confirmation { .. } => AppliedDefault::Rejected,
            PromptAsk::Clarification(question) => match &question.default_response {
                Some(response) => AppliedDefault::Response(response.clone()),
                None => AppliedDefault::Unanswered,
            },
        };
        let events = self.settle(stamp, &Verdict::Default(default.clone()))?;
        Ok(Advanced { default: Some((handle, default)), events })
    }

    /// When the open prompt takes its default, in milliseconds since 1970; a good moment for [`Self::advance`].
    pub fn next_deadline(&self) -> Option<i64> {
        self.prompt.as_ref().map(|prompt| prompt.deadline_ms)
    }

    /// The token of the open prompt.
    pub fn open_token(&self) -> Option<&ReplyToken> {
        self.prompt.as_ref().map(|prompt| &prompt.token)
    }

    /// Announces what became of the open prompt, and closes it.
    pub(super) fn settle(&mut self, stamp: Stamp, verdict: &Verdict) -> Result<Vec<Event>, Misuse> {
        let accepted = matches!(verdict, Verdict::Accepted | Verdict::Default(AppliedDefault::Accepted));
        let back = if self.calls.is_empty() { "thinking" } else { "calling_tool" };
        let events = self.emit(stamp, |batch| {
            let texts = batch.texts;
            let text = match verdict {
                Verdict::Accepted => &texts.accepted,
                Verdict::Rejected => &texts.rejected,
                Verdict::Answered => &texts.answered,
                Verdict::Default(AppliedDefault::Accepted) => &texts.accepted_by_default,
                Verdict::Default(AppliedDefault::Rejected) => &texts.rejected_by_default,
                Verdict::Default(_) => &texts.unanswered,
                Verdict::Withdrawn => &texts.withdrawn,
            };
            batch.change(if accepted { "calling_tool" } else { back }, text)
        })?;
        if let Some(prompt) = self.close_prompt()
            && accepted
            && let PromptAsk::Confirmation { grant, .. } = prompt.asks
        {
            self.grants.insert(prompt.handle.0, *grant);
        }
        Ok(events)
    }

    /// Closes the open prompt without a word.
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

/// Why a response is no answer to a question; `None` when it is one.
pub(super) fn misfit(question: &AwaitingClarification, response: &Response) -> Option<String> {
    let choices = question.choices.as_deref();
    // Without kinds: a choice where there are choices, free text otherwise.
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
