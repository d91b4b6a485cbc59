//! Sessions over the wire: creation, lists, their runs, and deletion with them.

use recount_event::Code;
use serde_json::json;

use crate::test_context::{STORY, TestContext, check_problem, text};

async fn begin(context: &TestContext, title: &str) -> String {
    let reply = context.post("/v1/sessions", &json!({"title": title}).to_string()).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    text(&reply.data()["id"])
}

async fn run_in(context: &TestContext, session: &str) -> String {
    let body = json!({"kind": "external", "session_id": session}).to_string();
    let reply = context.post("/v1/runs", &body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(reply.data()["session_id"], session);
    text(&reply.data()["id"])
}

#[tokio::test]
async fn a_session_knows_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    for context in [TestContext::memory().await, TestContext::sqlite(folder.path()).await] {
        let (session, other) = (begin(&context, "talk").await, begin(&context, "other").await);
        let shown = context.get(&format!("/v1/sessions/{session}")).await.data();
        let created_at = shown["created_at"].clone();
        let expected =
            json!({"id": session, "title": "talk", "status": "idle", "created_at": created_at, "runs": 0});
        assert_eq!(shown, expected);
        let mut runs = Vec::new();
        for _ in 0..5 {
            let run = run_in(&context, &session).await;
            context.report(&run, 0, STORY).await;
            run_in(&context, &other).await;
            runs.insert(0, run);
        }
        let shown = context.get(&format!("/v1/sessions/{session}")).await.data();
        assert_eq!((&shown["status"], &shown["runs"]), (&json!("finished"), &json!(5)));
        assert_eq!(shown["latest_run_id"], runs[0]);
        for limit in [1, 2, 50] {
            for (status, expected) in
                [("", runs.as_slice()), ("&status=finished", &runs), ("&status=queued", &[])]
            {
                let (mut listed, mut after) = (Vec::new(), String::new());
                loop {
                    let target = format!("/v1/runs?session_id={session}&limit={limit}{status}&after={after}");
                    let page = context.get(&target).await.json();
                    listed.extend(page["data"].as_array().unwrap().iter().map(|run| text(&run["id"])));
                    if page["has_more"] == false {
                        break;
                    }
                    after = text(&page["next"]);
                }
                assert_eq!(listed, expected, "by {limit}{status}");
            }
        }
        let list = context.get("/v1/sessions?limit=1").await.json();
        assert_eq!((&list["data"][0]["id"], &list["has_more"]), (&json!(other), &json!(true)));
        let next = text(&list["next"]);
        let list = context.get(&format!("/v1/sessions?limit=1&after={next}")).await.json();
        assert_eq!((&list["data"][0]["id"], &list["has_more"]), (&json!(session), &json!(false)));
        // Runs of a session are not pruned.
        let pruned = context.post(&format!("/v1/runs/{}/prune", runs[0]), "{}").await;
        check_problem(&pruned, Code::RunInSession, "a run of a session");
        context.running.stop().await;
    }
}

#[tokio::test]
async fn deleting_a_session_deletes_its_runs() {
    let context = TestContext::memory().await;
    let (session, other) = (begin(&context, "talk").await, begin(&context, "other").await);
    let (ended, active) = (run_in(&context, &session).await, run_in(&context, &session).await);
    context.report(&ended, 0, STORY).await;
    let clarification = r#"{"clarification_id":"q","question":"?"}"#;
    context.report(&active, 0, &[("run.started", "{}"), ("clarification.requested", clarification)]).await;
    let stays = run_in(&context, &other).await;
    let deleted = context.request("DELETE", &format!("/v1/sessions/{session}"), &[], None).await;
    assert_eq!(deleted.data(), json!({"session_id": session, "runs": 2}));
    for run in [&ended, &active] {
        for tail in ["", "/events", "/digest"] {
            check_problem(&context.get(&format!("/v1/runs/{run}{tail}")).await, Code::RunErased, tail);
        }
    }
    let path = format!("/v1/sessions/{session}");
    check_problem(&context.get(&path).await, Code::SessionErased, "shown");
    check_problem(&context.request("DELETE", &path, &[], None).await, Code::SessionErased, "deleted again");
    let body = json!({"kind": "external", "session_id": session}).to_string();
    check_problem(&context.post("/v1/runs", &body).await, Code::SessionErased, "a run in it");
    check_problem(&context.get("/v1/clarifications/q").await, Code::ClarificationNotFound, "its question");
    let runs = context.get("/v1/runs").await.json();
    assert_eq!((runs["data"].as_array().unwrap().len(), &runs["data"][0]["id"]), (1, &json!(stays)));
    let none = context.get(&format!("/v1/runs?session_id={session}")).await.json();
    assert_eq!(none["data"], json!([]));
}

#[tokio::test]
async fn unknown_sessions_and_invalid_bodies_are_refused() {
    let context = TestContext::memory().await;
    let unknown = "chat_01JXMZ00000000000000000000";
    for id in [unknown, "x", "task_01JXMZ00000000000000000000", "%2F", "chat_01jxmz00000000000000000000"] {
        for method in ["GET", "DELETE"] {
            let target = format!("/v1/sessions/{id}");
            check_problem(&context.request(method, &target, &[], None).await, Code::SessionNotFound, &target);
        }
        let body = json!({"kind": "external", "session_id": id}).to_string();
        check_problem(&context.post("/v1/runs", &body).await, Code::SessionNotFound, id);
    }
    for body in [r#"{"titel":"x"}"#, r#"{"title":7}"#, "[]", "null", "{"] {
        check_problem(&context.post("/v1/sessions", body).await, Code::BodyMalformed, body);
    }
    let long = json!({"title": "x".repeat((16 << 10) + 1)}).to_string();
    check_problem(&context.post("/v1/sessions", &long).await, Code::LimitReached, "a long title");
    // A missing body is an empty one.
    let reply = context.request("POST", "/v1/sessions", &[], None).await;
    assert_eq!((reply.status, reply.data().get("title")), (201, None));
}
