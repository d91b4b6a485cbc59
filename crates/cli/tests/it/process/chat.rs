//! `recount chat` against a server of another implementation: the plain protocol without our extensions, and failures.

mod folder;
mod foreign;
mod left;
mod own;

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use self::foreign::{
    Foreign, Piece, Reply, Request, agent, around, frame, meta, plain, reply, reply_with, stream,
    whole_stream,
};
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, recount};

fn chat(server: &Foreign, arguments: &[&str]) -> Command {
    let mut command = recount();
    command.arg("chat").args(arguments).arg(server.url());
    command
}

fn run_chat(server: &Foreign, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(&mut chat(server, arguments))
}

/// What the verb answers with these lines on its standard input.
fn piped(mut command: Command, lines: &str) -> CommandOutput {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(lines.as_bytes()).unwrap();
    CommandOutput::of(command.stdin(Stdio::from(file.reopen().unwrap())))
}

/// A server that answers a turn by its last message.
fn server(turn: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Foreign {
    Foreign::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/sessions/s-1/turns") => Some(turn(&request.body["messages"])),
        _ => around(request, &agent()),
    })
}

fn last_text(messages: &Value) -> &str {
    messages[0]["content"].as_str().unwrap_or("")
}

#[test]
fn a_plain_server_is_spoken_to_in_plain_protocol() {
    // Line ends of another kind, letters cut in two, a comment, an unknown event, a field that nobody knows.
    let server = server(|_| {
        let text = "event: turn_start\r\ndata: {}\r\n\r\n: ping\r\n\r\nevent: text_delta\r\ndata: {\"delta\":\"Grüße \"}\r\n\r\n\
                    event: mood\r\ndata: {\"x\":1}\r\n\r\nevent: text_delta\r\nretry: 5\r\ndata: {\"delta\":\"zurück 😀\"}\r\n\r\n\
                    event: turn_stop\r\ndata: {\"stopReason\":\"end_turn\"}\r\n\r\n";
        let bytes = text.as_bytes();
        let pieces: Vec<&[u8]> = bytes.chunks(7).collect();
        let mut reply = stream("", &pieces);
        reply.push(Piece::Bytes(b"0\r\n\r\n".to_vec()));
        reply
    });
    let answer = run_chat(&server, &["--message", "Grüß dich"]);
    assert_eq!((answer.status, answer.data.as_str()), (0, "Grüße zurück 😀\n"), "{answer:?}");
    assert!(answer.words.starts_with("session s-1 with clerk\n"), "{answer:?}");
    let requests = server.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/meta", "/sessions", "/sessions/s-1/turns"]);
    let tools = json!([{"name": "look", "trust": false}, {"name": "keep", "trust": false}]);
    assert_eq!(requests[1].body, json!({"agent": {"name": "clerk", "tools": tools}, "tools": []}));
    let turn = json!({"messages": [{"role": "user", "content": "Grüß dich"}], "stream": "delta"});
    assert_eq!(requests[2].body, turn);
    assert!(
        !requests[2].headers.contains_key("authorization")
            && requests[2].headers["accept"].contains("event-stream")
    );
}

#[test]
fn turns_are_printed_in_blocks_or_whole_without_pieces_from_the_server() {
    let by_blocks = json!({"name": "b", "version": "1.0.0", "capabilities": {"stream": {"message": {}}}});
    let server = Foreign::start(move |request| match request.path.as_str() {
        "/sessions/s-1/turns" => Some(whole_stream(
            // The name of an event may stand in its data.
            "data: {\"event\":\"turn_start\"}\n\ndata: {\"event\":\"thinking\",\"thinking\":\"hm\"}\n\n\
             data: {\"event\":\"text\",\"text\":\"In blocks.\"}\n\ndata: {\"event\":\"turn_stop\",\"stopReason\":\"end_turn\"}\n\n",
        )),
        _ => around(request, &by_blocks),
    });
    assert_eq!(run_chat(&server, &["--message", "x"]).good(), "thinking: hm\nIn blocks.\n");
    assert_eq!(server.turns()[0]["stream"], "message");

    let whole = json!({"name": "w", "version": "1.0.0"});
    let server = Foreign::start(move |request| match request.path.as_str() {
        "/sessions/s-1/turns" => {
            let messages =
                json!([{"role": "assistant", "content": [{"type": "text", "text": "All at once."}]}]);
            Some(reply(200, &json!({"stopReason": "max_tokens", "messages": messages})))
        }
        _ => around(request, &whole),
    });
    let answer = run_chat(&server, &["--message", "x"]);
    assert_eq!((answer.status, answer.data.as_str()), (1, "All at once.\n"), "{answer:?}");
    assert!(answer.words.contains("max_tokens"), "{answer:?}");
    assert_eq!(server.turns()[0]["stream"], "none");
    let output = run_chat(&server, &["--message", "x", "--json"]).data;
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({"event": "session", "data": {"sessionId": "s-1"}}));
    assert_eq!((&lines[1]["event"], &lines[1]["data"]["stopReason"]), (&json!("turn"), &json!("max_tokens")));
    assert_eq!(lines.len(), 2);
}

fn asking() -> Reply {
    let call = |id: &str, name: &str| {
        frame("tool_call", &json!({"toolCallId": id, "name": name, "input": {"note": "n"}}))
    };
    whole_stream(&format!(
        "{}{}{}{}{}",
        frame("turn_start", &json!({})),
        call("c1", "look"),
        call("c2", "keep"),
        call("c3", "hidden"),
        frame("turn_stop", &json!({"stopReason": "tool_use"})),
    ))
}

fn answering(messages: &Value) -> Reply {
    if messages[0]["role"] == "user" { asking() } else { reply_with("So be it.") }
}

#[test]
fn calls_are_answered_in_one_turn_by_rule_without_a_person() {
    let server = server(answering);
    let permission = |id: &str| json!({"role": "tool_permission", "toolCallId": id, "granted": true});
    let denied = |id: &str| json!({"role": "tool_permission", "toolCallId": id, "granted": false, "reason": "no user was available to approve the call"});
    let answer = run_chat(&server, &["--message", "go", "--allow", "keep"]);
    assert!(answer.words.contains("look is denied"), "{answer:?}");
    let output = "▸ call look  {\"note\":\"n\"}\n▸ call keep  {\"note\":\"n\"}\n▸ call hidden  {\"note\":\"n\"}\nSo be it.\n";
    assert_eq!(answer.good(), output);
    assert_eq!(server.turns()[1]["messages"], json!([denied("c1"), permission("c2"), denied("c3")]));
    run_chat(&server, &["--message", "go", "--yes"]).good();
    assert_eq!(server.turns()[3]["messages"], json!([permission("c1"), permission("c2"), permission("c3")]));
    run_chat(&server, &["--message", "go", "--trust", "look", "--tools", "keep"]).good();
    let created = server.requests().into_iter().rfind(|request| request.path == "/sessions").unwrap();
    let tools = json!([{"name": "look", "trust": true}, {"name": "keep", "trust": false}]);
    assert_eq!(created.body["agent"]["tools"], tools);
}

#[test]
fn an_agent_that_asks_for_ever_is_not_answered_for_ever() {
    let server = server(|_| asking());
    run_chat(&server, &["--message", "go", "--yes"]).bad(1, "RULED_TURNS_MAX");
    assert_eq!(server.turns().len(), 101);
}

#[test]
fn lines_of_a_pipe_are_messages_and_a_failed_one_sets_the_exit_status() {
    let server = server(|messages| match last_text(messages) {
        "/fail" => whole_stream(&frame(
            "turn_stop",
            &json!({"stopReason": "error", "error": {"code": "model_cut", "message": "cut off", "retryable": true}}),
        )),
        text => reply_with(&format!("You said {text}.")),
    });
    let answer = piped(chat(&server, &[]), "one\n\n  two\r\nthree");
    assert_eq!(answer.good(), "You said one.\nYou said   two.\nYou said three.\n");
    let answer = piped(chat(&server, &[]), "/fail\nafter\n");
    assert_eq!((answer.status, answer.data.as_str()), (1, "You said after.\n"), "{answer:?}");
    assert!(answer.words.contains("✗ the turn failed: model_cut: cut off; retry may succeed"), "{answer:?}");
    let long = "x".repeat(1024 * 1024 + 1);
    piped(chat(&server, &[]), &long).bad(2, "MESSAGE_BYTES_MAX");
    assert_eq!(server.turns().len(), 5, "nothing of the long one was sent");
}

#[test]
fn a_session_continues_with_its_open_calls_and_tools_of_others_are_unknown() {
    let server = Foreign::start(|request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/sessions/s-1") => Some(reply(
            200,
            &json!({
                "sessionId": "s-1",
                "agent": {"name": "clerk", "tools": [{"name": "keep"}], "options": {"x": "***"}},
                "tools": [{"name": "weather", "description": "", "parameters": {}}],
            }),
        )),
        ("GET", "/sessions/s-1/history?type=full") => Some(reply(
            200,
            &json!({"history": {"full": [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "toolCallId": "w", "name": "weather", "input": {}},
                    {"type": "tool_use", "toolCallId": "l", "name": "look", "input": {}},
                    {"type": "tool_use", "toolCallId": "k", "name": "keep", "input": {}},
                ]},
                {"role": "tool", "toolCallId": "l", "content": "seen"},
            ]}}),
        )),
        ("POST", "/sessions/s-1/turns") => Some(reply_with("Fine.")),
        _ => around(request, &agent()),
    });
    let answer = run_chat(&server, &["--session", "s-1", "--message", "on", "--yes", "--tools", "keep"]);
    assert!(answer.words.contains("you: hello\n▸ call weather\n"), "{answer:?}");
    assert_eq!(answer.good(), "Fine.\nFine.\n");
    let turns = server.turns();
    let unknown = json!({"role": "tool", "toolCallId": "w", "content": "Unknown tool: weather"});
    let granted = json!({"role": "tool_permission", "toolCallId": "k", "granted": true});
    assert_eq!(turns[0]["messages"], json!([unknown, granted]));
    assert_eq!(
        turns[0]["agent"],
        json!({"tools": [{"name": "keep", "trust": false}]}),
        "what was chosen anew goes first"
    );
    assert_eq!(turns[1].get("agent"), None, "and once");
    assert!(!server.requests().iter().any(|request| request.method == "POST" && request.path == "/sessions"));
    run_chat(&server, &["--session", "s-2"]).bad(1, "no session s-2");
    run_chat(&server, &["--session", "s-1", "--agent", "other"])
        .bad(2, "belongs to the agent clerk, not other");
    run_chat(&server, &["--session", "../x"]).bad(1, "no session ../x");
}

#[test]
fn refusals_show_the_message_of_the_server() {
    let server = Foreign::start(|request| match request.headers.get("authorization").map(String::as_str) {
        Some("Bearer good") if request.path.ends_with("/turns") => {
            Some(reply(404, &json!({"error": "no such session"})))
        }
        Some("Bearer good") => around(request, &agent()),
        _ => Some(plain(401, "Unauthorized")),
    });
    run_chat(&server, &["--message", "x"]).bad(1, "Unauthorized (status 401); the server requires a token");
    run_chat(&server, &["--message", "x", "--token", "good"]).bad(1, "no such session (status 404)");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "good\n").unwrap();
    run_chat(&server, &["--message", "x", "--token-file", file.to_str().unwrap()]).bad(1, "no such session");
    run_chat(&server, &["--message", "x", "--token-file", "/nonexistent/t"]).bad(2, "/nonexistent/t");
    // The token in the environment is for the usual server.
    let mut elsewhere = chat(&server, &["--message", "x"]);
    let answer = CommandOutput::of(elsewhere.env("RECOUNT_TOKEN", "good"));
    assert!(answer.words.contains("is not sent to"), "{answer:?}");
    answer.bad(1, "status 401");
    let mut there = chat(&server, &["--message", "x", "--url", &format!("http://{}", server.address)]);
    CommandOutput::of(there.env("RECOUNT_TOKEN", "good")).bad(1, "no such session");
    let busy = Foreign::start(|request| match request.path.as_str() {
        "/sessions/s-1/turns" => Some(plain(500, "Internal Server Error")),
        _ => around(request, &agent()),
    });
    run_chat(&busy, &["--message", "x"]).bad(1, "Internal Server Error (status 500)");
}

#[test]
fn what_is_not_the_protocol_is_named_and_said_where_it_may_be() {
    let of_version = |version: Value| {
        Foreign::start(move |_| Some(reply(200, &json!({"version": version, "agents": []}))))
    };
    run_chat(&of_version(json!(4)), &["--message", "x"]).bad(4, "version 4");
    run_chat(&of_version(json!("3")), &["--message", "x"]).bad(4, "version \"3\"");
    run_chat(&of_version(json!(3)), &["--message", "x"]).bad(2, "no agent");
    let server = server(|_| reply_with("x"));
    let bare = format!("http://{}", server.address);
    let answer = CommandOutput::of(recount().args(["chat", "--message", "x", &bare]));
    answer.bad(4, &format!("try {bare}/aap"));
    CommandOutput::of(recount().args(["chat", "ftp://localhost/aap"])).bad(2, "does not begin with http://");
    CommandOutput::of(recount().args(["chat", "--url", "http://127.0.0.1:9", "--message", "x"]))
        .bad(3, "no response from");
    // One trailing slash is no part of the address.
    CommandOutput::of(recount().args(["chat", "--message", "x", &format!("{}/", server.url())])).good();
}

#[test]
fn what_is_chosen_is_held_against_what_the_server_offers() {
    let offered = json!({
        "name": "o", "version": "1.0.0", "capabilities": {"stream": {"delta": {}}},
        "options": [
            {"type": "secret", "name": "key", "default": ""}, {"type": "text", "name": "tone", "default": "calm"},
            {"type": "select", "name": "size", "options": ["small", "large"], "default": "small"},
        ],
    });
    let of = offered.clone();
    let server = Foreign::start(move |request| match request.path.as_str() {
        "/sessions/s-1/turns" => Some(reply_with("x")),
        _ => around(request, &of),
    });
    let with = |arguments: &[&str]| run_chat(&server, &[&["--message", "x"], arguments].concat());
    with(&["--option", "size=huge"]).bad(2, "known values: small, large");
    with(&["--option", "mood=x"]).bad(2, "known options: key, tone, size");
    with(&["--option", "key"]).bad(2, "--option key=@FILE");
    with(&["--tools", "rm"]).bad(2, "has no tool \"rm\"");
    with(&["--agent", "x"]).bad(2, "known agents: o");
    let folder = tempfile::tempdir().unwrap();
    let (key, picture) = (folder.path().join("key"), folder.path().join("a.png"));
    std::fs::write(&key, "s3cret\n").unwrap();
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\n").unwrap();
    with(&["--image", picture.to_str().unwrap()]).bad(2, "accepts no images");
    assert!(server.requests().iter().all(|request| request.path == "/meta"), "nothing was sent");
    let from_file = format!("key=@{}", key.display());
    let answer = with(&["--option", &from_file, "--option", "size=large", "--tools", ""]);
    assert!(!answer.words.contains("s3cret") && !answer.data.contains("s3cret"), "{answer:?}");
    answer.good();
    let created = server.requests().into_iter().rfind(|request| request.path == "/sessions").unwrap();
    let agent = json!({"name": "o", "tools": [], "options": {"key": "s3cret", "size": "large"}});
    assert_eq!(created.body["agent"], agent);

    let two = json!({"version": 3, "agents": [offered, {"name": "p", "version": "1.0.0"}]});
    let several = Foreign::start(move |request| (request.path == "/meta").then(|| reply(200, &two)));
    run_chat(&several, &["--message", "x"]).bad(2, "use --agent with one of o, p");
}

#[test]
fn a_picture_goes_along_where_the_agent_takes_it() {
    let mut takes = agent();
    takes["capabilities"]["image"] = json!({"data": {}});
    let server = Foreign::start(move |request| match request.path.as_str() {
        "/sessions/s-1/turns" => Some(reply_with("Seen.")),
        _ => around(request, &takes),
    });
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("a");
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\n").unwrap();
    assert_eq!(
        run_chat(&server, &["--message", "look", "--image", picture.to_str().unwrap()]).good(),
        "Seen.\n"
    );
    let content = json!([
        {"type": "text", "text": "look"}, {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo="},
    ]);
    assert_eq!(server.turns()[0]["messages"], json!([{"role": "user", "content": content}]));
}

fn history(request: &Request, messages: &Value) -> Option<Reply> {
    (request.path == "/sessions/s-1/history?type=full")
        .then(|| reply(200, &json!({"history": {"full": messages}})))
}

#[test]
fn a_turn_without_a_stop_is_an_error_and_the_history_is_printed() {
    // Closed in good order, and broken in the middle of a frame.
    for is_whole in [true, false] {
        let server = Foreign::start(move |request| match request.path.as_str() {
            "/sessions/s-1/turns" => {
                let events = format!(
                    "{}{}",
                    frame("turn_start", &json!({})),
                    frame("text_delta", &json!({"delta": "half"}))
                );
                Some(if is_whole {
                    whole_stream(&events)
                } else {
                    stream("", &[events.as_bytes(), b"event: te"])
                })
            }
            _ => history(
                request,
                &json!([
                    {"role": "user", "content": "old"}, {"role": "assistant", "content": "older answer"},
                    {"role": "user", "content": "x"}, {"role": "assistant", "content": "half and the rest"},
                ]),
            )
            .or_else(|| around(request, &agent())),
        });
        let answer = run_chat(&server, &["--message", "x"]);
        assert_eq!((answer.status, answer.data.as_str()), (1, "half\n"), "{answer:?}");
        assert!(answer.words.contains("the turn was interrupted"), "{answer:?}");
        let kept = "since the last message:\nyou: x\nagent: half and the rest\n";
        assert!(answer.words.contains(kept) && !answer.words.contains("older answer"), "{answer:?}");
    }
}

fn numbered(from: u64, events: &[(&str, Value)]) -> String {
    let numbered = events.iter().zip(from..);
    numbered.map(|((event, data), number)| format!("id: {number}.0\n{}", frame(event, data))).collect()
}

fn delta(text: &str) -> (&'static str, Value) {
    ("text_delta", json!({"delta": text}))
}

#[test]
fn a_named_turn_resumes_after_a_break_and_prints_nothing_twice() {
    // The connection breaks in a frame; then the server ends, and says so with a stop that is no part of the turn.
    let server = Foreign::start(|request| {
        let behind = request.headers.get("last-event-id").map(String::as_str);
        match (request.path.as_str(), behind) {
            ("/sessions/s-1/turns", None) => {
                let events = numbered(0, &[("turn_start", json!({})), delta("One ")]);
                Some(stream("aap-turn-id: t-7\r\n", &[events.as_bytes(), b"id: 2.0\nevent: text_del"]))
            }
            ("/sessions/s-1/turns/t-7/events", Some("1.0")) => {
                let ending = json!({"stopReason": "error", "error": {"code": "shutting_down", "message": "ends", "retryable": true}});
                Some(whole_stream(&format!(
                    "{}{}",
                    numbered(2, &[delta("two ")]),
                    frame("turn_stop", &ending)
                )))
            }
            ("/sessions/s-1/turns/t-7/events", Some("2.0")) => {
                let stop = ("turn_stop", json!({"stopReason": "end_turn", "usage": {"inputTokens": 3}}));
                Some(whole_stream(&numbered(3, &[delta("three."), stop])))
            }
            _ => around(request, &agent()),
        }
    });
    let answer = run_chat(&server, &["--message", "x"]);
    assert!(answer.words.contains("reconnecting") && answer.words.contains("reconnected"), "{answer:?}");
    assert!(answer.words.contains("usage: input tokens 3"), "{answer:?}");
    // The text is in whole lines around the notes.
    assert_eq!(answer.good().replace('\n', ""), "One two three.");
    let output = run_chat(&server, &["--message", "x", "--json"]).good();
    let ids: Vec<Value> =
        output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids, [json!(null), json!("0.0"), json!("1.0"), json!("2.0"), json!("3.0"), json!("4.0")]);
}

#[test]
fn a_turn_that_cannot_resume_is_broken_off() {
    let server = Foreign::start(|request| match request.path.as_str() {
        "/sessions/s-1/turns" => {
            Some(stream("aap-turn-id: t-7\r\n", &[numbered(0, &[("turn_start", json!({}))]).as_bytes()]))
        }
        _ => around(request, &agent()),
    });
    let answer = run_chat(&server, &["--message", "x"]);
    assert!(answer.words.contains("cannot be followed further"), "{answer:?}");
    assert!(answer.words.contains("was interrupted"), "{answer:?}");
    answer.bad(1, "session s-1 no longer exists");
    // Without ids the client does not know where to continue, and does not try.
    let without = Foreign::start(|request| match request.path.as_str() {
        "/sessions/s-1/turns" => {
            Some(stream("aap-turn-id: t-7\r\n", &[frame("turn_start", &json!({})).as_bytes()]))
        }
        _ => around(request, &agent()),
    });
    let answer = run_chat(&without, &["--message", "x"]);
    assert!(answer.status == 1 && answer.words.contains("was interrupted"), "{answer:?}");
    assert!(!without.requests().iter().any(|request| request.path.contains("events")));
}

#[test]
fn a_server_that_never_stops_a_turn_is_left_by_an_interrupt() {
    let server = server(|_| {
        let mut reply =
            stream("", &[numbered(0, &[("turn_start", json!({})), delta("on and on")]).as_bytes()]);
        reply.push(Piece::UntilClosed);
        reply
    });
    let following =
        crate::server::RunningCommand::of(chat(&server, &["--message", "x", "--json"]).stdin(Stdio::null()));
    while !following.line().contains("on and on") {}
    following.interrupt();
    assert_eq!(following.end().1, 130);
}

#[test]
fn at_a_terminal_calls_are_prompted_and_answered_together() {
    let server = server(answering);
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(folder.path(), &["chat", &server.url()], &[]);
    terminal.wait_for("you: ");
    terminal.press("/tools\n");
    terminal.wait_for("look (asks): Looks something up.\n");
    terminal.press("/nonsense\n");
    terminal.wait_for("unknown command /nonsense");
    terminal.press("/image /nonexistent\n");
    terminal.wait_for("accepts no images");
    terminal.press("go\n");
    let prompt = terminal.wait_for("d for details: ");
    assert!(
        prompt.contains("Permission requested: use look\n    complete input:\n        {\n          \"note\": \"n\"\n        }\n"),
        "{prompt}"
    );
    assert!(prompt.contains("tool: Looks something up."), "{prompt}");
    terminal.press("y if you must\n");
    terminal.wait_for("nothing was decided");
    terminal.press("y\n");
    terminal.wait_for("Permission requested: use keep");
    terminal.wait_for("d for details: ");
    terminal.press("n not today\n");
    terminal.wait_for("Permission requested: use hidden");
    terminal.wait_for("d for details: ");
    terminal.press("n\n");
    terminal.wait_for("So be it.");
    terminal.wait_for("you: ");
    terminal.press("/quit\n");
    let (_, status) = terminal.end();
    assert_eq!(status, 0);
    let answers = json!([
        {"role": "tool_permission", "toolCallId": "c1", "granted": true},
        {"role": "tool_permission", "toolCallId": "c2", "granted": false, "reason": "not today"},
        {"role": "tool_permission", "toolCallId": "c3", "granted": false},
    ]);
    assert_eq!(server.turns()[1]["messages"], answers);
    assert_eq!(server.turns().len(), 2);
}

#[test]
fn ctrl_c_cancels_a_turn_where_the_server_can_and_leaves_it_where_it_cannot() {
    let cancelled = std::sync::Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let was = cancelled.clone();
    let server = Foreign::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/sessions/s-1/turns") => {
            let named = request.body["messages"][0]["content"] == "named";
            let head = if named { "aap-turn-id: t-9\r\n" } else { "" };
            let mut reply =
                stream(head, &[numbered(0, &[("turn_start", json!({})), delta("working")]).as_bytes()]);
            if !named {
                reply.push(Piece::UntilClosed);
            }
            Some(reply)
        }
        ("GET", "/sessions/s-1/turns/t-9/events") => {
            let (done, bell) = &*was;
            drop(bell.wait_while(done.lock().unwrap(), |done| !*done));
            let error = json!({"code": "cancelled", "message": "by you", "retryable": false});
            Some(whole_stream(&numbered(2, &[("turn_stop", json!({"stopReason": "error", "error": error}))])))
        }
        ("POST", "/sessions/s-1/turns/t-9/cancel") => {
            let (done, bell) = &*was;
            *done.lock().unwrap() = true;
            bell.notify_all();
            Some(reply(202, &json!({})))
        }
        _ => history(request, &json!([{"role": "user", "content": "kept"}]))
            .or_else(|| around(request, &agent())),
    });
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(folder.path(), &["chat", &server.url()], &[]);
    terminal.wait_for("you: ");
    terminal.press("named\n");
    terminal.wait_for("working\n");
    terminal.press("too early\n");
    terminal.wait_for("not sent");
    terminal.interrupt();
    terminal.wait_for("cancelling the turn");
    terminal.wait_for("✗ the turn failed: cancelled: by you\n");
    terminal.wait_for("you: ");
    terminal.press("nameless\n");
    terminal.wait_for("working");
    terminal.interrupt();
    terminal.wait_for("the server does not support cancelling; stopped waiting");
    terminal.wait_for("you: kept\n");
    terminal.wait_for("you: ");
    terminal.interrupt();
    terminal.wait_for("to continue it:\n    recount chat --session=s-1");
    assert_eq!(terminal.end().1, 130);
}

#[test]
fn at_a_terminal_an_agent_is_chosen_and_a_secret_is_not_shown() {
    let keyed = json!({
        "name": "keyed", "version": "1.0.0", "title": "With a key", "capabilities": {"stream": {"delta": {}}},
        "options": [{"type": "secret", "name": "key", "default": ""}],
    });
    let two = json!({"version": 3, "agents": [{"name": "first", "version": "1.0.0"}, keyed]});
    let server = Foreign::start(move |request| match request.path.as_str() {
        "/meta" => Some(reply(200, &two)),
        _ => around(request, &Value::Null),
    });
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(folder.path(), &["chat", "--option", "key", &server.url()], &[]);
    let prompt = terminal.wait_for("Type the number or the name of an agent: ");
    assert!(prompt.contains("  1 first\n  2 keyed: With a key\n"), "{prompt}");
    terminal.press("3\n");
    terminal.wait_for("Unknown agent \"3\".");
    terminal.wait_for("name of an agent: ");
    terminal.press("2\n");
    terminal.wait_for("key (not shown): ");
    terminal.press("hush\n");
    terminal.wait_for("session s-1 with keyed");
    terminal.wait_for("you: ");
    terminal.press("\u{4}");
    let (seen, status) = terminal.end();
    assert_eq!(status, 0);
    assert!(!seen.contains("hush"), "{seen}");
    assert_eq!(server.requests()[1].body["agent"]["options"], json!({"key": "hush"}));
}

#[test]
fn an_unread_history_is_reported_and_a_lost_server_does_not_end_a_chat_at_a_terminal() {
    let silent = json!({"name": "s", "version": "1.0.0", "capabilities": {"stream": {"delta": {}}}});
    let server = Foreign::start(move |request| match request.path.as_str() {
        "/sessions/s-1/turns" if last_text(&request.body["messages"]) == "again" => Some(reply_with("Here.")),
        "/sessions/s-1/turns" => Some(stream("", &[b"event: turn"])),
        "/meta" => Some(meta(&silent)),
        _ => around(request, &Value::Null),
    });
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(folder.path(), &["chat", &server.url()], &[]);
    terminal.wait_for("you: ");
    terminal.press("x\n");
    terminal.wait_for("the turn was interrupted");
    terminal.wait_for("offers no history");
    terminal.wait_for("you: ");
    terminal.press("again\n");
    terminal.wait_for("Here.");
    terminal.wait_for("you: ");
    terminal.press("/quit\n");
    assert_eq!(terminal.end().1, 0);
}
