//! Prints the history of a session when it is continued.

use recount_client::aap::wire::{Block, Content, HistoryMessage};

use super::words::{call, plain, result};
use crate::render::clean;

/// Lines of one message that are printed; the number of omitted ones is printed.
const LINES_MAX: usize = 20;

/// Messages as lines: the last `shown_max` of them, and how many came before.
pub(crate) fn history(messages: &[HistoryMessage], shown_max: usize) -> Vec<String> {
    let left = messages.len().saturating_sub(shown_max);
    let mut lines = Vec::new();
    if left > 0 {
        let what = if left == 1 { "message is" } else { "messages are" };
        lines.push(format!("({left} earlier {what} not shown; /history shows all)"));
    }
    for (place, message) in messages.iter().enumerate().skip(left) {
        match message {
            HistoryMessage::System { content } => push_message("system", &plain(content), &mut lines),
            HistoryMessage::User { content } => push_message("you", &plain(content), &mut lines),
            HistoryMessage::Assistant { content: Content::Blocks(blocks) } => {
                blocks.iter().for_each(|block| push_block(block, &mut lines));
            }
            HistoryMessage::Assistant { content } => push_message("agent", &plain(content), &mut lines),
            HistoryMessage::Tool { tool_call_id, content } => {
                let name = name_of(&messages[..place], tool_call_id).unwrap_or(tool_call_id);
                lines.extend(result(name, content));
            }
            HistoryMessage::Unknown => {}
        }
    }
    lines
}

fn push_block(block: &Block, lines: &mut Vec<String>) {
    match block {
        Block::Text { text, status } => push_message(&marked("agent", status.as_deref()), text.trim(), lines),
        Block::Thinking { thinking, status } => {
            push_message(&marked("thinking", status.as_deref()), thinking.trim(), lines);
        }
        Block::ToolUse { name, input, .. } => {
            lines.push(format!("▸ call {}{}", clean::line(name), call(input)))
        }
        Block::Image { .. } => {
            push_message("agent", &plain(&Content::Blocks(vec![block.clone()])), lines);
        }
        Block::Unknown => {}
    }
}

/// Marks beside the speaker that the text is no part of the answer.
fn marked(who: &str, status: Option<&str>) -> String {
    match status {
        Some("abandoned") => format!("{who} (abandoned)"),
        Some("aborted") => format!("{who} (cut off)"),
        _ => who.to_owned(),
    }
}

/// The speaker and the text; the lines after the first are indented.
fn push_message(who: &str, text: &str, lines: &mut Vec<String>) {
    let mut text_lines = clean::lines(text);
    lines.push(format!("{who}: {}", text_lines.next().unwrap_or_default()));
    lines.extend(text_lines.by_ref().take(LINES_MAX - 1).map(|line| format!("    {line}")));
    let left = text_lines.count();
    if left > 0 {
        lines.push(format!("    ({left} more {})", if left == 1 { "line" } else { "lines" }));
    }
}

/// What a call that was answered is called.
fn name_of<'a>(before: &'a [HistoryMessage], id: &str) -> Option<&'a str> {
    before.iter().rev().find_map(|message| match message {
        HistoryMessage::Assistant { content: Content::Blocks(blocks) } => {
            blocks.iter().find_map(|block| match block {
                Block::ToolUse { tool_call_id, name, .. } if tool_call_id == id => Some(name.as_str()),
                _ => None,
            })
        }
        _ => None,
    })
}
