//! Turns, and what the model says in them.

use std::collections::BTreeMap;

use recount_event::Payload;
use recount_event::family::assistant::{TextComplete, TextDelta};

use super::Reading;
use crate::rejection::{Broken, broken};

#[derive(Default)]
pub(super) struct Turns<'a> {
    attempts: Vec<Attempt>,
    completed: u64,
    blocks: BTreeMap<(u64, u64), Block<'a>>,
    final_answer: bool,
}

/// A turn that was begun, once for each time it was begun.
struct Attempt {
    index: u64,
    proposals: u64,
    fate: Fate,
}

#[derive(PartialEq, Eq)]
enum Fate {
    Open,
    Over,
    ToBeRetried,
}

enum Block<'a> {
    Open { thinking: bool, pieces: Vec<&'a str> },
    Closed,
}

impl<'a> Turns<'a> {
    fn open(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.fate == Fate::Open)
    }

    pub(super) fn open_index(&self) -> Option<u64> {
        self.open().map(|attempt| attempt.index)
    }

    /// Only the blocks of the open turn can be open, and they stand last but for what a producer skipped.
    pub(super) fn open_block(&self) -> Option<(u64, u64)> {
        let index = self.open_index()?;
        self.blocks
            .range((index, 0)..=(index, u64::MAX))
            .find(|(_, block)| matches!(block, Block::Open { .. }))
            .map(|(place, _)| *place)
    }

    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    fn is_spoken_in(&self, index: u64) -> Result<(), Broken> {
        if self.open_index() == Some(index) {
            return Ok(());
        }
        broken!("assistant.turn", "the model speaks in turn {index} while that is not open")
    }

    fn block(&self, place: (u64, u64), thinks: bool) -> Result<Option<&[&'a str]>, Broken> {
        self.is_spoken_in(place.0)?;
        match self.blocks.get(&place) {
            Some(Block::Closed) => {
                broken!("text.closed", "block {} of turn {} goes on after its end", place.1, place.0)
            }
            Some(Block::Open { thinking, .. }) if *thinking != thinks => {
                broken!("text.kind", "block {} of turn {} changes its kind", place.1, place.0)
            }
            Some(Block::Open { pieces, .. }) => Ok(Some(pieces)),
            None => Ok(None),
        }
    }

    fn delta(&mut self, delta: &'a TextDelta, thinks: bool) -> Result<(), Broken> {
        let place = (delta.turn_index, delta.block_index);
        self.block(place, thinks)?;
        let fresh = Block::Open { thinking: thinks, pieces: Vec::new() };
        if let Block::Open { pieces, .. } = self.blocks.entry(place).or_insert(fresh) {
            pieces.push(&delta.delta);
        }
        Ok(())
    }

    fn complete(&mut self, whole: &TextComplete, thinks: bool) -> Result<(), Broken> {
        let place = (whole.turn_index, whole.block_index);
        if let Some(pieces) = self.block(place, thinks)?
            && pieces.concat() != whole.text
        {
            return broken!(
                "text.joined",
                "the text of block {} of turn {} is not its deltas",
                place.1,
                place.0
            );
        }
        self.blocks.insert(place, Block::Closed);
        Ok(())
    }
}

impl<'a> Reading<'a> {
    /// Whether the event was one of the model's turns.
    pub(super) fn read_turn(&mut self, payload: &'a Payload) -> Result<bool, Broken> {
        match payload {
            Payload::TurnStarted(started) => self.turn_starts(started.turn_index)?,
            Payload::TurnCompleted(completed) => {
                self.turn_ends(completed.turn_index, "turn.completed")?;
                let proposals = self.turns.open().map_or(0, |attempt| attempt.proposals);
                if completed.tool_calls.is_some_and(|told| told != proposals) {
                    return broken!("turn.tool_calls", "turn {} had {proposals} calls", completed.turn_index);
                }
                self.cost.spend(completed);
                self.turns.completed += 1;
                self.close_turn(Fate::Over);
            }
            Payload::TurnFailed(failed) => {
                self.turn_ends(failed.turn_index, "turn.failed")?;
                let left = self.calls.open().find(|id| {
                    self.calls.is_only_proposed_in(id, failed.turn_index) && !self.people.waits_on(id)
                });
                if let Some(id) = left {
                    return broken!(
                        "turn.calls_open",
                        "turn {} fails and leaves {id} behind",
                        failed.turn_index
                    );
                }
                self.close_turn(if failed.will_retry { Fate::ToBeRetried } else { Fate::Over });
            }
            Payload::AssistantTextDelta(delta) => self.turns.delta(delta, false)?,
            Payload::AssistantThinkingDelta(delta) => self.turns.delta(delta, true)?,
            Payload::AssistantTextComplete(whole) => self.turns.complete(whole, false)?,
            Payload::AssistantThinkingComplete(whole) => self.turns.complete(whole, true)?,
            Payload::AssistantToolCallInputDelta(delta) => self.turns.is_spoken_in(delta.turn_index)?,
            Payload::AssistantImageBlock(image) => self.turns.is_spoken_in(image.turn_index)?,
            Payload::AssistantToolCallProposed(proposed) => {
                self.turns.is_spoken_in(proposed.turn_index)?;
                if self.turns.final_answer {
                    return broken!(
                        "answer.last",
                        "{} is proposed after the final answer",
                        proposed.tool_call_id
                    );
                }
                self.calls.propose(proposed)?;
                if let Some(attempt) = self.turns.attempts.last_mut() {
                    attempt.proposals += 1;
                }
            }
            Payload::AssistantFinalAnswer(answer) => {
                self.turns.is_spoken_in(answer.turn_index)?;
                if std::mem::replace(&mut self.turns.final_answer, true) {
                    return broken!("answer.once", "a second final answer");
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn turn_starts(&mut self, index: u64) -> Result<(), Broken> {
        if self.cost.is_halted() {
            return broken!("cost.halted", "turn {index} begins after the budget was exceeded");
        }
        if let Some(open) = self.turns.open_index() {
            return broken!("turn.one_open", "turn {index} begins in the middle of turn {open}");
        }
        let highest = self.turns.attempts.iter().map(|attempt| attempt.index).next_back();
        let again = self
            .turns
            .attempts
            .last()
            .is_some_and(|last| last.index == index && last.fate == Fate::ToBeRetried);
        if !again && highest.is_some_and(|highest| index <= highest) {
            return broken!("turn.order", "turn {index} begins out of order");
        }
        self.turns.attempts.push(Attempt { index, proposals: 0, fate: Fate::Open });
        Ok(())
    }

    fn turn_ends(&self, index: u64, name: &str) -> Result<(), Broken> {
        if self.turns.open_index() != Some(index) {
            return broken!("turn.named", "{name} names turn {index}, which is not open");
        }
        match self.turns.open_block() {
            Some((_, block)) => broken!("turn.text_open", "{name} stands while block {block} is open"),
            None => Ok(()),
        }
    }

    fn close_turn(&mut self, fate: Fate) {
        if let Some(attempt) = self.turns.attempts.last_mut() {
            attempt.fate = fate;
        }
    }
}
