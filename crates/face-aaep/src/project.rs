//! From the events of a run to the events of its AAEP session: pure. Begin with [`Projector`].
//!
//! A run is a session. A caller that projects it again from its first event gets the same events under the same ids,
//! wherever it is cut: a [`Projector`] is the place, and can be kept. Which of them one listener receives, and when, is
//! decided by the caller. Reply tokens are filled in by the caller, too: see [`Tokens`] and [`mint`]. It must never know
//! clocks, keys of reply tokens, subscriptions or sockets.

mod course;
mod id;
mod join;
mod open_call;
mod open_prompt;
mod prompts;
mod saying;
mod state;
mod text;
pub(crate) mod token;
mod tokens;
mod tools;

use recount_aaep::Event as Told;
use recount_aaep::wire::Producer;
use recount_event::family::run;
use recount_event::{Event, Payload, RunId};

use crate::speech::{Key, Speech};
use course::Course;
pub use id::{Place, run_of, session_id};
pub(crate) use id::{digits, number};
pub use join::{JoinReason, JoinSummary, RepeatedPrompt, aged_out, informational};
pub(crate) use prompts::answers;
use saying::{Frame, Saying};
pub use tokens::{Tokens, is_unminted, mint, prompt_of, unminted};

/// The producer of sessions whose run names no agent.
const OURS: &str = "recount";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before {
        /// The run has said that it goes on where another one stopped.
        resumed: bool,
    },
    Open,
    Over,
}

/// Projects one run, event by event, in one language.
#[derive(Debug, Clone)]
pub struct Projector {
    run: RunId,
    frame: Frame,
    stage: Stage,
    course: Course,
    /// The time of the last event; the protocol's never falls.
    millis: i64,
    /// The sequence of the last event.
    sequence: u64,
}

impl Projector {
    pub fn new(run: RunId, speech: &'static Speech) -> Self {
        Projector {
            run,
            frame: Frame::new(speech, session_id(run), Producer::named(OURS)),
            stage: Stage::Before { resumed: false },
            course: Course::new(speech.sentence(Key::AgentUnnamed, &[])),
            millis: 0,
            sequence: 0,
        }
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The state that was announced last.
    pub fn state(&self) -> &'static str {
        self.course.state.word()
    }

    /// The events of the protocol that the next event of the run gives. Before the run is queued and after its ending
    /// there are none.
    pub fn event(&mut self, event: &Event, tokens: Tokens<'_>) -> Vec<Told> {
        let now = i64::try_from(event.occurred_ms).unwrap_or(i64::MAX);
        self.millis = self.millis.max(now);
        self.sequence = event.sequence;
        match (self.stage, event.payload()) {
            (Stage::Before { .. }, Payload::RunResumedFromEvent(_)) => {
                self.stage = Stage::Before { resumed: true };
                Vec::new()
            }
            (Stage::Before { resumed }, Payload::RunQueued(queued)) => {
                self.stage = Stage::Open;
                self.frame.producer = producer(queued);
                if let Some(name) = text::some_quoted(self.frame.producer.agent_name.as_deref()) {
                    self.course.agent = name;
                }
                let mut saying = Saying::new(&self.frame, self.run, event.sequence, self.millis);
                self.course.opens(&mut saying, queued, resumed);
                saying.end()
            }
            (Stage::Before { .. } | Stage::Over, _) => Vec::new(),
            (Stage::Open, payload) => {
                let mut saying = Saying::new(&self.frame, self.run, event.sequence, self.millis);
                self.course.says(&mut saying, payload, tokens);
                if is_ending(payload) {
                    self.stage = Stage::Over;
                }
                saying.end()
            }
        }
    }
}

impl Projector {
    /// The end of a session whose next event, the one at `sequence`, is damaged. The same whenever it is projected.
    pub(crate) fn damaged(&mut self, sequence: u64) -> Vec<Told> {
        if self.is_over() {
            return Vec::new();
        }
        let began = i64::try_from(self.run.ulid().timestamp_ms()).unwrap_or(i64::MAX);
        let mut saying = Saying::new(&self.frame, self.run, sequence, self.millis.max(began));
        self.course.breaks_off(&mut saying);
        (self.stage, self.sequence) = (Stage::Over, sequence);
        saying.end()
    }
}

fn is_ending(payload: &Payload) -> bool {
    matches!(payload, Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_))
}

/// Who speaks: the agent by its own account, which stays the same over its versions.
fn producer(queued: &run::Queued) -> Producer {
    let named = queued.agent.as_ref().map(|agent| text::quoted(&agent.name)).filter(|name| !name.is_empty());
    Producer {
        agent_id: named.clone().unwrap_or_else(|| OURS.into()),
        agent_name: named,
        agent_version: queued.agent.as_ref().and_then(|agent| text::some_quoted(agent.version.as_deref())),
        model: text::some_quoted(queued.model.as_deref()),
        ..Producer::named(OURS)
    }
}
