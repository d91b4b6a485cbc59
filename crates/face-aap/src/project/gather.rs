//! Collects a segment into one reply: the generated messages and the stop reason. Start with [`Gathered`].

use recount_event::Event;

use super::{Frame, FramePayload, ImageRef, Mode, Pictures, Projector, UnresolvedContent};
use crate::wire::{
    Content, ContentBlock, HistoryMessage, PostSessionTurnResponse, StopReason, TurnError, TurnEvent,
};

/// Folds the frames of a segment, in whole blocks, into messages.
#[derive(Debug, Clone)]
pub struct Gathered {
    projector: Projector,
    /// The last one is incomplete if it is a message of the assistant.
    messages: Vec<Generated>,
    stop: Option<TurnEvent>,
}

/// A generated message.
#[derive(Debug, Clone)]
enum Generated {
    Assistant(Vec<ContentBlock>),
    Tool { tool_call_id: String, content: UnresolvedContent },
}

impl Gathered {
    /// For the segment that opens at the event of this sequence.
    pub fn new(opening: u64) -> Self {
        let projector = Projector::new(Mode::Message, opening);
        Gathered { projector, messages: Vec::new(), stop: None }
    }

    pub fn is_over(&self) -> bool {
        self.stop.is_some()
    }

    pub fn event(&mut self, event: &Event) {
        for frame in self.projector.event(event) {
            self.frame(frame);
        }
    }

    fn frame(&mut self, frame: Frame) {
        match frame.payload {
            FramePayload::ToolResult { tool_call_id, content } => {
                self.messages.push(Generated::Tool { tool_call_id, content });
            }
            FramePayload::Event(TurnEvent::Text { text, status }) => {
                self.block(ContentBlock::Text { text, status })
            }
            FramePayload::Event(TurnEvent::Thinking { thinking, status }) => {
                self.block(ContentBlock::Thinking { thinking, status });
            }
            FramePayload::Event(TurnEvent::ToolCall { tool_call_id, name, input }) => {
                self.block(ContentBlock::ToolUse { tool_call_id, name, input });
            }
            FramePayload::Event(stop @ TurnEvent::TurnStop { .. }) => self.stop = Some(stop),
            // This mode has no pieces, and results come with their pictures unresolved.
            FramePayload::Event(
                TurnEvent::TurnStart {}
                | TurnEvent::TextDelta { .. }
                | TurnEvent::ThinkingDelta { .. }
                | TurnEvent::ToolResult { .. },
            ) => {}
        }
    }

    fn block(&mut self, block: ContentBlock) {
        match self.messages.last_mut() {
            Some(Generated::Assistant(blocks)) => blocks.push(block),
            _ => self.messages.push(Generated::Assistant(vec![block])),
        }
    }

    /// The unresolved pictures.
    pub fn pictures(&self) -> impl Iterator<Item = &ImageRef> {
        self.messages.iter().flat_map(|message| match message {
            Generated::Assistant(_) => None.into_iter().flatten(),
            Generated::Tool { content, .. } => Some(content.pictures()).into_iter().flatten(),
        })
    }

    /// The reply, when the segment is over.
    pub fn response(&self, pictures: &Pictures) -> Option<PostSessionTurnResponse> {
        let Some(TurnEvent::TurnStop { stop_reason, usage, error, awaiting }) = &self.stop else {
            return None;
        };
        Some(PostSessionTurnResponse {
            stop_reason: *stop_reason,
            messages: self.written(pictures),
            usage: *usage,
            error: error.clone(),
            awaiting: awaiting.as_deref().cloned(),
        })
    }

    /// The reply for an incomplete segment: the messages so far, and an error.
    pub fn broken_off(&self, error: TurnError, pictures: &Pictures) -> PostSessionTurnResponse {
        PostSessionTurnResponse {
            stop_reason: StopReason::Error,
            messages: self.written(pictures),
            usage: None,
            error: Some(error),
            awaiting: None,
        }
    }

    fn written(&self, pictures: &Pictures) -> Vec<HistoryMessage> {
        self.messages.iter().map(|message| message.with(pictures)).collect()
    }
}

impl Generated {
    fn with(&self, pictures: &Pictures) -> HistoryMessage {
        match self {
            Generated::Assistant(blocks) => {
                HistoryMessage::Assistant { content: Content::Blocks(blocks.clone()) }
            }
            Generated::Tool { tool_call_id, content } => {
                HistoryMessage::Tool { tool_call_id: tool_call_id.clone(), content: content.with(pictures) }
            }
        }
    }
}
