//! What a stream of one run carries: its history, then what happens.

use serde_json::json;

use crate::stage::{Stage, request, text, types};

#[tokio::test]
async fn a_run_is_heard_from_its_beginning_to_its_end() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.says("It rains. ").await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({ "run_id": run.id }))).await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let mut heard = vec![listener.next().await.unwrap()];
    run.says("Take a coat.").await;
    run.finishes().await;
    heard.extend(listener.rest().await);
    assert_eq!(types(&heard)[0], "session.started");
    assert_eq!(types(&heard).last(), Some(&"session.completed"));
    assert_eq!(text(&heard), "It rains. Take a coat.");
}
