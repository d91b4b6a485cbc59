//! Compares the demo run, as three listeners hear it in each language, with `docs/aaep/listening.md`. `RECOUNT_BLESS=1`
//! writes the transcripts in the page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use recount_aaep::negotiate::{Offer, evaluate_text};
use recount_aaep::shaping::Shaper;
use recount_aaep::wire::{Producer, SubscriptionId, Urgency};
use recount_aaep::{Body, Event as AaepEvent};
use recount_event::Event;
use recount_event::codec::decode;
use recount_face_aaep::speech::Speech;

use super::holds::holds;

/// How much the listeners ask for.
const VERBOSITIES: [&str; 3] = ["terse", "normal", "detailed"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A run of `recount demo`, as it was recorded.
fn demo() -> Vec<Event> {
    let text = std::fs::read_to_string(root().join("testdata/listening/demo.jsonl")).unwrap();
    text.lines().map(|line| decode(line.as_bytes()).unwrap()).collect()
}

fn shaper(language: &str, verbosity: &str) -> Shaper {
    let offer = Offer::new(Producer::named("recount"), language);
    let request = format!(
        r#"{{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"reader","capabilities":{{"max_events_per_second":100,"preferred_verbosity":"{verbosity}","coalesce_boundaries":["sentence","completion"]}}}}"#
    );
    let terms = evaluate_text(&offer, &request).accepted().expect("it can be served");
    Shaper::new(terms, &SubscriptionId::new("sub_1").unwrap())
}

/// The spoken text of an event. Background state changes are spoken only at the most verbose level.
fn spoken(event: &AaepEvent, verbosity: &str) -> Option<String> {
    if let Body::OutputStreaming(piece) = &event.body {
        return Some(piece.chunk.trim().to_owned()).filter(|text| !text.is_empty());
    }
    if *event.envelope.urgency() == Urgency::Background && verbosity != "detailed" {
        return None;
    }
    let forms = &event.summaries;
    let form = match verbosity {
        "terse" => forms.terse.as_ref(),
        "detailed" => forms.detailed.as_ref(),
        _ => None,
    };
    form.or(forms.normal.as_ref()).cloned()
}

/// The lines that one listener hears, each with the second at which it is due.
fn transcript(events: &[Event], language: &str, verbosity: &str) -> Vec<(u64, String)> {
    let mut shaper = shaper(language, verbosity);
    let began = events[0].occurred_ms;
    let mut heard = Vec::new();
    let mut hear = |shaper: &mut Shaper, now: u64| {
        for event in shaper.due(now) {
            heard.extend(spoken(&event, verbosity).map(|text| (now / 1_000, text)));
        }
    };
    for (sequence, event) in holds(events, language) {
        let now = events[usize::try_from(sequence).unwrap()].occurred_ms - began;
        while let Some(due) = shaper.next_due().filter(|due| *due < now) {
            hear(&mut shaper, due);
        }
        shaper.push(event, now);
        hear(&mut shaper, now);
    }
    while let Some(due) = shaper.next_due() {
        hear(&mut shaper, due);
    }
    assert_eq!(shaper.held_events(), 0);
    heard
}

fn shown(transcript: &[(u64, String)], right_to_left: bool) -> String {
    let mut text = String::new();
    let (begin, end) = if right_to_left { ("<div dir=\"rtl\">\n\n", "\n</div>\n") } else { ("", "") };
    text.push_str(begin);
    for (second, line) in transcript {
        let line = line.replace('\n', " / ");
        writeln!(text, "- {}:{:02} {line}", second / 60, second % 60).unwrap();
    }
    text.push_str(end);
    text
}

#[test]
fn the_page_has_what_listeners_of_the_demo_hear() {
    let events = demo();
    let file = root().join("docs/aaep/listening.md");
    let agreed = std::fs::read_to_string(&file).unwrap();
    let mut page = agreed.clone();
    for language in Speech::languages() {
        for verbosity in VERBOSITIES {
            let begin = format!("<!-- begin {language} {verbosity} -->\n");
            let end = format!("<!-- end {language} {verbosity} -->\n");
            let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("{begin} is missing"));
            let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{end} is missing"));
            let heard = shown(&transcript(&events, language, verbosity), language == "ar");
            page = format!("{before}{begin}\n{heard}\n{end}{after}");
        }
    }
    if std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1") {
        assert!(std::env::var_os("CI").is_none(), "CI compares; it does not bless");
        std::fs::write(&file, &page).unwrap();
    } else {
        assert_eq!(page, agreed, "{}", file.display());
    }
}

/// A higher verbosity gives more lines, and every listener hears prompts, outcomes, answers and the ending.
#[test]
fn every_listener_hears_prompts_outcomes_texts_and_the_ending() {
    let events = demo();
    for language in Speech::languages() {
        let characters = VERBOSITIES.map(|verbosity| {
            let heard = transcript(&events, language, verbosity);
            let all: Vec<&str> = heard.iter().map(|(_, line)| line.as_str()).collect();
            for wanted in [
                "rm -r old",
                "Shall I write down what was changed?",
                "It passes.",
                "the check passes, and the log of this run has every step.",
            ] {
                assert!(all.iter().any(|line| line.contains(wanted)), "{language} {verbosity}: {wanted}");
            }
            all.iter().map(|line| line.chars().count()).sum::<usize>()
        });
        assert!(characters.is_sorted() && characters[0] < characters[2], "{language}: {characters:?}");
    }
}
