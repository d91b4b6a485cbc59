//! Writes a report as JSON. `docs/aaep/conformance.md` describes the fields; fields may be added but never change.

use serde::Serialize;

use super::Report;
use crate::conformance::SUITE;

#[derive(Serialize)]
struct ReportJson<'r> {
    claim: ClaimJson<'r>,
    address: &'r str,
    took_ms: u64,
    summary: SummaryJson,
    checks: Vec<CheckJson<'r>>,
}

#[derive(Serialize)]
struct ClaimJson<'r> {
    name: &'r str,
    version: Option<&'r str>,
    side: &'static str,
    level: u8,
    verdict: &'static str,
    reached: Option<u8>,
    not_shown: Vec<&'static str>,
    outside: Vec<&'static str>,
    declared: Vec<&'static str>,
    protocol_version: &'static str,
    suite: &'static str,
    suite_version: &'r str,
    date: &'r str,
    sentence: String,
}

#[derive(Serialize)]
struct SummaryJson {
    passed: usize,
    failed: usize,
    warned: usize,
    not_shown: usize,
    inapplicable: usize,
    outside: usize,
    declared: usize,
}

#[derive(Serialize)]
struct CheckJson<'r> {
    requirement: &'static str,
    name: &'static str,
    level: u8,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'r str>,
    said: &'r str,
    evidence: &'r [String],
}

impl Report {
    /// Writes the report as JSON on one line.
    pub fn to_json(&self) -> String {
        let tally = self.tally();
        let written = ReportJson {
            claim: ClaimJson {
                name: &self.subject,
                version: self.subject_version.as_deref(),
                side: self.side.name(),
                level: self.level,
                verdict: self.verdict().name(),
                reached: self.reached(),
                not_shown: self.unshown(),
                outside: self.outside(),
                declared: self.declared(),
                protocol_version: recount_aaep::VERSION,
                suite: SUITE,
                suite_version: &self.suite_version,
                date: &self.date,
                sentence: self.claim(),
            },
            address: &self.address,
            took_ms: self.took_ms,
            summary: SummaryJson {
                passed: tally.passed,
                failed: tally.failed,
                warned: tally.warned,
                not_shown: tally.not_shown,
                inapplicable: tally.inapplicable,
                outside: tally.outside,
                declared: tally.declared,
            },
            checks: self
                .checks
                .iter()
                .map(|check| CheckJson {
                    requirement: check.requirement,
                    name: check.name,
                    level: check.level,
                    outcome: check.outcome.name(),
                    reason: check.outcome.reason(),
                    said: &check.detail,
                    evidence: &check.evidence,
                })
                .collect(),
        };
        serde_json::to_string(&written).unwrap_or_else(|error| unreachable!("keys are strings: {error}"))
    }
}
