//! Decides a command: the result is events with their sequences, or a rejection.
//!
//! It works on a scratch copy of the state: each event is checked against the state after the ones
//! before it, and all are returned only if all were accepted. Look at [`Batch`].

mod answer;
mod bounds;
mod calls;
mod cancel;
mod close;
mod extend;
mod outcome;
mod prune;
mod queue;
mod report;
mod settle;
mod take_over;
mod tick;

use recount_event::family::clarification;
use recount_event::{Code, Draft, Event, EventId, Minter, Payload, Stamp, time};

use crate::apply::apply;
use crate::command::Command;
use crate::judge::judge;
use crate::rejection::{Broken, Rejection};
use crate::state::State;

/// The events that a command appends, with their sequences, or why it is rejected.
pub fn decide(state: &State, command: Command, stamp: Stamp) -> Result<Vec<Event>, Rejection> {
    bounds::command(&command)?;
    if state.is_blank() && !matches!(command, Command::Queue { .. }) {
        return Err(Rejection::new(Code::RunNotFound, format!("{} does not exist", state.run_id)));
    }
    let mut batch = Batch::new(state, stamp);
    match command {
        Command::Queue { queued, resumed_from } => queue::queue(&mut batch, queued, resumed_from)?,
        Command::Append { drafts } => report::append(&mut batch, drafts)?,
        Command::Progress { drafts } => report::progress(&mut batch, drafts)?,
        Command::Cancel { by, reason } => cancel::cancel(&mut batch, by, &reason)?,
        Command::Fail { code, message, retriable } => cancel::fail(&mut batch, &code, &message, retriable)?,
        Command::ResolveApproval { approval_id, approve, by, comment, remember } => {
            answer::approval(&mut batch, approval_id, approve, (by, comment), remember)?;
        }
        Command::AnswerCalls { answers, by, via, config, lenient } => {
            calls::answer(&mut batch, answers, calls::Answerer { by, via, config, lenient })?;
        }
        Command::AnswerClarification { clarification_id, response, blocks, by, config } => {
            let mut answered = clarification::Answered::new(clarification_id, response, by);
            answered.blocks = blocks;
            answer::clarification(&mut batch, answered, config)?;
        }
        Command::ExtendPrompt { kind, id, seconds, by } => extend::extend(&mut batch, kind, id, seconds, by)?,
        Command::AcknowledgeHandoff { handoff_id, by, comment } => {
            answer::acknowledge(&mut batch, handoff_id, by, comment)?;
        }
        Command::RejectHandoff { handoff_id, by, reason } => {
            answer::reject(&mut batch, handoff_id, by, reason)?;
        }
        Command::Tick => tick::tick(&mut batch)?,
        Command::Prune { before, reason } => prune::prune(&mut batch, before, reason)?,
        Command::TakeOver { worker_id, lease_until_ms, reason } => {
            take_over::take_over(&mut batch, worker_id, lease_until_ms, reason)?;
        }
    }
    Ok(batch.events)
}

/// The events so far, and the state after them.
struct Batch {
    state: State,
    events: Vec<Event>,
    stamp: Stamp,
    minter: Minter,
}

impl Batch {
    fn new(state: &State, stamp: Stamp) -> Self {
        let minter = state.last_event_id.map_or_else(Minter::default, |last| Minter::after(last.ulid()));
        Batch { state: state.clone(), events: Vec::new(), stamp, minter }
    }

    /// Adds a reported event at the next sequence, if it is legal there.
    fn put(&mut self, draft: Draft) -> Result<(), Rejection> {
        judge(&self.state, &draft.payload)?;
        self.place(draft)
    }

    /// Adds an event that follows from the command. If it is illegal, that is a bug here.
    fn emit(&mut self, payload: Payload) -> Result<(), Rejection> {
        judge(&self.state, &payload).map_err(|broken| internal_rejection(&payload, broken))?;
        self.place(payload.into())
    }

    fn place(&mut self, body: Draft) -> Result<(), Rejection> {
        let event_id = EventId::new(self.minter.mint(self.stamp));
        if self.state.last_event_id.is_some_and(|last| event_id <= last) {
            let last = "the run has the highest possible event id: no event can follow";
            return Err(Rejection::new(Code::LimitReached, last));
        }
        let event = Event {
            event_id,
            run_id: self.state.run_id,
            task_id: self.state.task_id,
            session_id: self.state.session_id,
            sequence: self.state.next_sequence,
            occurred_ms: self.now_ms(),
            body,
            extra: Vec::new(),
        };
        apply(&mut self.state, &event);
        self.events.push(event);
        Ok(())
    }

    /// The stamp's time, or that of the run's last event when the clock has stepped back.
    fn now_ms(&self) -> u64 {
        self.stamp.now_ms.min(time::LAST_MS).max(self.state.last_ms)
    }
}

fn internal_rejection(payload: &Payload, broken: Broken) -> Rejection {
    Rejection {
        type_name: Some(payload.type_name().to_owned()),
        rule: Some(broken.rule),
        ..Rejection::new(Code::Internal, format!("a command would break the grammar: {}", broken.message))
    }
}
