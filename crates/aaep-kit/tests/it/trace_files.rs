//! Traces of unusual files: hostile, empty, broken, truncated, long; and live traces.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

use std::path::Path;

use base64::Engine as _;
use recount_aaep_kit::aaep::json::Splitter;
use recount_aaep_kit::aaep::rule::Profile;
use recount_aaep_kit::aaep::session::{Checker, Options as CheckerOptions};
use recount_aaep_kit::limits;
use recount_aaep_kit::trace::{self, Format, Live, Options, Totals, TraceError};
use serde_json::{Value, json};
use sha2::Digest as _;

fn traced(file: &[u8], format: Format) -> (String, Totals) {
    let options = Options { name: "a.jsonl", ..Options::default() };
    let mut out = Vec::new();
    let totals = trace::write(file, format, &mut out, &options).unwrap();
    (String::from_utf8(out).unwrap(), totals)
}

fn event(kind: &str, number: usize, more: &Value) -> String {
    let mut event = json!({
        "@context": "https://aaep-protocol.org/context/v1",
        "type": format!("aaep:agent.{kind}"),
        "event_id": format!("evt_{number}"),
        "session_id": "sess_1",
        "timestamp": format!("2026-05-24T14:{:02}:{:02}.{:03}Z", number / 60_000 % 60, number / 1_000 % 60, number % 1_000),
        "producer": {"agent_id": "planner"},
        "localization_hints": {"primary_language": "en"},
    });
    for (key, value) in more.as_object().unwrap() {
        event[key] = value.clone();
    }
    event.to_string()
}

/// Whether a character controls a terminal or reorders text.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

const HOSTILE: &str = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='x\u{1b}[2J\u{0}\u{9b}\u{202e}txet\u{2069}\u{e0041}";

#[test]
fn hostile_text_is_shown_and_does_nothing() {
    let state = json!({"from_state": HOSTILE, "to_state": HOSTILE, "summary_normal": HOSTILE});
    let mut lines = vec![
        event("session.started", 1, &json!({"summary_normal": HOSTILE, "request_text": HOSTILE})),
        event("state.changed", 2, &state),
        event("tool.invoked", 3, &json!({"tool": HOSTILE, "tool_call_id": HOSTILE, "args_summary": HOSTILE})),
        event("tool.completed", 4, &json!({"tool": HOSTILE, "tool_call_id": HOSTILE, "status": HOSTILE})),
        event(
            "output.streaming",
            5,
            &json!({"chunk": HOSTILE, "output_id": HOSTILE, "position": 0, "complete": false}),
        ),
        event(
            "awaiting.clarification",
            6,
            &json!({"question": HOSTILE, "choices": [{"label": HOSTILE}], "reply_token": HOSTILE}),
        ),
        json!({"type": "clarification.reply", "reply_token": HOSTILE, "response": HOSTILE}).to_string(),
        json!({"type": HOSTILE, "event_id": HOSTILE}).to_string(),
    ];
    let strangers = json!({
        "session_id": HOSTILE,
        "event_id": HOSTILE,
        "producer": {"agent_id": HOSTILE},
        "timestamp": HOSTILE,
        "localization_hints": {"primary_language": HOSTILE, "text_direction": HOSTILE},
        "summary_normal": HOSTILE,
    });
    lines.push(event("session.started", 8, &strangers));
    let file = lines.join("\n");

    let (text, totals) = traced(file.as_bytes(), Format::Text);
    assert_eq!(totals.texts, lines.len() as u64);
    assert!(text.chars().all(|c| c == '\n' || !steers(c)), "nothing steers in the text");
    assert!(text.contains(r"\u{1b}[2J\u{0}\u{9b}\u{202e}txet\u{2069}\u{e0041}"), "nothing is lost");

    let (json, _) = traced(file.as_bytes(), Format::Json);
    assert!(json.chars().all(|c| c == '\n' || !steers(c)), "nothing steers in the JSON");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sessions"][0]["entries"][0]["texts"][0]["text"], HOSTILE, "as it came, as data");
    assert_eq!(json["sessions"][1]["id"], HOSTILE);

    let (html, _) = traced(file.as_bytes(), Format::Html);
    for forbidden in ["<script", "<img", "</title><script", "onload='", "\"'"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert_eq!(html.matches("<title").count(), html.matches("</title>").count());
    assert!(html.contains("<span class=\"sign\">U+202E</span>"), "what turns text around is shown");
    let page = html.split("</style>").nth(1).unwrap();
    assert!(page.chars().all(|c| c == '\n' || !steers(c)), "no isolate was left open, nothing else steers");
    assert!(!html.contains("lang=\"</title>"), "a language that is none is no attribute");
}

#[test]
fn texts_have_their_language_and_direction() {
    let hints = |language: &str, direction: &str| {
        json!({"localization_hints": {"primary_language": language, "text_direction": direction},
               "summary_normal": "text"})
    };
    let file = [
        event("session.started", 1, &hints("he", "rtl")),
        event("progress.updated", 2, &hints("yo", "ltr")),
        event(
            "progress.updated",
            3,
            &json!({"localization_hints": {"primary_language": "ar"}, "summary_normal": "text"}),
        ),
        event("progress.updated", 4, &json!({"localization_hints": {}, "summary_normal": "text"})),
        event(
            "output.streaming",
            5,
            &json!({"language": "sw", "chunk": "text", "position": 0, "complete": true}),
        ),
    ]
    .join("\n");
    let (html, _) = traced(file.as_bytes(), Format::Html);
    for wanted in [
        "<bdi lang=\"he\" dir=\"rtl\">text</bdi>",
        "<bdi lang=\"yo\" dir=\"ltr\">text</bdi>",
        "<bdi lang=\"ar\">text</bdi>",
        "<bdi lang=\"\">text</bdi>",
        "<bdi lang=\"sw\">text</bdi>",
    ] {
        assert_eq!(html.matches(wanted).count(), 1, "{wanted}");
    }
    let (json, _) = traced(file.as_bytes(), Format::Json);
    let json: Value = serde_json::from_str(&json).unwrap();
    let text = |at: usize| json["sessions"][0]["entries"][at]["texts"][0].clone();
    assert_eq!(text(0), json!({"text": "text", "language": "he", "direction": "rtl"}));
    assert_eq!(text(3), json!({"text": "text", "language": null, "direction": "auto"}));
}

#[test]
fn an_empty_file_is_reported_as_empty() {
    for file in ["", " \n\n", "[]"] {
        let (text, totals) = traced(file.as_bytes(), Format::Text);
        assert_eq!(totals, Totals::default());
        assert!(text.contains("The file is empty."));
        assert!(traced(file.as_bytes(), Format::Html).0.contains("The file is empty."));
        let json: Value = serde_json::from_str(&traced(file.as_bytes(), Format::Json).0).unwrap();
        assert_eq!(
            (&json["sessions"], &json["outside"], &json["findings"]),
            (&json!([]), &json!([]), &json!([]))
        );
    }
}

#[test]
fn broken_lines_are_reported_in_place_and_hide_no_later_lines() {
    let good = event("session.started", 1, &json!({"summary_normal": "Starting."}));
    let mut file = b"\xef\xbb\xbf".to_vec();
    for line in [
        good.as_bytes(),
        b"{\"cut\": ",
        b"\xff\xfe",
        b"7",
        b"{\"a\":1,\"a\":2}",
        b"{\"kind\":\"user_input\"}",
        b"{}",
        b"NaN",
        b"",
    ] {
        file.extend_from_slice(line);
        file.push(b'\n');
    }
    file.extend_from_slice(event("session.completed", 2, &json!({"summary_normal": "Done."})).as_bytes());
    let (text, totals) = traced(&file, Format::Text);
    assert_eq!((totals.events, totals.unreadable), (2, 8));
    for (line, rule) in [
        (1, "json.bom"),
        (2, "json.truncated"),
        (3, "json.encoding"),
        (4, "json.object"),
        (5, "json.duplicate_key"),
        (8, "json.number"),
    ] {
        let expected = format!("Line {line}: This cannot be parsed.\n  Error {rule}: ");
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    assert!(text.contains("Line 6: This is neither an event nor a message of the protocol."));
    assert!(text.contains("End of session sess_1: completed after 0.001 s."));
    for format in [Format::Html, Format::Json] {
        assert_eq!(traced(&file, format).1, totals);
    }
}

#[test]
fn files_that_are_cut_anywhere_are_traced() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/aaep/sessions");
    for name in ["good.clarified.jsonl", "bad.two_prompts.one_answer.jsonl", "good.handshake.jsonl"] {
        let file = std::fs::read(folder.join(name)).unwrap();
        for end in (0..file.len()).step_by(61) {
            let (json, totals) = traced(&file[..end], Format::Json);
            let json: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(json["summary"]["texts"], totals.texts);
            assert_eq!(traced(&file[..end], Format::Text).1, totals);
            assert_eq!(traced(&file[..end], Format::Html).1, totals);
        }
    }
}

#[test]
fn a_selected_session_must_exist() {
    let other = |kind: &str, number: usize| {
        event(kind, number, &json!({"session_id": "sess_2", "summary_normal": "Other."}))
    };
    let file = [
        event("session.started", 1, &json!({"summary_normal": "Starting."})),
        other("session.started", 2),
        event("session.completed", 3, &json!({"summary_normal": "Done."})),
        "{\"cut\": ".to_owned(),
    ]
    .join("\n");
    let only = |session| Options { session: Some(session), ..Options::default() };
    for format in Format::ALL {
        let mut out = Vec::new();
        let totals = trace::write(file.as_bytes(), format, &mut out, &only("sess_1")).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!((totals.sessions, totals.errors), (1, 0), "problems of other sessions are not reported");
        assert!(
            out.contains("sess_1") && !out.contains("Other.") && !out.contains("json.truncated"),
            "{out}"
        );
        let missing = trace::write(file.as_bytes(), format, &mut Vec::new(), &only("sess_3"));
        assert!(matches!(missing, Err(TraceError::NoSession(session)) if session == "sess_3"));
    }
}

/// The lines of one session, including its end.
fn account(text: &str) -> Vec<&str> {
    let body = text.lines().skip_while(|line| !line.starts_with("Session 1 ")).skip(2);
    body.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn a_live_trace_equals_the_trace_of_the_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/aaep/sessions");
    for name in ["good.confirmed", "bad.confirmed.rejected", "bad.minimal.no_end", "bad.tool.id_differs"] {
        let file = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
        let mut live = Live::new(Profile::Strict, 0);
        let mut lines = Vec::new();
        for (text, line) in file.lines().zip(1..) {
            lines.extend(live.push(line, text));
        }
        lines.extend(live.finish());
        assert_eq!(lines.remove(0), "Session sess_1");
        let (text, totals) = traced(file.as_bytes(), Format::Text);
        assert_eq!(lines, account(&text), "{name}");
        assert_eq!(live.totals(), totals, "{name}");
    }
}

/// A session with many parts of each kind.
fn long_session(events: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut number = 0;
    let mut push = |kind: &str, more: Value| {
        number += 1;
        file.extend_from_slice(event(kind, number, &more).as_bytes());
        file.push(b'\n');
        number
    };
    push("session.started", json!({"summary_normal": "Starting."}));
    loop {
        push(
            "state.changed",
            json!({"from_state": "idle", "to_state": "calling_tool", "summary_normal": "Calling."}),
        );
        let call = push("tool.invoked", json!({"tool": "fetch", "summary_normal": "Fetching."}));
        push("tool.completed", json!({"tool": "fetch", "status": "success", "summary_normal": "Fetched."}));
        push(
            "state.changed",
            json!({"from_state": "calling_tool", "to_state": "writing_output", "summary_normal": "Writing."}),
        );
        let output = format!("out_{call}");
        push(
            "output.streaming",
            json!({"chunk": "Here. ", "position": 0, "complete": false, "output_id": output}),
        );
        // Each of these has a problem: one character more than before.
        push(
            "output.streaming",
            json!({"chunk": "There.", "position": 7, "complete": true, "output_id": output}),
        );
        let last = push(
            "state.changed",
            json!({"from_state": "writing_output", "to_state": "idle", "summary_normal": "Idle."}),
        );
        if last >= events {
            return file;
        }
    }
}

#[test]
fn a_long_session_has_pages_and_a_drawing_of_bounded_size() {
    let file = long_session(20_000);
    let (html, totals) = traced(&file, Format::Html);
    assert!(totals.events >= 20_000);
    let drawing = html.split("<figure>").nth(1).unwrap().split("</figure>").next().unwrap();
    let marks = ["<rect", "<circle", "<path", "<text", "<a "].map(|tag| drawing.matches(tag).count());
    assert!(marks.iter().sum::<usize>() < 1_000, "{marks:?}");
    assert!(html.contains("Marks that are too close to each other are drawn as one."));
    let pages = html.matches("<details").count();
    assert_eq!(pages, usize::try_from(totals.events).unwrap().div_ceil(limits::TRACE_PAGE_ENTRIES));
    // All problems are at their lines, the first ones also in the list.
    let problems = usize::try_from(totals.errors).unwrap();
    assert!(problems > 2_000);
    assert_eq!(html.matches("<div class=\"problem error\"").count(), problems);
    assert_eq!(html.matches("<li id=\"o").count(), limits::TRACE_OVERVIEW_MAX);
}

#[test]
fn a_trace_takes_a_few_times_as_long_as_checking_and_not_more_for_each_event_of_a_longer_file() {
    let file = long_session(5_000);
    let took = |work: &dyn Fn()| {
        // The best of three: other work on the machine makes times longer, never shorter.
        let once = || {
            let began = recount_world::moment();
            work();
            began.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    let checking = took(&|| {
        let mut checker = Checker::new(CheckerOptions::default());
        let mut splitter = Splitter::new();
        splitter.push(&file, |piece| {
            checker.piece(piece);
            checker.take();
        });
    });
    for format in Format::ALL {
        let tracing = took(&|| drop(traced(&file, format)));
        assert!(tracing < checking * 25, "{}: {tracing:?}, and {checking:?} to check", format.name());
    }
}

#[test]
fn the_policy_of_the_page_lets_in_its_own_style_and_nothing_else() {
    let sum = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(trace::STYLE));
    assert_eq!(trace::STYLE_SUM, sum, "the style has changed: this is its sum now");
    let (html, _) = traced(&long_session(1), Format::Html);
    assert!(html.contains(&format!(
        "content=\"default-src 'none'; style-src 'sha256-{sum}'; base-uri 'none'; form-action 'none'\""
    )));
    assert!(
        html.contains(&format!("<style>{}</style>", trace::STYLE)),
        "the style is there as it was summed"
    );
    let rest = html.replace(trace::STYLE, "");
    for forbidden in
        ["<script", "style=\"", "http://", "https://", "javascript:", "<link", "<iframe", "@import"]
    {
        let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
        assert!(!rest.replace(namespace, "").contains(forbidden), "{forbidden}");
    }
    assert!(!trace::STYLE.contains("url(") && !trace::STYLE.contains("@import"));
}
