//! Reads a whole run by the grammar and names the first event that breaks it.
//!
//! Written a second time on purpose: nothing of [`crate::State`] or of the rules behind [`crate::decide`]
//! is used here, so that a mistake in one shows in the other. It remembers everything it has read and asks
//! that, where a state keeps only what is open. Limits are not its business, and types outside the registry
//! may stand anywhere between `run.queued` and the ending.

mod calls;
mod cost;
mod course;
mod envelope;
mod people;
mod turns;

use recount_event::{Event, Payload};

use crate::rejection::Broken;

/// The first place where a run breaks the grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {sequence} breaks {rule}: {message}")]
pub struct Illegal {
    /// Which of the events that were read.
    pub index: usize,
    pub sequence: u64,
    /// See [`crate::RULES`].
    pub rule: &'static str,
    pub message: String,
}

/// The first illegal event of a run that is read from its beginning; `None` when all of it is legal.
pub fn audit<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Illegal> {
    let mut reading = Reading::default();
    for (index, event) in events.into_iter().enumerate() {
        if let Err(Broken { rule, message }) = reading.read(event) {
            return Some(Illegal { index, sequence: event.sequence, rule, message });
        }
    }
    None
}

/// Everything read so far, by subject.
#[derive(Default)]
struct Reading<'a> {
    envelope: envelope::Envelopes,
    course: course::Course,
    turns: turns::Turns<'a>,
    calls: calls::Calls<'a>,
    people: people::People<'a>,
    cost: cost::Cost,
}

impl<'a> Reading<'a> {
    fn read(&mut self, event: &'a Event) -> Result<(), Broken> {
        self.envelope.read(event)?;
        self.stands_in_course(event)?;
        match event.payload() {
            Payload::RunQueued(queued) => self.cost.begin(queued),
            // Each says whether the event was of its subject.
            payload => {
                let _told = self.read_turn(payload)?
                    || self.read_call(payload)?
                    || self.read_people(payload)?
                    || self.read_cost(payload)?;
            }
        }
        self.moves_course(event);
        Ok(())
    }
}
