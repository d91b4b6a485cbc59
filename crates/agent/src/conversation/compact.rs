//! Compaction: replaces the older part of a long conversation by a summary with one line for each message.
//!
//! Pure and deterministic. It must not call a model, so it costs nothing and cannot fail. `docs/compaction.md` has the
//! rules for readers of a log. Start with [`Conversation::compaction`].

use recount_event::family::context::Compacted;

use super::{Conversation, EventRef, HistoryEntry, HistoryItem, ModelTurn, StoredPart};
use crate::conversation::limits;
use crate::limits::BYTES_PER_TOKEN;

const HEAD: &str = "Summary of the earlier conversation:";

/// The first line of a summary that keeps the request and replaces steps after it.
const HEAD_BEFORE_REQUEST: &str = concat!(
    "Summary of the earlier conversation and steps ",
    "(the user's request below came before the last of these steps):"
);

impl Conversation {
    /// The compaction of a conversation of more than `above` tokens; `None` when nothing can be replaced.
    pub(crate) fn compaction(&self, above: u64) -> Option<Compacted> {
        let tokens_before = self.tokens_estimate();
        if tokens_before <= above {
            return None;
        }
        let start = self.kept_from(above)?;
        let first_kept = self.history.get(start)?.at?;
        // Seed messages have no event; all of them are replaced, up to the beginning of a run.
        let through =
            self.history[..start].iter().rev().find_map(|entry| entry.at).unwrap_or((first_kept.0, 0));
        let lines = self.history[..start].iter().map(line);
        let summary = summarize(HEAD, self.summary.as_deref(), lines, above);
        let mut after = Conversation { summary: Some(summary.clone()), ..Conversation::default() };
        after.history = self.history[start..].to_vec();
        let tokens_after = after.tokens_estimate();
        (tokens_after < tokens_before).then(|| {
            let mut compacted = Compacted::new(through.0.to_string(), through.1, summary);
            compacted.tokens_before = Some(tokens_before);
            compacted.tokens_after = Some(tokens_after);
            compacted
        })
    }

    /// The compaction of the steps since the last request. The request is kept, and as many of the newest steps as fit
    /// into half of the limit. A summary replaces the rest.
    pub(super) fn step_compaction(&self, above: u64) -> Option<Compacted> {
        let newest = self.newest_step()?;
        let request = self.last_request(None);
        let first = request.map_or(0, |request| request + 1);
        let limit = bytes(above / 2);
        let request_bytes = request.map_or(0, |request| self.history[request].item.bytes());
        let mut start = newest;
        let mut kept = request_bytes + self.history[newest].item.bytes();
        while start > first {
            kept += self.history[start - 1].item.bytes();
            if kept > limit {
                break;
            }
            start -= 1;
        }
        if start <= first || newest < first {
            return None;
        }
        let through = self.history[start - 1].at?;
        let removed = self.history[..start].iter().enumerate().filter(|(at, _)| Some(*at) != request);
        let head = if request.is_some() { HEAD_BEFORE_REQUEST } else { HEAD };
        let lines = removed.map(|(_, entry)| line(entry));
        let summary = summarize(head, self.summary.as_deref(), lines, above);
        let mut after = self.clone();
        after.compact(through, &summary, true);
        let (before, after) = (self.tokens_estimate(), after.tokens_estimate());
        (after < before).then(|| {
            let mut compacted = Compacted::new(through.0.to_string(), through.1, summary);
            (compacted.tokens_before, compacted.tokens_after) = (Some(before), Some(after));
            compacted.request_kept = Some(true);
            compacted
        })
    }

    /// Replaces all entries up to an event by a summary. With `request_kept` the last user message among them stays.
    pub(super) fn compact(&mut self, through: EventRef, summary: &str, request_kept: bool) {
        let request = self.last_request(Some(through)).filter(|_| request_kept);
        let mut at = 0;
        self.history.retain(|entry| {
            let is_kept = entry.at.is_some_and(|at| at > through) || Some(at) == request;
            at += 1;
            is_kept
        });
        self.summary = Some(summary.to_owned());
    }

    /// The last user message, up to `through` if given.
    fn last_request(&self, through: Option<EventRef>) -> Option<usize> {
        let is_before =
            |entry: &HistoryEntry| through.is_none_or(|through| entry.at.is_none_or(|at| at <= through));
        self.history.iter().rposition(|entry| matches!(entry.item, HistoryItem::User(_)) && is_before(entry))
    }

    /// The first entry that is kept: the last user message, or an earlier entry if half of the limit has space for it.
    /// A step and the results of its calls are never separated. `None` when nothing can be replaced.
    fn kept_from(&self, above: u64) -> Option<usize> {
        let live = self.history.iter().position(|entry| entry.at.is_some())?;
        let mut start = self.history.iter().rposition(|entry| matches!(entry.item, HistoryItem::User(_)))?;
        let limit = bytes(above / 2);
        let mut kept: usize = self.history[start..].iter().map(|entry| entry.item.bytes()).sum();
        while start > live {
            kept += self.history[start - 1].item.bytes();
            if kept > limit {
                break;
            }
            start -= 1;
        }
        (start > 0 && start >= live).then_some(start)
    }
}

pub(super) fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN)
}

/// A summary of the lines of `before`, the previous summary, and of further lines. The oldest lines are left out beyond
/// the limit.
fn summarize(head: &str, before: Option<&str>, more: impl Iterator<Item = String>, above: u64) -> String {
    let mut left_out = 0_u64;
    let mut lines: Vec<String> = Vec::new();
    for line in before.unwrap_or_default().lines().skip(1) {
        match line.strip_prefix('(').and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok()) {
            Some(count) => left_out = left_out.saturating_add(count),
            None => lines.push(line.to_owned()),
        }
    }
    lines.extend(more);
    let limit = bytes(above / 4).min(limits::SUMMARY_BYTES_MAX);
    let mut used = head.len() + lines.iter().map(|line| line.len() + 1).sum::<usize>();
    let mut from = 0;
    // The line with the count needs space, too.
    while from < lines.len() && used + if left_out > 0 { omission(left_out).len() + 1 } else { 0 } > limit {
        used -= lines[from].len() + 1;
        from += 1;
        left_out += 1;
    }
    let counted = (left_out > 0).then(|| omission(left_out));
    let kept = lines.into_iter().skip(from);
    let mut text = std::iter::once(head.to_owned()).chain(counted).chain(kept).collect::<Vec<_>>().join("\n");
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn omission(left_out: u64) -> String {
    format!("({left_out} earlier lines omitted)")
}

/// An entry in one line: its role, its beginning, and the names of the called tools.
fn line(entry: &HistoryEntry) -> String {
    match &entry.item {
        HistoryItem::User(parts) => {
            let texts: Vec<&str> =
                parts.iter().map(StoredPart::text).filter(|text| !text.is_empty()).collect();
            let has_pictures = parts.iter().any(StoredPart::is_picture);
            let images = if has_pictures { " [with images]" } else { "" };
            format!("user: {}{images}", shortened(&texts.join(" ")))
        }
        HistoryItem::Turn(ModelTurn { texts, calls }) => {
            let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            let called =
                if names.is_empty() { String::new() } else { format!(" [called {}]", names.join(", ")) };
            format!("assistant: {}{}", shortened(&texts.join("")), shortened(&called))
        }
    }
}

/// The first characters, without line breaks.
fn shortened(text: &str) -> String {
    let one_line: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(limits::SUMMARY_LINE_CHARS + 1)
        .collect();
    match one_line.char_indices().nth(limits::SUMMARY_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &one_line[..at]),
        None => one_line,
    }
}

#[cfg(test)]
mod tests {
    use recount_event::RunId;

    use super::*;
    use crate::conversation::{HistoryCall, StoredResult};
    use crate::model::Message;

    fn run(number: u128) -> RunId {
        RunId::new(number.into())
    }

    fn user(conversation: &mut Conversation, text: &str, at: Option<EventRef>) {
        conversation.push(HistoryItem::User(vec![StoredPart::Text(text.into())]), at);
    }

    fn step(conversation: &mut Conversation, text: &str, result: &str, at: Option<EventRef>) {
        let result = StoredResult { parts: vec![StoredPart::Text(result.into())], is_error: false };
        let call = HistoryCall {
            tool_call_id: None,
            provider_call_id: "c".into(),
            name: "look".into(),
            input: serde_json::json!({}),
            result: Some(result),
        };
        let turn = ModelTurn { texts: vec![text.into()], calls: vec![call] };
        conversation.push(HistoryItem::Turn(turn), at);
    }

    fn compacted(conversation: &mut Conversation, above: u64) -> Compacted {
        let compacted = conversation.compaction(above).unwrap();
        let run = compacted.through_run_id.parse().unwrap();
        conversation.compact((run, compacted.through_sequence), &compacted.summary, false);
        assert_eq!(Some(conversation.tokens_estimate()), compacted.tokens_after);
        assert!(compacted.tokens_after < compacted.tokens_before);
        assert!(compacted.summary.len() <= bytes(above / 4), "{}", compacted.summary);
        compacted
    }

    #[test]
    fn the_older_part_becomes_lines_and_the_newest_is_kept() {
        let mut conversation = Conversation::default();
        user(&mut conversation, "seed", None);
        step(&mut conversation, "answered", "a seed's result", None);
        user(&mut conversation, &format!("first\nof {}", "x".repeat(900)), Some((run(1), 2)));
        step(&mut conversation, "I look.", &"r".repeat(2_000), Some((run(1), 9)));
        user(&mut conversation, "second", Some((run(2), 2)));
        step(&mut conversation, "Again.", "s", Some((run(2), 9)));
        user(&mut conversation, "third", Some((run(3), 2)));
        assert_eq!(conversation.compaction(conversation.tokens_estimate()), None);
        let compaction = compacted(&mut conversation, 700);
        assert_eq!(
            (compaction.through_run_id.as_str(), compaction.through_sequence),
            (run(1).to_string().as_str(), 9)
        );
        let lines: Vec<&str> = compaction.summary.lines().collect();
        assert_eq!(lines[..3], [HEAD, "user: seed", "assistant: answered [called look]"]);
        assert!(lines[3].starts_with("user: first of xx") && lines[3].ends_with('…'));
        assert_eq!(lines[4], "assistant: I look. [called look]");
        let messages = conversation.messages(None);
        assert_eq!(messages.len(), 5);
        assert!(matches!(&messages[1], Message::User(parts) if format!("{parts:?}").contains("second")));
        // Nothing more can be replaced, and a second application changes nothing.
        assert_eq!(conversation.compaction(1), None.or(conversation.compaction(1)));
        let before = conversation.clone();
        conversation.compact((run(1), 9), &compaction.summary, false);
        assert_eq!(conversation, before);
    }

    #[test]
    fn a_second_summary_extends_the_first_and_counts_omitted_lines() {
        let mut conversation = Conversation::default();
        let mut left_out = 0;
        for number in 1..60_u128 {
            user(&mut conversation, &format!("message {number} {}", "w".repeat(120)), Some((run(number), 2)));
            step(&mut conversation, &format!("answer {number}"), "r", Some((run(number), 8)));
            if conversation.compaction(400).is_some() {
                let compaction = compacted(&mut conversation, 400);
                let count = compaction.summary.lines().nth(1).and_then(|line| line.strip_prefix('('));
                let count =
                    count.and_then(|line| line.split(' ').next()).map_or(0, |count| count.parse().unwrap());
                assert!(count >= left_out);
                left_out = count;
                // Every entry is kept, has a line, or is counted.
                let lines = compaction.summary.lines().count() - 1 - usize::from(count > 0);
                assert_eq!(lines + count + conversation.history.len(), 2 * number as usize);
            }
        }
        assert!(left_out > 20, "{left_out}");
    }

    #[test]
    fn the_last_request_is_kept_however_long_its_steps_are() {
        let mut conversation = Conversation::default();
        user(&mut conversation, "go", Some((run(1), 2)));
        for turn in 0..5 {
            step(&mut conversation, "on", &"r".repeat(900), Some((run(1), 10 + turn)));
        }
        assert_eq!(conversation.compaction(100), None);
    }

    #[test]
    fn a_summary_larger_than_the_limit_is_cut() {
        let mut conversation = Conversation::default();
        user(&mut conversation, &"long ".repeat(100), Some((run(1), 2)));
        user(&mut conversation, "now", Some((run(2), 2)));
        let compaction = compacted(&mut conversation, 8);
        assert_eq!(compaction.summary, HEAD[..8]);
    }
}
