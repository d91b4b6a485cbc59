//! A server of a later release: `show` and `tail` print its events, also unknown types and fields.
//!
//! What such a server may send is in `testdata/future/`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::server::{CommandOutput, recount};

const EVENTS: &str = include_str!("../../../../../testdata/future/events.jsonl");
const STREAM: &str = include_str!("../../../../../testdata/future/stream.txt");
const REPLIES: &str = include_str!("../../../../../testdata/future/replies.json");
const PROBLEM: &str = include_str!("../../../../../testdata/future/problem.json");

const RUN: &str = "run_01M90000000000000000000F01";
const REFUSED: &str = "run_01M90000000000000000000F02";

/// Answers every connection once, until the test is over, and says where.
#[allow(clippy::disallowed_methods, reason = "a server of another release, outside the product")]
fn later_release() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A verb may leave in the middle of an answer.
            drop(answer(stream));
        }
    });
    url
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = BufReader::new(stream.try_clone()?).lines();
    let request = head.next().unwrap_or_else(|| Ok(String::new()))?;
    let headers: Vec<String> =
        head.map_while(Result::ok).take_while(|line| !line.is_empty()).map(|l| l.to_lowercase()).collect();
    let has = |part: &str| headers.iter().any(|line| line.contains(part));
    let replies: Value = serde_json::from_str(REPLIES).expect("the corpus is JSON");
    let (status, media_type, body) = match request.split(' ').nth(1).unwrap_or_default() {
        path if path.contains(REFUSED) => ("409 Conflict", "application/problem+json", PROBLEM.to_owned()),
        _ if has("last-event-id:") => ("204 No Content", "text/plain", String::new()),
        path if path.contains("/events") && has("text/event-stream") => {
            ("200 OK", "text/event-stream", STREAM.to_owned())
        }
        path if path.contains("/events") => {
            // Exactly the bytes of the corpus, as a server keeps to them.
            let events: Vec<&str> = EVENTS.lines().collect();
            let mut page = replies["read_run_events"].clone();
            page["data"] = Value::Null;
            let page = page.to_string().replace("\"data\":null", &format!("\"data\":[{}]", events.join(",")));
            ("200 OK", "application/json", page)
        }
        path if path.starts_with("/v1/runs?") => {
            ("200 OK", "application/json", replies["list_runs"].to_string())
        }
        _ => ("404 Not Found", "application/problem+json", PROBLEM.to_owned()),
    };
    let length =
        if status.starts_with("204") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\nserver: later/9\r\n{length}connection: close\r\n\r\n{body}"
    )
}

fn ask(url: &str, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(recount().args(["--url", url]).args(arguments))
}

#[test]
fn events_of_a_later_release_are_given_as_they_came() {
    let url = later_release();
    for verb in [&["show", RUN, "--json"][..], &["tail", RUN, "--json"], &["tail", RUN, "--follow", "--json"]]
    {
        let output = ask(&url, verb).good();
        let ours: Vec<&str> = output.lines().filter(|line| !line.contains("\"gap\"")).collect();
        let expected: Vec<&str> = EVENTS.lines().collect();
        assert_eq!(ours, expected, "{verb:?}");
    }
}

#[test]
fn events_of_a_later_release_are_printed_in_words() {
    let url = later_release();
    for verb in [&["show", RUN, "--all"][..], &["tail", RUN, "--pieces"]] {
        let output = ask(&url, verb).good();
        // Each is printed, also those whose type or values are new.
        for part in [
            "run.placed",
            "vote.cast",
            "assistant.audio_delta",
            "ext.acme.moved",
            "move the house",
            "teleport",
        ] {
            assert!(output.contains(part), "{verb:?} says nothing of {part}:\n{output}");
        }
        assert!(output.lines().count() >= EVENTS.lines().count(), "{verb:?}:\n{output}");
    }
}

#[test]
fn lists_and_refusals_of_a_later_release_are_read() {
    let url = later_release();
    let listed = ask(&url, &["ls"]).good();
    assert!(listed.contains(RUN) && listed.contains("paused"), "{listed}");
    let refused = ask(&url, &["show", REFUSED]);
    assert!(refused.words.contains("2 are wanted, 1 agreed (quorum_missing)"), "{refused:?}");
}
