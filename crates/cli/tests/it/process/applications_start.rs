//! The quick start for applications (docs/faces/aap.md), run as it stands with a shell and curl; and what a newcomer is told
//! who has no agent yet.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::server::{CommandOutput, Server, recount};

/// Where the page says that the server listens, and what starts it.
const ADDRESS: &str = "http://127.0.0.1:8765";
const START: &str = "recount serve --config quick/config.toml --data quick/data\n";

fn blocks() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faces/aap.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, quick_start) = page.split_once("\n## Quick start\n").expect("there is a quick start");
    let (quick_start, _) = quick_start.split_once("\n## ").expect("something follows");
    let blocks = quick_start.split("```sh\n").skip(1);
    blocks.map(|block| block.split_once("```").expect("a block ends").0.to_owned()).collect()
}

fn shell(folder: &Path, script: &str) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-eu", "-c", script]).current_dir(folder).stdin(Stdio::null());
    shell.env("no_proxy", "*").env("CURL_HOME", folder);
    CommandOutput::of(&mut shell).good()
}

#[test]
fn the_quick_start_for_applications_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks();
    let [configure, talk] = &blocks[..] else { panic!("two blocks are known here: {blocks:#?}") };
    let configure = configure.strip_suffix(START).expect("the first block ends with the start of the server");
    shell(folder.path(), configure);
    let mut serve = recount();
    serve.current_dir(folder.path()).args(["serve", "--bind", "127.0.0.1:0", "--log", "warn"]);
    serve.args(["--config", "quick/config.toml", "--data", "quick/data"]);
    let server = Server::of(&mut serve).listening();
    assert!(talk.contains(ADDRESS));
    let output = shell(folder.path(), &talk.replace(ADDRESS, &server.url()));
    let replies: Vec<Value> =
        serde_json::Deserializer::from_str(&output).into_iter().collect::<Result<_, _>>().unwrap();
    let [asks, answers] = &replies[..] else { panic!("{output}") };
    assert_eq!((&asks["stopReason"], &answers["stopReason"]), (&"tool_use".into(), &"end_turn".into()));
    assert_eq!(asks["messages"][0]["content"][0]["name"], "get_weather");
    assert_eq!(answers["messages"][0]["content"][0]["text"], "It rains in Oslo.");
}

#[test]
fn a_chat_with_a_server_without_agents_says_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let answer = server.ask(&["chat", "--message", "hello"]);
    assert_eq!(answer.status, 2, "{answer:?}");
    for step in ["the server has no agent", "[models] default", "docs/models.md", "docs/agents.md"] {
        assert!(answer.words.contains(step), "{step} is missing: {answer:?}");
    }
}
