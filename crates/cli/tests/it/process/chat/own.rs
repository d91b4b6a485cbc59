//! The same verb against our own server, which adds to the protocol what a talk then uses.

use std::process::Command;

use recount_client::aap::wire::{AgentConfig, HistoryKind, NewSession};
use recount_client::aap::{AapClient, open_calls};
use serde_json::Value;

use crate::process::behind_tls::Proxy;
use crate::process::scene::{ALLOW_ALL, MODEL, NO_SANDBOX, PRICES, SLOW, Scene, WHICH_ONE};
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, RunningCommand, Server, recount};

const AGENT: &str = r#"
[agents.clerk]
title = "The clerk"
system = "Speak {language}."
tools = ["glob", "read_file"]
hidden_tools = ["todo_write", "write_file", "ask_user"]
thinking = true
[[agents.clerk.options]]
name = "language"
type = "select"
values = ["English", "Dutch"]
[[agents.clerk.options]]
name = "key"
type = "secret"
"#;

const POLICY: &str = r#"
[[rules]]
id = "writing"
tool = "write_file"
action = "ask"
"#;

const SCENES: &str = r#"
[[scene]]
when = "say hello"
[[scene.turn]]
thinking = "A greeting."
text = "Hello there, dear old friend."
usage = { input_tokens = 1000, output_tokens = 10 }

[[scene]]
when = "look around"
[[scene.turn]]
text = "I look."
call = [
    { name = "glob", input = { pattern = "*" } },
    { name = "read_file", input = { path = "gone.txt" } },
]
[[scene.turn]]
when = "not that file"
text = "Then I leave it."
[[scene.turn]]
text = "That is all."

[[scene]]
when = "write it"
[[scene.turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "one" } }]
[[scene.turn]]
text = "Written, or not."

[[scene]]
when = "fail"
[[scene.turn]]
text = "I was about to"
failure = { how = "cut", after = 1, retriable = false }
"#;

fn scene() -> Scene {
    let (config, policy) = ([MODEL, PRICES, NO_SANDBOX, AGENT].concat(), [POLICY, ALLOW_ALL].concat());
    Scene::of(&config, &policy, &[SCENES, SLOW, WHICH_ONE].concat())
}

fn command(scene: &Scene, bind: &str) -> Command {
    scene.command(bind, &["--log", "warn"])
}

fn server(scene: &Scene) -> Server {
    Server::of(&mut command(scene, "127.0.0.1:0")).listening()
}

/// The session that a chat printed.
fn session(answer: &CommandOutput) -> String {
    let first = answer.words.lines().next().unwrap();
    first.strip_prefix("session ").and_then(|line| line.split(' ').next()).unwrap().to_owned()
}

fn at_terminal(scene: &Scene, server: &Server, arguments: &[&str]) -> Terminal {
    let url = server.url();
    let arguments: Vec<&str> =
        ["--url", &url, "chat"].iter().copied().chain(arguments.iter().copied()).collect();
    Terminal::start(scene.folder.path(), &arguments, &[])
}

#[test]
fn a_chat_is_a_run_and_is_continued_by_its_id() {
    let scene = scene();
    let server = server(&scene);
    let first = server.ask(&["chat", "--message", "say hello"]);
    let output = "thinking: A greeting.\nHello there, dear old friend.\n";
    assert_eq!((first.status, first.data.as_str()), (0, output), "{first:?}");
    assert!(first.words.contains("usage: "), "{first:?}");
    assert!(first.words.contains("input tokens 1000, output tokens 10"), "{first:?}");
    let session = session(&first);
    let listed = server.ask(&["ls", "--json"]).good();
    let run: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!((&run["status"], &run["kind"]), (&"finished".into(), &"agent_loop".into()), "{listed}");

    let second =
        server.ask(&["chat", "--session", &session, "--message", "say hello", "--option", "language=Dutch"]);
    assert!(second.words.contains("you: say hello\n"), "{second:?}");
    assert!(second.words.contains("agent: Hello there, dear old friend.\n"), "{second:?}");
    assert_eq!(second.good(), output);
    server.ask(&["chat", "--session", "chat_01KQPNV2ZVNJX2AM9103W0PNQW"]).bad(1, "has no session");
    server.ask(&["chat", "--option", "language=Frisian"]).bad(2, "known values: English, Dutch");
    let failed = server.ask(&["chat", "--message", "fail"]);
    assert!(failed.words.contains("✗ the turn failed: model_cut"), "{failed:?}");
    assert!(failed.status == 1 && failed.data.starts_with("I "), "{failed:?}");
}

#[test]
fn calls_are_prompted_at_a_terminal_and_open_ones_wait_for_the_next_chat() {
    let scene = scene();
    let server = server(&scene);
    let mut terminal = at_terminal(&scene, &server, &["--trust", ""]);
    terminal.wait_for("session ");
    let session = terminal.wait_for(" with clerk").trim_end_matches(" with clerk").to_owned();
    terminal.wait_for("you: ");
    terminal.press("look around\n");
    terminal.wait_for("▸ call glob");
    let prompt = terminal.wait_for("d for details: ");
    for words in
        ["Permission requested: ", "risk: ", "without an answer: ", "a to always allow in this session"]
    {
        assert!(prompt.contains(words), "{words:?} is not in {prompt}");
    }
    terminal.interrupt();
    terminal.wait_for(&format!("to continue it:\n    recount chat --session={session}"));
    assert_eq!(terminal.end().1, 130);

    let mut terminal = at_terminal(&scene, &server, &["--session", &session]);
    let past = terminal.wait_for("Permission requested: ");
    assert!(past.contains("you: look around\nagent: I look.\n▸ call glob"), "{past}");
    assert!(past.contains("2 calls wait:"), "{past}");
    terminal.wait_for("d for details: ");
    terminal.press("y\n");
    terminal.wait_for("Permission requested: ");
    terminal.wait_for("d for details: ");
    terminal.press("n not that file\n");
    // Rejected calls are reported first: they need no time.
    terminal.wait_for("◂ result of read_file: Tool call denied: not that file\n");
    terminal.wait_for("◂ result of glob: ");
    terminal.wait_for("Then I leave it.\n");
    terminal.wait_for("you: ");
    // A question is text, and the next message its answer.
    terminal.press("which one\n");
    terminal.wait_for("Which colour?");
    terminal.wait_for("the agent waits for an answer, such as red, green\n");
    terminal.wait_for("you: ");
    terminal.press("green\n");
    terminal.wait_for("Green it is.");
    terminal.wait_for("you: ");
    terminal.press("/quit\n");
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn a_policy_prompt_for_an_unnamed_tool_is_shown_here_too() {
    let scene = scene();
    let server = server(&scene);
    let denied = server.ask(&["chat", "--message", "write it"]);
    assert!(denied.words.contains("write_file is denied"), "{denied:?}");
    assert!(denied.data.contains("◂ result of write_file: Tool call denied"), "{denied:?}");
    assert!(denied.good().ends_with("Written, or not.\n"));
    let allowed = server.ask(&["chat", "--message", "write it", "--allow", "write_file"]).good();
    assert!(allowed.contains("◂ result of write_file: ") && !allowed.contains("denied"), "{allowed}");
    for trust in [&[][..], &["--trust", "glob,read_file"]] {
        let trusted = server.ask(&[&["chat", "--message", "look around"], trust].concat()).good();
        assert!(trusted.ends_with("That is all.\n") && !trusted.contains("denied"), "{trusted}");
    }
    let untrusted = server.ask(&["chat", "--message", "look around", "--trust", ""]).good();
    assert!(untrusted.contains("denied"), "{untrusted}");
}

/// As in `recount run`: what the policy does not ask about runs, and an approval has the diff, the risk and *always*.
#[test]
fn a_chat_asks_as_a_run_does() {
    let scene = scene();
    let server = server(&scene);
    let mut terminal = at_terminal(&scene, &server, &[]);
    terminal.wait_for("you: ");
    terminal.press("look around\n");
    let looked = terminal.wait_for("That is all.");
    assert!(!looked.contains("Permission requested"), "{looked}");
    terminal.wait_for("you: ");
    terminal.press("write it\n");
    let prompt = terminal.wait_for("d for details: ");
    for words in ["changes:", "+one", "risk: ", "the call is denied", "approval: appr_"] {
        assert!(prompt.contains(words), "{words:?} is not in {prompt}");
    }
    terminal.press("a\n");
    terminal.wait_for("Written, or not.");
    terminal.wait_for("you: ");
    let allowed = server.ask(&["policy", "ls"]).good();
    assert!(allowed.contains("write_file"), "{allowed}");
    terminal.press("/quit\n");
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn ctrl_c_cancels_the_run_and_the_talk_goes_on() {
    let scene = scene();
    let server = server(&scene);
    let mut terminal = at_terminal(&scene, &server, &[]);
    terminal.wait_for("you: ");
    terminal.press("slow\n");
    terminal.wait_for("One");
    terminal.interrupt();
    terminal.wait_for("cancelling the turn");
    terminal.wait_for("✗ the turn failed: cancelled");
    terminal.wait_for("you: ");
    terminal.press("say hello\n");
    terminal.wait_for("dear old friend.");
    terminal.wait_for("you: ");
    terminal.press("/history\n");
    let history = terminal.wait_for("agent: Hello there");
    assert!(history.contains("you: slow\nagent (cut off): One"), "aborted text stays: {history}");
    terminal.wait_for("you: ");
    terminal.press("\u{4}");
    assert_eq!(terminal.end().1, 0);
    let talking = server.follow(&["chat", "--message", "slow", "--json"]);
    while !talking.line().contains("One") {}
    talking.interrupt();
    let (rest, status) = talking.end();
    let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert_eq!((status, &last["data"]["error"]["code"]), (130, &"cancelled".into()));
}

/// The events of a turn that is slow to say twelve words, through what befalls its server in the middle of it.
fn outliving(befalls: impl FnOnce(&mut Server)) -> Vec<Value> {
    let scene = scene();
    let script = std::fs::read_to_string(scene.path("script.toml")).unwrap();
    let pace = script.replace("tokens_per_second = 0.5", "tokens_per_second = 4");
    std::fs::write(scene.path("script.toml"), pace).unwrap();
    let mut server = server(&scene);
    let talking =
        RunningCommand::of(recount().args(["--url", &server.url(), "chat", "--message", "slow", "--json"]));
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains("two")) {
        lines.push(talking.line());
    }
    let address = server.address.clone();
    befalls(&mut server);
    talking.words("connection lost");
    let _server = Server::of(&mut command(&scene, &address)).listening();
    talking.words("reconnected");
    let (rest, status) = talking.end();
    lines.extend(rest);
    let events: Vec<Value> = lines.iter().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, &events.last().unwrap()["data"]["stopReason"]), (0, &"end_turn".into()), "{lines:?}");
    let places: Vec<(u64, u64)> = events
        .iter()
        .map(|event| {
            let (sequence, part) = event["id"].as_str().unwrap().split_once('.').unwrap();
            (sequence.parse().unwrap(), part.parse().unwrap())
        })
        .collect();
    assert!(places.is_sorted_by(|one, next| one < next), "each place once and in order: {places:?}");
    let starts = events.iter().filter(|event| event["event"] == "turn_start").count();
    let stops = events.iter().filter(|event| event["event"] == "turn_stop").count();
    assert_eq!((starts, stops), (1, 1), "{lines:?}");
    let text: String = events.iter().filter_map(|event| event["data"]["delta"].as_str()).collect();
    assert!(text.starts_with("One two ") && text.ends_with("eleven twelve."), "{text}");
    // What the server said before it went is taken back: the answer that counts is there once.
    let mut counts = String::new();
    for data in events.iter().map(|event| &event["data"]) {
        match (data["delta"].as_str(), data["retracts"].as_u64()) {
            (Some(_), Some(retracts)) => {
                let kept = counts.chars().count() - usize::try_from(retracts).unwrap();
                counts = counts.chars().take(kept).collect();
            }
            (Some(piece), None) => counts.push_str(piece),
            (None, _) => {}
        }
    }
    assert_eq!((counts.matches("One").count(), counts.matches("twelve.").count()), (1, 1), "{lines:?}");
    assert!(
        text.len() > counts.len() && text.contains("[The response was cut off here and starts again.]"),
        "{text}"
    );
    events
}

#[test]
fn a_turn_outlives_the_server_that_was_killed_while_at_it() {
    outliving(Server::kill);
}

/// P-079: what the server sends as it ends is no part of the turn.
#[test]
fn a_turn_outlives_the_server_that_was_stopped_while_at_it() {
    outliving(Server::stop);
}

#[test]
fn a_picture_and_a_secret_go_where_they_belong() {
    let scene = scene();
    let server = server(&scene);
    std::fs::write(scene.path("a.png"), PICTURE).unwrap();
    std::fs::write(scene.path("key"), "canary-of-a-secret\n").unwrap();
    let (picture, key) = (scene.path("a.png"), format!("key=@{}", scene.path("key").display()));
    let picture = picture.to_str().unwrap();
    let first = server.ask(&["chat", "--message", "say hello", "--image", picture, "--option", &key]);
    assert_eq!(first.status, 0, "{first:?}");
    assert_eq!(server.ask(&["artifact", "list"]).good().lines().count(), 1);
    let again = server.ask(&["chat", "--session", &session(&first), "--message", "say hello"]);
    assert!(again.words.contains("you: say hello\n    [image, image/png, "), "{again:?}");
    assert!(!format!("{first:?}{again:?}").contains("canary"), "{again:?}");
}

#[test]
fn a_token_is_shown_to_the_server_it_is_for() {
    let scene = scene();
    let data = scene.path("data");
    let scopes = "admin,read,run,approve,ingest";
    let token =
        CommandOutput::of(recount().args(["token", "add", "boss", "--scope", scopes, "--data"]).arg(&data))
            .good();
    let server = Server::of(command(&scene, "127.0.0.1:0").arg("--require-token")).listening();
    server.ask(&["chat", "--message", "say hello"]).bad(1, "the server requires a token");
    std::fs::write(scene.path("token"), &token).unwrap();
    let file = scene.path("token");
    server.ask(&["chat", "--message", "say hello", "--token-file", file.to_str().unwrap()]).good();
    let mut by_environment = recount();
    by_environment.env("RECOUNT_URL", server.url()).env("RECOUNT_TOKEN", token.trim());
    CommandOutput::of(by_environment.args(["chat", "--message", "say hello"])).good();
}

#[tokio::test]
async fn sessions_are_listed_page_by_page_and_deleted_with_their_history() {
    let scene = scene();
    let server = server(&scene);
    let client = AapClient::new(&format!("{}/aap/", server.url()), None).unwrap();
    let agent = AgentConfig { name: "clerk".into(), ..AgentConfig::default() };
    let new = NewSession { agent, messages: Vec::new(), tools: Vec::new(), workspace: None };
    let mut made = Vec::new();
    for _ in 0..120 {
        made.push(client.create_session(&new).await.unwrap());
    }
    let mut listed = Vec::new();
    let mut pages = 0;
    let mut after = None;
    loop {
        let page = client.sessions(after.as_deref()).await.unwrap();
        listed.extend(page.sessions.into_iter().map(|session| session.session_id));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    made.sort();
    listed.sort();
    assert!(listed == made && pages > 1, "{pages} pages of {} sessions", listed.len());

    let talk = server.ask(&["chat", "--session", &made[0], "--message", "say hello"]);
    assert_eq!(talk.status, 0, "{talk:?}");
    let full_history = client.history(&made[0], HistoryKind::Full).await.unwrap();
    assert_eq!((full_history.len(), open_calls(&full_history)), (2, Vec::new()));
    client.delete_session(&made[0]).await.unwrap();
    assert_eq!(client.delete_session(&made[0]).await.unwrap_err().status(), Some(404));
    assert_eq!(client.history(&made[0], HistoryKind::Full).await.unwrap_err().status(), Some(404));
    assert_eq!(client.session(&made[0]).await.unwrap_err().status(), Some(404));
    assert_eq!(client.session(&made[1]).await.unwrap().agent.name, "clerk");
    let refused = client.sessions(Some("no such place")).await.unwrap_err();
    assert_eq!(refused.status(), Some(400), "{refused}");
}

/// One dot.
const PICTURE: &[u8] = &[
    0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 13, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0xf8,
    0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0, 0, 0, b'I', b'E', b'N', b'D',
    0xae, 0x42, 0x60, 0x82,
];

/// A server that wants a token whatever name it is called by, the token, and a proxy that ends TLS before it.
fn behind_tls(scene: &Scene) -> (Server, String, Proxy) {
    let mut add = recount();
    add.args(["token", "add", "ann", "--scope", "read,run", "--data"]).arg(scene.path("data"));
    let token = CommandOutput::of(&mut add).good().trim().to_owned();
    let server = Server::of(command(scene, "127.0.0.1:0").arg("--require-token")).listening();
    let proxy = Proxy::before(&server, scene.folder.path());
    (server, token, proxy)
}

#[test]
fn talks_and_other_verbs_reach_a_server_behind_tls_whose_certificate_is_known() {
    let scene = scene();
    let (server, token, proxy) = behind_tls(&scene);
    let ask = |url: &str, arguments: &[&str]| {
        let mut command = recount();
        command
            .env("SSL_CERT_FILE", &proxy.authority)
            .args(["--url", url, "--token", &token])
            .args(arguments);
        command
    };
    let spoken = CommandOutput::of(&mut ask(&proxy.url(), &["chat", "--message", "say hello"]));
    assert_eq!(spoken.good(), "thinking: A greeting.\nHello there, dear old friend.\n");
    // The list for people has the age of each run.
    let listed = CommandOutput::of(&mut ask(&proxy.url(), &["ls", "--json"])).good();
    assert_eq!(listed, CommandOutput::of(&mut ask(&server.url(), &["ls", "--json"])).good());
    let run = listed.split('"').find(|word| word.starts_with("run_")).unwrap();
    let (lines, status) = RunningCommand::of(&mut ask(&proxy.url(), &["tail", "-f", run])).end();
    assert!(status == 0 && lines.last().unwrap().contains("run.finished"), "{status} {lines:?}");
}

#[test]
fn nothing_is_sent_to_a_server_whose_certificate_is_not_known_or_is_another_s() {
    let scene = scene();
    let (server, token, proxy) = behind_tls(&scene);
    for verb in [&["ls"][..], &["chat", "--message", "say hello"]] {
        let ask = |url: &str| {
            let mut command = recount();
            command.args(["--url", url, "--token", &token]).args(verb);
            command
        };
        CommandOutput::of(&mut ask(&proxy.url())).bad(3, "SSL_CERT_FILE");
        let other_name = format!("https://127.0.0.1:{}", proxy.port);
        CommandOutput::of(ask(&other_name).env("SSL_CERT_FILE", &proxy.authority))
            .bad(3, "not valid for name");
        // One that speaks no TLS at all.
        let plain = format!("https://{}", server.address);
        CommandOutput::of(&mut ask(&plain)).bad(3, &format!("no response from {plain}"));
    }
    let runs =
        CommandOutput::of(recount().args(["--url", &server.url(), "--token", &token, "ls", "--json"])).good();
    assert_eq!(runs, "");
}
