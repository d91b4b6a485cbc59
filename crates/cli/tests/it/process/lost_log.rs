//! A write-ahead log that was damaged while no server ran: every tool that looks names the loss, the server does not
//! start on it, and what is missing is given up only by its number.

use std::path::Path;

use recount_client::Client;
use serde_json::{Value, json};

use crate::process::story;
use crate::server::{CommandOutput, Server, recount};

const FRAME: usize = 24 + 4096;

fn serve(data: &Path, more: &[&str]) -> std::process::Command {
    let mut command = recount();
    command.args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--data"]).arg(data).args(more);
    command
}

fn with_data(data: &Path, verb: &str) -> CommandOutput {
    CommandOutput::of(recount().args([verb, "--data"]).arg(data))
}

#[tokio::test]
async fn a_damaged_log_stops_the_start_until_its_loss_is_given_up() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(story::whole(&client, "damaged").await);
    }
    server.kill();
    let log = data.path().join("recount.db-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let damaged = bytes.len() / FRAME / 2;
    bytes[32 + damaged * FRAME + 1000] ^= 1;
    std::fs::write(&log, &bytes).unwrap();

    let found = format!("is damaged at frame {}", damaged + 1);
    let refused = CommandOutput::of(&mut serve(data.path(), &[]));
    assert_eq!(refused.status, 5, "{refused:?}");
    assert!(refused.words.contains(&found) && refused.words.contains("events at positions"), "{refused:?}");
    assert!(refused.words.contains(&runs[19]) || refused.words.contains(" more)"), "{refused:?}");
    let verified = with_data(data.path(), "verify");
    assert!(verified.status == 1 && verified.data.contains(&found), "{verified:?}");
    let doctor = with_data(data.path(), "doctor");
    assert!(doctor.status == 1 && doctor.data.contains(&found), "{doctor:?}");
    assert!(doctor.data.contains("is a copy of a damaged write-ahead log"), "{doctor:?}");
    let backup = data.path().join("backup");
    CommandOutput::of(recount().args(["backup", "--data"]).arg(data.path()).arg(&backup)).bad(1, &found);
    assert!(!backup.exists());
    assert!(std::fs::read(&log).unwrap() == bytes, "nobody wrote to it");

    let (_, last) = refused.words.split_once("--accept-loss-after ").unwrap();
    let last = last.split('`').next().unwrap();
    let other = CommandOutput::of(&mut serve(data.path(), &["--accept-loss-after", "1"]));
    assert!(other.status == 5 && other.words.contains(&found), "{other:?}");
    let mut server = Server::of(&mut serve(data.path(), &["--accept-loss-after", last])).listening();
    story::whole(&Client::new(&server.url(), None).unwrap(), "after").await;
    let given_up = dropped_end(&server);
    assert_eq!((&given_up["tenant"], &given_up["reason"]), (&json!("default"), &json!("accepted")));
    assert_eq!(given_up["last_position"].to_string(), last);
    assert!(given_up["message"].as_str().unwrap().contains(&found), "{given_up}");
    server.kill();
    let mut server = Server::start(data.path());
    server.stop();
    let kept = std::fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut kept = kept.filter(|path| path.to_string_lossy().contains("-wal-damaged-"));
    assert!(std::fs::read(kept.next().unwrap()).unwrap() == bytes, "it is kept as it was");
    // One run was in the middle of its story; its beginning is whole.
    with_data(data.path(), "verify").good();
}

/// The entry of the audit trail about the discarded end of a log.
fn dropped_end(server: &Server) -> Value {
    let trail = server.ask(&["tail", "--audit", "--json"]).good();
    let events = trail.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut ends = events.filter(|event| event["type"] == "ext.recount.log_end_dropped");
    let end = ends.next().unwrap_or_else(|| panic!("{trail}"));
    assert!(ends.next().is_none(), "{trail}");
    end["data"].clone()
}

/// What looks like a power cut may be damage, so it is reported by verify and in the audit trail.
#[tokio::test]
async fn a_torn_last_commit_is_reported_by_verify_and_in_the_audit_trail() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    story::whole(&Client::new(&server.url(), None).unwrap(), "torn").await;
    server.kill();
    std::fs::remove_file(data.path().join("high-water")).unwrap();
    let log = data.path().join("recount.db-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let last = (bytes.len() - 32) / FRAME;
    bytes[32 + (last - 1) * FRAME + 1000] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if file.is_file() {
            std::fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
        }
    }
    std::fs::create_dir(copy.path().join("blobs")).unwrap();

    let found = format!("is damaged at frame {last}");
    let verified = with_data(copy.path(), "verify");
    assert!(verified.status == 0 && verified.words.contains(&found), "{verified:?}");
    assert!(verified.words.contains("store: "), "{verified:?}");
    let server = Server::start(data.path());
    let end = dropped_end(&server);
    assert_eq!(end["reason"], "torn_commit");
    assert!(end["message"].as_str().unwrap().contains(&found), "{end}");
}
