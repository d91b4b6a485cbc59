//! Prints a chat with an agent: its text as it comes, its calls and their results in short, and its prompts.
//!
//! See [`TurnPrinter`] for a turn as it comes; the rest are lines about sessions. Thoughts are printed line by line with
//! their name before each, so that they differ from the answer without colours. Pure, as all of this folder.

mod history;
mod words;

use std::collections::BTreeMap;

use recount_client::aap::TurnEvent;
use recount_client::aap::wire::Content;

pub(crate) use self::history::history;
use self::words::{call, result};
pub(crate) use self::words::{stopped, usage};
use super::clean;
use super::flow::{self, Flow};
use super::live::{Paint, without_sign};

/// Calls whose names are remembered until their results come; further results are printed without the name.
const CALLS_MAX: usize = 256;

/// Before each line of a thought.
const THINKING: &str = "thinking: ";

/// Turns the events of turns into text.
pub(crate) struct TurnPrinter {
    paint: Paint,
    /// Whether signs such as `▸` are left out.
    is_plain: bool,
    width: Option<usize>,
    flow: Flow,
    /// What the open line is part of.
    block: Option<Piece>,
    is_mid_line: bool,
    /// A line end that came in two pieces.
    held_return: bool,
    /// Names by id.
    calls: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Text,
    Thinking,
}

impl TurnPrinter {
    pub(crate) fn new(paint: Paint) -> Self {
        TurnPrinter {
            paint,
            is_plain: false,
            width: None,
            flow: Flow::default(),
            block: None,
            is_mid_line: false,
            held_return: false,
            calls: BTreeMap::new(),
        }
    }

    /// Words only, without signs, for screen readers.
    pub(crate) fn plain(self, is_plain: bool) -> Self {
        TurnPrinter { is_plain, ..self }
    }

    /// From here on lines are broken after so many columns, or not at all.
    pub(crate) fn set_width(&mut self, width: Option<usize>) {
        self.width = width;
        self.flow.set_width(width);
    }

    /// The word that waits for its end, which has not come.
    pub(crate) fn release(&mut self) -> String {
        self.flow.release()
    }

    /// Whether the last line is still open.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.is_mid_line
    }

    /// A line of ours, broken between words.
    fn line(&self, line: &str, out: &mut String) {
        let line = if self.is_plain { without_sign(line) } else { line };
        out.push_str(&flow::broken(line, self.width));
        out.push('\n');
    }

    /// The text of one event, to be written unchanged.
    pub(crate) fn event(&mut self, event: &TurnEvent) -> String {
        let mut out = String::new();
        match event {
            TurnEvent::TextDelta(piece) => self.piece(Piece::Text, piece, &mut out),
            TurnEvent::ThinkingDelta(piece) => self.piece(Piece::Thinking, piece, &mut out),
            TurnEvent::TextRetracted(cut) => self.retracted(Piece::Text, &cut.note, &mut out),
            TurnEvent::ThinkingRetracted(cut) => self.retracted(Piece::Thinking, &cut.note, &mut out),
            TurnEvent::Text(text) => self.whole(Piece::Text, text, &mut out),
            TurnEvent::Thinking(text) => self.whole(Piece::Thinking, text, &mut out),
            TurnEvent::ToolCall(tool_call) => {
                self.remember(&tool_call.tool_call_id, &tool_call.name);
                out.push_str(&self.end_line());
                let name = clean::line(&tool_call.name);
                let sign = if self.is_plain { "" } else { "▸ " };
                let line = self.paint.bold(&format!("{sign}call {name}")) + &call(&tool_call.input);
                self.line(&line, &mut out);
            }
            TurnEvent::ToolResult { tool_call_id, content } => {
                out.push_str(&self.end_line());
                self.result(tool_call_id, content, &mut out);
            }
            TurnEvent::Stop(_) => out.push_str(&self.end_line()),
            TurnEvent::Start | TurnEvent::Other(_) => {}
        }
        out
    }

    /// Remembers the name of a call, because its result does not have it.
    pub(crate) fn remember(&mut self, id: &str, name: &str) {
        if self.calls.len() < CALLS_MAX {
            self.calls.insert(id.to_owned(), name.to_owned());
        }
    }

    /// Ends the line that is open, if one is.
    pub(crate) fn end_line(&mut self) -> String {
        self.block = None;
        self.held_return = false;
        let mut rest = self.flow.finish();
        if std::mem::take(&mut self.is_mid_line) {
            rest.push('\n');
        }
        rest
    }

    fn result(&mut self, id: &str, content: &Content, out: &mut String) {
        let name = self.calls.remove(id).unwrap_or_else(|| id.to_owned());
        for line in result(&name, content) {
            self.line(&line, out);
        }
    }

    fn whole(&mut self, block: Piece, text: &str, out: &mut String) {
        out.push_str(&self.end_line());
        self.piece(block, text, out);
        out.push_str(&self.end_line());
    }

    /// What was written cannot be unwritten on a terminal, so the note of the server follows it, on a line of its own.
    fn retracted(&mut self, block: Piece, note: &str, out: &mut String) {
        self.whole(block, note.trim(), out);
    }

    /// One piece of a text.
    fn piece(&mut self, block: Piece, piece: &str, out: &mut String) {
        if piece.is_empty() {
            return;
        }
        if self.block != Some(block) {
            out.push_str(&self.end_line());
            self.block = Some(block);
        }
        let mut text = String::with_capacity(piece.len() + 1);
        if std::mem::take(&mut self.held_return) {
            text.push('\r');
        }
        text.push_str(piece);
        if text.ends_with('\r') {
            text.pop();
            self.held_return = true;
        }
        for (place, line) in text.replace("\r\n", "\n").split('\n').enumerate() {
            if place > 0 {
                out.push_str(&self.flow.end_line());
                self.is_mid_line = false;
            }
            if line.is_empty() {
                continue;
            }
            let line = clean::line(line);
            let line = match block {
                Piece::Text => line,
                Piece::Thinking if self.is_mid_line => self.paint.dim(&line),
                Piece::Thinking => self.paint.dim(&format!("{THINKING}{line}")),
            };
            out.push_str(&self.flow.piece(&line));
            self.is_mid_line = true;
        }
    }
}

#[cfg(test)]
mod tests;
