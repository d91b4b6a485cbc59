//! Streams that break off and go on: after any frame, on any node, or with a summary of what was missed.

use serde_json::json;

use crate::serve::stage::{ReceivedEvent, Stage, request, summary, text, types};

/// Words at an even pace, so that frames are cut from texts and merged.
const WORDS: [&str; 6] = ["It rains", " today. Take", " a", " coat, or", " an umbrella", ". Then go."];

#[tokio::test]
async fn a_stream_of_one_run_resumes_after_any_frame_even_after_a_restart() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    for words in WORDS {
        run.write(words).await;
    }
    run.finish().await;
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
        let received: Vec<ReceivedEvent> = whole[..=at].iter().chain(&rest).cloned().collect();
        assert_eq!(text(&received), WORDS.concat(), "after {id}");
        let ends = types(&received).into_iter().filter(|name| *name == "session.completed").count();
        let begins = types(&received).into_iter().filter(|name| *name == "session.started").count();
        assert_eq!((begins, ends), (1, 1), "after {id}");
    }
    // After the ending nothing follows, and a client that reconnects by itself stops.
    let last = whole.last().unwrap().id.clone();
    let reply = stage.get(&operator, &location, last.as_deref()).await;
    assert_eq!(reply.status, 404);
}

#[tokio::test]
async fn an_unknown_resume_id_gets_a_summary_of_the_missed_events() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.write("It rains. ").await;
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
    run.write("Take a coat.").await;
    run.finish().await;
    let received = listener.until(|body| matches!(body, recount_aaep::Body::SessionCompleted(_))).await;
    assert_eq!(text(&received), "Take a coat.");
}

#[tokio::test]
async fn a_stream_of_all_runs_resumes_within_its_subscription() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let location = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    let mut run = stage.run().await;
    let mut listener = stage.listen(&operator, &location, None).await;
    let mut received = vec![listener.one().await];
    drop(listener);
    run.write("It rains. ").await;
    run.write("Take a coat.").await;
    run.finish().await;
    let last = received.last().unwrap().id.clone();
    let mut again = stage.listen(&operator, &location, last.as_deref()).await;
    received.extend(again.until(|body| matches!(body, recount_aaep::Body::SessionCompleted(_))).await);
    assert_eq!(text(&received), "It rains. Take a coat.");
    assert_eq!(types(&received).into_iter().filter(|name| *name == "session.started").count(), 1);
    drop(again);
    // From a frame before the last, what was sent after it is sent again.
    let early = received[0].id.clone();
    let mut again = stage.listen(&operator, &location, early.as_deref()).await;
    let repeated = again.until(|body| matches!(body, recount_aaep::Body::SessionCompleted(_))).await;
    let ids =
        |received: &[ReceivedEvent]| received.iter().map(|received| received.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&repeated), ids(&received[1..]));
}

#[tokio::test]
async fn a_second_stream_replaces_the_first() {
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
        run.write("It rains. Take").await;
        let received = second.until(|body| matches!(body, recount_aaep::Body::OutputStreaming(_))).await;
        assert_eq!(text(&received), "It rains. ");
    }
}

#[tokio::test]
async fn a_summary_reports_a_pruned_run_and_live_runs_continue() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let mut old = stage.run().await;
    old.write("It rains. ").await;
    let of_one = request(json!({}), json!({ "run_id": old.id, "from": "start" }));
    let all = stage.subscribe(&operator, &request(json!({}), json!({}))).await;
    let mut listener = stage.listen(&operator, &all, None).await;
    listener.one().await;
    old.finish().await;
    let received = listener.until(|body| matches!(body, recount_aaep::Body::SessionCompleted(_))).await;
    let last = received.last().unwrap().id.clone();
    drop(listener);
    stage.engine.admin().prune(old.id, None, "test").await.unwrap();
    // A subscriber to the run, with or without a resume id, learns that the run is not stored, and the stream ends.
    for last_event_id in [None, received[0].id.as_deref()] {
        let location = stage.subscribe(&operator, &of_one).await;
        let rest = stage.listen(&operator, &location, last_event_id).await.rest().await;
        assert_eq!(types(&rest), ["state.changed"], "after {last_event_id:?}: {rest:?}");
        assert!(rest[0].id.is_none(), "nothing can be resumed after it");
    }
    // A stream of all runs continues after its last frame, and live runs are received from their start.
    let mut run = stage.run().await;
    let mut again = stage.listen(&operator, &all, last.as_deref()).await;
    run.write("Take a coat.").await;
    run.finish().await;
    let live = again.until(|body| matches!(body, recount_aaep::Body::SessionCompleted(_))).await;
    assert_eq!((types(&live)[0], text(&live).as_str()), ("session.started", "Take a coat."));
}
