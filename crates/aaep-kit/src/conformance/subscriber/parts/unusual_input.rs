//! Checks that a subscriber survives unusual input: later versions, extensions, oversized, broken or foreign messages,
//! and legal but unusual framing. After each, it must still answer the next prompt (or keep the connection, if it
//! answers nothing).

use serde_json::{Map, Value, json};

use crate::conformance::Outcome;
use crate::conformance::subscriber::builder::{Event, Prompt, PromptKind};
use crate::conformance::subscriber::piece::{Framing, Piece};
use crate::conformance::subscriber::trial::{SubscriberReaction, Trial};
use crate::conformance::subscriber::{Expectation, TrialError};
use crate::limits;

pub(super) const NOT_CONNECTED: &str = "the subscriber was not connected";
pub(super) const SILENT_BY_ITSELF: &str = "it answers nothing by itself";
const TAKES: Expectation = Expectation("R-145", "it takes events, and its replies arrive");

const FOREIGN: &str = "https://example.org/some-other-protocol/v1";
const EXTENSION: &str = "https://example.org/extension/v1";
const CORE: &str = recount_aaep::kind::CONTEXT;

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !first(trial).await? {
        return Ok(());
    }
    everything(trial).await?;
    for (expects, pieces) in strange(trial) {
        bears(trial, expects, &pieces).await?;
    }
    for (expects, pieces) in broken(trial) {
        bears(trial, expects, &pieces).await?;
    }
    decoys(trial).await?;
    odd_prompts(trial).await?;
    framed(trial).await
}

/// Sends the first prompt, which shows whether later silence is meaningful.
async fn first(trial: &mut Trial<'_>) -> Result<bool, TrialError> {
    trial.start_check();
    let reaction = trial.probe().await;
    let detail = format!("{}; {}", trial.subject.answers.description(), trial.describe(&reaction));
    if matches!(reaction, SubscriberReaction::Silent) {
        trial.unresponsive = true;
        trial.note("It answers nothing, so from here on only its connection shows how it is.");
    }
    let outcome = match reaction {
        SubscriberReaction::Answered { .. } => Outcome::Passed,
        SubscriberReaction::StayedConnected => Outcome::NotShown("its prompts are not answered".into()),
        SubscriberReaction::Silent | SubscriberReaction::Disconnected => Outcome::Failed,
    };
    trial.check(TAKES, outcome, detail);
    if matches!(reaction, SubscriberReaction::Disconnected) { trial.present().await } else { Ok(true) }
}

/// Sessions of every type and every ending.
async fn everything(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    use recount_aaep::wire::Boundary;
    if !trial.present().await? {
        return Ok(());
    }
    trial.start_check();
    let builder = &mut trial.builder;
    let mut events = vec![builder.progress(1, 2), builder.go("calling_tool")];
    events.extend(builder.call());
    events.push(builder.go("writing_output"));
    events.push(builder.output("All is ", 0, Boundary::None));
    events.push(builder.output("well. ", 7, Boundary::Sentence));
    events.push(builder.last_output("", 13));
    events.extend([builder.go("handing_off"), builder.handoff(), builder.completed()]);
    events.extend([builder.begin(), builder.errored(), builder.begin(), builder.cancelled()]);
    events.extend([builder.begin(), builder.go("thinking")]);
    for event in &events {
        trial.send_event(event).await;
    }
    after(trial, Expectation("R-041", "it takes sessions of every type and every ending")).await
}

/// Whether a subscriber is connected; starts a fresh session then.
async fn is_ready(trial: &mut Trial<'_>, expects: Expectation) -> Result<bool, TrialError> {
    let is_present = trial.present().await?;
    if is_present {
        trial.start_check();
    } else {
        trial.not_shown(expects, NOT_CONNECTED);
    }
    Ok(is_present)
}

/// Sends the pieces and checks whether the subscriber still works.
async fn bears(trial: &mut Trial<'_>, expects: Expectation, pieces: &[Piece]) -> Result<(), TrialError> {
    if !is_ready(trial, expects).await? {
        return Ok(());
    }
    for piece in pieces {
        trial.send_piece(piece).await;
    }
    after(trial, expects).await
}

/// Checks the subscriber after unusual input.
async fn after(trial: &mut Trial<'_>, expects: Expectation) -> Result<(), TrialError> {
    let reaction = trial.probe().await;
    let detail = trial.describe(&reaction);
    trial.check_that(expects, reaction.is_healthy(), detail);
    trial.recover(&reaction).await
}

type Stimulus = (Expectation, Vec<Piece>);

fn piece(event: &Event) -> Piece {
    event.piece()
}

/// Messages of extensions, later versions and large producers.
fn strange(trial: &mut Trial<'_>) -> Vec<Stimulus> {
    let builder = &mut trial.builder;
    let mut event = |fields: Value| builder.progress(1, 3).with(fields);
    let both = json!([CORE, EXTENSION]);
    let mut deep = json!("the bottom");
    for _ in 0..recount_aaep::limits::EVENT_DEPTH_SOFT + 1 {
        deep = json!({ "deeper": deep });
    }
    let wide: Map<String, Value> = (0..recount_aaep::limits::EVENT_FIELDS_SOFT + 1)
        .map(|at| (format!("later_{at}"), at.into()))
        .collect();
    let long = "a".repeat(limits::TRIAL_LONG_STRING);
    let large = "b".repeat(limits::TRIAL_LARGE_EVENT);
    let huge = "c".repeat(limits::TRIAL_HUGE_EVENT);
    vec![
        (
            Expectation("R-005", "it survives events of unknown types"),
            vec![piece(&event(
                json!({"type": "xray:thing.happened", "@context": both, "finding": {"a": 1}}),
            ))],
        ),
        (
            Expectation("R-005", "it survives frames with unknown names"),
            vec![piece(&event(json!({"type": "xray:thing.happened", "@context": both}))).named("xray.event")],
        ),
        (
            Expectation("R-204", "it survives event types of a later version"),
            vec![piece(&event(json!({"type": "aaep:agent.mood.changed", "from_mood": "calm"})))],
        ),
        (
            Expectation("R-204", "it survives fields and words of a later version"),
            vec![
                piece(&event(
                    json!({"urgency": "whenever", "verbosity": "poetic", "later_field": [1, {"a": null}]}),
                )),
                piece(&voice_tool(&mut event)),
            ],
        ),
        (
            Expectation("R-017", "it survives objects of unknown extensions"),
            vec![piece(&event(json!({
                "@context": both,
                "extensions": {"xray": {"dose": 3, "nested": {"list": [1, 2, 3]}}},
            })))],
        ),
        (
            Expectation("R-038", "it survives unknown states"),
            vec![
                piece(&event(json!({
                    "type": "aaep:agent.state.changed", "from_state": "thinking", "to_state": "pondering",
                    "summary_normal": "Pondering.", "progress": null,
                }))),
                piece(&event(json!({
                    "type": "aaep:agent.state.changed", "from_state": "pondering", "to_state": "thinking",
                    "summary_normal": "Thinking.",
                }))),
            ],
        ),
        (
            Expectation(
                "R-021",
                "it survives events that are nested deeply, have many fields, or hold a long string",
            ),
            vec![
                piece(&event(json!({"@context": both, "extensions": {"xray": deep}}))),
                piece(&event(Value::Object(wide))),
                piece(&event(json!({ "summary_detailed": long }))),
            ],
        ),
        (
            Expectation("R-021", "it survives an event of more than 64 KiB"),
            vec![piece(&event(json!({"@context": both, "extensions": {"xray": {"image": large}}})))],
        ),
        (
            Expectation("R-148", "it survives an event of a mebibyte"),
            vec![piece(&event(json!({"@context": both, "extensions": {"xray": {"image": huge}}})))],
        ),
    ]
}

fn voice_tool(event: &mut impl FnMut(Value) -> Event) -> Event {
    event(json!({
        "type": "aaep:agent.tool.completed", "tool": "scan", "status": "partially", "progress": null,
        "summary_normal": "Scanned half of it.",
    }))
}

/// Messages that are not events.
fn broken(trial: &mut Trial<'_>) -> Vec<Stimulus> {
    let builder = &mut trial.builder;
    let whole = builder.progress(1, 3).value.to_string();
    let raw = |bytes: &[u8]| Piece::new(None, bytes);
    let half = &whole.as_bytes()[..whole.len() / 2];
    let bare: Vec<Piece> = ["event_id", "session_id", "timestamp", "producer", "type", "@context"]
        .into_iter()
        .map(|field| {
            let mut event = builder.progress(1, 3);
            if let Value::Object(fields) = &mut event.value {
                fields.remove(field);
            }
            piece(&event)
        })
        .collect();
    let wrong: Vec<Piece> = [
        json!({"session_id": 7}),
        json!({"timestamp": {"a": 1}}),
        json!({"producer": "me"}),
        json!({"type": null}),
        json!({"progress": []}),
        json!({"summary_normal": 5}),
        json!({"localization_hints": "en"}),
    ]
    .into_iter()
    .map(|fields| piece(&builder.progress(1, 3).with(fields)))
    .collect();
    vec![
        (Expectation("R-025", "it survives half an event"), vec![raw(half)]),
        (
            Expectation("R-022", "it survives bytes that are not JSON in UTF-8"),
            vec![
                raw(b"hello"),
                raw(b"{\"type\": \"aaep:agent.progress.updated\", }"),
                raw(b"{\"type\": NaN}"),
                raw(b"\xff\xfe{\x00}\x00"),
                raw(b"{\"summary_normal\": \"\xc3\x28\"}"),
                raw(b""),
            ],
        ),
        (
            Expectation("R-022", "it survives a lone surrogate"),
            vec![raw(b"{\"summary_normal\": \"\\ud800\"}")],
        ),
        (
            Expectation("R-022", "it survives JSON that is not an object"),
            vec![raw(b"[]"), raw(b"null"), raw(b"7"), raw(b"\"text\"")],
        ),
        (Expectation("R-003", "it survives events that lack a field of the envelope"), bare),
        (Expectation("R-022", "it survives fields of the wrong type"), wrong),
    ]
}

/// Invalid prompts, which must not be answered.
async fn decoys(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    let mut prompts: Vec<Prompt> = Vec::new();
    for _ in 0..3 {
        let token = trial.builder.token();
        prompts.push(trial.builder.confirmation(token, limits::TRIAL_PROMPT_SECONDS));
    }
    let [foreign, half, comma] = &prompts[..] else { return Ok(()) };
    let whole = half.event.value.to_string();
    // The cut prompt contains everything that an incomplete reader would need.
    let cut = whole.find("\"verbosity\"").unwrap_or(whole.len() - 1);
    let comma_text = comma.event.value.to_string();
    let wire = [
        (
            Expectation("R-003", "it answers no prompt of another protocol"),
            foreign.clone(),
            piece(&foreign.event.clone().with(json!({ "@context": FOREIGN }))),
        ),
        (
            Expectation("R-025", "it answers no truncated prompt"),
            half.clone(),
            Piece::new(None, &whole.as_bytes()[..cut]),
        ),
        (
            Expectation("R-022", "it answers no prompt that is not JSON"),
            comma.clone(),
            Piece::new(None, format!("{},}}", &comma_text[..comma_text.len() - 1])),
        ),
    ];
    for (expects, prompt, piece) in wire {
        if !is_ready(trial, expects).await? {
            continue;
        }
        let quiet = trial.quiet();
        match trial.send_prompt_for(prompt, &piece, quiet).await {
            SubscriberReaction::Answered { .. } => trial.check_that(expects, false, "it answered"),
            SubscriberReaction::Disconnected => {
                let detail = trial.describe(&SubscriberReaction::Disconnected);
                trial.check_that(expects, false, detail);
            }
            SubscriberReaction::StayedConnected | SubscriberReaction::Silent if trial.answers() => {
                let reaction = trial.probe().await;
                let detail = trial.describe(&reaction);
                trial.check_that(expects, reaction.is_healthy(), format!("it left it alone, and {detail}"));
                trial.recover(&reaction).await?;
            }
            SubscriberReaction::StayedConnected | SubscriberReaction::Silent => {
                let why = Outcome::NotShown(SILENT_BY_ITSELF.into());
                trial.check(expects, why, "it stayed connected");
            }
        }
    }
    Ok(())
}

/// Valid prompts that look unusual and must be answered.
async fn odd_prompts(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    type Odd = fn(&Event) -> Piece;
    let odd: [(Expectation, Odd); 6] = [
        (Expectation("R-006", "it recognizes a prompt by the full name of its type"), |event| {
            let uri = recount_aaep::Kind::AwaitingConfirmation.uri();
            piece(&event.clone().with(json!({ "type": uri })))
        }),
        (Expectation("R-020", "it reads keys in any order"), |event| {
            Piece::new(Some(event.id.clone()), event.reversed())
        }),
        (Expectation("R-017", "it takes a prompt with objects of extensions"), |event| {
            let extensions = json!({"xray": {"dose": 3}});
            piece(&event.clone().with(json!({"@context": [CORE, EXTENSION], "extensions": extensions})))
        }),
        (Expectation("R-204", "it takes a prompt with fields and words of a later version"), |event| {
            piece(&event.clone().with(json!({
                "later_field": {"a": 1}, "risk_level": "moderate", "reversibility": "mostly", "aaep_version": "1.7.0",
            })))
        }),
        (Expectation("R-184", "it takes texts in any normal form"), |event| {
            let decomposed = "S\u{323}e\u{301} ki\u{301} n fi owo\u{301} ran\u{301}s\u{323}e\u{301}?";
            let hints = json!({"primary_language": "yo"});
            piece(&event.clone().with(json!({
                "action": decomposed, "summary_normal": decomposed, "localization_hints": hints,
            })))
        }),
        (Expectation("R-148", "it takes a prompt of nearly 64 KiB"), |event| {
            let padding = "p".repeat(limits::TRIAL_FULL_EVENT);
            piece(&event.clone().with(json!({ "extra_context": {"padding": padding} })))
        }),
    ];
    for (expects, on_the_wire) in odd {
        oddly(trial, expects, Outcome::Failed, on_the_wire).await?;
    }
    Ok(())
}

/// Valid events in every legal framing.
async fn framed(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    let Some(open) = trial.producer.lines().pop() else { return Ok(()) };
    type Odd = fn(&Event) -> Piece;
    let pretty: Odd = |event| {
        let text = serde_json::to_string_pretty(&event.value).unwrap_or_else(|_| event.value.to_string());
        Piece::new(Some(event.id.clone()), text).framed(Framing::Lines)
    };
    oddly(trial, Expectation("R-141", "it takes JSON of several lines"), Outcome::Failed, pretty).await?;
    let odd: [(Expectation, Outcome, Odd); 3] = [
        (Expectation("R-141", "it takes events that come in small pieces"), Outcome::Failed, |event| {
            let name = json!({"summary_normal": "Überweisung für Zoë: 20 € 🐖"});
            piece(&event.clone().with(name)).framed(Framing::Split)
        }),
        (
            Expectation(
                "R-141",
                "it takes frames with comments, unknown fields, and no space behind the colon",
            ),
            Outcome::Failed,
            |event| piece(event).framed(Framing::Odd),
        ),
        // Event streams may use CR LF, but no known producer does.
        (Expectation("R-141", "it takes lines that end in CR LF"), Outcome::Warned, |event| {
            piece(event).framed(Framing::Crlf)
        }),
    ];
    for (expects, otherwise, on_the_wire) in odd {
        if open.surface.is_socket() {
            trial.inapplicable(expects, "a WebSocket has no lines");
            continue;
        }
        oddly(trial, expects, otherwise, on_the_wire).await?;
    }
    Ok(())
}

async fn oddly(
    trial: &mut Trial<'_>,
    expects: Expectation,
    otherwise: Outcome,
    on_the_wire: fn(&Event) -> Piece,
) -> Result<(), TrialError> {
    if !is_ready(trial, expects).await? {
        return Ok(());
    }
    let reaction = trial.probe_as(on_the_wire).await;
    let detail = match &reaction {
        SubscriberReaction::Answered { after, .. } => format!("it answered after {} ms", after.as_millis()),
        SubscriberReaction::Silent => "it did not answer".to_owned(),
        reaction => trial.describe(reaction),
    };
    let outcome = match &reaction {
        SubscriberReaction::Answered { .. } => Outcome::Passed,
        SubscriberReaction::StayedConnected => Outcome::NotShown(SILENT_BY_ITSELF.into()),
        SubscriberReaction::Silent => otherwise,
        SubscriberReaction::Disconnected => Outcome::Failed,
    };
    trial.check(expects, outcome, detail);
    if matches!(reaction, SubscriberReaction::Silent) {
        // Checks whether it skipped only this one or is stuck.
        let next = trial.probe().await;
        trial.recover(&next).await?;
    }
    Ok(())
}

/// A question of each kind.
pub(super) const QUESTIONS: [PromptKind; 4] =
    [PromptKind::FreeText, PromptKind::YesNo, PromptKind::Choice, PromptKind::Numeric];
