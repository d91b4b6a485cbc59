//! The log of attempts to reply: each one with what became of it, never with its token. See [`AttemptLog`].

use std::future::Future;
use std::pin::Pin;

use recount_event::{ForeignId, RunId};

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It counted.
    Accepted,
    /// The caller has not the scope, or the subscription did not declare that it replies.
    NotEntitled,
    /// The subscription is none of the caller's, or not that of the connection.
    SubscriptionForeign,
    /// The token is of no prompt that this subscription was shown.
    TokenUnknown,
    /// The prompt has an outcome, or was withdrawn.
    NotPending,
    /// The time of the prompt was over when the message was received.
    Late,
    /// It is of another kind than the prompt takes.
    Invalid,
    /// Its own time is nowhere near that of the server.
    ClockOff,
    /// The run is not one that the subscription covers.
    RunForeign,
    /// The rules of the run refuse it.
    Refused,
    /// The store or the run could not be asked.
    Failed,
    /// Too many of the subscription were waiting.
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
    /// The person that the message names. Nothing proves it.
    pub decided_by: Option<String>,
    pub outcome: Outcome,
}

/// Where attempts are recorded.
pub trait AttemptLog: Send + Sync + 'static {
    /// Records an attempt; returns when that is done.
    fn record<'a>(&'a self, attempt: ReplyAttempt) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Counts one that is not recorded by itself, because there are many.
    fn count(&self, outcome: Outcome);
}

/// Where there is no trail: attempts are in the log of the process alone.
pub(crate) struct Unlogged;

impl AttemptLog for Unlogged {
    fn record<'a>(&'a self, _: ReplyAttempt) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {})
    }

    fn count(&self, _: Outcome) {}
}
