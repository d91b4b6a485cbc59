//! What a model says on its way into the log: gathers pieces of text into deltas, masks what may be a secret as it
//! comes, and closes each block with its whole text.
//!
//! Look at [`Saying`]. The first piece of a block can be reported at once; what comes while a report is under way
//! gathers, up to a bound of bytes and of time for each delta. Pure but for the moment it is given.

use std::sync::Arc;

use recount_event::family::assistant::{TextComplete, TextDelta};
use recount_event::{Draft, Payload};
use recount_redact::{Redactor, StreamRedactor};
use tokio::time::Instant;

use crate::limits;

/// A turn's texts.
pub(crate) struct Saying {
    turn_index: u64,
    redactor: Arc<Redactor>,
    next_block: u64,
    block: Option<Block>,
    ready: Vec<Draft>,
    ready_bytes: usize,
    /// The texts of complete blocks, as they were told.
    texts: Vec<String>,
}

struct Block {
    index: u64,
    masking: StreamRedactor,
    told: String,
    /// Not among what is ready yet.
    gathered: String,
    since: Option<Instant>,
}

impl Saying {
    pub(crate) fn new(turn_index: u64, first_block: u64, redactor: Arc<Redactor>) -> Self {
        Saying {
            turn_index,
            redactor,
            next_block: first_block,
            block: None,
            ready: Vec::new(),
            ready_bytes: 0,
            texts: Vec::new(),
        }
    }

    /// The index that the next block will have.
    pub(crate) fn next_block(&self) -> u64 {
        self.next_block
    }

    pub(crate) fn text(&mut self, piece: &str, now: Instant) {
        if self.block.as_ref().is_some_and(|block| block.would_be(piece) > limits::BLOCK_BYTES_MAX) {
            self.close();
        }
        if self.block.is_none() {
            self.block = Some(Block {
                index: self.next_block,
                masking: StreamRedactor::new(self.redactor.clone()),
                told: String::new(),
                gathered: String::new(),
                since: None,
            });
            self.next_block += 1;
        }
        let Some(block) = &mut self.block else { return };
        let certain = block.masking.push(piece);
        block.gather(&certain, now);
        if block.is_ripe(now) {
            let delta = block.delta(self.turn_index);
            self.put(delta);
        }
    }

    /// Ends the block that is open.
    pub(crate) fn close(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        let rest = block.masking.finish();
        block.told.push_str(&rest);
        block.gathered.push_str(&rest);
        let delta = block.delta(self.turn_index);
        self.put(delta);
        let complete = TextComplete::new(self.turn_index, block.index, block.told.clone());
        self.put(Some(Payload::AssistantTextComplete(Box::new(complete))));
        self.texts.push(block.told);
    }

    fn put(&mut self, payload: Option<Payload>) {
        if let Some(payload) = payload {
            self.ready_bytes += match &payload {
                Payload::AssistantTextDelta(delta) => delta.delta.len(),
                Payload::AssistantTextComplete(complete) => complete.text.len(),
                _ => 0,
            };
            self.ready.push(payload.into());
        }
    }

    /// Whether there is something to report.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty() || self.block.as_ref().is_some_and(|block| !block.gathered.is_empty())
    }

    /// Whether nothing more should be taken until something was reported.
    pub(crate) fn is_full(&self) -> bool {
        self.ready_bytes >= limits::SAYING_BYTES_MAX
    }

    /// What there is to report, in order.
    pub(crate) fn take(&mut self) -> Vec<Draft> {
        if let Some(block) = &mut self.block {
            let delta = block.delta(self.turn_index);
            self.put(delta);
        }
        self.ready_bytes = 0;
        std::mem::take(&mut self.ready)
    }

    /// All that was said in complete blocks.
    pub(crate) fn whole(&self) -> String {
        self.texts.join("")
    }
}

impl Block {
    fn would_be(&self, piece: &str) -> usize {
        self.told.len() + self.masking.held() + piece.len()
    }

    fn gather(&mut self, certain: &str, now: Instant) {
        if !certain.is_empty() {
            self.since.get_or_insert(now);
            self.told.push_str(certain);
            self.gathered.push_str(certain);
        }
    }

    /// Whether the delta has gathered for long enough, or enough.
    fn is_ripe(&self, now: Instant) -> bool {
        self.gathered.len() >= limits::DELTA_BYTES
            || self.since.is_some_and(|since| now.duration_since(since) >= limits::DELTA_TIME)
    }

    fn delta(&mut self, turn_index: u64) -> Option<Payload> {
        self.since = None;
        let text = std::mem::take(&mut self.gathered);
        let delta =
            || Payload::AssistantTextDelta(Box::new(TextDelta::new(turn_index, self.index, text.clone())));
        (!text.is_empty()).then(delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saying() -> Saying {
        Saying::new(3, 0, Arc::new(Redactor::shapes()))
    }

    fn said(drafts: &[Draft]) -> Vec<(u64, String, bool)> {
        drafts
            .iter()
            .map(|draft| match &draft.payload {
                Payload::AssistantTextDelta(delta) => (delta.block_index, delta.delta.clone(), false),
                Payload::AssistantTextComplete(text) => (text.block_index, text.text.clone(), true),
                other => panic!("{}", other.type_name()),
            })
            .collect()
    }

    #[test]
    fn what_gathers_comes_out_in_order_and_whole() {
        let mut saying = saying();
        let now = recount_world::moment();
        saying.text("one ", now);
        assert_eq!(said(&saying.take()), [(0, "one ".into(), false)]);
        saying.text("two ", now);
        saying.text("three ", now);
        assert_eq!(said(&saying.take()), [(0, "two three ".into(), false)]);
        saying.close();
        saying.text("next", now);
        saying.close();
        let rest = [(0, "one two three ".into(), true), (1, "next".into(), false), (1, "next".into(), true)];
        assert_eq!(said(&saying.take()), rest);
        assert!(!saying.has_more());
        assert_eq!(saying.whole(), "one two three next");
    }

    #[test]
    fn a_delta_is_bounded_in_bytes_and_time() {
        let mut saying = saying();
        let now = recount_world::moment();
        for _ in 0..10 {
            saying.text(&"word ".repeat(60), now);
        }
        let deltas = said(&saying.take());
        assert!(deltas.len() > 2 && deltas.iter().all(|(_, text, _)| text.len() < limits::DELTA_BYTES + 300));
        saying.text("a ", now);
        saying.text("b ", now + limits::DELTA_TIME);
        saying.text("c ", now + limits::DELTA_TIME);
        assert_eq!(said(&saying.take()), [(0, "a b ".into(), false), (0, "c ".into(), false)]);
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_masked_at_its_length() {
        let mut saying = saying();
        let now = recount_world::moment();
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let text = format!("the key is {secret} and no other");
        for piece in text.as_bytes().chunks(3) {
            saying.text(std::str::from_utf8(piece).unwrap(), now);
        }
        saying.close();
        let drafts = said(&saying.take());
        let (whole, told): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|(_, _, complete)| *complete);
        let told: String = told.into_iter().map(|(_, text, _)| text).collect();
        assert_eq!(told, whole[0].1);
        assert_eq!(told.len(), text.len());
        assert!(!told.contains(&secret) && told.ends_with(" and no other"), "{told}");
    }
}
