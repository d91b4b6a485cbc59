//! Checks of delivery at every level: order, identical bytes for two readers, and complete delivery after a lost
//! connection. It does not depend on prompts.

use std::collections::BTreeSet;

use recount_aaep::Kind;
use serde_json::Value;

use super::listening::{listen, of_session, same_bytes};
use super::reply::shown;
use crate::conformance::conversation::Conversation;
use crate::conformance::judge;
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::transcript::{Line, Scope, Transcript};
use crate::limits;
use crate::scenario::Scenario;

pub(super) const NO_IDS: &str = "frames have no id, so received events cannot be identified";

/// Runs one story on two subscriptions with the same terms.
pub(super) async fn two_readers(
    harness: &Harness<'_>,
    conversations: &[Conversation],
) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let session = harness.begin(conversation, Scenario::LongStream).await?;
    harness.end_of(conversation, &session).await;
    order(harness, &of_session(conversation, &session));
    match conversations.get(1) {
        Some(other) => {
            harness.end_of(other, &session).await;
            same_bytes(harness, &of_session(conversation, &session), &of_session(other, &session));
        }
        None => harness.inapplicable(&specs::SAME_BYTES, super::UNSHARED),
    }
    Ok(())
}

pub(super) fn order(harness: &Harness<'_>, lines: &[Line]) {
    if let Some((line, expected)) = judge::misplaced(lines) {
        return harness.failed(
            &specs::IN_ORDER,
            format!("the next piece should be at {expected}"),
            [line.shown()],
        );
    }
    let number = |line: &Line| line.json.get("sequence_number").and_then(Value::as_u64);
    let mut last: std::collections::BTreeMap<&str, (Option<u64>, Option<i64>)> =
        std::collections::BTreeMap::new();
    for line in lines.iter().filter(|line| line.is_event()) {
        let before = last.insert(line.session(), (number(line), line.stamp_ms()));
        let Some((sequence, stamp)) = before else { continue };
        let falls =
            |before: Option<u64>, now: Option<u64>| matches!((before, now), (Some(a), Some(b)) if b <= a);
        if falls(sequence, number(line)) || matches!((stamp, line.stamp_ms()), (Some(a), Some(b)) if b < a) {
            return harness.failed(&specs::IN_ORDER, "an event came after a later one", [line.shown()]);
        }
    }
    harness
        .passed(&specs::IN_ORDER, format!("{} events", lines.iter().filter(|line| line.is_event()).count()));
}

/// Breaks a connection during a story and resumes after its last event.
pub(super) async fn resumed(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let whole = &conversations[0];
    let conversation = listen(harness, "a reader that breaks off", Scope::Part).await?;
    let id = conversation.id.clone();
    let session = harness.begin(whole, Scenario::LongStream).await?;
    let some = |lines: &[Line]| (lines.iter().filter(|line| line.is_event()).count() >= 10).then_some(());
    conversation.until(harness.patience(), some).await;
    let mut first = conversation.cut().await;
    let last = first.lines.iter().rfind(|line| line.is_event()).and_then(|line| line.id.clone());
    let Some(last) = last else {
        harness.store_transcript(first);
        harness.failed(&specs::RESUMED, NO_IDS, []);
        harness.not_shown(&specs::AT_LEAST_ONCE, "received events cannot be identified");
        harness.end_of(whole, &session).await;
        return Ok(());
    };
    harness.wait(limits::EFFECT_WAIT).await;
    let again = harness.resume("the same reader, come back", id, &last).await?;
    harness.end_of(whole, &session).await;
    harness.end_of(&again, &session).await;
    first.lines.extend(again.lines());
    complete(harness, &first, &of_session(whole, &session), &session, &last);
    harness.store_transcript(first);
    harness.finish(again).await;
    Ok(())
}

fn complete(harness: &Harness<'_>, had: &Transcript, all: &[Line], session: &str, last: &str) {
    // A repeated event counts once.
    let mut ids = BTreeSet::new();
    let had: Vec<Line> =
        had.of_session(session).filter(|line| ids.insert(line.str("event_id").to_owned())).cloned().collect();
    let text = |lines: &[Line]| judge::joined(lines).into_values().collect::<String>();
    let rest = |lines: &[Line]| {
        let others =
            lines.iter().filter(|line| !line.is(Kind::OutputStreaming) && !line.is(Kind::ProgressUpdated));
        others.map(|line| format!("{} {}", line.type_name(), line.str("to_state"))).collect::<Vec<_>>()
    };
    let (mine, theirs) = (text(&had), text(all));
    if mine == theirs && rest(&had) == rest(all) {
        harness.passed(&specs::RESUMED, format!("after `{last}`: nothing was missed"));
        return harness
            .passed(&specs::AT_LEAST_ONCE, format!("{} of {} events were received", had.len(), all.len()));
    }
    let detail = format!(
        "{} of {} characters and {} of {} other events were received",
        mine.chars().count(),
        theirs.chars().count(),
        rest(&had).len(),
        rest(all).len()
    );
    let seam = had.iter().position(|line| line.id.as_deref() == Some(last)).unwrap_or_default();
    let evidence = shown(&had, seam..(seam + 3).min(had.len()));
    harness.failed(&specs::RESUMED, detail.clone(), evidence.clone());
    harness.failed(&specs::AT_LEAST_ONCE, detail, evidence);
}
