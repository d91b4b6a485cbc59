//! Checks replies against their prompts and applies them.

use super::prompts::{Modified, Prompt, PromptContent, PromptStatus, check_response};
use crate::field::Field;
use crate::lex::time::Moment;
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};
use crate::table::MessageKind;

/// Applies a reply to its prompt; returns whether it is valid.
pub(super) fn apply_reply(
    prompt: &mut Prompt,
    kind: MessageKind,
    reply: &Reading<'_>,
    seed: u64,
    findings: &mut Findings,
) -> bool {
    let text = reply.doc().text();
    let node = Some(reply.node());
    let moment =
        reply.text(Field::Timestamp).and_then(|text| Moment::parse(&text)).map(|moment| moment.micros);
    let mut refuse = |rule: &'static rule::Rule, message: String| {
        findings.add(rule, text, node, String::new, || message);
        false
    };
    let earlier = matches!((prompt.settled, moment), (Some(settled), Some(moment)) if moment <= settled);
    match prompt.status {
        PromptStatus::Open => {}
        // It was sent before the producer continued, but recorded later.
        PromptStatus::Presumed | PromptStatus::TimedOut | PromptStatus::Unaccepted if earlier => {}
        // The acceptance was only presumed; the recorded rejection overrides it.
        PromptStatus::Presumed
            if reply.node().get("decision").is_some_and(|decision| decision.is("reject")) => {}
        PromptStatus::Presumed
            if !prompt.announced_call && matches!(prompt.content, PromptContent::Confirmation { .. }) =>
        {
            // The producer had withdrawn the prompt, so this late reply does not allow the action.
            prompt.status = PromptStatus::Unaccepted;
            return refuse(&rule::REPLY_LATE, "the prompt was withdrawn".into());
        }
        _ => return refuse(&rule::REPLY_LATE, "the prompt is settled".into()),
    }
    if matches!((prompt.deadline, moment), (Some(deadline), Some(moment)) if moment > deadline) {
        return refuse(&rule::REPLY_LATE, "the prompt timed out".into());
    }
    let status = match kind {
        MessageKind::ConfirmationReply => {
            let PromptContent::Confirmation { accept, reject, .. } = prompt.content else {
                return refuse(
                    &rule::REPLY_INVALID,
                    "a confirmation reply was sent to a clarification prompt".into(),
                );
            };
            let decision = reply.node().get("decision").and_then(crate::json::Node::str).unwrap_or_default();
            match decision.as_ref() {
                "accept" if accept => match reply.node().get("modified_action") {
                    Some(action) => {
                        refuse(&rule::REPLY_MODIFIED, "accepted with changes".into());
                        prompt.modified = Some(Modified::of(action, seed));
                        PromptStatus::Modified
                    }
                    None => PromptStatus::Accepted,
                },
                "reject" if reject => PromptStatus::Rejected,
                other => {
                    let message = format!("`{}` is not an allowed reply", quote(other));
                    return refuse(&rule::REPLY_INVALID, message);
                }
            }
        }
        _ => {
            match reply.node().get("response").map(|response| check_response(&prompt.content, response, seed))
            {
                Some(Ok(())) => PromptStatus::Answered,
                Some(Err(message)) => return refuse(&rule::REPLY_INVALID, message),
                None => return false,
            }
        }
    };
    let open = prompt.status == PromptStatus::Open;
    prompt.status = status;
    if open {
        prompt.settled = moment;
        prompt.followed = false;
    }
    true
}
