//! Validation reports: of good files, of the whole corpus, and of every kind of broken text.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

use std::convert::Infallible;
use std::io::Read;
use std::path::{Path, PathBuf};

use recount_aaep_kit::World;
use recount_aaep_kit::aaep::rule::{Finding, Profile, Severity};
use recount_aaep_kit::validate::{
    FindingReport, JsonReport, Tally, TextReport, Total, Unusable, Validation, Verdict,
};
use serde_json::Value;

/// Stores the findings.
#[derive(Default)]
struct FindingStore<'k> {
    findings: Option<&'k mut Vec<Finding>>,
}

impl FindingReport for FindingStore<'_> {
    type Error = Infallible;

    fn begin(&mut self, _: &str) -> Result<(), Infallible> {
        Ok(())
    }

    fn finding(&mut self, _: &str, finding: &Finding) -> Result<(), Infallible> {
        self.findings.as_mut().unwrap().push(finding.clone());
        Ok(())
    }

    fn end(&mut self, _: &str, _: &Tally, _: Option<&Unusable>) -> Result<(), Infallible> {
        Ok(())
    }

    fn close(&mut self, _: &Total, _: Profile) -> Result<(), Infallible> {
        Ok(())
    }
}

fn world() -> World {
    World::seeded(7, 0)
}

fn validated(bytes: &[u8], profile: Profile, events_only: bool) -> (Vec<Finding>, Total) {
    let mut findings = Vec::new();
    let store = FindingStore { findings: Some(&mut findings) };
    let mut validation = Validation::new(&world(), profile, events_only, store);
    validation.input("a file", Ok(bytes)).unwrap();
    let total = validation.finish().unwrap();
    (findings, total)
}

/// Lines and rules of findings above a note.
fn found(bytes: &[u8]) -> Vec<(usize, &'static str)> {
    let (findings, _) = validated(bytes, Profile::Strict, true);
    findings
        .iter()
        .filter(|finding| finding.severity > Severity::Note)
        .map(|finding| (finding.line, finding.rule.id))
        .collect()
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/aaep").join(name)
}

fn session(name: &str) -> String {
    std::fs::read_to_string(testdata("sessions").join(name)).unwrap()
}

/// A good event of one line.
fn event() -> String {
    session("good.confirmed.jsonl").lines().next().unwrap().to_owned()
}

/// The case, the file, and the lines and rules of its expected findings.
type Case = (&'static str, Vec<u8>, Vec<(usize, &'static str)>);

// R-022, R-025: text that readers parse differently is reported with its line, and the text around it is still read.
#[test]
fn everything_that_can_be_wrong_with_a_text_is_found_at_its_line() {
    let good = event();
    let with = |broken: &str| format!("{good}\n{broken}\n{good}\n").into_bytes();
    let with_field = |extra: &str| good.replacen('{', &format!("{{{extra},"), 1);
    let cases: Vec<Case> = vec![
        ("nothing wrong", with(&good), vec![]),
        (
            "a key twice",
            with(&with_field(r#""urgency":"normal","urgency":"critical""#)),
            vec![(2, "json.duplicate_key")],
        ),
        ("NaN", with(&with_field(r#""eta_ms":NaN"#)), vec![(2, "json.number")]),
        ("Infinity", with(&with_field(r#""eta_ms":-Infinity"#)), vec![(2, "json.number")]),
        ("a leading zero", with(&with_field(r#""eta_ms":01"#)), vec![(2, "json.number")]),
        ("half a character", with(&with_field(r#""summary_terse":"\ud83d""#)), vec![(2, "json.surrogate")]),
        ("the other half", with(&with_field(r#""summary_terse":"\udc69x""#)), vec![(2, "json.surrogate")]),
        ("cut off in a string", with(&good[..good.len() / 2]), vec![(2, "json.truncated")]),
        ("cut off before its brace", with(&good[..good.len() - 1]), vec![(2, "json.truncated")]),
        ("two on one line", with(&format!("{good}{good}")), vec![(2, "json.syntax")]),
        ("a trailing comma", with(&good.replacen('{', "{\"eta_ms\":[1,],", 1)), vec![(2, "json.syntax")]),
        ("a comment", with(&format!("// {good}")), vec![(2, "json.syntax")]),
        ("single quotes", with("{'type':1}"), vec![(2, "json.syntax")]),
        ("a number", with("17"), vec![(2, "json.object")]),
        ("no object", with("[]"), vec![(2, "json.object")]),
        ("too deep", with(&format!("{}{}", "[".repeat(200), "]".repeat(200))), vec![(2, "json.depth")]),
        ("nothing of ours", with(r#"{"type":"ack"}"#), vec![(2, "message.type")]),
        ("a mark before all", format!("\u{feff}{good}\n").into_bytes(), vec![(1, "json.bom")]),
        ("a mark in the middle", with(&format!("\u{feff}{good}")), vec![(2, "json.bom")]),
        ("Windows line ends", format!("{good}\r\n17\r\n").into_bytes(), vec![(2, "json.object")]),
        ("blank lines", format!("\n  \n{good}\n\r\n\n17\n\n").into_bytes(), vec![(6, "json.object")]),
        ("no last line end", format!("{good}\n17").into_bytes(), vec![(2, "json.object")]),
        (
            "UTF-16",
            "{\"type\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect(),
            vec![(1, "json.syntax")],
        ),
        (
            "not UTF-8",
            [good.as_bytes(), b"\n\"\xff\"\n", good.as_bytes()].concat(),
            vec![(2, "json.encoding")],
        ),
        ("a zero byte", [good.as_bytes(), b"\n\0\n"].concat(), vec![(2, "json.syntax")]),
    ];
    for (what, bytes, expected) in cases {
        assert_eq!(found(&bytes), expected, "{what}");
    }
}

#[test]
fn json_lines_one_json_and_arrays_give_the_same_with_lines_of_their_own() {
    let good = event();
    let bad = good.replacen('{', "{\"urgency\":\"loud\",", 1);
    let rules = |bytes: &[u8]| found(bytes);
    let lines = rules(format!("{good}\n{bad}\n").as_bytes());
    assert_eq!(lines.len(), 1, "{lines:?}");
    let rule = lines[0].1;
    assert_eq!(lines, [(2, rule)]);
    let value: Value = serde_json::from_str(&bad).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    let at = pretty.lines().position(|line| line.contains("loud")).unwrap() + 1;
    assert_eq!(
        rules(pretty.as_bytes()),
        [(at, rule)],
        "one JSON: the line of the value, not of the beginning"
    );
    assert_eq!(rules(format!("[{good},\n{good},\n{bad}]").as_bytes()), [(3, rule)]);
    let array = serde_json::to_string_pretty(&[&value, &value]).unwrap();
    let at: Vec<usize> =
        array.lines().enumerate().filter(|(_, line)| line.contains("loud")).map(|(at, _)| at + 1).collect();
    assert_eq!(rules(array.as_bytes()), at.iter().map(|at| (*at, rule)).collect::<Vec<_>>());
    assert_eq!(
        rules(format!("[{good},{good}").as_bytes()),
        [(1, "json.truncated")],
        "an array without its end"
    );
}

#[test]
fn the_corpus_gets_its_verdicts() {
    let list = |name: &str| -> Vec<Value> {
        serde_json::from_str(&std::fs::read_to_string(testdata(name)).unwrap()).unwrap()
    };
    let mut seen = 0;
    for (entry, folder, events_only) in list("sessions.json")
        .iter()
        .map(|entry| (entry, "sessions", false))
        .chain(list("events.json").iter().map(|entry| (entry, "events", true)))
    {
        let file = entry["file"].as_str().unwrap();
        let bytes = std::fs::read(testdata(folder).join(file)).unwrap();
        let strict = entry["strict"].as_array().unwrap();
        let (findings, total) = validated(&bytes, Profile::Strict, events_only);
        assert_eq!(total.verdict(true) == Verdict::Good, strict.is_empty(), "{file}: {findings:?}");
        let (_, total) = validated(&bytes, Profile::Compat, events_only);
        assert_eq!(total.verdict(false) == Verdict::Good, entry["compat"] == "pass", "{file}");
        seen += 1;
    }
    assert!(seen > 230, "{seen}");
}

#[test]
fn session_rules_apply_unless_only_events_are_checked() {
    let bytes = session("good.confirmed.jsonl").lines().skip(1).collect::<Vec<_>>().join("\n");
    let (findings, total) = validated(bytes.as_bytes(), Profile::Strict, false);
    assert_eq!(findings[0].rule.id, "session.start_first");
    assert_eq!(total.verdict(false), Verdict::Bad);
    let (findings, total) = validated(bytes.as_bytes(), Profile::Strict, true);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(total.verdict(true), Verdict::Good);
}

// R-202
#[test]
fn an_event_of_an_extension_needs_the_whole_envelope() {
    let event = std::fs::read_to_string(testdata("events/good.extension.event.json")).unwrap();
    assert_eq!(found(event.as_bytes()), []);
    let whole: Value = serde_json::from_str(&event).unwrap();
    for field in ["@context", "event_id", "session_id", "timestamp", "producer"] {
        let mut less = whole.clone();
        less.as_object_mut().unwrap().remove(field).unwrap();
        let rules: Vec<&str> = found(less.to_string().as_bytes()).iter().map(|(_, rule)| *rule).collect();
        assert!(rules.contains(&"envelope.required"), "without {field}: {rules:?}");
    }
}

#[test]
fn inputs_are_independent() {
    let bytes = session("good.output.jsonl");
    let mut findings = Vec::new();
    let store = FindingStore { findings: Some(&mut findings) };
    let mut validation = Validation::new(&world(), Profile::Strict, false, store);
    validation.input("one", Ok(bytes.as_bytes())).unwrap();
    validation.input("two", Ok(bytes.as_bytes())).unwrap();
    let total = validation.finish().unwrap();
    assert_eq!((total.files, total.verdict(true)), (2, Verdict::Good));
    assert!(findings.is_empty(), "{findings:?}");
}

/// Returns some bytes, then fails.
struct FailingReader<'b>(&'b [u8]);

impl Read for FailingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer) {
            Ok(0) => Err(std::io::Error::other("the disk was removed")),
            read => read,
        }
    }
}

#[test]
fn empty_and_unreadable_inputs_have_no_verdict() {
    for nothing in ["", "\n \r\n\t\n", "[]", "[ ]\n"] {
        let (_, total) = validated(nothing.as_bytes(), Profile::Strict, false);
        assert_eq!(total.verdict(false), Verdict::Unusable, "{nothing:?}");
        assert!(total.first_unusable.unwrap().starts_with("a file: empty"), "{nothing:?}");
    }
    let text = session("good.output.jsonl");
    let mut findings = Vec::new();
    let mut validation =
        Validation::new(&world(), Profile::Strict, false, FindingStore { findings: Some(&mut findings) });
    validation.input("broken", Ok(FailingReader(text.as_bytes()))).unwrap();
    validation.input("missing", Err::<&[u8], _>(std::io::Error::other("file not found"))).unwrap();
    validation.input("good", Ok(text.as_bytes())).unwrap();
    let total = validation.finish().unwrap();
    assert_eq!((total.files, total.unusable, total.verdict(false)), (3, 2, Verdict::Unusable));
    assert_eq!(total.tally.events, 2 * text.lines().count() as u64, "what could be read counts");
    assert_eq!(total.first_unusable.as_deref(), Some("broken: cannot be read: the disk was removed"));
    assert!(findings.is_empty(), "a truncated file has no findings on open sessions: {findings:?}");
}

fn in_json(files: &[(&str, &[u8])], profile: Profile) -> Value {
    let mut text = String::new();
    let report = JsonReport::new(|part: &str| {
        text.push_str(part);
        Ok::<(), Infallible>(())
    });
    let mut validation = Validation::new(&world(), profile, false, report);
    for (path, bytes) in files {
        validation.input(path, Ok(*bytes)).unwrap();
    }
    validation.finish().unwrap();
    assert!(!text.contains('\n'), "it is one line");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn json_is_one_object_with_the_files_their_findings_and_a_summary() {
    let good = session("good.output.jsonl");
    let count = good.lines().count();
    let bad = format!("{good}17\n{{\"type\":\"confirmation.reply\"}}\n");
    let report = in_json(
        &[("a \"b\".jsonl", good.as_bytes()), ("bad", bad.as_bytes()), ("none", b"")],
        Profile::Strict,
    );
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.len(), 3);
    assert_eq!(files[0], serde_json::json!({ "path": "a \"b\".jsonl", "events": count, "findings": [] }));
    assert_eq!((&files[1]["path"], &files[1]["events"]), (&Value::from("bad"), &Value::from(count)));
    let findings = files[1]["findings"].as_array().unwrap();
    let keys: Vec<&String> = findings[0].as_object().unwrap().keys().collect();
    let mut expected_fields = vec!["line", "event_id", "rule", "severity", "source", "message"];
    expected_fields.sort_unstable();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected_fields);
    assert_eq!(
        (&findings[0]["line"], &findings[0]["event_id"], &findings[0]["rule"], &findings[0]["severity"]),
        (&Value::from(count + 1), &Value::Null, &Value::from("json.object"), &Value::from("error"))
    );
    assert!(findings.len() > 2, "the reply breaks rules of its own: {findings:?}");
    assert!(files[2]["unusable"].as_str().unwrap().starts_with("empty"), "{}", files[2]);
    let errors = findings.iter().filter(|finding| finding["severity"] == "error").count();
    let warnings = findings.iter().filter(|finding| finding["severity"] == "warning").count();
    assert_eq!(
        report["summary"],
        serde_json::json!({ "events": 2 * count, "errors": errors, "warnings": warnings })
    );
    assert_eq!(
        in_json(&[], Profile::Strict),
        serde_json::json!({ "files": [], "summary": { "events": 0, "errors": 0, "warnings": 0 } })
    );
}

#[test]
fn text_has_file_line_severity_rule_and_remedy() {
    let mut lines = Vec::new();
    let report = TextReport::new(|line: &str| {
        lines.push(line.to_owned());
        Ok::<(), Infallible>(())
    });
    let mut validation = Validation::new(&world(), Profile::Strict, true, report);
    let without_hints = event().replacen("\"localization_hints\":{\"primary_language\":\"en\"},", "", 1);
    assert_ne!(without_hints, event());
    validation.input("some/file.jsonl", Ok(format!("{without_hints}\n17\n").as_bytes())).unwrap();
    validation.finish().unwrap();
    let id = serde_json::from_str::<Value>(&event()).unwrap()["event_id"].as_str().unwrap().to_owned();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("some/file.jsonl:1: error localization.missing: "), "{}", lines[0]);
    assert!(lines[0].ends_with(&format!(" [{id}]")), "{}", lines[0]);
    assert!(
        lines[1].starts_with("some/file.jsonl:2: error json.object: a number where an object is expected. ")
    );
    assert_eq!(
        lines[2],
        "1 event in 1 file: 2 errors, no warnings; 1 not counted as errors with --profile compat"
    );
}

#[test]
fn validation_stops_when_the_report_fails() {
    struct CountedReads<'c>(&'c mut u64);
    impl Read for CountedReads<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            *self.0 += 1;
            assert!(*self.0 < 100, "it is read without end");
            buffer.fill(b'\n');
            buffer[0] = b'7';
            Ok(buffer.len())
        }
    }
    let mut reads = 0;
    let mut lines = 0;
    let report = TextReport::new(|_: &str| {
        lines += 1;
        if lines < 3 { Ok(()) } else { Err("closed") }
    });
    let mut validation = Validation::new(&world(), Profile::Strict, false, report);
    assert_eq!(validation.input("endless", Ok(CountedReads(&mut reads))), Err("closed"));
    assert_eq!((reads, lines), (3, 3));
}
