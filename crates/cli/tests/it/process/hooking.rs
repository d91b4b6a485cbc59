//! `recount hook` against an HTTP server that each test sees through: what arrives, in which order, and what waits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use crate::server::{PATIENCE, recount};

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
struct Post {
    path: String,
    key: String,
    token: Option<String>,
    body: String,
}

/// How the server answers: a status and a body, or by closing the connection.
type Reply = fn(&Post) -> Option<(u16, String)>;

/// A small HTTP server that keeps what it gets.
struct HookServer {
    address: SocketAddr,
    posts: Receiver<Post>,
    stop: Sender<()>,
}

impl HookServer {
    fn at(address: &str, reply: Reply) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (send, posts) = channel();
        let (stop, stopped) = channel::<()>();
        recount_world::thread("hook-server", move || {
            for stream in listener.incoming() {
                if stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                    return;
                }
                let send = send.clone();
                recount_world::thread("hook-connection", move || serve(stream.unwrap(), &send, reply));
            }
        });
        HookServer { address, posts, stop }
    }

    fn start() -> Self {
        HookServer::at("127.0.0.1:0", |_| Some((200, "{}".to_owned())))
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn next(&self) -> Post {
        self.posts.recv_timeout(PATIENCE).unwrap()
    }

    /// All that has come; nothing is on its way, because each hook waits for its answer.
    fn all(&self) -> Vec<Post> {
        self.posts.try_iter().collect()
    }

    /// Ends, so that its address is free.
    fn end(self) -> String {
        let HookServer { address, stop, .. } = self;
        drop(stop);
        // The listener notices with the next connection.
        drop(TcpStream::connect(address));
        let address = address.to_string();
        let until = recount_world::moment() + PATIENCE;
        while TcpStream::connect(&address).is_ok() {
            assert!(recount_world::moment() < until, "the server does not end");
            std::thread::yield_now();
        }
        address
    }
}

fn serve(stream: TcpStream, send: &Sender<Post>, reply: Reply) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let path = line.split(' ').nth(1).unwrap().to_owned();
    assert!(line.starts_with("POST "), "{line}");
    let (mut key, mut token, mut length) = (String::new(), None, 0);
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name {
            "idempotency-key" => value.clone_into(&mut key),
            "authorization" => token = Some(value.to_owned()),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let post = Post { path, key, token, body: String::from_utf8(body).unwrap() };
    let answer = reply(&post);
    send.send(post).unwrap();
    let Some((status, body)) = answer else { return };
    let kind = if status == 200 { "application/json" } else { "application/problem+json" };
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    reader.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
}

fn problem(status: u16, code: &str) -> Option<(u16, String)> {
    let problem = json!({
        "type": "about:blank", "title": "x", "status": status, "code": code, "detail": "it is so",
        "request_id": "req_1", "retryable": false,
    });
    Some((status, problem.to_string()))
}

/// An address at which nothing listens.
fn nowhere() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn start(home: &Path, address: &str, arguments: &[&str]) -> Child {
    let mut command = recount();
    command.arg("hook").args(arguments).args(["--url", &format!("http://{address}")]);
    command.env("HOME", home).env("XDG_STATE_HOME", home.join("state"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a hook to its end, which must be a success.
#[track_caller]
fn hook(home: &Path, address: &str, arguments: &[&str], body: &str) -> Output {
    let mut child = start(home, address, arguments);
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn body(number: usize) -> String {
    format!("{{\"session_id\":\"s1\", \"hook_event_name\":\"PreToolUse\",\n \"n\": {number}}}")
}

fn numbers(posts: &[Post]) -> Vec<u64> {
    posts.iter().map(|post| json_of(&post.body)["n"].as_u64().unwrap()).collect()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The only folder of hooks that wait.
fn spool(home: &Path) -> std::path::PathBuf {
    let folders: Vec<_> = std::fs::read_dir(home.join("state/recount/spool")).unwrap().collect();
    assert_eq!(folders.len(), 1);
    folders.into_iter().next().unwrap().unwrap().path()
}

#[test]
fn a_body_arrives_as_it_came_and_its_answer_goes_back_as_it_came() {
    let home = tempfile::tempdir().unwrap();
    let server = HookServer::at("127.0.0.1:0", |_| Some((200, "{\"a\" : 1}\n".to_owned())));
    let address = server.address.to_string();
    let output = hook(home.path(), &address, &["codex"], &body(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"a\" : 1}\n");
    let post = server.next();
    assert_eq!((&*post.path, &post.body, &post.token), ("/hooks/codex/PreToolUse", &body(1), &None));

    // The same body again is another hook.
    hook(home.path(), &address, &["codex", "Stop"], &body(1));
    let again = server.next();
    assert_eq!((&*again.path, &again.body), ("/hooks/codex/Stop", &body(1)));
    assert_eq!(again.key.split('-').next(), post.key.split('-').next());
    assert_ne!(again.key, post.key);

    let file = home.path().join("token");
    std::fs::write(&file, "a-token\n").unwrap();
    hook(home.path(), &address, &["gemini", "--token-file", file.to_str().unwrap()], &body(2));
    assert_eq!(server.next().token.as_deref(), Some("Bearer a-token"));
}

#[test]
fn a_permission_request_asks_and_gets_its_answer() {
    const DECISION: &str =
        r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny"}}}"#;
    let home = tempfile::tempdir().unwrap();
    let server = HookServer::at("127.0.0.1:0", |_| Some((200, DECISION.to_owned())));
    let address = server.address.to_string();
    let arguments = ["claude", "PermissionRequest", "--ask", "--wait", "60"];
    let output = hook(home.path(), &address, &arguments, &body(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), DECISION);
    assert_eq!(server.next().path, "/hooks/claude/PermissionRequest?ask=1&wait_seconds=60");

    // Without a server the agent's own dialog decides, and the request is recorded later without being asked again.
    let address = server.end();
    assert_eq!(hook(home.path(), &address, &arguments, &body(2)).stdout, b"");
    let server = HookServer::at(&address, |_| Some((200, "{}".to_owned())));
    hook(home.path(), &address, &["claude"], &body(3));
    let posts = server.all();
    assert_eq!(posts[0].path, "/hooks/claude/PermissionRequest");
    assert_eq!(numbers(&posts), [2, 3]);
}

#[test]
fn hooks_wait_for_a_server_that_is_away_and_arrive_first_and_in_order() {
    let home = tempfile::tempdir().unwrap();
    let address = nowhere();
    for number in 1..=3 {
        let output = hook(home.path(), &address, &["claude"], &body(number));
        assert_eq!(output.stdout, b"");
    }
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(spool(home.path()).metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(spool(home.path()).join("hooks.jsonl").metadata().unwrap().mode() & 0o777, 0o600);

    let server = HookServer::at(&address, |_| Some((200, "{}".to_owned())));
    hook(home.path(), &address, &["claude"], &body(4));
    assert_eq!(numbers(&server.all()), [1, 2, 3, 4]);
    assert_eq!(spool(home.path()).join("hooks.jsonl").metadata().unwrap().len(), 0);

    let address = server.end();
    hook(home.path(), &address, &["claude"], &body(5));
    let server = HookServer::at(&address, |_| Some((200, "{}".to_owned())));
    hook(home.path(), &address, &["claude"], &body(6));
    assert_eq!(numbers(&server.all()), [5, 6]);
}

#[test]
fn a_hook_whose_answer_was_lost_is_sent_again_with_the_same_key() {
    let home = tempfile::tempdir().unwrap();
    let server = HookServer::at("127.0.0.1:0", |_| None);
    let address = server.address.to_string();
    hook(home.path(), &address, &["claude"], &body(1));
    let first = server.next();
    server.end();
    let server = HookServer::at(&address, |_| Some((200, "{}".to_owned())));
    hook(home.path(), &address, &["claude"], &body(2));
    let posts = server.all();
    assert_eq!(posts[0], first);
    assert_eq!(numbers(&posts), [1, 2]);
    assert_ne!(posts[1].key, first.key);
}

#[test]
fn a_server_that_does_not_answer_costs_the_agent_only_the_first_hook() {
    let home = tempfile::tempdir().unwrap();
    // Connections are made, and nothing reads them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    hook(home.path(), &address, &["claude"], &body(1));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok());
    hook(home.path(), &address, &["claude"], &body(2));
    assert!(listener.accept().is_err(), "the second hook does not try");
    drop(listener);

    let server = HookServer::at(&address, |_| Some((200, "{}".to_owned())));
    // The pause ends by the clock; here by removing what says so.
    std::fs::remove_file(spool(home.path()).join("away-until")).unwrap();
    hook(home.path(), &address, &["claude"], &body(3));
    assert_eq!(numbers(&server.all()), [1, 2, 3]);
}

#[test]
fn a_full_spool_counts_what_it_drops_and_the_count_arrives_in_its_place() {
    let home = tempfile::tempdir().unwrap();
    let address = nowhere();
    let large = |number: usize| {
        let text = "x".repeat(3_900_000);
        format!("{{\"session_id\":\"s1\",\"hook_event_name\":\"Stop\",\"n\":{number},\"text\":\"{text}\"}}")
    };
    for number in 1..=6 {
        hook(home.path(), &address, &["claude"], &large(number));
    }
    // More than a hook may have at all.
    hook(
        home.path(),
        &address,
        &["claude"],
        &format!("{{\"session_id\":\"s2\",\"x\":\"{}\"}}", "y".repeat(5_000_000)),
    );
    let server = HookServer::at(&address, |_| Some((200, "{}".to_owned())));
    let mut posts = Vec::new();
    let mut calls = 0;
    while posts.last().is_none_or(|post: &Post| post.path != "/hooks/claude/PreToolUse") {
        calls += 1;
        assert!(calls < 20, "what waited does not arrive");
        hook(home.path(), &address, &["claude"], &body(100 + calls));
        posts.extend(server.all());
    }
    assert_eq!(numbers(&posts[..4]), [1, 2, 3, 4]);
    let counts: Vec<Value> = posts
        .iter()
        .filter(|post| post.path == "/hooks/claude/recount.spool_dropped")
        .map(|post| json_of(&post.body))
        .collect();
    let counted = |session: &str, reason: &str| {
        let found = counts.iter().filter(|count| count["session_id"] == session && count["reason"] == reason);
        found.map(|count| count["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((counted("s1", "spool_full"), counted("s2", "body_too_large")), (2, 1), "{counts:?}");
    assert!(posts[4].path.ends_with("spool_dropped"), "{}", posts[4].path);
    assert!(counts[0]["first_at_ms"].as_u64() <= counts[0]["last_at_ms"].as_u64());
    let recent: Vec<u64> = numbers(&posts[4 + counts.len()..]);
    assert_eq!(recent, (101..=100 + calls as u64).collect::<Vec<_>>());
}

#[test]
fn what_the_server_refuses_is_counted_and_does_not_hold_up_the_rest() {
    let home = tempfile::tempdir().unwrap();
    let refuse: Reply = |post| match json_of(&post.body)["n"].as_u64() {
        Some(1 | 3) => problem(400, "body_invalid"),
        _ => Some((200, "{}".to_owned())),
    };
    let server = HookServer::at("127.0.0.1:0", refuse);
    let address = server.address.to_string();
    let words = String::from_utf8(hook(home.path(), &address, &["codex"], &body(1)).stderr).unwrap();
    assert!(words.contains("rejected the hook PreToolUse: it is so (body_invalid)"), "{words}");
    hook(home.path(), &address, &["codex"], &body(2));
    let paths: Vec<String> = server.all().into_iter().map(|post| post.path).collect();
    let dropped = "/hooks/codex/recount.spool_dropped";
    assert_eq!(paths, ["/hooks/codex/PreToolUse", dropped, "/hooks/codex/PreToolUse"]);

    // Away, and back with one that it refuses in the middle.
    server.end();
    for number in 2..=4 {
        hook(home.path(), &address, &["codex"], &body(number));
    }
    let server = HookServer::at(&address, refuse);
    hook(home.path(), &address, &["codex"], &body(5));
    let posts = server.all();
    assert_eq!(numbers(&posts[..3]), [2, 3, 4]);
    assert_eq!(posts[3].path, dropped);
    assert_eq!(numbers(&posts[4..]), [5]);
}

#[test]
fn a_server_that_lets_no_one_in_keeps_hooks_waiting() {
    let home = tempfile::tempdir().unwrap();
    let server = HookServer::at("127.0.0.1:0", |post| match post.token {
        None => problem(401, "token_missing"),
        Some(_) => Some((200, "{}".to_owned())),
    });
    let address = server.address.to_string();
    hook(home.path(), &address, &["claude"], &body(1));
    assert_eq!(server.next().token, None);
    let file = home.path().join("token");
    hook(home.path(), &address, &["claude", "--token-file", file.to_str().unwrap()], &body(2));
    assert_eq!(server.all(), [], "the file of the token is missing");
    std::fs::write(&file, "a-token").unwrap();
    hook(home.path(), &address, &["claude", "--token-file", file.to_str().unwrap()], &body(3));
    assert_eq!(numbers(&server.all()), [1, 2, 3]);
}

#[test]
fn hooks_at_once_all_arrive_once() {
    let home = tempfile::tempdir().unwrap();
    let address = nowhere();
    let run = |numbers: std::ops::Range<usize>| {
        let children: Vec<Child> = numbers
            .map(|number| {
                let mut child = start(home.path(), &address, &["claude"]);
                child.stdin.take().unwrap().write_all(body(number).as_bytes()).unwrap();
                child
            })
            .collect();
        for child in children {
            assert!(child.wait_with_output().unwrap().status.success());
        }
    };
    run(0..6);
    let server = HookServer::at(&address, |_| Some((200, "{}".to_owned())));
    run(6..12);
    let mut posts = server.all();
    // One that came while another process was sending may wait for the next.
    let mut sent = 12;
    while posts.len() < sent {
        assert!(sent < 20, "hooks do not arrive: {posts:?}");
        run(sent..sent + 1);
        sent += 1;
        posts.extend(server.all());
    }
    let mut numbers = numbers(&posts);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..sent as u64).collect::<Vec<_>>());
    let mut keys: Vec<&String> = posts.iter().map(|post| &post.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), posts.len());
}

#[test]
fn a_folder_of_another_user_keeps_no_hooks() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: only root can make a folder belong to another user");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let address = nowhere();
    hook(home.path(), &address, &["claude"], &body(1));
    std::os::unix::fs::chown(spool(home.path()), Some(12345), None).unwrap();
    let words = String::from_utf8(hook(home.path(), &address, &["claude"], &body(2)).stderr).unwrap();
    assert!(words.contains("it is not a folder of this user"), "{words}");
    let kept = std::fs::read_to_string(spool(home.path()).join("hooks.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 1);
}

#[test]
fn a_mistake_in_the_command_line_does_not_block_the_agent() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [&["nobody"][..], &["claude", "--no-such-option"], &[]] {
        let status = start(home.path(), &nowhere(), arguments).wait_with_output().unwrap().status;
        assert_eq!(status.code(), Some(1), "2 would block the agent's call: {arguments:?}");
    }
    // Not JSON: the server decides what to do with it.
    let server = HookServer::start();
    hook(home.path(), &server.url()["http://".len()..], &["claude"], "not JSON");
    assert_eq!(server.next().path, "/hooks/claude/unknown");
    // Nothing can be kept.
    let file = home.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let mut command = recount();
    command
        .args(["hook", "claude", "--url", "http://127.0.0.1:9"])
        .env("XDG_STATE_HOME", &file)
        .env("HOME", &file);
    let output = command.output().unwrap();
    assert!(output.status.success() && !output.stderr.is_empty(), "{output:?}");
}
