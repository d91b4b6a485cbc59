//! Checks of terms: one session on many subscriptions with different terms, compared with each other.

use std::collections::BTreeMap;
use std::time::Duration;

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::reply::{shown, turn_down, with};
use crate::conformance::conversation::Conversation;
use crate::conformance::judge;
use crate::conformance::producer::harness::{Harness, PartError, able};
use crate::conformance::producer::specs::{self, Spec};
use crate::conformance::transcript::{Line, Scope};
use crate::limits;
use crate::scenario::Scenario;

/// Capabilities with every boundary, so that nothing needs to be joined.
pub(super) fn fine() -> Value {
    able(json!({"coalesce_boundaries": ["none", "word", "sentence", "paragraph", "completion"]}))
}

const BOUNDARIES: [&str; 4] = ["word", "sentence", "paragraph", "completion"];

/// Opens several subscriptions, or none if one fails.
pub(super) async fn open(
    harness: &Harness<'_>,
    terms: Vec<(&'static str, Scope, Value)>,
) -> Result<BTreeMap<&'static str, Conversation>, PartError> {
    let mut conversations = BTreeMap::new();
    for (name, scope, capabilities) in terms {
        match harness.subscribe(&format!("a story for \"{name}\""), scope, capabilities).await {
            Ok(conversation) => {
                conversations.insert(name, conversation);
            }
            Err(error) => {
                close(harness, conversations).await;
                return Err(error);
            }
        }
    }
    Ok(conversations)
}

pub(super) async fn close(harness: &Harness<'_>, conversations: BTreeMap<&'static str, Conversation>) {
    for conversation in conversations.into_values() {
        harness.finish(conversation).await;
    }
}

pub(super) async fn story(harness: &Harness<'_>) -> Result<(), PartError> {
    let with = |more: Value| with(fine(), more);
    let rate = limits::RATE_TRIED;
    let mut terms = vec![
        ("fine", Scope::Whole, fine()),
        ("slow", Scope::Whole, able(json!({"max_events_per_second": rate}))),
        ("terse", Scope::Whole, with(json!({"preferred_verbosity": "terse"}))),
        ("detailed", Scope::Whole, with(json!({"preferred_verbosity": "detailed"}))),
        (
            "little",
            Scope::Whole,
            able(json!({"cognitive_load": "low", "pace_wpm": 80, "preferred_verbosity": "terse"})),
        ),
        (
            "much",
            Scope::Whole,
            with(json!({"cognitive_load": "high", "pace_wpm": 400, "preferred_verbosity": "detailed"})),
        ),
        ("klingon", Scope::Whole, with(json!({"languages": ["tlh"]}))),
    ];
    terms
        .extend(BOUNDARIES.map(|one| (one, Scope::Whole, able(json!({"coalesce_boundaries": agreed(one)})))));
    let conversations = open(harness, terms).await?;
    let outcome = run_story(harness, &conversations).await;
    close(harness, conversations).await;
    outcome
}

/// A boundary, and completion, which always counts as one.
fn agreed(boundary: &str) -> Vec<&str> {
    if boundary == "completion" { vec![boundary] } else { vec![boundary, "completion"] }
}

async fn run_story(
    harness: &Harness<'_>,
    conversations: &BTreeMap<&'static str, Conversation>,
) -> Result<(), PartError> {
    let fine = &conversations["fine"];
    let session = harness.begin(fine, Scenario::LongStream).await?;
    harness.end_of(fine, &session).await.ok_or("the story did not end in time")?;
    let mut received: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
    for (name, conversation) in conversations {
        if harness.end_of(conversation, &session).await.is_none() {
            // At its rate the story may take longer than the patience.
            conversation.mark_cut_short();
        }
        received.insert(
            name,
            conversation.read(|lines| {
                lines.iter().filter(|line| line.is_event() && line.session() == session).cloned().collect()
            }),
        );
    }
    if judge::joined(&received["fine"]).is_empty() {
        return Err("the story had no output".to_owned());
    }
    check_text(harness, &received);
    boundaries(harness, &received);
    check_event_count(harness, &received);
    check_verbosity(harness, &received);
    check_unknown_language(harness, &received);
    check_oldest_version(harness, &received);
    Ok(())
}

/// Several sessions at once exceed a subscription's rate with events that cannot be joined.
pub(super) async fn burst(harness: &Harness<'_>) -> Result<(), PartError> {
    let terms = with(fine(), json!({"max_events_per_second": limits::BURST_RATE}));
    let conversations =
        open(harness, vec![("sessions", Scope::Part, fine()), ("sessions in a hurry", Scope::Part, terms)])
            .await?;
    let outcome = async {
        let (all, slow) = (&conversations["sessions"], &conversations["sessions in a hurry"]);
        // A busy machine may deliver delayed events in a burst, which is not the producer's fault. Repeat the
        // measurement when the rate looks too high.
        for left in (0..limits::RATE_TRIES).rev() {
            let from = (all.len(), slow.len());
            for _ in 0..limits::BURST_SESSIONS {
                harness.drive(all, Scenario::Tool).await?;
            }
            for (conversation, from) in [(all, from.0), (slow, from.1)] {
                let ended = |lines: &[Line]| {
                    let ends = lines[from..].iter().filter(|line| line.is_terminal()).count();
                    (ends >= limits::BURST_SESSIONS).then_some(())
                };
                conversation.until(harness.patience(), ended).await;
            }
            let lines = slow.read(|lines| lines[from.1..].to_vec());
            if left == 0 || too_fast(&lines, limits::BURST_RATE).is_none() {
                rate(harness, &specs::RATE, &lines, limits::BURST_RATE);
                break;
            }
        }
        Ok(())
    };
    let outcome = outcome.await;
    close(harness, conversations).await;
    outcome
}

/// More events within one second than agreed: how many, and when.
pub(super) fn too_fast(lines: &[Line], rate: u32) -> Option<(usize, u64)> {
    let plain = lines.iter().filter(|line| line.is_event() && !line.is_critical());
    let moments: Vec<u64> = plain.map(|line| line.at_ms).collect();
    let (most, at) = judge::busiest_second(&moments);
    let allowed = rate as usize + (rate as usize * limits::RATE_SLACK_PERCENT).div_ceil(100) + 1;
    (most > allowed).then_some((most, at))
}

pub(super) fn rate(harness: &Harness<'_>, spec: &'static Spec, lines: &[Line], rate: u32) {
    let count = lines.iter().filter(|line| line.is_event() && !line.is_critical()).count();
    if count <= rate as usize {
        return harness.not_shown(spec, format!("{count} events came, too few to exceed {rate} a second"));
    }
    match too_fast(lines, rate) {
        Some((most, at)) => {
            let within =
                lines.iter().filter(|line| (at..at + 1_000).contains(&line.at_ms) && line.is_event());
            let detail = format!("{most} events came within one second, and {rate} were agreed");
            harness.failed(spec, detail, within.map(Line::shown));
        }
        None => {
            let moments: Vec<u64> =
                lines.iter().filter(|line| line.is_event()).map(|line| line.at_ms).collect();
            let (most, _) = judge::busiest_second(&moments);
            harness.passed(
                spec,
                format!("{count} events, at most {most} within any second; {rate} were agreed"),
            );
        }
    }
}

fn texts(lines: &[Line]) -> Vec<String> {
    judge::joined(lines).into_values().filter(|text| !text.is_empty()).collect()
}

fn check_text(harness: &Harness<'_>, received: &BTreeMap<&str, Vec<Line>>) {
    let source = texts(&received["fine"]);
    let mut joined = 0;
    for (name, lines) in received {
        if texts(lines) != source {
            let differ = |text: &String| {
                let same = text.chars().zip(source.first().map_or("", String::as_str).chars());
                same.take_while(|(one, other)| one == other).count()
            };
            let at = texts(lines).first().map_or(0, differ);
            let detail = format!("\"{name}\" received another text than \"fine\", from character {at} on");
            let last = lines.iter().rfind(|line| line.is(Kind::OutputStreaming)).map(Line::shown);
            return harness.failed(&specs::EXACT, detail, last);
        }
        if let Some((line, expected)) = judge::misplaced(lines) {
            let detail = format!("`position` of \"{name}\" should be {expected}");
            return harness.failed(&specs::EXACT, detail, [line.shown()]);
        }
        joined += usize::from(lines.len() < received["fine"].len());
    }
    let characters = source.iter().map(|text| text.chars().count()).sum::<usize>();
    harness.passed(
        &specs::EXACT,
        format!(
            "{characters} characters, received alike by {}; {joined} of them had joined pieces",
            received.len()
        ),
    );
}

fn boundaries(harness: &Harness<'_>, received: &BTreeMap<&str, Vec<Line>>) {
    for name in BOUNDARIES {
        let lines = &received[name];
        if let Some((line, why)) = judge::untrue_hints(lines, &[]).first() {
            return harness.failed(
                &specs::BOUNDARIES,
                format!("\"{name}\" was agreed: {why}"),
                [line.shown()],
            );
        }
        if let Some(line) = judge::cut_elsewhere(lines, name) {
            let detail = format!("\"{name}\" was agreed: a piece ends elsewhere without a hint");
            return harness.failed(&specs::BOUNDARIES, detail, [line.shown()]);
        }
    }
    let counts: Vec<String> = BOUNDARIES
        .iter()
        .map(|name| {
            format!("{name}: {}", received[name].iter().filter(|line| line.is(Kind::OutputStreaming)).count())
        })
        .collect();
    harness.passed(&specs::BOUNDARIES, format!("pieces by boundary: {}", counts.join(", ")));
}

fn kinds(lines: &[Line]) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for line in lines {
        *kinds.entry(line.kind().map_or("another type", Kind::name)).or_default() += 1;
    }
    kinds
}

fn check_event_count(harness: &Harness<'_>, received: &BTreeMap<&str, Vec<Line>>) {
    let (terse, detailed) = (kinds(&received["terse"]), kinds(&received["detailed"]));
    if terse == detailed {
        return harness.passed(&specs::AS_MANY, format!("{} events each", received["terse"].len()));
    }
    harness.failed(
        &specs::AS_MANY,
        "they received different events",
        [format!("terse: {terse:?}"), format!("detailed: {detailed:?}")],
    );
}

fn check_verbosity(harness: &Harness<'_>, received: &BTreeMap<&str, Vec<Line>>) {
    let size = |name: &str| {
        let lines = &received[name];
        (lines.len(), lines.iter().map(|line| line.text.len()).sum::<usize>())
    };
    let ((few, short), (many, long)) = (size("little"), size("much"));
    let detail = format!("low load: {few} events, {short} bytes; high load: {many} events, {long} bytes");
    if few < many || short < long {
        harness.passed(&specs::ADAPTS, detail);
    } else {
        harness.failed(&specs::ADAPTS, detail, []);
    }
}

fn check_unknown_language(harness: &Harness<'_>, received: &BTreeMap<&str, Vec<Line>>) {
    let (one, other) = (kinds(&received["klingon"]), kinds(&received["fine"]));
    if one == other {
        let hints = received["klingon"].iter().find_map(|line| {
            let tag = line.json.get("localization_hints")?.get("primary_language")?.as_str()?;
            Some(tag.to_owned())
        });
        let language = hints.map_or("without a language".to_owned(), |tag| format!("in `{tag}`"));
        return harness.passed(&specs::NO_LANGUAGE, format!("everything came, {language}"));
    }
    harness.failed(
        &specs::NO_LANGUAGE,
        "some events were withheld",
        [format!("requested `tlh`: {one:?}"), format!("others: {other:?}")],
    );
}

fn check_oldest_version(harness: &Harness<'_>, received: &BTreeMap<&str, Vec<Line>>) {
    let later = |line: &&Line| {
        let mut parts =
            line.str("aaep_version").split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        version > (1, 0)
    };
    let later = received["fine"].iter().find(later).map(|line| [line.shown()]);
    harness.check(&specs::OLDEST, later, "1.0.0 was requested", "");
}

pub(super) async fn progress(harness: &Harness<'_>) -> Result<(), PartError> {
    let rate_tried = limits::RATE_TRIED / 2;
    let conversations = open(
        harness,
        vec![
            ("progress", Scope::Part, fine()),
            ("terse progress", Scope::Part, with(fine(), json!({"preferred_verbosity": "terse"}))),
            ("slow progress", Scope::Part, able(json!({"max_events_per_second": rate_tried}))),
        ],
    )
    .await?;
    let outcome = async {
        for _ in 0..limits::RATE_TRIES {
            let (slow, terse) = (&conversations["slow progress"], &conversations["terse progress"]);
            let from = slow.len();
            let session = harness.begin(&conversations["progress"], Scenario::Progress).await?;
            // Either stream may lag after the other.
            for conversation in [&conversations["progress"], terse] {
                if harness.end_of(conversation, &session).await.is_none() {
                    return Err("the work in steps did not end in time".to_owned());
                }
            }
            let updates = |conversation: &Conversation| {
                let is = |line: &&Line| line.is(Kind::ProgressUpdated) && line.session() == session;
                conversation.read(|lines| lines.iter().filter(is).count())
            };
            let (reported, had) = (updates(&conversations["progress"]), updates(terse));
            if reported != had {
                let detail = format!("of {reported} updates a terse subscription received {had}");
                harness.failed(&specs::AS_MANY, detail, []);
            }
            harness.end_of(slow, &session).await;
            let lines = slow.read(|lines| lines[from..].to_vec());
            let all = conversations["progress"]
                .read(|lines| lines.iter().filter(|line| line.is(Kind::ProgressUpdated)).count());
            if all <= rate_tried as usize {
                harness.not_shown(
                    &specs::PROGRESS_RATE,
                    format!("{all} updates came, too few to exceed {rate_tried} a second"),
                );
                break;
            }
            match too_fast(&lines, rate_tried) {
                Some((most, _)) => {
                    let detail =
                        format!("{most} events came within one second, and {rate_tried} were agreed");
                    harness.failed(&specs::PROGRESS_RATE, detail, []);
                }
                None => {
                    harness.forget(&specs::PROGRESS_RATE);
                    let came = lines.iter().filter(|line| line.is(Kind::ProgressUpdated)).count();
                    harness.passed(
                        &specs::PROGRESS_RATE,
                        format!("{came} of {all} updates came, {rate_tried} a second at most"),
                    );
                    break;
                }
            }
        }
        Ok(())
    };
    let outcome = outcome.await;
    close(harness, conversations).await;
    outcome
}

pub(super) async fn filters(harness: &Harness<'_>) -> Result<(), PartError> {
    let filters = json!({"include": ["aaep:agent.tool.*"], "exclude": ["aaep:agent.tool.completed"]});
    let conversations = open(
        harness,
        vec![
            ("everything", Scope::Whole, fine()),
            ("calls only", Scope::Part, able(json!({"event_filters": filters}))),
            (
                "no states",
                Scope::Part,
                with(fine(), json!({"event_filters": {"exclude": ["aaep:agent.state.changed"]}})),
            ),
        ],
    )
    .await?;
    let outcome = async {
        let all = &conversations["everything"];
        let session = harness.begin(all, Scenario::Tool).await?;
        harness.end_of(all, &session).await;
        let wanted = all.read(|lines| lines.iter().filter(|line| line.is(Kind::ToolInvoked)).count());
        let had = |lines: &[Line]| {
            let calls = lines.iter().filter(|line| line.is(Kind::ToolInvoked)).count();
            (calls >= wanted).then_some(())
        };
        conversations["calls only"].until(harness.patience(), had).await;
        // Excluded events may still arrive.
        harness.wait(harness.silence()).await;
        conversations["calls only"].read(|lines| {
            let events: Vec<&Line> =
                lines.iter().filter(|line| line.is_event() && !line.is_critical()).collect();
            let other = events.iter().find(|line| !line.is(Kind::ToolInvoked));
            match (other, wanted) {
                (Some(line), _) => harness.failed(&specs::FILTERED, "an excluded event came", [line.shown()]),
                (None, 0) => harness.not_shown(&specs::FILTERED, "no tool was called"),
                (None, wanted) if events.len() < wanted => {
                    harness.failed(
                        &specs::FILTERED,
                        format!("{} of {wanted} requested events came", events.len()),
                        [],
                    );
                }
                _ => harness.passed(
                    &specs::FILTERED,
                    format!("{wanted} event of {} came", all.read(|lines| lines.len() - 2)),
                ),
            }
        });
        harness.end_of(&conversations["no states"], &session).await;
        numbered(harness, &conversations["no states"].lines());
        Ok(())
    };
    let outcome = outcome.await;
    close(harness, conversations).await;
    outcome
}

fn numbered(harness: &Harness<'_>, lines: &[Line]) {
    let numbers: Vec<(u64, &Line)> = lines
        .iter()
        .filter(|line| line.is_event())
        .filter_map(|line| Some((line.json.get("sequence_number")?.as_u64()?, line)))
        .collect();
    if numbers.is_empty() {
        return harness.inapplicable(&specs::NUMBERED, "events are not numbered");
    }
    match numbers.windows(2).find(|pair| pair[1].0 != pair[0].0 + 1) {
        Some(pair) => {
            let detail = format!("{} follows {}", pair[1].0, pair[0].0);
            harness.failed(&specs::NUMBERED, detail, [pair[0].1.shown(), pair[1].1.shown()]);
        }
        None => harness.passed(&specs::NUMBERED, format!("{} events, numbered without gaps", numbers.len())),
    }
}

/// Sends a prompt while the rate is exhausted, despite filters, and to subscriptions of level 1.
pub(super) async fn critical(harness: &Harness<'_>) -> Result<(), PartError> {
    let tools = json!({"include": ["aaep:agent.tool.*"], "exclude": ["aaep:agent.awaiting.*"]});
    let conversations = open(
        harness,
        vec![
            ("prompts", Scope::Part, fine()),
            ("full bucket", Scope::Part, able(json!({"max_events_per_second": 1}))),
            ("filters", Scope::Part, able(json!({"event_filters": tools}))),
            ("level 1", Scope::Part, able(json!({"supported_conformance_levels": [1]}))),
        ],
    )
    .await?;
    let outcome = prompt_through(harness, &conversations).await;
    close(harness, conversations).await;
    outcome
}

async fn prompt_through(
    harness: &Harness<'_>,
    conversations: &BTreeMap<&'static str, Conversation>,
) -> Result<(), PartError> {
    let all = &conversations["prompts"];
    harness.begin(all, Scenario::LongStream).await?;
    let from = all.len();
    harness.drive(all, Scenario::Confirm).await?;
    let is = |line: &Line| line.is(Kind::AwaitingConfirmation);
    let Some(prompt) = all.line(from, harness.patience(), is).await else {
        return Err("no prompt came during a story".to_owned());
    };
    let (at_ms, evidence) = all.read(|lines| (lines[prompt].at_ms, shown(lines, [prompt])));
    let mut delays = Vec::new();
    for name in ["full bucket", "filters"] {
        let number = conversations[name].line(0, limits::CRITICAL_LATE * 2, is).await;
        let late =
            number.map(|number| conversations[name].read(|lines| lines[number].at_ms).saturating_sub(at_ms));
        match late {
            None => delays.push(format!("it did not come to \"{name}\"")),
            Some(late) if u128::from(late) > limits::CRITICAL_LATE.as_millis() => {
                delays.push(format!("it came to \"{name}\" {late} ms later"));
            }
            Some(_) => {}
        }
    }
    // It may be late for all subscriptions: compare its timestamp with those of other events on arrival.
    let late = all.read(|lines| {
        let age = |line: &Line| Some(i64::try_from(line.wall_ms).ok()? - line.stamp_ms()?);
        let usual = lines.iter().filter(|line| line.is_event()).filter_map(age).min().unwrap_or_default();
        age(&lines[prompt]).map_or(0, |age| age - usual)
    });
    if u128::try_from(late).unwrap_or(0) > limits::CRITICAL_LATE.as_millis() {
        delays.push(format!("it was {late} ms on its way"));
    }
    match delays.as_slice() {
        [] => harness.passed(
            &specs::CRITICAL,
            format!("past rate limits and filters as without them, after {} ms", late.max(0)),
        ),
        _ => harness.failed(&specs::CRITICAL, delays.join("; "), evidence),
    }
    harness.wait(Duration::from_millis(100)).await;
    let prompted =
        conversations["level 1"].read(|lines| lines.iter().find(|line| is(line)).map(|line| [line.shown()]));
    harness.check(&specs::HIGHEST_LEVEL, prompted, "a prompt came", "");
    turn_down(harness, all, prompt).await?;
    // Wait until the story ends, before the next part begins.
    let story = all.read(|lines| {
        lines.iter().find(|line| line.is(Kind::OutputStreaming)).map(|line| line.session().to_owned())
    });
    if let Some(story) = story {
        harness.end_of(all, &story).await;
    }
    Ok(())
}
