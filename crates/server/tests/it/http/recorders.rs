//! Recording for several users of one machine: names, tenants and scopes.

use recount_event::Code;
use serde_json::{Value, json};

use crate::http::access::{context_with_token, make_token, request_as};
use crate::test_context::{TestContext, check_problem};

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

async fn record(context: &TestContext, token: &str, session: &str, text: &str) {
    for (event, body) in prompt(session, text) {
        let reply =
            request_as(context, Some(token), "POST", &format!("/hooks/claude/{event}"), Some(&body)).await;
        assert_eq!((reply.status, reply.text()), (200, "{}"));
    }
}

/// Titles and requesters of the runs that a token can see.
async fn seen(context: &TestContext, token: &str) -> Vec<(String, String)> {
    let runs = request_as(context, Some(token), "GET", "/v1/runs", None).await;
    assert_eq!(runs.status, 200, "{}", runs.text());
    let mut seen = Vec::new();
    for run in runs.json()["data"].as_array().unwrap() {
        let id = run["id"].as_str().unwrap();
        let events =
            request_as(context, Some(token), "GET", &format!("/v1/runs/{id}/events"), None).await.json();
        let by = events["data"][0]["data"]["requested_by"].as_str().unwrap().to_owned();
        seen.push((run["title"].as_str().unwrap().to_owned(), by));
    }
    seen.sort();
    seen
}

#[tokio::test]
async fn users_record_under_their_own_names_and_need_the_scope() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let token = async |body: &str| make_token(&context, Some(&admin), body).await;
    let anna = token(r#"{"name":"anna-agents","scopes":["ingest"]}"#).await;
    let ben = token(r#"{"name":"ben-agents","scopes":["ingest"]}"#).await;
    record(&context, &anna, "s-anna", "by anna").await;
    record(&context, &ben, "s-ben", "by ben").await;
    let both =
        [("by anna".to_owned(), "anna-agents".to_owned()), ("by ben".to_owned(), "ben-agents".to_owned())];
    assert_eq!(seen(&context, &admin).await, both);

    let reader = token(r#"{"name":"reader","scopes":["read","approve","run"]}"#).await;
    let (event, body) = prompt("s-anna", "by another user").remove(0);
    let target = format!("/hooks/claude/{event}");
    for (token, code) in [
        (None, Code::TokenMissing),
        (Some("rct_unknown"), Code::TokenInvalid),
        (Some(&*reader), Code::ScopeMissing),
    ] {
        let refused = request_as(&context, token, "POST", &target, Some(&body)).await;
        check_problem(&refused, code, "a token without the scope");
    }
    assert_eq!(seen(&context, &admin).await, both, "nothing was recorded");
    // A token that may only record cannot read, not even its own recordings.
    let read = request_as(&context, Some(&anna), "GET", "/v1/runs", None).await;
    check_problem(&read, Code::ScopeMissing, "a token that may only record");
}

#[tokio::test]
async fn users_in_tenants_of_their_own_record_apart_also_under_the_same_session() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let token = async |tenant: &str| {
        let body = json!({ "name": tenant, "tenant": tenant, "scopes": ["ingest", "read"] });
        make_token(&context, Some(&admin), &body.to_string()).await
    };
    let (anna, ben) = (token("anna").await, token("ben").await);
    record(&context, &anna, "s-same", "by anna").await;
    record(&context, &ben, "s-same", "by ben").await;
    assert_eq!(seen(&context, &anna).await, [("by anna".to_owned(), "anna".to_owned())]);
    assert_eq!(seen(&context, &ben).await, [("by ben".to_owned(), "ben".to_owned())]);
    assert!(seen(&context, &admin).await.is_empty(), "the tenant of the server has none of it");
}

#[tokio::test]
async fn a_token_for_some_runs_only_records_no_agents() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;

    let narrowed =
        json!({ "name": "narrow", "scopes": ["ingest"], "tasks": ["task_01JZZZZZZZZZZZZZZZZZZZZZZZ"] });
    let narrow = make_token(&context, Some(&admin), &narrowed.to_string()).await;
    let (event, body) = prompt("s-1", "by a narrowed token").remove(0);
    let refused =
        request_as(&context, Some(&narrow), "POST", &format!("/hooks/claude/{event}"), Some(&body)).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(seen(&context, &admin).await.is_empty());
}
