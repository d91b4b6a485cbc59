//! Checks whole conversations against the rules, with one check for each requirement that a rule cites. A requirement
//! that no conversation showed is reported as not shown.

use std::collections::BTreeMap;

use recount_aaep::Kind;
use recount_aaep::rule::{Finding, Layer, Profile, Severity};
use recount_aaep::session::{Checker, Options};

use crate::conformance::report::{Check, Outcome};
use crate::conformance::requirements::{self, Requirement, Strength};
use crate::conformance::transcript::{Line, Scope, Transcript, Way};

/// What the rules on a requirement need to have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Event,
    Error,
    Call,
    Output,
    Prompt,
    Question,
    Handoff,
    Answer,
    GravePrompt,
    GraveCall,
    Critical,
    Rejection,
    Acceptance,
    Numbers,
    Extension,
    ExtensionEvent,
    Version,
    Terms,
    Filters,
    Boundaries,
    Close,
}

impl Need {
    /// Whether a producer may do without it: then the requirement does not concern it.
    fn is_optional(self) -> bool {
        matches!(self, Need::Numbers | Need::Version | Need::Extension | Need::ExtensionEvent)
    }
}

/// Events of extensions are held to the rules on envelopes like all others; what is found there is told here as well.
const EXTENSION_EVENTS: &str = "R-202";

fn need(requirement: &str) -> (Need, &'static str) {
    match requirement {
        "R-033" => (Need::Error, "no session ended in an error"),
        "R-050" | "R-052" | "R-054" | "R-055" | "R-056" => (Need::Call, "no tool was called"),
        "R-057" | "R-058" | "R-059" | "R-186" => (Need::Output, "nothing was put out"),
        "R-060" => (Need::Boundaries, "no output came to a subscription that asks for boundaries"),
        "R-051" | "R-062" => (Need::GraveCall, "nothing grave was done or asked for"),
        "R-070" | "R-073" | "R-075" | "R-078" | "R-096" => (Need::Prompt, "no prompt came"),
        "R-071" | "R-088" => (Need::Rejection, "nothing was rejected"),
        "R-074" => (Need::Acceptance, "nothing was accepted"),
        "R-094" => (Need::Question, "nothing was asked"),
        "R-095" => (Need::Handoff, "nothing was handed over"),
        "R-111" => (Need::Answer, "no request was answered"),
        "R-082" | "R-210" => (Need::GravePrompt, "no prompt for something grave came"),
        "R-083" => (Need::Critical, "neither a prompt nor a handoff came"),
        "R-015" => (Need::Numbers, "events are not numbered, which is allowed"),
        "R-016" | "R-200" => (Need::Extension, "no extensions were used, which is allowed"),
        "R-202" => (Need::ExtensionEvent, "no events of extensions came, which is allowed"),
        "R-018" => (Need::Version, "no event says its version, which is allowed"),
        "R-112" => (Need::Terms, "no request was accepted"),
        "R-117" => (Need::Filters, "no subscription with filters was accepted"),
        "R-122" => (Need::Close, "no subscription was closed"),
        _ => (Need::Event, "no event came"),
    }
}

fn shows(line: &Line, need: Need) -> bool {
    let flag = |name: &str| line.json.get(name).and_then(serde_json::Value::as_bool) == Some(true);
    let grave = || {
        flag("irreversible")
            || line.str("reversibility") == "irreversible"
            || line.str("risk_level") == "high"
    };
    let honoured = |name: &str| {
        line.type_name() == "subscription.accepted"
            && line.json.get("honored_capabilities").is_some_and(|honoured| honoured.get(name).is_some())
    };
    match need {
        Need::Event => line.is_event(),
        Need::Error => line.is(Kind::SessionErrored),
        Need::Call => line.is(Kind::ToolInvoked),
        Need::Output => line.is(Kind::OutputStreaming),
        Need::Prompt => line.is(Kind::AwaitingConfirmation),
        Need::Question => line.is(Kind::AwaitingClarification),
        Need::Handoff => line.is(Kind::HandoffRequested),
        Need::Answer => line.way == Way::Heard && line.type_name().starts_with("subscription."),
        Need::GravePrompt => line.is(Kind::AwaitingConfirmation) && grave(),
        Need::GraveCall => {
            line.kind().is_some_and(|kind| matches!(kind, Kind::ToolInvoked | Kind::AwaitingConfirmation))
                && grave()
        }
        Need::Critical => line.kind().is_some_and(|kind| kind.is_critical() && kind != Kind::SessionErrored),
        Need::Rejection => line.way == Way::Sent && line.str("decision") == "reject",
        Need::Acceptance => line.way == Way::Sent && line.str("decision") == "accept",
        Need::Numbers => line.is_event() && line.json.get("sequence_number").is_some(),
        Need::Extension => {
            line.is_event() && (line.json.get("extensions").is_some() || line.kind().is_none())
        }
        Need::ExtensionEvent => line.is_event() && line.kind().is_none(),
        Need::Version => line.is_event() && line.json.get("aaep_version").is_some(),
        Need::Terms => line.way == Way::Heard && line.type_name() == "subscription.accepted",
        Need::Filters => honoured("event_filters"),
        Need::Boundaries => honoured("coalesce_boundaries"),
        Need::Close => line.type_name() == "subscription.close",
    }
}

/// The requirements that rules hold up to a level, as far as they concern producers.
pub(crate) fn held(level: u8) -> impl Iterator<Item = &'static Requirement> {
    requirements::ALL.iter().filter(move |row| {
        let ruled = row.id == EXTENSION_EVENTS || row.rules().any(is_about_producers);
        row.level <= level && row.concerns_producers() && row.who != "V" && ruled
    })
}

/// Rules on replies are about the sender of the reply, which was this suite.
fn is_about_producers(rule: &recount_aaep::rule::Rule) -> bool {
    !rule.id.starts_with("reply.") && rule.id != "handshake.unknown" && rule.id != "session.delivered_twice"
}

struct Found {
    worst: Severity,
    times: usize,
    told: String,
    evidence: Vec<String>,
}

/// One check of each requirement that rules hold. `wanted` says which are looked at.
pub(crate) fn checks(transcripts: &[Transcript], level: u8, wanted: impl Fn(&str) -> bool) -> Vec<Check> {
    let mut found: BTreeMap<&'static str, Found> = BTreeMap::new();
    for transcript in transcripts {
        for (line, finding) in hold(transcript) {
            for id in about(line, &finding) {
                let shown = || format!("{}: {}", transcript.label, line.shown());
                let entry = found.entry(id).or_insert_with(|| Found {
                    worst: finding.severity,
                    times: 0,
                    told: told(&finding),
                    evidence: Vec::new(),
                });
                entry.times += 1;
                if finding.severity > entry.worst {
                    (entry.worst, entry.told) = (finding.severity, told(&finding));
                    entry.evidence.clear();
                }
                if finding.severity == entry.worst && entry.evidence.len() < 2 {
                    entry.evidence.push(shown());
                }
            }
        }
    }
    let seen = |need: Need| {
        transcripts.iter().flat_map(|transcript| &transcript.lines).any(|line| shows(line, need))
    };
    let mut checks = Vec::new();
    for requirement in held(level).filter(|row| wanted(row.id)) {
        let (needed, lack) = need(requirement.id);
        let check = |outcome, said: String| {
            Check::new(requirement.id, requirement.says, requirement.level, outcome, said)
        };
        checks.push(match found.remove(requirement.id) {
            Some(found) => {
                let more = match found.times {
                    1 => String::new(),
                    times => format!(" ({times} times)"),
                };
                let must = requirement.strength == Strength::Must;
                let outcome =
                    if found.worst == Severity::Error && must { Outcome::Failed } else { Outcome::Warned };
                check(outcome, format!("{}{more}", found.told)).with_all(found.evidence)
            }
            None if seen(needed) => check(Outcome::Passed, "nothing else was found by the rules".to_owned()),
            None if needed.is_optional() => check(Outcome::Inapplicable(lack.to_owned()), String::new()),
            None => check(Outcome::NotShown(lack.to_owned()), String::new()),
        });
    }
    checks
}

/// The requirements that a finding is about.
fn about(line: &Line, finding: &Finding) -> Vec<&'static str> {
    let mut about: Vec<&str> = requirements::cited(finding.rule).collect();
    let envelope = matches!(finding.rule.layer, Layer::Required | Layer::Form);
    if envelope && shows(line, Need::ExtensionEvent) {
        about.push(EXTENSION_EVENTS);
    }
    // Some forms are requirements of their own.
    match finding.path.as_str() {
        "reply_token" => about = vec!["R-075"],
        "language" => about = vec!["R-181"],
        path if path.starts_with("localization_hints.")
            && path.contains("language")
            && finding.rule.id == "envelope.localization_hints" =>
        {
            about = vec!["R-181"];
        }
        _ => {}
    }
    about
}

fn told(finding: &Finding) -> String {
    let at = if finding.path.is_empty() { String::new() } else { format!(" (at `{}`)", finding.path) };
    format!("rule {}: {}{at}. {}", finding.rule.id, finding.message, finding.rule.remedy)
}

/// What the rules find in a conversation, with the line it is about. Notes are left out, and so is what is said of our
/// own messages.
fn hold(transcript: &Transcript) -> Vec<(&Line, Finding)> {
    let mut checker = Checker::new(Options { profile: Profile::Strict, ..Options::default() });
    let mut found = Vec::new();
    let whole = transcript.scope == Scope::Whole;
    let mut last = None;
    for line in &transcript.lines {
        if line.way == Way::Vain || line.json.get("kind").is_some_and(|kind| kind == "user_input") {
            continue;
        }
        checker.text(1, &line.text);
        for finding in checker.take() {
            let kept = line.way == Way::Heard
                && (whole
                    || finding.rule.layer != Layer::Session
                    || finding.rule.id.starts_with("handshake."));
            if kept {
                found.push((line, finding));
            }
        }
        if line.is_event() {
            last = Some(line);
        }
    }
    checker.finish();
    if let (true, Some(last)) = (whole, last) {
        found.extend(checker.take().into_iter().map(|finding| (last, finding)));
    }
    found.retain(|(line, finding)| {
        // A server's own word beside the protocol, such as the acknowledgement of a driver's input, is no event of a
        // producer; the versioned surface has no place for it, and there it is told.
        let aside = finding.rule.id == "message.type" && line.json.get("event_id").is_none();
        finding.severity != Severity::Note && is_about_producers(finding.rule) && !aside
    });
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(number: usize, kind: &str, more: Value) -> Line {
        let mut value = json!({
            "@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{number}"), "session_id": "sess_1", "timestamp": format!("2026-05-24T14:22:{number:02}.000Z"),
            "producer": {"agent_id": "planner"}, "localization_hints": {"primary_language": "en"}, "summary_normal": "So.",
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Line::new(0, 0, Way::Heard, value.to_string())
    }

    fn transcript(scope: Scope, lines: Vec<Line>) -> Transcript {
        Transcript { label: "a test".into(), scope, lines }
    }

    fn outcome(transcript: Transcript, requirement: &str) -> Outcome {
        let checks = checks(&[transcript], 3, |id| id == requirement);
        assert_eq!(checks.len(), 1, "{requirement}");
        checks[0].outcome.clone()
    }

    fn prompt() -> Line {
        let prompt = json!({
            "action": "Pay.", "consequence": "The money is gone.", "reply_token": "rpl_1", "timeout_seconds": 60,
            "default_decision": "reject", "urgency": "critical", "risk_level": "high", "irreversible": true,
        });
        event(2, "awaiting.confirmation", prompt)
    }

    ///
    #[test]
    fn findings_are_told_under_the_requirement_they_come_from() {
        let call =
            || event(3, "tool.invoked", json!({"tool": "pay", "irreversible": true, "risk_level": "high"}));
        let (start, end) = (event(1, "session.started", json!({})), event(5, "session.completed", json!({})));
        let bad = transcript(Scope::Whole, vec![start.clone(), call(), end.clone()]);
        assert_eq!(outcome(bad, "R-051"), Outcome::Failed);
        let early = transcript(Scope::Whole, vec![start.clone(), prompt(), call(), end]);
        assert_eq!(outcome(early, "R-070"), Outcome::Failed);
        let unended = transcript(Scope::Whole, vec![start.clone()]);
        assert_eq!(outcome(unended, "R-031"), Outcome::Failed);
        let cut = transcript(Scope::Part, vec![start]);
        assert_eq!(outcome(cut, "R-031"), Outcome::Passed);
    }

    /// A reply of ours that must have no effect allows nothing.
    #[test]
    fn what_was_sent_in_vain_is_passed_over() {
        let reply = json!({
            "type": "confirmation.reply", "reply_token": "rpl_1", "decision": "accept", "subscription_id": "sub_1",
            "timestamp": "2026-05-24T14:22:02.500Z",
        });
        let call =
            event(3, "tool.invoked", json!({"tool": "pay", "irreversible": true, "risk_level": "high"}));
        let talk = |way| {
            let reply = Line::new(0, 0, way, reply.to_string());
            transcript(
                Scope::Whole,
                vec![event(1, "session.started", json!({})), prompt(), reply, call.clone()],
            )
        };
        assert_eq!(outcome(talk(Way::Sent), "R-070"), Outcome::Passed);
        assert_eq!(outcome(talk(Way::Vain), "R-070"), Outcome::Failed);
    }

    #[test]
    fn what_did_not_come_up_is_not_shown() {
        let brief = || {
            transcript(
                Scope::Whole,
                vec![event(1, "session.started", json!({})), event(2, "session.completed", json!({}))],
            )
        };
        for requirement in ["R-033", "R-051", "R-057", "R-070", "R-082", "R-112", "R-117"] {
            assert!(matches!(outcome(brief(), requirement), Outcome::NotShown(_)), "{requirement}");
        }
        assert_eq!(outcome(brief(), "R-001"), Outcome::Passed);
    }
}
