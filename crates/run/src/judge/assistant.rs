//! Checks the output of the model: only in its turn, and nothing after a text is complete.

use recount_event::family::assistant::{FinalAnswer, TextComplete, TextDelta, ToolCallProposed};

use crate::rejection::{Broken, broken};
use crate::state::{BlockKind, OpenBlock, Space, State, Turn};

fn open_turn(state: &State, index: u64) -> Result<&Turn, Broken> {
    match &state.turns.open {
        Some(turn) if turn.index == index => Ok(turn),
        Some(turn) => {
            broken!("assistant.turn", "the event names turn {index}, but turn {} is open", turn.index)
        }
        None => broken!(
            "assistant.turn",
            "the event names turn {index}, which is not open: send turn.started first"
        ),
    }
}

pub(super) fn in_turn(state: &State, index: u64) -> Result<(), Broken> {
    open_turn(state, index).map(|_| ())
}

fn open_block(state: &State, turn: u64, index: u64, kind: BlockKind) -> Result<Option<&OpenBlock>, Broken> {
    let block = open_turn(state, turn)?.blocks.get(&index);
    if state.turns.closed_blocks.binary_search(&index).is_ok() {
        return broken!("text.closed", "block {index} of turn {turn} is complete: use a new block index");
    }
    match block {
        Some(block) if block.kind != kind => broken!(
            "text.kind",
            "block {index} of turn {turn} is {}, not {kind}: use a new block index",
            block.kind
        ),
        block => Ok(block),
    }
}

pub(super) fn delta(state: &State, delta: &TextDelta, kind: BlockKind) -> Result<(), Broken> {
    open_block(state, delta.turn_index, delta.block_index, kind).map(|_| ())
}

pub(super) fn complete(state: &State, complete: &TextComplete, kind: BlockKind) -> Result<(), Broken> {
    match open_block(state, complete.turn_index, complete.block_index, kind)? {
        Some(block) if !block.text.is(&complete.text) => broken!(
            "text.joined",
            "block {} of turn {} is completed with {} bytes that are not its joined deltas ({} bytes)",
            complete.block_index,
            complete.turn_index,
            complete.text.len(),
            block.text.bytes()
        ),
        _ => Ok(()),
    }
}

pub(super) fn proposed(state: &State, proposed: &ToolCallProposed) -> Result<(), Broken> {
    open_turn(state, proposed.turn_index)?;
    let id = &proposed.tool_call_id;
    if state.turns.final_answer {
        return broken!("answer.last", "call {id} is proposed after assistant.final_answer");
    }
    if state.calls.contains_key(id) || state.ledger.get(Space::Call, id).is_some() {
        return broken!("call.id", "call {id} already exists: use a new id");
    }
    Ok(())
}

pub(super) fn final_answer(state: &State, answer: &FinalAnswer) -> Result<(), Broken> {
    open_turn(state, answer.turn_index)?;
    if state.turns.final_answer {
        return broken!("answer.once", "a second assistant.final_answer is not allowed: leave it out");
    }
    Ok(())
}
