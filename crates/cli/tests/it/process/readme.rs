//! The quick start of README.md, run as it stands with a shell and curl, against the real binary.

use std::path::Path;
use std::process::{Command, Stdio};

use recount_client::Client;

use crate::server::{CommandOutput, RunningCommand, Server};

/// The address of the server in the page.
const ADDRESS: &str = "http://127.0.0.1:8765";

/// The shell blocks of the quick start, for this server.
fn blocks(server: &Server) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("README.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, quick_start) = page.split_once("\n## Quick start\n").expect("there is a quick start");
    let (quick_start, _) = quick_start.split_once("\n## ").expect("something follows");
    let blocks = quick_start.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("```").expect("a block ends").0);
    blocks.map(|block| block.replace(ADDRESS, &server.url())).collect()
}

/// A shell that a machine's own settings do not lead astray.
fn shell(folder: &Path, url: &str, run: &str, script: &str) -> Command {
    let mut command = Command::new("sh");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RECOUNT_") {
            command.env_remove(name);
        }
    }
    command.args(["-eu", "-c", script]).current_dir(folder).stdin(Stdio::null());
    // As if it were installed.
    let installed = Path::new(env!("CARGO_BIN_EXE_recount")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([installed].into_iter().chain(std::env::split_paths(&path))).unwrap();
    command.env("PATH", path);
    command.env("no_proxy", "*").env("CURL_HOME", folder).env("RECOUNT_URL", url).env("RUN", run);
    command
}

#[tokio::test]
async fn the_quick_start_does_what_it_says() {
    let curl = Command::new("curl").arg("--version").output();
    assert!(curl.is_ok(), "curl is missing: install it (on Debian, apt-get install curl)");
    let server = Server::fresh();
    let blocks = blocks(&server);
    play(&server, &blocks).await;
    // The commands also work a second time.
    play(&server, &blocks).await;
}

/// Runs the commands of the blocks, once.
async fn play(server: &Server, blocks: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let [create, follow, begin, approve, end, look] = blocks else {
        panic!("the quick start has {} blocks, this test knows six: {blocks:#?}", blocks.len());
    };

    // The first block sets the server's address, and finds the run's id.
    let created = format!("{create}\necho \"$RECOUNT_URL $RUN\"");
    let created = CommandOutput::of(&mut shell(folder.path(), "", "", &created)).good();
    let (url, run) = created.trim().split_once(' ').expect("an address and a run");
    assert_eq!(url, server.url());
    let ask = |script: &str| CommandOutput::of(&mut shell(folder.path(), url, run, script)).good();

    let follow: Vec<&str> = follow.lines().collect();
    let [words, stream] = follow[..] else { panic!("two ways to follow: {follow:?}") };
    assert!(words.contains(" tail -f ") && stream.starts_with("curl -N "), "{follow:?}");
    let follow =
        |line: &str| RunningCommand::of(&mut shell(folder.path(), url, run, &format!("exec {line}")));
    let words = follow(words);
    let stream = follow(stream);
    let bytes = server.follow(&["tail", "-f", "--json", run]);
    // All three are there before the story goes on.
    let first = words.line();
    assert!(first.starts_with("Day "), "{first}");
    let (mut followed, mut framed, mut stored) = (vec![first], vec![stream.line()], vec![bytes.line()]);

    assert!(ask(begin).contains("\"first_sequence\":1"));
    // Here is no terminal to confirm on.
    let approve = format!("{} --yes", approve.trim_end());
    assert_eq!(ask(&approve), format!("{run}-remove approved\n"));
    assert!(ask(end).contains("\"last_sequence\""));

    for (following, lines) in [(words, &mut followed), (stream, &mut framed), (bytes, &mut stored)] {
        let (rest, status) = following.end();
        assert_eq!(status, 0, "{rest:?}");
        lines.extend(rest);
    }
    let page = Client::new(url, None).unwrap().read_run_events(run, None, None).await.unwrap();
    let envelopes: Vec<&str> = page.data.iter().map(|envelope| envelope.get()).collect();
    assert_eq!(stored, envelopes);
    assert_eq!(data_lines(&framed), envelopes);

    let looked = ask(look);
    let looked: Vec<&str> = looked.lines().collect();
    let (account, checked) = looked.split_at(looked.len() - 2);
    assert_eq!(account, followed);
    assert_eq!(checked[0], checked[1], "verified twice");
    assert!(checked[0].starts_with(&format!("{run} ok, {} events, head ", envelopes.len())), "{checked:?}");
    let noted = std::fs::read_to_string(folder.path().join("heads.txt")).unwrap();
    assert_eq!(noted, server.ask(&["digest", run]).good());
}

/// The data of the frames that carry events; frames with a name of their own do not.
fn data_lines(lines: &[String]) -> Vec<&str> {
    let frames = lines.split(String::is_empty);
    let events = frames.filter(|frame| !frame.iter().any(|line| line.starts_with("event:")));
    events.flatten().filter_map(|line| line.strip_prefix("data: ")).collect()
}
