//! Calls that passed on a presumed acceptance: the producer left `awaiting_input` in time and no reply is recorded. A
//! recording without replies cannot show more. In a recording with replies, each prompt needs a reply, possibly
//! recorded after the call; a reply that does not allow the call ends the presumption. [`PresumedCalls`] keeps the
//! calls until that is known.
//!
//! It does not judge prompts; [`super::prompts`] does.

use std::collections::VecDeque;

use super::prompts::Presumption;
use crate::json::{Node, Place};
use crate::lex::time::Moment;
use crate::limits::PRESUMED_CALLS_MAX;
use crate::reading::Reading;
use crate::rule::{self, Finding, Profile};

/// A call with a presumed acceptance.
pub(super) struct PresumedCall {
    pub(super) presumption: Presumption,
    /// Hash of the session id.
    session: u64,
    line: usize,
    event_id: String,
    /// Its tool, for messages.
    tool: String,
    irreversible: bool,
    /// A reply to its prompt that does not allow it.
    refusal: Option<DatedRefusal>,
}

/// A reply that was recorded after the call and does not allow it.
#[derive(Clone, Copy)]
struct DatedRefusal {
    /// When it was sent, in microseconds; `i64::MAX` without a timestamp. Only an earlier acceptance counts.
    moment: i64,
    rule: &'static rule::Rule,
    what: &'static str,
}

/// The effect of a reply on the call of its prompt.
enum ReplyEffect {
    Allows(i64),
    Refuses(DatedRefusal),
    /// It is too late, or the prompt does not allow it.
    None,
}

/// All such calls of a recording, the newest last. At [`PRESUMED_CALLS_MAX`], the oldest is judged by the recording so
/// far.
#[derive(Default)]
pub(super) struct PresumedCalls {
    calls: VecDeque<PresumedCall>,
    /// A call that was removed at the limit.
    evicted: Option<PresumedCall>,
    /// Whether a valid reply is recorded.
    replied: bool,
}

impl PresumedCalls {
    /// Notes that a valid reply is recorded.
    pub(super) fn note_reply(&mut self) {
        self.replied = true;
    }

    /// Adds a call.
    pub(super) fn add(
        &mut self,
        presumption: Presumption,
        session: u64,
        line: usize,
        event_id: &str,
        (tool, irreversible): (String, bool),
    ) {
        if self.calls.len() >= PRESUMED_CALLS_MAX {
            self.evicted = self.calls.pop_front();
        }
        let event_id = rule::bounded(event_id.to_owned());
        self.calls.push_back(PresumedCall {
            presumption,
            session,
            line,
            event_id,
            tool,
            irreversible,
            refusal: None,
        });
    }

    /// Applies a reply to the prompt of a pending call; returns whether it accepted exactly that call in time.
    pub(super) fn confirm(&mut self, token: u64, reply: &Reading<'_>) -> bool {
        let Some(at) = self.calls.iter().position(|call| call.presumption.token == token) else {
            return false;
        };
        let call = &mut self.calls[at];
        match call.effect(reply) {
            ReplyEffect::Allows(moment) if call.refusal.is_none_or(|refusal| moment < refusal.moment) => {
                self.calls.remove(at);
                self.replied = true;
                true
            }
            ReplyEffect::Refuses(refusal) => {
                let first = call.refusal.is_none_or(|before| refusal.moment < before.moment);
                call.refusal = if first { Some(refusal) } else { call.refusal };
                false
            }
            ReplyEffect::Allows(_) | ReplyEffect::None => false,
        }
    }

    /// The findings after an event: for the calls of an ended session and for a removed call.
    pub(super) fn settle(&mut self, ended: Option<u64>, profile: Profile) -> Vec<Finding> {
        let mut due: Vec<PresumedCall> = self.evicted.take().into_iter().collect();
        if let Some(ended) = ended {
            let replied = self.replied;
            let is_due = |call: &PresumedCall| call.session == ended && (replied || call.refusal.is_some());
            let (own, held): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut self.calls).into_iter().partition(is_due);
            self.calls = held;
            due.extend(own);
        }
        self.findings(&due, profile)
    }

    /// The findings at the end of the recording.
    pub(super) fn finish(&mut self, profile: Profile) -> Vec<Finding> {
        let due: Vec<PresumedCall> = std::mem::take(&mut self.calls).into();
        self.findings(&due, profile)
    }

    fn findings(&self, due: &[PresumedCall], profile: Profile) -> Vec<Finding> {
        let is_found = |call: &&PresumedCall| self.replied || call.refusal.is_some();
        due.iter().filter(is_found).filter_map(|call| call.finding(profile)).collect()
    }
}

impl PresumedCall {
    fn effect(&self, reply: &Reading<'_>) -> ReplyEffect {
        let node = reply.node();
        let Presumption { until, reject, announced, .. } = self.presumption;
        let decides = |what: &str| node.get("decision").is_some_and(|decision| decision.is(what));
        let moment = node.get("timestamp").and_then(Node::str).and_then(|text| Moment::parse(&text));
        let moment = moment.map(|moment| moment.micros);
        let in_time = moment.is_none_or(|moment| until.is_none_or(|until| moment <= until));
        let rule = if self.irreversible { &rule::TOOL_UNCONFIRMED } else { &rule::TOOL_BEFORE_ANSWER };
        let refuses = |rule, what| {
            ReplyEffect::Refuses(DatedRefusal { moment: moment.unwrap_or(i64::MAX), rule, what })
        };
        if decides("reject") && reject && in_time {
            refuses(&rule::TOOL_AFTER_REJECT, "is called after its prompt was rejected")
        } else if !decides("accept") {
            ReplyEffect::None
        } else if !in_time {
            match announced {
                true => ReplyEffect::None,
                false => {
                    refuses(rule, "is called after its prompt was withdrawn, and before it was accepted")
                }
            }
        } else if node.get("modified_action").is_some() {
            refuses(rule, "is called as its prompt says, but the prompt was accepted with a changed action")
        } else {
            moment.map_or(ReplyEffect::None, ReplyEffect::Allows)
        }
    }

    fn finding(&self, profile: Profile) -> Option<Finding> {
        let (rule, what) = if let Some(refusal) = self.refusal {
            (refusal.rule, refusal.what)
        } else if self.irreversible {
            (&rule::TOOL_UNCONFIRMED, "cannot be undone, and the recording has no reply to its prompt")
        } else {
            (&rule::TOOL_BEFORE_ANSWER, "is called, and the recording has no reply to its prompt")
        };
        Some(Finding {
            rule,
            severity: rule.severity(profile)?,
            line: self.line,
            event_id: Some(self.event_id.clone()),
            path: String::new(),
            place: Place { line: 1, column: 1 },
            message: rule::bounded(format!("`{}` {what}", self.tool)),
        })
    }
}
