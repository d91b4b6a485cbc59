//! A long conversation is made shorter: its older part is replaced by an extract of one line for each message.
//!
//! Pure and the same every time; `docs/compaction.md` has the rules for readers of a log. Look at
//! [`Conversation::compaction`]. No model is asked, so it costs nothing and cannot fail.

use recount_event::family::context::Compacted;

use super::{Conversation, ModelTurn, Place, Placed, Said, Words};
use crate::conversation::limits;
use crate::limits::BYTES_PER_TOKEN;

const HEAD: &str = "What was said before this, shortened:";

/// The first line where the request stays although steps after it are gone.
const HEAD_BEFORE_REQUEST: &str = "What was said and done before, shortened; the request after this was made before the last of these steps:";

impl Conversation {
    /// What is to be told when the conversation is longer than so many tokens and something of it can be replaced.
    pub(crate) fn compaction(&self, above: u64) -> Option<Compacted> {
        let tokens_before = self.tokens_estimate();
        if tokens_before <= above {
            return None;
        }
        let start = self.kept_from(above)?;
        let first_kept = self.said.get(start)?.at?;
        // What was said before the session began has no place; it is all replaced, up to the beginning of a run.
        let through =
            self.said[..start].iter().rev().find_map(|placed| placed.at).unwrap_or((first_kept.0, 0));
        let lines = self.said[..start].iter().map(line);
        let summary = extract(HEAD, self.extract.as_deref(), lines, above);
        let mut after = Conversation { extract: Some(summary.clone()), ..Conversation::default() };
        after.said = self.said[start..].to_vec();
        let tokens_after = after.tokens_estimate();
        (tokens_after < tokens_before).then(|| {
            let mut compacted = Compacted::new(through.0.to_string(), through.1, summary);
            compacted.tokens_before = Some(tokens_before);
            compacted.tokens_after = Some(tokens_after);
            compacted
        })
    }

    /// What is to be told when the steps since the last request have to go: an extract of all before the newest steps, as
    /// many of which stay as fit into half of the bound, beside the request itself.
    pub(super) fn old_steps(&self, above: u64) -> Option<Compacted> {
        let newest = self.said.iter().rposition(|placed| matches!(placed.said, Said::Turn(_)))?;
        let request = self.last_request(None);
        let first = request.map_or(0, |request| request + 1);
        let room = bytes(above / 2);
        let request_bytes = request.map_or(0, |request| self.said[request].said.bytes());
        let mut start = newest;
        let mut kept = request_bytes + self.said[newest].said.bytes();
        while start > first {
            kept += self.said[start - 1].said.bytes();
            if kept > room {
                break;
            }
            start -= 1;
        }
        if start <= first || newest < first {
            return None;
        }
        let through = self.said[start - 1].at?;
        let gone = self.said[..start].iter().enumerate().filter(|(at, _)| Some(*at) != request);
        let head = if request.is_some() { HEAD_BEFORE_REQUEST } else { HEAD };
        let lines = gone.map(|(_, placed)| line(placed));
        let summary = extract(head, self.extract.as_deref(), lines, above);
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

    /// Replaces all up to a place, but for the last message of a person's where `request_kept` says so.
    pub(super) fn compact(&mut self, through: Place, summary: &str, request_kept: bool) {
        let request = self.last_request(Some(through)).filter(|_| request_kept);
        let mut at = 0;
        self.said.retain(|placed| {
            let stays = placed.at.is_some_and(|at| at > through) || Some(at) == request;
            at += 1;
            stays
        });
        self.extract = Some(summary.to_owned());
    }

    /// The last message of a person's, up to a place where one is given.
    fn last_request(&self, through: Option<Place>) -> Option<usize> {
        let is_before =
            |placed: &Placed| through.is_none_or(|through| placed.at.is_none_or(|at| at <= through));
        self.said.iter().rposition(|placed| matches!(placed.said, Said::User(_)) && is_before(placed))
    }

    /// The first message that stays: the last one of a person's, or as much more before it as half of the bound has room
    /// for. A step of the model and what came of its calls are one, and never parted. `None` when nothing can go.
    fn kept_from(&self, above: u64) -> Option<usize> {
        let live = self.said.iter().position(|placed| placed.at.is_some())?;
        let mut start = self.said.iter().rposition(|placed| matches!(placed.said, Said::User(_)))?;
        let room = bytes(above / 2);
        let mut kept: usize = self.said[start..].iter().map(|placed| placed.said.bytes()).sum();
        while start > live {
            kept += self.said[start - 1].said.bytes();
            if kept > room {
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

/// The lines of an extract that is there already, and further ones; the oldest are left out where there is no room.
fn extract(head: &str, before: Option<&str>, more: impl Iterator<Item = String>, above: u64) -> String {
    let mut left_out = 0_u64;
    let mut lines: Vec<String> = Vec::new();
    for line in before.unwrap_or_default().lines().skip(1) {
        match line.strip_prefix('(').and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok()) {
            Some(count) => left_out = left_out.saturating_add(count),
            None => lines.push(line.to_owned()),
        }
    }
    lines.extend(more);
    let room = bytes(above / 4).min(limits::EXTRACT_BYTES_MAX);
    let mut used = head.len() + lines.iter().map(|line| line.len() + 1).sum::<usize>();
    let mut from = 0;
    // The line that counts needs room, too.
    while from < lines.len() && used + if left_out > 0 { told(left_out).len() + 1 } else { 0 } > room {
        used -= lines[from].len() + 1;
        from += 1;
        left_out += 1;
    }
    let counted = (left_out > 0).then(|| told(left_out));
    let kept = lines.into_iter().skip(from);
    let mut text = std::iter::once(head.to_owned()).chain(counted).chain(kept).collect::<Vec<_>>().join("\n");
    let mut end = text.len().min(room);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn told(left_out: u64) -> String {
    format!("({left_out} earlier lines are left out)")
}

/// A message in one line: whose it is, how it begins, and which tools were called.
fn line(placed: &Placed) -> String {
    match &placed.said {
        Said::User(words) => {
            let texts: Vec<&str> = words.iter().map(Words::text).filter(|text| !text.is_empty()).collect();
            let pictures = words.iter().filter(|words| words.is_picture()).count();
            let shown = if pictures > 0 { " [with pictures]" } else { "" };
            format!("user: {}{shown}", shortened(&texts.join(" ")))
        }
        Said::Turn(ModelTurn { texts, calls }) => {
            let names: Vec<&str> = calls.iter().map(|asked| asked.name.as_str()).collect();
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
        .take(limits::EXTRACT_LINE_CHARS + 1)
        .collect();
    match one_line.char_indices().nth(limits::EXTRACT_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &one_line[..at]),
        None => one_line,
    }
}

#[cfg(test)]
mod tests {
    use recount_event::RunId;

    use super::*;
    use crate::conversation::{Asked, StoredResult};
    use crate::model::Message;

    fn run(number: u128) -> RunId {
        RunId::new(number.into())
    }

    fn user(conversation: &mut Conversation, text: &str, at: Option<Place>) {
        conversation.push(Said::User(vec![Words::Text(text.into())]), at);
    }

    fn step(conversation: &mut Conversation, text: &str, result: &str, at: Option<Place>) {
        let told = StoredResult { words: vec![Words::Text(result.into())], is_error: false };
        let asked = Asked {
            tool_call_id: None,
            provider_call_id: "c".into(),
            name: "look".into(),
            input: serde_json::json!({}),
            result: Some(told),
        };
        conversation.push(Said::Turn(ModelTurn { texts: vec![text.into()], calls: vec![asked] }), at);
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
    fn the_older_part_becomes_lines_and_the_newest_stays() {
        let mut conversation = Conversation::default();
        user(&mut conversation, "seed", None);
        step(&mut conversation, "answered", "a seed's result", None);
        user(&mut conversation, &format!("first\nof {}", "x".repeat(900)), Some((run(1), 2)));
        step(&mut conversation, "I look.", &"r".repeat(2_000), Some((run(1), 9)));
        user(&mut conversation, "second", Some((run(2), 2)));
        step(&mut conversation, "Again.", "s", Some((run(2), 9)));
        user(&mut conversation, "third", Some((run(3), 2)));
        assert_eq!(conversation.compaction(conversation.tokens_estimate()), None);
        let told = compacted(&mut conversation, 700);
        assert_eq!((told.through_run_id.as_str(), told.through_sequence), (run(1).to_string().as_str(), 9));
        let lines: Vec<&str> = told.summary.lines().collect();
        assert_eq!(lines[..3], [HEAD, "user: seed", "assistant: answered [called look]"]);
        assert!(lines[3].starts_with("user: first of xx") && lines[3].ends_with('…'));
        assert_eq!(lines[4], "assistant: I look. [called look]");
        let messages = conversation.messages(None);
        assert_eq!(messages.len(), 5);
        assert!(matches!(&messages[1], Message::User(parts) if format!("{parts:?}").contains("second")));
        // Nothing more can go, and what is told again changes nothing.
        assert_eq!(conversation.compaction(1), None.or(conversation.compaction(1)));
        let before = conversation.clone();
        conversation.compact((run(1), 9), &told.summary, false);
        assert_eq!(conversation, before);
    }

    #[test]
    fn a_second_extract_works_on_the_first_and_counts_what_it_leaves_out() {
        let mut conversation = Conversation::default();
        let mut left_out = 0;
        for number in 1..60_u128 {
            user(&mut conversation, &format!("message {number} {}", "w".repeat(120)), Some((run(number), 2)));
            step(&mut conversation, &format!("answer {number}"), "r", Some((run(number), 8)));
            if conversation.compaction(400).is_some() {
                let told = compacted(&mut conversation, 400);
                let count = told.summary.lines().nth(1).and_then(|line| line.strip_prefix('('));
                let count =
                    count.and_then(|line| line.split(' ').next()).map_or(0, |count| count.parse().unwrap());
                assert!(count >= left_out);
                left_out = count;
                // All that was ever said is there, as it was, as a line, or in the count.
                let lines = told.summary.lines().count() - 1 - usize::from(count > 0);
                assert_eq!(lines + count + conversation.said.len(), 2 * number as usize);
            }
        }
        assert!(left_out > 20, "{left_out}");
    }

    #[test]
    fn the_last_request_stays_however_long_what_follows_it_is() {
        let mut conversation = Conversation::default();
        user(&mut conversation, "go", Some((run(1), 2)));
        for turn in 0..5 {
            step(&mut conversation, "on", &"r".repeat(900), Some((run(1), 10 + turn)));
        }
        assert_eq!(conversation.compaction(100), None);
    }

    #[test]
    fn an_extract_without_room_is_cut() {
        let mut conversation = Conversation::default();
        user(&mut conversation, &"long ".repeat(100), Some((run(1), 2)));
        user(&mut conversation, "now", Some((run(2), 2)));
        let told = compacted(&mut conversation, 8);
        assert_eq!(told.summary, HEAD[..8]);
    }
}
