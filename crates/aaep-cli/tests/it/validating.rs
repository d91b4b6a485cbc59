//! Tests of `aaep validate`: output, exit status and memory use.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::aaep;
use crate::program::CommandOutput;
#[cfg(target_os = "linux")]
use crate::program::peak_mib;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/aaep/sessions").join(name)
}

fn validate(arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(aaep().args(["validate"]).args(arguments))
}

/// Validates standard input.
fn validate_input(input: &[u8], arguments: &[&str]) -> CommandOutput {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, input).unwrap();
    let input = std::fs::File::open(&file).unwrap();
    CommandOutput::of(aaep().args(["validate"]).args(arguments).stdin(input))
}

#[test]
fn the_exit_status_shows_whether_there_are_errors() {
    let (good, bad) = (corpus("good.confirmed.jsonl"), corpus("bad.appendix8.4.jsonl"));
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    assert_eq!(validate(&[good]).good(), "9 events in 1 file: no errors, no warnings\n");
    let output = validate(&[good, bad, good]);
    assert_eq!((output.status, output.words.as_str()), (1, ""), "{output:?}");
    let lines: Vec<&str> = output.data.lines().collect();
    assert!(lines[0].starts_with(&format!("{bad}:3: error tool.unconfirmed: ")), "{output:?}");
    assert!(lines[0].contains("Send `awaiting.confirmation` and wait for `accept`"), "{output:?}");
    assert!(lines.last().unwrap().contains(" in 3 files: 1 error, 1 warning"), "{output:?}");
    // Each of its events is valid by itself.
    assert!(validate(&["--events", bad]).good().contains(": no errors, no warnings"));
}

#[test]
fn profiles_and_denied_warnings_change_the_verdict() {
    let session = std::fs::read_to_string(corpus("good.output.jsonl")).unwrap();
    let without = session.replace("\"localization_hints\":{\"primary_language\":\"en\"},", "");
    let strict = validate_input(without.as_bytes(), &[]);
    assert_eq!(strict.status, 1, "strict is the default: {strict:?}");
    assert!(strict.data.contains("-:1: error localization.missing: "), "{strict:?}");
    assert!(strict.data.contains("not counted as errors with --profile compat"), "{strict:?}");
    let compat = validate_input(without.as_bytes(), &["-", "--profile", "compat"]).good();
    assert!(compat.contains("-:1: warning localization.missing: "), "{compat}");
    let denied = validate_input(without.as_bytes(), &["--profile", "compat", "--deny-warnings"]);
    assert_eq!((denied.status, denied.data), (1, compat));
    validate(&["--profile", "lax"]).bad(2, "possible values: strict, compat");
}

#[test]
fn unreadable_or_empty_files_exit_with_2_and_others_are_reported() {
    let (folder, bad) = (tempfile::tempdir().unwrap(), corpus("bad.appendix8.4.jsonl"));
    let (folder, bad) = (folder.path().to_str().unwrap(), bad.to_str().unwrap());
    let missing = format!("{folder}/missing.jsonl");
    validate(&[&missing]).bad(2, &format!("aaep: {missing}: cannot be read: No such file"));
    validate(&[folder]).bad(2, &format!("{folder}: cannot be read: Is a directory"));
    validate(&[]).bad(2, "-: empty");
    validate_input(b"\r\n \n", &[]).bad(2, "-: empty");
    let output = validate(&[&missing, folder, bad]);
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.words.contains("missing.jsonl: cannot be read: No such file"), "{output:?}");
    assert!(output.words.contains("(and one more file)"), "{output:?}");
    assert!(output.data.contains(":3: error tool.unconfirmed: "), "{output:?}");
    assert!(output.data.ends_with("1 error, 1 warning, 2 without a verdict\n"), "{output:?}");
}

#[test]
fn json_is_one_line_and_both_options_for_it_are_equal() {
    let bad = corpus("bad.appendix8.4.jsonl");
    let bad = bad.to_str().unwrap();
    let output = validate(&["--format", "json", bad]);
    assert_eq!((output.status, output.data.lines().count()), (1, 1), "{output:?}");
    assert_eq!(validate(&["--json", bad]).data, output.data);
    assert!(validate(&["--json", "--format", "text", bad]).data.starts_with(&format!("{bad}:3: ")));
    let value: Value = serde_json::from_str(&output.data).unwrap();
    assert_eq!(value["files"][0]["path"], bad);
    assert_eq!(value["files"][0]["findings"][0]["rule"], "tool.unconfirmed");
    assert_eq!((&value["summary"]["errors"], &value["summary"]["warnings"]), (&1.into(), &1.into()));
    let value: Value = serde_json::from_str(&validate(&["--json", "/"]).data).unwrap();
    assert!(value["files"][0]["unusable"].as_str().unwrap().contains("Is a directory"), "{value}");
}

#[test]
fn control_characters_in_a_file_are_escaped() {
    let output =
        validate_input("{\"type\":\"a\",\"b\u{9b}2J\u{202e}\":1,\"b\u{9b}2J\u{202e}\":1}\n".as_bytes(), &[]);
    assert_eq!(output.status, 1);
    assert!(output.data.contains(r"the key `b\u{9b}2J\u{202e}` appears twice"), "{output:?}");
    assert!(!output.data.contains('\u{9b}'), "{output:?}");
}

#[test]
fn a_closed_output_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.jsonl");
    // More findings than a pipe holds.
    std::fs::write(&file, "7\n".repeat(100_000)).unwrap();
    for format in ["text", "json"] {
        let mut command = aaep();
        command.args(["validate", "--format", format]).arg(&file);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut few = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut few).unwrap();
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!((child.wait().unwrap().code(), words.as_str()), (Some(0), ""));
    }
}

/// Collected findings, or sessions that are never dropped, would need twice the allowed memory.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_findings_or_sessions() {
    const LINES: usize = 300_000;
    const MIB_MAX: u64 = 64;
    for format in ["text", "json"] {
        let mut command = aaep();
        command.args(["validate", "--format", format, "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let byte_count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counter = std::sync::Arc::clone(&byte_count);
        let reader = recount_world::thread("findings", move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                counter.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let mut input = std::io::BufWriter::new(child.stdin.take().unwrap());
        for line in 0..LINES {
            if line % 16 > 0 {
                input.write_all(b"[\"no object\"]\n").unwrap();
                continue;
            }
            // Sessions that never end.
            let context = "https://aaep-protocol.org/context/v1";
            writeln!(
                input,
                "{{\"@context\":\"{context}\",\"type\":\"aaep:agent.session.started\",\"event_id\":\"evt_{line}\",\
                 \"session_id\":\"sess_{line}\",\"timestamp\":\"2026-05-24T14:22:01.000Z\",\
                 \"producer\":{{\"agent_id\":\"planner\"}},\"summary_normal\":\"Starting.\"}}"
            )
            .unwrap();
        }
        input.flush().unwrap();
        let peak = peak_mib(child.id());
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(1));
        reader.join().unwrap();
        let bytes = byte_count.load(std::sync::atomic::Ordering::Relaxed);
        assert!(bytes > 100 * LINES as u64, "{bytes} bytes of findings");
        assert!(peak < MIB_MAX, "{peak} MiB as {format}");
    }
}

#[test]
fn a_single_valid_event_passes_event_rules_only() {
    let session = std::fs::read_to_string(corpus("good.confirmed.jsonl")).unwrap();
    let event = session.lines().nth(6).unwrap();
    let output = validate_input(event.as_bytes(), &["-"]);
    assert_eq!(output.status, 1, "{output:?}");
    assert!(output.data.lines().last().unwrap().contains("--events"), "{output:?}");
    assert!(!validate_input(event.as_bytes(), &["-", "--events"]).good().contains("hint"));
    // An invalid event gets no hint about session rules.
    let wrong = event.replace("evt_", "event-");
    assert!(!validate_input(wrong.as_bytes(), &["-"]).data.contains("hint"));
}
