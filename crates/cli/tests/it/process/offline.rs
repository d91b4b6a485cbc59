//! Verbs that print information about the program itself and contact no server.

use std::path::Path;

use serde_json::Value;

use crate::server::{CommandOutput, recount};

fn ask(arguments: &[&str]) -> CommandOutput {
    // No server listens at this address.
    CommandOutput::of(recount().args(["--url", "http://127.0.0.1:1"]).args(arguments))
}

fn checked_in(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

#[test]
fn schemas_are_those_that_are_checked_in() {
    let listed = ask(&["schema"]).good();
    assert!(
        listed.lines().any(|line| line.starts_with("run.queued ") && line.ends_with(" core")),
        "{listed}"
    );
    for line in listed.lines() {
        let name = line.split(' ').next().unwrap();
        let path = match name {
            "openapi" => "docs/openapi.json".to_owned(),
            name => format!("docs/schemas/events/v1/{name}.schema.json"),
        };
        assert_eq!(ask(&["schema", name]).good(), checked_in(&path), "{name}");
    }
    let as_json = ask(&["schema", "--json"]).good();
    assert_eq!(as_json.lines().count(), listed.lines().count());
    let one: Value = serde_json::from_str(&ask(&["schema", "run.queued", "--json"]).good()).unwrap();
    assert_eq!(one["title"], "run.queued");
    ask(&["schema", "run.qeued"]).bad(2, "did you mean run.queued?");
    ask(&["schema", "nothing.like.it"]).bad(2, "recount schema lists the names");
}

#[test]
fn shells_get_what_they_complete_with() {
    for (shell, part) in
        [("bash", "complete -F _recount"), ("zsh", "#compdef recount"), ("fish", "complete -c recount")]
    {
        let script = ask(&["completion", shell]).good();
        assert!(script.contains(part) && script.contains("approve"), "{shell}");
    }
    ask(&["completion", "smell"]).bad(2, "possible values");
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man");
    ask(&["man", "--out", out.to_str().unwrap()]).good();
    let help = ask(&["help"]).good();
    let verbs =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs = verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help");
    let mut pages = 0;
    for verb in verbs {
        let page = out.join(format!("recount-{verb}.1"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|why| panic!("{}: {why}", page.display()));
        assert!(text.contains(".SH SYNOPSIS"), "{verb}: {text}");
        pages += 1;
    }
    assert!(pages > 15, "{help}");
    assert!(std::fs::read_to_string(out.join("recount.1")).unwrap().contains("recount"), "the whole");
}

#[test]
fn each_value_tells_where_it_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "[store]\ndurability = \"relaxed\"\n").unwrap();
    let path = file.to_str().unwrap();
    let output = |arguments: &[&str]| {
        let mut command = recount();
        command.env("HOME", folder.path()).env("RECOUNT_LOG", "warn").env("RECOUNT_TOKEN", "rt_hidden");
        CommandOutput::of(command.args(["config", "--config", path, "--bind", "127.0.0.1:9"]).args(arguments))
            .good()
    };
    let rows: Vec<Value> =
        output(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row =
        |key: &str| rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no {key}")).clone();
    let expect = |key: &str, value: &str, source: &str| {
        let row = row(key);
        assert_eq!((row["value"].as_str(), row["source"].as_str()), (Some(value), Some(source)), "{row}");
    };
    expect("bind", "127.0.0.1:9", "flag");
    expect("log.level", "warn", "environment");
    assert_eq!(row("log.level")["at"], "RECOUNT_LOG");
    expect("store.durability", "relaxed", "file");
    assert_eq!(row("store.durability")["at"], path);
    expect("retention.max_age", "off", "default");
    expect("url", "http://127.0.0.1:8765", "default");
    expect("token", "set (hidden)", "environment");
    let in_words = output(&[]);
    assert!(!in_words.contains("rt_hidden"), "{in_words}");
    let line = in_words.lines().find(|line| line.starts_with("log.level")).unwrap();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["log.level", "warn", "environment", "RECOUNT_LOG"]
    );
    let bad = CommandOutput::of(recount().args(["config", "--bind", "nowhere"]));
    bad.bad(2, "invalid value \"nowhere\" for bind; use an address");
}
