//! Calls that passed because an acceptance of their prompt was presumed: the producer left `awaiting_input` in time and
//! no reply is recorded. In a recording without replies that is all there can be. In a recording with replies, a reply
//! to each prompt is expected, also when it was written down after the call. [`PresumedCalls`] holds the calls until
//! that is known.
//!
//! It judges no prompt: [`super::prompts`] does.

use std::collections::VecDeque;

use super::prompts::Presumption;
use crate::json::{Node, Place};
use crate::lex::time::Moment;
use crate::limits::PRESUMED_CALLS_MAX;
use crate::reading::Reading;
use crate::rule::{self, Finding, Profile};

/// One such call.
pub(super) struct PresumedCall {
    pub(super) presumption: Presumption,
    /// Sum of the session's id.
    session: u64,
    line: usize,
    event_id: String,
    /// Its tool, for sentences.
    tool: String,
    irreversible: bool,
}

/// All such calls of a recording, the newest last; at [`PRESUMED_CALLS_MAX`] the oldest is judged by what is recorded
/// until then.
#[derive(Default)]
pub(super) struct PresumedCalls {
    calls: VecDeque<PresumedCall>,
    /// One that had to make room.
    oldest: Option<PresumedCall>,
    /// Whether a reply that counts is recorded.
    replied: bool,
}

impl PresumedCalls {
    /// A reply that counts is recorded.
    pub(super) fn note_reply(&mut self) {
        self.replied = true;
    }

    /// Holds a call.
    pub(super) fn hold(
        &mut self,
        presumption: Presumption,
        session: u64,
        line: usize,
        event_id: &str,
        (tool, irreversible): (String, bool),
    ) {
        if self.calls.len() >= PRESUMED_CALLS_MAX {
            self.oldest = self.calls.pop_front();
        }
        let event_id = rule::bounded(event_id.to_owned());
        self.calls.push_back(PresumedCall { presumption, session, line, event_id, tool, irreversible });
    }

    /// Takes a reply to the prompt of a call that is held: whether it accepted in time, and what was done.
    pub(super) fn confirm(&mut self, token: u64, reply: &Reading<'_>) -> bool {
        let node = reply.node();
        let accepts = node.get("decision").is_some_and(|decision| decision.is("accept"))
            && node.get("modified_action").is_none();
        let moment = node.get("timestamp").and_then(Node::str).and_then(|text| Moment::parse(&text));
        let Some(moment) = moment.filter(|_| accepts).map(|moment| moment.micros) else { return false };
        let confirmed = |call: &PresumedCall| {
            let Presumption { token: asked, until, accept, .. } = call.presumption;
            asked == token && accept && until.is_none_or(|until| moment <= until)
        };
        let Some(at) = self.calls.iter().position(confirmed) else { return false };
        self.calls.remove(at);
        self.replied = true;
        true
    }

    /// What is found after an event: of the calls of the session that it ended, and of one that had to make room.
    pub(super) fn settle(&mut self, ended: Option<u64>, profile: Profile) -> Vec<Finding> {
        let mut due: Vec<PresumedCall> = self.oldest.take().into_iter().collect();
        if self.replied
            && let Some(ended) = ended
        {
            let (own, held): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut self.calls).into_iter().partition(|call| call.session == ended);
            self.calls = held;
            due.extend(own);
        }
        self.findings(&due, profile)
    }

    /// What is found at the end of the recording.
    pub(super) fn finish(&mut self, profile: Profile) -> Vec<Finding> {
        let due: Vec<PresumedCall> = std::mem::take(&mut self.calls).into();
        self.findings(&due, profile)
    }

    fn findings(&self, due: &[PresumedCall], profile: Profile) -> Vec<Finding> {
        due.iter().filter(|_| self.replied).filter_map(|call| call.finding(profile)).collect()
    }
}

impl PresumedCall {
    fn finding(&self, profile: Profile) -> Option<Finding> {
        let (rule, what) = if self.irreversible {
            (
                &rule::TOOL_UNCONFIRMED,
                "cannot be undone, and no reply to its prompt is among the replies recorded",
            )
        } else {
            (&rule::TOOL_BEFORE_ANSWER, "is called, and no reply to its prompt is among the replies recorded")
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
