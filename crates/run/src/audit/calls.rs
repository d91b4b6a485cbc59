//! Audits calls of tools, from proposed to settled, and the commands they run.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::assistant::ToolCallProposed;
use recount_event::family::shell::{Encoding, Exited, OutputChunk, Stream};
use recount_event::family::tool::{Executor, Invoked, RiskLevel};
use recount_event::{ForeignId, Json, Payload};

use super::Reading;
use crate::rejection::{Broken, broken};

#[derive(Default)]
pub(super) struct Calls {
    /// Not settled, and may still be.
    open: BTreeMap<ForeignId, AuditedCall>,
    over: BTreeMap<ForeignId, Over>,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Settled,
    /// It was only requested, and denied. It may still be refused.
    Denied,
}

/// The facts of one open call.
#[derive(Default)]
struct AuditedCall {
    name: Option<Box<str>>,
    proposed: Option<Proposed>,
    /// The executor of the call.
    invoked: Option<Executor>,
    /// The outcome of its last approval.
    approved: Option<bool>,
    /// A question or handoff for it has its outcome.
    answered: bool,
    command: Option<Process>,
}

/// A call that the model proposed.
struct Proposed {
    turn_index: u64,
    input: Json,
}

#[derive(Default)]
struct Process {
    out: u64,
    err: u64,
    exited: bool,
}

impl Calls {
    /// Calls that are not settled and may still be.
    pub(super) fn open(&self) -> impl Iterator<Item = &ForeignId> {
        self.open.keys()
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    pub(super) fn is_with_client(&self, id: &str) -> bool {
        self.open.get(id).is_some_and(|call| call.invoked == Some(Executor::Client))
    }

    /// Whether there is an outcome that the call has not acted on.
    pub(super) fn holds_answer(&self, id: &str) -> bool {
        self.open
            .get(id)
            .is_some_and(|call| call.answered || (call.approved.is_some() && call.invoked.is_none()))
    }

    /// Whether it is a question or a handoff that was not requested yet.
    pub(super) fn is_yet_to_ask(&self, id: &str) -> bool {
        self.open.get(id).is_some_and(|call| {
            let asks = call.name.as_deref().is_some_and(|name| crate::ASKING_TOOLS.contains(&name));
            asks && call.proposed.is_some() && call.invoked.is_none()
        })
    }

    pub(super) fn is_proposed_or_invoked(&self, id: &str) -> bool {
        self.open.get(id).is_some_and(|call| call.proposed.is_some() || call.invoked.is_some())
    }

    pub(super) fn is_only_proposed_in(&self, id: &str, turn_index: u64) -> bool {
        self.open.get(id).is_some_and(|call| {
            call.invoked.is_none()
                && call.proposed.as_ref().is_some_and(|proposed| proposed.turn_index == turn_index)
        })
    }

    /// The name and input that the model proposed, while the call is open.
    pub(super) fn proposal(&self, id: &str) -> Option<(&str, &Json)> {
        let call = self.open.get(id)?;
        Some((call.name.as_deref()?, &call.proposed.as_ref()?.input))
    }

    /// Whether an approval may be requested for it.
    pub(super) fn can_request_approval(&self, id: &str) -> bool {
        let open = self.open.get(id);
        !self.over.contains_key(id)
            && open.is_none_or(|call| call.invoked.is_none() && call.approved != Some(false))
    }

    pub(super) fn request_approval(&mut self, id: &ForeignId) {
        self.open.entry(id.clone()).or_default().approved = None;
    }

    pub(super) fn approve(&mut self, id: &ForeignId, approved: bool) {
        let Some(call) = self.open.get_mut(id) else { return };
        call.approved = Some(approved);
        if !approved && call.proposed.is_none() {
            self.ends(id, Over::Denied);
        }
    }

    pub(super) fn answer(&mut self, id: &str, answered: bool) {
        if let Some(call) = self.open.get_mut(id) {
            call.answered = answered;
        }
    }

    pub(super) fn propose(&mut self, proposed: &ToolCallProposed) -> Result<(), Broken> {
        let id = &proposed.tool_call_id;
        if self.open.contains_key(id) || self.over.contains_key(id) {
            return broken!("call.id", "two calls have the id {id}");
        }
        let call = AuditedCall {
            name: Some(proposed.tool_name.as_str().into()),
            proposed: Some(Proposed { turn_index: proposed.turn_index, input: proposed.input.clone() }),
            ..AuditedCall::default()
        };
        self.open.insert(id.clone(), call);
        Ok(())
    }

    fn ends(&mut self, id: &ForeignId, how: Over) {
        self.open.remove(id);
        self.over.insert(id.clone(), how);
    }

    fn is_settled(&self, id: &str) -> bool {
        self.over.get(id) == Some(&Over::Settled)
    }

    fn running(&mut self, id: &str) -> Result<&mut AuditedCall, Broken> {
        match self.open.get_mut(id) {
            Some(call) if call.invoked.is_some() => Ok(call),
            _ => broken!("call.open", "call {id} is not running"),
        }
    }

    fn agrees(&self, id: &str, name: &str) -> Result<(), Broken> {
        match self.open.get(id).and_then(|call| call.name.as_deref()) {
            Some(known) if known != name => {
                broken!("call.name", "call {id} has two tool names, {known} and {name}")
            }
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.open.len(), self.over.len())
    }

    /// Something a running tool did.
    fn does(&mut self, id: &str, name: Option<&str>) -> Result<(), Broken> {
        self.running(id)?;
        name.map_or(Ok(()), |name| self.agrees(id, name))
    }

    fn chunk(&mut self, chunk: &OutputChunk) -> Result<(), Broken> {
        let id: &str = &chunk.tool_call_id;
        let process = match &mut self.running(id)?.command {
            Some(process) if !process.exited => process,
            _ => return broken!("shell.order", "call {id} has output while no command runs"),
        };
        let bytes = match chunk.encoding {
            None => chunk.data.len(),
            Some(Encoding::Base64) => match STANDARD.decode(&chunk.data) {
                Ok(bytes) => bytes.len(),
                Err(why) => {
                    return broken!("shell.encoding", "output of call {id} is not valid base64: {why}");
                }
            },
        };
        let at = match chunk.stream {
            Stream::Stdout => &mut process.out,
            Stream::Stderr => &mut process.err,
        };
        if *at != chunk.byte_offset {
            return broken!(
                "shell.offset",
                "{} of call {id} continues at byte {}, expected {at}",
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
            Some(process) if !process.exited => process,
            _ => return broken!("shell.order", "call {id} has an exit while no command runs"),
        };
        let more = exited.stdout_bytes > process.out || exited.stderr_bytes > process.err;
        let less = exited.stdout_bytes < process.out || exited.stderr_bytes < process.err;
        if less || (more && !exited.truncated) {
            return broken!("shell.sums", "the exit of call {id} does not match the recorded output");
        }
        process.exited = true;
        Ok(())
    }
}

impl Reading {
    /// Whether the event was of a call.
    pub(super) fn read_call(&mut self, payload: &Payload) -> Result<bool, Broken> {
        let calls = &mut self.calls;
        match payload {
            Payload::ToolInvoked(invoked) => self.invoke(invoked)?,
            Payload::ToolRefused(refused) => {
                let id = &refused.tool_call_id;
                if calls.is_settled(id) {
                    return broken!("call.settled_once", "call {id} is settled twice");
                }
                match calls.open.get(id) {
                    Some(call) if call.invoked.is_some() => {
                        return broken!("call.refused", "call {id} is refused after it was invoked");
                    }
                    None if !calls.over.contains_key(id) => {
                        return broken!("call.refused", "call {id} is refused but was never proposed");
                    }
                    _ => calls.agrees(id, &refused.tool_name)?,
                }
                calls.ends(id, Over::Settled);
            }
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended) => {
                let id = &ended.tool_call_id;
                if calls.is_settled(id) {
                    return broken!("call.settled_once", "call {id} is settled twice");
                }
                calls.does(id, Some(&ended.tool_name))?;
                let runs = calls.running(id)?.command.as_ref().is_some_and(|process| !process.exited);
                if runs && matches!(payload, Payload::ToolCompleted(_)) {
                    return broken!("shell.exit", "call {id} is completed while its command runs");
                }
                calls.ends(id, Over::Settled);
            }
            Payload::ToolShellCommand(command) => {
                let id: &str = &command.tool_call_id;
                calls.does(id, command.tool_name.as_deref())?;
                if calls.running(id)?.command.replace(Process::default()).is_some() {
                    return broken!("shell.once", "call {id} has two commands");
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
            Payload::ToolHttpRequested(request)
            | Payload::ToolWebFetchRequested(request)
            | Payload::ToolWebSearchRequested(request) => calls.does(&request.tool_call_id, None)?,
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

    fn invoke(&mut self, invoked: &Invoked) -> Result<(), Broken> {
        let id = &invoked.tool_call_id;
        let call = self.calls.open.get(id);
        if call.is_some_and(|call| call.invoked.is_some()) || self.calls.is_settled(id) {
            return broken!("call.invoked_once", "call {id} is invoked a second time");
        }
        if self.calls.over.contains_key(id) {
            return broken!("approval.denied", "call {id} is invoked after it was denied");
        }
        if self.cost.is_halted() {
            return broken!("cost.halted", "call {id} is invoked after the budget was exceeded");
        }
        if self.people.approves(id) {
            return broken!("approval.pending", "call {id} is invoked while its approval is pending");
        }
        if call.is_some_and(|call| call.approved == Some(false)) {
            return broken!("approval.denied", "call {id} is invoked after it was denied");
        }
        self.calls.agrees(id, &invoked.tool_name)?;
        let proposed_in = call.and_then(|call| call.proposed.as_ref()).map(|proposed| proposed.turn_index);
        if invoked.turn_index.is_some() && invoked.turn_index != proposed_in {
            return broken!(
                "call.proposed",
                "call {id} is invoked with the index of a turn that did not propose it"
            );
        }
        let dangerous = invoked.irreversible.unwrap_or(false) || invoked.risk_level == Some(RiskLevel::High);
        let approved = call.is_some_and(|call| call.approved == Some(true));
        if dangerous && self.course.is_own() && !approved {
            return broken!(
                "approval.required",
                "call {id} is irreversible or high-risk and was not approved"
            );
        }
        let call = self.calls.open.entry(id.clone()).or_default();
        call.invoked = Some(invoked.executor.unwrap_or(Executor::Server));
        call.name = Some(invoked.tool_name.as_str().into());
        Ok(())
    }
}
