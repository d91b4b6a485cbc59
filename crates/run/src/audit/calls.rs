//! Calls of tools, from proposed to settled, and the commands they run.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::Payload;
use recount_event::family::assistant::ToolCallProposed;
use recount_event::family::shell::{Encoding, Exited, OutputChunk, Stream};
use recount_event::family::tool::{Executor, Invoked, RiskLevel};

use super::Reading;
use crate::rejection::{Broken, broken};

#[derive(Default)]
pub(super) struct Calls<'a> {
    all: BTreeMap<&'a str, Call<'a>>,
    open: BTreeSet<&'a str>,
}

/// What was read of one call.
#[derive(Default)]
struct Call<'a> {
    name: Option<&'a str>,
    proposed: Option<&'a ToolCallProposed>,
    invoked: Option<&'a Invoked>,
    settled: bool,
    /// What its last approval came to.
    approved: Option<bool>,
    /// A question or handoff for it has its outcome.
    answered: bool,
    command: Option<Process>,
}

#[derive(Default)]
struct Process {
    out: u64,
    err: u64,
    gone: bool,
}

impl<'a> Calls<'a> {
    /// Calls that are not settled and may still be.
    pub(super) fn open(&self) -> impl Iterator<Item = &'a str> {
        self.open.iter().copied()
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains(id)
    }

    pub(super) fn is_with_client(&self, id: &str) -> bool {
        self.all
            .get(id)
            .and_then(|call| call.invoked)
            .is_some_and(|invoked| invoked.executor == Some(Executor::Client))
    }

    /// Whether an outcome is there that the call has not acted on.
    pub(super) fn holds_answer(&self, id: &str) -> bool {
        self.all
            .get(id)
            .is_some_and(|call| call.answered || (call.approved.is_some() && call.invoked.is_none()))
    }

    pub(super) fn is_more_than_asked_for(&self, id: &str) -> bool {
        self.all.get(id).is_some_and(|call| call.proposed.is_some() || call.invoked.is_some())
    }

    pub(super) fn is_only_proposed_in(&self, id: &str, turn_index: u64) -> bool {
        self.all.get(id).is_some_and(|call| {
            call.invoked.is_none() && call.proposed.is_some_and(|proposed| proposed.turn_index == turn_index)
        })
    }

    /// The name and input that the model proposed.
    pub(super) fn proposal(&self, id: &str) -> Option<&'a ToolCallProposed> {
        self.all.get(id)?.proposed
    }

    /// Whether an approval may be asked for it.
    pub(super) fn may_be_asked_for(&self, id: &str) -> bool {
        self.all
            .get(id)
            .is_none_or(|call| call.invoked.is_none() && !call.settled && call.approved != Some(false))
    }

    pub(super) fn ask_for(&mut self, id: &'a str) {
        self.all.entry(id).or_default().approved = None;
        self.open.insert(id);
    }

    pub(super) fn approve(&mut self, id: &str, approved: bool) {
        let Some(call) = self.all.get_mut(id).filter(|call| !call.settled) else { return };
        call.approved = Some(approved);
        if !approved && call.proposed.is_none() {
            self.open.remove(id);
        }
    }

    pub(super) fn answer(&mut self, id: &str, answered: bool) {
        if let Some(call) = self.all.get_mut(id) {
            call.answered = answered;
        }
    }

    pub(super) fn propose(&mut self, proposed: &'a ToolCallProposed) -> Result<(), Broken> {
        let id: &str = &proposed.tool_call_id;
        if self.all.contains_key(id) {
            return broken!("call.id", "the id {id} names two calls");
        }
        let call = Call { name: Some(&proposed.tool_name), proposed: Some(proposed), ..Call::default() };
        self.all.insert(id, call);
        self.open.insert(id);
        Ok(())
    }

    fn settle(&mut self, id: &'a str) {
        self.all.entry(id).or_default().settled = true;
        self.open.remove(id);
    }

    fn running(&mut self, id: &str) -> Result<&mut Call<'a>, Broken> {
        match self.all.get_mut(id) {
            Some(call) if call.invoked.is_some() && !call.settled => Ok(call),
            _ => broken!("call.open", "{id} is not running"),
        }
    }

    fn agrees(&self, id: &str, name: &str) -> Result<(), Broken> {
        match self.all.get(id).and_then(|call| call.name) {
            Some(known) if known != name => broken!("call.name", "{id} is called {known} and {name}"),
            _ => Ok(()),
        }
    }

    /// Something a running tool did.
    fn does(&mut self, id: &str, name: Option<&str>) -> Result<(), Broken> {
        self.running(id)?;
        name.map_or(Ok(()), |name| self.agrees(id, name))
    }

    fn chunk(&mut self, chunk: &OutputChunk) -> Result<(), Broken> {
        let id: &str = &chunk.tool_call_id;
        let process = match &mut self.running(id)?.command {
            Some(process) if !process.gone => process,
            _ => return broken!("shell.order", "output of {id} where no command runs"),
        };
        let bytes = match chunk.encoding {
            None => chunk.data.len(),
            Some(Encoding::Base64) => match STANDARD.decode(&chunk.data) {
                Ok(bytes) => bytes.len(),
                Err(why) => return broken!("shell.encoding", "output of {id} is not base64: {why}"),
            },
        };
        let at = match chunk.stream {
            Stream::Stdout => &mut process.out,
            Stream::Stderr => &mut process.err,
        };
        if *at != chunk.byte_offset {
            return broken!(
                "shell.offset",
                "{} of {id} jumps from {at} to {}",
                chunk.stream,
                chunk.byte_offset
            );
        }
        *at += bytes as u64;
        Ok(())
    }

    fn exit(&mut self, exited: &Exited) -> Result<(), Broken> {
        let id: &str = &exited.tool_call_id;
        let process = match &mut self.running(id)?.command {
            Some(process) if !process.gone => process,
            _ => return broken!("shell.order", "an exit of {id} where no command runs"),
        };
        let more = exited.stdout_bytes > process.out || exited.stderr_bytes > process.err;
        let less = exited.stdout_bytes < process.out || exited.stderr_bytes < process.err;
        if less || (more && !exited.truncated) {
            return broken!("shell.sums", "the exit of {id} does not count what was told");
        }
        process.gone = true;
        Ok(())
    }
}

impl<'a> Reading<'a> {
    /// Whether the event was of a call.
    pub(super) fn read_call(&mut self, payload: &'a Payload) -> Result<bool, Broken> {
        let calls = &mut self.calls;
        match payload {
            Payload::ToolInvoked(invoked) => self.invoke(invoked)?,
            Payload::ToolRefused(refused) => {
                let id: &str = &refused.tool_call_id;
                match calls.all.get(id) {
                    Some(call) if call.settled => {
                        return broken!("call.settled_once", "{id} is settled twice");
                    }
                    Some(call) if call.invoked.is_some() => {
                        return broken!("call.refused", "{id} is refused after it was invoked");
                    }
                    None => return broken!("call.refused", "{id} is refused and was never proposed"),
                    Some(_) => calls.agrees(id, &refused.tool_name)?,
                }
                calls.settle(id);
            }
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended) => {
                let id: &str = &ended.tool_call_id;
                if calls.all.get(id).is_some_and(|call| call.settled) {
                    return broken!("call.settled_once", "{id} is settled twice");
                }
                calls.does(id, Some(&ended.tool_name))?;
                let runs = calls.running(id)?.command.as_ref().is_some_and(|process| !process.gone);
                if runs && matches!(payload, Payload::ToolCompleted(_)) {
                    return broken!("shell.exit", "{id} is completed while its command runs");
                }
                calls.settle(id);
            }
            Payload::ToolShellCommand(command) => {
                let id: &str = &command.tool_call_id;
                calls.does(id, command.tool_name.as_deref())?;
                if calls.running(id)?.command.replace(Process::default()).is_some() {
                    return broken!("shell.once", "{id} has two commands");
                }
            }
            Payload::ToolShellOutputChunk(chunk) => calls.chunk(chunk)?,
            Payload::ToolShellExited(exited) => calls.exit(exited)?,
            Payload::ToolStarted(started) => calls.does(&started.tool_call_id, Some(&started.tool_name))?,
            Payload::ToolTodoWriteUpdated(list) => {
                calls.does(&list.tool_call_id, list.tool_name.as_deref())?
            }
            Payload::ToolGlobCompleted(found) => calls.does(&found.tool_call_id, None)?,
            Payload::ToolGrepCompleted(found) => calls.does(&found.tool_call_id, None)?,
            Payload::ToolFileReadCompleted(read) => calls.does(&read.tool_call_id, None)?,
            Payload::ToolEditProposed(change) => calls.does(&change.tool_call_id, None)?,
            Payload::ToolFileWriteProposed(change) => calls.does(&change.tool_call_id, None)?,
            Payload::ToolMultiEditProposed(change) => calls.does(&change.tool_call_id, None)?,
            Payload::ToolHttpRequested(asked)
            | Payload::ToolWebFetchRequested(asked)
            | Payload::ToolWebSearchRequested(asked) => calls.does(&asked.tool_call_id, None)?,
            Payload::ToolHttpResponse(got)
            | Payload::ToolWebFetchResponse(got)
            | Payload::ToolWebSearchResponse(got) => calls.does(&got.tool_call_id, None)?,
            Payload::ToolEditApplied(change) | Payload::ToolFileWriteApplied(change) => {
                change.tool_call_id.as_deref().map_or(Ok(()), |id| calls.does(id, None))?;
            }
            Payload::ToolMultiEditApplied(change) => {
                change.tool_call_id.as_deref().map_or(Ok(()), |id| calls.does(id, None))?;
            }
            Payload::ToolFilePatch(change) | Payload::ToolFileApplied(change) => {
                let name = change.tool_name.as_deref();
                change.tool_call_id.as_deref().map_or(Ok(()), |id| calls.does(id, name))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn invoke(&mut self, invoked: &'a Invoked) -> Result<(), Broken> {
        let id: &str = &invoked.tool_call_id;
        let call = self.calls.all.get(id);
        if call.is_some_and(|call| call.invoked.is_some() || call.settled) {
            return broken!("call.invoked_once", "{id} is invoked a second time");
        }
        let denied = call.is_some_and(|call| call.approved == Some(false));
        if denied && !self.calls.is_open(id) {
            return broken!("approval.denied", "{id} is invoked after it was denied");
        }
        if self.cost.is_halted() {
            return broken!("cost.halted", "{id} is invoked after the budget was exceeded");
        }
        if self.people.approves(id) {
            return broken!("approval.pending", "{id} is invoked before its approval");
        }
        if denied {
            return broken!("approval.denied", "{id} is invoked after it was denied");
        }
        self.calls.agrees(id, &invoked.tool_name)?;
        let proposed_in = call.and_then(|call| call.proposed).map(|proposed| proposed.turn_index);
        if invoked.turn_index.is_some() && invoked.turn_index != proposed_in {
            return broken!("call.proposed", "{id} is invoked for a turn that did not propose it");
        }
        let dangerous = invoked.irreversible.unwrap_or(false) || invoked.risk_level == Some(RiskLevel::High);
        let approved = call.is_some_and(|call| call.approved == Some(true));
        if dangerous && self.course.is_own() && !approved {
            return broken!("approval.required", "{id} is dangerous and nobody approved it");
        }
        let call = self.calls.all.entry(id).or_default();
        call.invoked = Some(invoked);
        call.name = Some(&invoked.tool_name);
        self.calls.open.insert(id);
        Ok(())
    }
}
