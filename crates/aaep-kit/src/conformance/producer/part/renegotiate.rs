//! Checks of terms that change while events are sent, and of closing a subscription.

use std::time::Duration;

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::terms::{fine, too_fast};
use crate::conformance::producer::specs;
use crate::conformance::producer::stage::{Stage, Trouble};
use crate::conformance::talk::Talk;
use crate::conformance::transcript::{Line, Scope, Way};
use crate::limits;
use crate::scenario::Scenario;

pub(super) async fn run(stage: &Stage<'_>) -> Result<(), Trouble> {
    let talk = stage.subscribe("terms that change", Scope::Part, fine()).await?;
    let other = stage.subscribe("terms that stay", Scope::Whole, fine()).await?;
    let outcome = async {
        if stage.wants(&[&specs::RENEGOTIATED]) {
            changed(stage, &talk, &other).await?;
        }
        if stage.wants(&[&specs::NEW_LANGUAGE]) {
            language(stage, &talk, &other).await?;
        }
        closed(stage, &talk, &other).await
    };
    let outcome = outcome.await;
    stage.finish(other).await;
    let transcript = talk.cut().await;
    stage.keep(transcript);
    outcome
}

/// Asks for new terms; answers what was said to it, and where the lines behind it begin.
async fn ask(stage: &Stage<'_>, talk: &Talk, capabilities: Value) -> Result<(Value, usize), Trouble> {
    let id = super::reply::subscription(talk);
    let wish =
        json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": capabilities});
    let from = talk.len();
    let answer = talk.say(&wish.to_string()).await?;
    let said = |line: &Line| {
        line.way == Way::Heard
            && matches!(line.type_name(), "subscription.accepted" | "subscription.rejected")
    };
    if let Some(answer) = answer
        && let Ok(text) = String::from_utf8(answer.body)
        && let Ok(value) = serde_json::from_str::<Value>(&text)
        && value.get("type").and_then(Value::as_str).is_some_and(|name| name.starts_with("subscription."))
    {
        talk.note(Way::Heard, &text);
        return Ok((value, talk.len()));
    }
    match talk.line(from, stage.patience(), said).await {
        Some(number) => Ok((talk.read(|lines| lines[number].json.clone()), number + 1)),
        None => Err(format!("a renegotiation was not answered within {} s", stage.patience().as_secs())),
    }
}

fn honoured<'v>(answer: &'v Value, name: &str) -> Option<&'v Value> {
    answer.get("honored_capabilities")?.get(name)
}

async fn changed(stage: &Stage<'_>, talk: &Talk, other: &Talk) -> Result<(), Trouble> {
    let spec = &specs::RENEGOTIATED;
    let rate = limits::RATE_TRIED / 2;
    let session = stage.begin(other, Scenario::LongStream).await?;
    let streaming = |line: &Line| line.is(Kind::OutputStreaming) && line.session() == session;
    talk.line(0, stage.patience(), streaming).await;
    let (answer, from) = match ask(stage, talk, json!({"max_events_per_second": rate})).await {
        Ok(found) => found,
        Err(why) => {
            stage.failed(spec, why.clone(), []);
            return Err(why);
        }
    };
    let most = honoured(&answer, "max_events_per_second").and_then(Value::as_u64);
    if most.is_none_or(|most| most > u64::from(rate)) {
        stage.failed(spec, format!("{rate} events a second were asked for"), [answer.to_string()]);
        return Ok(());
    }
    stage.end_of(talk, &session).await;
    let mut last = None;
    for _ in 0..limits::RATE_TRIES {
        let from = match last {
            // What was on its way when the terms changed may still follow the old ones.
            None => {
                let at = talk.read(|lines| lines.get(from.saturating_sub(1)).map_or(0, |line| line.at_ms));
                let settled = at + u64::try_from(limits::IN_FLIGHT.as_millis()).unwrap_or(0);
                talk.read(|lines| lines.iter().position(|line| line.at_ms > settled).unwrap_or(lines.len()))
            }
            Some(_) => {
                let from = talk.len();
                let session = stage.begin(other, Scenario::LongStream).await?;
                stage.end_of(talk, &session).await;
                from
            }
        };
        last = Some(talk.read(|lines| too_fast(&lines[from..], rate)));
        if last == Some(None) {
            break;
        }
    }
    if let Some(Some((most, _))) = last {
        stage.failed(
            spec,
            format!("{rate} a second were accepted anew, and then {most} events came within one second"),
            [answer.to_string()],
        );
        return Ok(());
    }
    // What is not said keeps its value: the rate stays when the filters change.
    let (answer, from) =
        ask(stage, talk, json!({"event_filters": {"exclude": ["aaep:agent.output.*"]}})).await?;
    let kept = honoured(&answer, "max_events_per_second").and_then(Value::as_u64);
    if kept.is_none_or(|kept| kept > u64::from(rate)) {
        stage.failed(spec, "the rate was lost when the filters were negotiated anew", [answer.to_string()]);
        return Ok(());
    }
    let session = stage.begin(other, Scenario::Stream).await?;
    stage.end_of(talk, &session).await;
    let leaked = talk.read(|lines| {
        let output =
            lines[from..].iter().find(|line| line.is(Kind::OutputStreaming) && line.session() == session);
        output.map(|line| [line.shown()])
    });
    let kept = format!("{rate} events a second, then without output: both were kept to");
    stage.hold(spec, leaked, "output came although it had been filtered out anew", kept);
    Ok(())
}

async fn language(stage: &Stage<'_>, talk: &Talk, other: &Talk) -> Result<(), Trouble> {
    let spec = &specs::NEW_LANGUAGE;
    let manifest = super::manifest::fetch(stage).await.unwrap_or(Value::Null);
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
        stage.inapplicable(spec, "the manifest names no second language");
        return Ok(());
    };
    let (_, from) = ask(stage, talk, json!({"languages": [wish]})).await?;
    let session = stage.begin(other, Scenario::Brief).await?;
    stage.end_of(talk, &session).await;
    let heard = talk.read(|lines| {
        lines[from..]
            .iter()
            .filter(|line| line.session() == session)
            .map(language)
            .find(|tag| !tag.is_empty())
    });
    match heard {
        Some(tag) if recount_aaep::language::nearness(wish, &tag).is_some() => {
            stage.passed(spec, format!("from `{now}` to `{tag}`"))
        }
        Some(tag) => stage.failed(spec, format!("`{wish}` was asked for and `{tag}` came"), []),
        None => stage.not_shown(spec, "no event came that says its language"),
    }
    Ok(())
}

async fn closed(stage: &Stage<'_>, talk: &Talk, other: &Talk) -> Result<(), Trouble> {
    let id = super::reply::subscription(talk);
    let close = json!({
        "type": "subscription.close", "subscription_id": id, "reason_code": "subscriber_shutdown",
        "reason_message": "no more is wanted",
    });
    talk.say(&close.to_string()).await?;
    stage.wait(limits::IN_FLIGHT).await;
    let session = stage.begin(other, Scenario::Brief).await?;
    stage.end_of(other, &session).await;
    stage.wait(stage.silence().min(Duration::from_millis(300))).await;
    // What was on its way before the close may come; this session began after it.
    let own = |line: &&Line| line.is_event() && line.session() == session;
    let heard = talk.read(|lines| lines.iter().find(own).map(|line| [line.shown()]));
    stage.hold(&specs::CLOSED, heard, "an event came", "a session passed without a word");
    Ok(())
}
