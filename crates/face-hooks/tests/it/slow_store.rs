//! What happens while an append takes long: queues stay bounded, and a permission is not requested too late.

use serde_json::{Value, json};

use super::agent::{claude, events, post, post_all, runs, types, until};
use super::otlp_traces::{chat, send};
use super::test_context::TestContext;

#[tokio::test(start_paused = true)]
async fn a_permission_that_waits_longer_than_its_client_is_not_requested() {
    let context = TestContext::memory().await;
    let prompt = Some("p-1");
    post_all(&context, "claude", &[claude("UserPromptSubmit", prompt, json!({ "prompt": "clean up" }))])
        .await;
    let release = context.hold_next_append();
    // Its response comes before it is recorded.
    post_all(&context, "claude", &[claude("Notification", prompt, json!({ "message": "slow" }))]).await;
    let call = json!({ "tool_name": "Bash", "tool_input": { "command": "rm -r build" } });
    let permission = claude("PermissionRequest", prompt, call);
    let reply = post(&context, "claude", "?ask=1&wait_seconds=1", &permission).await;
    assert_eq!((reply.status, reply.text()), (200, "{}"));
    release.send(()).unwrap();
    let recorded = until("the permission is recorded", async || {
        let recorded = events(&context, &runs(&context).await[0]).await;
        let is_recorded = recorded
            .iter()
            .any(|(kind, data)| kind == "approval.requested" || data["raw"]["tool_name"] == "Bash");
        is_recorded.then_some(recorded)
    })
    .await;
    assert!(!types(&recorded).contains(&"approval.requested"), "{:?}", types(&recorded));
}

#[tokio::test(start_paused = true)]
async fn queued_spans_are_counted_until_they_are_recorded() {
    let context = TestContext::memory().await;
    let release = context.hold_next_append();
    let text = "x".repeat(8_000);
    let spans: Vec<Value> = (1..=800).map(|id| chat(id, (10, 20), "stop", &text)).collect();
    let mut replies = Vec::new();
    for _ in 0..6 {
        let reply = send(&context, &spans).await;
        assert_eq!(reply.status, 503);
        replies.push(reply.text().contains("too many spans are waiting"));
    }
    assert_eq!((replies.first(), replies.last()), (Some(&false), Some(&true)), "{replies:?}");
    release.send(()).unwrap();
    until("the spans are taken", async || (send(&context, &spans[..1]).await.status == 200).then_some(()))
        .await;
}
