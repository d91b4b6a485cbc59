//! The audit trail tells what was done: what was refused is not among it.

use recount_event::Code;
use recount_server::access::Access;
use serde_json::{Value, json};

use crate::house::{House, STORY, check_problem, text};
use crate::http::access::{ask_as, closed_house, make_token};
use crate::http::admin::at_home_with;
use crate::http::damage::change_text;

/// What the trail has of a kind.
async fn facts(house: &House, token: Option<&str>, kind: &str) -> Vec<Value> {
    let page = ask_as(house, token, "GET", "/audit/v1/events?limit=1000", None).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let events = page.json()["data"].as_array().unwrap().clone();
    let of_kind = events.into_iter().filter(|event| event["type"] == format!("ext.recount.{kind}"));
    of_kind.map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn only_what_was_removed_is_recorded_as_removed() {
    let data = tempfile::tempdir().unwrap();
    let house = at_home_with(data.path(), Access::default()).await;
    let made = house.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
    let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
    let refused = house.post(&format!("/v1/runs/{run}/prune"), "{}").await;
    check_problem(&refused, Code::RunActive, "an active run is not pruned");
    let refused = house.post("/v1/prune", r#"{"max_age":"x"}"#).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let nowhere = task.replace("task_0", "task_7");
    let refused = house.ask("DELETE", &format!("/v1/tasks/{nowhere}"), &[], None).await;
    check_problem(&refused, Code::TaskNotFound, "an unknown task");
    let refused = house.ask("DELETE", "/aap/sessions/chat_01HZX3Q0M0000000000000000A", &[], None).await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    house.tell(&run, 0, STORY).await;
    let (prune, delete) = (format!("/v1/runs/{run}/prune"), format!("/v1/tasks/{task}"));
    for _ in 0..2 {
        let key = [("idempotency-key", "once"), ("content-type", "application/json")];
        assert_eq!(house.ask("POST", &prune, &key, Some(b"{}")).await.status, 200);
    }
    for status in [200, 410] {
        assert_eq!(house.ask("DELETE", &delete, &[], None).await.status, status);
    }
    let removed = facts(&house, None, "removed").await;
    let told: Vec<_> = removed.iter().map(|fact| (&fact["path"], &fact["repeated"])).collect();
    let (prune, delete, no, yes) = (json!(prune), json!(delete), json!(null), json!(true));
    assert_eq!(told, [(&prune, &no), (&prune, &yes), (&delete, &no)]);
    house.running.stop().await;
}

#[tokio::test]
async fn a_missing_scope_is_recorded_wherever_it_was_noticed() {
    let data = tempfile::tempdir().unwrap();
    let (house, admin) = closed_house(data.path()).await;
    let token = make_token(&house, Some(&admin), r#"{"name":"ci","scopes":["read"]}"#).await;
    for (method, target) in [("POST", "/v1/prune"), ("GET", "/admin/tokens")] {
        let refused = ask_as(&house, Some(&token), method, target, Some("{}")).await;
        check_problem(&refused, Code::ScopeMissing, target);
    }
    assert_eq!(house.running.stop().await, 0);
    // Refusals that were counted are recorded at the latest by the shutdown.
    let house = at_home_with(data.path(), Access::default()).await;
    let refused = facts(&house, Some(&admin), "access_refused").await;
    let of_scope = refused.iter().filter(|fact| fact["code"] == "scope_missing");
    assert_eq!(of_scope.map(|fact| fact["times"].as_u64().unwrap()).sum::<u64>(), 2, "{refused:?}");
    house.running.stop().await;
}

#[tokio::test]
async fn what_the_server_could_not_finish_is_recorded_as_that() {
    const MARK: &str = "words that will not stay as they are";
    let data = tempfile::tempdir().unwrap();
    let house = at_home_with(data.path(), Access::default()).await;
    let run = house.new_run().await;
    let marked = format!(r#"{{"text":"{MARK}"}}"#);
    house.tell(&run, 0, &[STORY[0], ("ext.mark.made", &marked)]).await;
    house.tell(&run, 1, &STORY[1..]).await;
    assert_eq!(house.running.stop().await, 0);
    change_text(data.path(), MARK);
    let house = at_home_with(data.path(), Access::default()).await;
    let refused = house.post(&format!("/v1/runs/{run}/prune"), "{}").await;
    check_problem(&refused, Code::RunDamaged, "a damaged run is not pruned");
    let removed = facts(&house, None, "removed").await;
    let failed: Vec<&Value> = removed.iter().map(|fact| &fact["failed"]).collect();
    assert_eq!(failed, [&json!(500)]);
    house.running.stop().await;
}
