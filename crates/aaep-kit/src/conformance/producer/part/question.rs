//! Checks of clarifications, their replies, and handoffs.

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::prompt::outlast;
use super::reply::{PromptRef, shown};
use crate::conformance::conversation::Conversation;
use crate::conformance::judge;
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::transcript::{Line, LineOrigin};
use crate::limits;
use crate::scenario::Scenario;

const KIND: Kind = Kind::AwaitingClarification;

/// The reply kinds that a question accepts: its list, or else those that its choices imply.
fn kinds(question: &Line) -> Vec<String> {
    let listed = question.json.get("accepted_response_kinds").and_then(Value::as_array);
    match listed {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None if question.json.get("choices").is_some() => vec!["multiple_choice".to_owned()],
        None => vec!["freetext".to_owned()],
    }
}

/// A reply of a kind.
fn answer(question: &Line, kind: &str) -> Option<Value> {
    match kind {
        // Unlikely to be a choice, so it is free text only.
        "freetext" => Some(json!("Ouagadougou")),
        "yes_no" => Some(json!(true)),
        "numeric" => Some(json!(7)),
        "multiple_choice" => Some(question.json.get("choices")?.get(0)?.get("value")?.clone()),
        _ => None,
    }
}

/// Replies that a question does not accept.
fn wrong(question: &Line) -> Vec<(&'static str, Value)> {
    let kinds = kinds(question);
    let takes = |kind: &str| kinds.iter().any(|one| one == kind);
    let mut wrong = Vec::new();
    if !takes("numeric") {
        wrong.push(("a number", json!(7)));
    }
    if !takes("yes_no") {
        wrong.push(("yes", json!(true)));
    }
    if !takes("freetext") {
        let what = if takes("multiple_choice") { "a text that is none of the choices" } else { "a text" };
        wrong.push((what, json!("none of these, recount")));
    }
    wrong
}

pub(super) async fn settle_question(
    harness: &Harness<'_>,
    conversations: &[Conversation],
) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let prompt = harness.prompt(conversation, Scenario::Clarify, KIND).await?;
    let question = conversation.read(|lines| lines[prompt].clone());
    let reply = PromptRef::of(conversation, prompt);
    let mut spoilt = false;
    let mut tried = wrong(&question)
        .into_iter()
        .map(|(what, value)| (what, reply.answer(harness, value)))
        .collect::<Vec<_>>();
    tried.push(("a confirmation", reply.decide(harness, "accept")));
    for (what, text) in &tried {
        conversation.send_ineffective(&text.to_string()).await?;
        if let Some(settled) =
            conversation.until(limits::EFFECT_WAIT, |lines| judge::settled(lines, prompt)).await
        {
            let evidence = conversation.read(|lines| shown(lines, [prompt, settled]));
            harness.failed(&specs::WRONG_KIND, format!("{what} was accepted as an answer"), evidence);
            spoilt = true;
            break;
        }
    }
    let kinds = kinds(&question);
    let mut refused = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let Some(value) = answer(&question, kind) else { continue };
        let (prompt, reply) = match number {
            0 if spoilt => continue,
            0 => (prompt, reply.clone()),
            _ => {
                let prompt = harness.prompt(conversation, Scenario::Clarify, KIND).await?;
                (prompt, PromptRef::of(conversation, prompt))
            }
        };
        conversation.send_text(&reply.answer(harness, value).to_string()).await?;
        // Faster than the timeout, which would be the default.
        let question = conversation.read(|lines| lines[prompt].clone());
        let rest = super::prompt::timeout_ms(&question).unwrap_or(u64::MAX) / 3;
        let patience = harness.patience().min(std::time::Duration::from_millis(rest));
        let settled = conversation.until(patience, |lines| judge::settled(lines, prompt)).await;
        if settled.is_none() {
            refused.push((kind.clone(), question.shown()));
        }
        harness.end_of_line(conversation, prompt).await;
    }
    if let [(kind, shown), ..] = refused.as_slice() {
        harness.failed(
            &specs::KINDS,
            format!("an answer of the kind `{kind}` was not accepted"),
            [shown.clone()],
        );
    } else {
        harness.passed(&specs::KINDS, format!("taken: {}", kinds.join(", ")));
    }
    if !spoilt && refused.is_empty() {
        harness.passed(&specs::WRONG_KIND, format!("{} wrong ones had no effect", tried.len()));
    } else if !spoilt {
        harness.failed(&specs::WRONG_KIND, "after wrong answers a right one was not accepted", []);
    }
    unanswered(harness, conversation).await
}

async fn unanswered(harness: &Harness<'_>, conversation: &Conversation) -> Result<(), PartError> {
    let prompt = harness.prompt(conversation, Scenario::Clarify, KIND).await?;
    if let Some((settled, took)) = outlast(harness, conversation, prompt, &specs::UNANSWERED).await {
        let reported = conversation.read(|lines| lines[settled].kind());
        match reported {
            Some(Kind::StateChanged) => {
                harness.passed(&specs::UNANSWERED, format!("`state.changed` came after {took} ms"))
            }
            Some(kind) => harness.passed(&specs::UNANSWERED, format!("`{kind}` came after {took} ms")),
            None => {}
        }
    } else if conversation.read(|lines| judge::settled(lines, prompt)).is_none() {
        let question = conversation.read(|lines| lines[prompt].clone());
        if let Some(value) = kinds(&question).first().and_then(|kind| answer(&question, kind)) {
            conversation
                .send_text(&PromptRef::of(conversation, prompt).answer(harness, value).to_string())
                .await?;
        }
    }
    harness.end_of_line(conversation, prompt).await;
    Ok(())
}

pub(super) async fn handoff(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let session = harness.begin(conversation, Scenario::Handoff).await?;
    let end = harness.end_of(conversation, &session).await;
    conversation.read(|lines| {
        let mut own = lines.iter().filter(|line| line.session() == session);
        let large = own.clone().map(|line| line.text.len()).max().unwrap_or(0);
        let broken = lines.iter().find(|line| line.origin == LineOrigin::Received && line.json.is_null());
        match (large, broken) {
            (_, Some(line)) => {
                let detail = format!("the data is not JSON after {} bytes", line.text.len());
                harness.failed(&specs::LARGE_EVENT, detail, [line.shown()]);
            }
            (limits::LARGE_EVENT_BYTES.., _) => harness.passed(&specs::LARGE_EVENT, format!("{large} bytes")),
            _ => harness.not_shown(&specs::LARGE_EVENT, format!("the largest event had {large} bytes")),
        }
        let signs = own.clone().find(|line| {
            line.str("to_state") == "handing_off" || line.str("error_category") == "requires_user"
        });
        if own.any(|line| line.is(Kind::HandoffRequested)) {
            harness.passed(&specs::HANDED_OVER, "");
        } else if let Some(sign) = signs {
            let evidence = [sign.shown()].into_iter().chain(end.map(|end| lines[end].shown()));
            harness.failed(
                &specs::HANDED_OVER,
                "a person takes over, and `handoff.requested` did not come",
                evidence,
            );
        } else {
            harness.not_shown(&specs::HANDED_OVER, "no handoff came");
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(value: Value) -> Line {
        Line::new(0, 0, LineOrigin::Received, value.to_string())
    }

    ///
    #[test]
    fn wrong_answers_are_of_none_of_the_kinds_that_are_taken() {
        let choices = json!({"choices": [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]});
        let chosen = question(choices);
        assert_eq!(kinds(&chosen), ["multiple_choice"]);
        assert_eq!(answer(&chosen, "multiple_choice"), Some(json!("a")));
        assert_eq!(wrong(&chosen).len(), 3);
        let free = question(json!({"accepted_response_kinds": ["freetext", "numeric"]}));
        assert_eq!(wrong(&free), [("yes", json!(true))]);
        assert_eq!(kinds(&question(json!({}))), ["freetext"]);
    }
}
