//! The audit trail: what was done to a server is there to be followed, and nowhere else.

use std::path::Path;

use serde_json::{Value, json};

use crate::server::{CommandOutput, RunningCommand, Server, recount};

/// All events of the trail so far.
fn trail(server: &Server) -> Vec<Value> {
    let output = server.ask(&["tail", "--audit", "--json"]).good();
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The facts of every event of a type, in order.
fn facts<'a>(trail: &'a [Value], event_type: &str) -> Vec<&'a Value> {
    let name = format!("ext.recount.{event_type}");
    trail.iter().filter(|event| event["type"] == name.as_str()).map(|event| &event["data"]).collect()
}

fn offline(arguments: &[&str], data: &Path) -> CommandOutput {
    CommandOutput::of(recount().args(arguments).arg("--data").arg(data))
}

/// Follows the trail until an event of this type comes.
fn until(following: &RunningCommand, event_type: &str) -> Value {
    loop {
        let event: Value = serde_json::from_str(&following.line()).unwrap();
        if event["type"] == event_type {
            return event;
        }
    }
}

#[tokio::test]
async fn what_is_done_to_a_server_is_recorded_and_can_be_followed() {
    let data = tempfile::tempdir().unwrap();
    offline(&["token", "add", "before", "--scope", "read"], data.path()).good();
    let mut server = Server::start(data.path());
    let following = server.follow(&["tail", "-f", "--audit", "--json"]);
    assert_eq!(until(&following, "ext.recount.token_created")["data"]["name"], "before");
    let started = until(&following, "ext.recount.server_started");
    assert_eq!(started["data"]["address"], server.address.as_str());
    let settings = started["data"]["settings"].as_array().unwrap();
    assert!(
        settings.contains(&json!({"key": "log.level", "value": "warn", "source": "flag"})),
        "{settings:?}"
    );

    let added = server.ask(&["token", "add", "ci", "--scope", "run,read", "--json"]).good();
    let added: Value = serde_json::from_str(&added).unwrap();
    let (id, secret) = (added["id"].as_str().unwrap(), added["secret"].as_str().unwrap());
    let created = until(&following, "ext.recount.token_created");
    let wanted = json!({
        "token_id": id, "name": "ci", "tenant": "default", "scopes": ["read", "run"], "by": "operator",
    });
    assert_eq!(created["data"], wanted);

    // A caller that is no administrator does not see it, and that is recorded too.
    let url = server.url();
    let refused =
        CommandOutput::of(recount().env("RECOUNT_TOKEN", secret).args(["--url", &url, "tail", "--audit"]));
    refused.bad(1, "scope_missing");
    assert_eq!(until(&following, "ext.recount.access_refused")["data"]["code"], "scope_missing");

    server.ask(&["token", "rm", id]).good();
    let revoked = until(&following, "ext.recount.token_revoked");
    assert_eq!((&revoked["data"]["token_id"], &revoked["data"]["by"]), (&json!(id), &json!("operator")));
    for _ in 0..3 {
        let wrong = CommandOutput::of(recount().env("RECOUNT_TOKEN", secret).args(["--url", &url, "ls"]));
        wrong.bad(1, "token_invalid");
    }

    let client = recount_client::Client::new(&url, None).unwrap();
    let request =
        recount_client::request::CreateTask { title: Some("to go".to_owned()), ..Default::default() };
    let made = client.create_task(&request).await.unwrap().id;
    server.ask(&["delete", &made, "--yes"]).good();
    let removed = until(&following, "ext.recount.removed");
    assert_eq!((&removed["data"]["action"], &removed["data"]["by"]), (&json!("delete"), &json!("operator")));
    assert!(removed["data"]["path"].as_str().unwrap().ends_with(&made), "{removed}");

    // Nothing of it is among the runs.
    assert!(!server.ask(&["tail", "--all", "--json"]).good().contains("ext.recount."));
    assert_eq!(server.ask(&["ls", "--json"]).good(), "");

    server.stop();
    assert_eq!(until(&following, "ext.recount.server_stopped")["data"], json!({}));
    drop(following);

    let mut server = Server::start(data.path());
    let times: u64 = facts(&trail(&server), "access_refused")
        .iter()
        .filter(|fact| fact["code"] == "token_invalid")
        .map(|fact| fact["times"].as_u64().unwrap())
        .sum();
    assert_eq!(times, 3, "none of those that were counted is lost by a shutdown");
    server.kill();

    let server = Server::start(data.path());
    let trail = trail(&server);
    let died: Vec<&Value> = trail.iter().filter(|event| event["type"] == "run.failed").collect();
    assert_eq!(died.len(), 1, "{died:?}");
    assert_eq!(died[0]["data"]["code"], "server_died");
    assert_eq!(facts(&trail, "server_started").len(), 3);
    assert_eq!(facts(&trail, "server_stopped").len(), 1);
}
