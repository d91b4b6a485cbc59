//! Tests a producer: runs scenarios, listens on its own subscriptions, checks every message against the rules, and
//! runs checks that rules cannot express. Entry: [`run`]; `specs` lists the checks.
//!
//! It knows only what the producer sends over the wire.

mod findings;
mod harness;
mod part;
mod sessions;
mod specs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use recount_world::World;
use serde_json::{Value, json};

use self::harness::{Harness, Note, able, request};
use super::conversation::millis;
use super::report::{Check, Outcome, Report, Side};
use super::requirements::{self, Requirement};
use super::transcript::{Scope, Transcript};
use crate::limits;
use crate::link::{LinkError, Surface, Target};
use crate::scenario::Scenario;

pub use specs::{CHECKS, Part, REASONS, Spec};

/// How the suite makes the producer act.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Drive {
    /// `user_input` to `/messages` or on the connection itself; if that is refused, `/sessions`.
    #[default]
    Messages,
    /// A POST to this address.
    Url(String),
    /// A program, run with the sentence as its last argument.
    Command(Vec<String>),
}

/// The producer to test, and how.
#[derive(Debug, Clone)]
pub struct ProducerSubject {
    pub target: Target,
    /// Whether to look for the specification's surface below the address of a de-facto one.
    pub look_for_versioned: bool,
    /// Whether all programs that a command starts act for one producer, as bridges do.
    pub shares_producer: bool,
    pub token: Option<String>,
    pub drive: Drive,
    /// Sentences for scenarios, replacing the built-in ones.
    pub sentences: BTreeMap<Scenario, String>,
    /// How long to wait for a required message.
    pub patience: Duration,
    /// How long a stream must stay silent before a message counts as absent.
    pub silence: Duration,
    /// The longest prompt timeout that is waited out.
    pub outlast: Duration,
    /// How long to listen to an idle stream; zero skips the check.
    pub quiet: Duration,
    /// Only these requirements; all if empty.
    pub only: BTreeSet<String>,
}

impl ProducerSubject {
    /// Subject with waits that suit a producer driven by a model.
    pub fn at(target: Target) -> Self {
        ProducerSubject {
            target,
            look_for_versioned: true,
            shares_producer: false,
            token: None,
            drive: Drive::Messages,
            sentences: BTreeMap::new(),
            patience: limits::PATIENCE,
            silence: limits::SILENCE,
            outlast: limits::OUTLAST,
            quiet: limits::QUIET,
            only: BTreeSet::new(),
        }
    }

    /// The sentence for a scenario.
    pub fn sentence(&self, scenario: Scenario) -> String {
        self.sentences.get(&scenario).cloned().unwrap_or_else(|| scenario.text().to_owned())
    }

    fn selects(&self, requirement: &str) -> bool {
        self.only.is_empty() || self.only.contains(requirement)
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    Unreachable(String),
}

/// Tests a producer at a level, including the lower ones. `sink` receives the progress.
pub async fn run(
    world: &World,
    subject: &ProducerSubject,
    level: u8,
    sink: &(dyn Fn(&str) + Send + Sync),
) -> Result<Report, RunError> {
    if !(1..=3).contains(&level) {
        return Err(RunError::Unusable(format!("unknown level {level}; use 1, 2 or 3")));
    }
    if let Some(unknown) = subject.only.iter().find(|id| Requirement::named(id).is_none()) {
        return Err(RunError::Unusable(format!("unknown requirement `{unknown}`; ids look like R-051")));
    }
    let began = recount_world::moment();
    let target = reach(world, subject).await?;
    let harness = Harness::new(world, subject, level, target.clone())
        .map_err(|why| RunError::Unusable(why.to_string()))?;
    let hello = hello(&harness).await?;
    let parts: Vec<Part> = Part::ALL.iter().copied().filter(|part| is_run(*part, subject, level)).collect();
    let mut errors: BTreeMap<Part, String> = BTreeMap::new();
    for part in &parts {
        sink(part.description());
        if let Err(error) = part::run(*part, &harness).await {
            errors.insert(*part, error);
        }
    }
    part::check_equal_responses(&harness);
    let (notes, mut transcripts) = harness.into_results();
    transcripts.extend(hello);
    let mut report = Report::new(world, Side::Producer, address(&target), level);
    report.partial = !subject.only.is_empty();
    (report.subject, report.subject_version) = name(&transcripts).unwrap_or((report.subject, None));
    report.checks = findings::checks(&transcripts, level, |id| subject.selects(id));
    report.checks.extend(checks(notes, &parts, &errors, level, subject));
    report.checks.extend(outside(level, subject));
    if !report.partial {
        complete(&mut report);
    }
    report.checks.sort_by_key(|check| check.requirement);
    report.took_ms = millis(began.elapsed());
    Ok(report)
}

/// Whether any selected requirement needs this part.
fn is_run(part: Part, subject: &ProducerSubject, level: u8) -> bool {
    if part.level() > level {
        return false;
    }
    let own = CHECKS
        .iter()
        .any(|spec| spec.part == part && subject.selects(spec.requirement) && spec.level() <= level);
    // Rules apply to every message; what they concern occurs in these parts.
    let ruled = subject.only.iter().filter_map(|id| Requirement::named(id)).any(|row| {
        let has_rules = findings::ruled_requirements(level).any(|other| other.id == row.id);
        has_rules
            && match row.level {
                1 => part == Part::Plain,
                2 => matches!(
                    part,
                    Part::Irreversible
                        | Part::Rejected
                        | Part::TimedOut
                        | Part::Twice
                        | Part::Question
                        | Part::Handoff
                ),
                _ => match row.id {
                    "R-117" | "R-060" => part == Part::Terms,
                    "R-122" => part == Part::Renegotiate,
                    _ => part == Part::Handshake,
                },
            }
    });
    subject.only.is_empty() || own || ruled
}

/// Finds the address to test: the given one, or the specification's surface below it.
async fn reach(world: &World, subject: &ProducerSubject) -> Result<Target, RunError> {
    let Target::Http { base, surface: Surface::Legacy } = &subject.target else {
        return Ok(subject.target.clone());
    };
    if !subject.look_for_versioned {
        return Ok(subject.target.clone());
    }
    let below = Target::Http { base: format!("{base}/aaep/v1"), surface: Surface::Versioned };
    let mut probe = subject.clone();
    probe.target = below.clone();
    let harness =
        Harness::new(world, &probe, 1, below.clone()).map_err(|why| RunError::Unusable(why.to_string()))?;
    match harness
        .open_with_request(
            "does the producer have the specification's endpoints?",
            Scope::Part,
            &request(able(json!({}))),
        )
        .await
    {
        Ok(conversation) => {
            conversation.close().await;
            Ok(below)
        }
        Err(LinkError::Unusable(why)) => Err(RunError::Unusable(why)),
        Err(why @ LinkError::Unreachable { .. }) => Err(RunError::Unreachable(why.to_string())),
        Err(_) => Ok(subject.target.clone()),
    }
}

/// Checks whether the producer is reachable and answers handshakes.
async fn hello(harness: &Harness<'_>) -> Result<Option<Transcript>, RunError> {
    let handshake =
        harness.open_with_request("is the producer reachable?", Scope::Part, &request(able(json!({})))).await;
    match handshake {
        Ok(conversation) => {
            harness.handshakes.store(true, Ordering::Relaxed);
            Ok(Some(conversation.close().await))
        }
        Err(LinkError::Unusable(why)) => Err(RunError::Unusable(why)),
        Err(why @ LinkError::Unreachable { .. }) => Err(RunError::Unreachable(why.to_string())),
        Err(why) => {
            *harness.no_handshake_reason.lock().expect("no code panics while holding this lock") =
                why.to_string();
            match harness.listen("is the producer reachable without a handshake?", Scope::Part).await {
                Ok(conversation) => Ok(Some(conversation.close().await)),
                // It responds, but not as a producer: the report shows that.
                Err(_) => Ok(None),
            }
        }
    }
}

fn address(target: &Target) -> String {
    match target {
        Target::Http { base, .. } => base.clone(),
        Target::WebSocket { url } => url.clone(),
        Target::Command { argv, .. } => argv.join(" "),
    }
}

/// The producer's name for itself, and its build.
fn name(transcripts: &[Transcript]) -> Option<(String, Option<String>)> {
    let producers = transcripts.iter().flat_map(|transcript| &transcript.lines).filter_map(|line| {
        let producer =
            line.json.get("producer").filter(|_| line.origin == super::transcript::LineOrigin::Received)?;
        let agent = producer.get("agent_id").and_then(Value::as_str)?;
        Some((agent.to_owned(), producer.get("agent_version").and_then(Value::as_str).map(str::to_owned)))
    });
    producers.max_by_key(|(_, version)| version.is_some())
}

/// Builds one check for each spec: the worst of its notes, or the reason why there is none.
fn checks(
    notes: Vec<Note>,
    parts: &[Part],
    errors: &BTreeMap<Part, String>,
    level: u8,
    subject: &ProducerSubject,
) -> Vec<Check> {
    let rank = |outcome: &Outcome| match outcome {
        Outcome::Failed => 4,
        Outcome::Warned => 3,
        Outcome::Passed => 2,
        Outcome::NotShown(_) => 1,
        Outcome::Inapplicable(_) | Outcome::Outside(_) | Outcome::Declared => 0,
    };
    let mut checks = Vec::new();
    for spec in CHECKS.iter().copied() {
        if spec.level() > level || !parts.contains(&spec.part) || !subject.selects(spec.requirement) {
            continue;
        }
        // Of equally bad notes the first is reported.
        let mut worst: Option<&Note> = None;
        for note in notes.iter().filter(|note| note.spec == spec) {
            if worst.is_none_or(|worst| rank(&note.outcome) > rank(&worst.outcome)) {
                worst = Some(note);
            }
        }
        let check = match worst {
            Some(note) => Check::new(
                spec.requirement,
                spec.name,
                spec.level(),
                note.outcome.clone(),
                note.detail.clone(),
            )
            .with_all(&note.evidence),
            None => {
                let why = errors.get(&spec.part).cloned();
                let why = why.unwrap_or_else(|| "the run ended before this check".to_owned());
                Check::new(spec.requirement, spec.name, spec.level(), Outcome::NotShown(why), "")
            }
        };
        checks.push(check);
    }
    checks
}

/// One check for each requirement that no conversation can show. A claim lists them as excluded.
fn outside(level: u8, subject: &ProducerSubject) -> impl Iterator<Item = Check> {
    let rows = REASONS.iter().filter_map(|(id, reason)| Some((Requirement::named(id)?, *reason)));
    rows.filter(move |(row, _)| row.level <= level && subject.selects(row.id))
        .map(|(row, reason)| Check::new(row.id, row.text, row.level, Outcome::Outside(reason.to_owned()), ""))
}

/// Adds each requirement of the level without a check as not shown, instead of omitting it.
fn complete(report: &mut Report) {
    let looked_at: BTreeSet<&str> = report.checks.iter().map(|check| check.requirement).collect();
    let missing: Vec<&Requirement> = requirements::ALL
        .iter()
        .filter(|row| row.concerns_producers() && row.level <= report.level && !looked_at.contains(row.id))
        .collect();
    report.checks.extend(missing.into_iter().map(|row| {
        let why = Outcome::NotShown("no check of this level covers it".to_owned());
        Check::new(row.id, row.text, row.level, why, "")
    }));
}

/// How a requirement is tested, for the documentation: its checks and rules, or the reason why there are none.
pub fn how(
    requirement: &Requirement,
) -> Result<(Vec<&'static Spec>, Vec<&'static str>), Option<&'static str>> {
    let specs: Vec<&Spec> =
        CHECKS.iter().copied().filter(|spec| spec.requirement == requirement.id).collect();
    let has_rules = findings::ruled_requirements(3).any(|other| other.id == requirement.id);
    let rules = if has_rules { requirement.rules().map(|rule| rule.id).collect() } else { Vec::new() };
    if !specs.is_empty() || has_rules {
        return Ok((specs, rules));
    }
    Err(REASONS.iter().find(|(id, _)| *id == requirement.id).map(|(_, reason)| *reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_on_producers_is_tried_or_has_a_reason() {
        let forgotten: Vec<&str> = requirements::ALL
            .iter()
            .filter(|row| row.concerns_producers() && matches!(how(row), Err(None)))
            .map(|row| row.id)
            .collect();
        assert!(forgotten.is_empty(), "neither tried nor explained: {forgotten:?}");
        for (id, _) in REASONS {
            let requirement = Requirement::named(id).unwrap();
            assert!(how(requirement).is_err(), "{id} is tried; it needs no reason");
        }
        for spec in CHECKS {
            assert!(Requirement::named(spec.requirement).is_some(), "{}", spec.requirement);
            assert!(
                spec.part.level() <= spec.level() || spec.level() == 1 && spec.part.level() <= 3,
                "{}",
                spec.name
            );
        }
    }
}
