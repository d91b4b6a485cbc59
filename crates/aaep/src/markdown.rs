//! Markdown as text for speech, while it streams: headings, list items, table rows as "column: value", code blocks.
//!
//! Must not depend on languages: the caller words what it announces. Start with [`SpokenMarkdown::take`]; [`plain`]
//! converts a whole text. The console has the same rules in `web/src/markdown.js`.

mod inline;

use self::inline::inline;
use crate::limits;

/// A part of a text, without markup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkdownPart {
    /// Text of a paragraph, a list item or a table row.
    Text(String),
    Heading(String),
    /// An item of a list of tasks.
    Task {
        is_done: bool,
        text: String,
    },
    /// A code block, or a part of a long one. The language is empty if the text names none.
    Code {
        language: String,
        lines: Vec<String>,
    },
}

impl MarkdownPart {
    /// Bytes of its text.
    pub fn byte_len(&self) -> usize {
        match self {
            MarkdownPart::Text(text) | MarkdownPart::Heading(text) | MarkdownPart::Task { text, .. } => {
                text.len()
            }
            MarkdownPart::Code { lines, .. } => lines.iter().map(String::len).sum(),
        }
    }
}

/// Converts text that arrives in pieces.
#[derive(Debug, Default)]
pub struct SpokenMarkdown {
    fence: Option<Fence>,
    /// The names of the columns, within a table.
    columns: Option<Vec<String>>,
    /// A line that is the head of a table if the next line shows it.
    head: Option<String>,
    /// The beginning of a line whose kind is not known yet.
    line: String,
    /// Whether the beginning of the current line was returned.
    is_mid_line: bool,
}

#[derive(Debug)]
struct Fence {
    mark: char,
    length: usize,
    language: String,
    lines: Vec<String>,
}

/// The parts of one piece.
#[derive(Default)]
struct PartList {
    parts: Vec<MarkdownPart>,
    /// Whether the next line of text belongs to the last part.
    is_open: bool,
}

impl PartList {
    fn push(&mut self, part: MarkdownPart) {
        self.is_open = false;
        self.parts.push(part);
    }

    /// Text that may continue in the next line.
    fn text(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        match (self.is_open, self.parts.last_mut()) {
            (true, Some(MarkdownPart::Text(before) | MarkdownPart::Task { text: before, .. })) => {
                before.push(' ');
                before.push_str(text);
            }
            _ => self.parts.push(MarkdownPart::Text(text.to_owned())),
        }
        self.is_open = true;
    }
}

impl SpokenMarkdown {
    /// Takes the next piece. Returns what can be spoken; code is returned at the end of its block.
    pub fn take(&mut self, piece: &str) -> Vec<MarkdownPart> {
        let mut parts = PartList::default();
        for segment in piece.split_inclusive('\n') {
            let is_ended = segment.ends_with('\n');
            if self.is_mid_line {
                parts.text(&inline(segment));
                self.is_mid_line = !is_ended;
                continue;
            }
            self.line.push_str(segment);
            if is_ended || !self.needs_more() {
                let line = std::mem::take(&mut self.line);
                self.is_mid_line = !is_ended;
                self.take_line(&line, &mut parts);
            }
        }
        parts.parts
    }

    /// Returns what was held because more might follow. The text may continue.
    pub fn release(&mut self) -> Vec<MarkdownPart> {
        let mut parts = PartList::default();
        if !self.line.trim().is_empty() {
            let line = std::mem::take(&mut self.line);
            self.is_mid_line = self.fence.is_none() && self.columns.is_none();
            self.take_line(&line, &mut parts);
        }
        self.release_head(&mut parts);
        self.release_code(&mut parts);
        parts.parts
    }

    /// Whether [`SpokenMarkdown::release`] would return something.
    pub fn is_holding(&self) -> bool {
        let has_code = self.fence.as_ref().is_some_and(|fence| !fence.lines.is_empty());
        has_code || self.head.is_some() || !self.line.trim().is_empty()
    }

    /// Whether the kind of the current line is not known before its end.
    fn needs_more(&self) -> bool {
        let line = self.line.trim_start();
        let is_marker = |c: char| c.is_ascii_digit() || "#>-+*_=`~•.)[]xX ".contains(c);
        self.fence.is_some()
            || self.columns.is_some()
            || line.contains('|')
            || fence_of(line).is_some()
            || line.chars().all(is_marker)
    }

    fn take_line(&mut self, line: &str, parts: &mut PartList) {
        let line = line.trim_end();
        if let Some(fence) = &mut self.fence {
            let closing = line.trim();
            if closing.len() >= fence.length && closing.chars().all(|c| c == fence.mark) {
                self.release_code(parts);
                self.fence = None;
                self.is_mid_line = false;
            } else {
                fence.lines.push(line.to_owned());
                if fence.lines.len() >= limits::SPOKEN_CODE_LINES_MAX {
                    self.release_code(parts);
                }
            }
            return;
        }
        let line = line.trim_start();
        if let Some(columns) = &self.columns {
            if line.contains('|') {
                return parts.push(MarkdownPart::Text(row(columns, &cells(line))));
            }
            self.columns = None;
        }
        if let Some(head) = self.head.take() {
            let names = cells(&head);
            if is_delimiter(line) && cells(line).len() == names.len() {
                self.columns = Some(names.iter().map(|name| inline(name).trim().to_owned()).collect());
                return;
            }
            parts.text(&inline(&head));
        }
        self.take_block(line, parts);
    }

    /// A line outside of code and tables.
    fn take_block(&mut self, line: &str, parts: &mut PartList) {
        if line.is_empty() || is_rule(line) {
            parts.is_open = false;
        } else if let Some((mark, length, language)) = fence_of(line) {
            self.fence = Some(Fence { mark, length, language, lines: Vec::new() });
            self.is_mid_line = false;
        } else if let Some(heading) = heading_of(line) {
            parts.push(MarkdownPart::Heading(inline(heading).trim().to_owned()));
        } else if let Some(quoted) = line.strip_prefix('>') {
            self.take_block(quoted.trim_start(), parts);
        } else if let Some(item) = item_of(line) {
            parts.is_open = false;
            match task_of(item) {
                Some((is_done, text)) => {
                    parts.push(MarkdownPart::Task { is_done, text: inline(text).trim().to_owned() });
                    parts.is_open = true;
                }
                None => parts.text(&inline(item)),
            }
        } else if line.contains('|') && !self.is_mid_line {
            self.head = Some(line.to_owned());
        } else {
            if number_of(line).is_some() {
                parts.is_open = false;
            }
            parts.text(&inline(line));
        }
    }

    fn release_head(&mut self, parts: &mut PartList) {
        if let Some(head) = self.head.take() {
            parts.text(&inline(&head));
        }
    }

    fn release_code(&mut self, parts: &mut PartList) {
        let Some(fence) = self.fence.as_mut().filter(|fence| !fence.lines.is_empty()) else { return };
        let lines = std::mem::take(&mut fence.lines);
        parts.push(MarkdownPart::Code { language: fence.language.clone(), lines });
    }
}

/// A whole text on one line, without markup. Each part ends like a sentence.
pub fn plain(text: &str) -> String {
    let mut spoken = SpokenMarkdown::default();
    let mut parts = spoken.take(text);
    parts.extend(spoken.release());
    let mut line = String::new();
    for part in parts {
        let text = match part {
            MarkdownPart::Text(text) | MarkdownPart::Heading(text) | MarkdownPart::Task { text, .. } => text,
            MarkdownPart::Code { lines, .. } => lines.join(" "),
        };
        if !line.is_empty() {
            let is_ended = line.ends_with(|last: char| last.is_ascii_punctuation() || !last.is_ascii());
            line.push_str(if is_ended { " " } else { ". " });
        }
        line.push_str(text.trim());
    }
    line
}

/// The mark, the length and the language of a line that opens a code block.
fn fence_of(line: &str) -> Option<(char, usize, String)> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    let language = line[length..].trim();
    let is_fence = length >= 3 && !(mark == '`' && language.contains('`'));
    is_fence.then(|| (mark, length, language.split_whitespace().next().unwrap_or_default().to_owned()))
}

fn heading_of(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let is_heading = (1..=6).contains(&(line.len() - text.len())) && text.starts_with([' ', '\t']);
    is_heading.then(|| text.trim().trim_end_matches('#').trim_end())
}

/// A thematic break, or the line below a heading.
fn is_rule(line: &str) -> bool {
    let marks: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    marks.len() >= 3 && ["-", "*", "_", "="].iter().any(|mark| marks.replace(mark, "").is_empty())
}

/// The text of an item of an unordered list.
fn item_of(line: &str) -> Option<&str> {
    let text = line.strip_prefix(['-', '*', '+', '•'])?;
    text.starts_with(char::is_whitespace).then(|| text.trim_start())
}

/// The number of an item of an ordered list. It is spoken.
fn number_of(line: &str) -> Option<&str> {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = line[digits..].strip_prefix(['.', ')'])?;
    ((1..=9).contains(&digits) && rest.starts_with(char::is_whitespace)).then(|| &line[..digits])
}

fn task_of(item: &str) -> Option<(bool, &str)> {
    let (is_done, text) = match item.get(..3)? {
        "[ ]" => (false, &item[3..]),
        "[x]" | "[X]" => (true, &item[3..]),
        _ => return None,
    };
    text.starts_with(char::is_whitespace).then(|| (is_done, text.trim_start()))
}

/// The cells of a table row. A bar within code, or after a backslash, separates nothing.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let (mut is_code, mut is_escaped) = (false, false);
    for character in line.chars() {
        let cell = cells.last_mut().expect("there is always a cell");
        match character {
            '|' if is_escaped => {
                cell.pop();
                cell.push('|');
            }
            '|' if !is_code => cells.push(String::new()),
            other => cell.push(other),
        }
        is_code ^= character == '`' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|last| last.trim().is_empty()) {
        cells.pop();
    }
    cells
}

/// Whether a line separates the head of a table from its rows.
fn is_delimiter(line: &str) -> bool {
    cells(line).iter().all(|cell| {
        let dashes = cell.trim();
        let dashes = dashes.strip_prefix(':').unwrap_or(dashes);
        let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
        !dashes.is_empty() && dashes.chars().all(|c| c == '-')
    })
}

/// A row as `column: value, column: value.` Empty cells are left out.
fn row(columns: &[String], cells: &[String]) -> String {
    let mut values = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let value = inline(cell);
        match (columns.get(at).filter(|name| !name.is_empty()), value.trim()) {
            (_, "") => {}
            (Some(name), value) => values.push(format!("{name}: {value}")),
            (None, value) => values.push(value.to_owned()),
        }
    }
    let row = values.join(", ");
    if row.is_empty() || row.ends_with(['.', '!', '?']) { row } else { row + "." }
}
