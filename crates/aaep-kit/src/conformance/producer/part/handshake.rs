//! Checks of subscription requests: what is accepted, and which code a rejection has.

use serde_json::{Value, json};

use crate::conformance::producer::specs;
use crate::conformance::producer::stage::{Stage, Trouble, able, request};
use crate::conformance::report::Outcome;
use crate::conformance::talk::Talk;
use crate::conformance::transcript::Scope;
use crate::limits;
use crate::link::{LinkError, Surface, Target};

/// What is asked for, on every axis; the rules hold the answers against it.
fn wishes() -> Vec<(&'static str, Value)> {
    vec![
        ("nothing", json!({})),
        ("one event a second", json!({"max_events_per_second": 1})),
        ("ten languages less one", json!({"languages": ["yo-NG", "ig", "ha", "fr-CA", "de-AT", "en-GB"]})),
        ("one boundary", json!({"coalesce_boundaries": ["paragraph"]})),
        ("no replies", json!({"supports_confirmation_reply": false, "supports_clarification_reply": false})),
        (
            "one reply of two",
            json!({"supports_confirmation_reply": true, "supported_conformance_levels": [1, 2]}),
        ),
        ("level 1 alone", json!({"supported_conformance_levels": [1]})),
        (
            "filters",
            json!({"event_filters": {"include": ["aaep:agent.tool.*"], "exclude": ["aaep:agent.tool.completed"]}}),
        ),
        ("an extension of nobody", json!({"supported_extensions": ["https://example.org/recount/none"]})),
        (
            "everything at once",
            json!({
                "max_events_per_second": 3, "preferred_verbosity": "terse", "languages": ["en-US"],
                "supports_confirmation_reply": true, "supports_clarification_reply": true,
                "coalesce_boundaries": ["word", "completion"], "event_filters": {"exclude": ["aaep:agent.progress.*"]},
                "supported_conformance_levels": [1, 2, 3], "cognitive_load": "low", "pace_wpm": 120,
            }),
        ),
    ]
}

pub(super) async fn run(stage: &Stage<'_>) -> Result<(), Trouble> {
    if !stage.handshakes.load(std::sync::atomic::Ordering::Relaxed) {
        let why = stage.no_handshake();
        stage.failed(&specs::ANSWERED, why.clone(), []);
        return Err(why);
    }
    if stage.wants(&[&specs::ANSWERED]) || stage.wants_rules(&["R-112"]) {
        answered(stage).await;
    }
    if stage.wants(&[&specs::SIGNED_ONLY]) {
        signed_only(stage).await;
    }
    if stage.wants(&[&specs::UNKNOWN_EXTENSION]) {
        unknown_extension(stage).await;
    }
    if stage.wants(&[&specs::VERSION]) {
        version(stage).await;
    }
    if stage.wants(&[&specs::LARGE]) {
        large(stage).await;
    }
    if stage.wants(&[&specs::FULL]) {
        full(stage).await?;
    }
    Ok(())
}

async fn answered(stage: &Stage<'_>) {
    let mut silent = Vec::new();
    let mut count = 0;
    for (what, wish) in wishes() {
        match stage.ask(&format!("a request for {what}"), Scope::Part, &request(wish)).await {
            Ok(talk) => {
                count += 1;
                stage.finish(talk).await;
            }
            Err(why) => silent.push(format!("a request for {what}: {why}")),
        }
    }
    count += malformed(stage, &mut silent).await;
    match silent.as_slice() {
        [] => stage.passed(&specs::ANSWERED, format!("{count} requests")),
        _ => stage.failed(&specs::ANSWERED, "a request got no answer", silent),
    }
}

/// Requests that are none. They can be sent beside a connection over HTTP only.
async fn malformed(stage: &Stage<'_>, silent: &mut Vec<String>) -> usize {
    let (Target::Http { base, surface: Surface::Versioned }, Some(caller)) = (&stage.target, &stage.caller)
    else {
        return 0;
    };
    let url = format!("{base}/subscriptions");
    let bad = [
        ("cut off", "{\"type\":\"subscription.request\"".to_owned()),
        (
            "without capabilities",
            json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "x"})
                .to_string(),
        ),
        ("with a rate in words", request(json!({"max_events_per_second": "ten"}))),
        ("of another type", json!({"type": "subscription.wish"}).to_string()),
    ];
    let mut count = 0;
    for (what, body) in bad {
        match caller.post(&url, body.as_bytes()).await {
            Ok(reply) if reply.is_success() && !reply.body.is_empty() => {
                let answer = String::from_utf8_lossy(&reply.body).into_owned();
                if answer.contains("subscription.accepted") {
                    silent.push(format!("a request {what} was accepted: {answer}"));
                }
                count += 1;
            }
            Ok(reply) if (400..500).contains(&reply.status) => count += 1,
            Ok(reply) => {
                silent.push(format!("a request {what} was answered with {} and nothing else", reply.status))
            }
            Err(why) => silent.push(format!("a request {what}: {why}")),
        }
    }
    count
}

/// The answer to a request, read; the subscription is ended at once.
async fn answer(stage: &Stage<'_>, label: &str, request: &str) -> Result<Value, LinkError> {
    let talk = stage.ask(label, Scope::Part, request).await?;
    let answer = read(&talk);
    stage.finish(talk).await;
    Ok(answer)
}

fn read(talk: &Talk) -> Value {
    talk.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok()).unwrap_or(Value::Null)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

async fn signed_only(stage: &Stage<'_>) {
    let wish = request(able(json!({"accept_signed_manifests_only": true})));
    let spec = &specs::SIGNED_ONLY;
    match answer(stage, "a request for signed manifests only", &wish).await {
        Err(why) => stage.failed(spec, why.to_string(), []),
        Ok(answer) => {
            match (text(&answer, "type"), text(&answer, "reason_code"), text(&answer, "signed_manifest")) {
                ("subscription.accepted", _, "") => {
                    stage.failed(spec, "it was accepted without a signed manifest", [answer.to_string()]);
                }
                ("subscription.accepted", ..) => {
                    stage.passed(spec, "a signed manifest came; its signature was not verified")
                }
                (_, "manifest_signature_required", _) => {
                    stage.passed(spec, "it was refused with `manifest_signature_required`")
                }
                (_, code, _) => {
                    stage.failed(spec, format!("it was refused with `{code}`"), [answer.to_string()])
                }
            }
        }
    }
}

async fn unknown_extension(stage: &Stage<'_>) {
    let wish = request(able(json!({"zz": {"anything": [1, {"deep": true}]}})));
    let spec = &specs::UNKNOWN_EXTENSION;
    match answer(stage, "a request with capabilities of an unknown extension", &wish).await {
        Err(why) => stage.failed(spec, why.to_string(), []),
        Ok(answer) if text(&answer, "type") == "subscription.accepted" => stage.passed(spec, ""),
        Ok(answer) => stage.failed(spec, "it was refused", [answer.to_string()]),
    }
}

async fn version(stage: &Stage<'_>) {
    let mut wish: Value = serde_json::from_str(&request(able(json!({})))).unwrap_or_default();
    wish["aaep_version"] = "99.99.99".into();
    let spec = &specs::VERSION;
    match answer(stage, "a request of version 99.99.99", &wish.to_string()).await {
        Err(why) => stage.failed(spec, why.to_string(), []),
        Ok(answer) => {
            match (text(&answer, "type"), text(&answer, "aaep_version"), text(&answer, "reason_code")) {
                ("subscription.accepted", version, _) if version != "99.99.99" => {
                    let said =
                        format!("it was accepted with version `{version}`, which is allowed; most refuse it");
                    stage.note(spec, Outcome::Warned, said, []);
                }
                ("subscription.accepted", ..) => {
                    stage.failed(spec, "a version that there is not was accepted", [answer.to_string()]);
                }
                (_, _, "version_unsupported") => {
                    stage.passed(spec, "it was refused with `version_unsupported`")
                }
                (_, _, code) => {
                    stage.failed(spec, format!("it was refused with `{code}`"), [answer.to_string()])
                }
            }
        }
    }
}

async fn large(stage: &Stage<'_>) {
    let spec = &specs::LARGE;
    let sized = |bytes: usize| request(able(json!({"zz": {"filler": "x".repeat(bytes)}})));
    let taken = async |bytes| match answer(stage, &format!("a request of {bytes} bytes"), &sized(bytes)).await
    {
        Ok(answer) if text(&answer, "type") == "subscription.accepted" => Ok(()),
        Ok(answer) => Err(answer.to_string()),
        Err(why) => Err(why.to_string()),
    };
    if let Err(why) = taken(64 * 1024).await {
        return stage.failed(spec, "it was not taken", [why]);
    }
    match taken(1024 * 1024).await {
        Ok(()) => stage.passed(spec, "one of 1 MiB as well"),
        Err(_) => stage.note(spec, Outcome::Passed, "one of 1 MiB, as it should be, was not", []),
    }
}

/// As many subscriptions as the manifest says, and one more.
async fn full(stage: &Stage<'_>) -> Result<(), Trouble> {
    let spec = &specs::FULL;
    let most = super::manifest::fetch(stage)
        .await
        .ok()
        .and_then(|manifest| manifest.get("max_concurrent_subscriptions").and_then(Value::as_u64));
    let (Some(most), true) = (most, stage.has_own_terms()) else {
        stage.not_shown(
            spec,
            "the manifest says no `max_concurrent_subscriptions`, so how many are too many is not known",
        );
        return Ok(());
    };
    if most > limits::SUBSCRIPTIONS_TRIED_MAX {
        stage.not_shown(spec, format!("{most} subscriptions are more than are opened here"));
        return Ok(());
    }
    let mut open = Vec::new();
    let mut refusal = None;
    let wish = request(able(json!({})));
    for _ in 0..=most {
        match stage.ask("as many subscriptions as there may be", Scope::Part, &wish).await {
            Ok(talk) if talk.rejected => {
                refusal = Some(read(&talk));
                open.push(talk);
                break;
            }
            Ok(talk) => open.push(talk),
            Err(why) => {
                refusal = Some(json!({"reason_code": why.to_string()}));
                break;
            }
        }
    }
    let had = open.iter().filter(|talk| !talk.rejected).count();
    for talk in open {
        stage.finish(talk).await;
    }
    match refusal {
        None => stage.failed(
            spec,
            format!("{had} subscriptions were accepted, and the manifest says that {most} may be"),
            [],
        ),
        Some(refusal) => {
            let code = text(&refusal, "reason_code");
            let again = refusal.get("retry_after_seconds").and_then(Value::as_u64);
            match (code, again) {
                ("rate_limit", Some(seconds)) => {
                    stage.passed(spec, format!("behind {had} of them, with {seconds} s"))
                }
                ("rate_limit", None) => {
                    stage.failed(spec, "no time to come again was told", [refusal.to_string()])
                }
                _ => stage.failed(spec, format!("it was refused with `{code}`"), [refusal.to_string()]),
            }
        }
    }
    Ok(())
}
