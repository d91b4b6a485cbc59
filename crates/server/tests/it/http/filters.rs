//! Filters of the feed: what is wanted comes, in order and once, and what is not moves the reader on.

use std::collections::BTreeSet;

use recount_event::Code;
use recount_server::access::Access;

use crate::house::{House, STORY, check_problem, elements, text};
use crate::http::access::{ask_as, make_token};
use crate::http::admin::at_home_with;
use crate::wire::{Frame, Listener, events};

/// A run of a task, told in full; the task, and the run.
async fn told_in_task(house: &House) -> (String, String) {
    let made = house.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
    let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
    house.tell(&run, 0, STORY).await;
    (task, run)
}

/// All pages of a filtered feed; checks that cursors only rise. How many pages there were, and the envelopes.
async fn pages(house: &House, filter: &str, limit: usize) -> (usize, Vec<String>) {
    let (mut all, mut after, mut count) = (Vec::new(), -1, 0);
    loop {
        let target = format!("/v1/events?{filter}&limit={limit}&after_position={after}");
        let reply = house.get(&target).await;
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
async fn pages_hold_what_was_asked_for_whatever_their_size() {
    let house = House::memory().await;
    let (task, run) = told_in_task(&house).await;
    let other = house.told_run().await;
    let open = house.new_run().await;
    house.tell(&open, 0, &[("run.started", "{}")]).await;
    let all = house.envelopes("/v1/events").await;
    let naive = |wanted: &dyn Fn(&serde_json::Value) -> bool| -> Vec<String> {
        let wants = |envelope: &&String| wanted(&serde_json::from_str(envelope).unwrap());
        all.iter().filter(wants).cloned().collect()
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
            let (_, found) = pages(&house, &filter, limit).await;
            assert_eq!(found, *expected, "{filter} by {limit}");
        }
    }
    let empty = house.get("/v1/events?type=no.such.type").await.json();
    assert_eq!(empty["next"], all.len() as i64, "an empty page moves the cursor to the end");
    for bad in ["type=Tool", "type=tool*", "run_id=x", "task_id=run_0", "status=done", "kind=agent", "type="]
    {
        let reply = house.get(&format!("/v1/events?{bad}")).await;
        check_problem(&reply, Code::ParameterInvalid, bad);
        let reply = house.get(&format!("/v1/events/stream?{bad}")).await;
        check_problem(&reply, Code::ParameterInvalid, bad);
    }
}

#[tokio::test]
async fn a_stream_goes_on_from_where_it_was_also_over_what_it_was_not_told() {
    let house = House::memory().await;
    let (task, run) = told_in_task(&house).await;
    let filter = format!("/v1/events/stream?task_id={task}&type=run.*,turn.*");
    let mut listener = house.listen(&filter).await;
    let history = events(&listener.until_caught_up().await);
    let wanted: Vec<(u64, String)> = pages(&house, &format!("task_id={task}&type=run.*,turn.*"), 1000)
        .await
        .1
        .into_iter()
        .zip(&history)
        .map(|(envelope, (position, _))| (*position, envelope))
        .collect();
    assert_eq!(history, wanted);
    // What nobody wants here, much of it: the reader is told how far it has come.
    let noise = house.new_run().await;
    house.tell(&noise, 0, &[("run.started", "{}")]).await;
    let piece = ("error.upstream", r#"{"provider":"p","message":"m","retriable":true}"#);
    for seq in 1..=12 {
        house.tell(&noise, seq, &vec![piece; 100]).await;
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
    // A second run of the task, told while nobody listens.
    drop(listener);
    let more = house.post(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await;
    let second = text(&more.data()["id"]);
    assert_ne!(second, run);
    house.tell(&second, 0, STORY).await;
    let again = mark.to_string();
    let mut listener = Listener::open(house.address, &filter, &[("last-event-id", &again)]).await;
    let rest = events(&listener.until_caught_up().await);
    let types: BTreeSet<String> = rest
        .iter()
        .map(|(_, e)| text(&serde_json::from_str::<serde_json::Value>(e).unwrap()["run_id"]))
        .collect();
    assert_eq!(types, BTreeSet::from([second.clone()]), "only what was new, and all of it");
    let expected = pages(&house, &format!("run_id={second}&type=run.*,turn.*"), 1000).await.1;
    assert_eq!(rest.into_iter().map(|(_, envelope)| envelope).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_narrowed_token_s_feed_is_that_of_its_tasks() {
    let data = tempfile::tempdir().unwrap();
    let house = at_home_with(data.path(), Access::default()).await;
    let (task, _) = told_in_task(&house).await;
    let (_, other) = told_in_task(&house).await;
    let narrow =
        make_token(&house, None, &format!(r#"{{"name":"n","scopes":["read"],"tasks":["{task}"]}}"#)).await;
    let page = ask_as(&house, Some(&narrow), "GET", "/v1/events?limit=1000", None).await;
    assert_eq!(elements(page.text()).len(), STORY.len() + 1);
    assert!(!page.text().contains(&other));
    let asked = ask_as(&house, Some(&narrow), "GET", &format!("/v1/events?run_id={other}"), None).await;
    assert!(elements(asked.text()).is_empty(), "{}", asked.text());
    let bearer = format!("Bearer {narrow}");
    let mut listener =
        Listener::open(house.address, "/v1/events/stream", &[("authorization", &bearer)]).await;
    let frames = listener.until_caught_up().await;
    assert_eq!(events(&frames).len(), STORY.len() + 1);
}
