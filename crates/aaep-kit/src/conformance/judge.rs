//! Evaluates recorded conversations with pure functions: lines in, verdict out. Nothing here waits or sends.

use std::collections::BTreeMap;

use recount_aaep::Kind;
use serde_json::Value;

use super::transcript::Line;

/// The status of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptStatus {
    /// Not settled.
    Open,
    /// Its tool was called in this line.
    Done(usize),
    /// The producer continued without it, as this line shows.
    Passed(usize),
}

impl PromptStatus {
    pub fn line(self) -> Option<usize> {
        match self {
            PromptStatus::Open => None,
            PromptStatus::Done(line) | PromptStatus::Passed(line) => Some(line),
        }
    }
}

/// Whether a call is the one that a prompt is for: the prompt names it (G-35), or names no call.
pub fn is_call_of(prompt: &Line, call: &Line) -> bool {
    if !call.is(Kind::ToolInvoked) || call.session() != prompt.session() {
        return false;
    }
    let named = |name: &str| {
        prompt.json.get("extra_context").and_then(|context| context.get(name)).and_then(Value::as_str)
    };
    match (named("tool_call_id"), named("tool")) {
        // A retry has another id but is the same action.
        (_, Some(tool)) if call.str("tool") == tool => true,
        (Some(id), _) => call.str("tool_call_id") == id,
        (None, tool) => tool.is_none(),
    }
}

/// How the prompt in line `prompt` was settled: by its call, or else by the first change of state or ending after it.
///
/// A change of state into `calling_tool` may precede the call, so a following call counts.
pub fn prompt_status(lines: &[Line], prompt: usize) -> PromptStatus {
    let prompt_line = &lines[prompt];
    let mut passed = None;
    for (number, line) in lines.iter().enumerate().skip(prompt + 1) {
        if line.session() != prompt_line.session() || !line.is_event() {
            continue;
        }
        if is_call_of(prompt_line, line) {
            return PromptStatus::Done(number);
        }
        let moves = line.is(Kind::StateChanged) && line.str("to_state") != "awaiting_input";
        if moves || line.is_terminal() {
            passed.get_or_insert(number);
        }
    }
    passed.map_or(PromptStatus::Open, PromptStatus::Passed)
}

/// The first line that shows a prompt as settled.
pub fn settled(lines: &[Line], prompt: usize) -> Option<usize> {
    let prompt_line = &lines[prompt];
    (prompt + 1..lines.len()).find(|number| {
        let line = &lines[*number];
        line.is_event()
            && line.session() == prompt_line.session()
            && ((line.is(Kind::StateChanged) && line.str("to_state") != "awaiting_input")
                || line.is_terminal()
                || is_call_of(prompt_line, line))
    })
}

/// The last received event of each session that started and has not ended.
pub fn unended(lines: &[Line]) -> Vec<usize> {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ended = std::collections::BTreeSet::new();
    for (number, line) in lines.iter().enumerate() {
        if !line.is_event() || line.session().is_empty() || ended.contains(line.session()) {
            continue;
        }
        if line.is_terminal() {
            open.remove(line.session());
            ended.insert(line.session());
        } else {
            open.insert(line.session(), number);
        }
    }
    open.into_values().collect()
}

/// The newest prompt of a session that is not settled.
pub fn open_prompt(lines: &[Line], session: &str) -> Option<usize> {
    let is_prompt = |line: &Line| {
        (line.is(Kind::AwaitingConfirmation) || line.is(Kind::AwaitingClarification))
            && line.session() == session
    };
    let prompt = lines.iter().rposition(is_prompt)?;
    settled(lines, prompt).is_none().then_some(prompt)
}

/// The first line between a prompt and line `until` that implies a completed action: a call, its end, or output.
pub fn sounds_done(lines: &[Line], prompt: usize, until: usize) -> Option<&Line> {
    let prompt_line = &lines[prompt];
    lines[prompt + 1..until].iter().find(|line| {
        let done = match line.kind() {
            Some(Kind::ToolInvoked) => is_call_of(prompt_line, line),
            Some(Kind::ToolCompleted) => {
                let id = line.str("tool_call_id");
                let began = |call: &&Line| call.is(Kind::ToolInvoked) && call.str("tool_call_id") == id;
                lines[..until].iter().find(began).is_none_or(|call| is_call_of(prompt_line, call))
            }
            Some(Kind::OutputStreaming) => !line.str("chunk").is_empty(),
            Some(Kind::SessionCompleted) => true,
            _ => false,
        };
        done && line.session() == prompt_line.session()
    })
}

/// The lines after a prompt that call its tool.
pub fn calls_of(lines: &[Line], prompt: usize) -> Vec<usize> {
    let prompt_line = &lines[prompt];
    (prompt + 1..lines.len()).filter(|number| is_call_of(prompt_line, &lines[*number])).collect()
}

/// The lines after a prompt in which its session leaves `awaiting_input`.
pub fn departures(lines: &[Line], prompt: usize) -> Vec<usize> {
    let prompt_line = &lines[prompt];
    (prompt + 1..lines.len())
        .filter(|number| {
            let line = &lines[*number];
            line.is(Kind::StateChanged)
                && line.session() == prompt_line.session()
                && line.str("from_state") == "awaiting_input"
        })
        .collect()
}

/// The texts of all outputs by session and `output_id`, each joined from its pieces in order of arrival.
pub fn joined<'l>(lines: impl IntoIterator<Item = &'l Line>) -> BTreeMap<(String, String), String> {
    let mut texts: BTreeMap<(String, String), String> = BTreeMap::new();
    for line in lines.into_iter().filter(|line| line.is(Kind::OutputStreaming)) {
        let key = (line.session().to_owned(), line.str("output_id").to_owned());
        texts.entry(key).or_default().push_str(line.str("chunk"));
    }
    texts
}

/// The first piece whose `position` is not the number of characters before it in its output.
pub fn misplaced<'l>(lines: impl IntoIterator<Item = &'l Line>) -> Option<(&'l Line, usize)> {
    let mut lengths: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in lines.into_iter().filter(|line| line.is(Kind::OutputStreaming)) {
        let length = lengths.entry((line.session(), line.str("output_id"))).or_default();
        if line.json.get("position").and_then(Value::as_u64) != u64::try_from(*length).ok() {
            return Some((line, *length));
        }
        *length += line.str("chunk").chars().count();
    }
    None
}

/// The largest number of moments within any one second, and the start of that second.
pub fn busiest_second(moments_ms: &[u64]) -> (usize, u64) {
    let mut most = (0, 0);
    let mut from = 0;
    for (to, moment) in moments_ms.iter().enumerate() {
        while moments_ms[from] + 1_000 <= *moment {
            from += 1;
        }
        if to + 1 - from > most.0 {
            most = (to + 1 - from, moments_ms[from]);
        }
    }
    most
}

/// Whether a piece ends where its hint claims. `next` is the text that follows in the same output.
pub fn hint_is_true(chunk: &str, hint: &str, complete: bool, next: Option<&str>) -> bool {
    const CLOSING: [char; 10] = ['"', '\'', ')', ']', '»', '”', '’', '*', '_', '`'];
    // The end of the output is the end of every unit.
    if complete || next.is_none() || chunk.is_empty() {
        return true;
    }
    let next = next.unwrap_or_default();
    let spaced = chunk.ends_with(char::is_whitespace) || next.starts_with(char::is_whitespace);
    let trimmed = chunk.trim_end().trim_end_matches(CLOSING);
    match hint {
        "completion" => false,
        "paragraph" => {
            let around =
                chunk[chunk.trim_end().len()..].to_owned() + &next[..next.len() - next.trim_start().len()];
            around.matches('\n').count() >= 2
        }
        "sentence" => {
            trimmed.ends_with(['.', '!', '?', '…', '。', '！', '？', ':', ';']) || chunk.ends_with('\n')
        }
        "word" => {
            let cut = |side: Option<char>| side.is_none_or(|c| !c.is_alphanumeric());
            spaced || cut(chunk.chars().next_back()) || cut(next.chars().next())
        }
        _ => true,
    }
}

/// Pieces of output whose hint is missing, not among `agreed`, or false.
pub fn untrue_hints<'l>(lines: &'l [Line], agreed: &[&str]) -> Vec<(&'l Line, String)> {
    let pieces: Vec<&Line> = lines.iter().filter(|line| line.is(Kind::OutputStreaming)).collect();
    let mut found = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let hint = piece.str("coalesce_hint");
        let same = |other: &&&Line| {
            (other.session(), other.str("output_id")) == (piece.session(), piece.str("output_id"))
                && !other.str("chunk").is_empty()
        };
        let next = pieces[number + 1..].iter().find(same).map(|next| next.str("chunk"));
        let complete = piece.json.get("complete").and_then(Value::as_bool) == Some(true);
        if !hint_is_true(piece.str("chunk"), hint, complete, next) {
            found.push((*piece, format!("the piece does not end at its hint `{hint}`")));
        } else if !agreed.is_empty()
            && !hint.is_empty()
            && hint != "none"
            && !agreed.contains(&hint)
            && !complete
        {
            found.push((*piece, format!("`{hint}` was not agreed")));
        }
    }
    found
}

/// The first piece without a hint that does not end at this boundary.
pub fn cut_elsewhere<'l>(lines: &'l [Line], boundary: &str) -> Option<&'l Line> {
    let pieces: Vec<&Line> = lines.iter().filter(|line| line.is(Kind::OutputStreaming)).collect();
    pieces.iter().enumerate().find_map(|(number, piece)| {
        let same = |other: &&&Line| {
            (other.session(), other.str("output_id")) == (piece.session(), piece.str("output_id"))
                && !other.str("chunk").is_empty()
        };
        let next = pieces[number + 1..].iter().find(same).map(|next| next.str("chunk"));
        let complete = piece.json.get("complete").and_then(Value::as_bool) == Some(true);
        let silent = piece.str("coalesce_hint").is_empty();
        (silent && !hint_is_true(piece.str("chunk"), boundary, complete, next)).then_some(*piece)
    })
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn shown(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// The first two responses that differ, with the labels of their requests.
pub fn unlike(answers: &[(String, Answer)]) -> Option<[&(String, Answer); 2]> {
    let first = answers.first()?;
    answers.iter().find(|other| other.1 != first.1).map(|other| [first, other])
}

/// Events of one conversation that another lacks, compared by `event_id`.
pub fn missing<'l>(all: impl IntoIterator<Item = &'l Line>, had: &[&Line]) -> Vec<&'l Line> {
    let ids: std::collections::BTreeSet<&str> = had.iter().map(|line| line.str("event_id")).collect();
    all.into_iter().filter(|line| !ids.contains(line.str("event_id"))).collect()
}

/// The first text for people that contains a secret. Fields that repeat the request are ignored.
pub fn leaks<'l>(lines: &'l [Line], secrets: &[&str]) -> Option<(&'l Line, String)> {
    fn find(value: &Value, path: &str, secrets: &[&str]) -> Option<String> {
        match value {
            Value::String(text) => {
                secrets.iter().any(|secret| text.contains(secret)).then(|| path.to_owned())
            }
            Value::Array(items) => items.iter().find_map(|item| find(item, path, secrets)),
            Value::Object(fields) => fields.iter().find_map(|(name, value)| find(value, name, secrets)),
            _ => None,
        }
    }
    lines
        .iter()
        .filter(|line| line.is_event())
        .find_map(|line| find(&line.json, "", secrets).map(|field| (line, field)))
}

/// The first text that uses a combining mark where a composed letter exists. Covers Latin letters only.
pub fn decomposed(lines: &[Line]) -> Option<&Line> {
    let plain = |text: &str| {
        let mut last = ' ';
        text.chars().any(|c| {
            let composes = matches!(c, '\u{300}'..='\u{304}' | '\u{308}' | '\u{323}')
                && matches!(last.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u')
                || c == '\u{303}' && matches!(last, 'n' | 'N')
                || c == '\u{327}' && matches!(last, 'c' | 'C' | 's' | 'S');
            last = c;
            composes
        })
    };
    lines.iter().find(|line| line.is_event() && plain(&line.text))
}

#[cfg(test)]
mod tests;
