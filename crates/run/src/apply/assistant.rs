//! Folds `assistant.*`: the output of the model.

use std::sync::Arc;

use recount_event::family::assistant::{TextComplete, TextDelta, ToolCallProposed};

use crate::state::{BlockKind, Call, CallStage, OpenBlock, SharedText, State, Turn};

fn turn(state: &mut State) -> &mut Turn {
    state.turns.open.as_mut().expect("the model speaks only in an open turn")
}

pub(super) fn delta(state: &mut State, delta: &TextDelta, kind: BlockKind) {
    let blocks = &mut turn(state).blocks;
    let block =
        blocks.entry(delta.block_index).or_insert_with(|| OpenBlock { kind, text: SharedText::default() });
    block.text.push(&delta.delta);
}

pub(super) fn complete(state: &mut State, complete: &TextComplete) {
    turn(state).blocks.remove(&complete.block_index);
    let closed = &mut state.turns.closed_blocks;
    if let Err(place) = closed.binary_search(&complete.block_index) {
        closed.insert(place, complete.block_index);
    }
}

pub(super) fn proposed(state: &mut State, proposed: &ToolCallProposed) {
    turn(state).proposed += 1;
    state.calls_seen += 1;
    let call = Call {
        tool_name: Some(proposed.tool_name.as_str().into()),
        input: Some(Arc::new(proposed.input.clone())),
        turn_index: Some(proposed.turn_index),
        stage: CallStage::Proposed,
        since: state.next_sequence,
        verdict: None,
        answer: None,
        is_masked: proposed.redacted_paths.as_ref().is_some_and(|paths| !paths.is_empty()),
    };
    state.calls.insert(proposed.tool_call_id.clone(), call);
}
