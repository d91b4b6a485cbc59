//! HTTP conventions: idempotency keys, conditional requests, request ids and trace ids.

use recount_event::Code;
use recount_server::access::Access;

use crate::http::access::{make_token, request_as};
use crate::http::admin::at_home_with;
use crate::test_context::{TestContext, check_problem, text};
use crate::wire::{Reply, Wire, request};

async fn keyed(context: &TestContext, target: &str, key: &str, body: &str) -> Reply {
    context.request("POST", target, &[("idempotency-key", key)], Some(body.as_bytes())).await
}

fn is_replayed(reply: &Reply) -> bool {
    reply.header("idempotency-replayed") == Some("true")
}

#[tokio::test]
async fn a_repeated_creation_gets_the_same_response() {
    let context = TestContext::memory().await;
    // The old prefix names the same routes, so a key counts for both.
    for (target, key, body, other) in [
        ("/v1/runs", "k-1", r#"{"kind":"external","title":"one"}"#, r#"{"kind":"external","title":"two"}"#),
        ("/v1/tasks", "k-1", r#"{"kind":"external","title":"one"}"#, r#"{"title":"two"}"#),
        ("/hecate/v1/tasks", "k-3", r#"{"title":"one"}"#, "{}"),
    ] {
        let first = keyed(&context, target, key, body).await;
        assert_eq!((first.status, is_replayed(&first)), (201, false), "{target}: {}", first.text());
        let again = keyed(&context, target, key, body).await;
        assert_eq!((again.status, is_replayed(&again)), (201, true), "{target}");
        assert_eq!(
            (again.text(), again.header("location")),
            (first.text(), first.header("location")),
            "{target}"
        );
        check_problem(&keyed(&context, target, key, other).await, Code::IdempotencyKeyReused, target);
        let fresh = keyed(&context, target, &format!("{key}-2"), body).await;
        assert_ne!(fresh.data()["id"], first.data()["id"], "{target}: another key creates another object");
        let plain = context.post(target, body).await;
        assert_ne!(plain.data()["id"], first.data()["id"], "{target}: without a key nothing is replayed");
    }
    let runs = context.get("/v1/runs").await.json()["data"].as_array().unwrap().len();
    assert_eq!(runs, 6, "three of their own, three of tasks");
}

#[tokio::test]
async fn refusals_are_not_replayed_and_successes_are() {
    let context = TestContext::memory().await;
    let wrong = keyed(&context, "/v1/runs", "k", r#"{"kind":"no such kind"}"#).await;
    assert_eq!(wrong.status, 400);
    let right = keyed(&context, "/v1/runs", "k", r#"{"kind":"external"}"#).await;
    assert_eq!((right.status, is_replayed(&right)), (201, false), "{}", right.text());
    let run = text(&right.data()["id"]);
    let cancel = format!("/v1/runs/{run}/cancel");
    let first = keyed(&context, &cancel, "k", "{}").await;
    let again = keyed(&context, &cancel, "k", "{}").await;
    assert_eq!((first.status, again.status, is_replayed(&again)), (200, 200, true), "{}", again.text());
    check_problem(&context.post(&cancel, "{}").await, Code::RunEnded, "without the key");
    for bad in ["", &"x".repeat(256)] {
        check_problem(
            &keyed(&context, "/v1/runs", bad, r#"{"kind":"external"}"#).await,
            Code::HeaderInvalid,
            bad,
        );
    }
}

#[tokio::test]
async fn the_same_key_of_another_client_is_another_key() {
    let data = tempfile::tempdir().unwrap();
    let context = at_home_with(data.path(), Access::default()).await;
    let mut made = std::collections::BTreeSet::new();
    let body = r#"{"kind":"external"}"#;
    for name in ["a", "b"] {
        let token = make_token(&context, None, &format!(r#"{{"name":"{name}","scopes":["run"]}}"#)).await;
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
        for _ in 0..2 {
            let reply = context.request("POST", "/v1/runs", &headers, Some(body.as_bytes())).await;
            assert_eq!(reply.status, 201, "{}", reply.text());
            made.insert(text(&reply.data()["id"]));
        }
    }
    assert_eq!(made.len(), 2, "{made:?}");
    assert_eq!(
        request_as(&context, None, "GET", "/v1/runs", None).await.json()["data"].as_array().unwrap().len(),
        2
    );
}

#[tokio::test]
async fn concurrent_requests_with_one_key_create_one_run() {
    let context = TestContext::memory().await;
    let body = br#"{"kind":"external"}"#;
    let mut wires = Vec::new();
    for _ in 0..8 {
        let mut wire = Wire::connect(context.address).await;
        wire.send(&request(context.address, "POST", "/v1/runs", &[("idempotency-key", "k")], Some(body)))
            .await;
        wires.push(wire);
    }
    let mut ids = std::collections::BTreeSet::new();
    for mut wire in wires {
        let reply = wire.reply("POST").await.unwrap();
        match reply.status {
            201 => drop(ids.insert(text(&reply.data()["id"]))),
            _ => drop(check_problem(&reply, Code::IdempotencyInProgress, "at the same time")),
        }
    }
    assert_eq!(ids.len(), 1);
    assert_eq!(context.get("/v1/runs").await.json()["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn idempotency_keys_survive_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(data.path()).await;
    let body = r#"{"kind":"external"}"#;
    let first = keyed(&context, "/v1/runs", "k", body).await;
    context.running.stop().await;
    let context = TestContext::sqlite(data.path()).await;
    let again = keyed(&context, "/v1/runs", "k", body).await;
    assert!(is_replayed(&again));
    assert_eq!(again.text(), first.text());
}

#[tokio::test]
async fn an_unchanged_resource_is_not_modified() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    let target = format!("/v1/runs/{run}");
    let first = context.get(&target).await;
    let tag = first.header("etag").expect("a single object has a tag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    let same = context.request("GET", &target, &[("if-none-match", &tag)], None).await;
    assert_eq!((same.status, same.body.len(), same.header("etag")), (304, 0, Some(tag.as_str())));
    let weak = format!("\"other\", W/{tag}");
    assert_eq!(context.request("GET", &target, &[("if-none-match", &weak)], None).await.status, 304);
    let pinned = context.request("PUT", &format!("{target}/pin"), &[], None).await;
    assert_eq!(pinned.status, 200);
    let changed = context.request("GET", &target, &[("if-none-match", &tag)], None).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    assert!(context.get("/v1/runs").await.header("etag").is_none(), "lists have none");
    assert!(context.get("/v1/runs/x").await.header("etag").is_none(), "nor has a missing object");
}

#[tokio::test]
async fn a_request_keeps_its_given_id() {
    let context = TestContext::memory().await;
    let named = context.request("GET", "/v1/runs/x", &[("x-request-id", "abc-123")], None).await;
    assert_eq!(named.header("x-request-id"), Some("abc-123"));
    assert_eq!(named.json()["request_id"], "abc-123");
    for bad in ["a b", "\"", "<script>", &"x".repeat(129)] {
        let reply = context.request("GET", "/v1/runs/x", &[("x-request-id", bad)], None).await;
        assert!(reply.header("x-request-id").unwrap().starts_with("req_"), "{bad}");
    }
}

#[tokio::test]
async fn a_run_keeps_the_trace_of_its_request() {
    let context = TestContext::memory().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (target, given, expected) in
        [("/v1/runs", trace, true), ("/v1/tasks", trace, true), ("/v1/runs", "00-0-0-0", false)]
    {
        let body = Some(&br#"{"kind":"external"}"#[..]);
        let made = context.request("POST", target, &[("traceparent", given)], body).await.data();
        let run = if made["latest_run_id"].is_null() { &made["id"] } else { &made["latest_run_id"] };
        let events = context.envelopes(&format!("/v1/runs/{}/events", text(run))).await;
        assert_eq!(
            events[0].contains(&format!(r#""traceparent":"{trace}""#)),
            expected,
            "{target}: {}",
            events[0]
        );
    }
}

#[tokio::test]
async fn erased_data_is_not_kept_in_replayed_responses() {
    let data = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(data.path()).await;
    let body = r#"{"title":"canary-5d1f","kind":"external"}"#;
    let made = keyed(&context, "/v1/tasks", "k-1", body).await.data();
    let other = keyed(&context, "/v1/runs", "k-2", r#"{"kind":"external"}"#).await;
    let task = text(&made["id"]);
    assert_eq!(context.request("DELETE", &format!("/v1/tasks/{task}"), &[], None).await.status, 200);
    let again = keyed(&context, "/v1/tasks", "k-1", body).await;
    check_problem(&again, Code::TaskErased, "a task that was created and erased");
    let session =
        text(&keyed(&context, "/v1/sessions", "k-3", r#"{"title":"canary-5d1f"}"#).await.data()["id"]);
    assert_eq!(context.request("DELETE", &format!("/v1/sessions/{session}"), &[], None).await.status, 200);
    let again = keyed(&context, "/v1/sessions", "k-3", r#"{"title":"canary-5d1f"}"#).await;
    check_problem(&again, Code::SessionErased, "a session that was created and erased");
    let shown = keyed(&context, "/v1/runs", "k-2", r#"{"kind":"external"}"#).await;
    assert!(is_replayed(&shown), "the run is still replayed");
    assert_eq!(shown.data()["id"], other.data()["id"]);
    context.running.stop().await;
    for file in ["recount.db", "recount.db-wal"] {
        let bytes = std::fs::read(data.path().join(file)).unwrap_or_default();
        assert!(!bytes.windows(11).any(|window| window == b"canary-5d1f"), "{file}");
    }
}

#[tokio::test]
async fn replies_forbid_sniffing_and_embedding() {
    let context = TestContext::memory().await;
    for (target, status) in
        [("/v1/runs", 200), ("/v1/runs/none", 404), ("/healthz", 200), ("/", 200), ("/no/such/path", 404)]
    {
        let reply = context.get(target).await;
        assert_eq!(reply.status, status, "{target}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{target}");
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"), "{target}");
    }
}
