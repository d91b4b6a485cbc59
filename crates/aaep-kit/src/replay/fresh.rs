//! Renews a recording: new ids, new tokens and current times. Entry: [`Round::renew`].
//!
//! A new id is a function of the old one and the round's key. So equal ids stay equal within a round, any line can be
//! renewed at any time, and nothing is remembered.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use super::lock::lock;
use super::script::{ID_FIELDS, ReplayScript, sum};
use crate::aaep::Reading;
use crate::aaep::field::Field;
use crate::aaep::json::{Node, Reader, Sort};
use crate::aaep::lex::{self, Lex, time::Moment};

/// One pass through the recording.
pub(super) struct Round {
    pub(super) number: u32,
    /// Unguessable, so that tokens are unguessable too.
    key: u128,
    /// When each line was sent, in milliseconds since 1970; never decreasing.
    sent_ms: Mutex<Vec<u64>>,
}

/// Formats of ids, and whether the round number is part of them. A token reveals nothing.
const FORMS: [(&Lex, &str, bool); 5] = [
    (&lex::EVENT_ID, "evt_", true),
    (&lex::SESSION_ID, "sess_", true),
    (&lex::REPLY_TOKEN, "rpl_", false),
    (&lex::TOOL_CALL_ID, "call_", true),
    (&lex::OUTPUT_ID, "out_", true),
];

impl Round {
    pub(super) fn new(number: u32, key: u128) -> Round {
        Round { number, key, sent_ms: Mutex::default() }
    }

    /// Records the time at which the next line is sent.
    pub(super) fn record_time(&self, now_ms: u64) {
        let mut times = lock(&self.sent_ms);
        let at_ms = times.last().copied().unwrap_or_default().max(now_ms);
        times.push(at_ms);
    }

    /// The replacement of an id.
    pub(super) fn id(&self, old: &str) -> String {
        let hash = self.hash(old);
        for (form, prefix, is_per_round) in FORMS {
            if (form.test)(old) {
                return if is_per_round {
                    format!("{prefix}{:08x}{:024x}", self.number, hash >> 32)
                } else {
                    format!("{prefix}{hash:032x}")
                };
            }
        }
        // Ids that violate the grammar still violate it.
        format!("{old}-{:08x}{:08x}", self.number, hash >> 96)
    }

    /// The round in which an id was created.
    pub(super) fn number_in(id: &str) -> Option<u32> {
        let digits = match id.strip_prefix("evt_") {
            Some(rest) if rest.len() == 32 => rest.get(..8)?,
            _ => id.rsplit_once('-')?.1.get(..8)?,
        };
        u32::from_str_radix(digits, 16).ok()
    }

    /// A line of the recording with ids and times of this round. Returns `None` if it is not a JSON object.
    pub(super) fn renew(&self, script: &ReplayScript, line: usize, text: &str) -> Option<String> {
        let mut reader = Reader::new();
        let doc = reader.read(text).ok()?;
        let reading = Reading::of(doc)?;
        let mut changes = Vec::new();
        let stamp = reading.get(Field::Timestamp);
        let known: Vec<usize> =
            ID_FIELDS.iter().filter_map(|field| reading.get(*field)).map(|node| node.offset()).collect();
        walk(doc.root(), &mut |node| {
            let is_stamp = stamp.is_some_and(|stamp| stamp.offset() == node.offset());
            if is_stamp {
                let is_moment = node.plain().is_some_and(|text| Moment::parse(text).is_some());
                changes.extend(is_moment.then(|| (node, Moment::write(self.at_ms(script, line)))));
            } else if known.contains(&node.offset()) {
                changes.extend(node.plain().map(|old| (node, self.id(old))));
            } else if let Some(old) = node.plain().filter(|old| has_form(old))
                && script.ids.contains(&sum(old))
            {
                changes.push((node, self.id(old)));
            }
        });
        let mut renewed = String::with_capacity(text.len() + changes.len() * 32);
        let mut done = 0;
        for (node, new) in changes {
            renewed.push_str(&text[done..node.offset()]);
            renewed.push_str(&new);
            done = node.offset() + node.raw().len();
        }
        renewed.push_str(&text[done..]);
        Some(renewed)
    }

    /// When it was first sent. A timestamp that decreases in the recording still decreases.
    fn at_ms(&self, script: &ReplayScript, line: usize) -> i64 {
        let line = script.lines[line].first;
        let at_ms = lock(&self.sent_ms).get(line).copied().unwrap_or_default();
        i64::try_from(at_ms).unwrap_or(i64::MAX) - i64::from(script.lines[line].back_ms)
    }

    fn hash(&self, old: &str) -> u128 {
        let half = |which: u8| {
            let mut hasher = DefaultHasher::new();
            (self.key, which, old).hash(&mut hasher);
            hasher.finish()
        };
        (u128::from(half(0)) << 64) | u128::from(half(1))
    }
}

fn has_form(text: &str) -> bool {
    FORMS.iter().any(|(form, ..)| (form.test)(text))
}

/// Visits all string values in the order of the text.
fn walk<'d>(node: Node<'d>, take: &mut impl FnMut(Node<'d>)) {
    match node.sort() {
        Sort::Text => take(node),
        Sort::Array => node.items().for_each(|item| walk(item, take)),
        Sort::Object => node.members().for_each(|(_, value)| walk(value, take)),
        Sort::Null | Sort::Bool | Sort::Number => {}
    }
}
