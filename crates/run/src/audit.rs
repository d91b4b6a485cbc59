//! Checks a whole run against the grammar and names the first event that breaks it.
//!
//! A second, independent implementation on purpose: it uses nothing of [`crate::State`] or of the rules of
//! [`crate::decide`], so that a mistake in one shows in the other. It does not check limits, and unregistered types
//! may come anywhere between `run.queued` and the ending.
//!
//! [`Auditor`] takes the events one by one and borrows none of them. It keeps what it needs of open items, and only the
//! names of closed ones, so that runs of any length can be read.

mod calls;
mod cost;
mod course;
mod envelope;
mod people;
mod turns;

use recount_event::{Event, Payload};

use crate::rejection::Broken;

/// The first event that breaks the grammar.
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
    let mut auditor = Auditor::default();
    events.into_iter().find_map(|event| auditor.read(event).err())
}

/// Reads a run event by event, from its beginning.
#[derive(Default)]
pub struct Auditor {
    reading: Reading,
    events: usize,
    found: Option<Illegal>,
}

impl Auditor {
    /// Reads a run whose events before `first_sequence` were pruned. What is left before its ending cannot be
    /// checked against the pruned events, so only its place is checked. [`Auditor::finish`] checks that a marker describes
    /// what is missing.
    pub fn beginning_at(first_sequence: u64) -> Self {
        let mut auditor = Auditor::default();
        auditor.reading.envelope.begin_at(first_sequence);
        auditor.reading.missing = (first_sequence > 0).then_some(first_sequence);
        auditor
    }

    /// Checks that the end of the run describes the events missing at its beginning. A run that begins at 0 always
    /// passes, ended or not.
    pub fn finish(self) -> Result<(), Illegal> {
        if let Some(found) = self.found {
            return Err(found);
        }
        let Some(missing) = self.reading.missing else { return Ok(()) };
        let (rule, sequence, index) = ("gap.pruned", self.reading.envelope.wanted(), self.events);
        let message = format!(
            "events 0 to {} are missing, and no gap.events_pruned after the ending covers them",
            missing - 1
        );
        Err(Illegal { index, sequence, rule, message })
    }

    /// Takes the next event. After the first illegal one nothing more is judged: it is named again and again.
    pub fn read(&mut self, event: &Event) -> Result<(), Illegal> {
        if let Some(found) = &self.found {
            return Err(found.clone());
        }
        let index = self.events;
        self.events += 1;
        self.reading.read(event).map_err(|Broken { rule, message }| {
            let found = Illegal { index, sequence: event.sequence, rule, message };
            self.found = Some(found.clone());
            found
        })
    }

    /// How many items are stored with more than a name, and how many names.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, usize) {
        let Reading { turns, calls, people, .. } = &self.reading;
        let ((open, over), (pending, answered)) = (calls.kept(), people.kept());
        (turns.kept() + open + pending, over + answered)
    }
}

/// The facts of the events so far, by subject.
#[derive(Default)]
struct Reading {
    envelope: envelope::Envelopes,
    course: course::Course,
    turns: turns::TurnAudit,
    calls: calls::Calls,
    people: people::People,
    cost: cost::CostAudit,
    /// How many events before the first were pruned, until a marker has described them.
    missing: Option<u64>,
}

impl Reading {
    fn read(&mut self, event: &Event) -> Result<(), Broken> {
        self.envelope.read(event)?;
        if self.missing.is_some() || self.course.is_headless() {
            return self.read_headless(event);
        }
        self.fits_course(event)?;
        match event.payload() {
            Payload::RunQueued(queued) => self.cost.begin(queued),
            // Each returns whether the event was of its subject.
            payload => {
                let _handled = self.read_turn(payload)?
                    || self.read_call(payload)?
                    || self.read_people(payload, event.occurred_ms)?
                    || self.read_cost(payload)?;
            }
        }
        self.moves_course(event);
        Ok(())
    }
}
