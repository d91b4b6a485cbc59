//! Projects a line of a session's history to a message. Seed messages are returned as sent, not by this module. Pure.

use recount_run::view::{AnswerBlock, Block, BlockStatus, Line};

use super::{ImageRef, Pictures, UnresolvedContent, input_object, shown};
use crate::wire::{Content, ContentBlock, HistoryMessage, TextStatus};

/// The line with its pictures. The agent's output is always in blocks; a user's message has its original form.
pub fn history_message(line: &Line, pictures: &Pictures) -> HistoryMessage {
    match line {
        Line::User { text, blocks: None } => HistoryMessage::User { content: Content::Text(text.clone()) },
        Line::User { blocks: Some(blocks), .. } => {
            HistoryMessage::User { content: UnresolvedContent::of_blocks(blocks).with(pictures) }
        }
        Line::Assistant { blocks } => {
            HistoryMessage::Assistant { content: Content::Blocks(blocks.iter().map(block).collect()) }
        }
        Line::Tool { tool_call_id, output } => HistoryMessage::Tool {
            tool_call_id: tool_call_id.to_string(),
            content: shown(output).with(pictures),
        },
    }
}

/// The unresolved pictures.
pub fn line_pictures(line: &Line) -> Vec<ImageRef> {
    let content = match line {
        Line::User { blocks: None, .. } | Line::Assistant { .. } => return Vec::new(),
        Line::User { blocks: Some(blocks), .. } => UnresolvedContent::of_blocks(blocks),
        Line::Tool { output, .. } => shown(output),
    };
    content.pictures().cloned().collect()
}

fn block(answer: &AnswerBlock) -> ContentBlock {
    let status = match answer.status {
        BlockStatus::Open | BlockStatus::Final => None,
        BlockStatus::Aborted => Some(TextStatus::Aborted),
        BlockStatus::Abandoned => Some(TextStatus::Abandoned),
    };
    match &answer.block {
        Block::Text(text) => ContentBlock::Text { text: text.clone(), status },
        Block::Thinking(thinking) => ContentBlock::Thinking { thinking: thinking.clone(), status },
        Block::ToolUse { tool_call_id, name, input } => ContentBlock::ToolUse {
            tool_call_id: tool_call_id.to_string(),
            name: name.clone(),
            input: input_object(input),
        },
    }
}
