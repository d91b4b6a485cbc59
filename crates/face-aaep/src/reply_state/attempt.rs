//! The log of attempts to reply: each attempt with its outcome, never with its token. Start with [`AttemptLog`].

use std::future::Future;
use std::pin::Pin;

use recount_event::{ForeignId, RunId};

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The reply had an effect.
    Accepted,
    /// The caller lacks the scope, or the subscription did not declare that it replies.
    NotEntitled,
    /// The subscription belongs to another caller or connection.
    SubscriptionForeign,
    /// This subscription was not shown a prompt with the token.
    TokenUnknown,
    /// The prompt has an outcome, or was withdrawn.
    NotPending,
    /// The deadline of the prompt had passed when the message was received.
    Late,
    /// The reply has another kind than the prompt.
    Invalid,
    /// The timestamp of the reply is too far from the server's time.
    ClockOff,
    /// The subscription does not cover the run.
    RunForeign,
    /// The rules of the run rejected it.
    Refused,
    /// The store or the run could not be read.
    Failed,
    /// Too many messages of the subscription were waiting.
    TooMany,
}

impl Outcome {
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Accepted => "accepted",
            Outcome::NotEntitled => "not_entitled",
            Outcome::SubscriptionForeign => "subscription_foreign",
            Outcome::TokenUnknown => "token_unknown",
            Outcome::NotPending => "not_pending",
            Outcome::Late => "late",
            Outcome::Invalid => "invalid",
            Outcome::ClockOff => "clock_off",
            Outcome::RunForeign => "run_foreign",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::TooMany => "too_many",
        }
    }
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyAttempt {
    pub subscription: String,
    /// The caller as the log of a run names it, and the id of its token.
    pub by: String,
    pub caller_id: String,
    /// The type of the message.
    pub message: &'static str,
    /// As far as they are known.
    pub run: Option<RunId>,
    pub prompt: Option<ForeignId>,
    /// The person that the message names. Not verified.
    pub decided_by: Option<String>,
    pub outcome: Outcome,
}

/// Where attempts are recorded.
pub trait AttemptLog: Send + Sync + 'static {
    /// Records an attempt; returns when that is done.
    fn record<'a>(&'a self, attempt: ReplyAttempt) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Counts an attempt that is not recorded, because there are too many.
    fn count(&self, outcome: Outcome);
}

/// A log that only writes to the process log.
pub(crate) struct Unlogged;

impl AttemptLog for Unlogged {
    fn record<'a>(&'a self, _: ReplyAttempt) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {})
    }

    fn count(&self, _: Outcome) {}
}
