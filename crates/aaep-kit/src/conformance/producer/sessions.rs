//! Attributes the sessions of a subscription: which of them the suite asked for, and whether their endings could be
//! heard. Rules on whole sessions hold for those only, because other clients use the same producer. Entry:
//! [`Sessions`].
//!
//! It knows no rule.

use std::collections::{BTreeMap, BTreeSet};

use recount_aaep::Kind;
use serde_json::Value;

use crate::conformance::judge;
use crate::conformance::transcript::{Line, LineOrigin, Transcript};

/// How much of a session the rules on sessions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    All,
    /// All but what only its ending shows: the ending could not come while the subscription was open.
    AllButEnding,
    /// Nothing: another client asked for it, or it started before the subscription was open.
    Nothing,
}

/// The sessions of one transcript.
#[derive(Debug, Default)]
pub(super) struct Sessions<'t> {
    own: BTreeMap<&'t str, Held>,
    /// The session of each reply token.
    tokens: BTreeMap<&'t str, &'t str>,
}

/// A session that was first heard after a request.
struct Candidate<'t> {
    id: &'t str,
    first: &'t Line,
    is_ended: bool,
}

impl<'t> Sessions<'t> {
    /// Attributes the sessions of one of these transcripts. A session that another one heard before this one was open is
    /// held only where it starts again: a producer that each connection starts anew may count its sessions anew.
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
                && let Some(held @ Held::All) = sessions.own.get_mut(line.session())
            {
                *held = Held::AllButEnding;
            }
        }
        sessions
    }

    /// Attributes the sessions of a subscription that is still open.
    pub(super) fn with_requests(lines: &'t [Line], opened_ms: u64, requested_ms: &[u64]) -> Self {
        Sessions::attribute(lines, opened_ms, requested_ms, &BTreeSet::new())
    }

    /// One session is expected for each request: the first events of sessions that come after it, and before the next
    /// request, are candidates.
    fn attribute(
        lines: &'t [Line],
        opened_ms: u64,
        requested_ms: &[u64],
        earlier: &BTreeSet<&'t str>,
    ) -> Sessions<'t> {
        let mut sessions = Sessions::default();
        let mut heard = BTreeSet::new();
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
            if heard.insert(id)
                && (line.is(Kind::SessionStarted) || !earlier.contains(id))
                && let Some(request_ms) = request_ms
            {
                let candidate = Candidate { id, first: line, is_ended: ended.contains(id) };
                windows.entry(*request_ms).or_default().push(candidate);
            }
        }
        let answered: BTreeSet<&str> = lines
            .iter()
            .filter(|line| line.origin != LineOrigin::Heard)
            .filter_map(|line| sessions.tokens.get(line.str("reply_token")).copied())
            .collect();
        for window in windows.into_values() {
            let asks = |id: &str| sessions.tokens.values().any(|owner| *owner == id);
            let is_alone = window.len() == 1;
            let likely = likely(window);
            let has_ended = likely.iter().any(|candidate| candidate.is_ended);
            let own = likely.into_iter().filter_map(|candidate| {
                // Which of several was asked for cannot be told. Where other clients answer its prompts, their replies
                // are not heard.
                let is_answered_by_others =
                    !is_alone && asks(candidate.id) && !answered.contains(candidate.id);
                let held = match has_ended && !candidate.is_ended {
                    true => Held::AllButEnding,
                    false => Held::All,
                };
                (!is_answered_by_others).then_some((candidate.id, held))
            });
            let own: Vec<_> = own.collect();
            sessions.own.extend(own);
        }
        sessions
    }

    /// The last lines of the sessions whose endings are to come.
    pub(super) fn unended(&self, lines: &[Line]) -> Vec<usize> {
        let mut unended = judge::unended(lines);
        unended.retain(|number| self.held(&lines[*number]) == Held::All);
        unended
    }

    /// How much is held of the session that a line belongs to; replies belong to the session of their prompt. A line of
    /// no session is held.
    pub(super) fn held(&self, line: &Line) -> Held {
        let session = match line.session() {
            "" => self.tokens.get(line.str("reply_token")).copied(),
            session => Some(session),
        };
        session.map_or(Held::All, |session| self.own.get(session).copied().unwrap_or(Held::Nothing))
    }
}

/// The candidates that the request can have started. A session of another client is first heard in the middle, so those
/// that start come first. Where none starts, the producer forgot it.
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
