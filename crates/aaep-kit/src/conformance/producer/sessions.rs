//! Attributes the sessions of a subscription: which of them the suite requested, and whether their endings could
//! arrive. Rules on whole sessions apply only to those, because other clients use the same producer. Entry:
//! [`Sessions`].
//!
//! It does not depend on single rules.

use std::collections::{BTreeMap, BTreeSet};

use recount_aaep::Kind;
use serde_json::Value;

use crate::conformance::judge;
use crate::conformance::transcript::{Line, LineOrigin, Transcript};

/// How many of the rules on sessions apply to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleScope {
    All,
    /// All but those on its ending, which could not arrive while the subscription was open.
    AllButEnding,
    /// None: another client requested it, or it started before the subscription was open.
    Nothing,
}

/// The sessions of one transcript.
#[derive(Debug, Default)]
pub(super) struct Sessions<'t> {
    own: BTreeMap<&'t str, RuleScope>,
    /// The session of each reply token.
    tokens: BTreeMap<&'t str, &'t str>,
}

/// A session first received after a request.
struct Candidate<'t> {
    id: &'t str,
    first: &'t Line,
    is_ended: bool,
}

impl<'t> Sessions<'t> {
    /// Attributes the sessions of one of these transcripts. If another transcript received a session earlier, it
    /// counts only if it starts again: a producer that each connection starts may reuse ids.
    pub(super) fn of(transcript: &'t Transcript, all: &'t [Transcript]) -> Self {
        let others = all.iter().filter(|other| !std::ptr::eq(*other, transcript));
        let earlier: BTreeSet<&str> = others
            .flat_map(Transcript::events)
            .filter(|line| line.at_ms < transcript.opened_ms)
            .map(Line::session)
            .collect();
        let Transcript { lines, opened_ms, requested_ms, cut_short, .. } = transcript;
        let mut sessions = Sessions::attribute(lines, *opened_ms, requested_ms, &earlier);
        for line in judge::unended(lines).into_iter().map(|number| &lines[number]) {
            if (*cut_short || judge::open_prompt(lines, line.session()).is_some())
                && let Some(scope @ RuleScope::All) = sessions.own.get_mut(line.session())
            {
                *scope = RuleScope::AllButEnding;
            }
        }
        sessions
    }

    /// Attributes the sessions of a subscription that is still open.
    pub(super) fn with_requests(lines: &'t [Line], opened_ms: u64, requested_ms: &[u64]) -> Self {
        Sessions::attribute(lines, opened_ms, requested_ms, &BTreeSet::new())
    }

    /// Each request starts one session. Candidates are the sessions first received after it and before the next
    /// request.
    fn attribute(
        lines: &'t [Line],
        opened_ms: u64,
        requested_ms: &[u64],
        earlier: &BTreeSet<&'t str>,
    ) -> Sessions<'t> {
        let mut sessions = Sessions::default();
        let mut received = BTreeSet::new();
        let mut windows: BTreeMap<u64, Vec<Candidate<'t>>> = BTreeMap::new();
        let ended: BTreeSet<&str> =
            lines.iter().filter(|line| line.is_terminal()).map(Line::session).collect();
        for line in lines.iter().filter(|line| line.is_event() && !line.session().is_empty()) {
            let id = line.session();
            if !line.str("reply_token").is_empty() {
                sessions.tokens.insert(line.str("reply_token"), id);
            }
            let request_ms = requested_ms
                .iter()
                .filter(|request_ms| **request_ms >= opened_ms && **request_ms <= line.at_ms)
                .max();
            if received.insert(id)
                && (line.is(Kind::SessionStarted) || !earlier.contains(id))
                && let Some(request_ms) = request_ms
            {
                let candidate = Candidate { id, first: line, is_ended: ended.contains(id) };
                windows.entry(*request_ms).or_default().push(candidate);
            }
        }
        let answered: BTreeSet<&str> = lines
            .iter()
            .filter(|line| line.origin != LineOrigin::Received)
            .filter_map(|line| sessions.tokens.get(line.str("reply_token")).copied())
            .collect();
        for window in windows.into_values() {
            let has_prompt = |id: &str| sessions.tokens.values().any(|owner| *owner == id);
            let is_alone = window.len() == 1;
            let likely = likely(window);
            let has_ended = likely.iter().any(|candidate| candidate.is_ended);
            let own = likely.into_iter().filter_map(|candidate| {
                // Several candidates cannot be distinguished. If other clients answer a session's prompts, their
                // replies are not received.
                let is_answered_by_others =
                    !is_alone && has_prompt(candidate.id) && !answered.contains(candidate.id);
                let scope = match has_ended && !candidate.is_ended {
                    true => RuleScope::AllButEnding,
                    false => RuleScope::All,
                };
                (!is_answered_by_others).then_some((candidate.id, scope))
            });
            let own: Vec<_> = own.collect();
            sessions.own.extend(own);
        }
        sessions
    }

    /// The last lines of sessions whose endings are outstanding.
    pub(super) fn unended(&self, lines: &[Line]) -> Vec<usize> {
        let mut unended = judge::unended(lines);
        unended.retain(|number| self.rule_scope(&lines[*number]) == RuleScope::All);
        unended
    }

    /// Which rules apply to the session of a line. Replies belong to the session of their prompt. All rules apply to a
    /// line without a session.
    pub(super) fn rule_scope(&self, line: &Line) -> RuleScope {
        let session = match line.session() {
            "" => self.tokens.get(line.str("reply_token")).copied(),
            session => Some(session),
        };
        session.map_or(RuleScope::All, |session| self.own.get(session).copied().unwrap_or(RuleScope::Nothing))
    }
}

/// The candidates that the request can have started. Sessions of other clients are first received in the middle, so
/// sessions with a start take precedence. If none starts, the producer omitted the start.
fn likely(mut window: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let starts = |candidate: &Candidate<'_>| candidate.first.is(Kind::SessionStarted);
    let counts_from_zero = |candidate: &Candidate<'_>| {
        let number = candidate.first.json.get("sequence_number");
        number.is_none_or(|number| number.as_u64() == Some(0) || *number == Value::Null)
    };
    if window.iter().any(starts) {
        window.retain(starts);
    } else if window.iter().any(counts_from_zero) {
        window.retain(counts_from_zero);
    }
    window
}
