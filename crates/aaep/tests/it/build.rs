//! Tests of the builders: built events are valid by the rules, by the schemas and as a session; invalid ones are
//! rejected.

use proptest::prelude::*;
use recount_aaep::build::{self, Frame};
use recount_aaep::rule::{Profile, Severity};
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::{
    Boundary, CancelledBy, ErrorCategory, HandoffTarget, Level, LocalizationHints, Producer, Progress,
    ReplyToken, Reversibility, ToolStatus,
};
use recount_aaep::{Event, schema};

fn frame() -> Frame {
    Frame::new("sess_1", "planner", "en-US").unwrap()
}

#[test]
fn a_built_session_breaks_no_rule() {
    let frame = frame();
    let token = ReplyToken::new("rpl_4f8a2e7d").unwrap();
    let mut number = 0_u32;
    let mut lines = Vec::new();
    macro_rules! emit {
        ($draft:expr) => {{
            number += 1;
            let id = format!("evt_{number}");
            lines.push(
                frame
                    .numbered(&id, 1_000 * i64::from(number), u64::from(number) - 1, $draft)
                    .unwrap()
                    .to_json(),
            );
        }};
    }
    emit!(build::session_started("Planning.").tools_available(vec!["fetch".to_owned(), "pay".to_owned()]));
    emit!(build::state_changed("idle", "thinking", "Thinking."));
    emit!(
        build::progress(Progress { step: Some(1), total_steps: Some(2), ..Progress::default() })
            .summary("One of two.")
    );
    emit!(build::state_changed("thinking", "calling_tool", "Calling."));
    emit!(build::tool_invoked("fetch", "Fetching.").tool_call_id("call_1").risk_level(Level::Low));
    emit!(
        build::tool_completed("fetch", ToolStatus::Success, "Fetched.")
            .tool_call_id("call_1")
            .duration_ms(9_u64)
    );
    emit!(build::state_changed("calling_tool", "awaiting_input", "Waiting for you."));
    let prompt = build::confirmation("Pay 5 €.", "The money is gone.", token, 300)
        .risk_level(Level::High)
        .irreversible(true)
        .reversibility(Reversibility::Irreversible)
        .for_call("pay", "call_2");
    emit!(prompt);
    lines.push(
        r#"{"type":"confirmation.reply","reply_token":"rpl_4f8a2e7d","decision":"accept","subscription_id":"sub_1",
        "timestamp":"1970-01-01T00:00:09.000Z"}"#
            .replace('\n', ""),
    );
    emit!(build::state_changed("awaiting_input", "calling_tool", "You agreed."));
    emit!(
        build::tool_invoked("pay", "Paying.")
            .tool_call_id("call_2")
            .irreversible(true)
            .risk_level(Level::High)
    );
    emit!(build::tool_completed("pay", ToolStatus::Success, "Paid.").tool_call_id("call_2"));
    emit!(build::state_changed("calling_tool", "writing_output", "Writing."));
    emit!(build::output("Paid. ", 0, Boundary::Sentence).output_id("out_1"));
    emit!(build::last_output("Good bye.", 6).output_id("out_1"));
    emit!(build::state_changed("writing_output", "handing_off", "Handing over."));
    emit!(build::handoff("A person should look.", HandoffTarget::Human, "A person will look."));
    emit!(build::session_completed("Done."));
    let mut checker = Checker::new(Options::default());
    for (at, line) in lines.iter().enumerate() {
        checker.text(at + 1, line);
    }
    checker.finish();
    assert_eq!(checker.take(), Vec::new());
}

#[test]
fn invalid_events_are_not_built() {
    let frame = frame();
    let token = || ReplyToken::new("rpl_1").unwrap();
    let rules = |refused: build::BuildError| -> Vec<&str> {
        refused.findings.iter().map(|finding| finding.rule.id).collect()
    };
    let grave = build::confirmation("Delete.", "Gone.", token(), 300).irreversible(true).default_accept();
    assert_eq!(rules(frame.event("evt_1", 0, grave).unwrap_err()), ["prompt.default_accepts_assumed"]);
    let empty = build::session_started("");
    assert_eq!(rules(frame.event("evt_1", 0, empty).unwrap_err()), ["payload.form"]);
    let none = build::progress(Progress::default());
    assert_eq!(rules(frame.event("evt_1", 0, none).unwrap_err()), ["payload.form"]);
    let reserved =
        build::session_started("So.").extension("https://example.org/x", "aaep", serde_json::Map::new());
    assert_eq!(rules(frame.event("evt_1", 0, reserved).unwrap_err()), ["extension.prefix"]);
    assert!(
        frame.event("evt-1", 0, build::session_started("So.")).unwrap_err().to_string().contains("`evt-1`")
    );
    assert!(Frame::new("session", "planner", "en").is_err());
    let tongue = Frame::new("sess_1", "planner", "english-american-long").unwrap();
    assert_eq!(
        rules(tongue.event("evt_1", 0, build::session_started("So.")).unwrap_err()),
        ["language.bcp47"]
    );
}

#[test]
fn extensions_and_translations_are_declared() {
    let object = serde_json::json!({"dose": 7}).as_object().unwrap().clone();
    let draft = build::session_completed("Done.").in_language("summary_normal", "yo", "Ó parí.").extension(
        "https://example.org/medai/v1",
        "medai",
        object,
    );
    let event = frame().event("evt_1", 0, draft).unwrap();
    let text = event.to_json();
    assert!(
        text.contains("\"summary_normal_yo\":\"Ó parí.\"") && text.contains("{\"medai\":{\"dose\":7}}"),
        "{text}"
    );
    assert!(
        text.contains("[\"https://aaep-protocol.org/context/v1\",\"https://example.org/medai/v1\"]"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn any_built_event_is_valid(
        which in 0_usize..13,
        one in prop_oneof!["[a-z_]{0,12}", "\\PC{0,20}", Just("x".repeat(5_000))],
        two in "\\PC{0,20}",
        number in any::<u64>(),
        millis in any::<i64>(),
        id in "evt_[a-zA-Z0-9_]{0,66}",
    ) {
        let frame = frame();
        let built = match which {
            0 => frame.event(&id, millis, build::session_started(two).requested_by(one).expected_duration_ms(number)),
            1 => frame.event(&id, millis, build::tool_invoked(one, two).irreversible(number % 2 == 0)),
            2 => frame.event(&id, millis, build::state_changed(one.clone(), two, one)),
            3 => frame.event(&id, millis, build::output(one, number, Boundary::Word).output_id(two)),
            4 => frame.event(&id, millis, build::session_errored(ErrorCategory::from(two.as_str()), one)),
            5 => frame.event(&id, millis, build::session_cancelled(CancelledBy::User, two).cancellation_reason(one)),
            6 => frame.event(&id, millis, build::clarification(one, ReplyToken::new("rpl_1").unwrap(),
                u32::try_from(number % 100_000).unwrap()).choice(two.clone(), two)),
            7 => frame.event(&id, millis, build::confirmation(one, two, ReplyToken::new("rpl_1").unwrap(),
                u32::try_from(number % 100_000).unwrap()).irreversible(number % 2 == 0).default_accept()),
            8 => frame.event(&id, millis, build::session_started(two).extension("https://example.org/x", one,
                serde_json::json!({"deep": [number], "n": {}}).as_object().unwrap().clone())),
            9 => frame.event(&id, millis, build::session_started(two.clone()).in_language("summary_normal", &one, two)),
            10 => frame.clone().with_producer(Producer::named(one)).event(&id, millis, build::session_started(two)),
            11 => frame.clone().with_hints(LocalizationHints::in_language(one)).with_correlation_id(two.clone())
                .numbered(&id, millis, number, build::session_started(two)),
            _ => frame.event(&id, millis, build::handoff(one, HandoffTarget::from(two.as_str()), two.clone()).target_uri(two)),
        };
        if let Ok(event) = built {
            let text = event.to_json();
            let findings = recount_aaep::rule::check_text(&text, Profile::Strict);
            prop_assert!(findings.iter().all(|finding| finding.severity < Severity::Error), "{findings:?}");
            let schema = schema::resolve(&format!("urn:recount:aaep:v1:{}", event.kind().unwrap().name())).unwrap();
            prop_assert!(jsonschema::is_valid(&schema, &serde_json::from_str(&text).unwrap()), "{text}");
            prop_assert_eq!(Event::parse(&text).unwrap(), event);
        }
    }
}
