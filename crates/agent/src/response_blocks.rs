//! Turns the streamed text and thinking of a model into events: batches pieces into deltas, masks secrets while they
//! arrive, and ends each block with its complete text.
//!
//! The first piece of a block can be reported at once. Pieces that arrive during a report are batched, up to a limit of
//! bytes and time for each delta. Pure, with the time as an argument. It must not know providers or how events are
//! reported. Start with [`ResponseBlocks`].

use std::sync::Arc;

use recount_event::family::assistant::{TextComplete, TextDelta};
use recount_event::{Draft, ForeignId, Payload};
use recount_redact::{Redactor, StreamRedactor};
use tokio::time::Instant;

use crate::call_input::CallInputs;
use crate::held::HeldSince;
use crate::limits;

/// A call as the model wrote it.
pub(crate) struct WrittenCall {
    pub(crate) provider_call_id: String,
    pub(crate) name: String,
    pub(crate) input: String,
}

/// The blocks of text and thinking of one turn.
pub(crate) struct ResponseBlocks {
    turn_index: u64,
    redactor: Arc<Redactor>,
    next_block: u64,
    block: Option<OpenBlock>,
    ready: Vec<Draft>,
    ready_bytes: usize,
    /// The masked texts of complete blocks.
    texts: Vec<String>,
    /// Whether the turn has more blocks than the limit.
    pub(crate) has_too_many_blocks: bool,
    /// Whether thinking is logged.
    pub(crate) logs_thinking: bool,
    /// Masks the key of this run, which the configured redactor does not know.
    pub(crate) key: Option<Arc<Redactor>>,
    /// The inputs of calls while the model writes them, if these are logged.
    pub(crate) inputs: Option<CallInputs>,
}

struct OpenBlock {
    index: u64,
    kind: BlockKind,
    masking: Masking,
    /// The masked text so far.
    text: String,
    /// Bytes received, as text and as a JSON string.
    bytes: usize,
    quoted: usize,
    /// The masked text of the next delta.
    pending: String,
    /// When `pending` got its first byte.
    since: Option<Instant>,
    held: HeldSince,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
}

/// Masks a streamed text: first the key of the run, then known secrets and texts with the shape of a secret.
struct Masking {
    key: Option<StreamRedactor>,
    all: StreamRedactor,
}

impl Masking {
    fn push(&mut self, piece: &str) -> String {
        match &mut self.key {
            Some(key) => self.all.push(&key.push(piece)),
            None => self.all.push(piece),
        }
    }

    fn release(&mut self) -> String {
        let released = self.key.as_mut().map(StreamRedactor::release).unwrap_or_default();
        let mut certain = self.all.push(&released);
        certain.push_str(&self.all.release());
        certain
    }

    fn finish(&mut self) -> String {
        let rest = self.key.as_mut().map(StreamRedactor::finish).unwrap_or_default();
        let mut certain = self.all.push(&rest);
        certain.push_str(&self.all.finish());
        certain
    }

    fn held(&self) -> usize {
        self.all.held() + self.key.as_ref().map_or(0, StreamRedactor::held)
    }
}

impl ResponseBlocks {
    pub(crate) fn new(turn_index: u64, first_block: u64, redactor: Arc<Redactor>) -> Self {
        ResponseBlocks {
            turn_index,
            redactor,
            next_block: first_block,
            block: None,
            ready: Vec::new(),
            ready_bytes: 0,
            texts: Vec::new(),
            has_too_many_blocks: false,
            logs_thinking: false,
            key: None,
            inputs: None,
        }
    }

    /// Adds a piece of the input of a call, if a setting logs these. The key of the run could be in it, so a run with
    /// a key of its own logs none.
    pub(crate) fn add_call_input(&mut self, call: usize, text: &str) {
        if let Some(inputs) = self.inputs.as_mut().filter(|_| self.key.is_none()) {
            inputs.push(call, text);
        }
    }

    /// The id under which pieces of a call were logged.
    pub(crate) fn call_id(&self, call: usize) -> Option<ForeignId> {
        self.inputs.as_ref()?.id(call)
    }

    pub(crate) fn add_text(&mut self, piece: &str, now: Instant) {
        self.add(BlockKind::Text, piece, now);
    }

    /// Adds thinking, if a setting logs it.
    pub(crate) fn add_thinking(&mut self, piece: &str, now: Instant) {
        if self.logs_thinking {
            self.add(BlockKind::Thinking, piece, now);
        }
    }

    /// A call with the key of the run masked, so that it is neither logged nor executed with it.
    pub(crate) fn masked(&self, mut call: WrittenCall) -> WrittenCall {
        if let Some(key) = &self.key {
            for text in [&mut call.provider_call_id, &mut call.name, &mut call.input] {
                *text = key.text(text).into_owned();
            }
        }
        call
    }

    /// Adds a piece of any size, in parts that each fit into a block.
    fn add(&mut self, kind: BlockKind, piece: &str, now: Instant) {
        let mut rest = piece;
        while rest.len() > limits::TEXT_PIECE_BYTES_MAX {
            let mut end = limits::TEXT_PIECE_BYTES_MAX;
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            self.add_part(kind, &rest[..end], now);
            rest = &rest[end..];
        }
        self.add_part(kind, rest, now);
    }

    fn add_part(&mut self, kind: BlockKind, piece: &str, now: Instant) {
        let is_other = |block: &OpenBlock| block.kind != kind || !block.fits(piece);
        if self.block.as_ref().is_some_and(is_other) {
            self.close();
        }
        if self.block.is_none() {
            if self.next_block >= limits::TURN_BLOCKS_MAX {
                self.has_too_many_blocks = true;
                return;
            }
            self.block = Some(OpenBlock {
                index: self.next_block,
                kind,
                masking: Masking {
                    key: self.key.clone().map(StreamRedactor::new),
                    all: StreamRedactor::new(self.redactor.clone()),
                },
                text: String::new(),
                bytes: 0,
                quoted: 0,
                pending: String::new(),
                since: None,
                held: HeldSince::default(),
            });
            self.next_block += 1;
        }
        let Some(block) = &mut self.block else { return };
        block.bytes += piece.len();
        block.quoted += quoted_bytes(piece);
        let certain = block.masking.push(piece);
        block.held.received(piece.len(), block.masking.held(), now);
        block.append(&certain, now);
        if block.is_delta_due(now) {
            let delta = block.delta(self.turn_index);
            self.push_ready(delta);
        }
    }

    /// When [`ResponseBlocks::release`] is due, unless a piece arrives before.
    pub(crate) fn release_due(&self) -> Option<Instant> {
        self.block.as_ref()?.held.due()
    }

    /// Releases held text whose next piece has not arrived, as far as it identifies no secret.
    pub(crate) fn release(&mut self, now: Instant) {
        let Some(block) = &mut self.block else { return };
        let certain = block.masking.release();
        block.held.released(block.masking.held());
        block.append(&certain, now);
    }

    /// Ends the open block.
    pub(crate) fn close(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        let rest = block.masking.finish();
        block.text.push_str(&rest);
        block.pending.push_str(&rest);
        let delta = block.delta(self.turn_index);
        self.push_ready(delta);
        let complete = Box::new(TextComplete::new(self.turn_index, block.index, block.text.clone()));
        self.push_ready(Some(match block.kind {
            BlockKind::Text => Payload::AssistantTextComplete(complete),
            BlockKind::Thinking => Payload::AssistantThinkingComplete(complete),
        }));
        if block.kind == BlockKind::Text {
            self.texts.push(block.text);
        }
    }

    fn push_ready(&mut self, payload: Option<Payload>) {
        if let Some(payload) = payload {
            self.ready_bytes += match &payload {
                Payload::AssistantTextDelta(delta) | Payload::AssistantThinkingDelta(delta) => {
                    delta.delta.len()
                }
                Payload::AssistantTextComplete(complete) | Payload::AssistantThinkingComplete(complete) => {
                    complete.text.len()
                }
                _ => 0,
            };
            self.ready.push(payload.into());
        }
    }

    /// Whether there are events to report.
    pub(crate) fn has_drafts(&self) -> bool {
        !self.ready.is_empty()
            || self.block.as_ref().is_some_and(|block| !block.pending.is_empty())
            || self.inputs.as_ref().is_some_and(CallInputs::has_deltas)
    }

    /// Whether the next pieces have to wait for a report.
    pub(crate) fn is_full(&self) -> bool {
        self.ready_bytes >= limits::RESPONSE_PENDING_BYTES_MAX
    }

    /// Takes the events to report, with the inputs of calls. `mint` generates the call ids.
    pub(crate) fn take_drafts_with_inputs(&mut self, mint: impl Fn() -> ForeignId) -> Vec<Draft> {
        let mut drafts = self.take_drafts();
        drafts.extend(self.inputs.iter_mut().flat_map(|inputs| inputs.take_drafts(&mint)));
        drafts
    }

    /// Takes the events to report, in order.
    pub(crate) fn take_drafts(&mut self) -> Vec<Draft> {
        if let Some(block) = &mut self.block {
            let delta = block.delta(self.turn_index);
            self.push_ready(delta);
        }
        self.ready_bytes = 0;
        std::mem::take(&mut self.ready)
    }

    /// The texts of all complete blocks.
    pub(crate) fn complete_text(&self) -> String {
        self.texts.join("")
    }
}

impl OpenBlock {
    /// Whether the piece fits. Masking keeps the length of a text, so the received bytes are the size of the block.
    fn fits(&self, piece: &str) -> bool {
        self.bytes + piece.len() <= limits::BLOCK_BYTES_MAX
            && self.quoted + quoted_bytes(piece) <= limits::BLOCK_QUOTED_BYTES_MAX
    }

    fn append(&mut self, certain: &str, now: Instant) {
        if !certain.is_empty() {
            self.since.get_or_insert(now);
            self.text.push_str(certain);
            self.pending.push_str(certain);
        }
    }

    /// Whether the delta has reached its size or its time.
    fn is_delta_due(&self, now: Instant) -> bool {
        self.pending.len() >= limits::DELTA_BYTES
            || self.since.is_some_and(|since| now.duration_since(since) >= limits::DELTA_TIME)
    }

    fn delta(&mut self, turn_index: u64) -> Option<Payload> {
        self.since = None;
        let text = std::mem::take(&mut self.pending);
        if text.is_empty() {
            return None;
        }
        let delta = Box::new(TextDelta::new(turn_index, self.index, text));
        Some(match self.kind {
            BlockKind::Text => Payload::AssistantTextDelta(delta),
            BlockKind::Thinking => Payload::AssistantThinkingDelta(delta),
        })
    }
}

/// Bytes of a text as part of a JSON string.
pub(crate) fn quoted_bytes(text: &str) -> usize {
    let quoted = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(quoted).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_bytes_counts_the_bytes_of_the_json_string() {
        let all: String = (0..300).filter_map(char::from_u32).collect();
        assert_eq!(quoted_bytes(&all) + 2, serde_json::to_string(&all).unwrap().len());
    }

    #[test]
    fn a_large_piece_is_divided_into_blocks() {
        for text in ["x".repeat(1 << 20), "\u{1}é".repeat(200_000)] {
            let mut response = response_blocks();
            response.add_text(&text, recount_world::moment());
            response.close();
            let blocks: Vec<String> = text_events(&response.take_drafts())
                .into_iter()
                .filter(|part| part.2)
                .map(|part| part.1)
                .collect();
            assert_eq!(blocks.concat(), text);
            assert!(blocks.iter().all(|block| block.len() <= limits::BLOCK_BYTES_MAX));
            assert!(blocks.iter().all(|block| quoted_bytes(block) <= limits::BLOCK_QUOTED_BYTES_MAX));
            assert!(!response.has_too_many_blocks);
        }
    }

    #[test]
    fn blocks_beyond_the_limit_are_reported() {
        let mut response = ResponseBlocks::new(0, limits::TURN_BLOCKS_MAX - 1, Arc::new(Redactor::shapes()));
        let now = recount_world::moment();
        response.add_text("the last", now);
        assert!(!response.has_too_many_blocks);
        response.close();
        response.add_text("one more", now);
        assert!(response.has_too_many_blocks);
        assert_eq!(response.complete_text(), "the last");
    }

    fn response_blocks() -> ResponseBlocks {
        ResponseBlocks::new(3, 0, Arc::new(Redactor::shapes()))
    }

    fn text_events(drafts: &[Draft]) -> Vec<(u64, String, bool)> {
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
    fn deltas_are_in_order_and_blocks_are_complete() {
        let mut response = response_blocks();
        let now = recount_world::moment();
        response.add_text("one ", now);
        assert_eq!(text_events(&response.take_drafts()), [(0, "one ".into(), false)]);
        response.add_text("two ", now);
        response.add_text("three ", now);
        assert_eq!(text_events(&response.take_drafts()), [(0, "two three ".into(), false)]);
        response.close();
        response.add_text("next", now);
        response.close();
        let rest = [(0, "one two three ".into(), true), (1, "next".into(), false), (1, "next".into(), true)];
        assert_eq!(text_events(&response.take_drafts()), rest);
        assert!(!response.has_drafts());
        assert_eq!(response.complete_text(), "one two three next");
    }

    #[test]
    fn thinking_gets_its_own_blocks_if_it_is_logged() {
        let now = recount_world::moment();
        for is_logged in [true, false] {
            let mut response = response_blocks();
            response.logs_thinking = is_logged;
            response.add_thinking("hm ", now);
            response.add_thinking("so", now);
            response.add_text("Yes.", now);
            response.close();
            let types: Vec<_> =
                response.take_drafts().iter().map(|draft| draft.payload.type_name().to_owned()).collect();
            let text = ["assistant.text_delta", "assistant.text_complete"];
            let thinking = ["assistant.thinking_delta", "assistant.thinking_complete"];
            assert_eq!(types, if is_logged { [thinking, text].concat() } else { text.to_vec() });
            assert_eq!(
                (response.next_block, response.complete_text().as_str()),
                (1 + u64::from(is_logged), "Yes.")
            );
        }
    }

    #[test]
    fn the_key_of_a_run_is_masked_in_texts_and_calls() {
        let now = recount_world::moment();
        let mut response = response_blocks();
        response.key = crate::model::Secret::new("plain words").redactor();
        response.add_text("I got a key with plain", now);
        response.add_text(" words, so.", now);
        response.close();
        assert_eq!(response.complete_text(), "I got a key with ***********, so.");
        let call = |text: &str| WrittenCall {
            provider_call_id: text.into(),
            name: text.into(),
            input: format!("{{\"at\":\"{text}\"}}"),
        };
        let masked = response.masked(call("plain words"));
        assert_eq!(
            (masked.name.as_str(), masked.input.as_str()),
            ("***********", "{\"at\":\"***********\"}")
        );
    }

    #[test]
    fn a_delta_has_a_limit_of_bytes_and_time() {
        let mut response = response_blocks();
        let now = recount_world::moment();
        for _ in 0..10 {
            response.add_text(&"word ".repeat(60), now);
        }
        let deltas = text_events(&response.take_drafts());
        assert!(deltas.len() > 2 && deltas.iter().all(|(_, text, _)| text.len() < limits::DELTA_BYTES + 300));
        response.add_text("a ", now);
        response.add_text("b ", now + limits::DELTA_TIME);
        response.add_text("c ", now + limits::DELTA_TIME);
        assert_eq!(
            text_events(&response.take_drafts()),
            [(0, "a b ".into(), false), (0, "c ".into(), false)]
        );
    }

    /// An incomplete card number: it grows, and each digit arrives before the wait of the previous digit ends.
    #[test]
    fn text_that_may_start_a_secret_waits_no_longer_when_it_grows() {
        let mut response = response_blocks();
        let start = recount_world::moment();
        let (mut released, mut waits) = (0, Vec::new());
        let text = "42424242 ok";
        for (index, piece) in (0_u32..).zip(text.split_inclusive(|_| true)) {
            let now = start + std::time::Duration::from_millis(700) * index;
            while let Some(due) = response.release_due().filter(|due| *due <= now) {
                response.release(due);
                let more: usize =
                    text_events(&response.take_drafts()).iter().map(|(_, text, _)| text.len()).sum();
                assert!(more > 0);
                let first = start + std::time::Duration::from_millis(700) * released;
                waits.push(due.duration_since(first));
                released += u32::try_from(more).unwrap();
            }
            response.add_text(piece, now);
            released += text_events(&response.take_drafts())
                .iter()
                .map(|(_, text, _)| u32::try_from(text.len()).unwrap())
                .sum::<u32>();
        }
        assert!(waits.len() > 2 && waits.iter().all(|wait| *wait == limits::HOLD_WAIT), "{waits:?}");
        response.close();
        assert_eq!(response.complete_text(), text);
    }

    #[test]
    fn a_streamed_secret_is_masked_at_its_length() {
        let mut response = response_blocks();
        let now = recount_world::moment();
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let text = format!("the key is {secret} and no other");
        for piece in text.as_bytes().chunks(3) {
            response.add_text(std::str::from_utf8(piece).unwrap(), now);
        }
        response.close();
        let drafts = text_events(&response.take_drafts());
        let (complete, deltas): (Vec<_>, Vec<_>) =
            drafts.into_iter().partition(|(_, _, is_complete)| *is_complete);
        let deltas: String = deltas.into_iter().map(|(_, text, _)| text).collect();
        assert_eq!(deltas, complete[0].1);
        assert_eq!(deltas.len(), text.len());
        assert!(!deltas.contains(&secret) && deltas.ends_with(" and no other"), "{deltas}");
    }
}
