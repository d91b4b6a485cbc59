//! Turns and their texts.

use std::collections::BTreeMap;

use super::Recording;
use super::memory::Memory;
use crate::draft::Fields;
use crate::ids::{key, map_id};
use crate::kept::{cut, short};
use crate::limits;

/// The facts of a turn at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnStart {
    pub model: Option<String>,
    pub provider: Option<String>,
}

/// The facts of a turn at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnEnd {
    /// `end_turn`, `error`, `max_tokens`, `refusal` or `tool_use`; anything else is `end_turn`.
    pub stop_reason: &'static str,
    pub usage: Option<Usage>,
}

/// The usage of a turn, as far as the source has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub cached_input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cost_micros_usd: Option<u64>,
    pub duration_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    open: Option<OpenTurn>,
    pub(super) next_index: u64,
    used: Used,
    /// Texts that are over, by the agent's name for them; the number of their pieces.
    over: Memory<u64>,
}

/// The usage of all turns so far, as far as the source has it.
#[derive(Debug, Default)]
struct Used {
    input_tokens: u64,
    output_tokens: u64,
    cost_micros_usd: u64,
    /// Turns without a cost.
    unpriced: u64,
}

#[derive(Debug)]
pub(super) struct OpenTurn {
    index: u64,
    next_block: u64,
    proposed: u64,
    /// By the agent's name for the text, mapped.
    blocks: BTreeMap<String, Block>,
}

#[derive(Debug)]
struct Block {
    index: u64,
    text: String,
    /// The number of the piece that comes next.
    next_piece: u64,
    held: BTreeMap<u64, String>,
    held_bytes: usize,
    /// The number of its last piece, if that is known.
    last: Option<u64>,
}

impl Recording {
    /// A model is called. A turn that is open is completed first.
    pub fn turn_begin(&mut self, start: TurnStart) {
        self.turn_end(TurnEnd { stop_reason: "end_turn", usage: None });
        if self.ended || self.turns.next_index >= limits::TURNS_MAX {
            return;
        }
        let index = self.turns.next_index;
        self.turns.next_index += 1;
        self.turns.open = Some(OpenTurn { index, next_block: 0, proposed: 0, blocks: BTreeMap::new() });
        let fields = Fields::new()
            .put("turn_index", index)
            .maybe("model", start.model.map(|name| short(&name, limits::NAME_BYTES_MAX)))
            .maybe("provider", start.provider.map(|name| short(&name, limits::NAME_BYTES_MAX)));
        self.put("turn.started", fields);
    }

    /// The open turn is over; its texts are completed first.
    pub fn turn_end(&mut self, end: TurnEnd) {
        self.close_texts(false);
        let Some(turn) = self.turns.open.take() else { return };
        let stop_reason = match end.stop_reason {
            known @ ("error" | "max_tokens" | "refusal" | "tool_use") => known,
            _ => "end_turn",
        };
        let usage = end.usage.unwrap_or_default();
        self.use_up(usage.input_tokens, usage.output_tokens, usage.cost_micros_usd);
        let fields = Fields::new()
            .put("turn_index", turn.index)
            .put("stop_reason", stop_reason)
            .put("tool_calls", turn.proposed)
            .maybe("input_tokens", counted(usage.input_tokens))
            .maybe("cached_input_tokens", counted(usage.cached_input_tokens))
            .maybe("output_tokens", counted(usage.output_tokens))
            .maybe("cost_micros_usd", counted(usage.cost_micros_usd))
            .maybe("duration_ms", counted(usage.duration_ms));
        self.put("turn.completed", fields);
    }

    /// The open turn did not come to its end, as the run was cancelled. What it used counts in the totals of the run.
    pub(super) fn turn_cancelled(&mut self, reason: &str, usage: Option<Usage>) {
        self.close_texts(true);
        let Some(turn) = self.turns.open.take() else { return };
        if let Some(usage) = usage {
            self.use_up(usage.input_tokens, usage.output_tokens, usage.cost_micros_usd);
        }
        let fields = Fields::new()
            .put("turn_index", turn.index)
            .put("code", "cancelled")
            .put("message", short(reason, limits::SENTENCE_BYTES_MAX))
            .put("will_retry", false);
        self.put("turn.failed", fields);
    }

    /// A cost that the source reports for the run and not for its turns. `is_whole`: it has that of all turns so far.
    pub fn add_cost(&mut self, micros_usd: u64, is_whole: bool) {
        let used = &mut self.turns.used;
        used.cost_micros_usd = sum(used.cost_micros_usd, Some(micros_usd));
        if is_whole {
            used.unpriced = 0;
        }
        self.cost_tick();
    }

    /// A request to a model that the source reports apart from turns.
    pub fn add_usage(&mut self, usage: &Usage) {
        self.use_up(usage.input_tokens, usage.output_tokens, usage.cost_micros_usd);
        self.cost_tick();
    }

    /// Reports the sums of the turns that are over, which are the totals of the run: `cost.tick`. Where a turn has no cost,
    /// `unpriced_turns` says how many, as the cost is then not all of it.
    pub fn cost_tick(&mut self) {
        let used = &self.turns.used;
        let fields = Fields::new()
            .put("cumulative_input_tokens", used.input_tokens)
            .put("cumulative_output_tokens", used.output_tokens)
            .put("cumulative_cost_micros_usd", used.cost_micros_usd)
            .maybe("unpriced_turns", Some(used.unpriced).filter(|count| *count > 0));
        self.put("cost.tick", fields);
    }

    fn use_up(&mut self, input: Option<u64>, output: Option<u64>, cost: Option<u64>) {
        let used = &mut self.turns.used;
        used.input_tokens = sum(used.input_tokens, input);
        used.output_tokens = sum(used.output_tokens, output);
        used.cost_micros_usd = sum(used.cost_micros_usd, cost);
        used.unpriced += u64::from(cost.is_none());
    }

    /// Whether the run has any turn.
    pub fn has_turns(&self) -> bool {
        self.turns.next_index > 0
    }

    /// Whether a turn is open.
    pub fn in_turn(&self) -> bool {
        self.turns.open.is_some()
    }

    /// The open turn, started if there is none; `None` when there may be no more.
    pub(super) fn ensure_turn(&mut self) -> Option<u64> {
        if self.turns.open.is_none() {
            self.turn_begin(TurnStart::default());
        }
        self.turns.open.as_ref().map(|turn| turn.index)
    }

    pub(super) fn has_proposed(&mut self) {
        if let Some(turn) = &mut self.turns.open {
            turn.proposed += 1;
        }
    }

    /// A piece of a text, by the agent's name for the text. `piece` counts the pieces of a text from 0: with it, a repeated
    /// one adds nothing and an early one waits for its turn. Without it the piece is the next one.
    pub fn text_delta(&mut self, text: &str, piece: Option<u64>, delta: &str) {
        let name = map_id(text);
        let before = self.turns.over.get(key(&name));
        let open = self.turns.open.as_ref().and_then(|turn| turn.blocks.get(&name));
        let next = open.map(|block| block.next_piece).or(before).unwrap_or(0);
        match piece {
            Some(piece) if piece < next => return,
            Some(piece) if piece > next => return self.hold(&name, piece, delta),
            _ => {}
        }
        self.piece(&name, next, delta);
        self.follow(&name);
    }

    /// A text is complete. A second completion adds nothing. With `whole`, a text of which no piece was seen is this one.
    pub fn text_end(&mut self, text: &str, whole: Option<&str>) {
        let name = map_id(text);
        let is_open = self.turns.open.as_ref().is_some_and(|turn| turn.blocks.contains_key(&name));
        if let (false, Some(whole), None) = (is_open, whole, self.turns.over.get(key(&name))) {
            self.piece(&name, 0, whole);
        }
        self.close_text(&name, false);
    }

    /// A piece is the last one of its text: the text is complete when all before it have come.
    pub fn text_last(&mut self, text: &str, piece: u64) {
        let name = map_id(text);
        let Some(block) = self.block(&name) else { return };
        block.last = Some(piece);
        self.follow(&name);
    }

    /// A whole text of which there were no pieces.
    pub fn text(&mut self, text: &str, whole: &str) {
        self.text_end(text, Some(whole));
    }

    /// Appends a piece whose turn it is.
    fn piece(&mut self, name: &str, number: u64, delta: &str) {
        if self.open_block(name, number).is_none() {
            return self.outside(delta);
        }
        let mut rest = delta;
        while !rest.is_empty() {
            let room = self.block(name).map_or(0, |block| limits::TEXT_BLOCK_BYTES_MAX - block.text.len());
            let (start, is_more) = cut(rest, room);
            rest = &rest[start.len()..];
            if !start.is_empty() {
                self.append(name, number, start);
            }
            if is_more {
                // Waiting pieces continue to wait in the next block.
                let waits = self.block(name).map(|block| {
                    (
                        std::mem::take(&mut block.held),
                        std::mem::take(&mut block.held_bytes),
                        block.last.take(),
                    )
                });
                self.close_text(name, false);
                if self.open_block(name, number).is_none() {
                    return self.outside(rest);
                }
                if let (Some(block), Some(waits)) = (self.block(name), waits) {
                    (block.held, block.held_bytes, block.last) = waits;
                }
            }
        }
        if let Some(block) = self.block(name) {
            block.next_piece = number + 1;
        }
    }

    fn append(&mut self, name: &str, number: u64, delta: &str) {
        let Some(turn) = &mut self.turns.open else { return };
        let Some(block) = turn.blocks.get_mut(name) else { return };
        block.text.push_str(delta);
        self.spoken = true;
        let fields = Fields::new()
            .put("turn_index", turn.index)
            .put("block_index", block.index)
            .put("delta", delta)
            .put("source_ref", source_ref(name, number));
        self.put("assistant.text_delta", fields);
    }

    fn block(&mut self, name: &str) -> Option<&mut Block> {
        self.turns.open.as_mut()?.blocks.get_mut(name)
    }

    /// The block of a text, opened if it is not.
    fn open_block(&mut self, name: &str, next_piece: u64) -> Option<()> {
        if self.ended {
            return None;
        }
        if self.block(name).is_some() {
            return Some(());
        }
        if self.turns.open.as_ref().is_some_and(|turn| turn.next_block >= limits::BLOCKS_PER_TURN_MAX) {
            self.turn_end(TurnEnd::default());
        }
        self.ensure_turn()?;
        let turn = self.turns.open.as_ref()?;
        if turn.blocks.len() >= limits::BLOCKS_OPEN_MAX {
            let oldest =
                turn.blocks.iter().min_by_key(|(_, block)| block.index).map(|(name, _)| name.clone());
            self.close_text(&oldest?, false);
        }
        let turn = self.turns.open.as_mut()?;
        let index = turn.next_block;
        turn.next_block += 1;
        let block = Block {
            index,
            text: String::new(),
            next_piece,
            held: BTreeMap::new(),
            held_bytes: 0,
            last: None,
        };
        turn.blocks.insert(name.to_owned(), block);
        Some(())
    }

    /// Keeps a piece that came before its turn.
    fn hold(&mut self, name: &str, piece: u64, delta: &str) {
        let next = self.turns.over.get(key(name)).unwrap_or(0);
        if self.open_block(name, next).is_none() {
            return self.outside(delta);
        }
        let Some(block) = self.block(name) else { return };
        if block.held.contains_key(&piece) {
            return;
        }
        block.held_bytes += delta.len();
        block.held.insert(piece, delta.to_owned());
        if block.held.len() > limits::PIECES_HELD_MAX || block.held_bytes > limits::HELD_BYTES_MAX {
            self.give_up_waiting(name);
            self.follow(name);
        }
    }

    /// Appends held pieces whose turn has come.
    fn follow(&mut self, name: &str) {
        while let Some(block) = self.block(name) {
            let next = block.next_piece;
            if block.last.is_some_and(|last| last < next) {
                let is_over = std::mem::take(&mut block.held).is_empty();
                block.held_bytes = 0;
                if !is_over {
                    self.gap("piece_lost", &format!("pieces after the last piece of the text {name}"));
                }
                return self.close_text(name, false);
            }
            let Some(delta) = block.held.remove(&next) else { return };
            block.held_bytes -= delta.len();
            self.piece(name, next, &delta);
        }
    }

    /// The piece that is waited for is lost.
    fn give_up_waiting(&mut self, name: &str) {
        let Some(block) = self.block(name) else { return };
        let Some(first) = block.held.keys().next().copied() else { return };
        let missing = (block.next_piece, first);
        block.next_piece = first;
        let what = format!("pieces {} to {} of the text {name}", missing.0, missing.1 - 1);
        self.gap("piece_lost", &what);
    }

    fn close_text(&mut self, name: &str, aborted: bool) {
        while self.block(name).is_some_and(|block| !block.held.is_empty()) {
            self.give_up_waiting(name);
            self.follow(name);
        }
        let Some(turn) = &mut self.turns.open else { return };
        let Some(block) = turn.blocks.remove(name) else { return };
        self.turns.over.insert(key(name), block.next_piece);
        let mut fields = Fields::new()
            .put("turn_index", turn.index)
            .put("block_index", block.index)
            .put("text", block.text)
            .put("source_ref", source_ref(name, block.next_piece));
        if aborted {
            fields = fields.put("aborted", true);
        }
        self.put("assistant.text_complete", fields);
    }

    pub(super) fn close_texts(&mut self, aborted: bool) {
        while let Some(name) = self.turns.open.as_ref().and_then(|turn| turn.blocks.keys().next().cloned()) {
            self.close_text(&name, aborted);
        }
    }

    /// Text that fits no turn any more.
    fn outside(&mut self, text: &str) {
        self.raw_text("text", text, None);
    }

    // Rebuilding from the events of the run.

    pub(super) fn saw_turn_started(&mut self, index: u64) {
        self.turns.next_index = self.turns.next_index.max(index.saturating_add(1));
        self.turns.open = Some(OpenTurn { index, next_block: 0, proposed: 0, blocks: BTreeMap::new() });
    }

    pub(super) fn saw_usage(&mut self, data: &serde_json::Value) {
        let number = |name: &str| data.get(name).and_then(serde_json::Value::as_u64);
        self.use_up(number("input_tokens"), number("output_tokens"), number("cost_micros_usd"));
    }

    /// The totals of a tick count, as they can have more than the turns.
    pub(super) fn saw_tick(&mut self, data: &serde_json::Value) {
        let number = |name: &str| data.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        self.turns.used = Used {
            input_tokens: number("cumulative_input_tokens"),
            output_tokens: number("cumulative_output_tokens"),
            cost_micros_usd: number("cumulative_cost_micros_usd"),
            unpriced: number("unpriced_turns"),
        };
    }

    pub(super) fn saw_turn_over(&mut self) {
        self.turns.open = None;
    }

    pub(super) fn saw_delta(&mut self, index: u64, delta: &str, reference: Option<&str>) {
        let Some(turn) = &mut self.turns.open else { return };
        let (name, number) = reference.and_then(read_ref).unwrap_or((format!("block.{index}"), 0));
        turn.next_block = turn.next_block.max(index.saturating_add(1));
        let block = turn.blocks.entry(name).or_insert_with(|| Block {
            index,
            text: String::new(),
            next_piece: 0,
            held: BTreeMap::new(),
            held_bytes: 0,
            last: None,
        });
        block.text.push_str(delta);
        block.next_piece = number + 1;
    }

    pub(super) fn saw_text_over(&mut self, index: u64, reference: Option<&str>) {
        if let Some((name, number)) = reference.and_then(read_ref) {
            self.turns.over.insert(key(&name), number);
        }
        if let Some(turn) = &mut self.turns.open {
            turn.next_block = turn.next_block.max(index.saturating_add(1));
            turn.blocks.retain(|_, block| block.index != index);
        }
    }
}

/// The source's name of a piece: of its text, and its number.
fn source_ref(name: &str, number: u64) -> String {
    format!("{name}#{number}")
}

fn read_ref(text: &str) -> Option<(String, u64)> {
    let (name, number) = text.rsplit_once('#')?;
    Some((name.to_owned(), number.parse().ok()?))
}

/// A sum that every reader counts alike; one that would not fit stays as it was.
fn sum(all: u64, more: Option<u64>) -> u64 {
    counted(all.checked_add(counted(more).unwrap_or(0))).unwrap_or(all)
}

/// A number that every reader counts alike.
pub(super) fn counted(number: Option<u64>) -> Option<u64> {
    number.filter(|number| *number < recount_event::limits::INTEGER_MAX)
}
