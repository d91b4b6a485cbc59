//! Puts the original input into open calls of client tools, where the log has it masked. It must never do so for a
//! client that may not act for the session, nor for a call that the server executes. Entry point: [`Originals`].
//!
//! The sealed record is deleted with the event that settles the call, so a settled call stays masked for all clients.

use std::collections::{BTreeMap, BTreeSet};

use recount_engine::{ClientTool, Engine, Error, Failure, Scope};
use recount_event::family::tool::Executor;
use recount_event::{Code, ForeignId, Json, Payload, RunId, codec};

use super::caller::Face;
use crate::limits;
use crate::project::{Frame, FramePayload};
use crate::wire::{Content, ContentBlock, HistoryMessage, TurnEvent};

/// What a masked byte looks like; input without one was not masked.
const MASK: char = '*';

/// The originals that one caller may read in one run.
pub(super) struct Originals {
    engine: Engine,
    run: RunId,
    may_act: bool,
    /// The tools that the application carries out now. A turn may have replaced those of an open call.
    client_tools: BTreeSet<String>,
    invoked: InvokedCalls,
}

/// The open calls of a run that were invoked, and whether an application has them, as far as the log was read.
#[derive(Default)]
struct InvokedCalls {
    with_client: BTreeMap<ForeignId, bool>,
    last: Option<u64>,
}

impl Originals {
    pub(super) fn new(face: &Face, run: RunId, client_tools: &[ClientTool]) -> Self {
        let may_act = face.caller.may(Scope::Run);
        let client_tools = client_tools.iter().map(|tool| tool.name.clone()).collect();
        let (engine, invoked) = (face.engine.clone(), InvokedCalls::default());
        Originals { engine, run, may_act, client_tools, invoked }
    }

    pub(super) async fn restore_frame(&mut self, frame: &mut Frame) -> Result<(), Error> {
        if let FramePayload::Event(TurnEvent::ToolCall { tool_call_id, name, input }) = &mut frame.told {
            self.restore(tool_call_id, name, input).await?;
        }
        Ok(())
    }

    pub(super) async fn restore_message(&mut self, message: &mut HistoryMessage) -> Result<(), Error> {
        if let HistoryMessage::Assistant { content: Content::Blocks(blocks) } = message {
            for block in blocks {
                if let ContentBlock::ToolUse { tool_call_id, name, input } = block {
                    self.restore(tool_call_id, name, input).await?;
                }
            }
        }
        Ok(())
    }

    /// Fails where an original exists and cannot be read: an application must not carry out a call with masked input.
    async fn restore(&mut self, call: &str, name: &str, input: &mut Json) -> Result<(), Error> {
        if !self.may_act || !input.text().contains(MASK) {
            return Ok(());
        }
        let Ok(id) = ForeignId::parse(call) else { return Ok(()) };
        let Some(original) = self.engine.write().unseal(self.run, &id).await? else { return Ok(()) };
        if !self.is_with_client(&id, name).await? {
            return Ok(());
        }
        let original = std::str::from_utf8(&original).ok().and_then(|text| Json::parse(text).ok());
        *input = original.ok_or_else(|| {
            let message =
                format!("the original input of call {call} is not JSON; cancel the turn and start another");
            Error::Failed(Failure { code: Code::StoreCorrupt, message, retry_after: None, damage: None })
        })?;
        Ok(())
    }

    /// Whether an application has the call, or will have it: a call that was not invoked yet is of the tools of its turn,
    /// which are the ones of now.
    async fn is_with_client(&mut self, call: &ForeignId, name: &str) -> Result<bool, Error> {
        self.invoked.read_on(&self.engine, self.run).await?;
        Ok(self.invoked.with_client.get(call).copied().unwrap_or_else(|| self.client_tools.contains(name)))
    }
}

impl InvokedCalls {
    async fn read_on(&mut self, engine: &Engine, run: RunId) -> Result<(), Error> {
        loop {
            let (page, has_more) = engine.read().read_run(run, self.last, limits::PAGE_EVENTS).await?;
            for (sequence, bytes) in page {
                let event = codec::decode(&bytes).map_err(|why| {
                    let message = format!("event {sequence} of {run} cannot be read: {why}");
                    Error::Failed(Failure {
                        code: Code::StoreCorrupt,
                        message,
                        retry_after: None,
                        damage: None,
                    })
                })?;
                match event.payload() {
                    Payload::ToolInvoked(invoked) => {
                        let is_client = invoked.executor == Some(Executor::Client);
                        self.with_client.insert(invoked.tool_call_id.clone(), is_client);
                    }
                    Payload::ToolCompleted(ended)
                    | Payload::ToolFailed(ended)
                    | Payload::ToolCancelled(ended)
                    | Payload::ToolTimedOut(ended) => {
                        self.with_client.remove(&ended.tool_call_id);
                    }
                    _ => {}
                }
                self.last = Some(sequence);
            }
            if !has_more {
                return Ok(());
            }
        }
    }
}
