//! Evaluates a report: the verdict, the level reached and the permitted claim (§9.8). A level is reached only if each
//! of its mandatory requirements was shown. Entry: [`Report::verdict`].
//!
//! It does not depend on how checks are made or printed.

use super::{Check, LevelVerdict, Outcome, OutcomeCounts, Report};
use crate::conformance::SUITE;
use crate::conformance::requirements::{Requirement, Strength};

impl Report {
    pub fn tally(&self) -> OutcomeCounts {
        let mut tally = OutcomeCounts::default();
        for check in &self.checks {
            match check.outcome {
                Outcome::Passed => tally.passed += 1,
                Outcome::Failed => tally.failed += 1,
                Outcome::Warned => tally.warned += 1,
                Outcome::NotShown(_) => tally.not_shown += 1,
                Outcome::Inapplicable(_) => tally.inapplicable += 1,
                Outcome::Outside(_) => tally.outside += 1,
                Outcome::Declared => tally.declared += 1,
            }
        }
        tally
    }

    /// Whether nothing failed, something passed, and every mandatory requirement was shown: the exit status.
    pub fn passed(&self) -> bool {
        matches!(self.tally(), OutcomeCounts { failed: 0, passed: 1.., .. }) && self.unshown().is_empty()
    }

    pub fn verdict(&self) -> LevelVerdict {
        match self.tally() {
            OutcomeCounts { failed: 1.., .. } => LevelVerdict::Failed,
            _ if self.partial => LevelVerdict::NoClaim,
            _ if !self.unshown().is_empty() => LevelVerdict::NotShown,
            OutcomeCounts { passed: 0, .. } => LevelVerdict::NoClaim,
            _ => LevelVerdict::Passed,
        }
    }

    /// The mandatory requirements up to the level that a check did not show. A requirement with several checks is
    /// shown by all of them together.
    pub fn unshown(&self) -> Vec<&'static str> {
        distinct(self.checks.iter().filter(|check| leaves_open(check)))
    }

    /// The requirements that no conversation can show. They do not prevent a level; every claim names them.
    pub fn outside(&self) -> Vec<&'static str> {
        distinct(self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Outside(_))))
    }

    /// The requirements that were declared, not observed. They do not prevent a level; every claim names them.
    pub fn declared(&self) -> Vec<&'static str> {
        distinct(self.checks.iter().filter(|check| check.outcome == Outcome::Declared))
    }

    /// The highest level up to which nothing failed, everything mandatory was shown and something passed.
    pub fn reached(&self) -> Option<u8> {
        let of = |level: u8| self.checks.iter().filter(move |check| check.level == level);
        let holds = |check: &Check| check.outcome != Outcome::Failed && !leaves_open(check);
        (1..=self.level)
            .take_while(|level| of(*level).all(holds))
            .filter(|level| of(*level).any(|check| check.outcome == Outcome::Passed))
            .last()
    }

    /// The permitted claim after this run (§9.8): name, level, edition of the suite, day.
    pub fn claim(&self) -> String {
        let version = self.subject_version.as_ref().map_or(String::new(), |version| format!(" {version}"));
        let side = self.side.name();
        let by = format!("{SUITE} {}, {}", self.suite_version, self.date);
        let name = format!("{}{version}", self.subject);
        let (protocol, level) = (recount_aaep::VERSION, self.level);
        let reached = self.reached().filter(|_| !self.partial);
        let reached = reached.map_or(String::new(), |reached| format!(" (level {reached} was reached)"));
        match self.verdict() {
            LevelVerdict::Passed => {
                let outside = self.outside();
                let except = match outside.len() {
                    0 => String::new(),
                    _ => format!(", except for what cannot be shown from outside: {}", outside.join(", ")),
                };
                let declared = self.declared();
                let declared = match declared.len() {
                    0 => String::new(),
                    1 => format!(", where {} is declared, not observed", declared[0]),
                    _ => format!(", where {} are declared, not observed", declared.join(", ")),
                };
                format!("{name}: AAEP {protocol} {side}, level {level}{declared}{except}; {by}")
            }
            LevelVerdict::Failed => {
                format!("{name}: no AAEP {protocol} {side} of level {level}{reached}; {by}")
            }
            LevelVerdict::NotShown => {
                let unshown = self.unshown();
                let count = match unshown.len() {
                    1 => "one requirement".to_owned(),
                    count => format!("{count} requirements"),
                };
                format!(
                    "{name}: AAEP {protocol} {side} of level {level} not shown{reached}, because {count} that must hold \
                     did not come up: {}; {by}",
                    unshown.join(", ")
                )
            }
            LevelVerdict::NoClaim => {
                format!("{name}: no claim, because not everything of level {level} was looked at; {by}")
            }
        }
    }
}

/// Whether the check of a mandatory requirement has no result. Recommendations never prevent a claim.
pub(super) fn leaves_open(check: &Check) -> bool {
    let must = Requirement::named(check.requirement).is_none_or(|row| row.strength == Strength::Must);
    must && matches!(check.outcome, Outcome::NotShown(_))
}

/// The requirements of checks in order, without duplicates.
fn distinct<'c>(checks: impl Iterator<Item = &'c Check>) -> Vec<&'static str> {
    let ids: std::collections::BTreeSet<&str> = checks.map(|check| check.requirement).collect();
    ids.into_iter().collect()
}
