//! Tests of the checker's limits: memory is bounded for any input, dropped state is reported, and nothing panics.

use proptest::prelude::*;
use recount_aaep::limits;
use recount_aaep::session::{Checker, Options};

fn event(kind: &str, id: usize, session: usize, more: &str) -> String {
    format!(
        r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.{kind}","event_id":"evt_{id}","session_id":"sess_{session}","timestamp":"2026-05-24T14:22:11.342Z","producer":{{"agent_id":"a"}},"localization_hints":{{"primary_language":"en"}},"summary_normal":"So."{more}}}"#
    )
}

#[test]
fn sessions_beyond_the_limit_are_dropped_with_a_note() {
    let mut checker = Checker::new(Options::default());
    let most = limits::SESSIONS_OPEN_MAX;
    for at in 0..=most {
        checker.text(at + 1, &event("session.started", at, at, ""));
    }
    let ids: Vec<&str> = checker.take().iter().map(|finding| finding.rule.id).collect();
    assert_eq!(ids, ["limit.sessions"]);
    assert!(checker.open_sessions() < most && checker.open_sessions() > most / 2);
    checker.text(most + 2, &event("session.completed", most + 2, most, ""));
    assert_eq!(checker.take(), Vec::new(), "the newest are still known");
}

#[test]
fn parts_beyond_the_limit_are_ignored_with_one_note() {
    let mut checker = Checker::new(Options::default());
    checker.text(1, &event("session.started", 0, 1, ""));
    for at in 1..limits::SESSION_PARTS_MAX + 9 {
        checker.text(
            at + 1,
            &event("tool.invoked", at, 1, &format!(r#","tool":"t","tool_call_id":"call_{at}""#)),
        );
    }
    let ids: Vec<&str> = checker.take().iter().map(|finding| finding.rule.id).collect();
    assert_eq!(ids, ["limit.session"]);
}

/// Case D4: a call that cannot be undone, from a producer beyond the limit of tracked ones.
#[test]
fn the_limit_does_not_excuse_a_call_that_cannot_be_undone() {
    let mut checker = Checker::new(Options::default());
    checker.text(1, &event("session.started", 0, 1, ""));
    let of = |text: String, at: usize| text.replace("\"agent_id\":\"a\"", &format!("\"agent_id\":\"a{at}\""));
    for at in 1..=limits::SESSION_PARTS_MAX {
        let progress = format!(r#","progress":{{"step":{at}}}"#);
        checker.text(at + 1, &of(event("progress.updated", at, 1, &progress), at));
    }
    let ids =
        |checker: &mut Checker| checker.take().iter().map(|finding| finding.rule.id).collect::<Vec<_>>();
    ids(&mut checker);
    let call = r#","tool":"t","tool_call_id":"call_1","irreversible":true,"risk_level":"high""#;
    checker.text(9_000, &of(event("tool.invoked", 9_000, 1, call), 9_000));
    assert!(ids(&mut checker).contains(&"tool.unconfirmed"));
}

/// An error is among the findings, however many notes and warnings precede it.
#[test]
fn notes_never_hide_an_error() {
    let notes: String =
        (0..limits::FINDINGS_PER_TEXT_MAX + 9).map(|at| format!(",\"amount{at}_raw\":1")).collect();
    let call =
        format!(r#","tool":"t","tool_call_id":"call_1","irreversible":true,"risk_level":"high"{notes}"#);
    let mut checker = Checker::new(Options::default());
    checker.text(1, &event("session.started", 0, 1, ""));
    checker.text(2, &event("tool.invoked", 1, 1, &call));
    let found = checker.take();
    assert_eq!(found.len(), limits::FINDINGS_PER_TEXT_MAX);
    assert!(found.iter().any(|finding| finding.rule.id == "tool.unconfirmed"), "{found:?}");
}

#[test]
fn completed_calls_free_capacity() {
    let mut checker = Checker::new(Options::default());
    checker.text(1, &event("session.started", 0, 1, ""));
    let state = r#","from_state":"idle","to_state":"calling_tool""#;
    checker.text(2, &event("state.changed", 1, 1, state));
    for at in 2..limits::SESSION_PARTS_MAX + 99 {
        checker.text(
            at,
            &event("tool.invoked", 2 * at, 1, &format!(r#","tool":"t","tool_call_id":"call_{at}""#)),
        );
        let completed = format!(r#","tool":"t","status":"success","tool_call_id":"call_{at}""#);
        checker.text(at, &event("tool.completed", 2 * at + 1, 1, &completed));
    }
    assert_eq!(checker.take(), Vec::new());
}

#[test]
fn event_ids_are_remembered_within_the_window() {
    let mut checker = Checker::new(Options::default());
    checker.text(1, &event("session.started", 0, 1, ""));
    let more = |at: usize| format!(r#","progress":{{"step":{}}}"#, at + 1);
    for at in 1..100_000 {
        checker.text(at, &event("progress.updated", at, 1, &more(at)));
    }
    assert_eq!(checker.take(), Vec::new(), "a hundred thousand ids are distinguished");
    checker.text(7, &event("progress.updated", 5, 1, &more(0)));
    assert_eq!(checker.take()[0].rule.id, "session.event_id_reused");
}

/// Texts that would take quadratic time with a naive implementation.
#[test]
fn large_invalid_texts_are_checked_quickly() {
    let start = event("session.started", 1, 1, "");
    let with = |more: &str| format!("{},{more}}}", &start[..start.len() - 1]);
    let keys: Vec<String> = (0..100_000).map(|at| format!("\"x{at}\":1")).collect();
    let items: Vec<String> = (0..100_000).map(|at| format!("\"x{at}\"")).collect();
    let texts = [
        with(&keys.join(",")),
        with(&format!("\"tools_available\":[{}]", items.join(","))),
        with(&format!("\"request_text\":\"{}\"", "sk-".repeat(300_000))),
        with(&format!("\"extensions\":{{{}}}", keys.join(","))),
        with(&format!("\"summary_terse\":\"{}\"", "\\u00e9".repeat(200_000))),
    ];
    for text in texts {
        let mut checker = Checker::new(Options::default());
        checker.text(1, &text);
        let found = checker.take().len();
        assert!((1..=limits::FINDINGS_PER_TEXT_MAX).contains(&found), "{found}");
    }
}

proptest! {
    #[test]
    fn any_lines_are_checked(lines in prop::collection::vec(
        prop_oneof![
            "\\PC{0,40}",
            "[\\[\\]{}\",:0-9a-e.\\\\u+\\- ]{0,40}",
            (any::<prop::sample::Index>(), 0_usize..6, "[a-z0-9]{0,3}").prop_map(|(kind, session, value)| {
                let kind = recount_aaep::Kind::ALL[kind.index(12)];
                let name = kind.name().trim_start_matches("agent.");
                event(name, session * 7 + value.len(), session, &format!(
                    r#","tool":"{value}","tool_call_id":"call_{value}","reply_token":"rpl_{value}","from_state":"{value}","to_state":"awaiting_input","position":{session},"chunk":"{value}","complete":true"#))
            }),
            "[a-z0-9]{0,3}".prop_map(|token| format!(
                r#"{{"type":"confirmation.reply","reply_token":"rpl_{token}","decision":"accept"}}"#)),
        ], 0..40)) {
        let mut checker = Checker::new(Options::default());
        for (at, line) in lines.iter().enumerate() {
            checker.text(at + 1, line);
        }
        checker.finish();
        for finding in checker.take() {
            prop_assert!(finding.line >= 1 && finding.line <= lines.len(), "{finding:?}");
        }
    }
}

/// A megabyte as an integer, a text, a name or an id in every field of an event does not enlarge a finding.
#[test]
fn a_finding_never_exceeds_its_limit() {
    let (digits, letters) = ("7".repeat(1 << 20), "a".repeat(1 << 20));
    let whole = event("tool.invoked", 1, 1, r#","tool":"t","risk_level":"high","extensions":{"x":{}}"#);
    let value: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&whole).unwrap();
    let mut texts = vec![format!("{{\"{letters}\":1}}"), digits.clone(), format!("\"{letters}\"")];
    for name in value.keys() {
        for huge in [
            digits.clone(),
            format!("\"{letters}\""),
            format!("\"{letters}:x\""),
            format!("{{\"{letters}\":{digits}}}"),
        ] {
            let fields = value.iter().map(|(other, value)| match other == name {
                true => format!("\"{other}\":{huge}"),
                false => format!("\"{other}\":{value}"),
            });
            texts.push(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")));
        }
        texts.push(whole.replace(&format!("\"{name}\""), &format!("\"{letters}\"")));
    }
    // Invalid JSON with a long token at the error.
    for wrong in ["tru", "1e", "\"\\ud800\"", "[1,", "{\"b\":1,\"b\":2}"] {
        texts.push(format!("{{\"{letters}\":{{\"b\":{wrong}}}}}"));
    }
    texts.push(format!("{{\"{letters}\":1,\"{letters}\":2}}"));
    texts.push(format!("{{\"b\":{letters}}}"));
    for text in &texts {
        let mut checker = Checker::new(Options::default());
        checker.text(1, text);
        checker.finish();
        for finding in checker.take() {
            let size = finding.to_string().len() + finding.event_id.as_deref().map_or(0, str::len);
            assert!(size < 4 * limits::FINDING_BYTES_MAX, "{} has {size} bytes", finding.rule.id);
        }
    }
}
