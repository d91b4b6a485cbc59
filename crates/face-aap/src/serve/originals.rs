//! Restores the original input of open client-tool calls, which the log masks. Entry point: [`Originals`].
//!
//! Must not restore it for a client that may not act for the session, nor for a call that the server executes. The
//! sealed record is deleted with the event that settles the call, so a settled call stays masked for all clients.

use std::collections::{BTreeMap, BTreeSet};

use recount_engine::{ClientTool, Engine, Error, Failure, Scope};
use recount_event::family::tool::Executor;
use recount_event::{Code, ForeignId, Json, Payload, RunId, codec};

use super::caller::Face;
use crate::limits;
use crate::project::{Frame, FramePayload};
use crate::wire::{Content, ContentBlock, HistoryMessage, TurnEvent};

/// The character of a masked byte. Input without it was not masked.
const MASK: char = '*';

/// The originals that one caller may read in one run.
pub(super) struct Originals {
    engine: Engine,
    run: RunId,
    may_act: bool,
    /// The current tools of the application. A turn may have replaced the tools of an open call.
    client_tools: BTreeSet<String>,
    invoked: InvokedCalls,
}

/// The invoked open calls of the run, and whether an application executes them, as far as the log was read.
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
        if let FramePayload::Event(TurnEvent::ToolCall { tool_call_id, name, input }) = &mut frame.payload {
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

    /// Fails if an original exists and cannot be read: an application must not execute a call with masked input.
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
            let message = format!(
                "the original input of call {call} is not valid JSON; cancel the turn and start another"
            );
            Failure::new(Code::StoreCorrupt, message)
        })?;
        Ok(())
    }

    /// Whether the application executes the call. A call that was not invoked yet uses the tools of its turn, which are
    /// the current ones.
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
                    Failure::new(Code::StoreCorrupt, message)
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
