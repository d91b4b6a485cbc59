//! The audit trail: it records what was done, and not what was refused.

use recount_event::Code;
use recount_server::access::Access;
use serde_json::{Value, json};

use crate::http::access::{context_with_token, make_token, request_as};
use crate::http::admin::at_home_with;
use crate::http::damage::change_text;
use crate::test_context::{STORY, TestContext, check_problem, text};

/// The facts of one kind in the trail.
async fn facts(context: &TestContext, token: Option<&str>, kind: &str) -> Vec<Value> {
    let page = request_as(context, token, "GET", "/audit/v1/events?limit=1000", None).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let events = page.json()["data"].as_array().unwrap().clone();
    let of_kind = events.into_iter().filter(|event| event["type"] == format!("ext.recount.{kind}"));
    of_kind.map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn only_what_was_removed_is_recorded_as_removed() {
    let data = tempfile::tempdir().unwrap();
    let context = at_home_with(data.path(), Access::default()).await;
    let made = context.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
    let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
    let refused = context.post(&format!("/v1/runs/{run}/prune"), "{}").await;
    check_problem(&refused, Code::RunActive, "an active run is not pruned");
    let refused = context.post("/v1/prune", r#"{"max_age":"x"}"#).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let nowhere = task.replace("task_0", "task_7");
    let refused = context.request("DELETE", &format!("/v1/tasks/{nowhere}"), &[], None).await;
    check_problem(&refused, Code::TaskNotFound, "an unknown task");
    let refused = context.request("DELETE", "/aap/sessions/chat_01HZX3Q0M0000000000000000A", &[], None).await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    context.report(&run, 0, STORY).await;
    let (prune, delete) = (format!("/v1/runs/{run}/prune"), format!("/v1/tasks/{task}"));
    for _ in 0..2 {
        let key = [("idempotency-key", "once"), ("content-type", "application/json")];
        assert_eq!(context.request("POST", &prune, &key, Some(b"{}")).await.status, 200);
    }
    for status in [200, 410] {
        assert_eq!(context.request("DELETE", &delete, &[], None).await.status, status);
    }
    let removed = facts(&context, None, "removed").await;
    let recorded: Vec<_> = removed.iter().map(|fact| (&fact["path"], &fact["repeated"])).collect();
    let (prune, delete, no, yes) = (json!(prune), json!(delete), json!(null), json!(true));
    assert_eq!(recorded, [(&prune, &no), (&prune, &yes), (&delete, &no)]);
    context.running.stop().await;
}

#[tokio::test]
async fn a_missing_scope_is_recorded_wherever_it_was_noticed() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let token = make_token(&context, Some(&admin), r#"{"name":"ci","scopes":["read"]}"#).await;
    for (method, target) in [("POST", "/v1/prune"), ("GET", "/admin/tokens")] {
        let refused = request_as(&context, Some(&token), method, target, Some("{}")).await;
        check_problem(&refused, Code::ScopeMissing, target);
    }
    assert_eq!(context.running.stop().await, 0);
    // The shutdown records the counted refusals.
    let context = at_home_with(data.path(), Access::default()).await;
    let refused = facts(&context, Some(&admin), "access_refused").await;
    let of_scope = refused.iter().filter(|fact| fact["code"] == "scope_missing");
    assert_eq!(of_scope.map(|fact| fact["times"].as_u64().unwrap()).sum::<u64>(), 2, "{refused:?}");
    context.running.stop().await;
}

#[tokio::test]
async fn failed_removals_are_recorded_as_failed() {
    const MARK: &str = "words that will not stay as they are";
    let data = tempfile::tempdir().unwrap();
    let context = at_home_with(data.path(), Access::default()).await;
    let run = context.new_run().await;
    let marked = format!(r#"{{"text":"{MARK}"}}"#);
    context.report(&run, 0, &[STORY[0], ("ext.mark.made", &marked)]).await;
    context.report(&run, 1, &STORY[1..]).await;
    assert_eq!(context.running.stop().await, 0);
    change_text(data.path(), MARK);
    let context = at_home_with(data.path(), Access::default()).await;
    let refused = context.post(&format!("/v1/runs/{run}/prune"), "{}").await;
    check_problem(&refused, Code::RunDamaged, "a damaged run is not pruned");
    let removed = facts(&context, None, "removed").await;
    let failed: Vec<&Value> = removed.iter().map(|fact| &fact["failed"]).collect();
    assert_eq!(failed, [&json!(500)]);
    context.running.stop().await;
}
