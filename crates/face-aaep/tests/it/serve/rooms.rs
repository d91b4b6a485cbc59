//! Rooms: what a client without a handshake receives and may send.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt as _;
use recount_engine::{Engine, Error, Narrowing, NewRun, RequestContext, Scope};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{ForeignId, PromptKind, RunId, SessionId};
use recount_face_aaep::RoomAgent;
use recount_transport::sse::Decoder;
use serde_json::{Value, json};

use crate::serve::stage::{Reply, Stage};

const PATIENCE: Duration = Duration::from_secs(600);

/// A stream of a room that is read.
struct Room {
    reply: Reply,
    decoder: Decoder,
}

impl Room {
    async fn enter(stage: &Stage, visitor: &RequestContext, name: &str) -> Room {
        let reply = stage.get(visitor, &format!("/aaep/legacy/{name}/events"), None).await;
        assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "text/event-stream"));
        Room { reply, decoder: Decoder::new() }
    }

    /// The next message; the frame has nothing but data.
    async fn next(&mut self) -> Value {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                assert_eq!((frame.event, frame.id), (None, None));
                return serde_json::from_str(&frame.data).unwrap();
            }
            let piece = tokio::time::timeout(PATIENCE, self.reply.body.frame()).await.expect("a message");
            let piece = piece.expect("the stream goes on").unwrap().into_data().unwrap();
            assert!(!piece.contains(&b'\r'));
            self.decoder.feed(&piece).unwrap();
        }
    }

    /// Messages up to the first of this type.
    async fn until(&mut self, type_name: &str) -> Vec<Value> {
        let mut received = Vec::new();
        loop {
            received.push(self.next().await);
            let last = &received[received.len() - 1];
            if last["type"].as_str().is_some_and(|name| name.ends_with(type_name)) {
                return received;
            }
        }
    }
}

fn question(number: u32) -> (&'static str, Value) {
    let request = json!({
        "clarification_id": format!("clar_{number}"), "question": format!("Question {number}?"),
        "choices": [{ "value": "a", "label": "The first" }, { "value": "b", "label": "The second" }],
        "timeout_seconds": 600,
    });
    ("clarification.requested", request)
}

#[tokio::test]
async fn a_client_without_a_handshake_reads_what_it_expects() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let mut room = Room::enter(&stage, &operator, "all").await;
    let mut run = stage.run().await;
    run.write("Hello there. ").await;
    run.report(&[question(1)]).await;
    let received = room.until("awaiting.clarification").await;
    assert_eq!(received[0]["type"], "aaep:agent.session.started");
    let spoken: Vec<&Value> = received.iter().filter(|event| event["chunk"] == "Hello there. ").collect();
    assert_eq!(spoken.len(), 1, "{received:?}");
    assert_eq!(spoken[0]["summary_normal"], "Hello there. ");
    assert_eq!(received[received.len() - 1]["options"], json!(["The first", "The second"]));
}

#[tokio::test]
async fn one_prompt_is_open_at_a_time_whatever_settles_it() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let mut room = Room::enter(&stage, &operator, "all").await;
    let (mut one, mut two) = (stage.run().await, stage.run().await);
    one.report(&[question(1)]).await;
    let first = room.until("awaiting.clarification").await;
    let first = &first[first.len() - 1];
    assert_eq!(first["question"], "Question 1?");
    // The second waits, and what follows it does not.
    two.report(&[question(2)]).await;
    two.write("While it waits.").await;
    one.answer("clar_1", "a").await;
    let received = room.until("awaiting.clarification").await;
    let last = &received[received.len() - 1];
    assert_eq!(last["question"], "Question 2?");
    let settled = received.iter().position(|event| event["session_id"] == first["session_id"]);
    assert!(
        settled.is_some_and(|at| at < received.len() - 1),
        "the end of the first comes before it: {received:?}"
    );
}

#[tokio::test]
async fn a_handshake_sets_the_terms_of_the_room_and_its_answer_comes_on_the_stream() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let mut room = Room::enter(&stage, &operator, "all").await;
    let send =
        async |body: Value| stage.post(&operator, "/aaep/legacy/all/messages", &body).await.json().await;
    let request = |version: &str| {
        json!({
            "type": "subscription.request", "aaep_version": version, "subscriber_id": "reader",
            "capabilities": { "event_filters": { "exclude": ["aaep:agent.state.*"] } },
        })
    };
    assert_eq!(send(request("1.0.0")).await.0, 204);
    assert_eq!(room.next().await["type"], "subscription.accepted");
    assert_eq!(send(request("99.99.99")).await.0, 204);
    let rejected = room.next().await;
    assert_eq!(
        (&rejected["type"], &rejected["reason_code"]),
        (&json!("subscription.rejected"), &json!("version_unsupported"))
    );
    let mut run = stage.run().await;
    run.write("Hello.").await;
    run.finish().await;
    let received = room.until("session.completed").await;
    assert!(received.iter().all(|event| event["type"] != "aaep:agent.state.changed"), "{received:?}");
}

#[tokio::test]
async fn replies_are_answered_alike_and_other_messages_are_refused() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let _room = Room::enter(&stage, &operator, "all").await;
    let path = "/aaep/legacy/all/messages";
    for reply in [
        json!({ "type": "confirmation.reply", "reply_token": "rpl_unknown", "decision": "accept" }),
        json!({ "type": "confirmation.reply", "decision": "perhaps" }),
        json!({ "type": "clarification.reply", "reply_token": "rpl_unknown", "response": "" }),
        json!({ "type": "subscription.close" }),
    ] {
        let (status, body) = stage.post(&operator, path, &reply).await.json().await;
        assert_eq!((status, body), (204, json!("")), "{reply}");
    }
    for other in [json!({}), json!([]), json!({ "type": "subscription.renegotiate" }), json!("text")] {
        assert_eq!(stage.post(&operator, path, &other).await.status, 400, "{other}");
    }
    let (status, body) =
        stage.post(&operator, path, &json!({ "kind": "user_input", "text": "Go." })).await.json().await;
    assert_eq!((status, &body["error"]), (409, &json!("no_agent")));
}

#[tokio::test]
async fn an_irreversible_call_is_confirmed_through_a_room_once() {
    let stage = Stage::new().await;
    let operator = stage.operator();
    let mut room = Room::enter(&stage, &operator, "all").await;
    let mut run = stage.run().await;
    let request = json!({
        "approval_id": "a1", "tool_call_id": "c1", "kind": "shell_exec", "summary": "rm -rf build",
        "action": "Delete the folder build.", "consequence": "It is gone.", "irreversible": true,
        "risk_level": "high", "timeout_seconds": 600,
    });
    run.report(&[("approval.requested", request)]).await;
    let received = room.until("awaiting.confirmation").await;
    let prompt = &received[received.len() - 1];
    assert_eq!((&prompt["irreversible"], &prompt["default_decision"]), (&json!(true), &json!("reject")));
    let status = async || {
        let id = ForeignId::parse("a1").unwrap();
        let row = stage.engine.read().prompt(PromptKind::Approval, &id).await.unwrap().unwrap();
        row.status().to_owned()
    };
    let token = prompt["reply_token"].as_str().unwrap();
    let reply = |token: &str, decision: &str| json!({ "type": "confirmation.reply", "reply_token": token, "decision": decision });
    // An unknown token and an unknown decision leave it open.
    for (token, decision) in [("rpl_00000000000000000000000000000000", "accept"), (token, "perhaps")] {
        let sent = stage.post(&operator, "/aaep/legacy/all/messages", &reply(token, decision)).await;
        assert_eq!(sent.status, 204);
        assert_eq!(status().await, "pending", "{decision}");
    }
    for decision in ["accept", "reject"] {
        let sent = stage.post(&operator, "/aaep/legacy/all/messages", &reply(token, decision)).await;
        assert_eq!(sent.status, 204);
    }
    let received = room.until("state.changed").await;
    let settled = &received[received.len() - 1];
    assert_eq!(
        (&settled["from_state"], &settled["to_state"]),
        (&json!("awaiting_input"), &json!("calling_tool"))
    );
    assert_eq!(status().await, "approved", "the first reply wins");
    run.finish().await;
    let rest = room.until("session.completed").await;
    assert!(rest.iter().all(|event| event["type"] != "aaep:agent.awaiting.confirmation"), "{rest:?}");
}

#[tokio::test]
async fn a_room_has_the_runs_of_its_name_and_of_its_caller() {
    let stage = Stage::new().await;
    let task = |title: &str| {
        let title = title.to_owned();
        let engine = stage.engine.clone();
        async move { engine.write().create_task(Some(title), None).await.unwrap().0.id }
    };
    let (ours, other) = (task("ours").await, task("other").await);
    let narrowing = Narrowing { tasks: [ours].into(), ..Narrowing::default() };
    let (visitor, _revoke) = stage.visitor("narrow", &[Scope::Read], narrowing);
    let (blind, _revoke) = stage.visitor("blind", &[Scope::Approve], Narrowing::default());
    for (who, name) in [(&visitor, other.to_string()), (&visitor, "nothing".into()), (&blind, "all".into())] {
        let reply = stage.get(who, &format!("/aaep/legacy/{name}/events"), None).await;
        assert_eq!(reply.status, 404, "{name}");
    }
    let operator = stage.operator();
    for (who, name) in
        [(&visitor, "all".to_owned()), (&visitor, ours.to_string()), (&operator, ours.to_string())]
    {
        let mut room = Room::enter(&stage, who, &name).await;
        let mut hidden = stage.run_in(&stage.engine, Some(other)).await;
        let mut seen = stage.run_in(&stage.engine, Some(ours)).await;
        let first = room.next().await;
        let session = |run: RunId| run.to_string().replace("run_", "sess_");
        assert_eq!(first["session_id"], json!(session(seen.id)), "not {}", session(hidden.id));
        seen.finish().await;
        hidden.finish().await;
    }
}

/// An agent whose runs only begin.
struct Beginner {
    engine: Engine,
    session: SessionId,
}

impl RoomAgent for Beginner {
    fn room(&self) -> &str {
        "beginner"
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn session(&self) -> SessionId {
        self.session
    }

    fn begin(&self, input: &str) -> Pin<Box<dyn Future<Output = Result<RunId, Error>> + Send + '_>> {
        let queued = Queued { title: Some(input.to_owned()), ..Queued::new(RunKind::External) };
        Box::pin(async move {
            let new = NewRun { queued, task: None, session: Some(self.session), resumed_from: None };
            Ok(self.engine.write().create_run(new).await?.0)
        })
    }
}

#[tokio::test]
async fn an_input_starts_a_run_of_the_agent_after_its_session_id() {
    let stage = Stage::new().await;
    let session = stage.engine.write().create_session(None).await.unwrap();
    let agent = Beginner { engine: stage.engine.clone(), session: session.id };
    let stage = stage.with_agent(Arc::new(agent), true);
    let operator = stage.operator();
    let mut room = Room::enter(&stage, &operator, "beginner").await;
    for (path, body) in [
        ("messages", json!({ "kind": "user_input", "text": "Go." })),
        ("sessions", json!({ "user_message": "Go." })),
    ] {
        let (status, body) =
            stage.post(&operator, &format!("/aaep/legacy/beginner/{path}"), &body).await.json().await;
        assert_eq!(status, 202, "{body}");
        assert_eq!(room.next().await, json!({ "kind": "session", "session_id": body["session_id"] }));
        let started = room.next().await;
        assert_eq!(
            (&started["type"], &started["session_id"]),
            (&json!("aaep:agent.session.started"), &body["session_id"])
        );
    }
    let (reader, _revoke) = stage.visitor("reader", &[Scope::Read], Narrowing::default());
    let input = json!({ "kind": "user_input", "text": "Go." });
    let (status, body) = stage.post(&reader, "/aaep/legacy/beginner/messages", &input).await.json().await;
    assert_eq!((status, &body["error"]), (403, &json!("scope_missing")));
}
