//! The model's answer while its turn is open: which blocks it added, so that they can be marked when the turn ends.
//!
//! It must never know why a turn ended. Look at [`History::abandon_attempt`].

use std::collections::BTreeSet;

use recount_event::{Event, ForeignId};

use super::words::CUT_OFF_NOTE;
use super::{AnswerBlock, Block, BlockStatus, History, Line};

/// Blocks of an answer that is not final yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Attempt {
    /// Places of the blocks: line, then block.
    blocks: Vec<(usize, usize)>,
    /// The calls among them.
    pub(super) calls: BTreeSet<ForeignId>,
}

impl History {
    /// Adds a block to the answer of the open turn.
    pub(super) fn add_block_in_turn(&mut self, event: &Event, block: Block) {
        self.add_block(event, block, BlockStatus::Open);
        if let Some(line) = self.gathers
            && let Some(Line::Assistant { blocks }) = self.lines.get(line).map(|placed| &placed.line)
        {
            self.run.attempt.blocks.push((line, blocks.len() - 1));
        }
    }

    /// Marks the blocks of the answer, which gets no more of them.
    pub(super) fn end_attempt(&mut self, status: BlockStatus) {
        for (line, block) in std::mem::take(&mut self.run.attempt).blocks {
            if let Some(Line::Assistant { blocks }) = self.lines.get_mut(line).map(|placed| &mut placed.line)
                && let Some(answer) = blocks.get_mut(block)
            {
                answer.status = status;
            }
        }
    }

    /// Another answer replaces this one. A note follows its text and its thoughts, for readers that join all
    /// text.
    pub(super) fn abandon_attempt(&mut self) {
        let places = self.run.attempt.blocks.clone();
        self.end_attempt(BlockStatus::Abandoned);
        let last = |is_kind: fn(&Block) -> bool| {
            places.iter().rev().find(|place| self.block_at(**place).is_some_and(is_kind)).copied()
        };
        let text = last(|block| matches!(block, Block::Text(_))).map(|place| (place, Block::Text as Kind));
        let thinking = last(|block| matches!(block, Block::Thinking(_)));
        let thinking = thinking.map(|place| (place, Block::Thinking as Kind));
        let mut notes: Vec<_> = text.into_iter().chain(thinking).collect();
        // The later one first, so that the place of the other stays what it is.
        notes.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        for ((line, block), kind) in notes {
            if let Some(Line::Assistant { blocks }) = self.lines.get_mut(line).map(|placed| &mut placed.line)
            {
                let note = kind(CUT_OFF_NOTE.to_owned());
                blocks.insert(block + 1, AnswerBlock { block: note, status: BlockStatus::Abandoned });
            }
        }
    }

    fn block_at(&self, (line, block): (usize, usize)) -> Option<&Block> {
        match &self.lines.get(line)?.line {
            Line::Assistant { blocks } => blocks.get(block).map(|answer| &answer.block),
            _ => None,
        }
    }
}

/// Makes a block of a text.
type Kind = fn(String) -> Block;
