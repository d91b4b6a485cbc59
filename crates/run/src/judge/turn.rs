//! Checks that turns start in order and end one at a time.

use recount_event::family::turn::{Completed, Failed, Started};

use crate::rejection::{Broken, broken};
use crate::state::{CallStage, State, Turn};

pub(super) fn started(state: &State, started: &Started) -> Result<(), Broken> {
    let index = started.turn_index;
    if state.cost.exceeded {
        return broken!(
            "cost.halted",
            "turn {index} is not allowed after the budget is exhausted: end the run"
        );
    }
    if let Some(open) = &state.turns.open {
        return broken!(
            "turn.one_open",
            "turn {index} is not allowed while turn {} is open: send turn.completed or turn.failed first",
            open.index
        );
    }
    match state.turns.highest {
        Some(highest) if index == highest && state.turns.may_retry => Ok(()),
        Some(highest) if index <= highest => {
            broken!("turn.order", "turn {index} is not allowed after turn {highest}: use a greater index")
        }
        _ => Ok(()),
    }
}

fn named<'a>(state: &'a State, index: u64, type_name: &str) -> Result<&'a Turn, Broken> {
    let turn = match &state.turns.open {
        Some(turn) if turn.index == index => turn,
        Some(turn) => {
            return broken!("turn.named", "{type_name} names turn {index} while turn {} is open", turn.index);
        }
        None => return broken!("turn.named", "{type_name} names turn {index}, which is not open"),
    };
    if let Some((block_index, block)) = turn.blocks.first_key_value() {
        return broken!(
            "turn.text_open",
            "{type_name} is not allowed while {} block {block_index} of turn {index} is open: complete it first",
            block.kind
        );
    }
    Ok(turn)
}

pub(super) fn completed(state: &State, completed: &Completed) -> Result<(), Broken> {
    let turn = named(state, completed.turn_index, "turn.completed")?;
    match completed.tool_calls {
        Some(given) if given != turn.proposed => broken!(
            "turn.tool_calls",
            "turn.completed has tool_calls {given}, but {} were proposed: correct the number",
            turn.proposed
        ),
        _ => Ok(()),
    }
}

pub(super) fn failed(state: &State, failed: &Failed) -> Result<(), Broken> {
    let turn = named(state, failed.turn_index, "turn.failed")?;
    let left = state.calls.iter().find(|(id, call)| {
        call.turn_index == Some(turn.index) && call.stage == CallStage::Proposed && !state.has_prompt(id)
    });
    match left {
        Some((id, call)) => broken!(
            "turn.calls_open",
            "turn.failed is not allowed while call {id} ({}) is only proposed: send tool.refused first",
            call.name()
        ),
        None => Ok(()),
    }
}
