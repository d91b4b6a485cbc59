//! Agents and sessions: create, list, show, name, fork and delete them, and the required scopes.

use http::{Method, Request};
use recount_engine::{Caller, Narrowing, Scope};
use recount_event::SessionId;
use serde_json::{Value, json};

use crate::http::stage::{Stage, user_message};

const SCRIPT: &str = "[[turn]]\ntext = \"Hello.\"\n[[turn]]\ntext = \"Again.\"\n";

fn plain() -> Value {
    json!({ "agent": { "name": "clerk" } })
}

// P-001, P-002, P-003, P-004
#[tokio::test]
async fn all_clients_may_list_the_agents() {
    let stage = Stage::with("").await;
    let request = Request::get("/meta").body("".into()).unwrap();
    let response = stage.send(request, None).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let (_, meta) = stage.get("/meta").await.json().await;
    assert_eq!(meta["version"], json!(3));
    let agent = &meta["agents"][0];
    assert_eq!((&agent["name"], &agent["version"]), (&json!("clerk"), &json!("1.2.0")));
    assert_eq!(agent["capabilities"]["stream"], json!({ "delta": {}, "message": {}, "none": {} }));
    assert_eq!(agent["capabilities"]["history"], json!({ "compacted": {}, "full": {} }));
    assert_eq!(agent["capabilities"]["image"], json!({ "http": {}, "data": {} }));
    let tools = agent["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["parameters"].is_object() && tool["description"].is_string()));
    assert!(tools.iter().all(|tool| tool.get("inputSchema").is_none() && tool["name"] != "todo_write"));
    let options = agent["options"].as_array().unwrap();
    assert!(options.iter().all(|option| option["default"].is_string()));
    assert_eq!(options[1]["options"], json!(["warm", "dry"]));
    assert_eq!(options[2]["type"], "secret");
}

// P-010 for what lies under the prefix
#[tokio::test]
async fn a_trailing_slash_is_ignored_and_unknown_paths_are_reported() {
    let stage = Stage::with("").await;
    let session = stage.session(plain()).await;
    for path in ["/meta/".to_owned(), "/sessions/".into(), format!("/sessions/{session}/")] {
        assert_eq!(stage.get(&path).await.status, 200, "{path}");
    }
    assert_eq!(stage.get("/nothing").await.refused().await, (404, "route_not_found".into()));
    let reply = stage.ask(Method::PUT, "/sessions", "").await;
    assert!(reply.header("allow").contains("POST"), "{:?}", reply.headers);
    assert_eq!(reply.refused().await, (405, "method_not_allowed".into()));
}

// P-011, P-014, P-063
#[tokio::test]
async fn a_session_is_created_and_shown_without_its_secrets() {
    let stage = Stage::with(SCRIPT).await;
    let tool =
        json!({ "name": "weather", "description": "Says it.", "parameters": { "type": "object", "a": 1.0 } });
    let body = json!({
        "agent": {
            "name": "clerk",
            "tools": [{ "name": "lookup", "trust": true }, { "name": "gate" }],
            "options": { "language": "Dutch", "key": "hush-hush" },
        },
        "tools": [tool],
        "title": "Mine",
    });
    let session = stage.session(body).await;
    assert!(session.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)));
    let (status, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(status, 200);
    assert_eq!(
        shown["agent"],
        json!({
            "name": "clerk",
            "tools": [{ "name": "lookup", "trust": true }, { "name": "gate" }],
            "options": { "language": "Dutch", "key": "***" },
        })
    );
    assert_eq!(shown["tools"], json!([tool]));
    assert_eq!((&shown["title"], &shown["status"]), (&json!("Mine"), &json!("idle")));
    assert!(shown["createdAt"].is_string() && shown["updatedAt"].is_string());
    assert!(stage.runs(&session).await.is_empty(), "the agent did not run");
    let (_, listed) = stage.get("/sessions").await.json().await;
    assert_eq!(listed["sessions"][0]["agent"], shown["agent"]);
    assert!(!listed.to_string().contains("hush"));
}

// P-012, P-013, P-077
#[tokio::test]
async fn invalid_sessions_are_refused_without_effect() {
    let stage = Stage::with("").await;
    for (body, code) in [
        ("", "body_malformed"),
        ("{", "body_malformed"),
        ("[]", "body_malformed"),
        ("{}", "body_malformed"),
        (r#"{"agent":{}}"#, "body_malformed"),
        (r#"{"agent":{"name":"nobody"}}"#, "agent_not_found"),
        (r#"{"agent":{"name":"clerk","options":{"colour":"red"}}}"#, "option_invalid"),
        (r#"{"agent":{"name":"clerk","options":{"tone":"cold"}}}"#, "option_invalid"),
        (r#"{"agent":{"name":"clerk","tools":[{"name":"nothing"}]}}"#, "order_refused"),
        (
            r#"{"agent":{"name":"clerk"},"tools":[{"name":"lookup","description":"","parameters":{}}]}"#,
            "order_refused",
        ),
        (r#"{"agent":{"name":"clerk"},"messages":[{"role":"robot","content":""}]}"#, "body_malformed"),
        (r#"{"agent":{"name":"clerk","name":"clerk"}}"#, "body_malformed"),
    ] {
        let reply = stage.ask(Method::POST, "/sessions", body).await;
        assert_eq!(reply.refused().await, (400, code.to_owned()), "{body}");
    }
    let (status, listed) = stage.get("/sessions").await.json().await;
    assert_eq!((status, listed), (200, json!({ "sessions": [] })));
    let mut request = Request::post("/sessions").body(plain().to_string().into()).unwrap();
    request.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(stage.send(request, Some(Caller::operator())).await.status(), 415);
}

// P-027
#[tokio::test]
async fn bodies_and_messages_that_are_too_large_are_refused_as_such() {
    let stage = Stage::with(SCRIPT).await;
    let session = stage.session(plain()).await;
    let large = "x".repeat(recount_face_aap::limits::BODY_BYTES_MAX);
    let reply = stage.turn(&session, &user_message(&large, "none")).await;
    assert_eq!(reply.refused().await, (413, "body_too_large".into()));
    let reply = stage.turn(&session, &user_message(&large[..500 << 10], "none")).await;
    assert_eq!(reply.refused().await, (413, "body_too_large".into()));
    let long = large[..300 << 10].to_owned();
    assert_eq!(stage.send_message(&session, &long).await.reason(), "end_turn");
    let (_, history) = stage.get(&format!("/sessions/{session}/history?type=full")).await.json().await;
    assert_eq!(history["history"]["full"][0], json!({ "role": "user", "content": long }));
}

// P-015, P-016
#[tokio::test]
async fn missing_and_deleted_sessions_are_not_found() {
    let stage = Stage::with(SCRIPT).await;
    let session = stage.session(plain()).await;
    stage.send_message(&session, "hi").await;
    let unknown = "chat_01JZZZZZZZZZZZZZZZZZZZZZZZ";
    let deleted = stage.ask(Method::DELETE, &format!("/sessions/{session}"), "").await;
    assert_eq!((deleted.status.as_u16(), deleted.text().await.as_str()), (204, ""));
    for session in [session.as_str(), unknown, "x", "..", "run_01JZZZZZZZZZZZZZZZZZZZZZZZ"] {
        let one = format!("/sessions/{session}");
        let body = user_message("hi", "none").to_string();
        for (method, path, body) in [
            (Method::GET, one.clone(), ""),
            (Method::DELETE, one.clone(), ""),
            (Method::PATCH, one.clone(), "{}"),
            (Method::GET, format!("{one}/history?type=full"), ""),
            (Method::POST, format!("{one}/fork"), ""),
            (Method::POST, format!("{one}/turns"), body.as_str()),
        ] {
            let reply = stage.ask(method.clone(), &path, body.to_owned()).await;
            assert_eq!(reply.refused().await, (404, "session_not_found".into()), "{method} {path}");
        }
    }
    let (_, listed) = stage.get("/sessions").await.json().await;
    assert_eq!(listed, json!({ "sessions": [] }));
}

// P-018, P-019
#[tokio::test]
async fn the_list_is_paged_to_its_end_although_sessions_come_and_go() {
    let stage = Stage::with("").await;
    let mut all = Vec::new();
    for _ in 0..7 {
        all.push(stage.session(plain()).await);
    }
    all.reverse();
    let mut seen: Vec<String> = Vec::new();
    let mut next = String::new();
    for round in 0.. {
        let (status, page) = stage.get(&format!("/sessions?limit=2&after={next}")).await.json().await;
        assert_eq!(status, 200);
        seen.extend(
            page["sessions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["sessionId"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(cursor) => next = cursor.to_owned(),
            None => break,
        }
        if round == 0 {
            // A new one, and the one that the cursor names goes.
            stage.session(plain()).await;
            stage.ask(Method::DELETE, &format!("/sessions/{}", all[1]), "").await;
        }
    }
    assert_eq!(seen, all);
    for bad in ["x", all[2].as_str(), "%ff"] {
        let reply = stage.get(&format!("/sessions?after={bad}")).await;
        assert_eq!(reply.refused().await, (400, "cursor_malformed".into()), "{bad}");
    }
    let (_, none) = stage.get("/sessions?agent=other").await.json().await;
    assert_eq!(none, json!({ "sessions": [] }));
    let (_, idle) = stage.get("/sessions?status=idle&agent=clerk").await.json().await;
    assert_eq!(idle["sessions"].as_array().unwrap().len(), 7);
}

// P-006, P-020
#[tokio::test]
async fn callers_see_and_do_only_what_their_scopes_allow() {
    let stage = Stage::with(SCRIPT).await;
    let (ours, other) = (stage.session(plain()).await, stage.session(plain()).await);
    let response = stage.send(Request::get("/sessions").body("".into()).unwrap(), None).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["www-authenticate"]),
        (401, &"Bearer".parse().unwrap())
    );
    let id: SessionId = ours.parse().unwrap();
    let narrowing = Narrowing { sessions: [id].into(), ..Narrowing::default() };
    let (narrow, _revoke) = stage.caller(&[Scope::Read, Scope::Run], narrowing);
    let ask = |caller: &Caller, method: Method, path: String, body: String| {
        let caller = caller.clone();
        let stage = &stage;
        async move { stage.ask_as(caller, method, &path, &[], body).await }
    };
    let (_, listed) = ask(&narrow, Method::GET, "/sessions".into(), String::new()).await.json().await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["sessions"][0]["sessionId"], ours.as_str());
    for (method, path) in [
        (Method::GET, format!("/sessions/{other}")),
        (Method::GET, format!("/sessions/{other}/history?type=full")),
        (Method::DELETE, format!("/sessions/{other}")),
        (Method::POST, format!("/sessions/{other}/turns")),
    ] {
        let reply = ask(&narrow, method, path.clone(), String::new()).await;
        assert_eq!(reply.refused().await, (404, "session_not_found".into()), "{path}");
    }
    let reply = ask(&narrow, Method::POST, "/sessions".into(), plain().to_string()).await;
    assert_eq!(reply.refused().await, (403, "scope_missing".into()));
    let (reader, _revoke) = stage.caller(&[Scope::Read], Narrowing::default());
    for (method, path) in [
        (Method::POST, "/sessions".to_owned()),
        (Method::POST, format!("/sessions/{ours}/turns")),
        (Method::DELETE, format!("/sessions/{ours}")),
        (Method::PATCH, format!("/sessions/{ours}")),
        (Method::POST, format!("/sessions/{ours}/fork")),
    ] {
        let reply = ask(&reader, method, path.clone(), String::new()).await;
        assert_eq!(reply.refused().await, (403, "scope_missing".into()), "{path}");
    }
    let (runner, _revoke) = stage.caller(&[Scope::Run], Narrowing::default());
    let reply = ask(&runner, Method::GET, format!("/sessions/{ours}"), String::new()).await;
    assert_eq!(reply.refused().await, (403, "scope_missing".into()));
}

// P-064
#[tokio::test]
async fn a_refusal_repeats_no_secret() {
    let stage = Stage::with("").await;
    let secret = "sk-ant-REDACTED";
    let body = json!({ "agent": { "name": "clerk", "options": { "tone": secret } } });
    let text = stage.post("/sessions", &body).await.text().await;
    assert!(text.contains("tone") && !text.contains(&secret[10..]), "{text}");
}

#[tokio::test]
async fn a_session_gets_another_title() {
    let stage = Stage::with("").await;
    let session = stage.session(plain()).await;
    let path = format!("/sessions/{session}");
    let (_, shown) = stage.ask(Method::PATCH, &path, r#"{"title":" New "}"#).await.json().await;
    assert_eq!(shown["title"], "New");
    let (_, shown) = stage.ask(Method::PATCH, &path, r#"{"title":null}"#).await.json().await;
    assert!(shown.get("title").is_none());
    // A request without a title does not change the title.
    stage.ask(Method::PATCH, &path, r#"{"title":"Kept"}"#).await.json().await;
    for bad in ["{}", r#"{"titel":"x"}"#] {
        assert_eq!(
            stage.ask(Method::PATCH, &path, bad).await.refused().await,
            (400, "body_malformed".into())
        );
    }
    assert_eq!(stage.get(&path).await.json().await.1["title"], "Kept");
    let long = json!({ "title": "x".repeat(201) }).to_string();
    assert_eq!(stage.ask(Method::PATCH, &path, long).await.refused().await, (422, "limit_reached".into()));
}

#[tokio::test]
async fn a_session_has_the_time_of_its_last_activity() {
    let stage = Stage::with(SCRIPT).await;
    let session = stage.session(plain()).await;
    stage.send_message(&session, "hi").await;
    let run = stage.runs(&session).await[0];
    let ended = stage.engine.catalogue().run(run).await.unwrap().unwrap().ended_at.unwrap();
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["updatedAt"], ended);
    let (_, list) = stage.get("/sessions").await.json().await;
    assert_eq!(list["sessions"][0]["updatedAt"], ended);
}

#[tokio::test]
async fn a_request_with_a_key_is_done_once() {
    let stage = Stage::with(SCRIPT).await;
    let again = |key: &'static str, path: String, body: Value| {
        let stage = &stage;
        async move {
            let headers = [("idempotency-key", key)];
            stage.ask_as(Caller::operator(), Method::POST, &path, &headers, body.to_string()).await
        }
    };
    let (_, first) = again("a", "/sessions".into(), plain()).await.json().await;
    let second = again("a", "/sessions".into(), plain()).await;
    assert_eq!((second.status.as_u16(), second.header("idempotency-replayed")), (201, "true"));
    assert_eq!(second.json().await.1, first);
    let other = again("a", "/sessions".into(), json!({ "agent": { "name": "clerk", "tools": [] } })).await;
    assert_eq!(other.refused().await, (409, "idempotency_key_reused".into()));
    let session = first["sessionId"].as_str().unwrap();
    let turns = format!("/sessions/{session}/turns");
    let first = again("b", turns.clone(), user_message("hi", "delta")).await.into_turn_stream().await;
    let second = again("b", turns.clone(), user_message("hi", "delta")).await.into_turn_stream().await;
    assert_eq!((&second.turn, &second.frames), (&first.turn, &first.frames));
    assert_eq!(stage.runs(session).await.len(), 1);
    let other = again("b", turns.clone(), user_message("ho", "delta")).await;
    assert_eq!(other.refused().await, (409, "idempotency_key_reused".into()));
    assert_eq!(
        again("a b", turns, user_message("hi", "delta")).await.refused().await,
        (400, "header_invalid".into())
    );
}
