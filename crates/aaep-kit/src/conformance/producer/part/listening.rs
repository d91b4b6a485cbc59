//! Opens additional subscriptions and compares what they received.

use super::terms::fine;
use crate::conformance::conversation::Conversation;
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::transcript::{Line, Scope};

pub(super) async fn listen(
    harness: &Harness<'_>,
    label: &str,
    scope: Scope,
) -> Result<Conversation, PartError> {
    if harness.has_own_terms() {
        harness.subscribe(label, scope, fine()).await
    } else {
        harness.listen(label, scope).await
    }
}

pub(super) fn of_session(conversation: &Conversation, session: &str) -> Vec<Line> {
    conversation.read(|lines| {
        lines.iter().filter(|line| line.is_event() && line.session() == session).cloned().collect()
    })
}

pub(super) fn same_bytes(harness: &Harness<'_>, lines: &[Line], others: &[Line]) {
    let mut shared = 0;
    for line in lines.iter().filter(|line| line.is_event()) {
        let twin =
            others.iter().find(|other| other.is_event() && other.str("event_id") == line.str("event_id"));
        let Some(twin) = twin else { continue };
        shared += 1;
        if without_token(twin) != without_token(line) {
            let evidence = [line.shown(), twin.shown()];
            return harness.failed(&specs::SAME_BYTES, "the same event came with other bytes", evidence);
        }
    }
    match shared {
        0 => harness.not_shown(&specs::SAME_BYTES, "no event came to both under the same `event_id`"),
        _ => harness.passed(&specs::SAME_BYTES, format!("{shared} events were the same, byte for byte")),
    }
}

/// The bytes of an event without its reply token, which may differ between subscriptions.
fn without_token(line: &Line) -> String {
    match line.str("reply_token") {
        "" => line.text.clone(),
        token => line.text.replacen(token, "", 1),
    }
}
