//! Tests of the course of turns: one at a time, continued after a disconnect, with exactly one ending.

use std::time::Duration;

use http::Method;
use recount_engine::{Caller, Narrowing, Scope};
use serde_json::{Value, json};

use crate::http::stage::{Scenery, Stage, frames, user_message};

/// Waits at the gate, then speaks.
const GATED: &str =
    "[[turn]]\ntext = \"First.\"\ncall = [{ name = \"gate\" }]\n[[turn]]\ntext = \"Second.\"\n";

async fn gated(stage: &Stage) -> String {
    stage.session(json!({ "agent": { "name": "clerk", "tools": [{ "name": "gate", "trust": true }] } })).await
}

async fn history(stage: &Stage, session: &str) -> Vec<Value> {
    let (_, body) = stage.get(&format!("/sessions/{session}/history?type=full")).await.json().await;
    body["history"]["full"].as_array().unwrap().clone()
}

/// Reads the stream until it contains a text.
async fn until(reply: &mut crate::http::stage::Reply, part: &str) -> String {
    let mut received = String::new();
    while !received.contains(part) {
        received.push_str(&reply.piece().await.unwrap_or_else(|| panic!("{part} did not come: {received}")));
    }
    received
}

// P-025, P-075
#[tokio::test]
async fn a_second_message_waits_for_the_first_to_be_answered() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let mut first = stage.turn(&session, &user_message("one", "delta")).await;
    // The text is sent before the turn has ended.
    let received = until(&mut first, "tool_call").await;
    assert!(
        received.contains("turn_start") && received.contains("text_delta") && !received.contains("turn_stop")
    );
    stage.toys.at_gate(1).await;
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["status"], "running");
    let second = stage.turn(&session, &user_message("two", "delta")).await;
    assert_eq!(second.header("retry-after"), "1");
    assert_eq!(second.refused().await, (409, "session_busy".into()));
    stage.toys.open_gate();
    until(&mut first, "turn_stop").await;
    assert_eq!(stage.send_message(&session, "two").await.reason(), "end_turn");
    let sent: Vec<Value> =
        history(&stage, &session).await.into_iter().filter(|message| message["role"] == "user").collect();
    assert_eq!(
        sent,
        [json!({ "role": "user", "content": "one" }), json!({ "role": "user", "content": "two" })]
    );
}

// P-076
#[tokio::test]
async fn a_turn_continues_when_its_client_disconnects() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let mut reply = stage.turn(&session, &user_message("one", "delta")).await;
    let turn = reply.header("aap-turn-id").to_owned();
    until(&mut reply, "tool_call").await;
    stage.toys.at_gate(1).await;
    drop(reply);
    let path = format!("/sessions/{session}/turns/{turn}");
    let (_, so_far) = stage.get(&path).await.json().await;
    assert_eq!((&so_far["status"], &so_far["turnId"]), (&json!("running"), &json!(turn)));
    assert_eq!(so_far["messages"][0]["content"][0]["text"], "First.");
    assert!(so_far.get("stopReason").is_none() && so_far.get("error").is_none());
    stage.toys.open_gate();
    let received = stage.get(&format!("{path}/events?stream=message")).await.into_turn_stream().await;
    assert_eq!(received.text(), "First.Second.");
    let (_, stopped) = stage.get(&path).await.json().await;
    assert_eq!((&stopped["status"], &stopped["stopReason"]), (&json!("stopped"), &json!("end_turn")));
    assert!(history(&stage, &session).await.len() == 4);
}

#[tokio::test]
async fn a_turn_is_cancelled_once() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let mut reply = stage.turn(&session, &user_message("one", "message")).await;
    let turn = reply.header("aap-turn-id").to_owned();
    let mut received = until(&mut reply, "tool_call").await;
    stage.toys.at_gate(1).await;
    let cancel = format!("/sessions/{session}/turns/{turn}/cancel");
    for _ in 0..2 {
        let (status, body) = stage.ask(Method::POST, &cancel, "").await.json().await;
        assert_eq!((status, body), (200, json!({ "turnId": turn, "status": "stopped" })));
    }
    received.push_str(&reply.text().await);
    let stop = frames(&received).pop().unwrap().data;
    assert_eq!((&stop["stopReason"], &stop["error"]["code"]), (&json!("error"), &json!("cancelled")));
    // P-034: the session can be used.
    stage.toys.open_gate();
    assert_eq!(stage.send_message(&session, "two").await.reason(), "end_turn");
    let (_, body) = stage.ask(Method::POST, &cancel, "").await.json().await;
    assert_eq!(body["status"], "stopped");
    assert_eq!(stage.runs(&session).await.len(), 2);
}

// P-017
#[tokio::test]
async fn deleting_a_session_cancels_its_turn() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let mut reply = stage.turn(&session, &user_message("one", "message")).await;
    let mut received = until(&mut reply, "tool_call").await;
    stage.toys.at_gate(1).await;
    let deleted = stage.ask(Method::DELETE, &format!("/sessions/{session}"), "").await;
    assert_eq!(deleted.status, 204);
    received.push_str(&reply.text().await);
    let stop = frames(&received).pop().unwrap();
    assert_eq!((stop.name.as_str(), &stop.data["stopReason"]), ("turn_stop", &json!("error")));
    assert_eq!(stop.data["error"]["code"], "cancelled");
    stage.toys.open_gate();
    assert_eq!(stage.get(&format!("/sessions/{session}")).await.status, 404);
    assert!(stage.runs(&session).await.is_empty());
}

// P-023, P-034
#[tokio::test]
async fn a_failure_in_a_turn_is_reported_once_and_the_session_stays_usable() {
    let script = "[pace]\nwords = 1\n[[scene]]\nwhen = \"go on\"\n[[scene.turn]]\ntext = \"Fine.\"\n[[scene]]\nwhen = \"break\"\n[[scene.turn]]\ntext = \"Not all of this.\"\n\
                  failure = { how = \"status\", status = 400, after = 2 }\n";
    let stage = Stage::with(script).await;
    let session = gated(&stage).await;
    for mode in ["delta", "message"] {
        let received = stage.stream_turn(&session, &user_message("break", mode)).await;
        assert_eq!(received.reason(), "error");
        assert!(
            received.stop()["error"]["code"].is_string()
                && received.stop()["error"]["retryable"].is_boolean()
        );
    }
    let (status, body) = stage.turn(&session, &user_message("break", "none")).await.json().await;
    assert_eq!((status, &body["stopReason"]), (200, &json!("error")));
    assert_eq!(stage.send_message(&session, "go on").await.text(), "Fine.");
}

// P-033
#[tokio::test]
async fn stop_reasons_are_the_models() {
    let script = "[[scene]]\nwhen = \"long\"\n[[scene.turn]]\ntext = \"Cut\"\nstop = \"max_tokens\"\n\
                  [[scene]]\nwhen = \"bad\"\n[[scene.turn]]\ntext = \"No.\"\nstop = \"refusal\"\n";
    let stage = Stage::with(script).await;
    let session = gated(&stage).await;
    assert_eq!(stage.send_message(&session, "long").await.reason(), "max_tokens");
    assert_eq!(stage.send_message(&session, "bad").await.reason(), "refusal");
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused() {
    let stage = Stage::of(Scenery { script: GATED.into(), streams_max: 1, ..Scenery::default() }).await;
    let (one, two) = (gated(&stage).await, gated(&stage).await);
    let reply = stage.turn(&one, &user_message("one", "delta")).await;
    let refused = stage.turn(&two, &user_message("one", "delta")).await;
    assert_eq!(refused.header("retry-after"), "5");
    assert_eq!(refused.refused().await, (429, "too_many_streams".into()));
    assert!(stage.runs(&two).await.is_empty(), "nothing was done");
    drop(reply);
    stage.toys.open_gate();
    assert_eq!(stage.send_message(&two, "one").await.reason(), "end_turn");
}

// P-079, as far as it is this face's
#[tokio::test]
async fn a_stream_that_ends_early_sends_a_last_frame_outside_the_turn() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let (caller, revoke) = stage.caller(&[Scope::Run, Scope::Read], Narrowing::default());
    let path = format!("/sessions/{session}/turns");
    let body = user_message("one", "delta").to_string();
    let mut revoked = stage.ask_as(caller, Method::POST, &path, &[], body).await;
    let mut received = until(&mut revoked, "tool_call").await;
    revoke.send_replace(true);
    received.push_str(&revoked.text().await);
    let last = frames(&received).pop().unwrap();
    assert_eq!((last.name.as_str(), last.id), ("turn_stop", None));
    assert_eq!(last.data["error"]["code"], "token_invalid");

    let turn = format!("/sessions/{session}/turns/{}-0/events", stage.runs(&session).await[0].ulid());
    let watched = stage.get(&turn).await;
    let waited = tokio::join!(watched.into_turn_stream(), async {
        stage.toys.at_gate(1).await;
        stage.world.tasks.end(recount_world::Kind::Connection, Duration::ZERO).await;
    });
    let last = waited.0.frames.last().unwrap();
    assert_eq!(
        (last.name.as_str(), &last.id, &last.data["stopReason"]),
        ("turn_stop", &None, &json!("error"))
    );
    assert_eq!(
        last.data["error"],
        json!({ "code": "shutting_down", "message": last.data["error"]["message"], "retryable": true })
    );
}

// P-028
#[tokio::test(start_paused = true)]
async fn a_silence_is_filled_with_comments() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let mut reply = stage.turn(&session, &user_message("one", "delta")).await;
    until(&mut reply, "tool_call").await;
    assert_eq!(reply.piece().await.as_deref(), Some(":\n\n"));
    stage.toys.open_gate();
    until(&mut reply, "turn_stop").await;
}

// P-026, P-069
#[tokio::test]
async fn special_characters_are_streamed_unchanged() {
    let script = "[[turn]]\ntext = \"a\\nb\\u0000 \\u2028 \\u2029 é 🦀\"\n[pace]\nbytes = 1\n";
    let script = format!("[pace]\nbytes = 1\n{}", script.split("[pace]").next().unwrap());
    let stage = Stage::with(&script).await;
    let session = gated(&stage).await;
    let received = stage.send_message(&session, "x \u{2028} \u{1F980}").await;
    assert_eq!(received.text(), "a\nb\u{0} \u{2028} \u{2029} é 🦀");
}

// P-074
#[tokio::test]
async fn sessions_know_nothing_of_each_other() {
    let script = "[[scene]]\nwhen = \"red\"\n[[scene.turn]]\ntext = \"R.\"\n[[scene]]\nwhen = \"blue\"\n[[scene.turn]]\ntext = \"B.\"\n";
    let stage = Stage::with(script).await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(gated(&stage).await);
    }
    let turns = sessions.iter().enumerate().map(|(index, session)| {
        let (word, expected) = if index % 2 == 0 { ("red", "R.") } else { ("blue", "B.") };
        let stage = &stage;
        async move {
            assert_eq!(stage.send_message(session, word).await.text(), expected);
            assert_eq!(history(stage, session).await.len(), 2);
        }
    });
    futures_util::future::join_all(turns).await;
}

// The trace of the caller continues in the run.
#[tokio::test]
async fn a_run_records_its_requester_and_trace() {
    let stage = Stage::with("[[turn]]\ntext = \"Hi.\"\n").await;
    let session = gated(&stage).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let path = format!("/sessions/{session}/turns");
    let headers = [("traceparent", trace)];
    let body = user_message("  Hello\nyou", "delta").to_string();
    stage.ask_as(Caller::operator(), Method::POST, &path, &headers, body).await.into_turn_stream().await;
    let events = stage.events(stage.runs(&session).await[0]).await;
    let recount_event::Payload::RunQueued(queued) = events[0].payload() else { panic!("it was queued") };
    assert_eq!((queued.traceparent.as_deref(), queued.title.as_deref()), (Some(trace), Some("Hello")));
    assert_eq!(
        (queued.requested_by.as_deref(), queued.request_text.as_deref()),
        (Some("operator"), Some("  Hello\nyou"))
    );
}

// P-036
#[tokio::test]
async fn a_turn_has_no_more_steps_than_it_may() {
    let script = "[[turn]]\ncall = [{ name = \"lookup\" }]\n[[turn]]\ncall = [{ name = \"lookup\" }]\n\
                  [[turn]]\ncall = [{ name = \"lookup\" }]\n";
    let profiles = vec![recount_engine::Profile { max_turns: Some(2), ..crate::http::stage::clerk() }];
    let stage = Stage::of(Scenery { script: script.into(), profiles, ..Scenery::default() }).await;
    let tools = json!([{ "name": "lookup", "trust": true }]);
    let session = stage.session(json!({ "agent": { "name": "clerk", "tools": tools } })).await;
    let received = stage.send_message(&session, "go").await;
    assert_eq!(received.reason(), "error");
    assert!(received.stop()["error"]["code"].is_string());
    assert!(stage.toys.lookups() <= 2);
}

// P-035
#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let script = "[[turn]]\ntext = \"Half of it and more\"\nfailure = { how = \"cut\", after = 1, retriable = false }\n";
    let stage = Stage::with(&format!("[pace]\nwords = 1\n{script}")).await;
    let session = gated(&stage).await;
    let received = stage.send_message(&session, "go").await;
    assert_eq!(received.reason(), "error");
    assert_eq!(received.names().iter().filter(|name| **name == "turn_stop").count(), 1);
}

// P-078
#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_others() {
    let words = "word ".repeat(20_000);
    let script = format!(
        "[pace]\nbytes = 64\n[[scene]]\nwhen = \"long\"\n[[scene.turn]]\ntext = \"{words}\"\n[[turn]]\ntext = \"Short.\"\n"
    );
    let stage = Stage::with(&script).await;
    let (slow, quick) = (gated(&stage).await, gated(&stage).await);
    let unread = stage.turn(&slow, &user_message("long", "delta")).await;
    assert_eq!(stage.send_message(&quick, "hi").await.text(), "Short.");
    let turn = format!("/sessions/{slow}/turns/{}/events?stream=message", unread.header("aap-turn-id"));
    assert_eq!(stage.get(&turn).await.into_turn_stream().await.text(), words);
    // The turn has ended, and the slow client receives all of it.
    assert_eq!(unread.into_turn_stream().await.text(), words);
}

// P-031, P-032
#[tokio::test]
async fn thoughts_come_before_words() {
    let stage = Stage::with("[[turn]]\nthinking = \"Let me see.\"\ntext = \"Hello.\"\n").await;
    let session = gated(&stage).await;
    let received = stage.send_message(&session, "hi").await;
    assert_eq!(received.names(), ["turn_start", "thinking_delta", "text_delta", "turn_stop"]);
    let received = stage.stream_turn(&session, &user_message("hi", "message")).await;
    assert_eq!(received.names(), ["turn_start", "thinking", "text", "turn_stop"]);
    let history = history(&stage, &session).await;
    assert_eq!(
        history[1]["content"],
        json!([{ "type": "thinking", "thinking": "Let me see." }, { "type": "text", "text": "Hello." }])
    );
}

// P-062, P-064
#[tokio::test]
async fn a_run_holds_what_was_chosen_and_no_secret() {
    let stage = Stage::with("[[turn]]\ntext = \"Hi.\"\n").await;
    let agent = json!({ "name": "clerk", "options": { "key": "hush-hush-hush" } });
    let session = stage.session(json!({ "agent": agent })).await;
    let mut body = user_message("hi", "delta");
    body["agent"] = json!({ "options": { "tone": "dry", "key": "more-hush" } });
    stage.stream_turn(&session, &body).await;
    let run = stage.runs(&session).await[0];
    let events = stage.events(run).await;
    let recount_event::Payload::RunQueued(queued) = events[0].payload() else { panic!("it was queued") };
    let config: Value = serde_json::from_str(queued.config.as_ref().unwrap().text()).unwrap();
    assert_eq!(config["options"], json!({ "language": "English", "tone": "dry" }));
    assert_eq!(config["system"], "Speak English.");
    let (page, _) = stage.engine.read().read_run(run, None, 1_000).await.unwrap();
    assert!(page.iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains("hush")));
    assert!(!json!(history(&stage, &session).await).to_string().contains("hush"));
    let value = stage.engine.write().secret_option(session.parse().unwrap(), "key").await.unwrap();
    assert_eq!(value.as_deref(), Some("more-hush"));
}

#[tokio::test]
async fn a_removed_agent_is_named_and_its_history_stays_readable() {
    let stage = Stage::with("[[turn]]\ntext = \"Hi.\"\n").await;
    let session = gated(&stage).await;
    stage.send_message(&session, "hi").await;
    let stage = stage.with_agents(Vec::new());
    let reply = stage.turn(&session, &user_message("again", "delta")).await;
    assert_eq!(reply.refused().await, (400, "agent_not_found".into()));
    assert_eq!(history(&stage, &session).await.len(), 2);
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(shown["agent"]["name"], "clerk");
}

// P-075: of two messages at once one is answered, and the other may come again.
#[tokio::test]
async fn one_of_two_simultaneous_messages_is_refused() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let (first, second) = (user_message("one", "delta"), user_message("two", "delta"));
    let (one, two) = tokio::join!(stage.turn(&session, &first), stage.turn(&session, &second));
    let (good, bad) = if one.status == 200 { (one, two) } else { (two, one) };
    assert_eq!(bad.refused().await, (409, "session_busy".into()));
    stage.toys.open_gate();
    assert_eq!(good.into_turn_stream().await.reason(), "end_turn");
    assert_eq!(stage.runs(&session).await.len(), 1);
}

// P-030, P-077
#[tokio::test]
async fn invalid_turns_are_refused_and_start_nothing() {
    let stage = Stage::with(GATED).await;
    let session = gated(&stage).await;
    let hi = json!([{ "role": "user", "content": "hi" }]);
    for body in [
        "".to_owned(),
        "{".into(),
        "{}".into(),
        json!({ "messages": hi, "stream": "sse" }).to_string(),
        json!({ "messages": [] }).to_string(),
        json!({ "messages": [{ "role": "system", "content": "x" }] }).to_string(),
        json!({ "messages": [{ "role": "assistant", "content": "x" }] }).to_string(),
        json!({ "messages": [hi[0], hi[0]] }).to_string(),
        format!("{{\"messages\":{}}}", "[".repeat(500)),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}".into(),
    ] {
        let reply = stage.ask(Method::POST, &format!("/sessions/{session}/turns"), body.clone()).await;
        assert_eq!(reply.refused().await, (400, "body_malformed".into()), "{body}");
    }
    assert!(stage.runs(&session).await.is_empty());
}

#[tokio::test]
async fn a_plain_turn_waits_for_the_disk_five_times_at_most() {
    let stage = Stage::with("[[turn]]\ntext = \"Hello.\"\n").await;
    let session = gated(&stage).await;
    for _ in 0..3 {
        stage.store.take();
        assert_eq!(stage.send_message(&session, "hi").await.reason(), "end_turn");
        let appends = stage.store.take();
        let stop = appends.iter().position(|types| types.iter().any(|name| name == "run.finished")).unwrap();
        assert!(stop < 5, "{appends:#?}");
    }
}
