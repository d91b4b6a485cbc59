//! Streams that break off and go on: after any frame, on any node, or with a summary of what was missed.

use serde_json::json;

use crate::serve::stage::{Heard, Stage, request, summary, text, types};

/// Words at an even pace, so that frames are cut from texts and merged.
const WORDS: [&str; 6] = ["It rains", " today. Take", " a", " coat, or", " an umbrella", ". Then go."];

#[tokio::test]
async fn a_stream_of_one_run_goes_on_after_any_frame_even_after_a_restart() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    for words in WORDS {
        run.says(words).await;
    }
    run.finishes().await;
    let operator = stage.operator();
    let wish = request(json!({}), json!({ "run_id": run.id, "from": "start" }));
    let location = stage.subscribe(&operator, &wish).await;
    let whole = stage.listen(&operator, &location, None).await.rest().await;
    assert_eq!(text(&whole), WORDS.concat());
    for at in 0..whole.len() - 1 {
        let Some(id) = &whole[at].id else { continue };
        // Another process on the same store, as another node or a later start of this one.
        let other = stage.restarted();
        let location = other.subscribe(&operator, &wish).await;
        let rest = other.listen(&operator, &location, Some(id)).await.rest().await;
        let heard: Vec<Heard> = whole[..=at].iter().chain(&rest).cloned().collect();
        assert_eq!(text(&heard), WORDS.concat(), "after {id}");
        let ends = types(&heard).into_iter().filter(|name| *name == "session.completed").count();
        let begins = types(&heard).into_iter().filter(|name| *name == "session.started").count();
        assert_eq!((begins, ends), (1, 1), "after {id}");
    }
    // After the ending nothing follows, and a client that reconnects by itself stops.
    let last = whole.last().unwrap().id.clone();
    let reply = stage.get(&operator, &location, last.as_deref()).await;
    assert_eq!(reply.status, 404);
}

#[tokio::test]
async fn an_id_that_is_not_known_gets_a_summary_of_what_was_missed() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.says("It rains. ").await;
    let operator = stage.operator();
    for own in [json!({ "run_id": run.id, "from": "start" }), json!({})] {
        for unknown in ["evt_0", "evt_01HZX3Q0M0000000000000000A0000000000100000", "none"] {
            let location = stage.subscribe(&operator, &request(json!({}), own.clone())).await;
            let mut listener = stage.listen(&operator, &location, Some(unknown)).await;
            let first = listener.one().await;
            assert_eq!(types(std::slice::from_ref(&first)), ["state.changed"]);
            assert!(summary(&first).contains("were missed"), "{}", summary(&first));
        }
    }
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    let mut listener = stage.listen(&operator, &location, Some("evt_0")).await;
    listener.one().await;
    run.says("Take a coat.").await;
    run.finishes().await;
    let heard = listener.until(|said| matches!(said, recount_aaep::Body::SessionCompleted(_))).await;
    assert_eq!(text(&heard), "Take a coat.");
}

#[tokio::test]
async fn a_stream_of_all_runs_goes_on_within_its_subscription() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    let mut run = stage.run().await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let mut heard = vec![listener.one().await];
    drop(listener);
    run.says("It rains. ").await;
    run.says("Take a coat.").await;
    run.finishes().await;
    let last = heard.last().unwrap().id.clone();
    let mut again = stage.listen(&operator, &location, last.as_deref()).await;
    heard.extend(again.until(|said| matches!(said, recount_aaep::Body::SessionCompleted(_))).await);
    assert_eq!(text(&heard), "It rains. Take a coat.");
    assert_eq!(types(&heard).into_iter().filter(|name| *name == "session.started").count(), 1);
    drop(again);
    // From a frame before the last, what was sent after it is sent again.
    let early = heard[0].id.clone();
    let mut again = stage.listen(&operator, &location, early.as_deref()).await;
    let repeated = again.until(|said| matches!(said, recount_aaep::Body::SessionCompleted(_))).await;
    let ids = |heard: &[Heard]| heard.iter().map(|heard| heard.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&repeated), ids(&heard[1..]));
}

#[tokio::test]
async fn a_second_stream_takes_the_place_of_the_first() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    let operator = stage.operator();
    for own in [json!({ "run_id": run.id }), json!({})] {
        let location = stage.subscribe(&operator, &request(json!({}), own)).await;
        let mut first = stage.listen(&operator, &location, None).await;
        first.one().await;
        let ends = async {
            assert!(first.rest().await.is_empty());
            drop(first);
        };
        let (mut second, ()) = tokio::join!(stage.listen(&operator, &location, None), ends);
        // A sentence is known to end when the next one begins.
        run.says("It rains. Take").await;
        let heard = second.until(|said| matches!(said, recount_aaep::Body::OutputStreaming(_))).await;
        assert_eq!(text(&heard), "It rains. ");
    }
}

#[tokio::test]
async fn of_a_run_that_was_pruned_a_summary_says_so_and_live_runs_go_on() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let mut old = stage.run().await;
    old.says("It rains. ").await;
    let of_one = request(json!({}), json!({ "run_id": old.id, "from": "start" }));
    let all = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    let mut listener = stage.listen(&operator, &all, None).await;
    listener.one().await;
    old.finishes().await;
    let heard = listener.until(|said| matches!(said, recount_aaep::Body::SessionCompleted(_))).await;
    let last = heard.last().unwrap().id.clone();
    drop(listener);
    stage.engine.admin().prune(old.id, None, "test").await.unwrap();
    // A subscriber to the run, with or without an id of it, is told that it is not stored, and the stream ends.
    for last_event_id in [None, heard[0].id.as_deref()] {
        let location = stage.subscribe(&operator, &of_one).await;
        let rest = stage.listen(&operator, &location, last_event_id).await.rest().await;
        assert_eq!(types(&rest), ["state.changed"], "after {last_event_id:?}: {rest:?}");
        assert!(rest[0].id.is_none(), "nothing can be resumed after it");
    }
    // A stream of all runs goes on after its last frame, and what is live is heard from its start.
    let mut run = stage.run().await;
    let mut again = stage.listen(&operator, &all, last.as_deref()).await;
    run.says("Take a coat.").await;
    run.finishes().await;
    let live = again.until(|said| matches!(said, recount_aaep::Body::SessionCompleted(_))).await;
    assert_eq!((types(&live)[0], text(&live).as_str()), ("session.started", "Take a coat."));
}
