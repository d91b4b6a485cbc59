//! Traces of the corpus in `testdata/aaep/sessions`: complete traces of some sessions (`testdata/aaep/traces`), and
//! every violation in all three formats. `RECOUNT_BLESS=1` writes the traces.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

use std::path::{Path, PathBuf};

use recount_aaep_kit::aaep::json::Splitter;
use recount_aaep_kit::aaep::rule::Finding;
use recount_aaep_kit::aaep::session::{Checker, Options as CheckerOptions};
use recount_aaep_kit::trace::{self, Format, Options, Totals};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/aaep").join(name)
}

fn traced(file: &[u8], format: Format, options: &Options<'_>) -> (String, Totals) {
    let mut out = Vec::new();
    let totals = trace::write(file, format, &mut out, options).unwrap();
    (String::from_utf8(out).unwrap(), totals)
}

fn named(name: &str) -> Options<'_> {
    Options { name, ..Options::default() }
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(testdata("sessions"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(files.len() >= 80);
    files
}

fn checked(file: &[u8]) -> Vec<Finding> {
    let mut checker = Checker::new(CheckerOptions::default());
    let mut splitter = Splitter::new();
    let mut take = |piece: recount_aaep_kit::aaep::json::Piece<'_>| {
        checker.piece(piece);
    };
    splitter.push(file, &mut take);
    splitter.finish(&mut take);
    checker.finish();
    checker.take()
}

/// Sessions with stored traces: good and bad, with calls, prompts, outputs, several producers and several sessions.
const STORED: &[&str] = &[
    "good.confirmed",
    "good.clarified",
    "good.unrecorded",
    "good.default_rejects",
    "good.two_agents",
    "good.two_sessions",
    "good.tools_at_once",
    "good.handshake",
    "good.errored",
    "bad.appendix8.5",
    "bad.confirmed.rejected",
    "bad.minimal.no_end",
    "bad.output.no_last_piece",
    "bad.unrecorded.rejected_behind_the_change",
];

#[test]
fn traces_match_the_stored_ones() {
    let mut wrong = Vec::new();
    // The last one is shown in docs/: two sessions, two languages, with and without violations.
    for (folder, name) in STORED.iter().map(|name| ("sessions", *name)).chain([("traces", "trip")]) {
        let file = format!("{name}.jsonl");
        let (text, _) =
            traced(&std::fs::read(testdata(folder).join(&file)).unwrap(), Format::Text, &named(&file));
        let kept = testdata("traces").join(format!("{name}.txt"));
        if std::env::var_os("RECOUNT_BLESS").is_some() {
            std::fs::create_dir_all(testdata("traces")).unwrap();
            std::fs::write(&kept, &text).unwrap();
        }
        if std::fs::read_to_string(&kept).unwrap_or_default() != text {
            wrong.push(format!("{}:\n{text}", kept.display()));
        }
    }
    assert!(wrong.is_empty(), "these accounts have changed:\n{}", wrong.join("\n"));
}

/// The lines of a text trace as (line of the file, rules reported right after it).
fn rules_after_lines(text: &str) -> Vec<(usize, String)> {
    let mut line = 0;
    let mut rules = Vec::new();
    let body =
        text.lines().skip_while(|line| !line.starts_with("Session 1 ") && *line != "Lines of no session");
    for row in body {
        if let Some(rest) = row.strip_prefix("Line ") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            line = digits.parse().unwrap();
        }
        for severity in ["  Error ", "  Warning ", "  Note "] {
            if let Some(rest) = row.strip_prefix(severity) {
                rules.push((line, rest.split(':').next().unwrap().to_owned()));
            }
        }
    }
    rules
}

#[test]
fn every_violation_of_the_corpus_is_pointed_at_in_all_three_forms() {
    let mut bad = 0;
    for (name, file) in corpus() {
        let found = checked(&file);
        bad += usize::from(name.starts_with("bad."));
        let (text, totals) = traced(&file, Format::Text, &named(&name));
        assert_eq!(totals.errors + totals.warnings + totals.notes, found.len() as u64, "{name}");
        let mut meant: Vec<(usize, String)> =
            found.iter().map(|finding| (finding.line, finding.rule.id.to_owned())).collect();
        let mut shown = rules_after_lines(&text);
        meant.sort();
        shown.sort();
        assert_eq!(shown, meant, "{name}: right after its line, in the text");
        for finding in &found {
            assert!(text.contains(finding.rule.remedy), "{name}: what to do about {}", finding.rule.id);
        }

        let (json, _) = traced(&file, Format::Json, &named(&name));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let findings = json["findings"].as_array().unwrap();
        assert_eq!(findings.len(), found.len(), "{name}");
        for (shown, finding) in findings.iter().zip(&found) {
            assert_eq!(shown["line"], finding.line, "{name}");
            assert_eq!(shown["rule"], finding.rule.id, "{name}");
            assert_eq!(shown["severity"], finding.severity.name(), "{name}");
            assert_eq!(shown["remedy"], finding.rule.remedy, "{name}");
        }
        let whole = json["sessions"].as_array().unwrap().iter();
        let entries = whole.clone().flat_map(|session| session["entries"].as_array().unwrap());
        let numbers = entries
            .chain(json["outside"].as_array().unwrap())
            .chain(whole)
            .flat_map(|place| place["findings"].as_array().unwrap())
            .map(|number| number.as_u64().unwrap())
            .collect::<std::collections::BTreeSet<_>>();
        assert_eq!(numbers, (1..=found.len() as u64).collect(), "{name}: each finding has its place");

        let (html, _) = traced(&file, Format::Html, &named(&name));
        for (finding, number) in found.iter().zip(1..) {
            let place = html.split(&format!("id=\"p{number}\"")).nth(1).unwrap_or_else(|| {
                panic!("{name}: problem {number} has no place in the page");
            });
            let place = place.split("</div>").next().unwrap();
            assert!(place.contains(&format!("<code>{}</code>", finding.rule.id)), "{name}: {place}");
            assert!(place.contains(&format!("href=\"#o{number}\"")), "{name}: back to the list");
            assert!(html.contains(&format!("id=\"o{number}\"")), "{name}: in the list");
            assert!(html.contains(&format!("href=\"#p{number}\"")), "{name}: from the list");
        }
    }
    assert!(bad >= 80);
}
