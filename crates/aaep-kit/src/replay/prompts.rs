//! Prompts of the present round and the replies to them: [`Prompts::judge`]. Replies are only judged, because what
//! happens next is recorded.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use recount_world::moment;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lock::lock;
use super::script::{Asks, ReplayScript};
use crate::aaep::json::Reader;
use crate::aaep::{MessageKind, Reading, rule};

/// What became of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// It answers the prompt of this line of the file.
    Taken { line: u32, value: String, recorded: Option<String> },
    /// The prompt had its answer.
    Again { line: u32 },
    /// The prompt's time was over.
    Late { line: u32 },
    /// It answers the prompt of this line with what that does not offer.
    Unfit { line: u32, value: String },
    /// Nothing with this token waits for an answer.
    Unknown,
    /// Its subscription is unknown, or is not this one.
    Stranger,
}

/// Prompts of the present round, by token.
#[derive(Default)]
pub(super) struct Prompts {
    open: Mutex<BTreeMap<String, AwaitedReply>>,
    /// Changes with each answer.
    pub(super) answered: watch::Sender<u64>,
}

struct AwaitedReply {
    /// Which of the script's.
    prompt: usize,
    until: Instant,
    answered: bool,
}

/// A reply, read as far as it matters.
pub(super) struct Reply {
    pub(super) kind: MessageKind,
    pub(super) token: String,
    pub(super) subscription: Option<String>,
    /// The decision or the response, as JSON.
    value: String,
}

impl Reply {
    /// Reads a reply; `None` when it lacks what a reply must have. What subscribers in use leave out may be missing.
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

    /// The prompt is being said.
    pub(super) fn ask(&self, token: String, prompt: usize, timeout: Duration) {
        lock(&self.open).insert(token, AwaitedReply { prompt, until: moment() + timeout, answered: false });
    }

    /// Until when an answer is waited for; `None` when there is one.
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
            return ReplyOutcome::Again { line };
        }
        if moment() >= open.until {
            return ReplyOutcome::Late { line };
        }
        let fits = match (&prompt.asks, reply.kind) {
            (Asks::Decision(allowed), MessageKind::ConfirmationReply) => {
                let decision = reply.value.trim_matches('"');
                matches!(decision, "accept" | "reject")
                    && (allowed.is_empty() || allowed.iter().any(|one| one == decision))
            }
            (Asks::Response, MessageKind::ClarificationReply) => true,
            _ => false,
        };
        if !fits {
            return ReplyOutcome::Unfit { line, value: reply.value.clone() };
        }
        open.answered = true;
        self.answered.send_modify(|count| *count = count.wrapping_add(1));
        ReplyOutcome::Taken { line, value: reply.value.clone(), recorded: prompt.recorded.clone() }
    }
}
