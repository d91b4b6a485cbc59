//! A server on a Unix socket: who its clients are, what they may do, and which requests are refused.
//!
//! Only root can be several users, so without it these tests check the user of the process alone.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use recount_server::{EmbeddedServer, Options, start_embedded};
use rustix::process::Uid;
use serde_json::{Value, json};

/// Users that have no account on this machine.
const ADA: u32 = 4_242;
const EVE: u32 = 4_243;
const OTHER: u32 = 4_244;

struct SocketServer {
    folder: tempfile::TempDir,
    socket: PathBuf,
    server: EmbeddedServer,
}

/// The status and the body of a response.
type Answer = (u16, String);

impl SocketServer {
    async fn start(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (socket, file) = (folder.path().join("s"), folder.path().join("c.toml"));
        std::fs::write(&file, configuration).unwrap();
        let options = Options {
            bind: Some(format!("unix:{}", socket.display())),
            config: Some(file),
            data: Some(folder.path().join("data")),
            ..Options::default()
        };
        SocketServer { server: start_embedded(options).await.unwrap(), folder, socket }
    }

    /// Sends a request as this user, or as the user of this process.
    async fn send(&self, user: Option<u32>, head: &str, body: &str) -> Answer {
        let request = format!(
            "{head}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (socket, (sender, receiver)) = (self.socket.clone(), tokio::sync::oneshot::channel());
        let thread = recount_world::thread("client", move || {
            if let Some(user) = user {
                let user = Uid::from_raw(user);
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            sender.send(exchange(&socket, &request)).unwrap();
        });
        let answer = receiver.await.unwrap();
        thread.join().unwrap();
        answer
    }

    async fn get(&self, user: Option<u32>, target: &str) -> Answer {
        self.send(user, &format!("GET {target} HTTP/1.1\r\nHost: localhost"), "").await
    }

    async fn post(&self, user: Option<u32>, target: &str, body: &Value) -> Answer {
        self.send(user, &format!("POST {target} HTTP/1.1\r\nHost: localhost"), &body.to_string()).await
    }

    /// Creates a run with an approval, and returns the run's id.
    async fn run_with_approval(&self) -> String {
        let (status, body) = self.post(None, "/v1/runs", &json!({"kind": "external"})).await;
        assert_eq!(status, 201, "{body}");
        let run = data(&body)["id"].as_str().unwrap().to_owned();
        let events = json!([
            {"type": "run.started", "data": {}},
            {"type": "turn.started", "data": {"turn_index": 0, "model": "m"}},
            {"type": "assistant.tool_call_proposed", "data":
                {"turn_index": 0, "tool_call_id": "c1", "tool_name": "shell", "input": {"command": "ls"}}},
            {"type": "turn.completed", "data": {"turn_index": 0, "stop_reason": "tool_use"}},
            {"type": "approval.requested", "data":
                {"approval_id": "appr_1", "tool_call_id": "c1", "kind": "shell", "summary": "run ls"}},
        ]);
        let batch = json!({"producer": {"id": "t", "epoch": 1, "seq": 0}, "events": events});
        let (status, body) = self.post(None, &format!("/v1/runs/{run}/events"), &batch).await;
        assert!(status < 300, "{body}");
        run
    }
}

fn exchange(socket: &Path, request: &str) -> Answer {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn data(body: &str) -> Value {
    serde_json::from_str::<Value>(body).unwrap()["data"].clone()
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("this is no root, so requests of other users are not checked");
    }
    is_root
}

/// The name of the user of this process, as the log has it.
fn own_name() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_over_the_socket_names_the_user() {
    let server = SocketServer::start(
        "[access.unix_users.4242]\nscopes = ['read', 'approve']\n\
         [access.unix_users.4243]\nscopes = ['read']\ntenant = 'acme'\n",
    )
    .await;
    let run = server.run_with_approval().await;
    let approve = json!({"decision": "approve"});
    let (user, name) = match is_root() {
        true => {
            let refused = server.post(Some(ADA), "/v1/runs", &json!({"kind": "external"})).await;
            assert!(refused.0 == 403 && refused.1.contains("scope_missing"), "{refused:?}");
            let refused = server.post(Some(EVE), "/v1/approvals/appr_1/resolve", &approve).await;
            assert!(refused.0 == 403, "{refused:?}");
            let refused = server.post(Some(OTHER), "/v1/approvals/appr_1/resolve", &approve).await;
            let words = ["token_missing", "the user uid:4244 has no access", "access.unix_users"];
            assert!(refused.0 == 401 && words.iter().all(|word| refused.1.contains(word)), "{refused:?}");
            (Some(ADA), "uid:4242".to_owned())
        }
        false => (None, own_name()),
    };
    let approved = server.post(user, "/v1/approvals/appr_1/resolve", &approve).await;
    assert_eq!(approved.0, 200, "{approved:?}");
    let events = server.get(None, &format!("/v1/runs/{run}/events")).await;
    let by = events.1.split("\"approval.resolved\"").nth(1).unwrap_or_else(|| panic!("{events:?}"));
    assert!(by.contains(&format!("\"by\":\"{name}\"")), "{events:?}");
    server.server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_reads_only_its_tenant_also_with_a_ticket() {
    let server = SocketServer::start("[access.unix_users.4243]\nscopes = ['read']\ntenant = 'acme'\n").await;
    let run = server.run_with_approval().await;
    let path = format!("/v1/runs/{run}/events");
    assert_eq!(server.get(None, &path).await.0, 200);
    if is_root() {
        assert_eq!(server.get(Some(EVE), &path).await.0, 404);
        let listed = server.get(Some(EVE), "/v1/runs").await;
        assert!(listed.0 == 200 && !listed.1.contains(&run), "{listed:?}");
        assert_eq!(server.get(Some(EVE), "/admin/tokens").await.0, 403);
        let ticket = server.post(Some(EVE), "/v1/tickets", &json!({"path": path})).await;
        let ticket = data(&ticket.1)["ticket"].as_str().unwrap().to_owned();
        let redeemed = server.get(Some(EVE), &format!("{path}?ticket={ticket}")).await;
        assert_eq!(redeemed.0, 404, "a ticket has no more rights than its user: {redeemed:?}");
    }
    server.server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_tokens_are_checked_and_streams_are_sent() {
    let server = SocketServer::start("").await;
    let run = server.run_with_approval().await;
    assert_eq!(server.server.running.socket.as_ref(), Some(&server.socket));
    let refused = server.send(None, "GET /v1/runs HTTP/1.1\r\nHost: evil.example:8765", "").await;
    assert!(refused.0 == 403 && refused.1.contains("use localhost"), "{refused:?}");
    let page = "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example";
    assert_eq!(server.send(None, page, "").await.0, 403);
    let wrong = "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer rct_wrong";
    let refused = server.send(None, wrong, "").await;
    assert!(refused.0 == 401 && refused.1.contains("token_invalid"), "{refused:?}");

    let cancel = server.post(None, &format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(cancel.0, 200, "{cancel:?}");
    // The stream ends after the end of the run, and the connection stays for the next request.
    let stream = format!(
        "GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n\
         GET /v1/runs/{run} HTTP/1.1\r\nHost: localhost"
    );
    let (status, body) = server.send(None, &stream, "").await;
    assert!(status == 200 && body.contains("event: caught_up"), "{body}");
    assert!(body.contains("run.cancelled") && body.contains("\"status\":\"cancelled\""), "{body}");

    assert!(server.socket.exists());
    server.server.running.stop().await;
    assert!(!server.socket.exists(), "removed at shutdown");
    drop(server.folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_requires_tokens_requires_them_over_the_socket() {
    let server = SocketServer::start("[access]\nrequire_token = true\n").await;
    let refused = server.get(None, "/v1/runs").await;
    assert!(refused.0 == 401 && refused.1.contains("token_missing"), "{refused:?}");
    let proxied = server.send(None, "GET /v1/runs HTTP/1.1\r\nHost: recount.example", "").await;
    assert!(proxied.1.contains("token_missing"), "a proxy may send any host: {proxied:?}");
    server.server.running.stop().await;
}
