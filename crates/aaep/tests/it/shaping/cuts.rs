//! Tests of output: cuts, hints, and that the chunks concatenate to the text.

use proptest::prelude::*;
use serde_json::json;
use unicode_segmentation::UnicodeSegmentation;

use super::stage::{called, progress, stage, state};
use super::streams::is_between;

const TEXT: &[&str] = &["One", " two", ". ", "Three", " four!", "\n\n", "Five,", " six", "."];

/// each of the five boundaries alone, and two together, with and without a rate.
#[test]
fn text_is_cut_at_agreed_boundaries() {
    for (agreed, chunks) in [
        (
            &["none"][..],
            &[
                ("One ", "none"),
                ("two", "none"),
                (". ", "none"),
                ("Three ", "none"),
                ("four!", "none"),
                ("\n\nFive, ", "none"),
                ("six.", "none"),
            ][..],
        ),
        (
            &["word"],
            &[
                ("One ", "word"),
                ("two. ", "word"),
                ("Three ", "word"),
                ("four!\n\n", "word"),
                ("Five, ", "word"),
                ("six.", "word"),
            ],
        ),
        (
            &["sentence"],
            &[("One two. ", "sentence"), ("Three four!\n\n", "sentence"), ("Five, six.", "sentence")],
        ),
        (&["paragraph"], &[("One two. Three four!\n\n", "paragraph"), ("Five, six.", "paragraph")]),
        (&["completion"], &[("One two. Three four!\n\nFive, six.", "completion")]),
        (
            &["sentence", "completion"],
            &[("One two. ", "sentence"), ("Three four!\n\n", "sentence"), ("Five, six.", "completion")],
        ),
        (
            &["paragraph", "word"],
            &[
                ("One ", "word"),
                ("two. ", "word"),
                ("Three ", "word"),
                ("four!\n\n", "paragraph"),
                ("Five, ", "word"),
                ("six.", "paragraph"),
            ],
        ),
    ] {
        let mut stage = stage(&json!({"coalesce_boundaries": agreed}));
        for (at, piece) in TEXT.iter().enumerate() {
            if at + 1 == TEXT.len() {
                stage.write_last(piece);
            } else {
                stage.write(piece, None);
            }
        }
        assert_eq!(stage.chunks(), chunks, "{agreed:?}");
    }
}

/// above the rate, chunks are joined and cut at the last agreed boundary.
#[test]
fn chunks_above_the_rate_are_joined() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    for piece in ["One. ", "Two. ", "Three. ", "Four"] {
        stage.write(piece, Some("word"));
    }
    stage.wait(999);
    assert_eq!(stage.chunks(), [("One. ", "sentence")]);
    stage.wait(1);
    assert_eq!(stage.chunks()[1..], [("Two. Three. ", "sentence")]);
    stage.write_last(" of five.");
    stage.wait(1_000);
    assert_eq!(stage.chunks()[2..], [("Four of five.", "completion")]);
    let outputs = stage.outputs();
    assert_eq!(outputs.iter().map(|(output, _)| output.position).collect::<Vec<_>>(), [0, 5, 17]);
    assert_eq!(outputs.iter().map(|(output, _)| output.complete).collect::<Vec<_>>(), [false, false, true]);
}

/// The producer's hints count even if the text does not show a boundary.
#[test]
fn an_end_declared_by_the_producer_counts() {
    let mut stage = stage(&json!({"coalesce_boundaries": ["sentence", "completion"]}));
    stage.write("- one ", Some("sentence"));
    stage.write("- two", Some("sentence"));
    assert_eq!(stage.chunks(), [("- one ", "sentence")], "a letter may still get a combining mark");
    stage.write(" - three", Some("none"));
    assert_eq!(stage.chunks()[1..], [("- two", "sentence")]);
    stage.wait(2_000);
    assert_eq!(stage.chunks().len(), 2, "`none` means that no boundary is here");
}

/// An uncertain end counts as one if no text follows for a while.
#[test]
fn an_uncertain_end_counts_after_a_pause() {
    for (text, hint, ends) in [
        ("It rains.", None, true),
        ("It rains", Some("sentence"), true),
        ("It rains", None, false),
        ("It costs 3.", None, false),
        ("👩", Some("sentence"), false),
        ("🇳🇬", Some("sentence"), false),
        ("bẹ\u{300}", Some("sentence"), true),
        ("   ", None, false),
    ] {
        let mut stage = stage(&json!({}));
        stage.write(text, hint);
        stage.wait(99);
        assert_eq!(stage.chunks(), [], "{text}");
        stage.wait(1);
        assert_eq!(stage.chunks().len(), usize::from(ends), "{text}");
    }
}

/// If a producer stops inside a sentence, the rest is sent; a subscriber to whole outputs waits for the end.
#[test]
fn text_without_a_boundary_is_sent_after_a_long_pause() {
    let wait = recount_aaep::limits::SHAPED_UNFINISHED_MS;
    for (agreed, hint, text, chunk) in [
        ("sentence", Some("none"), "It rains and", Some(("It rains and", "word"))),
        ("sentence", None, "It rains and ", Some(("It rains and ", "word"))),
        ("paragraph", Some("word"), "It rains. And", Some(("It rains. And", "word"))),
        ("word", Some("none"), "It", Some(("It", "word"))),
        ("completion", Some("none"), "It rains and", None),
        // A character that may still grow waits, and white space alone is not sent.
        ("sentence", Some("none"), "👩", None),
        ("sentence", Some("none"), "   ", None),
    ] {
        for rate in [json!(null), json!(1)] {
            let mut requested = json!({ "coalesce_boundaries": [agreed] });
            if rate.is_number() {
                requested["max_events_per_second"] = rate;
            }
            let mut stage = stage(&requested);
            stage.write(text, hint);
            stage.wait(wait - 1);
            assert_eq!(stage.chunks(), [], "{agreed} {text}");
            stage.wait(1);
            assert_eq!(stage.chunks(), Vec::from_iter(chunk), "{agreed} {text}");
            // The continuation is sent once, at its position.
            stage.write(" snows.", None);
            stage.write_last("");
            stage.drain();
            let joined: String = stage.chunks().iter().map(|(chunk, _)| *chunk).collect();
            assert_eq!(joined, format!("{text} snows."));
            let mut position = 0;
            for (output, _) in stage.outputs() {
                assert_eq!(output.position, position, "{agreed} {text}");
                position += output.chunk.chars().count() as u64;
            }
        }
    }
}

/// A complete sentence with the hint `none`, as a projection of model chunks sends it, is sent if no text follows.
#[test]
fn a_sentence_with_the_hint_none_is_sent_after_a_pause() {
    let mut stage = stage(&json!({}));
    stage.write("It rains. It snows.", Some("none"));
    stage.wait(200);
    assert_eq!(stage.chunks(), [("It rains. ", "sentence"), ("It snows.", "sentence")]);
}

/// Text without a boundary is sent even after an event that waits for the rate.
#[test]
fn text_without_a_boundary_is_sent_before_later_events() {
    let mut stage = stage(&json!({ "max_events_per_second": 1 }));
    stage.write("It rains and", Some("none"));
    stage.emit(called("call_1"));
    stage.emit(called("call_2"));
    stage.drain();
    assert_eq!(stage.kinds().len(), 3);
    assert_eq!(stage.chunks(), [("It rains and", "word")]);
}

/// chunks that split a character are joined.
#[test]
fn chunks_that_split_characters_are_joined() {
    for pieces in [
        &["e", "\u{301}tude "][..],
        &["👩", "\u{200D}", "💻 "],
        &["❤", "\u{FE0F} "],
        &["🇳", "🇬", "🇫", "🇷 "],
        &["क", "्", "ष "],
        &["\u{1112}", "\u{1161}", "\u{11ab} "],
        &["👍", "🏽 "],
    ] {
        for agreed in ["none", "word"] {
            let mut stage = stage(&json!({"coalesce_boundaries": [agreed]}));
            for piece in pieces {
                stage.write(piece, Some("word"));
            }
            stage.write_last("x");
            let whole: String = pieces.concat() + "x";
            let chunks: Vec<&str> = stage.chunks().into_iter().map(|(chunk, _)| chunk).collect();
            assert_eq!(chunks.concat(), whole);
            let mut at = 0;
            for chunk in chunks {
                at += chunk.len();
                assert!(is_between(&whole, at), "{pieces:?} {agreed}: {chunk:?}");
            }
        }
    }
}

/// An unchanged chunk keeps its id; a joined or cut one gets a new id and lists its sources.
#[test]
fn joined_pieces_list_their_parts() {
    let mut stage = stage(&json!({}));
    stage.write("One. ", Some("sentence"));
    stage.write("Two", None);
    stage.write(". Three", None);
    stage.write_last(".");
    let seen: Vec<(String, String)> = stage
        .outputs()
        .iter()
        .map(|(_, event)| {
            let id = event.envelope.event_id.as_str();
            let note =
                event.envelope.extensions.get("recount").map_or(String::new(), |raw| raw.get().to_owned());
            let known = ["evt_0", "evt_1", "evt_2", "evt_3"].contains(&id);
            (if known { id.to_owned() } else { "new".to_owned() }, note)
        })
        .collect();
    let note =
        |ids: &[&str], count: u64| json!({"coalesced_count": count, "coalesced_from": ids}).to_string();
    assert_eq!(
        seen,
        [
            ("evt_0".into(), String::new()),
            ("new".into(), note(&["evt_1", "evt_2"], 2)),
            ("new".into(), note(&["evt_2", "evt_3"], 2)),
        ]
    );
    let text = stage.outputs()[1].1.to_json();
    let findings = recount_aaep::rule::check_text(&text, recount_aaep::rule::Profile::Strict);
    assert!(findings.iter().all(|finding| finding.rule.id == "extension.unresolved"), "{findings:?}");
}

/// A long text is sent in fragments within the limit, cut between words, else between characters (G-42).
#[test]
fn long_text_is_sent_in_fragments() {
    for (word, pieces) in [("word ", 5), ("x", 5), ("é", 5), ("e\u{301}\u{302}", 5), ("👩\u{200D}💻", 5)]
    {
        let mut stage = stage(&json!({"coalesce_boundaries": ["completion"]}));
        let part = word.repeat(8_000 / word.len());
        for _ in 0..9 {
            stage.write(&part, None);
        }
        stage.write_last("end");
        let whole = part.repeat(9) + "end";
        let chunks = stage.chunks();
        assert_eq!(chunks.iter().map(|(chunk, _)| *chunk).collect::<String>(), whole);
        assert_eq!(chunks.len(), pieces, "{word}");
        let mut at = 0;
        for (chunk, hint) in &chunks {
            assert!(
                chunk.len() <= 16 * 1024 && chunk.len() > 7_000 || *hint == "completion",
                "{word}: {}",
                chunk.len()
            );
            at += chunk.len();
            assert!(is_between(&whole, at), "{word}");
            assert_eq!(*hint, if at == whole.len() { "completion" } else { "none" });
        }
    }
}

/// Chunks with another language, output or content type are not joined.
#[test]
fn different_texts_are_not_joined() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(progress(1));
    stage.write_in("sess_1", "out_1", "One. ", None, false);
    stage.write_in("sess_1", "out_2", "Un. ", None, false);
    stage.write_in("sess_1", "out_1", "Two. ", None, true);
    stage.write_in("sess_1", "out_2", "Deux. ", None, true);
    stage.drain();
    let chunks: Vec<(&str, Option<&str>, u64)> = stage
        .outputs()
        .iter()
        .map(|(output, _)| (output.chunk.as_str(), output.output_id.as_deref(), output.position))
        .collect();
    assert_eq!(chunks, [("One. Two. ", Some("out_1"), 0), ("Un. Deux. ", Some("out_2"), 0)]);
}

/// A change of language ends a chunk anywhere.
#[test]
fn languages_are_not_mixed_in_one_chunk() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(called("call_1"));
    for (at, (chunk, language)) in
        [("He said ", "en"), ("« Bon", "fr"), ("jour » ", "fr"), ("twice.", "en")].iter().enumerate()
    {
        stage.write_spoken(chunk, language, at == 3);
    }
    stage.drain();
    let seen: Vec<(&str, Option<&str>, u64)> = stage
        .outputs()
        .iter()
        .map(|(output, _)| (output.chunk.as_str(), output.language.as_deref(), output.position))
        .collect();
    assert_eq!(
        seen,
        [("He said ", Some("en"), 0), ("« Bonjour » ", Some("fr"), 8), ("twice.", Some("en"), 20)]
    );
    assert_eq!(
        stage.chunks().iter().map(|(_, hint)| *hint).collect::<Vec<_>>(),
        ["none", "none", "completion"]
    );
}

/// An unfinished sentence continues after a later event, joined with the following text.
#[test]
fn later_events_pass_an_unfinished_sentence() {
    let mut stage = stage(&json!({}));
    stage.write("I see. Let me", None);
    stage.emit(state("idle", "calling_tool"));
    stage.emit(called("call_1"));
    stage.write(" look.", None);
    stage.write_last("");
    assert_eq!(stage.kinds(), ["output.streaming", "state.changed", "tool.invoked", "output.streaming"]);
    assert_eq!(stage.chunks(), [("I see. ", "sentence"), ("Let me look.", "completion")]);
}

/// Waiting text and later events keep their order.
#[test]
fn waiting_events_keep_their_order() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(called("call_0"));
    stage.write("One. Two", None);
    stage.emit(called("call_1"));
    stage.write(" and three. ", None);
    stage.emit(called("call_2"));
    stage.write_last("Four.");
    stage.drain();
    assert_eq!(
        stage.kinds(),
        [
            "tool.invoked",
            "output.streaming",
            "tool.invoked",
            "output.streaming",
            "tool.invoked",
            "output.streaming"
        ]
    );
    assert_eq!(
        stage.chunks(),
        [("One. ", "sentence"), ("Two and three. ", "sentence"), ("Four.", "completion")]
    );
}

const CHARACTERS: &[&str] = &[
    "a",
    "b",
    "Z",
    "7",
    " ",
    " ",
    " ",
    ". ",
    ".",
    "! ",
    "? ",
    "\n",
    "\n\n",
    "\r\n",
    ", ",
    "é",
    "e\u{301}",
    "o\u{323}\u{300}",
    "你",
    "好",
    "。",
    "，",
    "👩\u{200D}💻",
    "🇳🇬",
    "❤\u{FE0F}",
    "👍🏽",
    "क्ष",
    "\u{1112}\u{1161}\u{11ab}",
    "مرحبا",
    "\"",
    "3.5",
    "e.g. ",
    "J. ",
];

/// A text in chunks that are split between any two code points.
fn pieces() -> impl Strategy<Value = Vec<(String, Option<&'static str>, u64, u8)>> {
    let character = prop::sample::select(CHARACTERS.to_vec());
    (
        prop::collection::vec(character, 1..120),
        prop::collection::vec((1_usize..6, 0_u8..12, 0_u64..60, 0_u8..20), 120),
    )
        .prop_map(|(characters, steps)| {
            let text: Vec<char> = characters.concat().chars().collect();
            let mut pieces = Vec::new();
            let mut at = 0;
            for (length, hint, gap, other) in steps {
                if at >= text.len() {
                    break;
                }
                let to = (at + length).min(text.len());
                let piece: String = text[at..to].iter().collect();
                // The hint of a chunk is `word`, absent or `none`.
                let hint = match hint {
                    0..4 if piece.ends_with(' ') => Some("word"),
                    0..2 => Some("none"),
                    _ => None,
                };
                pieces.push((piece, hint, gap, other));
                at = to;
            }
            if at < text.len() {
                pieces.push((text[at..].iter().collect(), None, 0, 9));
            }
            pieces
        })
}

/// Whether a sentence ends there by the text alone, implemented independently of the tested code.
fn sentence_ends(text: &str, at: usize) -> bool {
    let before = &text[..at];
    let words = before.trim_end();
    before[words.len()..].contains('\n')
        || words
            .trim_end_matches(['"', '\'', ')', '*'])
            .ends_with(['.', '!', '?', '。', '！', '？', '؟', '…'])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// any text, chunks, boundaries and rate.
    #[test]
    fn chunks_concatenate_to_the_text_with_true_hints(
        pieces in pieces(),
        agreed in prop::sample::subsequence(vec!["none", "word", "sentence", "paragraph", "completion"], 1..=5),
        rate in prop::option::of(1_u32..30),
        pace in prop::option::of(50_u32..400),
        last in any::<bool>(),
    ) {
        let mut wish = json!({"coalesce_boundaries": agreed});
        if let Some(rate) = rate {
            wish["max_events_per_second"] = rate.into();
        }
        if let Some(pace) = pace {
            wish["pace_wpm"] = pace.into();
        }
        let mut stage = stage(&wish);
        let whole: String = pieces.iter().map(|(piece, ..)| piece.as_str()).collect();
        let mut so_far = 0;
        // Offsets with a pause, where the text counts as ended.
        let mut stops = std::collections::BTreeSet::new();
        for (at, (piece, hint, gap, other)) in pieces.iter().enumerate() {
            so_far += piece.len();
            if last && at + 1 == pieces.len() {
                stage.write_last(piece);
            } else {
                stage.write(piece, *hint);
            }
            // Another event arrives, or time passes, at points where a producer could do so.
            let between = whole.grapheme_indices(true).any(|(begins, _)| begins == so_far);
            if between && *other < 3 {
                let last = whole[..so_far].graphemes(true).next_back().map_or(0, str::len);
                stops.extend([so_far, so_far - last]);
            }
            match other {
                0 if between => { stage.emit(progress(1)); }
                1 if between => { stage.emit(called("call_1")); }
                2 if between => { stage.wait(3_000); }
                _ => stage.wait(*gap),
            }
        }
        if !last {
            stage.write_last("");
        }
        stage.drain();
        prop_assert_eq!(stage.shaper.held_events(), 0);

        let outputs = stage.outputs();
        let joined: String = outputs.iter().map(|(output, _)| output.chunk.as_str()).collect();
        prop_assert_eq!(&joined, &whole);
        let mut at = 0;
        for (number, (output, event)) in outputs.iter().enumerate() {
            prop_assert_eq!(output.position, whole[..at].chars().count() as u64, "positions count characters");
            at += output.chunk.len();
            prop_assert!(is_between(&whole, at), "cut inside a character at {}: {:?}", at, output.chunk);
            prop_assert_eq!(output.complete, number + 1 == outputs.len());
            let hint = output.coalesce_hint.as_ref().unwrap().as_str();
            let stopped = stops.contains(&at);
            prop_assert!(agreed.contains(&hint) || (stopped && hint == "word"), "`{}` was not agreed", hint);
            if !output.complete {
                let ends_word = whole[..at].ends_with(char::is_whitespace) || whole[..at].ends_with(['。', '，']);
                let true_hint = match hint {
                    "none" => true,
                    "word" => stopped || ends_word || sentence_ends(&whole, at),
                    "sentence" => sentence_ends(&whole, at) || (stopped && sentence_ends(&whole[..at], at)),
                    "paragraph" => whole[whole[..at].trim_end().len()..at].matches('\n').count() >= 2,
                    _ => false,
                };
                prop_assert!(true_hint, "`{}` is not true of {:?}", hint, output.chunk);
            }
            prop_assert!(event.to_json().len() < 64 * 1024);
        }
        let ids: std::collections::BTreeSet<&str> = stage.out.iter().map(|(_, event)| event.envelope.event_id.as_str()).collect();
        prop_assert_eq!(ids.len(), stage.out.len(), "each event has an id of its own");
    }
}
