//! A server on a Unix socket, by real processes: the verbs, a socket that a dead or living server has, and sockets that a
//! service manager opened.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recount_client::Client;
use serde_json::{Value, json};

use super::recording_mcp_http::McpClient;
use super::story;
use crate::server::{
    CommandOutput, PATIENCE, Server, lines_of, recount, the_usual_address_is_free, untouched,
};

fn socket_in(folder: &tempfile::TempDir) -> (PathBuf, String) {
    let path = folder.path().join("recount.sock");
    let url = format!("unix:{}", path.display());
    (path, url)
}

fn serve(data: &Path, bind: &[&str]) -> Command {
    let mut command = recount();
    command.arg("serve").args(bind.iter().flat_map(|bind| ["--bind", bind]));
    command.args(["--log", "warn", "--data"]).arg(data);
    command
}

fn own_name() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn the_verbs_work_over_a_socket_and_name_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let (path, url) = socket_in(&folder);
    let data = folder.path().join("data");
    let mut server = Server::of(&mut serve(&data, &[&url])).listening();
    assert!(std::fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    assert!(server.words.iter().any(|line| line.starts_with("over the socket, root and the user")));
    let verb = |arguments: &[&str]| CommandOutput::of(recount().env("RECOUNT_URL", &url).args(arguments));

    let client = Client::new(&url, None).unwrap();
    let run = story::create(&client, "A story").await;
    story::append(&client, &run, 0, story::BEGINNING).await;
    story::append(&client, &run, 1, story::ASKING).await;
    assert!(verb(&["ls"]).good().contains("A story"));
    let following = server.follow(&["tail", "--json", &run]);
    let first = following.line();
    assert!(first.contains("run.queued"), "{first}");
    assert_eq!(verb(&["approve", "appr_1", "--yes"]).good(), "appr_1 approved\n");
    story::append(&client, &run, 2, story::ENDING).await;
    let (lines, status) = following.end();
    assert!(status == 0 && !lines.is_empty(), "{lines:?}");
    let shown = verb(&["show", &run]).good();
    assert!(shown.contains(&format!("approved by {}", own_name())), "{shown}");
    let added: Value =
        serde_json::from_str(&verb(&["token", "add", "ci", "--scope", "read", "--json"]).good()).unwrap();
    let secret = added["secret"].as_str().unwrap();
    assert!(verb(&["--token", secret, "ls"]).good().contains("A story"));
    verb(&["--token", "rct_wrong", "ls"]).bad(1, "token_invalid");
    assert!(verb(&["doctor"]).data.contains("ok"));

    let mut mcp = McpClient::of(recount().args(["--url", &url, "mcp", "serve"]));
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} });
    assert_eq!(mcp.ask(0, "initialize", &params)[0]["result"]["protocolVersion"], "2025-06-18");
    mcp.end();
    verb(&["narrate", "--all"]).bad(2, "narrate cannot use a socket");

    server.stop();
    assert!(!path.exists(), "removed at shutdown");
    verb(&["ls"]).bad(3, "no server has this socket");
}

#[test]
fn a_socket_of_a_killed_server_is_replaced_and_that_of_a_living_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, url) = socket_in(&folder);
    let (data, other) = (folder.path().join("data"), folder.path().join("other"));
    let mut server = Server::of(&mut serve(&data, &[&url])).listening();
    CommandOutput::of(&mut serve(&other, &[&url])).bad(5, "another server listens on it");
    assert_eq!(server.ask(&["ls"]).good(), "", "the first server is untouched");
    server.kill();
    assert!(path.exists(), "a killed server removes nothing");
    CommandOutput::of(recount().args(["--url", &url, "ls"])).bad(3, "no server listens on this socket");
    let mut again = Server::of(&mut serve(&data, &[&url])).listening();
    assert_eq!(again.ask(&["ls"]).good(), "");
    again.stop();
    std::fs::write(&path, "a file").unwrap();
    CommandOutput::of(&mut serve(&data, &[&url])).bad(5, "not a socket");
    let missing = format!("unix:{}", folder.path().join("missing/s").display());
    CommandOutput::of(&mut serve(&data, &[&missing])).bad(5, "missing is missing; create it");
}

#[test]
fn one_server_listens_on_an_address_and_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (_, url) = socket_in(&folder);
    let data = folder.path().join("data");
    let server = Server::of(&mut serve(&data, &["127.0.0.1:0", &url])).listening();
    assert!(server.words.contains(&format!("also listening on {url}")), "{:?}", server.words);
    assert_eq!(server.ask(&["ls"]).good(), "");
    assert_eq!(CommandOutput::of(recount().args(["--url", &url, "ls"])).good(), "");
}

/// A service manager that restarts its service at each line of its input, and keeps the sockets meanwhile.
const MANAGER: &str = r#"
import os, signal, socket, subprocess, sys
unix = socket.socket(socket.AF_UNIX); unix.bind(sys.argv[1]); unix.listen(8)
tcp = socket.socket(); tcp.bind(("127.0.0.1", 0)); tcp.listen(8)
def start():
    pid = os.fork()
    if pid == 0:
        high = [os.dup(unix.fileno()), os.dup(tcp.fileno())]
        high = [os.dup2(fd, 50 + n) for n, fd in enumerate(high)]
        for n, fd in enumerate(high): os.dup2(fd, 3 + n)
        os.closerange(5, 100)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2")
        os.execv(sys.argv[2], sys.argv[2:])
    return pid
pid = start()
for line in sys.stdin:
    if pid:
        os.kill(pid, signal.SIGTERM); os.waitpid(pid, 0); pid = 0
        print("stopped", file=sys.stderr, flush=True)
    else:
        pid = start()
if pid: os.kill(pid, signal.SIGTERM); os.waitpid(pid, 0)
"#;

#[test]
fn a_restart_with_sockets_of_a_service_manager_refuses_no_client() {
    use std::io::Write as _;
    the_usual_address_is_free();
    let folder = tempfile::tempdir().unwrap();
    let (path, url) = socket_in(&folder);
    let mut manager = untouched("python3");
    manager.args(["-c", MANAGER]).arg(&path).arg(env!("CARGO_BIN_EXE_recount"));
    manager.args(["serve", "--log", "warn", "--data"]).arg(folder.path().join("data"));
    let mut manager = manager.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, words) = (manager.stdin.take().unwrap(), lines_of(manager.stderr.take().unwrap()));
    let wait_for = |begin: &str| loop {
        let line = words.recv_timeout(PATIENCE).expect("the line arrives");
        if let Some(rest) = line.strip_prefix(begin) {
            return rest.to_owned();
        }
    };
    assert_eq!(wait_for("also listening on "), url);
    let address = wait_for("listening on ");
    assert!(!address.ends_with(":8765"), "the passed address replaces the default: {address}");
    for url in [&*url, &*address] {
        assert_eq!(CommandOutput::of(recount().args(["--url", url, "ls"])).good(), "");
    }
    writeln!(input, "stop").unwrap();
    wait_for("stopped");
    assert!(path.exists(), "the socket belongs to the service manager");
    let clients = [&*url, &*address].map(|url| {
        recount().args(["--url", url, "ls"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    writeln!(input, "start").unwrap();
    wait_for("listening on ");
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    drop(input);
    assert!(manager.wait().unwrap().success());
}
