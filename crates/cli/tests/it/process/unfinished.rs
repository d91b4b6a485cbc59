//! A killed `recount run`: the next one reports it, follows its flags, and never calls a model without a choice.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::server::{CommandOutput, RunningCommand, Server, recount, the_usual_address_is_free};

const CONFIG: &str = r#"
[models]
default = "here/script"
[models.providers.here]
kind = "scripted"
script = "script.toml"
[sandbox]
mode = "off"
"#;

/// A model that sends its first word and nothing after that.
const SILENT: &str = "[[turn]]\ntext = \"Good morning, friend.\"\npace = { tokens_per_second = 0.001 }\n";
const QUICK: &str = "[[turn]]\ntext = \"Good morning, friend.\"\n";

/// A data folder with a run whose program was killed while its model spoke.
struct Killed {
    folder: tempfile::TempDir,
    run: String,
}

/// `recount run` without a server.
fn alone(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = recount();
    command.arg("run").args(arguments).current_dir(folder.join("work"));
    command.env("XDG_CONFIG_HOME", folder).env("RECOUNT_DATA", folder.join("data"));
    command
}

impl Killed {
    fn new() -> Self {
        the_usual_address_is_free();
        let folder = tempfile::tempdir().unwrap();
        for name in ["recount", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("recount/config.toml"), CONFIG).unwrap();
        std::fs::write(folder.path().join("recount/script.toml"), SILENT).unwrap();
        let following = RunningCommand::of(&mut alone(folder.path(), &["--json", "remember me"]));
        let run = loop {
            let event: Value = serde_json::from_str(&following.line()).unwrap();
            if event["type"] == "assistant.text_delta" {
                break event["run_id"].as_str().unwrap().to_owned();
            }
        };
        // It is killed when it goes out of sight.
        drop(following);
        std::fs::write(folder.path().join("recount/script.toml"), QUICK).unwrap();
        Killed { folder, run }
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(&mut alone(self.folder.path(), arguments))
    }

    /// The types of the events of the run that was killed.
    fn types(&self) -> Vec<String> {
        let mut export = recount();
        export.args(["export", "--all", "--data"]).arg(self.folder.path().join("data"));
        let lines = CommandOutput::of(&mut export).good();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = events.filter(|event| event["run_id"] == *self.run);
        own.filter_map(|event| event["type"].as_str().map(str::to_owned)).collect()
    }

    fn count(&self, type_name: &str) -> usize {
        self.types().iter().filter(|name| *name == type_name).count()
    }
}

#[test]
fn a_killed_run_is_not_continued_silently() {
    let killed = Killed::new();
    let before = killed.types();
    let output = killed.run(&["say hello"]);
    assert_eq!((output.status, output.data.as_str()), (1, ""), "{output:?}");
    for words in [killed.run.as_str(), "--unfinished resume", "--unfinished abandon", "recount serve"] {
        assert!(output.words.contains(words), "{words}: {output:?}");
    }
    assert_eq!(killed.types(), before, "nothing was done");
}

#[test]
fn a_run_that_was_killed_is_cancelled_on_request() {
    let killed = Killed::new();
    let output = killed.run(&["--unfinished", "abandon", "say hello"]);
    assert!(output.words.contains(&killed.run), "{output:?}");
    assert!(
        output.data.contains("Good morning, friend.") && !output.data.contains(&killed.run),
        "{output:?}"
    );
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!((killed.count("turn.started"), killed.count("run.cancelled")), (1, 1));
    let output = killed.run(&["--unfinished", "abandon"]);
    assert!(output.status == 0 && output.words.contains("no unfinished runs"), "{output:?}");
}

#[test]
fn a_killed_run_is_continued_on_request() {
    let killed = Killed::new();
    let output = killed.run(&["--unfinished", "resume"]);
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.words.contains(&format!("resuming {}", killed.run)), "{output:?}");
    assert!(output.data.contains("Good morning, friend."), "{output:?}");
    assert_eq!((killed.count("turn.started"), killed.count("run.finished")), (2, 1));
}

#[test]
fn a_person_at_a_terminal_decides_about_a_killed_run() {
    for (typed, status, ending) in
        [("perhaps\na\n", 0, "run.cancelled"), ("r\n", 0, "run.finished"), ("q\n", 1, "")]
    {
        let killed = Killed::new();
        let mut command = alone(killed.folder.path(), &["--answers-from-stdin", "say hello"]);
        let file = killed.folder.path().join("typed");
        std::fs::write(&file, typed).unwrap();
        command.stdin(std::fs::File::open(&file).unwrap());
        let output = CommandOutput::of(&mut command);
        assert_eq!(output.status, status, "{typed:?}: {output:?}");
        assert!(output.words.contains("Type r to resume"), "{output:?}");
        assert_eq!(killed.count(ending), usize::from(!ending.is_empty()), "{typed:?}");
    }
}

#[test]
fn a_server_reports_which_earlier_runs_continue() {
    let killed = Killed::new();
    let server = serve(killed.folder.path());
    let words = server.words.join("\n");
    assert!(words.contains(&format!("resuming unfinished runs: {} (running)", killed.run)), "{words}");
}

/// Changes one bit wherever a store has these words. Its write-ahead log is copied into the database before.
fn damage(data: &Path, store: &str, words: &str) {
    CommandOutput::of(recount().arg("verify").arg("--data").arg(data)).good();
    let database = data.join(store).join("recount.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - words.len()).filter(|at| bytes[*at..].starts_with(words.as_bytes())).collect();
    assert!(!places.is_empty(), "{words} is in the database");
    places.into_iter().for_each(|place| bytes[place + 2] ^= 1);
    std::fs::write(&database, bytes).unwrap();
}

fn serve(folder: &Path) -> Server {
    let mut command = recount();
    command.args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(folder.join("data"));
    command.arg("--config").arg(folder.join("recount/config.toml"));
    Server::of(&mut command).listening()
}

#[test]
fn a_server_starts_beside_an_unfinished_run_that_is_damaged() {
    let killed = Killed::new();
    damage(&killed.folder.path().join("data"), "", "assistant.text_delta");
    let server = serve(killed.folder.path());
    let words = server.words.join("\n");
    assert!(words.contains("an unfinished run is damaged and is not resumed"), "{words}");
    let doctor = server.ask(&["doctor"]);
    let found = format!("stream {} is damaged from sequence", killed.run);
    assert_eq!((doctor.status, doctor.data.matches(&found).count()), (1, 1), "{doctor:?}");
    assert!(server.ask(&["ls"]).good().contains(&killed.run));
}

#[test]
fn a_server_starts_beside_a_damaged_run_of_the_audit_trail() {
    let killed = Killed::new();
    damage(&killed.folder.path().join("data"), "tenants/recount-audit", "ext.recount.server_started");
    let server = serve(killed.folder.path());
    let words = server.words.join("\n");
    assert!(words.contains("cannot close a damaged run of the audit trail"), "{words}");
    let trail = server.ask(&["tail", "--audit", "--json"]);
    assert_eq!(trail.data.matches("ext.recount.server_started").count(), 1, "{trail:?}");
    assert!(trail.words.contains("damaged"), "{trail:?}");
}
