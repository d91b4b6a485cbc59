//! What a stream keeps to: its rate, its filters, its language, and changes of them while it is open.

use recount_aaep::Body as AaepBody;
use serde_json::json;

use crate::serve::stage::{Stage, request, summary, text, types};

/// Calls that a full bucket holds back, one for each second: a machine may stop for a minute meanwhile.
const HELD: usize = 100;

#[tokio::test]
async fn critical_events_pass_the_rate_limit_and_all_filters_after_earlier_text() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    let operator = stage.operator();
    let wish = json!({
        "max_events_per_second": 1, "event_filters": { "exclude": ["aaep:agent.awaiting.*"] },
        "supports_clarification_reply": true, "supported_conformance_levels": [1, 2],
    });
    let location =
        stage.subscribe(&operator, &request(wish, json!({ "run_id": run.id, "from": "start" }))).await;
    let mut listener = stage.listen(&operator, &location, None).await;
    assert_eq!(types(&[listener.one().await]), ["session.started"]);
    for word in ["It ", "rains. ", "Take ", "a ", "coat. "] {
        run.write(word).await;
    }
    for number in 0..HELD {
        let call = json!({
            "tool_call_id": format!("c{number}"), "tool_name": "look_up", "kind": "custom", "args_summary": "rain",
        });
        run.report(&[("tool.invoked", call)]).await;
    }
    run.ask_question("q-1").await;
    let received = listener.until(|body| matches!(body, AaepBody::AwaitingClarification(_))).await;
    // Told by the order, not by a clock: at its rate the stream lets one of them go a second.
    let before = types(&received).iter().filter(|name| **name == "tool.invoked").count();
    assert!(before < HELD, "it waits for the rate: {:?}", types(&received));
    assert_eq!(text(&received), "It rains. Take a coat. ");
    listener.until(|body| matches!(body, AaepBody::ToolInvoked(_))).await;
}

#[tokio::test]
async fn the_language_and_the_filters_change_while_a_stream_is_open() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({ "run_id": run.id }))).await;
    let mut listener = stage.listen(&operator, &location, None).await;
    assert!(summary(&listener.one().await).is_ascii());
    let id = location.rsplit('=').next().unwrap();
    let wish = json!({
        "type": "subscription.renegotiate", "subscription_id": id,
        "capabilities": { "languages": ["ar"], "event_filters": { "exclude": ["aaep:agent.output.*"] } },
    });
    let (status, accepted) = stage.post(&operator, "/aaep/v1/replies", &wish).await.json().await;
    assert_eq!((status, &accepted["type"]), (200, &json!("subscription.accepted")));
    assert_eq!(accepted["honored_capabilities"]["languages"], json!(["ar"]));
    run.write("It rains.").await;
    run.finish().await;
    let rest = listener.rest().await;
    assert_eq!(text(&rest), "");
    assert_eq!(types(&rest).last(), Some(&"session.completed"));
    assert!(rest.iter().all(|received| !summary(received).is_ascii()), "{rest:?}");
}

#[tokio::test]
async fn nothing_is_sent_after_a_close_and_the_subscription_is_removed() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({ "run_id": run.id }))).await;
    let mut listener = stage.listen(&operator, &location, None).await;
    listener.one().await;
    assert_eq!(stage.state.figures().subscriptions, 1);
    let id = location.rsplit('=').next().unwrap();
    let close = json!({ "type": "subscription.close", "subscription_id": id, "reason_code": "subscriber_shutdown", "reason_message": "done" });
    let reply = stage.post(&operator, "/aaep/v1/replies", &close).await;
    assert_eq!(reply.status, 204);
    run.write("It rains.").await;
    assert!(listener.rest().await.is_empty());
    assert_eq!(stage.get(&operator, &location, None).await.status, 404);
    assert_eq!(stage.state.figures().subscriptions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_without_a_stream_ends_after_its_grace() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    // tidy: the clock is paused and this moves it
    tokio::time::sleep(recount_face_aaep::limits::SUBSCRIPTION_GRACE / 2).await;
    let listener = stage.listen(&operator, &location, None).await;
    // tidy: the clock is paused and this moves it
    tokio::time::sleep(recount_face_aaep::limits::SUBSCRIPTION_GRACE * 2).await;
    assert_eq!(stage.state.figures().subscriptions, 1, "it has a stream");
    drop(listener);
    // tidy: the clock is paused and this moves it
    tokio::time::sleep(recount_face_aaep::limits::SUBSCRIPTION_GRACE * 2).await;
    assert_eq!(stage.state.figures().subscriptions, 0);
    assert_eq!(stage.get(&operator, &location, None).await.status, 404);
}
