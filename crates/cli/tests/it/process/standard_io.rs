//! `aaep stdio`: the calls of JSON-RPC against a real server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::server::{Server, aaep, recount};

fn server(data: &Path) -> Server {
    let mut command = recount();
    command
        .args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--conformance-agent", "--data"])
        .arg(data);
    Server::of(&mut command).listening()
}

/// A program that speaks for a server, and who started it.
struct Bridge {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Bridge {
    fn start(server: &Server) -> Bridge {
        let mut command = aaep();
        command.args(["--url", &server.url(), "stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Bridge { child, input, output: BufReader::new(output) }
    }

    fn write_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next line that is no event.
    fn hear(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the bridge ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] != "aaep.event" {
                return message;
            }
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn only_calls_get_a_response() {
    let data = tempfile::tempdir().unwrap();
    let server = server(data.path());
    let mut bridge = Bridge::start(&server);
    let request = json!({
        "type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "a test", "capabilities": {},
    });
    // Before there is a subscription, a call is refused and a notification is not answered.
    bridge.write_line(r#"{"jsonrpc":"2.0","method":"aaep.reply","params":{"type":"confirmation.reply"}}"#);
    bridge.write_line(r#"{"jsonrpc":"2.0","id":1,"method":"aaep.renegotiate","params":{}}"#);
    let refused = bridge.hear();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32_600)), "{refused}");
    bridge.write_line(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "aaep.subscribe", "params": request}).to_string(),
    );
    let accepted = bridge.hear();
    assert_eq!(accepted["result"]["type"], "subscription.accepted", "{accepted}");
    // A reply that the server refuses is a notification as well. Responses and unknown notifications mean nothing here.
    bridge.write_line(r#"{"jsonrpc":"2.0","method":"aaep.reply","params":{"type":"confirmation.reply"}}"#);
    bridge.write_line(r#"{"jsonrpc":"2.0","id":"ping-1","result":{}}"#);
    bridge.write_line(r#"{"jsonrpc":"2.0","id":"ping-2","error":{"code":-32601,"message":"unknown"}}"#);
    bridge.write_line(r#"{"jsonrpc":"2.0","method":"aaep.unheard_of"}"#);
    bridge.write_line(r#"{"jsonrpc":"2.0","id":3,"method":"aaep.ping"}"#);
    assert_eq!(bridge.hear(), json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    // Of a line that is no call nobody knows whether it wanted a response.
    bridge.write_line("{");
    assert_eq!(bridge.hear()["error"]["code"], -32_700);
    bridge.write_line(r#"{"jsonrpc":"2.0","id":4}"#);
    assert_eq!(bridge.hear()["error"]["code"], -32_600);
    bridge.write_line(r#"{"jsonrpc":"2.0","id":5,"method":"aaep.unheard_of"}"#);
    let unknown = bridge.hear();
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(5), &json!(-32_601)), "{unknown}");
}

#[test]
fn a_rejection_of_new_terms_is_a_result() {
    let data = tempfile::tempdir().unwrap();
    let server = server(data.path());
    let mut bridge = Bridge::start(&server);
    let request = json!({
        "type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "a test", "capabilities": {},
    });
    bridge.write_line(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "aaep.subscribe", "params": request}).to_string(),
    );
    let accepted = bridge.hear();
    let renegotiate = json!({
        "type": "subscription.renegotiate", "subscription_id": accepted["result"]["subscription_id"],
        "capabilities": {"accept_signed_manifests_only": true},
    });
    bridge.write_line(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "aaep.renegotiate", "params": renegotiate}).to_string(),
    );
    let rejected = bridge.hear();
    assert_eq!(rejected["result"]["type"], "subscription.rejected", "{rejected}");
    assert_eq!(rejected["result"]["reason_code"], "manifest_signature_required", "{rejected}");
}
