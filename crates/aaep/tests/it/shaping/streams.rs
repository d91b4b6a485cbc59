//! Property test of any stream with a renegotiation: the text is complete, critical events are sent once and in time,
//! no character is split, the rate holds, and held events are bounded (R-057, R-060, R-115, R-116, R-118, R-120,
//!

use std::collections::BTreeSet;

use proptest::prelude::*;
use recount_aaep::wire::{Body, CancelledBy};
use recount_aaep::{Event, Kind, build, limits};
use serde_json::{Value, json};
use unicode_segmentation::UnicodeSegmentation as _;

use super::stage::{Stage, called, handoff, progress, prompt, returned, stage, state, terms};

/// A step of a stream.
#[derive(Debug, Clone)]
enum Step {
    /// A number of grapheme clusters of the text, in chunks that end between any two code points.
    Write {
        clusters: usize,
        cuts: Vec<usize>,
        hinted: bool,
    },
    Change,
    Progress,
    Call,
    Prompt,
    Handoff,
    Wait(u64),
    Renegotiate(Terms),
}

#[derive(Debug, Clone)]
struct Terms {
    rate: Option<u32>,
    boundaries: Vec<&'static str>,
    load: &'static str,
    pace: Option<u32>,
}

impl Terms {
    fn wish(&self) -> Value {
        let mut wish = json!({"coalesce_boundaries": self.boundaries, "cognitive_load": self.load});
        if let Some(rate) = self.rate {
            wish["max_events_per_second"] = rate.into();
        }
        if let Some(pace) = self.pace {
            wish["pace_wpm"] = pace.into();
        }
        wish
    }
}

const CLUSTERS: &[&str] = &[
    "a",
    "b",
    "Z",
    "7",
    " ",
    " ",
    ". ",
    "! ",
    "? ",
    "\n",
    "\n\n",
    "\r\n",
    ", ",
    "e\u{301}",
    "o\u{323}\u{300}",
    "你",
    "。",
    "，",
    "👩\u{200D}💻",
    "🇳🇬",
    "❤\u{FE0F}",
    "👍🏽",
    "क्ष",
    "\u{1112}\u{1161}\u{11ab}",
    "ب",
    "؟ ",
    "\"",
    "Dr. ",
    "।",
];

fn a_terms() -> impl Strategy<Value = Terms> {
    let boundaries =
        prop::sample::subsequence(vec!["none", "word", "sentence", "paragraph", "completion"], 1..=5);
    let load = prop::sample::select(vec!["low", "medium", "high"]);
    (prop::option::weighted(0.8, 1_u32..12), boundaries, load, prop::option::of(50_u32..400))
        .prop_map(|(rate, boundaries, load, pace)| Terms { rate, boundaries, load, pace })
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (1_usize..12, prop::collection::vec(1_usize..5, 12), any::<bool>())
            .prop_map(|(clusters, cuts, hinted)| Step::Write { clusters, cuts, hinted }),
        2 => Just(Step::Change),
        2 => Just(Step::Progress),
        2 => Just(Step::Call),
        2 => Just(Step::Prompt),
        1 => Just(Step::Handoff),
        4 => prop_oneof![0_u64..40, 0_u64..2_500].prop_map(Step::Wait),
        1 => a_terms().prop_map(Step::Renegotiate),
    ]
}

/// The pushed events of one session.
#[derive(Default)]
struct Pushed {
    text: String,
    /// Ids of critical events, with the length of the text before them.
    criticals: Vec<(String, usize)>,
    state: usize,
    progress: u64,
    calls: Vec<String>,
}

const STATES: [&str; 3] = ["thinking", "calling_tool", "deciding"];

fn write(stage: &mut Stage, pushed: &mut Pushed, clusters: &str, cuts: &[usize], hinted: bool) {
    let characters: Vec<char> = clusters.chars().collect();
    let mut from = 0;
    let mut cuts = cuts.iter().cycle();
    while from < characters.len() {
        let to = (from + cuts.next().unwrap()).min(characters.len());
        let piece: String = characters[from..to].iter().collect();
        let hint = (hinted && piece.ends_with(' ')).then_some("word");
        pushed.text.push_str(&piece);
        stage.write(&piece, hint);
        from = to;
    }
}

fn perform(
    stage: &mut Stage,
    pushed: &mut Pushed,
    step: &Step,
    text: &mut impl Iterator<Item = &'static str>,
) {
    match step {
        Step::Write { clusters, cuts, hinted } => {
            let clusters: String = text.take(*clusters).collect();
            write(stage, pushed, &clusters, cuts, *hinted);
        }
        Step::Change => {
            let (from, to) = (pushed.state % 3, (pushed.state + 1) % 3);
            pushed.state += 1;
            stage.emit(state(STATES[from], STATES[to]));
        }
        Step::Progress => {
            pushed.progress += 1;
            stage.emit(progress(pushed.progress));
        }
        Step::Call => {
            let call = format!("call_{}", pushed.calls.len());
            pushed.calls.push(stage.emit(called(&call)));
            pushed.calls.push(stage.emit(returned(&call)));
        }
        Step::Prompt | Step::Handoff => {
            let before = pushed.text.len();
            let id = match step {
                Step::Prompt => stage.emit(prompt("rpl_1")),
                _ => stage.emit(handoff()),
            };
            pushed.criticals.push((id, before));
        }
        Step::Wait(millis) => stage.wait(*millis),
        Step::Renegotiate(changed) => {
            stage.shaper.terms_changed(terms(&changed.wish()));
            stage.collect();
        }
    }
}

/// Whether no character of the text continues after this offset.
pub(super) fn is_between(text: &str, at: usize) -> bool {
    at == text.len() || text.grapheme_indices(true).any(|(begins, _)| begins == at)
}

/// Checks text, positions and cuts. Each critical event is sent once, in time, after all earlier text except a
/// character that could still grow.
fn check(stage: &Stage, pushed: &Pushed) -> Result<(), TestCaseError> {
    let mut sent = 0;
    let mut criticals = pushed.criticals.iter();
    let mut ids = BTreeSet::new();
    for (_, event) in &stage.out {
        prop_assert!(ids.insert(event.envelope.event_id.as_str()), "an id appears twice");
        match &event.body {
            Body::OutputStreaming(output) => {
                prop_assert_eq!(output.position, pushed.text[..sent].chars().count() as u64);
                prop_assert!(pushed.text[sent..].starts_with(&output.chunk), "at {sent}: {:?}", output.chunk);
                sent += output.chunk.len();
                prop_assert!(
                    is_between(&pushed.text, sent),
                    "a cut inside a character after {:?}",
                    output.chunk
                );
            }
            Body::AwaitingConfirmation(_) | Body::HandoffRequested(_) => {
                let Some((id, before)) = criticals.next() else {
                    return Err(TestCaseError::fail("one too many"));
                };
                prop_assert_eq!(event.envelope.event_id.as_str(), id.as_str());
                prop_assert!(sent <= *before, "it is sent after later text");
                let left = &pushed.text[sent..*before];
                prop_assert!(left.trim().graphemes(true).count() <= 1, "{left:?} should be sent before it");
            }
            _ => {}
        }
    }
    prop_assert_eq!(sent, pushed.text.len(), "the whole text is sent");
    prop_assert_eq!(criticals.count(), 0, "each critical event is sent");
    Ok(())
}

/// The number of original events of a kind.
fn count_of(stage: &Stage, kind: Kind) -> u64 {
    let count = |event: &Event| {
        let note = event.envelope.extensions.get("recount")?;
        serde_json::from_str::<Value>(note.get()).unwrap()["coalesced_count"].as_u64()
    };
    stage
        .out
        .iter()
        .filter(|(_, event)| event.kind() == Some(kind))
        .map(|(_, event)| count(event).unwrap_or(1))
        .sum()
}

/// The maximum for a second that begins at a time: the highest rate that applied in it.
fn allowed(rates: &[(u64, Option<u32>)], from: u64) -> Option<u32> {
    let mut most = 0;
    for (at, (since, rate)) in rates.iter().enumerate() {
        let until = rates.get(at + 1).map_or(u64::MAX, |next| next.0);
        if *since < from + 1_000 && until >= from {
            most = most.max((*rate)?);
        }
    }
    Some(most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_renegotiated_stream_loses_nothing(
        began in a_terms(),
        clusters in prop::collection::vec(prop::sample::select(CLUSTERS), 1..60),
        steps in prop::collection::vec(a_step(), 1..80),
    ) {
        let mut stage = stage(&began.wish());
        let mut pushed = Pushed::default();
        let mut text = clusters.iter().copied().cycle();
        let mut rates = vec![(0, began.rate)];
        for step in &steps {
            if let Step::Renegotiate(changed) = step {
                rates.push((stage.now, changed.rate));
            }
            let before = stage.out.len();
            perform(&mut stage, &mut pushed, step, &mut text);
            if matches!(step, Step::Prompt | Step::Handoff) {
                let (when, event) = stage.out.last().unwrap();
                prop_assert!(event.kind().is_some_and(Kind::is_critical) && *when == stage.now, "it did not wait");
                prop_assert!(stage.out.len() > before);
            }
            prop_assert!(stage.shaper.held_events() <= limits::SHAPED_HELD_EVENTS_MAX);
            prop_assert!(stage.shaper.held_bytes() <= limits::SHAPED_HELD_BYTES_MAX);
        }
        stage.write_last("");
        stage.emit(build::session_cancelled(CancelledBy::User, "Given up."));
        stage.drain();
        prop_assert_eq!(stage.shaper.held_events(), 0);
        prop_assert_eq!(stage.shaper.counts().ahead, 0);
        check(&stage, &pushed)?;

        // No event is lost; each merge is counted.
        prop_assert_eq!(count_of(&stage, Kind::StateChanged), pushed.state as u64);
        prop_assert_eq!(count_of(&stage, Kind::ProgressUpdated), pushed.progress);
        // Calls are unmerged and in order.
        let is_call = |event: &Event| matches!(event.body, Body::ToolInvoked(_) | Body::ToolCompleted(_));
        let calls: Vec<&str> = stage.out.iter().filter(|(_, event)| is_call(event))
            .map(|(_, event)| event.envelope.event_id.as_str()).collect();
        prop_assert_eq!(calls, pushed.calls.iter().map(String::as_str).collect::<Vec<_>>());

        // Critical events may exceed the rate together with their text; otherwise no second exceeds it.
        if pushed.criticals.is_empty() {
            let times: Vec<u64> = stage.out.iter().map(|(when, _)| *when).collect();
            for (at, from) in times.iter().enumerate() {
                let count = times[at..].iter().take_while(|time| **time < from + 1_000).count();
                if let Some(most) = allowed(&rates, *from) {
                    prop_assert!(count <= most as usize, "{count} in the second from {from}, {most} are allowed");
                }
            }
        }
    }
}
