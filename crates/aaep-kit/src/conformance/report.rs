//! The result of a conformance run: [`Report`], with one [`Check`] for each test. Written as text ([`Report::lines`])
//! and as JSON ([`Report::to_json`]). It does not depend on how results were obtained.
//!
//! Evidence contains received texts unchanged. Escape them before printing to a terminal.

mod json;
mod text;
mod verdict;

use recount_aaep::lex::time::Moment;
use recount_world::World;

use super::SUITE_VERSION;
use crate::limits;

/// The side of the protocol that was tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Producer,
    Subscriber,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Producer => "producer",
            Side::Subscriber => "subscriber",
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// A mandatory requirement is violated.
    Failed,
    /// A recommendation is violated, or the violation is not certain.
    Warned,
    /// The situation did not occur, so the result is unknown; contains the reason.
    NotShown(String),
    /// It does not apply to this subject; contains the reason.
    Inapplicable(String),
    /// No conversation can show it; contains the reason.
    Outside(String),
    /// It was not observed: the person who started the run declares that it holds.
    Declared,
}

impl Outcome {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Warned => "warned",
            Outcome::NotShown(_) => "not_shown",
            Outcome::Inapplicable(_) => "inapplicable",
            Outcome::Outside(_) => "outside",
            Outcome::Declared => "declared",
        }
    }

    /// The reason why nothing was observed.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::NotShown(reason) | Outcome::Inapplicable(reason) | Outcome::Outside(reason) => {
                Some(reason)
            }
            _ => None,
        }
    }
}

/// One test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Such as `R-051`.
    pub requirement: &'static str,
    /// A sentence that is true if the check passes.
    pub name: &'static str,
    /// The level it belongs to, 1 to 3.
    pub level: u8,
    pub outcome: Outcome,
    /// The observation, as a sentence.
    pub detail: String,
    /// Lines of the conversation as evidence, newest last.
    pub evidence: Vec<String>,
}

impl Check {
    pub fn new(
        requirement: &'static str,
        name: &'static str,
        level: u8,
        outcome: Outcome,
        detail: impl Into<String>,
    ) -> Self {
        Check { requirement, name, level, outcome, detail: detail.into(), evidence: Vec::new() }
    }

    /// Adds a line of evidence. Long lines are cut; extra lines are dropped.
    pub fn with(mut self, line: impl AsRef<str>) -> Self {
        if self.evidence.len() < limits::EVIDENCE_LINES_MAX {
            self.evidence.push(beginning(line.as_ref(), limits::EVIDENCE_LINE_BYTES_MAX));
        }
        self
    }

    /// Adds lines of evidence.
    pub fn with_all(self, lines: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        lines.into_iter().fold(self, Check::with)
    }
}

/// The beginning of a text on one line, with an ellipsis if it was cut.
pub(crate) fn beginning(text: &str, bytes_max: usize) -> String {
    let mut line: String = text.chars().map(|c| if matches!(c, '\r' | '\n') { ' ' } else { c }).collect();
    if line.len() > bytes_max {
        let mut end = bytes_max;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The number of checks with each outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeCounts {
    pub passed: usize,
    pub failed: usize,
    pub warned: usize,
    pub not_shown: usize,
    pub inapplicable: usize,
    pub outside: usize,
    pub declared: usize,
}

/// The verdict on the claimed level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelVerdict {
    Passed,
    Failed,
    /// Nothing failed, but a mandatory requirement of the level was not shown, so the level is not reached.
    NotShown,
    /// Only some requirements were tested, or nothing passed: there is no claim.
    NoClaim,
}

impl LevelVerdict {
    pub fn name(self) -> &'static str {
        match self {
            LevelVerdict::Passed => "passed",
            LevelVerdict::Failed => "failed",
            LevelVerdict::NotShown => "not_shown",
            LevelVerdict::NoClaim => "no_claim",
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub side: Side,
    /// The subject's own name, or else its address.
    pub subject: String,
    /// Where it was found.
    pub address: String,
    /// The subject's build, if it states one.
    pub subject_version: Option<String>,
    /// The requested level; includes the lower ones.
    pub level: u8,
    pub suite_version: String,
    /// The day, as `2026-05-24`.
    pub date: String,
    /// Whether only some requirements were tested, so that no claim is possible.
    pub partial: bool,
    /// How long the run took.
    pub took_ms: u64,
    pub checks: Vec<Check>,
}

impl Report {
    /// An empty report with today's date.
    pub fn new(world: &World, side: Side, subject: impl Into<String>, level: u8) -> Self {
        let now = i64::try_from(world.clock.now_ms()).unwrap_or(i64::MAX);
        let subject = subject.into();
        Report {
            side,
            address: subject.clone(),
            subject,
            subject_version: None,
            level,
            suite_version: SUITE_VERSION.to_owned(),
            date: Moment::write(now)[..10].to_owned(),
            partial: false,
            took_ms: 0,
            checks: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(checks: Vec<Check>) -> Report {
        let mut report = Report::new(&World::seeded(1, 1_779_632_531_342), Side::Producer, "planner", 2);
        (report.suite_version, report.took_ms, report.checks) = ("9.9.9".into(), 12_345, checks);
        report
    }

    fn check(level: u8, outcome: Outcome) -> Check {
        Check::new("R-051", "what cannot be undone is confirmed", level, outcome, "seen so")
    }

    ///
    #[test]
    fn a_claim_has_name_level_edition_and_day_and_certifies_nothing() {
        let not_shown = || Outcome::NotShown("no prompt came".into());
        let outside = Check::new("R-168", "no more is said", 1, Outcome::Outside("a judgement".into()), "");
        let table = [
            (
                vec![check(1, Outcome::Passed), check(2, Outcome::Passed)],
                "planner: AAEP 1.0.0 producer, level 2; recount-aaep-kit 9.9.9, 2026-05-24",
                LevelVerdict::Passed,
                Some(2),
            ),
            (
                vec![check(1, Outcome::Passed), check(2, Outcome::Failed)],
                "planner: no AAEP 1.0.0 producer of level 2 (level 1 was reached); recount-aaep-kit 9.9.9, 2026-05-24",
                LevelVerdict::Failed,
                Some(1),
            ),
            (
                vec![check(1, Outcome::Failed), check(2, Outcome::Passed)],
                "planner: no AAEP 1.0.0 producer of level 2; recount-aaep-kit 9.9.9, 2026-05-24",
                LevelVerdict::Failed,
                None,
            ),
            (
                vec![],
                "planner: no claim, because not everything of level 2 was looked at; recount-aaep-kit 9.9.9, 2026-05-24",
                LevelVerdict::NoClaim,
                None,
            ),
            (
                vec![check(1, Outcome::Passed), check(2, Outcome::Passed), check(2, not_shown())],
                "planner: AAEP 1.0.0 producer of level 2 not shown (level 1 was reached), because one requirement that must \
                 hold did not come up: R-051; recount-aaep-kit 9.9.9, 2026-05-24",
                LevelVerdict::NotShown,
                Some(1),
            ),
            (
                vec![check(1, not_shown()), check(2, Outcome::Passed)],
                "planner: AAEP 1.0.0 producer of level 2 not shown, because one requirement that must hold did not come up: \
                 R-051; recount-aaep-kit 9.9.9, 2026-05-24",
                LevelVerdict::NotShown,
                None,
            ),
            (
                vec![check(1, Outcome::Passed), check(2, Outcome::Passed), outside],
                "planner: AAEP 1.0.0 producer, level 2, except for what cannot be shown from outside: R-168; \
                 recount-aaep-kit 9.9.9, 2026-05-24",
                LevelVerdict::Passed,
                Some(2),
            ),
        ];
        for (checks, claim, verdict, reached) in table {
            let report = report(checks);
            assert_eq!(
                (report.claim().as_str(), report.verdict(), report.reached()),
                (claim, verdict, reached)
            );
            assert_eq!(
                report.passed(),
                verdict == LevelVerdict::Passed,
                "the exit status agrees with the verdict"
            );
            assert!(!report.text().contains("ertified"));
        }
    }

    /// A declaration permits a level, and the claim names what was not observed.
    #[test]
    fn a_claim_names_what_was_declared() {
        let checks = vec![
            check(1, Outcome::Passed),
            Check::new("R-034", "errors are reported promptly", 1, Outcome::Declared, ""),
            Check::new("R-168", "no more is sent", 1, Outcome::Outside("a judgement".into()), ""),
        ];
        let mut report = report(checks);
        report.level = 1;
        assert_eq!(
            report.claim(),
            "planner: AAEP 1.0.0 producer, level 1, where R-034 is declared, not observed, except for what cannot be \
             shown from outside: R-168; recount-aaep-kit 9.9.9, 2026-05-24"
        );
        assert_eq!((report.verdict(), report.passed()), (LevelVerdict::Passed, true));
        assert!(report.lines()[1].ends_with("1 not from outside, 1 declared."), "{}", report.text());
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["claim"]["declared"], serde_json::json!(["R-034"]));
        assert_eq!(
            (&json["summary"]["declared"], &json["checks"][1]["outcome"]),
            (&1.into(), &"declared".into())
        );
        // A declaration alone shows nothing.
        report.checks.remove(0);
        assert_eq!((report.verdict(), report.passed()), (LevelVerdict::NoClaim, false));
    }

    #[test]
    fn unshown_recommendations_do_not_prevent_a_level() {
        let hint = Check::new("R-035", "hints", 2, Outcome::NotShown("no error came".into()), "");
        let report = report(vec![check(1, Outcome::Passed), check(2, Outcome::Passed), hint]);
        assert_eq!((report.verdict(), report.unshown()), (LevelVerdict::Passed, vec![]));
    }

    #[test]
    fn a_partial_run_passes_only_if_its_requirements_were_shown() {
        let mut report = report(vec![check(2, Outcome::NotShown("no prompt came".into()))]);
        report.partial = true;
        assert_eq!((report.verdict(), report.passed()), (LevelVerdict::NoClaim, false));
        report.checks[0].outcome = Outcome::Passed;
        assert_eq!((report.verdict(), report.passed()), (LevelVerdict::NoClaim, true));
    }

    #[test]
    fn text_lists_failures_first_in_each_level() {
        let not_shown = Outcome::NotShown("no prompt came".into());
        let report = report(vec![
            check(1, Outcome::Passed),
            check(2, not_shown),
            check(2, Outcome::Failed).with("12.001 in {\"type\":\n1}"),
        ]);
        assert_eq!(
            report.lines()[1..],
            [
                "3 checks at planner in 12.3 s: 1 passed, 1 failed, 0 warned, 1 not shown, 0 not applicable, \
                 0 not from outside.",
                "",
                "Level 1: nothing failed.",
                "  passed R-051: what cannot be undone is confirmed. seen so.",
                "",
                "Level 2: one check failed.",
                "  FAILED R-051: what cannot be undone is confirmed. seen so.",
                "      12.001 in {\"type\": 1}",
                "  not shown R-051: what cannot be undone is confirmed. no prompt came. seen so.",
            ]
        );
    }

    #[test]
    fn evidence_is_bounded() {
        let long = "é".repeat(limits::EVIDENCE_LINE_BYTES_MAX);
        let check = check(1, Outcome::Passed).with_all(std::iter::repeat_n(long, 100));
        assert_eq!(check.evidence.len(), limits::EVIDENCE_LINES_MAX);
        assert!(check.evidence[0].len() <= limits::EVIDENCE_LINE_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    fn json_has_the_documented_fields() {
        let not_shown = Outcome::NotShown("no prompt came".into());
        let json: serde_json::Value =
            serde_json::from_str(&report(vec![check(2, not_shown)]).to_json()).unwrap();
        assert_eq!(json["claim"]["verdict"], "not_shown");
        assert_eq!(json["claim"]["not_shown"], serde_json::json!(["R-051"]));
        assert_eq!(json["claim"]["outside"], serde_json::json!([]));
        assert_eq!(json["summary"]["not_shown"], 1);
        assert_eq!(
            json["checks"][0],
            serde_json::json!({
                "requirement": "R-051", "name": "what cannot be undone is confirmed", "level": 2, "outcome": "not_shown",
                "reason": "no prompt came", "said": "seen so", "evidence": [],
            })
        );
    }
}
