//! Endings of a session. It completes only if nothing is open; an error or a cancellation closes open parts.

use super::session::call_id;
use super::stamp::Stamp;
use super::{Misuse, ProducerSession};
use crate::build::{self, Draft};
use crate::wire::{Body, Event, SessionCancelled, SessionCompleted, SessionErrored, ToolStatus};

impl ProducerSession {
    /// Completes the session. Rejected while a prompt, a call or an output is open, or an accepted call is missing.
    pub fn complete(&mut self, stamp: Stamp, draft: Draft<SessionCompleted>) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        self.no_prompt()?;
        self.no_calls()?;
        let open = self.outputs.values().filter(|output| output.started).count();
        if open > 0 {
            return Err(Misuse::OutputsOpen(open));
        }
        if let Some((prompt, _)) = self.grants.first_key_value() {
            return Err(Misuse::AcceptedNotDone(*prompt));
        }
        let events = self.emit(stamp, |batch| {
            if batch.state != "handing_off" {
                batch.enter("idle", &batch.texts.idle)?;
            }
            batch.push(draft)
        })?;
        self.end();
        Ok(events)
    }

    /// Ends the session with an error. Open outputs get their last chunk, and open calls are completed as timed out.
    pub fn fail(&mut self, stamp: Stamp, draft: Draft<SessionErrored>) -> Result<Vec<Event>, Misuse> {
        self.break_off(stamp, draft)
    }

    /// Cancels the session. Open outputs get their last chunk, and open calls are completed as timed out.
    pub fn cancel(&mut self, stamp: Stamp, draft: Draft<SessionCancelled>) -> Result<Vec<Event>, Misuse> {
        self.break_off(stamp, draft)
    }

    fn break_off<B: Into<Body>>(&mut self, stamp: Stamp, draft: Draft<B>) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        let last = |(number, output): (&u64, &super::session::OpenOutput)| {
            output.started.then(|| output.with_output_id(*number, build::last_output("", output.position)))
        };
        let pieces: Vec<_> = self.outputs.iter().filter_map(last).collect();
        let calls: Vec<_> =
            self.calls.iter().map(|(number, tool)| (call_id(*number), tool.clone())).collect();
        let events = self.emit(stamp, |batch| {
            for piece in pieces {
                batch.push(piece)?;
            }
            for (id, tool) in calls {
                let text = batch.texts.call_abandoned.clone();
                batch.push(build::tool_completed(tool, ToolStatus::Timeout, text).tool_call_id(id))?;
            }
            batch.push(draft)
        })?;
        self.end();
        Ok(events)
    }
}
