//! Open prompts: their recipients, the replies they accept, and the effect of a reply. It does not depend on how
//! replies arrive.

use recount_aaep::wire::{Body, ClarificationReply, ConfirmationReply, Decision, Event, Response};
use tokio::sync::oneshot;

use super::{Behaviour, Fault};

/// How a prompt was settled.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PromptOutcome {
    Accepted,
    Rejected,
    /// The value of the selected choice.
    Answered(String),
    TimedOut,
    /// No subscriber remains that could answer.
    NoReplier,
}

/// An open prompt.
pub(super) struct OpenPrompt {
    pub(super) token: String,
    pub(super) event: Event,
    pub(super) deadline_ms: u64,
    /// The subscriptions that received it.
    pub(super) sent_to: Vec<String>,
    answer: oneshot::Sender<PromptOutcome>,
}

impl OpenPrompt {
    pub(super) fn new(
        event: Event,
        timeout_seconds: u32,
    ) -> Option<(OpenPrompt, oneshot::Receiver<PromptOutcome>)> {
        let token = event.body.prompt()?.0.as_str().to_owned();
        let sent_ms = u64::try_from(event.envelope.timestamp.millis()).unwrap_or(0);
        let deadline_ms = sent_ms + u64::from(timeout_seconds) * 1_000;
        let (answer, outcome) = oneshot::channel();
        Some((OpenPrompt { token, event, deadline_ms, sent_to: Vec::new(), answer }, outcome))
    }

    /// The outcome of a confirmation reply; `None` if the prompt does not accept it.
    pub(super) fn decided(&self, reply: &ConfirmationReply, behaviour: &Behaviour) -> Option<PromptOutcome> {
        let Body::AwaitingConfirmation(prompt) = &self.event.body else { return None };
        if !prompt.allows(&reply.decision) {
            // The fault accepts everything that is not a rejection.
            return behaviour.is(Fault::AllowedRepliesIgnored).then_some(PromptOutcome::Accepted);
        }
        // Actions are performed unchanged or not at all.
        let changed = reply.modified_action.is_some() && !behaviour.is(Fault::ModifiedActionTaken);
        match reply.decision {
            Decision::Accept if !changed => Some(PromptOutcome::Accepted),
            _ => Some(PromptOutcome::Rejected),
        }
    }

    /// The outcome of a clarification reply.
    pub(super) fn answered(
        &self,
        reply: &ClarificationReply,
        behaviour: &Behaviour,
    ) -> Option<PromptOutcome> {
        let Body::AwaitingClarification(prompt) = &self.event.body else { return None };
        let choices = prompt.choices.as_deref().unwrap_or_default();
        match &reply.response {
            Response::Text(text) if choices.iter().any(|choice| choice.value == *text) => {
                Some(PromptOutcome::Answered(text.clone()))
            }
            Response::Text(_) if behaviour.is(Fault::ForeignChoiceTaken) => {
                Some(PromptOutcome::Answered(choices.first()?.value.clone()))
            }
            Response::Bool(_) | Response::Number(_) if behaviour.is(Fault::WrongKindTaken) => {
                Some(PromptOutcome::Answered(choices.first()?.value.clone()))
            }
            _ => None,
        }
    }

    /// Settles the prompt.
    pub(super) fn settle(self, outcome: PromptOutcome) {
        if self.answer.send(outcome).is_err() {
            // The session has ended with the producer.
        }
    }
}
