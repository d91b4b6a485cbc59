//! Checks of terms that change during a session, and of closing a subscription.

use std::time::Duration;

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::terms::{fine, too_fast};
use crate::conformance::conversation::Conversation;
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::transcript::{Line, LineOrigin, Scope};
use crate::limits;
use crate::scenario::Scenario;

pub(super) async fn run(harness: &Harness<'_>) -> Result<(), PartError> {
    let conversation = harness.subscribe("terms that change", Scope::Part, fine()).await?;
    let other = harness.subscribe("terms that stay", Scope::Whole, fine()).await?;
    let outcome = async {
        if harness.has_selected(&[&specs::RENEGOTIATED]) {
            changed(harness, &conversation, &other).await?;
        }
        if harness.has_selected(&[&specs::NEW_LANGUAGE]) {
            language(harness, &conversation, &other).await?;
        }
        closed(harness, &conversation, &other).await
    };
    let outcome = outcome.await;
    harness.finish(other).await;
    let transcript = conversation.cut().await;
    harness.store_transcript(transcript);
    outcome
}

/// Requests new terms; returns the response and the number of the first line after it.
async fn ask(
    harness: &Harness<'_>,
    conversation: &Conversation,
    capabilities: Value,
) -> Result<(Value, usize), PartError> {
    let id = super::reply::subscription(conversation);
    let wish =
        json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": capabilities});
    let from = conversation.len();
    let answer = conversation.send_text(&wish.to_string()).await?;
    let is_response = |line: &Line| {
        line.origin == LineOrigin::Received
            && matches!(line.type_name(), "subscription.accepted" | "subscription.rejected")
    };
    if let Some(answer) = answer
        && let Ok(text) = String::from_utf8(answer.body)
        && let Ok(value) = serde_json::from_str::<Value>(&text)
        && value.get("type").and_then(Value::as_str).is_some_and(|name| name.starts_with("subscription."))
    {
        conversation.note(LineOrigin::Received, &text);
        return Ok((value, conversation.len()));
    }
    match conversation.line(from, harness.patience(), is_response).await {
        Some(number) => Ok((conversation.read(|lines| lines[number].json.clone()), number + 1)),
        None => Err(format!("a renegotiation was not answered within {} s", harness.patience().as_secs())),
    }
}

fn honoured_value<'v>(answer: &'v Value, name: &str) -> Option<&'v Value> {
    answer.get("honored_capabilities")?.get(name)
}

async fn changed(
    harness: &Harness<'_>,
    conversation: &Conversation,
    other: &Conversation,
) -> Result<(), PartError> {
    let spec = &specs::RENEGOTIATED;
    let rate = limits::RATE_TRIED / 2;
    let session = harness.begin(other, Scenario::LongStream).await?;
    let streaming = |line: &Line| line.is(Kind::OutputStreaming) && line.session() == session;
    conversation.line(0, harness.patience(), streaming).await;
    let (answer, from) = match ask(harness, conversation, json!({"max_events_per_second": rate})).await {
        Ok(found) => found,
        Err(why) => {
            harness.failed(spec, why.clone(), []);
            return Err(why);
        }
    };
    let most = honoured_value(&answer, "max_events_per_second").and_then(Value::as_u64);
    if most.is_none_or(|most| most > u64::from(rate)) {
        harness.failed(spec, format!("{rate} events a second were requested"), [answer.to_string()]);
        return Ok(());
    }
    harness.end_of(conversation, &session).await;
    let mut last = None;
    for _ in 0..limits::RATE_TRIES {
        let from = match last {
            // Events in flight when the terms changed may still follow the old ones.
            None => {
                let at =
                    conversation.read(|lines| lines.get(from.saturating_sub(1)).map_or(0, |line| line.at_ms));
                let settled = at + u64::try_from(limits::IN_FLIGHT.as_millis()).unwrap_or(0);
                conversation
                    .read(|lines| lines.iter().position(|line| line.at_ms > settled).unwrap_or(lines.len()))
            }
            Some(_) => {
                let from = conversation.len();
                let session = harness.begin(other, Scenario::LongStream).await?;
                harness.end_of(conversation, &session).await;
                from
            }
        };
        last = Some(conversation.read(|lines| too_fast(&lines[from..], rate)));
        if last == Some(None) {
            break;
        }
    }
    if let Some(Some((most, _))) = last {
        harness.failed(
            spec,
            format!(
                "the new rate of {rate} a second was accepted, but then {most} events came within one second"
            ),
            [answer.to_string()],
        );
        return Ok(());
    }
    // Omitted terms keep their values: the rate stays when the filters change.
    let (answer, from) =
        ask(harness, conversation, json!({"event_filters": {"exclude": ["aaep:agent.output.*"]}})).await?;
    let kept = honoured_value(&answer, "max_events_per_second").and_then(Value::as_u64);
    if kept.is_none_or(|kept| kept > u64::from(rate)) {
        harness.failed(spec, "the rate was lost when the filters were renegotiated", [answer.to_string()]);
        return Ok(());
    }
    let session = harness.begin(other, Scenario::Stream).await?;
    harness.end_of(conversation, &session).await;
    let leaked = conversation.read(|lines| {
        let output =
            lines[from..].iter().find(|line| line.is(Kind::OutputStreaming) && line.session() == session);
        output.map(|line| [line.shown()])
    });
    let kept = format!("{rate} events a second, then without output: both terms were kept");
    harness.check(spec, leaked, "output came although the new filters exclude it", kept);
    Ok(())
}

async fn language(
    harness: &Harness<'_>,
    conversation: &Conversation,
    other: &Conversation,
) -> Result<(), PartError> {
    let spec = &specs::NEW_LANGUAGE;
    let manifest = super::manifest::fetch(harness).await.unwrap_or(Value::Null);
    let languages: Vec<String> = manifest
        .get("languages_supported")
        .and_then(Value::as_array)
        .map(|tags| tags.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default();
    let language = |line: &Line| {
        let tag = line.json.get("localization_hints").and_then(|hints| hints.get("primary_language"));
        tag.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let now =
        other.read(|lines| lines.iter().rfind(|line| line.is_event()).map(language)).unwrap_or_default();
    let Some(wish) = languages.iter().find(|tag| recount_aaep::language::nearness(tag, &now).is_none())
    else {
        harness.inapplicable(spec, "the manifest names no second language");
        return Ok(());
    };
    let (_, from) = ask(harness, conversation, json!({"languages": [wish]})).await?;
    let session = harness.begin(other, Scenario::Brief).await?;
    harness.end_of(conversation, &session).await;
    let received = conversation.read(|lines| {
        lines[from..]
            .iter()
            .filter(|line| line.session() == session)
            .map(language)
            .find(|tag| !tag.is_empty())
    });
    match received {
        Some(tag) if recount_aaep::language::nearness(wish, &tag).is_some() => {
            harness.passed(spec, format!("from `{now}` to `{tag}`"))
        }
        Some(tag) => harness.failed(spec, format!("`{wish}` was requested, but `{tag}` came"), []),
        None => harness.not_shown(spec, "no event came with its language"),
    }
    Ok(())
}

async fn closed(
    harness: &Harness<'_>,
    conversation: &Conversation,
    other: &Conversation,
) -> Result<(), PartError> {
    let id = super::reply::subscription(conversation);
    let close = json!({
        "type": "subscription.close", "subscription_id": id, "reason_code": "subscriber_shutdown",
        "reason_message": "no more is wanted",
    });
    conversation.send_text(&close.to_string()).await?;
    harness.wait(limits::IN_FLIGHT).await;
    let session = harness.begin(other, Scenario::Brief).await?;
    harness.end_of(other, &session).await;
    harness.wait(harness.silence().min(Duration::from_millis(300))).await;
    // Events in flight before the close may arrive; this session began after it.
    let own = |line: &&Line| line.is_event() && line.session() == session;
    let received = conversation.read(|lines| lines.iter().find(own).map(|line| [line.shown()]));
    harness.check(&specs::CLOSED, received, "an event came", "a session passed without an event");
    Ok(())
}
