//! What a stream carries: one run, from its start or from where it stands, and all runs of a tenant.

use recount_aaep::Body as Said;
use serde_json::json;

use crate::serve::stage::{Stage, request, summary, text, types};

#[tokio::test]
async fn a_run_is_heard_from_its_beginning_to_its_end() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.says("It rains. ").await;
    let operator = stage.operator();
    let own = json!({ "run_id": run.id, "from": "start" });
    let location = stage.subscribe(&operator, &request(json!({}), own)).await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let mut heard = vec![listener.one().await];
    run.says("Take a coat.").await;
    run.finishes().await;
    heard.extend(listener.rest().await);
    assert_eq!(types(&heard)[0], "session.started");
    assert_eq!(types(&heard).last(), Some(&"session.completed"));
    assert_eq!(text(&heard), "It rains. Take a coat.");
}

#[tokio::test]
async fn a_listener_that_joins_hears_a_summary_and_open_prompts_and_then_what_follows() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.says("It rains. ").await;
    run.asks("q-1").await;
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
    assert!(joined.iter().all(|heard| heard.id.is_none()), "a stream is not resumed after them: {joined:?}");
    run.says("Take a coat.").await;
    run.finishes().await;
    let rest = listener.rest().await;
    assert_eq!(text(&rest), "Take a coat.");
    assert_eq!(types(&rest).last(), Some(&"session.completed"));
}

#[tokio::test]
async fn a_run_that_has_ended_is_heard_whole() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.says("It rains.").await;
    run.finishes().await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({ "run_id": run.id }))).await;
    let heard = stage.listen(&operator, &location, None).await.rest().await;
    assert_eq!((types(&heard)[0], text(&heard).as_str()), ("session.started", "It rains."));
    assert_eq!(types(&heard).last(), Some(&"session.completed"));
}

#[tokio::test]
async fn all_runs_are_heard_each_as_a_session_of_its_own() {
    let stage = Stage::new().await;
    let mut early = stage.run().await;
    early.says("It rains. ").await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    // What happens before the stream is opened belongs to it.
    let mut late = stage.run().await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let (mut heard, mut ended) = (vec![listener.one().await], 0);
    late.says("It snows.").await;
    late.finishes().await;
    early.says("Take a coat.").await;
    early.finishes().await;
    while ended < 2 {
        let next = listener.one().await;
        ended += usize::from(matches!(next.event.body, Said::SessionCompleted(_)));
        heard.push(next);
    }
    let of = |run: &crate::serve::stage::Run| {
        let session = recount_face_aaep::project::session_id(run.id);
        let of: Vec<_> =
            heard.iter().filter(|heard| heard.event.envelope.session_id == session).cloned().collect();
        of
    };
    let (early, late) = (of(&early), of(&late));
    assert_eq!(types(&early)[0], "state.changed", "it is joined");
    assert_eq!(types(&late)[0], "session.started");
    assert_eq!((text(&early).as_str(), text(&late).as_str()), ("Take a coat.", "It snows."));
    assert_eq!(early.len() + late.len(), heard.len());
}

#[tokio::test]
async fn of_a_run_that_ends_before_it_is_joined_everything_since_the_handshake_is_heard() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.says("It rains. ").await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    run.says("Take a coat.").await;
    run.finishes().await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let heard = listener.until(|said| matches!(said, Said::SessionCompleted(_))).await;
    assert!(matches!(text(&heard).as_str(), "Take a coat." | ""), "{heard:?}");
}
