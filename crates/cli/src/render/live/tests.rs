//! Whole stories as a person who follows the run sees them. `RECOUNT_BLESS=1` writes them anew.

use std::path::{Path, PathBuf};

use super::{Ending, Live, Paint};

fn envelope(type_name: &str, data: &str) -> String {
    format!(
        r#"{{"schema_version":"1","event_id":"evt_1","run_id":"run_1","sequence":3,"occurred_at":"2026-05-03T10:23:45.123Z","type":"{type_name}","data":{data}}}"#
    )
}

fn print(live: &mut Live, type_name: &str, data: &str) -> String {
    live.event(&envelope(type_name, data)).text
}

fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

#[test]
fn every_story_prints_its_transcript() {
    let bless = std::env::var_os("RECOUNT_BLESS").is_some();
    let mut stories: Vec<PathBuf> = std::fs::read_dir(folder("../../testdata/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    stories.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    stories.sort();
    assert!(stories.len() > 20, "{stories:?}");
    for story in stories {
        let mut live = Live::new(Paint(false));
        let mut text = String::new();
        for line in std::fs::read_to_string(&story).unwrap().lines() {
            let output = live.event(line);
            text.push_str(&output.text);
            if let Some(mut prompt) = output.prompt {
                text.push_str(&live.prompt(&mut prompt, None));
                text.push_str(&format!("{}\n{}\n", prompt.how(), prompt.elsewhere("")));
            }
            for patch in output.patches {
                text.push_str(&live.patch(&patch, b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n"));
            }
        }
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{}: {text:?}", story.display());
        let transcript = folder("tests/live").join(story.file_stem().unwrap()).with_extension("txt");
        if bless {
            std::fs::create_dir_all(transcript.parent().unwrap()).unwrap();
            std::fs::write(&transcript, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&transcript).unwrap_or_default();
        assert_eq!(text, expected, "{}", transcript.display());
    }
}

#[test]
fn missing_output_is_reported() {
    let call = r#""tool_call_id":"call_1","tool_name":"shell_exec""#;
    for (exited, ended, expected) in [
        (
            Some(
                r#""exit_code":0,"signal":null,"stdout_bytes":3,"stderr_bytes":0,"truncated":true,"left_open":["stdout"]"#,
            ),
            ("tool.completed", ""),
            "\n  stdout left open by another process\n",
        ),
        (
            Some(r#""exit_code":0,"signal":null,"stdout_bytes":3,"stderr_bytes":0,"truncated":true"#),
            ("tool.completed", ""),
            "\n  the output was truncated\n",
        ),
        (
            None,
            ("tool.cancelled", r#","output_incomplete":true"#),
            "\n  the end of the output may be missing\n",
        ),
    ] {
        let mut live = Live::new(Paint(false));
        print(&mut live, "tool.invoked", &format!("{{{call}}}"));
        if let Some(exited) = exited {
            print(&mut live, "tool.shell.exited", &format!(r#"{{"tool_call_id":"call_1",{exited}}}"#));
        }
        let (type_name, more) = ended;
        let text = print(&mut live, type_name, &format!("{{{call}{more}}}"));
        assert!(text.ends_with(expected), "{text:?}");
    }
}

#[test]
fn the_end_of_a_call_is_printed_once() {
    for (summary, expected) in [
        ("cancelled", "✗ cancelled shell_exec\n"),
        ("cancelled (may have taken effect)", "✗ cancelled shell_exec (may have taken effect)\n"),
        ("cancelled, 3 lines", "✗ cancelled shell_exec: cancelled, 3 lines\n"),
        ("", "✗ cancelled shell_exec\n"),
    ] {
        let mut live = Live::new(Paint(false));
        let ended = format!(r#"{{"tool_call_id":"c","tool_name":"shell_exec","summary":"{summary}"}}"#);
        assert_eq!(print(&mut live, "tool.cancelled", &ended), expected);
    }
}

#[test]
fn text_streams_as_it_comes_and_cannot_drive_the_terminal() {
    let mut live = Live::new(Paint(false));
    let mut delta = |block: u64, text: &str| {
        let delta = serde_json::Value::from(text);
        print(
            &mut live,
            "assistant.text_delta",
            &format!(r#"{{"turn_index":0,"block_index":{block},"delta":{delta}}}"#),
        )
    };
    assert_eq!(delta(0, "Hello "), "Hello ");
    assert_eq!(delta(0, "there\u{1b}[2J\r"), r"there\u{1b}[2J");
    assert_eq!(delta(0, "\nand on"), "\nand on");
    assert_eq!(delta(1, "Next"), "\nNext");
    let whole = r#"{"turn_index":0,"block_index":1,"text":"Next","aborted":true}"#;
    assert_eq!(print(&mut live, "assistant.text_complete", whole), "\n(the text was cut off here)\n");
    let whole = r#"{"turn_index":1,"block_index":0,"text":"At\nonce"}"#;
    assert_eq!(print(&mut live, "assistant.text_complete", whole), "At\nonce\n");
}

#[test]
fn colour_repeats_the_meaning_of_the_words() {
    let mut live = Live::new(Paint(true));
    let data = r#"{"tool_call_id":"c","tool_name":"grep","code":"blocked","message":"no"}"#;
    assert_eq!(print(&mut live, "tool.refused", data), "\u{1b}[31m✗ refused\u{1b}[0m grep (blocked): no\n");
    let patch = live.patch("art_1", b"@@ -1 +1 @@\n-a\n+b\x1b\n c\n");
    let expected = "    \u{1b}[2m@@ -1 +1 @@\u{1b}[0m\n    \u{1b}[31m-a\u{1b}[0m\n    \u{1b}[32m+b\\u{1b}\u{1b}[0m\n     c\n";
    assert_eq!(patch, expected);
    let long = "+line\n".repeat(100);
    let patch = Live::new(Paint(false)).patch("art_1", long.as_bytes());
    assert_eq!(patch.lines().last(), Some("    (40 more lines; to show all: recount artifact get art_1)"));
}

#[test]
fn the_ending_is_known_and_what_is_no_event_is_shown() {
    let mut live = Live::new(Paint(false));
    assert_eq!(live.event("{}\u{1b}").text, "not an event: {}\\u{1b}\n");
    assert_eq!(live.ending(), None);
    print(
        &mut live,
        "cost.tick",
        r#"{"cumulative_input_tokens":1,"cumulative_output_tokens":2,"cumulative_cost_micros_usd":3,"task_budget_micros_usd":10,"task_budget_remaining_micros_usd":7}"#,
    );
    let ending = print(
        &mut live,
        "run.failed",
        r#"{"code":"provider_failed","message":"no answer","retriable":true,"duration_ms":61000}"#,
    );
    assert_eq!(
        ending,
        "\n✗ failed: provider_failed: no answer; retry may succeed (1 min 1 s)\n\
         cost: 0.000003 USD, 1 token in, 2 tokens out, 0.000007 USD of 0.00001 USD remaining\n"
    );
    assert_eq!(live.ending(), Some(Ending::Failed));
}

/// A screen reader can search for what a line is about, and reads no id at its beginning.
#[test]
fn plain_lines_begin_with_what_they_are_about() {
    let call = r#""tool_call_id":"call_1","tool_name":"shell_exec""#;
    let mut live = Live::new(Paint(false)).plain(true);
    let mut text = String::new();
    for (type_name, data) in [
        ("run.queued", r#"{"kind":"agent_loop"}"#.to_owned()),
        ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"I look.\nThen "}"#.to_owned()),
        ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"I act."}"#.to_owned()),
        ("tool.invoked", format!(r#"{{{call},"args_summary":"ls"}}"#)),
        ("tool.completed", format!(r#"{{{call},"duration_ms":5}}"#)),
        ("approval.resolved", r#"{"approval_id":"appr_1","decision":"approved","by":"ana"}"#.to_owned()),
        ("assistant.text_complete", r#"{"turn_index":1,"block_index":0,"text":"Done."}"#.to_owned()),
        (
            "error.upstream",
            r#"{"provider":"demo","message":"no key","retriable":false,"attempt":1,"max_attempts":1}"#
                .to_owned(),
        ),
        ("run.failed", r#"{"code":"internal","message":"no key","retriable":false,"turns":1}"#.to_owned()),
    ] {
        text.push_str(&print(&mut live, type_name, &data));
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines,
        [
            "run: run_1, kind agent_loop",
            "agent: I look.",
            "Then I act.",
            "tool: call shell_exec  ls",
            "tool: done shell_exec in 5 ms",
            "permission: approved by ana",
            "agent: Done.",
            "error: demo failed (attempt 1 of 1): no key",
            "error: failed: internal (1 turn)",
        ]
    );
    let request = r#"{"approval_id":"appr_2","tool_call_id":"call_1","kind":"shell","summary":"ls","action":"Run `ls`.","preview":"ls"}"#;
    let mut prompt = live.event(&envelope("approval.requested", request)).prompt.unwrap();
    let first = live.prompt(&mut prompt, None);
    assert!(first.trim_start().starts_with("permission: Run `ls`."), "{first}");
}
