//! Audits turns, and the output of the model in them.

use std::collections::BTreeMap;

use recount_event::Payload;
use recount_event::family::assistant::{TextComplete, TextDelta};

use super::Reading;
use crate::rejection::{Broken, broken};

#[derive(Default)]
pub(super) struct TurnAudit {
    /// The last that was started; all before it have lower indexes, or the same.
    last: Option<AuditedAttempt>,
    completed: u64,
    /// Of the last index, in all its attempts: the model cannot come back to an earlier one.
    blocks: BTreeMap<u64, AuditedBlock>,
    final_answer: bool,
}

/// A turn, once for each time it was started.
struct AuditedAttempt {
    index: u64,
    proposals: u64,
    status: AttemptStatus,
}

#[derive(PartialEq, Eq)]
enum AttemptStatus {
    Open,
    Over,
    ToBeRetried,
}

enum AuditedBlock {
    Open { thinking: bool, text: String },
    Closed,
}

impl TurnAudit {
    fn open(&self) -> Option<&AuditedAttempt> {
        self.last.as_ref().filter(|attempt| attempt.status == AttemptStatus::Open)
    }

    pub(super) fn open_index(&self) -> Option<u64> {
        self.open().map(|attempt| attempt.index)
    }

    /// The open turn and the first of its blocks that is open; no other turn has open ones.
    pub(super) fn open_block(&self) -> Option<(u64, u64)> {
        let turn = self.open_index()?;
        let (block, _) = self.blocks.iter().find(|(_, block)| matches!(block, AuditedBlock::Open { .. }))?;
        Some((turn, *block))
    }

    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    fn is_spoken_in(&self, index: u64) -> Result<(), Broken> {
        if self.open_index() == Some(index) {
            return Ok(());
        }
        broken!("assistant.turn", "an assistant event names turn {index}, which is not open")
    }

    fn block(&self, place: (u64, u64), thinks: bool) -> Result<Option<&str>, Broken> {
        self.is_spoken_in(place.0)?;
        match self.blocks.get(&place.1) {
            Some(AuditedBlock::Closed) => {
                broken!(
                    "text.closed",
                    "block {} of turn {} continues after it was completed",
                    place.1,
                    place.0
                )
            }
            Some(AuditedBlock::Open { thinking, .. }) if *thinking != thinks => {
                broken!(
                    "text.kind",
                    "block {} of turn {} changes between text and thinking",
                    place.1,
                    place.0
                )
            }
            Some(AuditedBlock::Open { text, .. }) => Ok(Some(text)),
            None => Ok(None),
        }
    }

    fn delta(&mut self, delta: &TextDelta, thinks: bool) -> Result<(), Broken> {
        let place = (delta.turn_index, delta.block_index);
        self.block(place, thinks)?;
        let fresh = AuditedBlock::Open { thinking: thinks, text: String::new() };
        if let AuditedBlock::Open { text, .. } = self.blocks.entry(place.1).or_insert(fresh) {
            text.push_str(&delta.delta);
        }
        Ok(())
    }

    fn complete(&mut self, whole: &TextComplete, thinks: bool) -> Result<(), Broken> {
        let place = (whole.turn_index, whole.block_index);
        if let Some(text) = self.block(place, thinks)?
            && text != whole.text
        {
            return broken!(
                "text.joined",
                "the text of block {} of turn {} is not its joined deltas",
                place.1,
                place.0
            );
        }
        self.blocks.insert(place.1, AuditedBlock::Closed);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.blocks.len()
    }
}

impl Reading {
    /// Whether the event was one of the model's turns.
    pub(super) fn read_turn(&mut self, payload: &Payload) -> Result<bool, Broken> {
        match payload {
            Payload::TurnStarted(started) => self.turn_starts(started.turn_index)?,
            Payload::TurnCompleted(completed) => {
                self.turn_ends(completed.turn_index, "turn.completed")?;
                let proposals = self.turns.open().map_or(0, |attempt| attempt.proposals);
                if completed.tool_calls.is_some_and(|given| given != proposals) {
                    return broken!(
                        "turn.tool_calls",
                        "turn.completed of turn {} has the wrong tool_calls, expected {proposals}",
                        completed.turn_index
                    );
                }
                self.cost.spend(completed);
                self.turns.completed += 1;
                self.close_turn(AttemptStatus::Over);
            }
            Payload::TurnFailed(failed) => {
                self.turn_ends(failed.turn_index, "turn.failed")?;
                let left = self.calls.open().find(|id| {
                    self.calls.is_only_proposed_in(id, failed.turn_index) && !self.people.waits_on(id)
                });
                if let Some(id) = left {
                    return broken!(
                        "turn.calls_open",
                        "turn {} fails while its proposed call {id} is open",
                        failed.turn_index
                    );
                }
                self.cost.fail();
                self.close_turn(if failed.will_retry {
                    AttemptStatus::ToBeRetried
                } else {
                    AttemptStatus::Over
                });
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
                        "call {} is proposed after the final answer",
                        proposed.tool_call_id
                    );
                }
                self.calls.propose(proposed)?;
                if let Some(attempt) = &mut self.turns.last {
                    attempt.proposals += 1;
                }
            }
            Payload::AssistantFinalAnswer(answer) => {
                self.turns.is_spoken_in(answer.turn_index)?;
                if std::mem::replace(&mut self.turns.final_answer, true) {
                    return broken!("answer.once", "assistant.final_answer occurs a second time");
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn turn_starts(&mut self, index: u64) -> Result<(), Broken> {
        if self.cost.is_halted() {
            return broken!("cost.halted", "turn {index} starts after the budget was exceeded");
        }
        if let Some(open) = self.turns.open_index() {
            return broken!("turn.one_open", "turn {index} starts while turn {open} is open");
        }
        let last = self.turns.last.as_ref();
        let again = last.is_some_and(|last| last.index == index && last.status == AttemptStatus::ToBeRetried);
        if !again {
            if last.is_some_and(|last| index <= last.index) {
                return broken!("turn.order", "turn {index} starts out of order");
            }
            self.turns.blocks.clear();
        }
        self.turns.last = Some(AuditedAttempt { index, proposals: 0, status: AttemptStatus::Open });
        Ok(())
    }

    fn turn_ends(&self, index: u64, name: &str) -> Result<(), Broken> {
        if self.turns.open_index() != Some(index) {
            return broken!("turn.named", "{name} names turn {index}, which is not open");
        }
        match self.turns.open_block() {
            Some((_, block)) => broken!("turn.text_open", "{name} occurs while block {block} is open"),
            None => Ok(()),
        }
    }

    fn close_turn(&mut self, status: AttemptStatus) {
        if let Some(attempt) = &mut self.turns.last {
            attempt.status = status;
        }
    }
}
