//! The catalogues: every message in every language, with its plurals. They must not know what a message is said of.

use std::collections::BTreeSet;

use recount_aaep::wire::TextDirection;

use super::*;

/// What is counted; everything else is text.
const NUMBERS: [&str; 7] = ["seconds", "calls", "prompts", "place", "percent", "step", "total"];

fn said(speech: &Speech, key: Key, number: u64) -> Summaries {
    let args: Vec<(&'static str, Arg<'_>)> = key
        .args()
        .iter()
        .map(|name| (*name, if NUMBERS.contains(name) { Arg::Number(number) } else { Arg::Text("«x»") }))
        .collect();
    speech.say(key, &args)
}

#[test]
fn every_message_can_be_said_in_every_language() {
    for tag in Speech::languages() {
        let speech = Speech::of(tag);
        assert_eq!(speech.tag(), tag);
        for key in Key::ALL {
            for number in [0, 1, 2, 3, 11, 100, 1_000_000] {
                let said = said(speech, *key, number);
                let normal = said.normal.unwrap_or_default();
                assert!(!normal.is_empty(), "{tag}: {} has no text", key.name());
                for text in [said.terse, said.detailed].into_iter().flatten() {
                    assert!(!text.is_empty(), "{tag}: {} has an empty form", key.name());
                }
            }
        }
    }
}

/// A fact that one language leaves out is kept from those who speak it.
#[test]
fn every_language_says_the_same_of_a_message() {
    let first = Speech::of("en-US");
    for tag in Speech::languages().skip(1) {
        for key in Key::ALL {
            let (ours, theirs) = (said(first, *key, 7), said(Speech::of(tag), *key, 7));
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
fn no_catalogue_has_messages_that_nobody_says() {
    let known: BTreeSet<&str> = Key::ALL.iter().map(|key| key.name()).collect();
    for (tag, _, source) in SOURCES {
        let named = source.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
        let named: Vec<&str> = named.map(|line| line.split(" =").next().unwrap_or_default()).collect();
        assert_eq!(named.len(), Key::ALL.len(), "{tag} names a message twice, or one that nobody says");
        for name in named {
            assert!(known.contains(name), "{tag}: nobody says {name}");
        }
    }
}

#[test]
fn numbers_are_said_as_each_language_says_them() {
    let english = Speech::of("en-US");
    let waiting = |speech: &Speech, number| said(speech, Key::StillAwaitingInput, number).normal.unwrap();
    assert_eq!(waiting(english, 1), "One more question is waiting for your answer.");
    assert_eq!(waiting(english, 2), "2 more questions are waiting for your answer.");
    let arabic = Speech::of("ar");
    let forms: BTreeSet<String> = [0, 1, 2, 3, 11, 100].map(|number| waiting(arabic, number)).into();
    assert_eq!(forms.len(), 6, "six numbers, six forms: {forms:?}");
}

#[test]
fn what_runs_the_other_way_is_kept_apart() {
    let arabic = Speech::of("ar").sentence(Key::ToolInvoked, &[("tool", "shell_exec".into())]);
    assert_eq!(arabic, "يستخدم \u{2068}shell_exec\u{2069}.");
    let english = Speech::of("en-US");
    let text = english.sentence(Key::Clarification, &[("question", "أين؟".into()), ("choices", "".into())]);
    assert_eq!(english.direction(&text), TextDirection::Auto);
    assert_eq!(english.direction("Where?"), TextDirection::Ltr);
}

#[test]
fn a_language_that_there_is_not_is_the_first_one() {
    assert_eq!(Speech::of("tlh").tag(), "en-US");
}
