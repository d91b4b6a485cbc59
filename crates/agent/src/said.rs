//! What a model says, and thinks where that is told, on its way into the log: gathers pieces of text into deltas, masks
//! what may be a secret as it comes, and closes each block with its whole text.
//!
//! Look at [`Saying`]. The first piece of a block can be reported at once; what comes while a report is under way
//! gathers, up to a bound of bytes and of time for each delta. Pure but for the moment it is given.

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

/// A turn's texts, and thoughts.
pub(crate) struct Saying {
    turn_index: u64,
    redactor: Arc<Redactor>,
    next_block: u64,
    block: Option<OpenBlock>,
    ready: Vec<Draft>,
    ready_bytes: usize,
    /// The texts of complete blocks, as they were told.
    texts: Vec<String>,
    /// Whether the turn wanted to begin more blocks than it may.
    pub(crate) has_too_many_blocks: bool,
    /// Whether what the model thinks is told.
    pub(crate) tells_thinking: bool,
    /// Looks for the key of this run alone, which the configured redactor does not know.
    pub(crate) key: Option<Arc<Redactor>>,
    /// The inputs of calls while they are written, where that is logged.
    pub(crate) inputs: Option<CallInputs>,
}

struct OpenBlock {
    index: u64,
    kind: BlockKind,
    masking: Masking,
    told: String,
    /// Bytes of all that was taken in, as it is and as JSON has it.
    bytes: usize,
    quoted: usize,
    /// Not among what is ready yet.
    gathered: String,
    since: Option<Instant>,
    held: HeldSince,
}

/// For whom a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
}

/// Masks a text that comes in pieces: first the run's own key, then all that is known or has the shape of a secret.
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
            has_too_many_blocks: false,
            tells_thinking: false,
            key: None,
            inputs: None,
        }
    }

    /// A piece of the input of a call, which is left out unless a setting asks for it. A key of the run alone could be
    /// in it, so such a run logs none.
    pub(crate) fn call_input(&mut self, call: usize, text: &str) {
        if let Some(inputs) = self.inputs.as_mut().filter(|_| self.key.is_none()) {
            inputs.piece(call, text);
        }
    }

    /// The id under which pieces of a call were logged.
    pub(crate) fn call_id(&self, call: usize) -> Option<ForeignId> {
        self.inputs.as_ref()?.id(call)
    }

    pub(crate) fn text(&mut self, piece: &str, now: Instant) {
        self.piece(BlockKind::Text, piece, now);
    }

    /// What the model thinks, which is left out unless a setting asks for it.
    pub(crate) fn thinking(&mut self, piece: &str, now: Instant) {
        if self.tells_thinking {
            self.piece(BlockKind::Thinking, piece, now);
        }
    }

    /// A call without what may not be told of it, nor carried out.
    pub(crate) fn masked(&self, mut wanted: WrittenCall) -> WrittenCall {
        if let Some(key) = &self.key {
            for text in [&mut wanted.provider_call_id, &mut wanted.name, &mut wanted.input] {
                *text = key.text(text).into_owned();
            }
        }
        wanted
    }

    /// Takes a piece of any size in: a large one in parts, none of which is too large for a block.
    fn piece(&mut self, kind: BlockKind, piece: &str, now: Instant) {
        let mut rest = piece;
        while rest.len() > limits::TEXT_PIECE_BYTES_MAX {
            let mut end = limits::TEXT_PIECE_BYTES_MAX;
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            self.part(kind, &rest[..end], now);
            rest = &rest[end..];
        }
        self.part(kind, rest, now);
    }

    fn part(&mut self, kind: BlockKind, piece: &str, now: Instant) {
        let is_other = |block: &OpenBlock| block.kind != kind || !block.has_room_for(piece);
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
                told: String::new(),
                bytes: 0,
                quoted: 0,
                gathered: String::new(),
                since: None,
                held: HeldSince::default(),
            });
            self.next_block += 1;
        }
        let Some(block) = &mut self.block else { return };
        block.bytes += piece.len();
        block.quoted += quoted_bytes(piece);
        let certain = block.masking.push(piece);
        block.held.came(piece.len(), block.masking.held(), now);
        block.gather(&certain, now);
        if block.is_ripe(now) {
            let delta = block.delta(self.turn_index);
            self.put(delta);
        }
    }

    /// When [`Saying::release`] is due, if no piece comes before.
    pub(crate) fn release_due(&self) -> Option<Instant> {
        self.block.as_ref()?.held.due()
    }

    /// Lets out what is held back for a next piece that does not come, as far as it identifies no secret.
    pub(crate) fn release(&mut self, now: Instant) {
        let Some(block) = &mut self.block else { return };
        let certain = block.masking.release();
        block.held.released(block.masking.held());
        block.gather(&certain, now);
    }

    /// Ends the block that is open.
    pub(crate) fn close(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        let rest = block.masking.finish();
        block.told.push_str(&rest);
        block.gathered.push_str(&rest);
        let delta = block.delta(self.turn_index);
        self.put(delta);
        let complete = Box::new(TextComplete::new(self.turn_index, block.index, block.told.clone()));
        self.put(Some(match block.kind {
            BlockKind::Text => Payload::AssistantTextComplete(complete),
            BlockKind::Thinking => Payload::AssistantThinkingComplete(complete),
        }));
        if block.kind == BlockKind::Text {
            self.texts.push(block.told);
        }
    }

    fn put(&mut self, payload: Option<Payload>) {
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

    /// Whether there is something to report.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty()
            || self.block.as_ref().is_some_and(|block| !block.gathered.is_empty())
            || self.inputs.as_ref().is_some_and(CallInputs::has_more)
    }

    /// Whether nothing more should be taken until something was reported.
    pub(crate) fn is_full(&self) -> bool {
        self.ready_bytes >= limits::SAYING_BYTES_MAX
    }

    /// The same with the inputs of calls, whose ids are made by `mint`.
    pub(crate) fn take_with_inputs(&mut self, mint: impl Fn() -> ForeignId) -> Vec<Draft> {
        let mut drafts = self.take();
        drafts.extend(self.inputs.iter_mut().flat_map(|inputs| inputs.take(&mint)));
        drafts
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

impl OpenBlock {
    /// Masking keeps the length of a text, so what was taken in says how long the block will be.
    fn has_room_for(&self, piece: &str) -> bool {
        self.bytes + piece.len() <= limits::BLOCK_BYTES_MAX
            && self.quoted + quoted_bytes(piece) <= limits::BLOCK_QUOTED_BYTES_MAX
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

/// Bytes of a text within a JSON string.
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
    fn a_quoted_text_is_as_long_as_it_is_counted() {
        let all: String = (0..300).filter_map(char::from_u32).collect();
        assert_eq!(quoted_bytes(&all) + 2, serde_json::to_string(&all).unwrap().len());
    }

    #[test]
    fn a_piece_of_any_size_fits_into_blocks() {
        for text in ["x".repeat(1 << 20), "\u{1}é".repeat(200_000)] {
            let mut saying = saying();
            saying.text(&text, recount_world::moment());
            saying.close();
            let blocks: Vec<String> =
                said(&saying.take()).into_iter().filter(|part| part.2).map(|part| part.1).collect();
            assert_eq!(blocks.concat(), text);
            assert!(blocks.iter().all(|block| block.len() <= limits::BLOCK_BYTES_MAX));
            assert!(blocks.iter().all(|block| quoted_bytes(block) <= limits::BLOCK_QUOTED_BYTES_MAX));
            assert!(!saying.has_too_many_blocks);
        }
    }

    #[test]
    fn a_turn_has_so_many_blocks_and_no_more() {
        let mut saying = Saying::new(0, limits::TURN_BLOCKS_MAX - 1, Arc::new(Redactor::shapes()));
        let now = recount_world::moment();
        saying.text("the last", now);
        assert!(!saying.has_too_many_blocks);
        saying.close();
        saying.text("one more", now);
        assert!(saying.has_too_many_blocks);
        assert_eq!(saying.whole(), "the last");
    }

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
    fn thoughts_are_told_in_blocks_of_their_own_where_they_are_wanted() {
        let now = recount_world::moment();
        for wanted in [true, false] {
            let mut saying = saying();
            saying.tells_thinking = wanted;
            saying.thinking("hm ", now);
            saying.thinking("so", now);
            saying.text("Yes.", now);
            saying.close();
            let told: Vec<_> =
                saying.take().iter().map(|draft| draft.payload.type_name().to_owned()).collect();
            let text = ["assistant.text_delta", "assistant.text_complete"];
            let thought = ["assistant.thinking_delta", "assistant.thinking_complete"];
            assert_eq!(told, if wanted { [thought, text].concat() } else { text.to_vec() });
            assert_eq!((saying.next_block, saying.whole().as_str()), (1 + u64::from(wanted), "Yes."));
        }
    }

    #[test]
    fn the_key_of_a_run_is_masked_in_all_that_its_model_says() {
        let now = recount_world::moment();
        let mut saying = saying();
        saying.key = crate::model::Secret::new("plain words").searched();
        saying.text("I was asked with plain", now);
        saying.text(" words, so.", now);
        saying.close();
        assert_eq!(saying.whole(), "I was asked with ***********, so.");
        let call = |text: &str| WrittenCall {
            provider_call_id: text.into(),
            name: text.into(),
            input: format!("{{\"at\":\"{text}\"}}"),
        };
        let masked = saying.masked(call("plain words"));
        assert_eq!(
            (masked.name.as_str(), masked.input.as_str()),
            ("***********", "{\"at\":\"***********\"}")
        );
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

    /// A card number that does not come: it grows, and each digit comes before the last one has waited long enough.
    #[test]
    fn what_may_begin_a_secret_waits_no_longer_because_it_grows() {
        let mut saying = saying();
        let start = recount_world::moment();
        let (mut told, mut waits) = (0, Vec::new());
        let text = "42424242 ok";
        for (index, piece) in (0_u32..).zip(text.split_inclusive(|_| true)) {
            let now = start + std::time::Duration::from_millis(700) * index;
            while let Some(due) = saying.release_due().filter(|due| *due <= now) {
                saying.release(due);
                let more: usize = said(&saying.take()).iter().map(|(_, text, _)| text.len()).sum();
                assert!(more > 0);
                let first = start + std::time::Duration::from_millis(700) * told;
                waits.push(due.duration_since(first));
                told += u32::try_from(more).unwrap();
            }
            saying.text(piece, now);
            told += said(&saying.take())
                .iter()
                .map(|(_, text, _)| u32::try_from(text.len()).unwrap())
                .sum::<u32>();
        }
        assert!(waits.len() > 2 && waits.iter().all(|wait| *wait == limits::HOLD_WAIT), "{waits:?}");
        saying.close();
        assert_eq!(saying.whole(), text);
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
