//! Writes the text form of a trace live. See [`Live`].

use super::aaep::json::Piece;
use super::aaep::rule::Profile;
use super::follow::Follower;
use super::model::{Problem, Totals};
use super::shown::push_line;
use super::text;

/// Describes each text as it arrives: its sentence, what it opened and closed, and the rules it breaks, in lines that
/// are safe for a terminal. Ended sessions are dropped, so it can run indefinitely.
///
/// ```
/// use recount_aaep_kit::aaep::rule::Profile;
/// use recount_aaep_kit::trace::Live;
///
/// let mut live = Live::new(Profile::Compat, 0);
/// let event = r#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.session.started",
///   "event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:11.342Z",
///   "producer":{"agent_id":"planner"},"summary_normal":"Planning your week."}"#;
/// assert_eq!(live.push(1, event)[..2], [
///     "Session sess_1",
///     "Line 1, after 0 s: The session starts: “Planning your week.”",
/// ]);
/// assert!(live.finish()[0].starts_with("End of session sess_1: no ending"));
/// ```
pub struct Live {
    follower: Follower,
    /// The session of the last description, by its id.
    last: Option<Box<str>>,
}

impl Live {
    pub fn new(profile: Profile, seed: u64) -> Self {
        Live { follower: Follower::new(profile, seed, false), last: None }
    }

    /// Takes a text and its line in the file (or its number); returns the lines to print.
    pub fn push(&mut self, line: usize, text: &str) -> Vec<String> {
        let followed = self.follower.piece(Piece { line, text: Ok(text.as_bytes()) });
        let mut page = String::new();
        if let Some(at) = followed.session {
            let session = &self.follower.sessions[at];
            if self.last.as_deref() != Some(&*session.id) {
                page.push_str("Session ");
                push_line(&mut page, &session.id);
                page.push('\n');
                self.last = Some(session.id.clone());
            }
        }
        text::push_entry(&followed.entry, &mut page);
        let mut at = followed.entry.line;
        for finding in followed.findings {
            text::push_problem_at(&mut at, &Problem { finding, session: None }, &mut page);
        }
        if let Some(at) = followed.session {
            if matches!(followed.entry.what, super::model::EntryKind::Event(kind) if kind.is_terminal()) {
                text::push_end(&self.follower.sessions[at], &mut page);
            }
            self.follower.drop_session(at);
        }
        lines(&page)
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        self.follower.totals
    }

    /// Ends the trace: open sessions have no ending.
    pub fn finish(&mut self) -> Vec<String> {
        let left = self.follower.finish();
        let mut page = String::new();
        for (session, finding) in left {
            let problem = Problem { finding, session: None };
            match session.and_then(|at| self.follower.sessions.get(at)) {
                Some(session) => {
                    text::push_end(session, &mut page);
                    text::push_problem_at(&mut { session.last_line }, &problem, &mut page);
                }
                None => text::push_problem_at(&mut 0, &problem, &mut page),
            }
        }
        lines(&page)
    }
}

fn lines(page: &str) -> Vec<String> {
    page.lines().map(str::to_owned).collect()
}
