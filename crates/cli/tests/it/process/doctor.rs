//! Doctor: a sound server, a sound folder, one in use, a damaged one, and nothing at all.

use std::path::Path;

use recount_client::Client;
use serde_json::Value;

use crate::process::{story, tamper};
use crate::server::{CommandOutput, Server, recount, the_usual_address_is_free};

/// Checks by name, and the status of the program.
struct Found {
    checks: Vec<Value>,
    status: i32,
}

impl Found {
    fn of(answer: &CommandOutput) -> Found {
        let checks = answer.data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Found { checks, status: answer.status }
    }

    fn get(&self, name: &str) -> &Value {
        let found = self.checks.iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("nothing about {name}: {:?}", self.checks))
    }

    /// Names of what is a problem. Each names what was found and what to do.
    fn problems(&self) -> Vec<&str> {
        let problems: Vec<&Value> = self.checks.iter().filter(|check| check["status"] == "problem").collect();
        for problem in &problems {
            assert!(problem["advice"].as_str().is_some_and(|advice| !advice.is_empty()), "{problem}");
        }
        assert_eq!(self.status, i32::from(!problems.is_empty()), "{problems:?}");
        problems.iter().map(|problem| problem["name"].as_str().unwrap()).collect()
    }
}

fn offline(data: &Path, more: &[&str]) -> Found {
    Found::of(&CommandOutput::of(recount().args(["doctor", "--json", "--data"]).arg(data).args(more)))
}

#[tokio::test]
async fn a_sound_store_is_reported_in_full() {
    let place = tempfile::tempdir().unwrap();
    // Made by the server, and so for its owner only.
    let data = place.path().join("data");
    let server = Server::start(&data);
    story::whole(&Client::new(&server.url(), None).unwrap(), "one").await;
    for more in [&[][..], &["--full"]] {
        let found = Found::of(&server.ask(&[&["doctor", "--json"], more].concat()));
        assert_eq!(found.problems(), Vec::<&str>::new());
        for name in ["version", "store", "integrity", "size", "commits", "clock", "durability"] {
            assert_eq!(found.get(name)["status"], "fine", "{name}");
        }
        for name in ["retention", "priority", "open files", "connections", "limits", "disk", "permissions"] {
            assert!(!found.get(name)["value"].as_str().unwrap().is_empty(), "{name}");
        }
    }
    let found = Found::of(&server.ask(&["doctor", "--json", "--full"]));
    assert!(found.get("integrity")["value"].as_str().unwrap().starts_with("1 runs with"));
    let words = server.ask(&["doctor"]);
    assert!(words.data.contains("store: fine: reads and writes\n"), "{words:?}");
    assert!(words.words.contains("no problems found"), "{words:?}");
    // In use, the folder is left to who holds it.
    let held = offline(&data, &["--full"]);
    assert_eq!(held.problems(), ["store"]);
    assert!(held.get("store")["value"].as_str().unwrap().contains("in use by process"));
    assert!(held.get("store")["advice"].as_str().unwrap().contains("use --url instead of --data"));
    drop(server);
    for more in [&[][..], &["--full"]] {
        assert_eq!(offline(&data, more).problems(), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn problems_are_reported_with_their_fix() {
    use std::os::unix::fs::PermissionsExt as _;
    let data = tempfile::tempdir().unwrap();
    let run = {
        let server = Server::start(data.path());
        story::whole(&Client::new(&server.url(), None).unwrap(), "one").await
    };
    std::fs::set_permissions(data.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let found = offline(data.path(), &[]);
    assert_eq!(found.problems(), ["permissions"]);
    assert!(found.get("permissions")["advice"].as_str().unwrap().contains("chmod 700"));
    std::fs::set_permissions(data.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    // A changed event shows only when every byte is read.
    tamper::change_first_event(data.path(), &run).await;
    assert_eq!(offline(data.path(), &[]).problems(), Vec::<&str>::new());
    let found = offline(data.path(), &["--full"]);
    assert!(found.problems().contains(&"integrity"));
    assert!(found.checks.iter().any(|check| check["value"].as_str().unwrap().contains(&run)));
    // A database that is none.
    let database = data.path().join("recount.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[..4096].fill(7);
    std::fs::write(&database, bytes).unwrap();
    for more in [&[][..], &["--full"]] {
        assert!(offline(data.path(), more).problems().contains(&"store"));
    }
}

#[test]
fn a_missing_server_and_folder_are_reported() {
    let nowhere = tempfile::tempdir().unwrap();
    let none = nowhere.path().join("none");
    assert_eq!(offline(&none, &[]).problems(), ["store"]);
    assert!(!none.exists(), "nothing is made");
    // A named server is checked alone: the default folder has nothing to do with it.
    let mut command = recount();
    command.args(["doctor", "--json", "--url", "http://127.0.0.1:1"]).env("XDG_DATA_HOME", nowhere.path());
    let found = Found::of(&CommandOutput::of(&mut command));
    assert_eq!((found.problems(), found.checks.len()), (vec!["server"], 1));
    the_usual_address_is_free();
    let mut command = recount();
    command.args(["doctor", "--json"]).env("XDG_DATA_HOME", nowhere.path());
    let found = Found::of(&CommandOutput::of(&mut command));
    assert_eq!(found.problems(), ["server", "store"]);
    // A folder that is there is looked at.
    drop(Server::start(&nowhere.path().join("recount")));
    let found = Found::of(&CommandOutput::of(&mut command));
    assert_eq!(found.problems(), ["server"]);
    assert!(found.get("store")["value"].as_str().unwrap().contains("schema"));
}

#[test]
fn a_server_that_responds_is_healthy() {
    let mut server = Server::fresh();
    let healthy = server.ask(&["health"]);
    assert_eq!(
        (healthy.status, &*healthy.data),
        (0, &*format!("ok: recount {}\n", env!("CARGO_PKG_VERSION")))
    );
    let value: Value = serde_json::from_str(&server.ask(&["health", "--json"]).data).unwrap();
    assert_eq!(value["status"], "ok");
    server.kill();
    let unreachable = server.ask(&["health"]);
    assert_eq!((unreachable.status, &*unreachable.data), (3, ""));
}

#[test]
fn the_version_names_the_commit_and_the_schemas_of_the_stores() {
    let version = CommandOutput::of(recount().arg("--version"));
    let expected = format!(
        "recount {} (commit {}; SQLite schema {}, PostgreSQL schema {})\n",
        env!("CARGO_PKG_VERSION"),
        option_env!("RECOUNT_COMMIT").unwrap_or("unknown"),
        recount_server::Durability::SCHEMA,
        recount_server::nodes::Survey::SCHEMA
    );
    assert_eq!((version.status, version.data), (0, expected));
    let short = CommandOutput::of(recount().arg("-V"));
    assert_eq!(short.data, format!("recount {}\n", env!("CARGO_PKG_VERSION")));
}
