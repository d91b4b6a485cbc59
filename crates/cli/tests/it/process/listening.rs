//! A real server and listeners of a run: over an event stream, a WebSocket and standard input and output; and what of it
//! is in the server's log.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::server::{CommandOutput, RunningCommand, Server, aaep, aaep_program, recount};

/// A model that writes, asks a person, and ends.
const SCRIPT: &str = r#"
end = "The script ends here."
[[turn]]
text = "The canary sings. It sings again."
call = [{ name = "ask_user", input = { question = "Does the canary sing?" } }]
[[turn]]
text = "That is all."
"#;

struct ServerFixture {
    folder: tempfile::TempDir,
    server: Server,
    token: String,
}

impl ServerFixture {
    /// A server that requires a token, logs as much as this, and has the scripted model `play/it`.
    fn new(log: &str) -> ServerFixture {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("it.toml"), SCRIPT).unwrap();
        std::fs::create_dir(at("work")).unwrap();
        let config = format!(
            "[models.providers.play]\nkind = \"scripted\"\nscript = {:?}\n\n[workspaces]\nallow = [{:?}]\n",
            at("it.toml"),
            at("work")
        );
        std::fs::write(at("config.toml"), config).unwrap();
        let mut add = recount();
        add.args(["token", "add", "ann", "--scope", "admin,read,run,approve,ingest", "--data"]);
        let token = CommandOutput::of(add.arg(at("data"))).good().trim().to_owned();
        std::fs::write(at("token"), &token).unwrap();
        let mut serve = recount();
        serve.args(["serve", "--bind", "127.0.0.1:0", "--require-token", "--log", log, "--config"]);
        serve.arg(at("config.toml")).arg("--data").arg(at("data"));
        let server = Server::logged(&mut serve, &at("log"));
        ServerFixture { folder, server, token }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Captures until there is an event of a type.
    fn capture(&self, producer: &[&str], kind: &str, name: &str) -> RunningCommand {
        let request = json!({
            "type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": name,
            "capabilities": { "supports_clarification_reply": true, "supported_conformance_levels": [1, 2] },
        });
        let wish = self.path(&format!("{name}.request"));
        std::fs::write(&wish, request.to_string()).unwrap();
        let mut command = aaep();
        command.arg("capture").args(producer);
        command.args(["--request", &wish, "--token-file", &self.path("token"), "-o", &self.path(name)]);
        command.args(["--type", kind, "--max-events", "1"]);
        let capture = RunningCommand::of(&mut command);
        capture.words("connected");
        capture
    }

    /// Starts a run that asks a person.
    fn run(&self) -> RunningCommand {
        let mut command: Command = recount();
        command.args(["--url", &self.server.url(), "--token", &self.token]);
        command.args(["run", "--model", "play/it", "sing"]).current_dir(self.folder.path().join("work"));
        RunningCommand::of(&mut command)
    }

    /// The events of a capture.
    fn captured(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get("event_id").is_some()).collect()
    }

    /// One request, and as much of its response as comes before this.
    fn ask(&self, head: &str, body: &str, until: &str) -> String {
        let mut stream = TcpStream::connect(&self.server.address).unwrap();
        stream.set_read_timeout(Some(crate::server::PATIENCE)).unwrap();
        let length = body.len();
        let address = &self.server.address;
        write!(stream, "{head}\r\nhost: {address}\r\ncontent-length: {length}\r\ncontent-type: application/json\r\n\r\n{body}").unwrap();
        let (mut received, mut piece) = (String::new(), [0; 4096]);
        while !received.contains(until) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "it ends before {until}: {received}");
            received.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        received
    }
}

fn log_of(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap()
}

#[test]
fn a_run_gives_the_same_events_over_every_transport() {
    let fixture = ServerFixture::new("warn");
    let (address, program) = (fixture.server.address.clone(), aaep_program());
    let stdio =
        format!("{} --url http://{address} stdio --token-file {}", program.display(), fixture.path("token"));
    let kind = "awaiting.clarification";
    let captures = [
        fixture.capture(&[&format!("http://{address}/aaep/v1")], kind, "http.jsonl"),
        fixture.capture(&[&format!("ws://{address}/aaep/v1/ws")], kind, "socket.jsonl"),
        fixture.capture(&["--command", &stdio], kind, "stdio.jsonl"),
    ];
    let _run = fixture.run();
    for capture in captures {
        assert_eq!(capture.end().1, 0);
    }
    let mut received = ["http.jsonl", "socket.jsonl", "stdio.jsonl"].map(|name| fixture.captured(name));
    assert_eq!(received[0].len(), 1);
    assert_eq!(received[0][0]["question"], "Does the canary sing?");
    // A token is of one subscription.
    let tokens: BTreeSet<String> =
        received.iter_mut().map(|of_one| of_one[0]["reply_token"].take().to_string()).collect();
    assert_eq!(tokens.len(), 3, "{tokens:?}");
    assert_eq!((&received[0], &received[0]), (&received[1], &received[2]));
}

#[test]
fn no_token_ticket_or_text_of_a_run_is_in_a_log() {
    let fixture = ServerFixture::new("trace");
    let capture = fixture.capture(
        &[&format!("http://{}/aaep/v1", fixture.server.address)],
        "awaiting.clarification",
        "heard.jsonl",
    );
    let _run = fixture.run();
    assert_eq!(capture.end().1, 0);
    let received = fixture.captured("heard.jsonl");
    let reply_token = received[0]["reply_token"].as_str().unwrap().to_owned();
    assert!(reply_token.starts_with("rpl_"));
    // A page in a browser: a ticket in the address, and a reply.
    let bearer = format!("authorization: Bearer {}", fixture.token);
    let body = r#"{"path":"/aaep/v1/events"}"#;
    let answer = fixture.ask(&format!("POST /v1/tickets HTTP/1.1\r\n{bearer}"), body, "redeem_within");
    let ticket = answer.split("\"ticket\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let wish =
        r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"page","capabilities":{}}"#;
    let answer = fixture.ask(&format!("POST /aaep/v1/subscriptions HTTP/1.1\r\n{bearer}"), wish, "honored");
    let id = answer.split("\"subscription_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let head = format!("GET /aaep/v1/events?subscription_id={id}&ticket={ticket} HTTP/1.1");
    assert!(fixture.ask(&head, "", "state.changed").contains("200 OK"));
    let reply = json!({
        "type": "clarification.reply", "reply_token": reply_token, "response": "The canary answers.",
        "subscription_id": id, "timestamp": "2026-01-01T00:00:00.000Z",
    });
    let head = format!("POST /aaep/v1/replies HTTP/1.1\r\n{bearer}");
    fixture.ask(&head, &reply.to_string(), "HTTP/1.1 204");
    fixture.server.interrupt();
    let log = log_of(fixture.folder.path());
    assert!(log.contains(&id), "the log names the subscription: it is of this server");
    for secret in [&fixture.token, &ticket, &reply_token, "rpl_", "canary sings", "canary answers"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}
