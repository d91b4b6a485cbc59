//! Checks messages that are not events (handshake, replies, manifest) against the rules.

use super::Findings;
use crate::quote::quote;
use crate::reading::Reading;
use crate::rules;
use crate::shape::MismatchKind;
use crate::table::MessageKind;

/// Checks a message against the rules.
pub fn check_message(kind: MessageKind, reading: &Reading<'_>, findings: &mut Findings) {
    let from = findings.found.len();
    let doc = reading.doc();
    let text = doc.text();
    kind.fields().check(reading.node(), &mut |mismatch| {
        let node = mismatch.node;
        let path = || doc.path_at(node.offset());
        match mismatch.kind {
            MismatchKind::Wrong(message) => {
                findings.add(&rules::MESSAGE_FORM, text, Some(node), path, || message)
            }
            MismatchKind::Missing(name) => {
                let reply = matches!(kind, MessageKind::ConfirmationReply | MessageKind::ClarificationReply);
                let address = reply && matches!(name, "subscription_id" | "timestamp");
                let rule = if address { &rules::REPLY_ADDRESS } else { &rules::MESSAGE_REQUIRED };
                findings.add(rule, text, Some(node), path, || format!("`{name}` is missing"));
            }
            MismatchKind::Unknown => {
                let message = || format!("unknown field `{}`", quote(node.raw()));
                findings.add(&rules::MESSAGE_UNKNOWN, text, Some(node), path, message);
            }
            MismatchKind::Graded(rule, lex) => {
                let message = || format!("`{}` is not {}, as `{}`", quote(node.raw()), lex.name, lex.example);
                findings.add(rule, text, Some(node), path, message);
            }
        }
    });
    findings.settle(from, None);
}
