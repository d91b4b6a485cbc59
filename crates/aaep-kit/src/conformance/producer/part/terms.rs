//! Checks of terms: one session on many subscriptions with different terms, each compared with another.

use std::collections::BTreeMap;
use std::time::Duration;

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::reply::{shown, turn_down, with};
use crate::conformance::judge;
use crate::conformance::producer::harness::{Harness, Trouble, able};
use crate::conformance::producer::specs::{self, Spec};
use crate::conformance::talk::Talk;
use crate::conformance::transcript::{Line, Scope};
use crate::limits;
use crate::scenario::Scenario;

/// Every boundary there is: nothing need be joined.
pub(super) fn fine() -> Value {
    able(json!({"coalesce_boundaries": ["none", "word", "sentence", "paragraph", "completion"]}))
}

const BOUNDARIES: [&str; 4] = ["word", "sentence", "paragraph", "completion"];

/// Opens several subscriptions; when one cannot be had, none is.
async fn open(
    harness: &Harness<'_>,
    terms: Vec<(&'static str, Scope, Value)>,
) -> Result<BTreeMap<&'static str, Talk>, Trouble> {
    let mut talks = BTreeMap::new();
    for (name, scope, capabilities) in terms {
        match harness.subscribe(&format!("a story for \"{name}\""), scope, capabilities).await {
            Ok(talk) => {
                talks.insert(name, talk);
            }
            Err(trouble) => {
                close(harness, talks).await;
                return Err(trouble);
            }
        }
    }
    Ok(talks)
}

async fn close(harness: &Harness<'_>, talks: BTreeMap<&'static str, Talk>) {
    for talk in talks.into_values() {
        harness.finish(talk).await;
    }
}

pub(super) async fn story(harness: &Harness<'_>) -> Result<(), Trouble> {
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
    let talks = open(harness, terms).await?;
    let outcome = listen_to_story(harness, &talks).await;
    close(harness, talks).await;
    outcome
}

/// A boundary, and that everything is over, which is one as well.
fn agreed(boundary: &str) -> Vec<&str> {
    if boundary == "completion" { vec![boundary] } else { vec![boundary, "completion"] }
}

async fn listen_to_story(harness: &Harness<'_>, talks: &BTreeMap<&'static str, Talk>) -> Result<(), Trouble> {
    let fine = &talks["fine"];
    let session = harness.begin(fine, Scenario::LongStream).await?;
    harness.end_of(fine, &session).await.ok_or("the story did not end in time")?;
    let mut heard: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
    for (name, talk) in talks {
        if harness.end_of(talk, &session).await.is_none() {
            // At its rate the story may take longer than that.
            talk.mark_cut_short();
        }
        heard.insert(
            name,
            talk.read(|lines| {
                lines.iter().filter(|line| line.is_event() && line.session() == session).cloned().collect()
            }),
        );
    }
    if judge::joined(&heard["fine"]).is_empty() {
        return Err("the story had no output".to_owned());
    }
    exact(harness, &heard);
    boundaries(harness, &heard);
    as_many(harness, &heard);
    adapts(harness, &heard);
    no_language(harness, &heard);
    oldest(harness, &heard);
    Ok(())
}

/// Several sessions at once fill a subscription's bucket with what cannot be joined.
pub(super) async fn burst(harness: &Harness<'_>) -> Result<(), Trouble> {
    let terms = with(fine(), json!({"max_events_per_second": limits::BURST_RATE}));
    let talks =
        open(harness, vec![("sessions", Scope::Part, fine()), ("sessions in a hurry", Scope::Part, terms)])
            .await?;
    let outcome = async {
        let (all, slow) = (&talks["sessions"], &talks["sessions in a hurry"]);
        // What a machine that is busy with other things delays comes in a heap: that is not the producer's doing, so
        // what looks too fast is looked at again.
        for left in (0..limits::RATE_TRIES).rev() {
            let from = (all.len(), slow.len());
            for _ in 0..limits::BURST_SESSIONS {
                harness.drive(all, Scenario::Tool).await?;
            }
            for (talk, from) in [(all, from.0), (slow, from.1)] {
                let ended = |lines: &[Line]| {
                    let ends = lines[from..].iter().filter(|line| line.is_terminal()).count();
                    (ends >= limits::BURST_SESSIONS).then_some(())
                };
                talk.until(harness.patience(), ended).await;
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
    close(harness, talks).await;
    outcome
}

/// More events in one second than were agreed: how many.
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

fn exact(harness: &Harness<'_>, heard: &BTreeMap<&str, Vec<Line>>) {
    let source = texts(&heard["fine"]);
    let mut joined = 0;
    for (name, lines) in heard {
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
        joined += usize::from(lines.len() < heard["fine"].len());
    }
    let characters = source.iter().map(|text| text.chars().count()).sum::<usize>();
    harness.passed(
        &specs::EXACT,
        format!(
            "{characters} characters, received alike by {}; {joined} of them had joined pieces",
            heard.len()
        ),
    );
}

fn boundaries(harness: &Harness<'_>, heard: &BTreeMap<&str, Vec<Line>>) {
    for name in BOUNDARIES {
        let lines = &heard[name];
        if let Some((line, why)) = judge::untrue_hints(lines, &[]).first() {
            return harness.failed(
                &specs::BOUNDARIES,
                format!("\"{name}\" was agreed: {why}"),
                [line.shown()],
            );
        }
        if let Some(line) = judge::cut_elsewhere(lines, name) {
            let detail = format!("\"{name}\" was agreed: a piece ends elsewhere and does not say so");
            return harness.failed(&specs::BOUNDARIES, detail, [line.shown()]);
        }
    }
    let counts: Vec<String> = BOUNDARIES
        .iter()
        .map(|name| {
            format!("{name}: {}", heard[name].iter().filter(|line| line.is(Kind::OutputStreaming)).count())
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

fn as_many(harness: &Harness<'_>, heard: &BTreeMap<&str, Vec<Line>>) {
    let (terse, detailed) = (kinds(&heard["terse"]), kinds(&heard["detailed"]));
    if terse == detailed {
        return harness.passed(&specs::AS_MANY, format!("{} events each", heard["terse"].len()));
    }
    harness.failed(
        &specs::AS_MANY,
        "they received different events",
        [format!("terse: {terse:?}"), format!("detailed: {detailed:?}")],
    );
}

fn adapts(harness: &Harness<'_>, heard: &BTreeMap<&str, Vec<Line>>) {
    let size = |name: &str| {
        let lines = &heard[name];
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

fn no_language(harness: &Harness<'_>, heard: &BTreeMap<&str, Vec<Line>>) {
    let (one, other) = (kinds(&heard["klingon"]), kinds(&heard["fine"]));
    if one == other {
        let hints = heard["klingon"].iter().find_map(|line| {
            let tag = line.json.get("localization_hints")?.get("primary_language")?.as_str()?;
            Some(tag.to_owned())
        });
        let language = hints.map_or("no language said".to_owned(), |tag| format!("in `{tag}`"));
        return harness.passed(&specs::NO_LANGUAGE, format!("everything came, {language}"));
    }
    harness.failed(
        &specs::NO_LANGUAGE,
        "some events were withheld",
        [format!("asked for `tlh`: {one:?}"), format!("others: {other:?}")],
    );
}

fn oldest(harness: &Harness<'_>, heard: &BTreeMap<&str, Vec<Line>>) {
    let later = |line: &&Line| {
        let mut parts =
            line.str("aaep_version").split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        version > (1, 0)
    };
    let later = heard["fine"].iter().find(later).map(|line| [line.shown()]);
    harness.hold(&specs::OLDEST, later, "1.0.0 was asked for", "");
}

pub(super) async fn progress(harness: &Harness<'_>) -> Result<(), Trouble> {
    let rate_tried = limits::RATE_TRIED / 2;
    let talks = open(
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
            let (slow, terse) = (&talks["slow progress"], &talks["terse progress"]);
            let from = slow.len();
            let session = harness.begin(&talks["progress"], Scenario::Progress).await?;
            // Either stream may lag behind the other.
            for talk in [&talks["progress"], terse] {
                if harness.end_of(talk, &session).await.is_none() {
                    return Err("the work in steps did not end in time".to_owned());
                }
            }
            let updates = |talk: &Talk| {
                let is = |line: &&Line| line.is(Kind::ProgressUpdated) && line.session() == session;
                talk.read(|lines| lines.iter().filter(is).count())
            };
            let (reported, had) = (updates(&talks["progress"]), updates(terse));
            if reported != had {
                let detail = format!("of {reported} updates a terse subscription received {had}");
                harness.failed(&specs::AS_MANY, detail, []);
            }
            harness.end_of(slow, &session).await;
            let lines = slow.read(|lines| lines[from..].to_vec());
            let all = talks["progress"]
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
    close(harness, talks).await;
    outcome
}

pub(super) async fn filters(harness: &Harness<'_>) -> Result<(), Trouble> {
    let filters = json!({"include": ["aaep:agent.tool.*"], "exclude": ["aaep:agent.tool.completed"]});
    let talks = open(
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
        let all = &talks["everything"];
        let session = harness.begin(all, Scenario::Tool).await?;
        harness.end_of(all, &session).await;
        let wanted = all.read(|lines| lines.iter().filter(|line| line.is(Kind::ToolInvoked)).count());
        let had = |lines: &[Line]| {
            let calls = lines.iter().filter(|line| line.is(Kind::ToolInvoked)).count();
            (calls >= wanted).then_some(())
        };
        talks["calls only"].until(harness.patience(), had).await;
        // What was left out may still come.
        harness.wait(harness.silence()).await;
        talks["calls only"].read(|lines| {
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
        harness.end_of(&talks["no states"], &session).await;
        numbered(harness, &talks["no states"].lines());
        Ok(())
    };
    let outcome = outcome.await;
    close(harness, talks).await;
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

/// A prompt while a bucket is empty, past filters, and for subscriptions of level 1.
pub(super) async fn critical(harness: &Harness<'_>) -> Result<(), Trouble> {
    let tools = json!({"include": ["aaep:agent.tool.*"], "exclude": ["aaep:agent.awaiting.*"]});
    let talks = open(
        harness,
        vec![
            ("prompts", Scope::Part, fine()),
            ("full bucket", Scope::Part, able(json!({"max_events_per_second": 1}))),
            ("filters", Scope::Part, able(json!({"event_filters": tools}))),
            ("level 1", Scope::Part, able(json!({"supported_conformance_levels": [1]}))),
        ],
    )
    .await?;
    let outcome = prompt_through(harness, &talks).await;
    close(harness, talks).await;
    outcome
}

async fn prompt_through(harness: &Harness<'_>, talks: &BTreeMap<&'static str, Talk>) -> Result<(), Trouble> {
    let all = &talks["prompts"];
    harness.begin(all, Scenario::LongStream).await?;
    let from = all.len();
    harness.drive(all, Scenario::Confirm).await?;
    let is = |line: &Line| line.is(Kind::AwaitingConfirmation);
    let Some(prompt) = all.line(from, harness.patience(), is).await else {
        return Err("no prompt came while a story was told".to_owned());
    };
    let (at_ms, evidence) = all.read(|lines| (lines[prompt].at_ms, shown(lines, [prompt])));
    let mut delays = Vec::new();
    for name in ["full bucket", "filters"] {
        let number = talks[name].line(0, limits::CRITICAL_LATE * 2, is).await;
        let late = number.map(|number| talks[name].read(|lines| lines[number].at_ms).saturating_sub(at_ms));
        match late {
            None => delays.push(format!("it did not come to \"{name}\"")),
            Some(late) if u128::from(late) > limits::CRITICAL_LATE.as_millis() => {
                delays.push(format!("it came to \"{name}\" {late} ms later"));
            }
            Some(_) => {}
        }
    }
    // It may come late to everybody: its own timestamp tells, when it is older than other events are when they come.
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
        talks["level 1"].read(|lines| lines.iter().find(|line| is(line)).map(|line| [line.shown()]));
    harness.hold(&specs::HIGHEST_LEVEL, prompted, "a prompt came", "");
    turn_down(harness, all, prompt).await?;
    // The story is to be over before the next part begins.
    let story = all.read(|lines| {
        lines.iter().find(|line| line.is(Kind::OutputStreaming)).map(|line| line.session().to_owned())
    });
    if let Some(story) = story {
        harness.end_of(all, &story).await;
    }
    Ok(())
}
