//! What approvals, clarifications and handoffs have in common on the wire: their routes, their answers, and the fields that
//! every list shows. The table at the end has what differs.
//!
//! Must not depend on the details of a kind; these are in [`reply`] and [`request`].

pub use recount_event::PromptKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{reply, request};

/// A prompt and its outcome.
pub trait Prompt: Serialize + DeserializeOwned + Send + Sync {
    const KIND: PromptKind;

    fn head(&self) -> PromptHead<'_>;
}

/// The fields that all prompts have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptHead<'p> {
    pub id: &'p str,
    pub run_id: &'p str,
    pub status: &'p str,
    /// What it is about, in a few words.
    pub title: &'p str,
    pub requested_at: &'p str,
    pub expires_at: Option<&'p str>,
}

/// An answer to a prompt: the body of a `POST` to the last part of its route.
pub trait PromptAnswer: Serialize + Sync {
    type Prompt: Prompt;

    /// The last part of the route.
    const VERB: &'static str;
}

macro_rules! prompt {
    ($kind:ident, |$prompt:ident| $title:expr, $($answer:ident = $verb:literal),+) => {
        impl Prompt for reply::$kind {
            const KIND: PromptKind = PromptKind::$kind;

            fn head(&self) -> PromptHead<'_> {
                let $prompt = self;
                PromptHead {
                    id: &self.id,
                    run_id: &self.run_id,
                    status: &self.status,
                    title: $title,
                    requested_at: &self.requested_at,
                    expires_at: self.expires_at.as_deref(),
                }
            }
        }

        $(impl PromptAnswer for request::$answer {
            type Prompt = reply::$kind;

            const VERB: &'static str = $verb;
        })+
    };
}

prompt!(Approval, |approval| &approval.summary, ResolveApproval = "resolve");

prompt!(Clarification, |clarification| &clarification.question, AnswerClarification = "answer");

prompt!(
    Handoff,
    |handoff| handoff.summary_terse.as_deref().unwrap_or(&handoff.reason),
    AcknowledgeHandoff = "acknowledge",
    RejectHandoff = "reject"
);
