//! Prompts of the current round and the replies to them: [`Prompts::judge`]. Replies are only evaluated, because later
//! lines are recorded.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use recount_world::moment;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lock::lock;
use super::script::{ExpectedReply, ReplayScript};
use crate::aaep::json::Reader;
use crate::aaep::{MessageKind, Reading, rule};

/// The outcome of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// It is valid for the prompt of this line of the file.
    Accepted { line: u32, value: String, recorded: Option<String> },
    /// The prompt was already answered.
    Duplicate { line: u32 },
    /// The prompt has expired.
    Late { line: u32 },
    /// The prompt of this line does not offer this value.
    Invalid { line: u32, value: String },
    /// No open prompt has this token.
    Unknown,
    /// Its subscription is unknown or another one.
    UnknownSubscription,
}

/// Prompts of the current round, by token.
#[derive(Default)]
pub(super) struct Prompts {
    open: Mutex<BTreeMap<String, AwaitedReply>>,
    /// Changes with each reply.
    pub(super) answered: watch::Sender<u64>,
}

struct AwaitedReply {
    /// The index of the prompt in the script.
    prompt: usize,
    until: Instant,
    answered: bool,
}

/// The relevant fields of a reply.
pub(super) struct Reply {
    pub(super) kind: MessageKind,
    pub(super) token: String,
    pub(super) subscription: Option<String>,
    /// The decision or the response as JSON.
    value: String,
}

impl Reply {
    /// Parses a reply; `None` if a required field is missing. Fields that existing subscribers omit are optional.
    pub(super) fn read(text: &str) -> Option<Reply> {
        let mut reader = Reader::new();
        let reading = Reading::of(reader.read(text).ok()?)?;
        let kind = rule::message_kind(&reading)?;
        let field = match kind {
            MessageKind::ConfirmationReply => "decision",
            MessageKind::ClarificationReply => "response",
            _ => return None,
        };
        let get =
            |name: &str| reading.node().get(name).and_then(|node| node.str().map(|text| text.into_owned()));
        let value = reading.node().get(field)?.source().to_owned();
        Some(Reply { kind, token: get("reply_token")?, subscription: get("subscription_id"), value })
    }
}

impl Prompts {
    pub(super) fn forget(&self) {
        lock(&self.open).clear();
    }

    /// Opens a prompt.
    pub(super) fn open(&self, token: String, prompt: usize, timeout: Duration) {
        lock(&self.open).insert(token, AwaitedReply { prompt, until: moment() + timeout, answered: false });
    }

    /// Until when to wait for a reply; `None` if it has arrived.
    pub(super) fn waits_until(&self, token: &str) -> Option<Instant> {
        lock(&self.open).get(token).filter(|open| !open.answered).map(|open| open.until)
    }

    pub(super) fn is_answered(&self, token: &str) -> bool {
        lock(&self.open).get(token).is_some_and(|open| open.answered)
    }

    pub(super) fn judge(&self, script: &ReplayScript, reply: &Reply) -> ReplyOutcome {
        let mut open = lock(&self.open);
        let Some(open) = open.get_mut(&reply.token) else { return ReplyOutcome::Unknown };
        let prompt = &script.prompts[open.prompt];
        let line = script.lines[prompt.line].number;
        if open.answered {
            return ReplyOutcome::Duplicate { line };
        }
        if moment() >= open.until {
            return ReplyOutcome::Late { line };
        }
        let fits = match (&prompt.expected_reply, reply.kind) {
            (ExpectedReply::Decision(allowed), MessageKind::ConfirmationReply) => {
                let decision = reply.value.trim_matches('"');
                matches!(decision, "accept" | "reject")
                    && (allowed.is_empty() || allowed.iter().any(|one| one == decision))
            }
            (ExpectedReply::Response, MessageKind::ClarificationReply) => true,
            _ => false,
        };
        if !fits {
            return ReplyOutcome::Invalid { line, value: reply.value.clone() };
        }
        open.answered = true;
        self.answered.send_modify(|count| *count = count.wrapping_add(1));
        ReplyOutcome::Accepted { line, value: reply.value.clone(), recorded: prompt.recorded.clone() }
    }
}
