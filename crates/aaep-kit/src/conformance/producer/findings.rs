//! Checks whole conversations against the rules, with one check for each requirement that a rule cites. A requirement
//! without evidence in any conversation is reported as not shown.

use std::collections::BTreeMap;

use recount_aaep::Kind;
use recount_aaep::rule::{self, Finding, Layer, Profile, Rule, Severity};
use recount_aaep::session::{Checker, Options};

use super::sessions::{RuleScope, Sessions};
use crate::conformance::report::{Check, Outcome};
use crate::conformance::requirements::{self, Requirement, Strength};
use crate::conformance::transcript::{Line, LineOrigin, Scope, Transcript};

/// The evidence that the rules on a requirement need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvidenceKind {
    Event,
    Error,
    Call,
    Output,
    Prompt,
    Question,
    Handoff,
    Answer,
    HighRiskPrompt,
    HighRiskCall,
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

impl EvidenceKind {
    /// Whether a producer may lack it; then the requirement does not apply.
    fn is_optional(self) -> bool {
        matches!(
            self,
            EvidenceKind::Numbers
                | EvidenceKind::Version
                | EvidenceKind::Extension
                | EvidenceKind::ExtensionEvent
        )
    }
}

/// Events of extensions follow the same envelope rules; their findings are also reported under this requirement.
const EXTENSION_EVENTS: &str = "R-202";

fn evidence_kind(requirement: &str) -> (EvidenceKind, &'static str) {
    match requirement {
        "R-033" => (EvidenceKind::Error, "no session ended in an error"),
        "R-050" | "R-052" | "R-054" | "R-055" | "R-056" => (EvidenceKind::Call, "no tool was called"),
        "R-057" | "R-058" | "R-059" | "R-186" => (EvidenceKind::Output, "no output came"),
        "R-060" => (EvidenceKind::Boundaries, "no output came to a subscription that asks for boundaries"),
        "R-051" | "R-062" => (EvidenceKind::HighRiskCall, "no grave action was done or requested"),
        "R-070" | "R-073" | "R-075" | "R-078" | "R-096" => (EvidenceKind::Prompt, "no prompt came"),
        "R-071" | "R-088" => (EvidenceKind::Rejection, "no prompt was rejected"),
        "R-074" => (EvidenceKind::Acceptance, "no prompt was accepted"),
        "R-094" => (EvidenceKind::Question, "no question came"),
        "R-095" => (EvidenceKind::Handoff, "no handoff came"),
        "R-111" => (EvidenceKind::Answer, "no request was answered"),
        "R-082" | "R-210" => (EvidenceKind::HighRiskPrompt, "no prompt for something grave came"),
        "R-083" => (EvidenceKind::Critical, "no prompt and no handoff came"),
        "R-015" => (EvidenceKind::Numbers, "events are not numbered, which is allowed"),
        "R-016" | "R-200" => (EvidenceKind::Extension, "no extensions were used, which is allowed"),
        "R-202" => (EvidenceKind::ExtensionEvent, "no events of extensions came, which is allowed"),
        "R-018" => (EvidenceKind::Version, "no event has a version, which is allowed"),
        "R-112" => (EvidenceKind::Terms, "no request was accepted"),
        "R-117" => (EvidenceKind::Filters, "no subscription with filters was accepted"),
        "R-122" => (EvidenceKind::Close, "no subscription was closed"),
        _ => (EvidenceKind::Event, "no event came"),
    }
}

fn is_evidence_of(line: &Line, evidence_kind: EvidenceKind) -> bool {
    let flag = |name: &str| line.json.get(name).and_then(serde_json::Value::as_bool) == Some(true);
    let is_high_risk = || {
        flag("irreversible")
            || line.str("reversibility") == "irreversible"
            || line.str("risk_level") == "high"
    };
    let honoured = |name: &str| {
        line.type_name() == "subscription.accepted"
            && line.json.get("honored_capabilities").is_some_and(|honoured| honoured.get(name).is_some())
    };
    match evidence_kind {
        EvidenceKind::Event => line.is_event(),
        EvidenceKind::Error => line.is(Kind::SessionErrored),
        EvidenceKind::Call => line.is(Kind::ToolInvoked),
        EvidenceKind::Output => line.is(Kind::OutputStreaming),
        EvidenceKind::Prompt => line.is(Kind::AwaitingConfirmation),
        EvidenceKind::Question => line.is(Kind::AwaitingClarification),
        EvidenceKind::Handoff => line.is(Kind::HandoffRequested),
        EvidenceKind::Answer => {
            line.origin == LineOrigin::Received && line.type_name().starts_with("subscription.")
        }
        EvidenceKind::HighRiskPrompt => line.is(Kind::AwaitingConfirmation) && is_high_risk(),
        EvidenceKind::HighRiskCall => {
            line.kind().is_some_and(|kind| matches!(kind, Kind::ToolInvoked | Kind::AwaitingConfirmation))
                && is_high_risk()
        }
        EvidenceKind::Critical => {
            line.kind().is_some_and(|kind| kind.is_critical() && kind != Kind::SessionErrored)
        }
        EvidenceKind::Rejection => line.origin == LineOrigin::Sent && line.str("decision") == "reject",
        EvidenceKind::Acceptance => line.origin == LineOrigin::Sent && line.str("decision") == "accept",
        EvidenceKind::Numbers => line.is_event() && line.json.get("sequence_number").is_some(),
        EvidenceKind::Extension => {
            line.is_event() && (line.json.get("extensions").is_some() || line.kind().is_none())
        }
        EvidenceKind::ExtensionEvent => line.is_event() && line.kind().is_none(),
        EvidenceKind::Version => line.is_event() && line.json.get("aaep_version").is_some(),
        EvidenceKind::Terms => {
            line.origin == LineOrigin::Received && line.type_name() == "subscription.accepted"
        }
        EvidenceKind::Filters => honoured("event_filters"),
        EvidenceKind::Boundaries => honoured("coalesce_boundaries"),
        EvidenceKind::Close => line.type_name() == "subscription.close",
    }
}

/// The requirements up to a level that rules check, as far as they concern producers.
pub(crate) fn ruled_requirements(level: u8) -> impl Iterator<Item = &'static Requirement> {
    requirements::ALL.iter().filter(move |row| {
        let ruled = row.id == EXTENSION_EVENTS || row.rules().any(is_about_producers);
        row.level <= level && row.concerns_producers() && row.who != "V" && ruled
    })
}

/// Rules whose findings appear at the end of a session, or because the end is missing.
const AT_THE_ENDING: &[&Rule] = &[
    &rule::END_MISSING,
    &rule::TOOL_OPEN,
    &rule::TOOL_OPEN_BROKEN_OFF,
    &rule::STREAM_OPEN,
    &rule::PROMPT_OPEN,
    &rule::PROMPT_NOT_DONE,
    &rule::PROMPT_NO_FOLLOW_UP,
    &rule::PROMPT_STATE_STAYS,
];

fn is_at_the_ending(rule: &Rule) -> bool {
    AT_THE_ENDING.iter().any(|other| other.id == rule.id)
}

/// Whether a rule concerns events in the order of their session. The terms of a subscription concern single events.
fn is_about_sessions(rule: &Rule) -> bool {
    rule.layer == Layer::Session && !rule.id.starts_with("handshake.")
}

/// Whether the rules on a requirement were applied to a session with this scope.
fn rules_apply(requirement: &Requirement, scope: RuleScope) -> bool {
    match scope {
        RuleScope::All => true,
        RuleScope::AllButEnding => !requirement.rules().any(is_at_the_ending),
        RuleScope::Nothing => !requirement.rules().any(is_about_sessions),
    }
}

/// Rules on replies concern the sender of the reply, which was this suite.
fn is_about_producers(rule: &Rule) -> bool {
    !rule.id.starts_with("reply.") && rule.id != "handshake.unknown" && rule.id != "session.delivered_twice"
}

struct RuleFinding {
    worst: Severity,
    times: usize,
    message: String,
    evidence: Vec<String>,
}

/// One check for each requirement that rules cover. `wanted` selects requirements.
pub(crate) fn checks(transcripts: &[Transcript], level: u8, wanted: impl Fn(&str) -> bool) -> Vec<Check> {
    let mut found: BTreeMap<&'static str, RuleFinding> = BTreeMap::new();
    let sessions: Vec<Sessions<'_>> =
        transcripts.iter().map(|transcript| Sessions::of(transcript, transcripts)).collect();
    for (transcript, sessions) in transcripts.iter().zip(&sessions) {
        for (line, finding) in rule_findings(transcript, sessions) {
            for id in about(line, &finding) {
                let shown = || format!("{}: {}", transcript.label, line.shown());
                let entry = found.entry(id).or_insert_with(|| RuleFinding {
                    worst: finding.severity,
                    times: 0,
                    message: message_of(&finding),
                    evidence: Vec::new(),
                });
                entry.times += 1;
                if finding.severity > entry.worst {
                    (entry.worst, entry.message) = (finding.severity, message_of(&finding));
                    entry.evidence.clear();
                }
                if finding.severity == entry.worst && entry.evidence.len() < 2 {
                    entry.evidence.push(shown());
                }
            }
        }
    }
    let seen = |evidence_kind: EvidenceKind, requirement: &Requirement| {
        transcripts.iter().zip(&sessions).any(|(transcript, sessions)| {
            let is_ruled = |line: &Line| {
                transcript.scope == Scope::Part || rules_apply(requirement, sessions.rule_scope(line))
            };
            transcript.lines.iter().any(|line| is_evidence_of(line, evidence_kind) && is_ruled(line))
        })
    };
    let mut checks = Vec::new();
    for requirement in ruled_requirements(level).filter(|row| wanted(row.id)) {
        let (needed, lack) = evidence_kind(requirement.id);
        let check = |outcome, detail: String| {
            Check::new(requirement.id, requirement.text, requirement.level, outcome, detail)
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
                check(outcome, format!("{}{more}", found.message)).with_all(found.evidence)
            }
            None if seen(needed, requirement) => {
                check(Outcome::Passed, "the rules found nothing else".to_owned())
            }
            None if needed.is_optional() => check(Outcome::Inapplicable(lack.to_owned()), String::new()),
            None => check(Outcome::NotShown(lack.to_owned()), String::new()),
        });
    }
    checks
}

/// The requirements that a finding concerns.
fn about(line: &Line, finding: &Finding) -> Vec<&'static str> {
    let mut about: Vec<&str> = requirements::cited(finding.rule).collect();
    let envelope = matches!(finding.rule.layer, Layer::Required | Layer::Form);
    if envelope && is_evidence_of(line, EvidenceKind::ExtensionEvent) {
        about.push(EXTENSION_EVENTS);
    }
    // Some formats have requirements of their own.
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

fn message_of(finding: &Finding) -> String {
    let at = if finding.path.is_empty() { String::new() } else { format!(" (at `{}`)", finding.path) };
    format!("rule {}: {}{at}. {}", finding.rule.id, finding.message, finding.rule.remedy)
}

/// The findings of the rules in a conversation, each with its line. Notes, findings on the suite's own messages, and
/// findings in sessions outside the rules' scope are excluded.
fn rule_findings<'t>(transcript: &'t Transcript, sessions: &Sessions<'_>) -> Vec<(&'t Line, Finding)> {
    let mut checker = Checker::new(Options { profile: Profile::Strict, ..Options::default() });
    let mut found = Vec::new();
    let is_relevant = |line: &Line, finding: &Finding| {
        if !is_about_sessions(finding.rule) {
            return true;
        }
        transcript.scope == Scope::Whole
            && match sessions.rule_scope(line) {
                RuleScope::All => true,
                RuleScope::AllButEnding => !is_at_the_ending(finding.rule),
                RuleScope::Nothing => false,
            }
    };
    for (number, line) in transcript.lines.iter().enumerate() {
        if line.origin == LineOrigin::SentIneffective
            || line.json.get("kind").is_some_and(|kind| kind == "user_input")
        {
            continue;
        }
        checker.text(number, &line.text);
        for finding in checker.take() {
            if line.origin == LineOrigin::Received && is_relevant(line, &finding) {
                found.push((line, finding));
            }
        }
    }
    checker.finish();
    for finding in checker.take() {
        // Findings at the end belong to the events at their line.
        if let Some(line) = transcript.lines.get(finding.line).filter(|line| is_relevant(line, &finding)) {
            found.push((line, finding));
        }
    }
    found.retain(|(line, finding)| {
        // A server's message outside the protocol, such as the acknowledgement of a driver's input, is not an event.
        // The versioned surface does not allow it, so it is reported there.
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
        event_of("sess_1", number, kind, more)
    }

    fn event_of(session: &str, number: usize, kind: &str, more: Value) -> Line {
        let mut value = json!({
            "@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{session}_{number}"), "session_id": session, "timestamp": format!("2026-05-24T14:22:{number:02}.000Z"),
            "producer": {"agent_id": "planner"}, "localization_hints": {"primary_language": "en"}, "summary_normal": "So.",
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Line::new(0, 0, LineOrigin::Received, value.to_string())
    }

    fn at(at_ms: u64, line: Line) -> Line {
        Line { at_ms, ..line }
    }

    fn transcript(scope: Scope, lines: Vec<Line>) -> Transcript {
        Transcript { lines, requested_ms: vec![0], ..Transcript::new("a test", scope) }
    }

    fn outcome(transcript: Transcript, requirement: &str) -> Outcome {
        outcome_of(&[transcript], requirement)
    }

    fn outcome_of(transcripts: &[Transcript], requirement: &str) -> Outcome {
        let checks = checks(transcripts, 3, |id| id == requirement);
        assert_eq!(checks.len(), 1, "{requirement}");
        checks[0].outcome.clone()
    }

    fn prompt() -> Line {
        prompt_of("sess_1")
    }

    fn prompt_of(session: &str) -> Line {
        let prompt = json!({
            "action": "Pay.", "consequence": "The money is gone.", "reply_token": "rpl_1", "timeout_seconds": 60,
            "default_decision": "reject", "urgency": "critical", "risk_level": "high", "irreversible": true,
        });
        event_of(session, 2, "awaiting.confirmation", prompt)
    }

    ///
    #[test]
    fn findings_are_listed_under_their_requirement() {
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

    /// A reply of the suite that must have no effect permits nothing.
    #[test]
    fn ineffective_messages_are_ignored() {
        let reply = json!({
            "type": "confirmation.reply", "reply_token": "rpl_1", "decision": "accept", "subscription_id": "sub_1",
            "timestamp": "2026-05-24T14:22:02.500Z",
        });
        let call =
            event(3, "tool.invoked", json!({"tool": "pay", "irreversible": true, "risk_level": "high"}));
        let conversation = |origin| {
            let reply = Line::new(0, 0, origin, reply.to_string());
            transcript(
                Scope::Whole,
                vec![event(1, "session.started", json!({})), prompt(), reply, call.clone()],
            )
        };
        assert_eq!(outcome(conversation(LineOrigin::Sent), "R-070"), Outcome::Passed);
        assert_eq!(outcome(conversation(LineOrigin::SentIneffective), "R-070"), Outcome::Failed);
    }

    #[test]
    fn requirements_without_evidence_are_not_shown() {
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

    fn is_not_shown(outcome: Outcome) -> bool {
        matches!(outcome, Outcome::NotShown(_))
    }

    /// A session that waits for a reply at the close excuses its missing ending, and nothing else.
    #[test]
    fn a_session_with_an_open_prompt_excuses_its_ending_only() {
        let prompted = [event(1, "session.started", json!({})), prompt()];
        let alone = || transcript(Scope::Whole, prompted.to_vec());
        assert!(is_not_shown(outcome(alone(), "R-031")));
        assert!(is_not_shown(outcome(alone(), "R-071")));
        assert_eq!(outcome(alone(), "R-030"), Outcome::Passed);
        let with = |lines: Vec<Line>| {
            let lines = prompted.iter().cloned().chain(lines.into_iter().map(|line| at(10, line))).collect();
            Transcript { requested_ms: vec![0, 10], ..transcript(Scope::Whole, lines) }
        };
        let other = |number, kind: &str, more| event_of("sess_2", number, kind, more);
        let call = |number, name: &str, id: &str, kind: &str| {
            other(number, kind, json!({"tool": name, "tool_call_id": id, "status": "success"}))
        };
        let whole =
            with(vec![other(1, "session.started", json!({})), other(3, "session.completed", json!({}))]);
        assert_eq!(outcome(whole, "R-031"), Outcome::Passed);
        let unended = with(vec![other(1, "session.started", json!({}))]);
        assert_eq!(outcome(unended, "R-031"), Outcome::Failed);
        let chaos = || {
            with(vec![
                other(1, "session.started", json!({})),
                call(2, "fetch", "call_1", "tool.completed"),
                other(3, "state.changed", json!({"from_state": "nowhere", "to_state": "thinking"})),
                other(
                    4,
                    "tool.invoked",
                    json!({"tool": "pay", "tool_call_id": "call_2", "irreversible": true, "risk_level": "high"}),
                ),
                other(5, "session.completed", json!({})),
                other(6, "session.completed", json!({})),
            ])
        };
        for requirement in ["R-031", "R-036", "R-050", "R-051", "R-052", "R-054"] {
            assert_eq!(outcome(chaos(), requirement), Outcome::Failed, "{requirement}");
        }
    }

    /// Findings on the events of a cut session are still reported.
    #[test]
    fn a_cut_session_is_held_to_all_but_its_ending() {
        let lines = vec![
            event(1, "session.started", json!({"sequence_number": 0})),
            event(
                2,
                "tool.invoked",
                json!({
                    "tool": "wipe", "tool_call_id": "call_1", "irreversible": true, "risk_level": "high", "sequence_number": 7,
                }),
            ),
        ];
        let broken = || Transcript { cut_short: true, ..transcript(Scope::Whole, lines.clone()) };
        assert_eq!(outcome(broken(), "R-015"), Outcome::Failed);
        assert_eq!(outcome(broken(), "R-051"), Outcome::Failed);
        assert!(is_not_shown(outcome(broken(), "R-031")));
        assert!(is_not_shown(outcome(broken(), "R-054")));
        assert_eq!(outcome(transcript(Scope::Whole, lines.clone()), "R-031"), Outcome::Failed);
    }

    /// Sessions of other clients are received from the middle and continue after the close (R-015, R-030, R-031,
    ///
    #[test]
    fn unrequested_sessions_are_excluded() {
        let state = |session, number: usize, from: &str| {
            let more = json!({"from_state": from, "to_state": "thinking", "sequence_number": number});
            event_of(session, number, "state.changed", more)
        };
        let start = |session| event_of(session, 0, "session.started", json!({"sequence_number": 0}));
        let end = |session, number: usize| {
            event_of(session, number, "session.completed", json!({"sequence_number": number}))
        };
        // One is received from the middle before any request, one after it, and one starts before and continues.
        let lines = vec![
            at(1, state("sess_a", 4, "deciding")),
            at(2, start("sess_b")),
            at(11, state("sess_c", 9, "deciding")),
            at(12, start("sess_1")),
            at(13, state("sess_1", 1, "idle")),
            at(14, end("sess_1", 2)),
        ];
        let conversation =
            || Transcript { requested_ms: vec![10], ..transcript(Scope::Whole, lines.clone()) };
        for requirement in ["R-015", "R-030", "R-031", "R-036"] {
            assert_eq!(outcome(conversation(), requirement), Outcome::Passed, "{requirement}");
        }
        // One that starts during the request cannot be distinguished from it; one ended session of both is enough.
        let mut lines = lines.clone();
        lines.insert(3, at(11, start("sess_d")));
        let both = Transcript { requested_ms: vec![10], ..transcript(Scope::Whole, lines.clone()) };
        assert_eq!(outcome(both, "R-031"), Outcome::Passed);
        lines.pop();
        let neither = Transcript { requested_ms: vec![10], ..transcript(Scope::Whole, lines) };
        assert_eq!(outcome(neither, "R-031"), Outcome::Failed);
        // The requested session has no start: no other session can be it.
        let headless = vec![at(1, state("sess_a", 4, "deciding")), at(12, state("sess_1", 1, "idle"))];
        let headless = Transcript { requested_ms: vec![10], ..transcript(Scope::Whole, headless) };
        assert_eq!(outcome(headless, "R-030"), Outcome::Failed);
    }

    /// A session that an earlier subscription left with an open prompt continues in the next one.
    #[test]
    fn a_session_of_an_earlier_subscription_is_left_out() {
        let first = transcript(Scope::Whole, vec![event(1, "session.started", json!({})), prompt()]);
        let rest = vec![
            at(31, event(3, "state.changed", json!({"from_state": "awaiting_input", "to_state": "idle"}))),
            at(32, event(4, "session.completed", json!({}))),
        ];
        let next =
            |lines| Transcript { opened_ms: 20, requested_ms: vec![30], ..transcript(Scope::Whole, lines) };
        assert_eq!(outcome_of(&[first.clone(), next(rest.clone())], "R-030"), Outcome::Passed);
        assert_eq!(outcome_of(&[next(rest)], "R-030"), Outcome::Failed);
    }

    /// Replies of other clients are not received, so what follows their prompts proves nothing.
    #[test]
    fn prompts_of_other_clients_are_left_out() {
        let grave = json!({"tool": "pay", "irreversible": true, "risk_level": "high"});
        let lines = vec![
            event_of("sess_a", 1, "session.started", json!({})),
            prompt_of("sess_a"),
            event_of("sess_a", 3, "tool.invoked", grave),
            event_of("sess_b", 1, "session.started", json!({})),
            event_of("sess_b", 2, "session.completed", json!({})),
        ];
        let lines: Vec<Line> = lines.into_iter().map(|line| at(5, line)).collect();
        let before = Transcript { requested_ms: vec![], ..transcript(Scope::Whole, lines.clone()) };
        assert!(is_not_shown(outcome(before, "R-070")));
        let amid = transcript(Scope::Whole, lines.clone());
        assert!(is_not_shown(outcome(amid, "R-070")));
        let ours = transcript(Scope::Whole, lines[..3].to_vec());
        assert_eq!(outcome(ours, "R-070"), Outcome::Failed);
    }
}
