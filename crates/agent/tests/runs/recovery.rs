//! What becomes of runs when the process goes down in the middle of them.

use crate::scene::{Scene, first, types};

#[tokio::test]
async fn a_turn_that_was_cut_off_is_begun_again() {
    let script =
        "[[turn]]\npace = { tokens_per_second = 40 }\ntext = 'a b c d e f g h i j k l m n o p q r s t'";
    let mut scene = Scene::with(script).await;
    let run = scene.ask("go").await;
    scene.until(run, "assistant.text_delta").await;
    scene.restart().await;
    let events = scene.ended(run).await;
    let lost = first!(events, GapRunDisconnected);
    assert_eq!(lost.reason, "server_restarted");
    let failed = first!(events, TurnFailed);
    assert_eq!((failed.code.as_str(), failed.will_retry), ("interrupted", true));
    assert_eq!(events.last().unwrap().type_name(), "run.finished", "{:?}", types(&events));
    assert_eq!(types(&events).iter().filter(|name| **name == "run.started").count(), 2);
    let answer = first!(events, AssistantFinalAnswer).summary;
    assert_eq!(answer, "a b c d e f g h i j k l m n o p q r s t");
}

#[tokio::test]
async fn a_run_in_line_is_begun_by_the_next_process() {
    let script =
        "[[turn]]\npace = { tokens_per_second = 10 }\ntext = 'a b c d e f g h i j k l m n o p q r s t'";
    let mut scene = Scene::under(script, "", 1).await;
    let first = scene.ask("go").await;
    scene.until(first, "assistant.text_delta").await;
    let second = scene.ask("go").await;
    scene.until(second, "run.throttled").await;
    scene.cancel(first).await;
    scene.restart().await;
    scene.until(second, "assistant.text_delta").await;
    scene.cancel(second).await;
    assert_eq!(scene.ended(second).await.last().unwrap().type_name(), "run.cancelled");
}
