//! Two teams and their tokens, as described in the page on security.

use std::process::Command;

use crate::server::{CommandOutput, Server, recount};

/// The secret that a new token is shown as.
fn add(command: &mut Command) -> String {
    let secret = CommandOutput::of(command).good().trim().to_owned();
    assert!(secret.starts_with("rct_") && secret.lines().count() == 1, "{secret}");
    secret
}

fn with(server: &Server, token: &str, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(recount().env("RECOUNT_URL", server.url()).env("RECOUNT_TOKEN", token).args(arguments))
}

#[test]
fn two_tenants_as_documented() {
    let data = tempfile::tempdir().unwrap();
    let serve = |bind: &str| {
        let mut command = recount();
        command.args(["serve", "--bind", bind, "--data"]).arg(data.path());
        command
    };
    // No request from outside is accepted before there is a token.
    CommandOutput::of(&mut serve("0.0.0.0:0")).bad(2, "no token exists");
    let boss = add(recount()
        .args(["token", "add", "boss", "--scope", "admin,read,run,approve,ingest", "--data"])
        .arg(data.path()));
    let server = Server::of(serve("127.0.0.1:0").arg("--require-token")).listening();
    server.ask(&["ls"]).bad(1, "token_missing");
    server.ask(&["ls"]).bad(1, "use --token or RECOUNT_TOKEN, or recount login");
    with(&server, &boss[..boss.len() - 1], &["ls"]).bad(1, "token_invalid");
    let token = |name: &str, tenant: &str| {
        let arguments = ["token", "add", name, "--scope", "read,run,ingest", "--tenant", tenant];
        let secret = with(&server, &boss, &arguments).good();
        secret.trim().to_owned()
    };
    let (acme, zeta) = (token("ann", "acme"), token("zoe", "zeta"));
    let created = new_run(&server, &acme);
    assert!(with(&server, &acme, &["ls"]).good().contains(&created));
    assert!(!with(&server, &zeta, &["ls"]).good().contains(&created));
    with(&server, &zeta, &["show", &created]).bad(1, "run_not_found");
    assert!(with(&server, &acme, &["show", &created]).good().contains("queued"));
    with(&server, &acme, &["cancel", &created]).good();
    with(&server, &acme, &["token", "ls"]).bad(1, "scope_missing");
    // The caller in the log.
    assert!(with(&server, &acme, &["show", &created, "--json"]).good().contains(r#""requested_by":"ann""#));
    let listed = with(&server, &boss, &["token", "ls"]).good();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let line = listed.lines().find(|line| line.contains("zoe")).unwrap();
    assert!(line.contains("of tenant zeta, scopes read run ingest"), "{line}");
    let id = line.split_whitespace().next().unwrap();
    with(&server, &boss, &["token", "rm", id]).good();
    with(&server, &zeta, &["ls"]).bad(1, "token_invalid");
    with(&server, &boss, &["token", "rm", id]).bad(1, "token_not_found");
    drop(server);
    // A tenant's folder is a data folder like any other.
    let folder = data.path().join("tenants/acme");
    let verified = CommandOutput::of(recount().args(["verify", "--data"]).arg(&folder)).good();
    assert!(verified.contains(&created), "{verified}");
    // And what is asked of the whole is asked of each.
    let whole = CommandOutput::of(recount().args(["verify", "--data"]).arg(data.path())).good();
    assert!(whole.contains(&created), "{whole}");
    let looked = CommandOutput::of(recount().args(["doctor", "--full", "--data"]).arg(data.path()));
    assert!(looked.data.contains("of acme: fine"), "{looked:?}");
    let noted = data.path().join("noted");
    let digest = verified.lines().next().unwrap().replace(" ok,", "").replace(" events, head", "");
    std::fs::write(&noted, format!("{digest}\n")).unwrap();
    let verify_noted = |data: &std::path::Path| {
        CommandOutput::of(recount().args(["verify", "--digests"]).arg(&noted).arg("--data").arg(data))
    };
    verify_noted(data.path()).good();
    let copy = data.path().join("copy");
    let made =
        CommandOutput::of(recount().args(["backup", "--verify", "--data"]).arg(data.path()).arg(&copy))
            .good();
    assert!(made.contains(&created), "{made}");
    std::fs::remove_dir_all(copy.join("tenants/acme")).unwrap();
    let verification = verify_noted(&copy);
    assert!(
        verification.status == 1
            && verification.data.contains("a digest of it was recorded, but the run is missing",),
        "{verification:?}"
    );
    let offline = CommandOutput::of(recount().args(["token", "ls", "--data"]).arg(data.path())).good();
    assert_eq!(offline.lines().count(), 2, "{offline}");
}

/// A run of the client that has the token.
fn new_run(server: &Server, token: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = recount_client::Client::new(&server.url(), Some(token)).unwrap();
    let request = recount_client::request::CreateRun {
        kind: "external".to_owned(),
        ..recount_client::request::CreateRun::default()
    };
    runtime.block_on(client.create_run(&request)).unwrap().id
}

#[test]
fn a_wrong_word_makes_no_token() {
    let data = tempfile::tempdir().unwrap();
    let add = |arguments: &[&str]| {
        let mut command = recount();
        command.args(["token", "add"]).args(arguments).arg("--data").arg(data.path());
        CommandOutput::of(&mut command)
    };
    add(&["a"]).bad(2, "--scope");
    add(&["a", "--scope", "root"]).bad(2, "use read, run, approve, ingest or admin");
    add(&["a b", "--scope", "read"]).bad(2, "invalid name");
    add(&["a", "--scope", "read", "--tenant", "../x"]).bad(2, "invalid tenant");
    add(&["a", "--scope", "read", "--expires-in", "soon"]).bad(2, "90d");
    add(&["a", "--scope", "admin", "--task", "task_01JZZZZZZZZZZZZZZZZZZZZZZZ"]).bad(2, "admin");
}
