//! Several users of one machine, each with agents that are recorded: who may record whom.

use recount_event::Code;
use serde_json::{Value, json};

use crate::house::{House, check_problem};
use crate::http::access::{ask_as, closed_house, make_token};

/// The hooks of one prompt, from its beginning to its end.
fn prompt(session: &str, text: &str) -> Vec<(&'static str, String)> {
    let body = |event: &'static str, mut fields: Value| {
        fields["session_id"] = session.into();
        fields["cwd"] = "/home/me".into();
        fields["prompt_id"] = "p-1".into();
        fields["hook_event_name"] = event.into();
        (event, fields.to_string())
    };
    vec![
        body("UserPromptSubmit", json!({ "prompt": text })),
        body("Stop", json!({ "stop_hook_active": false })),
    ]
}

async fn record(house: &House, token: &str, session: &str, text: &str) {
    for (event, body) in prompt(session, text) {
        let told = ask_as(house, Some(token), "POST", &format!("/hooks/claude/{event}"), Some(&body)).await;
        assert_eq!((told.status, told.text()), (200, "{}"));
    }
}

/// Titles of runs and who asked for them, as a token sees them.
async fn seen(house: &House, token: &str) -> Vec<(String, String)> {
    let runs = ask_as(house, Some(token), "GET", "/v1/runs", None).await;
    assert_eq!(runs.status, 200, "{}", runs.text());
    let mut seen = Vec::new();
    for run in runs.json()["data"].as_array().unwrap() {
        let id = run["id"].as_str().unwrap();
        let events = ask_as(house, Some(token), "GET", &format!("/v1/runs/{id}/events"), None).await.json();
        let by = events["data"][0]["data"]["requested_by"].as_str().unwrap().to_owned();
        seen.push((run["title"].as_str().unwrap().to_owned(), by));
    }
    seen.sort();
    seen
}

#[tokio::test]
async fn each_user_records_under_a_name_of_their_own_and_who_has_no_right_records_nothing() {
    let data = tempfile::tempdir().unwrap();
    let (house, admin) = closed_house(data.path()).await;
    let token = async |body: &str| make_token(&house, Some(&admin), body).await;
    let anna = token(r#"{"name":"anna-agents","scopes":["ingest"]}"#).await;
    let ben = token(r#"{"name":"ben-agents","scopes":["ingest"]}"#).await;
    record(&house, &anna, "s-anna", "by anna").await;
    record(&house, &ben, "s-ben", "by ben").await;
    let both =
        [("by anna".to_owned(), "anna-agents".to_owned()), ("by ben".to_owned(), "ben-agents".to_owned())];
    assert_eq!(seen(&house, &admin).await, both);

    let reader = token(r#"{"name":"reader","scopes":["read","approve","run"]}"#).await;
    let (event, body) = prompt("s-anna", "by another user").remove(0);
    let target = format!("/hooks/claude/{event}");
    for (who, code) in [
        (None, Code::TokenMissing),
        (Some("rct_nobody"), Code::TokenInvalid),
        (Some(&*reader), Code::ScopeMissing),
    ] {
        let refused = ask_as(&house, who, "POST", &target, Some(&body)).await;
        check_problem(&refused, code, "who may not record");
    }
    assert_eq!(seen(&house, &admin).await, both, "nothing was recorded");
    // Who may only record reads nothing, not even what it recorded.
    let read = ask_as(&house, Some(&anna), "GET", "/v1/runs", None).await;
    check_problem(&read, Code::ScopeMissing, "who may only record");
}

#[tokio::test]
async fn users_in_tenants_of_their_own_record_apart_also_under_the_same_session() {
    let data = tempfile::tempdir().unwrap();
    let (house, admin) = closed_house(data.path()).await;
    let token = async |tenant: &str| {
        let body = json!({ "name": tenant, "tenant": tenant, "scopes": ["ingest", "read"] });
        make_token(&house, Some(&admin), &body.to_string()).await
    };
    let (anna, ben) = (token("anna").await, token("ben").await);
    record(&house, &anna, "s-same", "by anna").await;
    record(&house, &ben, "s-same", "by ben").await;
    assert_eq!(seen(&house, &anna).await, [("by anna".to_owned(), "anna".to_owned())]);
    assert_eq!(seen(&house, &ben).await, [("by ben".to_owned(), "ben".to_owned())]);
    assert!(seen(&house, &admin).await.is_empty(), "the tenant of the server has none of it");
}

#[tokio::test]
async fn a_token_for_some_runs_only_records_no_agents() {
    let data = tempfile::tempdir().unwrap();
    let (house, admin) = closed_house(data.path()).await;

    let narrowed =
        json!({ "name": "narrow", "scopes": ["ingest"], "tasks": ["task_01JZZZZZZZZZZZZZZZZZZZZZZZ"] });
    let narrow = make_token(&house, Some(&admin), &narrowed.to_string()).await;
    let (event, body) = prompt("s-1", "by a narrowed token").remove(0);
    let refused = ask_as(&house, Some(&narrow), "POST", &format!("/hooks/claude/{event}"), Some(&body)).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(seen(&house, &admin).await.is_empty());
}
