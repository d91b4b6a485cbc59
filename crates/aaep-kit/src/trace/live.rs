//! The text account while it happens. See [`Live`].

use super::aaep::json::Piece;
use super::aaep::rule::Profile;
use super::follow::Follower;
use super::model::{Problem, Totals};
use super::shown::push_line;
use super::text;

/// Tells each text as it is said: its sentence, what opened and closed by it, and the rules it breaks, in lines that
/// are harmless on a terminal. Sessions are forgotten when they end, so it can go on for ever.
///
/// ```
/// use recount_aaep_kit::aaep::rule::Profile;
/// use recount_aaep_kit::trace::Live;
///
/// let mut live = Live::new(Profile::Compat, 0);
/// let event = r#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.session.started",
///   "event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:11.342Z",
///   "producer":{"agent_id":"planner"},"summary_normal":"Planning your week."}"#;
/// assert_eq!(live.hear(1, event)[..2], [
///     "Session sess_1",
///     "Line 1, after 0 s: The session starts: “Planning your week.”",
/// ]);
/// assert!(live.finish()[0].starts_with("End of session sess_1: no ending"));
/// ```
pub struct Live {
    follower: Follower,
    /// The session that was told last, by its id.
    last: Option<Box<str>>,
}

impl Live {
    pub fn new(profile: Profile, seed: u64) -> Self {
        Live { follower: Follower::new(profile, seed, false), last: None }
    }

    /// Takes a text as it is sent and the line of its file (or its number), and answers with the lines to print.
    pub fn hear(&mut self, line: usize, text: &str) -> Vec<String> {
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
            if matches!(followed.entry.what, super::model::What::Event(kind) if kind.is_terminal()) {
                text::push_end(&self.follower.sessions[at], &mut page);
            }
            self.follower.let_go(at);
        }
        lines(&page)
    }

    /// What was counted until now.
    pub fn totals(&self) -> Totals {
        self.follower.totals
    }

    /// Nothing more is said: sessions that are open have no ending.
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
