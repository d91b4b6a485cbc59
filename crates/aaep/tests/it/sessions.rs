//! Tests of session rules with the corpus in `testdata/aaep/sessions`: valid sessions, and invalid ones that differ
//! from a valid one in one detail, including all invalid sequences of Appendix A.8. `sessions.json` has the expected
//! findings.

use std::collections::BTreeSet;

use recount_aaep::json::Splitter;
use recount_aaep::rule::{Finding, Profile, Severity};
use recount_aaep::session::{Checker, Options};

use crate::corpus::{Entry, ids, manifest, read, testdata};

fn checked(text: &str, profile: Profile) -> Vec<Finding> {
    let mut checker = Checker::new(Options { profile, ..Options::default() });
    let mut splitter = Splitter::new();
    let mut take = |piece: recount_aaep::json::Piece<'_>| {
        checker.piece(piece);
    };
    splitter.push(text.as_bytes(), &mut take);
    splitter.finish(&mut take);
    checker.finish();
    checker.take()
}

#[test]
fn every_session_of_the_corpus_gets_its_verdict() {
    let mut wrong = Vec::new();
    for entry in manifest("sessions.json") {
        let text = read(&format!("sessions/{}", entry.file));
        let strict = checked(&text, Profile::Strict);
        let found = ids(&strict, Severity::Warning);
        if found != entry.strict {
            wrong.push(format!("{}: strict found {found:?}, not {:?}", entry.file, entry.strict));
        }
        let errors = ids(&checked(&text, Profile::Compat), Severity::Error);
        if errors.is_empty() != (entry.compat == "pass") {
            wrong.push(format!("{}: compat found {errors:?}, not {}", entry.file, entry.compat));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_invalid_session_of_the_corpus_differs_little_from_a_valid_one() {
    let entries = manifest("sessions.json");
    assert!(entries.len() >= 80);
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.file.as_str()).collect();
    for entry in entries.iter().filter(|entry| entry.file.starts_with("bad.")) {
        assert!(!entry.strict.is_empty(), "{} breaks no rule", entry.file);
        let like = entry.like.as_deref().unwrap();
        assert!(like.starts_with("good.") && names.contains(like), "{}", entry.file);
    }
    for file in std::fs::read_dir(testdata("sessions")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(name.as_str()), "{name} is not in sessions.json");
    }
}

#[test]
fn all_invalid_sequences_of_the_appendix_are_errors_in_both_profiles() {
    let entries = manifest("sessions.json");
    let printed: Vec<&Entry> =
        entries.iter().filter(|entry| entry.file.starts_with("bad.appendix8.")).collect();
    assert_eq!(printed.len(), 7);
    let meant = [
        ("1", "tool.not_invoked"),
        ("2", "session.end_once"),
        ("3", "session.after_end"),
        ("4", "tool.unconfirmed"),
        ("5", "tool.after_reject"),
        ("6", "stream.after_complete"),
        ("7", "stream.position_falls"),
    ];
    for (number, rule) in meant {
        let text =
            std::fs::read_to_string(testdata("sessions").join(format!("bad.appendix8.{number}.jsonl")))
                .unwrap();
        for profile in [Profile::Strict, Profile::Compat] {
            assert!(ids(&checked(&text, profile), Severity::Error).contains(&rule), "A.8.{number}: {rule}");
        }
    }
}

#[test]
fn the_session_of_chapter_4_passes_both_profiles() {
    let text = std::fs::read_to_string(testdata("sessions/good.chapter46.jsonl")).unwrap();
    for profile in [Profile::Strict, Profile::Compat] {
        assert_eq!(ids(&checked(&text, profile), Severity::Error), Vec::<&str>::new());
    }
}

#[test]
fn full_type_names_change_no_verdict() {
    for entry in manifest("sessions.json") {
        let text = read(&format!("sessions/{}", entry.file));
        let full =
            text.replace("\"type\":\"aaep:agent.", "\"type\":\"https://aaep-protocol.org/types/agent.");
        assert_eq!(ids(&checked(&full, Profile::Strict), Severity::Warning), entry.strict, "{}", entry.file);
    }
}

#[test]
fn interleaved_sessions_are_checked_separately() {
    let entries = manifest("sessions.json");
    // Sessions without replies, handshakes and ids of their own: only events of other sessions are between their
    // events.
    let alone = |entry: &&Entry| {
        let text = read(&format!("sessions/{}", entry.file));
        !text.contains("subscription")
            && !text.contains("rpl_")
            && !entry.file.contains("reused")
            && !entry.file.contains("twice")
            && !text.contains("message.type")
            && !entry.file.contains("control")
            && !entry.file.contains("user_input")
    };
    let mut tracks: Vec<Vec<String>> = Vec::new();
    let mut expected = BTreeSet::new();
    for (at, entry) in entries.iter().filter(alone).enumerate() {
        let text = read(&format!("sessions/{}", entry.file));
        let own =
            text.replace("\"evt_", &format!("\"evt_{at}x")).replace("\"sess_", &format!("\"sess_{at}x"));
        tracks.push(own.lines().rev().map(str::to_owned).collect());
        expected.extend(entry.strict.iter().cloned());
    }
    assert!(tracks.len() > 40);
    let mut mixed = String::new();
    while tracks.iter().any(|track| !track.is_empty()) {
        for line in tracks.iter_mut().filter_map(Vec::pop) {
            mixed.push_str(&line);
            mixed.push('\n');
        }
    }
    let found: BTreeSet<String> =
        ids(&checked(&mixed, Profile::Strict), Severity::Warning).into_iter().map(str::to_owned).collect();
    assert_eq!(found, expected);
}

/// A rule that no file of the corpus breaks might not be checked at all.
#[test]
fn every_rule_is_broken_somewhere_in_the_corpus() {
    #[derive(serde::Deserialize)]
    struct Other {
        strict: Vec<String>,
    }
    let events: Vec<Other> =
        serde_json::from_str(&std::fs::read_to_string(testdata("events.json")).unwrap()).unwrap();
    let sessions = manifest("sessions.json").into_iter().map(|entry| entry.strict);
    let broken: BTreeSet<String> =
        events.into_iter().map(|entry| entry.strict).chain(sessions).flatten().collect();
    let untested: Vec<&str> = recount_aaep::rule::ALL
        .iter()
        .filter(|rule| rule.strict >= Some(Severity::Warning) && !broken.contains(rule.id))
        .map(|rule| rule.id)
        .collect();
    // Other tests cover these: invalid UTF-8, and sessions beyond the limits.
    assert_eq!(untested, ["json.encoding", "limit.sessions", "limit.session"]);
}

/// R-084: a prompt of two minutes needs a countdown at its half and near its end; each missing one is noted.
#[test]
fn a_prompt_without_a_countdown_is_noted() {
    let whole = std::fs::read_to_string(testdata("sessions").join("good.countdown.jsonl")).unwrap();
    let noted = |text: &str, profile| ids(&checked(text, profile), Severity::Note);
    assert_eq!(noted(&whole, Profile::Strict), [""; 0]);
    for reminder in ["One minute is left.", "Twelve seconds are left."] {
        let silent: String =
            whole.lines().filter(|line| !line.contains(reminder)).map(|line| format!("{line}\n")).collect();
        assert_eq!(noted(&silent, Profile::Strict), ["prompt.countdown"], "without `{reminder}`");
        assert_eq!(noted(&silent, Profile::Compat), [""; 0]);
    }
    // An early reply needs no countdown, nor does a prompt of a minute.
    let lines: Vec<&str> = whole.lines().filter(|line| !line.contains("left")).collect();
    let reply = r#"{"type":"confirmation.reply","reply_token":"rpl_1","decision":"reject","subscription_id":"sub_1","timestamp":"2026-05-24T14:22:40.000Z"}"#;
    let answered = [&lines[..3], &[reply], &lines[3..]].concat().join("\n");
    assert_eq!(noted(&answered, Profile::Strict), [""; 0]);
    let short = lines.join("\n").replace("\"timeout_seconds\":120", "\"timeout_seconds\":60");
    assert_eq!(noted(&short, Profile::Strict), [""; 0]);
}
