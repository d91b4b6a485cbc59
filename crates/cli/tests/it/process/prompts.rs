//! Questions, handoffs and sessions by the built program: shown, answered once, deleted.

use recount_client::{Client, request};
use serde_json::{Value, json};

use crate::process::story;
use crate::server::Server;

const QUESTION: story::StoryEvent = (
    "clarification.requested",
    r#"{"clarification_id":"clar_1","question":"Which folder?\nOnly one.","context":"both \u001b[31mare old","choices":["build",{"name":"dist"},{"value":1.50,"label":"both"}],"default_response":"build"}"#,
);
const HANDOFF: story::StoryEvent = (
    "handoff.requested",
    r#"{"handoff_id":"hand_1","reason":"too hard","target_kind":"human","summary_terse":"help","packaged_context":{"seen":[1]},"urgency_for_handoff":"high"}"#,
);

fn parsed(answer: &str) -> Value {
    serde_json::from_str(answer).unwrap_or_else(|why| panic!("{why}: {answer}"))
}

async fn asking(client: &Client, seq: u64, run: &str, name: &str) {
    let question = QUESTION.1.replace("clar_1", &format!("clar_{name}"));
    let handoff = HANDOFF.1.replace("hand_1", &format!("hand_{name}"));
    let data = |text: String| serde_json::value::RawValue::from_string(text).unwrap();
    let mut batch = story::batch(seq, &[QUESTION, HANDOFF]);
    batch.events[0].data = data(question);
    batch.events[1].data = data(handoff);
    client.append_run_events(run, &batch).await.unwrap();
}

#[tokio::test]
async fn a_question_is_shown_and_answered_in_words_by_choice_or_as_json() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    assert_eq!(server.ask(&["answer"]).good(), "");
    let run = story::create(&client, "A story").await;
    story::append(&client, &run, 0, &[("run.started", "{}")]).await;
    for (seq, name) in ["1", "2", "3", "4"].into_iter().enumerate() {
        asking(&client, seq as u64 + 1, &run, name).await;
    }
    assert!(server.ask(&["ls"]).good().contains("needs attention"));
    let listed = server.ask(&["answer"]).good();
    let first = listed.lines().next().unwrap();
    assert!(first.starts_with("clar_4  pending  Which folder?\\u{a}Only one.  "), "{listed}");
    assert!(listed.lines().count() == 4 && first.ends_with(&run), "{listed}");
    let output = server.ask(&["answer", "clar_1"]).good();
    let expected = format!(
        "clar_1 of {run}, pending\nWhich folder?\nOnly one.\nboth \\u{{1b}}[31mare old\nchoice 1: \"build\"\n\
         choice 2: {{\"name\":\"dist\"}}\nchoice 3: {{\"value\":1.50,\"label\":\"both\"}}\n\
         without an answer: \"build\"\n"
    );
    assert_eq!(output, expected);

    assert_eq!(server.ask(&["answer", "clar_1", "the", "new one"]).good(), "clar_1 answered\n");
    let output = server.ask(&["answer", "clar_1"]).good();
    assert!(output.ends_with("answered by operator: \"the new one\"\n"), "{output}");
    server.ask(&["answer", "clar_1", "again"]).bad(1, "clarification_not_pending");
    server.ask(&["answer", "clar_2", "--choice", "4"]).bad(2, "the question has 3 choices");
    server.ask(&["answer", "clar_2", "--choice", "0"]).bad(2, "the question has 3 choices");
    server.ask(&["answer", "clar_2", "--value", "{"]).bad(2, "is not JSON");
    server.ask(&["answer", "clar_2", "--value", "1", "words"]).bad(2, "cannot be used with");
    let chosen = parsed(&server.ask(&["answer", "clar_2", "--choice", "2", "--json"]).good());
    assert_eq!((&chosen["status"], &chosen["response"]), (&json!("answered"), &json!({"name": "dist"})));
    let answered = parsed(&server.ask(&["answer", "clar_3", "--value", "[null, 1]", "--json"]).good());
    assert_eq!(answered["response"], json!([null, 1]));
    let valued = server.ask(&["answer", "clar_4", "--choice", "3", "--json"]).good();
    assert!(valued.contains(r#""response":1.50"#), "{valued}");
    server.ask(&["answer", "nobody", "x"]).bad(1, "clarification_not_found");
    assert_eq!(server.ask(&["answer"]).good(), "");
    let shown = server.ask(&["show", &run]).good();
    assert!(shown.contains("clar_1 answered by operator: the new one"), "{shown}");
}

#[tokio::test]
async fn a_handoff_is_listed_shown_taken_and_refused() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let run = story::create(&client, "A story").await;
    story::append(&client, &run, 0, &[("run.started", "{}")]).await;
    asking(&client, 1, &run, "1").await;
    asking(&client, 2, &run, "2").await;
    let listed = server.ask(&["handoff", "ls"]).good();
    assert!(listed.starts_with("hand_2  pending  help  ") && listed.lines().count() == 2, "{listed}");
    let output = server.ask(&["handoff", "show", "hand_1"]).good();
    let expected = format!(
        "hand_1 of {run}, pending\nfor: human\nurgency: high\nreason: too hard\nsummary: help\n\
         context: {{\"seen\":[1]}}\n"
    );
    assert_eq!(output, expected);
    let taken = server.ask(&["handoff", "ack", "hand_1", "--comment", "mine"]).good();
    assert_eq!(taken, "hand_1 acknowledged\n");
    server.ask(&["handoff", "ack", "hand_1"]).bad(1, "handoff_not_pending");
    server.ask(&["handoff", "reject", "hand_1"]).bad(1, "handoff_not_pending");
    let refused = server.ask(&["handoff", "reject", "hand_2", "--reason", "not ours", "--json"]).good();
    let refused = parsed(&refused);
    assert_eq!((&refused["status"], &refused["comment"]), (&json!("rejected"), &json!("not ours")));
    assert_eq!(server.ask(&["handoff", "ls"]).good(), "");
    assert_eq!(server.ask(&["handoff", "ls", "--all"]).good().lines().count(), 2);
    assert!(
        server.ask(&["handoff", "show", "hand_1"]).good().contains("answered by: operator\ncomment: mine")
    );
    server.ask(&["handoff", "show", "nobody"]).bad(1, "handoff_not_found");
    server.ask(&["handoff"]).bad(2, "Usage");
}

#[tokio::test]
async fn a_deadline_is_moved_whatever_it_is_of() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let run = story::create(&client, "A story").await;
    story::append(&client, &run, 0, &[("run.started", "{}")]).await;
    let handoffs = [
        (
            "approval.requested",
            r#"{"approval_id":"one","tool_call_id":"c","kind":"tool","summary":"s","timeout_seconds":600}"#,
        ),
        ("clarification.requested", r#"{"clarification_id":"two","question":"?","timeout_seconds":600}"#),
        (
            "handoff.requested",
            r#"{"handoff_id":"three","reason":"r","target_kind":"human","timeout_seconds":600}"#,
        ),
        ("clarification.requested", r#"{"clarification_id":"four","question":"?"}"#),
    ];
    story::append(&client, &run, 1, &handoffs).await;
    for id in ["one", "two", "three"] {
        let extended = server.ask(&["extend", id, "10m"]).good();
        let until = extended.strip_prefix(&format!("{id} expires at ")).expect(&extended).trim();
        let shown = server.ask(&["show", &run]).good();
        assert!(shown.contains(&format!("{id} extended to {until} by operator")), "{shown}");
    }
    let json = parsed(&server.ask(&["extend", "two", "90s", "--json"]).good());
    assert_eq!((&json["id"], &json["status"]), (&json!("two"), &json!("pending")));
    server.ask(&["extend", "one", "2d"]).bad(1, "limit_reached");
    server.ask(&["extend", "four", "10m"]).bad(1, "extension_refused");
    server.ask(&["extend", "nobody", "10m"]).bad(2, "no approval, question or handoff");
    server.ask(&["extend", "one", "soon"]).bad(2, "use a duration such as");
}

#[tokio::test]
async fn a_session_is_opened_listed_shown_and_deleted() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    assert_eq!(server.ask(&["session", "ls"]).good(), "");
    let session = server.ask(&["session", "new", "A talk"]).good().trim().to_owned();
    assert!(session.starts_with("chat_"), "{session}");
    let new = request::CreateRun {
        kind: "external".into(),
        session_id: Some(session.clone()),
        title: Some("in it".into()),
        ..request::CreateRun::default()
    };
    let run = client.create_run(&new).await.unwrap().id;
    let listed = server.ask(&["session", "ls"]).good();
    assert!(
        listed.starts_with(&format!("{session}  queued  A talk  ")) && listed.ends_with("  1 run\n"),
        "{listed}"
    );
    let shown = server.ask(&["session", "show", &session]).good();
    assert_eq!(shown.lines().next(), listed.lines().next());
    assert!(shown.lines().nth(1).unwrap().starts_with(&format!("{run}  queued  in it  ")), "{shown}");
    let json = server.ask(&["session", "show", &session, "--json"]).good();
    assert_eq!(
        json.lines().map(|line| parsed(line)["id"].clone()).collect::<Vec<_>>(),
        [session.clone(), run.clone()]
    );
    server.ask(&["session", "rm", &session]).bad(2, "1 run");
    assert_eq!(
        server.ask(&["session", "rm", &session, "--yes"]).good(),
        format!("{session} deleted, 1 run erased\n")
    );
    server.ask(&["session", "show", &session]).bad(1, "session_erased");
    server.ask(&["show", &run]).bad(1, "run_erased");
    server.ask(&["session", "rm", "chat_x", "--yes"]).bad(1, "session_not_found");
}
