//! Tests of the catalogues: every message in every language, with its plurals.

use std::collections::BTreeSet;

use recount_aaep::wire::TextDirection;

use super::*;

/// Numeric arguments; all others are text.
const NUMBERS: [&str; 8] = ["seconds", "calls", "prompts", "place", "percent", "step", "total", "count"];

fn rendered(speech: &Speech, key: Key, number: u64) -> Summaries {
    let args: Vec<(&'static str, Arg<'_>)> = key
        .args()
        .iter()
        .map(|name| (*name, if NUMBERS.contains(name) { Arg::Number(number) } else { Arg::Text("«x»") }))
        .collect();
    speech.render(key, &args)
}

#[test]
fn every_message_renders_in_every_language() {
    for tag in Speech::languages() {
        let speech = Speech::of(tag);
        assert_eq!(speech.tag(), tag);
        for key in Key::ALL {
            for number in [0, 1, 2, 3, 11, 100, 1_000_000] {
                let rendered = rendered(speech, *key, number);
                let normal = rendered.normal.unwrap_or_default();
                assert!(!normal.is_empty(), "{tag}: {} has no text", key.name());
                for text in [rendered.terse, rendered.detailed].into_iter().flatten() {
                    assert!(!text.is_empty(), "{tag}: {} has an empty form", key.name());
                }
            }
        }
    }
}

/// A missing argument would withhold a fact from speakers of that language.
#[test]
fn every_language_has_the_same_arguments_in_a_message() {
    let first = Speech::of("en-US");
    for tag in Speech::languages().skip(1) {
        for key in Key::ALL {
            let (ours, theirs) = (rendered(first, *key, 7), rendered(Speech::of(tag), *key, 7));
            for (name, one, other) in [
                ("normal", ours.normal, theirs.normal),
                ("terse", ours.terse, theirs.terse),
                ("detailed", ours.detailed, theirs.detailed),
            ] {
                let count = |text: &Option<String>| text.as_ref().map(|text| text.matches("«x»").count());
                assert_eq!(count(&one), count(&other), "{tag}: {} {name}", key.name());
            }
        }
    }
}

#[test]
fn catalogues_have_no_unused_messages() {
    let known: BTreeSet<&str> = Key::ALL.iter().map(|key| key.name()).collect();
    for (tag, _, source) in SOURCES {
        let named = source.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
        let named: Vec<&str> = named.map(|line| line.split(" =").next().unwrap_or_default()).collect();
        assert_eq!(named.len(), Key::ALL.len(), "{tag} names a message twice, or an unused one");
        for name in named {
            assert!(known.contains(name), "{tag}: {name} is unused");
        }
    }
}

#[test]
fn numbers_follow_the_plural_rules_of_each_language() {
    let english = Speech::of("en-US");
    let waiting = |speech: &Speech, number| rendered(speech, Key::StillAwaitingInput, number).normal.unwrap();
    assert_eq!(waiting(english, 1), "One more question is waiting for your answer.");
    assert_eq!(waiting(english, 2), "2 more questions are waiting for your answer.");
    let arabic = Speech::of("ar");
    let forms: BTreeSet<String> = [0, 1, 2, 3, 11, 100].map(|number| waiting(arabic, number)).into();
    assert_eq!(forms.len(), 6, "six numbers, six forms: {forms:?}");
}

#[test]
fn arguments_of_the_other_direction_are_isolated() {
    let arabic = Speech::of("ar").sentence(Key::ToolInvoked, &[("tool", "shell_exec".into())]);
    assert_eq!(arabic, "يستخدم \u{2068}shell_exec\u{2069}.");
    let english = Speech::of("en-US");
    let text = english.sentence(Key::Clarification, &[("question", "أين؟".into()), ("choices", "".into())]);
    assert_eq!(english.direction(&text), TextDirection::Auto);
    assert_eq!(english.direction("Where?"), TextDirection::Ltr);
}

#[test]
fn an_unknown_language_falls_back_to_the_first() {
    assert_eq!(Speech::of("tlh").tag(), "en-US");
}
