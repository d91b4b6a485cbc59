//! Tests of verbosity, cognitive load, pace and languages (R-126, R-188) with the same session.

use recount_aaep::build::{self, Frame};
use recount_aaep::rule::{Profile, Severity, check_text};
use recount_aaep::wire::{Body, LocalizationHints, ReplyToken};
use recount_aaep::{Event, Kind};
use serde_json::{Value, json};

use super::stage::{Stage, progress, stage, state};

fn shaped(wish: &Value) -> Stage {
    let mut stage = stage(wish);
    stage.emit(build::session_started("Hello.").terse("Hi.").detailed("Hello, and all the rest of it."));
    for step in 1..=40 {
        stage.emit(
            progress(step).terse(format!("{step}")).detailed(format!("This is step {step} of very many.")),
        );
        stage.emit(state("thinking", "thinking"));
        stage.wait(250);
    }
    for at in 0..60 {
        stage.write(["The ", "rain ", "falls ", "on ", "Lagos. "][at % 5], None);
        stage.wait(40);
    }
    stage.write_last("The end.");
    stage.emit(build::session_completed("Done.").detailed("Done, with all that was to be done."));
    stage.drain();
    stage
}

fn bytes(stage: &Stage) -> usize {
    stage.out.iter().map(|(_, event)| event.to_json().len()).sum()
}

fn text(stage: &Stage) -> String {
    stage.chunks().iter().map(|(chunk, _)| *chunk).collect()
}

/// R-126: fewer and shorter events for a low load, and the complete text.
#[test]
fn a_low_cognitive_load_gets_fewer_and_shorter_events() {
    let (low, high) = (shaped(&json!({"cognitive_load": "low"})), shaped(&json!({"cognitive_load": "high"})));
    assert!(low.out.len() * 3 < high.out.len(), "{} and {}", low.out.len(), high.out.len());
    let average = |stage: &Stage| bytes(stage) / stage.out.len();
    assert!(bytes(&low) * 2 < bytes(&high));
    assert!(average(&low) < 2 * average(&high));
    assert_eq!(text(&low), text(&high));
    assert!(low.out.iter().all(|(_, event)| event.summaries.detailed.is_none()));
    assert!(high.out.iter().any(|(_, event)| event.summaries.detailed.is_some()));
    // Progress events are at least five seconds apart, and the last one is sent.
    let reports: Vec<&(u64, Event)> =
        low.out.iter().filter(|(_, e)| e.kind() == Some(Kind::ProgressUpdated)).collect();
    assert!(reports.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 5_000));
    let Body::ProgressUpdated(last) = &reports.last().unwrap().1.body else { panic!() };
    assert_eq!(last.progress.step, Some(40));
}

#[test]
fn a_slow_pace_gets_longer_pieces() {
    let pieces = |wish: &Value| shaped(wish).outputs().len();
    let (slow, middle, fast) = (
        pieces(&json!({"pace_wpm": 80})),
        pieces(&json!({"pace_wpm": 240})),
        pieces(&json!({"pace_wpm": 1_000})),
    );
    assert!(slow < middle && middle < fast, "{slow} {middle} {fast}");
    assert!(fast <= 13, "there are thirteen sentences");
}

/// R-042: verbosity drops no events.
#[test]
fn verbosity_selects_texts_and_drops_no_event() {
    let all: Vec<Stage> = ["terse", "normal", "detailed"]
        .iter()
        .map(|level| shaped(&json!({"preferred_verbosity": level})))
        .collect();
    assert!(all.iter().all(|stage| stage.out.len() == all[0].out.len()));
    let first = |stage: &Stage| {
        let event = &stage.out[0].1;
        (event.envelope.verbosity.as_ref().unwrap().as_str().to_owned(), event.summaries.detailed.is_some())
    };
    assert_eq!(first(&all[0]), ("terse".into(), false));
    assert_eq!(first(&all[1]), ("normal".into(), true));
    assert_eq!(first(&all[2]), ("detailed".into(), true));
    for stage in &all {
        for (_, event) in &stage.out {
            let findings = check_text(&event.to_json(), Profile::Strict);
            assert!(findings.iter().all(|finding| finding.severity < Severity::Warning), "{findings:?}");
        }
    }
}

fn spoken(stage: &Stage) -> Vec<(Option<&str>, Option<&str>)> {
    stage
        .out
        .iter()
        .map(|(_, event)| {
            let hints = event.envelope.localization_hints.as_ref().unwrap();
            (hints.primary_language.as_deref(), event.summaries.normal.as_deref())
        })
        .collect()
}

/// R-182, R-183, R-188: the nearest available language, from the next event on; the original texts become localized
/// fields.
#[test]
fn texts_use_the_requested_language() {
    let mut stage = stage(&json!({"languages": ["yo-NG", "en"]}));
    stage.emit(build::session_started("Hello.").in_language("summary_normal", "yo", "Ẹ n lẹ."));
    stage.emit(build::session_completed("Only in English."));
    stage.shaper.terms_changed(super::stage::terms(&json!({"languages": ["en-GB"]})));
    stage.emit(build::session_started("Hello.").in_language("summary_normal", "yo", "Ẹ n lẹ."));
    stage.shaper.terms_changed(super::stage::terms(&json!({"languages": ["tlh"]})));
    stage.emit(build::session_started("Hello.").in_language("summary_normal", "yo", "Ẹ n lẹ."));
    assert_eq!(
        spoken(&stage),
        [
            (Some("yo"), Some("Ẹ n lẹ.")),
            (Some("en-US"), Some("Only in English.")),
            (Some("en-US"), Some("Hello.")),
            (Some("en-US"), Some("Hello.")),
        ]
    );
    let changed = stage.out[0].1.to_json();
    assert!(changed.contains(r#""summary_normal_en-us":"Hello.""#), "{changed}");
    let findings = check_text(&changed, Profile::Strict);
    assert!(findings.is_empty(), "{findings:?}");
}

/// The action and the consequence of a prompt are in the same language.
#[test]
fn a_prompt_is_translated_completely_or_not_at_all() {
    let prompt = || build::confirmation("Pay.", "The money is gone.", ReplyToken::new("rpl_1").unwrap(), 300);
    let mut half = stage(&json!({"languages": ["yo"]}));
    half.emit(prompt().in_language("summary_normal", "yo", "Sanwó?").in_language("action", "yo", "Sanwó."));
    let mut whole = stage(&json!({"languages": ["yo"]}));
    whole.emit(
        prompt()
            .in_language("summary_normal", "yo", "Sanwó?")
            .in_language("action", "yo", "Sanwó.")
            .in_language("consequence", "yo", "Owó náà lọ."),
    );
    let texts = |stage: &Stage| match &stage.out[0].1.body {
        Body::AwaitingConfirmation(prompt) => (prompt.action.clone(), prompt.consequence.clone()),
        _ => panic!(),
    };
    assert_eq!(texts(&half), ("Pay.".into(), "The money is gone.".into()));
    assert_eq!(spoken(&half)[0].0, Some("en-US"));
    assert_eq!(texts(&whole), ("Sanwó.".into(), "Owó náà lọ.".into()));
    let Body::AwaitingConfirmation(prompt) = &whole.out[0].1.body else { panic!() };
    assert_eq!(prompt.reply_token.as_str(), "rpl_1");
}

/// A translated text gets no wrong direction or script.
#[test]
fn direction_and_script_follow_the_language() {
    let hints = LocalizationHints {
        text_direction: Some(recount_aaep::wire::TextDirection::Ltr),
        script: Some("Latn".into()),
        available_languages: vec!["ar-EG".into()],
        ..LocalizationHints::in_language("en-US")
    };
    let frame = Frame::new("sess_1", "planner", "en-US").unwrap().with_hints(hints);
    let draft = build::session_started("Hello.").in_language("summary_normal", "ar-eg", "مرحبا.");
    let mut stage = stage(&json!({"languages": ["ar"]}));
    let event = frame.event("evt_1", 0, draft).unwrap();
    stage.push(event);
    let hints = stage.out[0].1.envelope.localization_hints.clone().unwrap();
    assert_eq!(hints.primary_language.as_deref(), Some("ar-EG"));
    assert_eq!(hints.text_direction.unwrap().as_str(), "auto");
    assert_eq!(
        (hints.script, hints.available_languages),
        (None, vec!["ar-EG".to_owned(), "en-US".to_owned()])
    );
}
