//! Canaries: secrets of every kind go in, on every way in, whole and in pieces; then everything that the server
//! wrote, stored and answered is searched for them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use aho_corasick::AhoCorasick;
use serde_json::{Value, json};

use crate::server::{CommandOutput, PATIENCE, recount};

const SHAPED: &str = include_str!("../../../../../testdata/secrets/true.txt");

/// Known values: of the environment by their names, by being named, and from a file.
const FROM_ENVIRONMENT: &str = "environment canary \"quoted\" ünd 42";
const NAMED: &str = "named-canary-without-a-shape";
const FROM_FILE: &str = "canary of a file\nin two lines";

/// What must be found, so that the search is worth something.
const CONTROL: &str = "this-is-no-canary-and-must-be-found";

struct Canary {
    text: String,
    secret: String,
}

fn canaries() -> Vec<Canary> {
    let shaped = SHAPED.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (_, marked) = line.split_once('\t').unwrap();
        let (before, rest) = marked.split_once('⟦').unwrap();
        let (secret, after) = rest.split_once('⟧').unwrap();
        Canary { text: format!("{before}{secret}{after}"), secret: secret.to_owned() }
    });
    let known = [FROM_ENVIRONMENT, NAMED, FROM_FILE]
        .map(|value| Canary { text: format!("it is {value}, really"), secret: value.to_owned() });
    shaped.chain(known).collect()
}

/// A server whose words are all kept.
struct Watched {
    child: Child,
    address: String,
    words: Receiver<String>,
    logged: Vec<String>,
}

impl Watched {
    fn start(data: &Path, file: &Path, format: &str) -> Self {
        let mut command = recount();
        command
            .args(["serve", "--bind", "127.0.0.1:0", "--log", "trace", "--log-format", format, "--data"])
            .arg(data);
        command.env("SOME_SERVICE_TOKEN", FROM_ENVIRONMENT).env("ANOTHER_THING", NAMED);
        command.env("RECOUNT_REDACTION__SECRET_ENV", "ANOTHER_THING");
        command.env("RECOUNT_REDACTION__SECRET_FILES", file);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, words) = channel();
        let pipe = child.stderr.take().unwrap();
        recount_world::thread("words", move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                drop(send.send(line));
            }
        });
        let mut logged: Vec<String> = Vec::new();
        let address = loop {
            let line =
                words.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it does not listen: {logged:?}"));
            logged.push(line.clone());
            let message = match serde_json::from_str::<Value>(&line) {
                Ok(line) => line["fields"]["message"].as_str().unwrap_or_default().to_owned(),
                Err(_) => line,
            };
            if let Some(address) = message.strip_prefix("listening on http://") {
                break address.to_owned();
            }
        };
        Watched { child, address, words, logged }
    }

    /// One request; everything that comes back.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = match headers.contains("host:") {
            true => String::new(),
            false => format!("host: {}\r\n", self.address),
        };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{host}{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask("POST", path, "content-type: application/json\r\n", &body.to_string());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
        let body = if head.contains("chunked") {
            body.lines().find(|line| line.starts_with('{')).unwrap()
        } else {
            body
        };
        serde_json::from_str(body).unwrap()
    }

    /// Kills it, and returns all that it has logged.
    fn end(&mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.logged.extend(self.words.iter());
        self.logged.join("\n")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Where what was written came from, and it.
type Found = BTreeMap<String, String>;

fn files(folder: &Path, found: &mut Found) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// No secret stands anywhere, nor more of one than a beginning; also not as JSON writes it.
fn check(found: &Found, canaries: &[Canary]) {
    const SHOWN_MAX: usize = 16;
    let mut needles = Vec::new();
    for canary in canaries {
        let escaped = json!(canary.secret).to_string();
        let escaped = &escaped[1..escaped.len() - 1];
        let mut needle = |text: &str| needles.push((text.to_owned(), &canary.text));
        needle(&canary.secret);
        needle(escaped);
        if escaped.len() > 2 * SHOWN_MAX && escaped.is_ascii() {
            needle(&escaped[SHOWN_MAX..]);
            needle(&escaped[..escaped.len() - SHOWN_MAX]);
        }
    }
    let searcher = AhoCorasick::new(needles.iter().map(|(needle, _)| needle)).unwrap();
    for (place, text) in found {
        if let Some(hit) = searcher.find(text) {
            let (needle, canary) = &needles[hit.pattern().as_usize()];
            panic!("{needle:?} of {canary:?} is in {place}");
        }
    }
}

/// Sends all canaries to one run, in every field.
fn record_canaries(server: &Watched, tag: &str, canaries: &[Canary]) -> String {
    let all = canaries.iter().map(|canary| canary.text.as_str()).collect::<Vec<_>>().join("\n");
    let task = server.post("/v1/tasks", &json!({"title": all}));
    let task = task["data"]["id"].as_str().unwrap().to_owned();
    server.post("/v1/sessions", &json!({"title": all}));
    let new = json!({"kind": "external", "title": all, "request_text": all, "agent": {"name": all}});
    let run = server.post(&format!("/v1/tasks/{task}/runs"), &new);
    let run = run["data"]["id"].as_str().unwrap().to_owned();
    let mut seq = 0;
    let mut report = |events: Value| {
        let batch = json!({"producer": {"id": "canaries", "epoch": 0, "seq": seq}, "events": events});
        server.post(&format!("/v1/runs/{run}/events"), &batch);
        seq += 1;
    };
    let event = |name: &str, data: Value| json!({"type": name, "data": data});
    report(json!([
        event("run.started", json!({"worker_id": CONTROL})),
        event("turn.started", json!({"turn_index": 0}))
    ]));
    let mut block = 0;
    for (index, canary) in canaries.iter().enumerate() {
        let text = &canary.text;
        let call = format!("call_{index}");
        report(json!([
            event("user.message", json!({"text": text})),
            event("ext.canary.deep", json!({"a": [{text: {"b": [text]}}]})),
            event(
                "assistant.tool_call_proposed",
                json!({"turn_index": 0, "tool_call_id": call, "tool_name": "sh", "input": {"command": text}})
            ),
            event("tool.invoked", json!({"tool_call_id": call, "tool_name": "sh", "args_summary": text})),
            event(
                "tool.shell.command",
                json!({"tool_call_id": call, "argv": ["sh", "-c", text], "cwd": "/"})
            ),
        ]));
        // Cut in the middle, over two batches; then in small pieces, in one batch and one a batch.
        let middle = (text.len() / 2..).find(|at| text.is_char_boundary(*at)).unwrap();
        let chars: Vec<char> = text.chars().collect();
        let small: Vec<String> = chars.chunks(7).map(|piece| piece.iter().collect()).collect();
        for (pieces, together) in [
            (vec![text[..middle].to_owned(), text[middle..].to_owned()], false),
            (small.clone(), true),
            (small, false),
        ] {
            let delta = |piece: &String| {
                event("assistant.text_delta", json!({"turn_index": 0, "block_index": block, "delta": piece}))
            };
            let events: Vec<Value> = pieces.iter().map(delta).collect();
            if together {
                report(json!(events));
            } else {
                events.iter().for_each(|event| report(json!([event])));
            }
            report(json!([event(
                "assistant.text_complete",
                json!({"turn_index": 0, "block_index": block, "text": text})
            )]));
            block += 1;
        }
        let chunk = |piece: &str, offset: usize| {
            event(
                "tool.shell.output_chunk",
                json!({"tool_call_id": call, "stream": "stdout", "data": piece, "byte_offset": offset}),
            )
        };
        report(json!([chunk(&text[..middle], 0)]));
        report(json!([chunk(&text[middle..], middle)]));
        report(json!([
            event(
                "tool.shell.exited",
                json!({"tool_call_id": call, "exit_code": 0, "signal": null, "stdout_bytes": text.len(), "stderr_bytes": 0, "truncated": false})
            ),
            event(
                "tool.completed",
                json!({"tool_call_id": call, "tool_name": "sh", "summary": text, "output": [{"type": "text", "text": text}]})
            ),
            event(
                "approval.requested",
                json!({"approval_id": format!("appr_{tag}_{index}"), "tool_call_id": format!("asked_{index}"), "kind": "sh", "summary": text})
            ),
        ]));
        let answer = json!({"decision": "reject", "comment": text});
        server.post(&format!("/v1/approvals/appr_{tag}_{index}/resolve"), &answer);
    }
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({"reason": all}));
    run
}

/// All responses of a server to bad requests with a canary in them.
fn provoke(server: &Watched, run: &str, canary: &str, answers: &mut Vec<String>) {
    let json = "content-type: application/json\r\n";
    // A header and a path cannot hold these characters; separate parts stay separate.
    let apart = canary.replace("\\n", " ");
    let plain: String = apart
        .chars()
        .filter(|c| matches!(c, ' '..='~'))
        .map(|c| if matches!(c, '"' | '\\') { ' ' } else { c })
        .collect();
    // Some secrets are recognised by a name and a space, and no path has spaces; in paths numbers are ids.
    let is_word = !plain.contains(' ') && plain.contains(|c: char| c.is_ascii_alphabetic());
    let path_text = if is_word { plain.as_str() } else { "none" };
    let path = path_text.replace(['#', '?', '%', '<', '>', '`', '{', '}', '^', '|'], "/");
    let batch = |name: &str, data: &Value| {
        let data = json!({"producer": {"id": "bad", "epoch": 0, "seq": 0}, "events": [{"type": name, "data": data}]});
        data.to_string()
    };
    let events = format!("/v1/runs/{run}/events");
    for (method, path, headers, body) in [
        ("GET", format!("/{path}"), String::new(), String::new()),
        ("GET", format!("/v1/runs/{path}"), String::new(), String::new()),
        ("GET", format!("{events}?after_sequence={path}"), String::new(), String::new()),
        ("GET", format!("{events}?{path}=1"), String::new(), String::new()),
        ("GET", format!("/v1/runs?status={path}"), String::new(), String::new()),
        ("GET", events.clone(), format!("last-event-id: {plain}\r\n"), String::new()),
        ("GET", events.clone(), format!("host: {path}\r\n"), String::new()),
        ("GET", events.clone(), format!("origin: http://{path}\r\n"), String::new()),
        ("POST", events.clone(), json.into(), batch(canary, &json!({}))),
        ("POST", events.clone(), json.into(), batch("user.message", &json!({"text": {"a": canary}}))),
        (
            "POST",
            events.clone(),
            json.into(),
            batch(
                "approval.requested",
                &json!({"approval_id": canary, "tool_call_id": canary, "kind": "k", "summary": "s"}),
            ),
        ),
        (
            "POST",
            events.clone(),
            json.into(),
            batch("tool.invoked", &json!({"tool_call_id": "c", "tool_name": "t", "risk_level": canary})),
        ),
        ("POST", events.clone(), json.into(), format!("{{\"producer\": {}}}", json!(canary))),
        ("POST", events.clone(), json.into(), canary.to_owned()),
        ("POST", "/v1/runs".into(), json.into(), json!({"kind": canary}).to_string()),
        ("POST", "/v1/runs".into(), json.into(), json!({canary: canary}).to_string()),
        ("POST", "/v1/imports".into(), "content-type: application/x-ndjson\r\n".into(), canary.to_owned()),
    ] {
        answers.push(server.ask(method, &path, &headers, &body));
    }
}

#[test]
fn no_canary_is_found_in_anything_that_is_written_stored_or_answered() {
    let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = elsewhere.path().join("secret");
    std::fs::write(&file, format!("{FROM_FILE}\n")).unwrap();
    let canaries = canaries();
    for format in ["text", "json"] {
        let mut server = Watched::start(data.path(), &file, format);
        let run = record_canaries(&server, format, &canaries);
        let mut found = Found::new();
        let mut get = |name: &str, path: &str, headers: &str| {
            let answer = server.ask("GET", path, headers, "");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            found.insert(format!("{format}: {name}"), answer);
        };
        get("events", &format!("/v1/runs/{run}/events?limit=1000"), "");
        get("the last events", &format!("/v1/runs/{run}/events?limit=1000&after_sequence=1999"), "");
        get("more events", &format!("/v1/runs/{run}/events?limit=1000&after_sequence=999"), "");
        get("the stream", &format!("/v1/runs/{run}/events"), "accept: text/event-stream\r\n");
        get("the feed", "/v1/events?limit=1000", "");
        get("runs", "/v1/runs", "");
        get("the run", &format!("/v1/runs/{run}"), "");
        get("tasks", "/v1/tasks", "");
        get("sessions", "/v1/sessions", "");
        get("approvals", "/v1/approvals?limit=100", "");
        get("metrics", "/metrics", "");
        get("the check-up", "/admin/doctor", "");
        let mut answers = Vec::new();
        for canary in &canaries {
            provoke(&server, &run, &canary.text, &mut answers);
        }
        assert!(
            answers.iter().filter(|answer| answer.contains("application/problem+json")).count()
                > answers.len() / 2
        );
        found.insert(format!("{format}: problems"), answers.join("\n"));
        let url = format!("http://{}", server.address);
        let verb =
            |arguments: &[&str]| CommandOutput::of(recount().args(["--url", &url]).args(arguments)).good();
        verb(&["verify", &run]);
        for arguments in [vec!["show", &run], vec!["export", &run], vec!["ls"]] {
            let message = verb(&arguments);
            found.insert(format!("{format}: {arguments:?}"), message);
        }
        verb(&["backup"]);
        let words = server.end();
        assert!(words.contains("listening on"));
        found.insert(format!("{format}: the log"), words);
        files(data.path(), &mut found);
        assert!(found.keys().any(|place| place.ends_with("recount.db-wal")), "{:?}", found.keys());
        let controlled = found.values().filter(|text| text.contains(CONTROL)).count();
        assert!(controlled >= 5, "the control is found in {controlled} places only");
        check(&found, &canaries);
    }
}
