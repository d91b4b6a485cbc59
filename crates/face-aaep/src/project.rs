//! Projects the events of a run onto the events of its AAEP session. Pure.
//!
//! A run is a session. Projecting a run again from its first event gives the same events with the same ids. A
//! [`Projector`] holds the position in the run and can be kept. The caller decides which events a listener receives and
//! when, and fills in reply tokens: see [`Tokens`] and [`mint`]. This module must not depend on clocks, keys of reply
//! tokens, subscriptions or sockets. Start with [`Projector`].

mod course;
mod event_builder;
mod id;
mod join;
mod open_call;
mod open_prompt;
mod prompts;
mod state;
mod text;
pub(crate) mod token;
mod tokens;
mod tools;

use recount_aaep::Event as AaepEvent;
use recount_aaep::wire::Producer;
use recount_event::family::run;
use recount_event::{Event, Payload, RunId};

use crate::speech::{Key, Speech};
use course::Course;
use event_builder::{EventBuilder, Frame};
pub use id::{Place, run_of, session_id};
pub(crate) use id::{digits, number};
pub use join::{JoinReason, JoinSummary, RepeatedPrompt, aged_out, informational};
pub(crate) use prompts::answers;
pub use tokens::{Tokens, is_unminted, mint, prompt_of, unminted};

/// The producer of sessions whose run names no agent.
const OURS: &str = "recount";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPhase {
    Before {
        /// The run continues from an event of another run.
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
    phase: SessionPhase,
    course: Course,
    /// The time of the last event. Timestamps of the protocol never decrease.
    millis: i64,
    /// The sequence of the last event.
    sequence: u64,
}

impl Projector {
    pub fn new(run: RunId, speech: &'static Speech) -> Self {
        Projector {
            run,
            frame: Frame::new(speech, session_id(run), Producer::named(OURS)),
            phase: SessionPhase::Before { resumed: false },
            course: Course::new(speech.sentence(Key::AgentUnnamed, &[])),
            millis: 0,
            sequence: 0,
        }
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.phase == SessionPhase::Over
    }

    /// The state that was last emitted.
    pub fn state(&self) -> &'static str {
        self.course.state.word()
    }

    /// Projects the next event of the run. Returns no events before the run is queued and after its ending.
    pub fn event(&mut self, event: &Event, tokens: Tokens<'_>) -> Vec<AaepEvent> {
        let now = i64::try_from(event.occurred_ms).unwrap_or(i64::MAX);
        self.millis = self.millis.max(now);
        self.sequence = event.sequence;
        match (self.phase, event.payload()) {
            (SessionPhase::Before { .. }, Payload::RunResumedFromEvent(_)) => {
                self.phase = SessionPhase::Before { resumed: true };
                Vec::new()
            }
            (SessionPhase::Before { resumed }, Payload::RunQueued(queued)) => {
                self.phase = SessionPhase::Open;
                self.frame.producer = producer(queued);
                if let Some(name) = text::some_quoted(self.frame.producer.agent_name.as_deref()) {
                    self.course.agent = name;
                }
                let mut builder = EventBuilder::new(&self.frame, self.run, event.sequence, self.millis);
                self.course.open_session(&mut builder, queued, resumed);
                builder.finish()
            }
            (SessionPhase::Before { .. } | SessionPhase::Over, _) => Vec::new(),
            (SessionPhase::Open, payload) => {
                let mut builder = EventBuilder::new(&self.frame, self.run, event.sequence, self.millis);
                self.course.apply(&mut builder, payload, tokens);
                if is_ending(payload) {
                    self.phase = SessionPhase::Over;
                }
                builder.finish()
            }
        }
    }
}

impl Projector {
    /// Ends a session whose next event, the one at `sequence`, is damaged. The result is the same for every projection.
    pub(crate) fn damaged(&mut self, sequence: u64) -> Vec<AaepEvent> {
        if self.is_over() {
            return Vec::new();
        }
        let began = i64::try_from(self.run.ulid().timestamp_ms()).unwrap_or(i64::MAX);
        let mut builder = EventBuilder::new(&self.frame, self.run, sequence, self.millis.max(began));
        self.course.end_damaged(&mut builder);
        (self.phase, self.sequence) = (SessionPhase::Over, sequence);
        builder.finish()
    }
}

fn is_ending(payload: &Payload) -> bool {
    matches!(payload, Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_))
}

/// The producer of a session: the agent by its name, which is the same for all its versions.
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
