//! Checks of subscription requests: which are accepted, and the reason code of a rejection.

use serde_json::{Value, json};

use crate::conformance::conversation::Conversation;
use crate::conformance::producer::harness::{Harness, PartError, able, request};
use crate::conformance::producer::specs::{self, Spec};
use crate::conformance::report::Outcome;
use crate::conformance::transcript::Scope;
use crate::limits;
use crate::link::{LinkError, Surface, Target};

/// A request for each kind of capability. The rules compare the responses with them.
fn capability_requests() -> Vec<(&'static str, Value)> {
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
        ("an unknown extension", json!({"supported_extensions": ["https://example.org/recount/none"]})),
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

/// Ends the part if the producer answers no handshakes.
pub(super) async fn answers(harness: &Harness<'_>) -> Result<(), PartError> {
    if harness.handshakes.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(());
    }
    let why = harness.no_handshake();
    harness.failed(&specs::ANSWERED, why.clone(), []);
    Err(why)
}

pub(super) async fn answered(harness: &Harness<'_>) -> Result<(), PartError> {
    let mut silent = Vec::new();
    let mut count = 0;
    for (what, wish) in capability_requests() {
        match harness.open_with_request(&format!("a request for {what}"), Scope::Part, &request(wish)).await {
            Ok(conversation) => {
                count += 1;
                harness.finish(conversation).await;
            }
            Err(why) => silent.push(format!("a request for {what}: {why}")),
        }
    }
    count += malformed(harness, &mut silent).await;
    let amiss = (!silent.is_empty()).then_some(silent);
    harness.check(&specs::ANSWERED, amiss, "a request got no response", format!("{count} requests"));
    Ok(())
}

/// Sends malformed requests. Only HTTP can carry them beside a connection.
async fn malformed(harness: &Harness<'_>, silent: &mut Vec<String>) -> usize {
    let (Target::Http { base, surface: Surface::Versioned }, Some(caller)) =
        (&harness.target, &harness.caller)
    else {
        return 0;
    };
    let url = format!("{base}/subscriptions");
    let malformed_requests = [
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
    for (what, body) in malformed_requests {
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

/// The parsed response to a request; the subscription is closed at once.
async fn answer(harness: &Harness<'_>, label: &str, request: &str) -> Result<Value, LinkError> {
    let conversation = harness.open_with_request(label, Scope::Part, request).await?;
    let answer = read(&conversation);
    harness.finish(conversation).await;
    Ok(answer)
}

fn read(conversation: &Conversation) -> Value {
    conversation.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok()).unwrap_or(Value::Null)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Sends a request and evaluates the response.
async fn judged(
    harness: &Harness<'_>,
    spec: &'static Spec,
    label: &str,
    request: &str,
    judge: impl Fn(&Value) -> (Outcome, String),
) -> Result<(), PartError> {
    match answer(harness, label, request).await {
        Err(why) => harness.failed(spec, why.to_string(), []),
        Ok(answer) => {
            let (outcome, detail) = judge(&answer);
            let evidence = (outcome == Outcome::Failed).then(|| answer.to_string());
            harness.note(spec, outcome, detail, evidence);
        }
    }
    Ok(())
}

fn is_accepted(answer: &Value) -> bool {
    text(answer, "type") == "subscription.accepted"
}

/// Checks that a rejection has this code.
fn refused(answer: &Value, code: &str) -> (Outcome, String) {
    let reason_code = text(answer, "reason_code");
    let outcome = if reason_code == code { Outcome::Passed } else { Outcome::Failed };
    (outcome, format!("it was refused with `{reason_code}`"))
}

pub(super) async fn signed_only(harness: &Harness<'_>) -> Result<(), PartError> {
    let wish = request(able(json!({"accept_signed_manifests_only": true})));
    judged(harness, &specs::SIGNED_ONLY, "a request for signed manifests only", &wish, |answer| {
        match (is_accepted(answer), text(answer, "signed_manifest")) {
            (false, _) => refused(answer, "manifest_signature_required"),
            (true, "") => (Outcome::Failed, "it was accepted without a signed manifest".to_owned()),
            _ => (Outcome::Passed, "a signed manifest came; its signature was not verified".to_owned()),
        }
    })
    .await
}

pub(super) async fn unknown_extension(harness: &Harness<'_>) -> Result<(), PartError> {
    let wish = request(able(json!({"zz": {"anything": [1, {"deep": true}]}})));
    let label = "a request with capabilities of an unknown extension";
    judged(harness, &specs::UNKNOWN_EXTENSION, label, &wish, |answer| match is_accepted(answer) {
        true => (Outcome::Passed, String::new()),
        false => (Outcome::Failed, "it was refused".to_owned()),
    })
    .await
}

pub(super) async fn version(harness: &Harness<'_>) -> Result<(), PartError> {
    let mut wish: Value = serde_json::from_str(&request(able(json!({})))).unwrap_or_default();
    wish["aaep_version"] = "99.99.99".into();
    let label = "a request of version 99.99.99";
    judged(harness, &specs::VERSION, label, &wish.to_string(), |answer| {
        match (is_accepted(answer), text(answer, "aaep_version")) {
            (false, _) => refused(answer, "version_unsupported"),
            (true, "99.99.99") => (Outcome::Failed, "an unknown version was accepted".to_owned()),
            (true, version) => {
                let detail =
                    format!("it was accepted with version `{version}`, which is allowed; most refuse it");
                (Outcome::Warned, detail)
            }
        }
    })
    .await
}

pub(super) async fn large(harness: &Harness<'_>) -> Result<(), PartError> {
    let spec = &specs::LARGE;
    let sized = |bytes: usize| request(able(json!({"zz": {"filler": "x".repeat(bytes)}})));
    let taken =
        async |bytes| match answer(harness, &format!("a request of {bytes} bytes"), &sized(bytes)).await {
            Ok(answer) if is_accepted(&answer) => Ok(()),
            Ok(answer) => Err(answer.to_string()),
            Err(why) => Err(why.to_string()),
        };
    if let Err(why) = taken(64 * 1024).await {
        harness.failed(spec, "it was not accepted", [why]);
        return Ok(());
    }
    harness.passed(
        spec,
        match taken(1024 * 1024).await {
            Ok(()) => "one of 1 MiB as well",
            Err(_) => "one of 1 MiB, as it should be, was not",
        },
    );
    Ok(())
}

/// Opens as many subscriptions as the manifest allows, and one more.
pub(super) async fn full(harness: &Harness<'_>) -> Result<(), PartError> {
    let spec = &specs::FULL;
    let most = super::manifest::fetch(harness)
        .await
        .ok()
        .and_then(|manifest| manifest.get("max_concurrent_subscriptions").and_then(Value::as_u64));
    let (Some(most), true) = (most, harness.has_own_terms()) else {
        harness
            .not_shown(spec, "the manifest has no `max_concurrent_subscriptions`, so the limit is unknown");
        return Ok(());
    };
    if most > limits::SUBSCRIPTIONS_TRIED_MAX {
        harness.not_shown(spec, format!("{most} subscriptions are more than this suite opens"));
        return Ok(());
    }
    let mut open = Vec::new();
    let mut refusal = None;
    let wish = request(able(json!({})));
    for _ in 0..=most {
        match harness.open_with_request("as many subscriptions as allowed", Scope::Part, &wish).await {
            Ok(conversation) if conversation.rejected => {
                refusal = Some(read(&conversation));
                open.push(conversation);
                break;
            }
            Ok(conversation) => open.push(conversation),
            Err(why) => {
                refusal = Some(json!({"reason_code": why.to_string()}));
                break;
            }
        }
    }
    let had = open.iter().filter(|conversation| !conversation.rejected).count();
    for conversation in open {
        harness.finish(conversation).await;
    }
    match refusal {
        None => harness.failed(
            spec,
            format!("{had} subscriptions were accepted, but the manifest allows {most}"),
            [],
        ),
        Some(refusal) => {
            let code = text(&refusal, "reason_code");
            let again = refusal.get("retry_after_seconds").and_then(Value::as_u64);
            match (code, again) {
                ("rate_limit", Some(seconds)) => {
                    harness.passed(spec, format!("after {had} of them, with a retry after {seconds} s"))
                }
                ("rate_limit", None) => harness.failed(spec, "no retry time was sent", [refusal.to_string()]),
                _ => harness.failed(spec, format!("it was refused with `{code}`"), [refusal.to_string()]),
            }
        }
    }
    Ok(())
}
