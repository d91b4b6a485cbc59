//! Puts the original input into open calls of client tools, where the log has it masked. It must never do so for a
//! client that may not act for the session, nor for a call that the server executes. Entry point: [`Originals`].
//!
//! The sealed record is deleted with the event that settles the call, so a settled call stays masked for all clients.

use std::collections::BTreeSet;

use recount_engine::{ClientTool, Engine, Error, Failure, Scope};
use recount_event::{Code, ForeignId, Json, RunId};

use super::caller::Face;
use crate::project::{Frame, FramePayload};
use crate::wire::{Content, ContentBlock, HistoryMessage, TurnEvent};

/// What a masked byte looks like; input without one was not masked.
const MASK: char = '*';

/// The originals that one caller may read in one run.
pub(super) struct Originals {
    engine: Engine,
    run: RunId,
    /// The tools that the application carries out; empty for a caller that gets no originals.
    client_tools: BTreeSet<String>,
}

impl Originals {
    pub(super) fn new(face: &Face, run: RunId, client_tools: &[ClientTool]) -> Self {
        let may_act = face.caller.may(Scope::Run);
        let names = client_tools.iter().filter(|_| may_act).map(|tool| tool.name.clone());
        Originals { engine: face.engine.clone(), run, client_tools: names.collect() }
    }

    pub(super) async fn restore_frame(&self, frame: &mut Frame) -> Result<(), Error> {
        if let FramePayload::Event(TurnEvent::ToolCall { tool_call_id, name, input }) = &mut frame.told {
            self.restore(tool_call_id, name, input).await?;
        }
        Ok(())
    }

    pub(super) async fn restore_message(&self, message: &mut HistoryMessage) -> Result<(), Error> {
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
    async fn restore(&self, call: &str, name: &str, input: &mut Json) -> Result<(), Error> {
        if !self.client_tools.contains(name) || !input.text().contains(MASK) {
            return Ok(());
        }
        let Ok(id) = ForeignId::parse(call) else { return Ok(()) };
        let Some(original) = self.engine.write().unseal(self.run, &id).await? else { return Ok(()) };
        let original = std::str::from_utf8(&original).ok().and_then(|text| Json::parse(text).ok());
        *input = original.ok_or_else(|| {
            let message =
                format!("the original input of call {call} is not JSON; cancel the turn and start another");
            Error::Failed(Failure { code: Code::StoreCorrupt, message, retry_after: None, damage: None })
        })?;
        Ok(())
    }
}
