//! Tests of `grep`: matches, events, limits and refusals.

use super::*;
use crate::tool::OutcomeStatus;
use crate::tools::scene::{Scene, refused};
use std::os::unix::fs::symlink;

fn scene() -> Scene {
    Scene::with(&[
        (".gitignore", "target\n"),
        ("a.rs", "fn one() {}\nfn two() {}\n"),
        ("src/b.rs", "one\r\nTWO\r\nthree"),
        ("src/c.txt", "one\n"),
        ("target/d.rs", "one\n"),
        ("z.bin", "one\0\n"),
    ])
}

#[tokio::test]
async fn files_that_a_rule_hides_are_not_searched() {
    let mut scene = scene();
    scene.file_judge = FileJudge::new(|_, path| path.starts_with("src/"));
    for (input, expected) in [
        (json!({ "pattern": "one" }), "a.rs:1:fn one() {}\n[2 files are hidden by a rule of the policy]\n"),
        (
            json!({ "pattern": "three" }),
            "No matches in 3 files.\n[2 files are hidden by a rule of the policy]\n",
        ),
        (json!({ "pattern": "one", "glob": "a*" }), "a.rs:1:fn one() {}\n"),
    ] {
        assert_eq!(scene.run("grep", input.clone()).await.output, expected, "{input}");
    }
    let outcome = scene.run("grep", json!({ "pattern": "one", "path": "src/b.rs" })).await;
    assert!(refused(&outcome, "blocked").contains("a rule of the policy blocks reading src/b.rs"));
}

#[tokio::test]
async fn lines_are_found_and_reported() {
    let mut scene = scene();
    for (input, expected) in [
        (json!({ "pattern": "one" }), "a.rs:1:fn one() {}\nsrc/b.rs:1:one\nsrc/c.txt:1:one\n"),
        (json!({ "pattern": "^one$", "glob": "*.rs" }), "src/b.rs:1:one\n"),
        (json!({ "pattern": "^one$" }), "src/b.rs:1:one\nsrc/c.txt:1:one\n"),
        (json!({ "pattern": "one", "glob": "src/*.txt" }), "src/c.txt:1:one\n"),
        (json!({ "pattern": "one", "path": "src", "glob": "*.rs" }), "src/b.rs:1:one\n"),
        (json!({ "pattern": "two", "ignore_case": true }), "a.rs:2:fn two() {}\nsrc/b.rs:2:TWO\n"),
        (
            json!({ "pattern": "TWO", "path": "src/b.rs", "context": 1 }),
            "src/b.rs-1-one\nsrc/b.rs:2:TWO\nsrc/b.rs-3-three\n",
        ),
        (json!({ "pattern": "one", "path": "target" }), "target/d.rs:1:one\n"),
        (json!({ "pattern": "e$", "path": "src" }), "src/b.rs:1:one\nsrc/b.rs:3:three\nsrc/c.txt:1:one\n"),
        (json!({ "pattern": "nothing" }), "No matches in 5 files."),
    ] {
        assert_eq!(scene.run("grep", input.clone()).await.output, expected, "{input}");
    }
    let outcome = scene.run("grep", json!({ "pattern": "th..e" })).await;
    assert_eq!(
        scene.events(&outcome),
        [(
            "tool.grep.completed".to_owned(),
            json!({
                "tool_call_id": "call_1", "pattern": "th..e", "files_searched": 5, "match_count": 1,
                "matches": [{ "path": "src/b.rs", "line": 3, "text": "three" }], "truncated": false
            })
        )]
    );
}

#[tokio::test]
async fn matches_bytes_and_line_lengths_are_limited() {
    let mut scene = Scene::new();
    scene.put("many", "x\n".repeat(limits::GREP_MATCHES_MAX * 3).as_bytes());
    let outcome = scene.run("grep", json!({ "pattern": "x" })).await;
    assert!(outcome.output.ends_with(&format!(
        "many:{0}:x\n[stopped after {0} matches; use a narrower pattern, path or glob]\n",
        limits::GREP_MATCHES_MAX
    )));
    let data = scene.events(&outcome).remove(0).1;
    assert_eq!((&data["match_count"], &data["truncated"]), (&json!(limits::GREP_MATCHES_MAX), &json!(true)));

    let mut scene = Scene::new();
    scene.put("wide", format!("{}\n", "ä".repeat(1_000)).repeat(400).as_bytes());
    let outcome = scene.run("grep", json!({ "pattern": "ä" })).await;
    assert!(outcome.output.len() <= limits::SEARCH_OUTPUT_BYTES_MAX + 200);
    assert!(outcome.output.starts_with(&format!("wide:1:{}…\n", "ä".repeat(limits::GREP_TEXT_CHARS_MAX))));
    let data = scene.events(&outcome).remove(0).1;
    assert!(data.to_string().len() < recount_event::limits::DATA_BYTES_MAX);

    let mut scene = Scene::with(&[("ok", "y\n")]);
    scene.put("line", "z".repeat(limits::GREP_LINE_BYTES_MAX * 2).as_bytes());
    let outcome = scene.run("grep", json!({ "pattern": "y" })).await;
    assert_eq!(outcome.output, "ok:1:y\n[1 file could not be searched completely]\n");
    assert_eq!(scene.events(&outcome).remove(0).1["truncated"], true);
}

/// `SEARCH_TIME_MAX` limits the time, and the limits of the output hold for any number of files.
#[tokio::test]
async fn ten_thousand_files_are_searched_within_the_limits() {
    let mut scene = Scene::new();
    for number in 0..10_000 {
        scene
            .put(&format!("{:02}/{number}.txt", number % 100), format!("line\nneedle {number}\n").as_bytes());
    }
    let rare = scene.run("grep", json!({ "pattern": "needle 9999$" })).await;
    assert_eq!(rare.output, "99/9999.txt:2:needle 9999\n");
    let events = scene.events(&rare);
    assert_eq!((&events[0].1["files_searched"], &events[0].1["truncated"]), (&json!(10_000), &json!(false)));
    let many = scene.run("grep", json!({ "pattern": "needle" })).await;
    let events = scene.events(&many);
    assert_eq!(events[0].1["match_count"], json!(limits::GREP_MATCHES_MAX), "{events:?}");
    assert_eq!(events[0].1["truncated"], json!(true));
    assert!(many.output.len() <= limits::SEARCH_OUTPUT_BYTES_MAX + 1_000, "{}", many.output.len());
}

#[tokio::test]
async fn nothing_outside_is_searched_and_pipes_do_not_block() {
    let mut scene = Scene::with(&[("a", "secret\n")]);
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("s"), "secret\n").unwrap();
    symlink(outside.path(), scene.at("out")).unwrap();
    symlink(outside.path().join("s"), scene.at("s")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.at("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(scene.run("grep", json!({ "pattern": "secret" })).await.output, "a:1:secret\n");
    for (input, expected) in [
        (json!({ "pattern": "(", "path": "a" }), "invalid_pattern"),
        (json!({ "pattern": "a\\nb" }), "invalid_pattern"),
        (json!({ "pattern": "\\w{1000}{1000}" }), "invalid_pattern"),
        (json!({ "pattern": "x", "glob": "[" }), "invalid_pattern"),
        (json!({ "pattern": "x", "path": "out" }), "outside_workspace"),
        (json!({ "pattern": "x", "path": "s" }), "outside_workspace"),
        (json!({ "pattern": "x", "path": "pipe" }), "not_a_file"),
        (json!({ "pattern": "x", "path": "none" }), "not_found"),
    ] {
        let outcome = scene.run("grep", input).await;
        refused(&outcome, expected);
        assert!(outcome.events.is_empty());
    }
}

/// Cancels the call after some reads, and fails if reads continue.
struct Endless {
    left: u32,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(1).expect("nothing is read after it was cancelled");
        if self.left == 0 {
            self.stop.send_replace(true);
        }
        buffer.fill(b'a');
        if let Some(last) = buffer.last_mut() {
            *last = b'\n';
        }
        Ok(buffer.len())
    }
}

#[tokio::test]
async fn a_cancelled_search_stops_in_the_middle_of_a_file_without_hits() {
    let (stop, cancel) = Cancel::new();
    let watch = WorkMonitor::new(&cancel, limits::SEARCH_TIME_MAX);
    let regex = RegexMatcherBuilder::new().build("nothing").unwrap();
    let files = &FileJudge::new(|_, _| false);
    let mut search = Search { regex, searcher: Searcher::new(), watch: &watch, files, hits: Hits::default() };
    let place = WorkspacePath::parse(std::path::Path::new("/"), "endless").unwrap();
    assert_eq!(search.file(&place, Endless { left: 20, stop }), Err(Halt::Cancelled));

    let mut scene = scene();
    scene.stop.send_replace(true);
    let outcome = scene.run("grep", json!({ "pattern": "x" })).await;
    assert_eq!((outcome.status, outcome.events), (OutcomeStatus::Cancelled, Vec::new()));
}
