//! Tests of the content of streams: one run, from its start or its current state, and all runs of a tenant.

use recount_aaep::Body as AaepBody;
use serde_json::json;

use crate::serve::stage::{Stage, request, summary, text, types};

#[tokio::test]
async fn a_run_is_received_from_its_start_to_its_end() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.write("It rains. ").await;
    let operator = stage.operator();
    let own = json!({ "run_id": run.id, "from": "start" });
    let location = stage.subscribe(&operator, &request(json!({}), own)).await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let mut received = vec![listener.one().await];
    run.write("Take a coat.").await;
    run.finish().await;
    received.extend(listener.rest().await);
    assert_eq!(types(&received)[0], "session.started");
    assert_eq!(types(&received).last(), Some(&"session.completed"));
    assert_eq!(text(&received), "It rains. Take a coat.");
}

#[tokio::test]
async fn a_joining_listener_receives_a_summary_open_prompts_and_later_events() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.write("It rains. ").await;
    run.ask_question("q-1").await;
    let operator = stage.operator();
    let location = stage
        .subscribe(
            &operator,
            &request(
                json!({ "supports_clarification_reply": true, "supported_conformance_levels": [1, 2] }),
                json!({ "run_id": run.id }),
            ),
        )
        .await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let joined = [listener.one().await, listener.one().await];
    assert_eq!(types(&joined), ["state.changed", "awaiting.clarification"]);
    assert!(summary(&joined[0]).contains("Book a room."), "{}", summary(&joined[0]));
    assert!(
        joined.iter().all(|received| received.id.is_none()),
        "a stream is not resumed after them: {joined:?}"
    );
    run.write("Take a coat.").await;
    run.finish().await;
    let rest = listener.rest().await;
    assert_eq!(text(&rest), "Take a coat.");
    assert_eq!(types(&rest).last(), Some(&"session.completed"));
}

#[tokio::test]
async fn an_ended_run_is_received_completely() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.write("It rains.").await;
    run.finish().await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({ "run_id": run.id }))).await;
    let received = stage.listen(&operator, &location, None).await.rest().await;
    assert_eq!((types(&received)[0], text(&received).as_str()), ("session.started", "It rains."));
    assert_eq!(types(&received).last(), Some(&"session.completed"));
}

#[tokio::test]
async fn each_run_is_received_as_its_own_session() {
    let stage = Stage::new().await;
    let mut early = stage.run().await;
    early.write("It rains. ").await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    // What happens before the stream is opened belongs to it.
    let mut late = stage.run().await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let (mut received, mut ended) = (vec![listener.one().await], 0);
    late.write("It snows.").await;
    late.finish().await;
    early.write("Take a coat.").await;
    early.finish().await;
    while ended < 2 {
        let next = listener.one().await;
        ended += usize::from(matches!(next.event.body, AaepBody::SessionCompleted(_)));
        received.push(next);
    }
    let of = |run: &crate::serve::stage::Run| {
        let session = recount_face_aaep::project::session_id(run.id);
        let of: Vec<_> = received
            .iter()
            .filter(|received| received.event.envelope.session_id == session)
            .cloned()
            .collect();
        of
    };
    let (early, late) = (of(&early), of(&late));
    assert_eq!(types(&early)[0], "state.changed", "it is joined");
    assert_eq!(types(&late)[0], "session.started");
    assert_eq!((text(&early).as_str(), text(&late).as_str()), ("Take a coat.", "It snows."));
    assert_eq!(early.len() + late.len(), received.len());
}

#[tokio::test]
async fn a_run_that_ends_before_the_join_is_received_since_the_handshake() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.write("It rains. ").await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    run.write("Take a coat.").await;
    run.finish().await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let received = listener.until(|body| matches!(body, AaepBody::SessionCompleted(_))).await;
    assert!(matches!(text(&received).as_str(), "Take a coat." | ""), "{received:?}");
}
