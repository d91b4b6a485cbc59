//! Handshakes that are refused, with their statuses and bodies; messages that are none; the manifest.

use axum::body::{Body, Bytes};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use recount_engine::{Narrowing, Scope};
use recount_event::RunId;
use serde_json::{Value, json};

use recount_face_aaep::limits::BODY_WAIT;

use crate::serve::stage::{Stage, request};

#[tokio::test]
async fn a_request_that_cannot_be_served_is_rejected_with_its_reason_and_status() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let mut version = request(json!({}), json!({}));
    version["aaep_version"] = json!("99.99.99");
    let unknown: RunId = "run_01HZX3Q0M0000000000000000A".parse().unwrap();
    for (body, status, reason) in [
        (json!("text"), 400, "unknown"),
        (json!({ "type": "subscription.request", "aaep_version": "1.0.0" }), 400, "unknown"),
        (version, 400, "version_unsupported"),
        (
            request(json!({ "accept_signed_manifests_only": true }), json!({})),
            409,
            "manifest_signature_required",
        ),
        (request(json!({}), json!({ "run_id": 7 })), 409, "capabilities_incompatible"),
        (request(json!({}), json!({ "run_id": unknown })), 404, "unknown"),
    ] {
        let (found, answer) = stage.post(&operator, "/aaep/v1/subscriptions", &body).await.json().await;
        assert_eq!((found, &answer["reason_code"]), (status, &json!(reason)), "{body}: {answer}");
        assert_eq!(answer["type"], "subscription.rejected");
    }
    let mut unversioned = request(json!({}), json!({}));
    unversioned.as_object_mut().unwrap().remove("aaep_version");
    let (_, answer) = stage.post(&operator, "/aaep/v1/subscriptions", &unversioned).await.json().await;
    assert_eq!(answer["reason_code"], "version_unsupported");
    assert_eq!(
        answer["reason_message"],
        "`aaep_version` is missing; add \"aaep_version\": \"1.0.0\" to the request"
    );
    let (bystander, _revoke) = stage.visitor("tok_1", &[Scope::Run], Narrowing::default());
    let reply = stage.post(&bystander, "/aaep/v1/subscriptions", &request(json!({}), json!({}))).await;
    let (status, answer) = reply.json().await;
    assert_eq!((status, &answer["reason_code"]), (403, &json!("authorization_denied")));
}

#[tokio::test]
async fn an_excess_subscription_is_rejected_with_a_retry_time() {
    let stage = Stage::with_room(1).await;
    let operator = stage.operator();
    let wish = request(json!({}), json!({}));
    stage.subscribe(&operator, &wish).await;
    let reply = stage.post(&operator, "/aaep/v1/subscriptions", &wish).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, "5"));
    let (_, answer) = reply.json().await;
    assert_eq!((&answer["reason_code"], &answer["retry_after_seconds"]), (&json!("rate_limit"), &json!(5)));
}

#[tokio::test]
async fn invalid_messages_are_refused_and_unknown_ids_are_accepted() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    for body in [json!("text"), json!({}), json!({ "type": "subscription.request" })] {
        let (status, answer) = stage.post(&operator, "/aaep/v1/replies", &body).await.json().await;
        assert_eq!((status, &answer["error"]), (400, &json!("invalid_message")), "{body}");
    }
    let close = json!({ "type": "subscription.close", "subscription_id": "sub_1", "reason_code": "x", "reason_message": "y" });
    assert_eq!(stage.post(&operator, "/aaep/v1/replies", &close).await.status, 204);
    for path in ["/aaep/v1/events?subscription_id=sub_1", "/aaep/v1/events?subscription_id=%00"] {
        assert_eq!(stage.get(&operator, path, None).await.status, 404);
    }
    assert_eq!(stage.get(&operator, "/aaep/v1/events", None).await.status, 400);
}

/// The published schema of the response is closed: it has no `extensions`.
#[tokio::test]
async fn a_response_has_an_extension_only_if_the_request_has_it() {
    const PUBLISHED: [&str; 8] = [
        "type",
        "subscription_id",
        "aaep_version",
        "producer",
        "honored_capabilities",
        "manifest_uri",
        "signed_manifest",
        "negotiation_notes",
    ];
    let stage = Stage::new().await;
    for (extensions, own) in [
        (json!(null), None),
        (json!({}), None),
        (json!({ "medai": { "ward": 7 } }), None),
        (json!({ "recount": {} }), Some(json!({ "redaction": "full" }))),
        (json!({ "recount": { "redaction": "envelope" } }), Some(json!({ "redaction": "envelope" }))),
    ] {
        let mut wish = request(json!({ "languages": ["yo"] }), json!({}));
        match extensions.is_null() {
            true => drop(wish.as_object_mut().unwrap().remove("extensions")),
            false => wish["extensions"] = extensions.clone(),
        }
        let reply = stage.post(&stage.operator(), "/aaep/v1/subscriptions", &wish).await;
        let (status, mut accepted) = reply.json().await;
        assert_eq!((status, &accepted["type"]), (201, &json!("subscription.accepted")), "{accepted}");
        let found = accepted.as_object_mut().unwrap().remove("extensions");
        assert_eq!(found.map(|mut found| found["recount"].take()), own, "{extensions}");
        for field in accepted.as_object().unwrap().keys() {
            assert!(PUBLISHED.contains(&field.as_str()), "{field}: {accepted}");
        }
    }
}

#[tokio::test]
async fn the_manifest_is_read_without_a_token_and_lists_the_extensions_in_use() {
    let stage = Stage::new().await;
    let read = Request::get("/.well-known/aaep-manifest.json").body(Body::empty()).unwrap();
    let response = stage.send(read, None).await;
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let manifest: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(manifest["extensions_supported"], json!([recount_aaep::shaping::EXTENSION_CONTEXT]));
    let subscribe = Request::post("/aaep/v1/subscriptions").body(Body::from("{}")).unwrap();
    assert_eq!(stage.send(subscribe, None).await.status(), 401);
}

#[tokio::test]
async fn the_manifest_matches_the_face() {
    let stage = Stage::new().await;
    let (status, manifest) =
        stage.get(&stage.operator(), "/.well-known/aaep-manifest.json", None).await.json().await;
    assert_eq!((status, &manifest["type"]), (200, &json!("aaep:producer.manifest")));
    assert_eq!(manifest["multi_agent_pattern"], "linked_sessions");
    assert_eq!(manifest["transports_supported"], json!(["sse", "websocket", "stdio-jsonrpc"]));
    let states: Vec<&Value> = manifest["states"].as_array().unwrap().iter().collect();
    for (from, tos) in manifest["extensions"]["recount"]["state_transitions"].as_object().unwrap() {
        assert!(states.iter().any(|state| *state == from), "{from}");
        assert!(tos.as_array().unwrap().iter().all(|to| states.contains(&to)), "{from}: {tos}");
    }
    let own = manifest["extensions"]["recount"]["messages"].as_object().unwrap();
    assert!(own.contains_key("recount.extend") && own.contains_key("recount.control"), "{own:?}");
    let subscribe = manifest["endpoints"]["subscriptions"].as_str().unwrap();
    let reply = stage.post(&stage.operator(), subscribe, &request(json!({}), json!({}))).await;
    assert_eq!(reply.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out() {
    let stage = Stage::new().await;
    for path in ["/aaep/v1/subscriptions", "/aaep/v1/replies"] {
        let never = Empty::<Bytes>::new().with_trailers(std::future::pending());
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Body::new(never)).unwrap();
        let began = recount_world::moment();
        let response = stage.send(request, Some(stage.operator())).await;
        assert_eq!(response.status(), 408, "{path}");
        let waited = began.elapsed();
        assert!((BODY_WAIT..BODY_WAIT * 2).contains(&waited), "{path}: {waited:?}");
    }
}
