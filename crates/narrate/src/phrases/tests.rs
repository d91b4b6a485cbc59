//! Tests of the narrator's catalogues: every phrase in every language, with its plurals.

use std::collections::BTreeSet;

use super::*;

/// Numeric arguments; all others are text.
const NUMBERS: [&str; 5] = ["count", "run", "percent", "step", "total"];

fn rendered(phrases: &Phrases, key: PhraseKey, number: u64) -> Result<String, String> {
    let mut values = FluentArgs::new();
    for name in key.puts() {
        match NUMBERS.contains(name) {
            true => values.set(*name, FluentValue::from(number)),
            false => values.set(*name, FluentValue::from("«x»")),
        }
    }
    phrases.try_render(key, &values)
}

#[test]
fn every_phrase_renders_in_every_language_with_the_same_arguments() {
    for phrases in ALL.iter() {
        for key in PhraseKey::ALL {
            for number in [0, 1, 2, 3, 11, 100] {
                let text = rendered(phrases, *key, number);
                let text = text.unwrap_or_else(|why| panic!("{}: {}: {why}", phrases.tag, key.name()));
                assert!(!text.is_empty(), "{}: {} is empty", phrases.tag, key.name());
                let first = rendered(&ALL[0], *key, number).unwrap();
                let count = |text: &str| text.matches("«x»").count();
                assert_eq!(count(&text), count(&first), "{}: {}", phrases.tag, key.name());
            }
        }
    }
}

#[test]
fn catalogues_have_no_unused_phrases() {
    let known: BTreeSet<&str> = PhraseKey::ALL.iter().map(|key| key.name()).collect();
    for (tag, _, source) in SOURCES {
        let named = source.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
        let named: Vec<&str> = named.map(|line| line.split(" =").next().unwrap_or_default()).collect();
        assert_eq!(named.len(), PhraseKey::ALL.len(), "{tag} names a phrase twice, or an unused one");
        for name in named {
            assert!(known.contains(name), "{tag}: {name} is unused");
        }
    }
}

#[test]
fn the_first_available_language_of_the_listener_is_used() {
    for (wanted, tag) in [
        (&["ar-EG", "en"][..], "ar"),
        (&["tlh", "ar"], "ar"),
        (&["en-GB", "ar"], "en-US"),
        (&["tlh"], "en-US"),
        (&[], "en-US"),
    ] {
        let wanted: Vec<String> = wanted.iter().map(|tag| (*tag).to_owned()).collect();
        assert_eq!(Phrases::of(&wanted).tag(), tag, "{wanted:?}");
    }
}
