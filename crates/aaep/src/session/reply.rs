//! Checks replies against the prompts that they answer, and applies them.

use super::prompts::{Asks, Modified, Prompt, Standing, takes};
use crate::field::Field;
use crate::lex::time::Moment;
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};
use crate::table::MessageKind;

/// Applies a reply to its prompt; answers whether it counts.
pub(super) fn answer(
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
    match prompt.standing {
        Standing::Open => {}
        // It was sent before the producer went on and only written down behind that.
        Standing::Presumed | Standing::TimedOut | Standing::Unaccepted if earlier => {}
        // That the producer had leave was only presumed; what is recorded says that it had none.
        Standing::Presumed if reply.node().get("decision").is_some_and(|decision| decision.is("reject")) => {}
        Standing::Presumed if !prompt.went_to_call && matches!(prompt.asks, Asks::Leave { .. }) => {
            // The producer had turned away from the action, and this reply is all that is known to allow it.
            prompt.standing = Standing::Unaccepted;
            return refuse(&rule::REPLY_LATE, "the prompt was withdrawn".into());
        }
        _ => return refuse(&rule::REPLY_LATE, "the prompt is settled".into()),
    }
    if matches!((prompt.deadline, moment), (Some(deadline), Some(moment)) if moment > deadline) {
        return refuse(&rule::REPLY_LATE, "the prompt timed out".into());
    }
    let standing = match kind {
        MessageKind::ConfirmationReply => {
            let Asks::Leave { accept, reject, .. } = prompt.asks else {
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
                        Standing::Modified
                    }
                    None => Standing::Accepted,
                },
                "reject" if reject => Standing::Rejected,
                other => {
                    let message = format!("`{}` is not an allowed reply", quote(other));
                    return refuse(&rule::REPLY_INVALID, message);
                }
            }
        }
        _ => match reply.node().get("response").map(|response| takes(&prompt.asks, response, seed)) {
            Some(Ok(())) => Standing::Answered,
            Some(Err(message)) => return refuse(&rule::REPLY_INVALID, message),
            None => return false,
        },
    };
    let open = prompt.standing == Standing::Open;
    prompt.standing = standing;
    if open {
        prompt.settled = moment;
        prompt.followed = false;
    }
    true
}
