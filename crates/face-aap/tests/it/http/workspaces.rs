//! The folder that a session works on: announced, chosen when the session is created, shown, and refused before there
//! is a session where runs may not work on it.

use http::Method;
use recount_engine::{Narrowing, Profile, RunConfig, Scope};
use recount_event::Payload;
use serde_json::{Value, json};

use crate::http::stage::{Scenery, Stage, clerk};

const SCRIPT: &str = "[[turn]]\ntext = \"Hello.\"\n[[turn]]\ntext = \"Again.\"\n";

fn with(workspace: &Value) -> Value {
    json!({ "agent": { "name": "clerk" }, "workspace": workspace })
}

#[tokio::test]
async fn agents_declare_whether_they_have_their_own_folder() {
    let own = Profile { name: "own".into(), workspace_source: Some("/srv".into()), ..clerk() };
    let stage = Stage::of(Scenery { profiles: vec![clerk(), own], ..Scenery::default() }).await;
    let (_, meta) = stage.get("/meta").await.json().await;
    let declared: Vec<&Value> =
        meta["agents"].as_array().unwrap().iter().map(|agent| &agent["capabilities"]["workspace"]).collect();
    assert_eq!(declared, [&json!({}), &json!({ "own": {} })]);
}

#[tokio::test]
async fn every_run_of_a_session_works_on_the_folder_that_was_chosen() {
    let stage = Stage::with(SCRIPT).await;
    let work = stage.work();
    let workspace = json!({ "path": work, "copyIgnored": true });
    let session = stage.session(with(&workspace)).await;
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["workspace"], workspace);
    for _ in 0..2 {
        stage.send_message(&session, "hello").await;
    }
    let runs = stage.runs(&session).await;
    assert_eq!(runs.len(), 2);
    let mut copies = Vec::new();
    for run in runs {
        let events = stage.events(run).await;
        let Payload::RunQueued(queued) = events[0].payload() else { panic!("{:?}", events[0]) };
        let order = RunConfig::from_json(queued.config.as_ref()).unwrap();
        assert_eq!((order.workspace_source.as_deref(), order.copy_ignored), (Some(&*work), true));
        assert_eq!(queued.workspace_mode.as_deref(), Some("clone"));
        copies.push(queued.workspace_path.clone());
    }
    assert!(copies[0].is_some() && copies[0] == copies[1], "{copies:?}");

    let in_place = stage.session(with(&json!({ "path": work, "mode": "in_place" }))).await;
    stage.send_message(&in_place, "hello").await;
    let events = stage.events(stage.runs(&in_place).await[0]).await;
    let Payload::RunQueued(queued) = events[0].payload() else { panic!("{:?}", events[0]) };
    assert_eq!(queued.workspace_path.as_deref(), Some(&*work));
}

/// An agent without an available model may have one later, when a message comes. Its folder is checked anyway.
#[tokio::test]
async fn a_folder_is_refused_whatever_else_could_be_refused_of_a_run() {
    let profile = Profile { model: Some("nobody/none".into()), ..clerk() };
    let stage = Stage::of(Scenery { profiles: vec![profile], ..Scenery::default() }).await;
    let reply = stage.post("/sessions", &with(&json!({ "path": "/usr" }))).await;
    assert_eq!(reply.refused().await, (422, "workspace_refused".into()));
    let reply = stage.post("/sessions", &with(&json!({ "path": stage.work() }))).await;
    assert_eq!(reply.json().await.0, 201);
}

#[tokio::test]
async fn a_folder_that_runs_may_not_work_on_is_refused_and_no_session_is_created() {
    let stage = Stage::with(SCRIPT).await;
    let work = stage.work();
    for (workspace, status, code) in [
        (json!({ "path": "/" }), 422, "workspace_refused"),
        (json!({ "path": "/usr" }), 422, "workspace_refused"),
        (json!({ "path": format!("{work}/gone") }), 422, "workspace_refused"),
        (json!({ "path": "work" }), 422, "workspace_refused"),
        (json!({ "path": work, "mode": "moved" }), 400, "body_malformed"),
        (json!({ "mode": "clone" }), 400, "body_malformed"),
        (json!(work), 400, "body_malformed"),
    ] {
        let reply = stage.post("/sessions", &with(&workspace)).await;
        assert_eq!(reply.refused().await, (status, code.into()), "{workspace}");
    }
    // A client that may not start a run may not choose its folder.
    let (reader, _revoke) = stage.caller(&[Scope::Read, Scope::Approve], Narrowing::default());
    let body = with(&json!({ "path": work })).to_string();
    let reply = stage.ask_as(reader, Method::POST, "/sessions", &[], body).await;
    assert_eq!(reply.refused().await, (403, "scope_missing".into()));
    let (_, listed) = stage.get("/sessions").await.json().await;
    assert_eq!(listed["sessions"], json!([]));
}
