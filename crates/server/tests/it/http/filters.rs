//! Filters of the feed: matching events arrive once and in order; other events only move the cursor.

use std::collections::BTreeSet;

use recount_event::Code;
use recount_server::access::Access;

use crate::http::access::{make_token, request_as};
use crate::http::admin::at_home_with;
use crate::test_context::{STORY, TestContext, check_problem, elements, text};
use crate::wire::{Frame, Listener, events};

/// Creates a task with a complete run; returns the task and the run.
async fn run_in_task(context: &TestContext) -> (String, String) {
    let made = context.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
    let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
    context.report(&run, 0, STORY).await;
    (task, run)
}

/// Reads all pages of a filtered feed; checks that cursors only rise. Returns the number of pages and the envelopes.
async fn pages(context: &TestContext, filter: &str, limit: usize) -> (usize, Vec<String>) {
    let (mut all, mut after, mut count) = (Vec::new(), -1, 0);
    loop {
        let target = format!("/v1/events?{filter}&limit={limit}&after_position={after}");
        let reply = context.get(&target).await;
        assert_eq!(reply.status, 200, "{target}: {}", reply.text());
        let found = elements(reply.text());
        assert!(found.len() <= limit, "{target}");
        all.extend(found);
        count += 1;
        let page = reply.json();
        let next = page["next"].as_i64().unwrap();
        assert!(next >= after, "{target}: {next} is before {after}");
        if page["has_more"] == false {
            return (count, all);
        }
        assert!(next > after, "{target}: the cursor does not move");
        after = next;
    }
}

#[tokio::test]
async fn filtered_pages_are_complete_at_any_size() {
    let context = TestContext::memory().await;
    let (task, run) = run_in_task(&context).await;
    let other = context.run_with_story().await;
    let open = context.new_run().await;
    context.report(&open, 0, &[("run.started", "{}")]).await;
    let all = context.envelopes("/v1/events").await;
    let naive = |wanted: &dyn Fn(&serde_json::Value) -> bool| -> Vec<String> {
        let matches = |envelope: &&String| wanted(&serde_json::from_str(envelope).unwrap());
        all.iter().filter(matches).cloned().collect()
    };
    let type_is =
        |envelope: &serde_json::Value, begin: &str| envelope["type"].as_str().unwrap().starts_with(begin);
    let by_tool = naive(&|envelope| type_is(envelope, "tool.") || envelope["type"] == "run.finished");
    let by_task = naive(&|envelope| envelope["task_id"] == *task);
    let by_runs = naive(&|envelope| envelope["run_id"] == *other || envelope["run_id"] == *open);
    let running = naive(&|envelope| envelope["run_id"] == *open);
    let both = naive(&|envelope| envelope["run_id"] == *run && type_is(envelope, "turn."));
    assert!(!by_tool.is_empty() && !by_task.is_empty() && running.len() == 2 && !both.is_empty());
    for limit in [1, 2, 7, 1000] {
        for (filter, expected) in [
            ("type=tool.*,run.finished".to_owned(), &by_tool),
            (format!("task_id={task}"), &by_task),
            (format!("run_id={other},{open}"), &by_runs),
            ("status=running".to_owned(), &running),
            (format!("run_id={run}&type=turn.*"), &both),
            ("kind=external&type=*".to_owned(), &all),
            ("kind=shell".to_owned(), &Vec::new()),
            ("type=no.such.type".to_owned(), &Vec::new()),
        ] {
            let (_, found) = pages(&context, &filter, limit).await;
            assert_eq!(found, *expected, "{filter} by {limit}");
        }
    }
    let empty = context.get("/v1/events?type=no.such.type").await.json();
    assert_eq!(empty["next"], all.len() as i64, "an empty page moves the cursor to the end");
    for bad in ["type=Tool", "type=tool*", "run_id=x", "task_id=run_0", "status=done", "kind=agent", "type="]
    {
        let reply = context.get(&format!("/v1/events?{bad}")).await;
        check_problem(&reply, Code::ParameterInvalid, bad);
        let reply = context.get(&format!("/v1/events/stream?{bad}")).await;
        check_problem(&reply, Code::ParameterInvalid, bad);
    }
}

#[tokio::test]
async fn a_filtered_stream_resumes_past_skipped_events() {
    let context = TestContext::memory().await;
    let (task, run) = run_in_task(&context).await;
    let filter = format!("/v1/events/stream?task_id={task}&type=run.*,turn.*");
    let mut listener = context.listen(&filter).await;
    let history = events(&listener.until_caught_up().await);
    let wanted: Vec<(u64, String)> = pages(&context, &format!("task_id={task}&type=run.*,turn.*"), 1000)
        .await
        .1
        .into_iter()
        .zip(&history)
        .map(|(envelope, (position, _))| (*position, envelope))
        .collect();
    assert_eq!(history, wanted);
    // Many events do not match: marks move the cursor of the reader.
    let noise = context.new_run().await;
    context.report(&noise, 0, &[("run.started", "{}")]).await;
    let piece = ("error.upstream", r#"{"provider":"p","message":"m","retriable":true}"#);
    for seq in 1..=12 {
        context.report(&noise, seq, &vec![piece; 100]).await;
    }
    let mark = loop {
        match listener.next().await.expect("the stream is open") {
            Frame::Mark { event, id, data } if event == "position" => {
                assert_eq!(data, format!("{{\"position\":{id}}}"));
                break id;
            }
            Frame::Comment(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(mark > wanted.last().unwrap().0, "{mark}");
    // A second run of the task, reported while the reader is disconnected.
    drop(listener);
    let more = context.post(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await;
    let second = text(&more.data()["id"]);
    assert_ne!(second, run);
    context.report(&second, 0, STORY).await;
    let again = mark.to_string();
    let mut listener = Listener::open(context.address, &filter, &[("last-event-id", &again)]).await;
    let rest = events(&listener.until_caught_up().await);
    let types: BTreeSet<String> = rest
        .iter()
        .map(|(_, e)| text(&serde_json::from_str::<serde_json::Value>(e).unwrap()["run_id"]))
        .collect();
    assert_eq!(types, BTreeSet::from([second.clone()]), "only what was new, and all of it");
    let expected = pages(&context, &format!("run_id={second}&type=run.*,turn.*"), 1000).await.1;
    assert_eq!(rest.into_iter().map(|(_, envelope)| envelope).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_narrowed_token_s_feed_is_that_of_its_tasks() {
    let data = tempfile::tempdir().unwrap();
    let context = at_home_with(data.path(), Access::default()).await;
    let (task, _) = run_in_task(&context).await;
    let (_, other) = run_in_task(&context).await;
    let narrow =
        make_token(&context, None, &format!(r#"{{"name":"n","scopes":["read"],"tasks":["{task}"]}}"#)).await;
    let page = request_as(&context, Some(&narrow), "GET", "/v1/events?limit=1000", None).await;
    assert_eq!(elements(page.text()).len(), STORY.len() + 1);
    assert!(!page.text().contains(&other));
    let foreign =
        request_as(&context, Some(&narrow), "GET", &format!("/v1/events?run_id={other}"), None).await;
    assert!(elements(foreign.text()).is_empty(), "{}", foreign.text());
    let bearer = format!("Bearer {narrow}");
    let mut listener =
        Listener::open(context.address, "/v1/events/stream", &[("authorization", &bearer)]).await;
    let frames = listener.until_caught_up().await;
    assert_eq!(events(&frames).len(), STORY.len() + 1);
}
