//! What is left of a session once its beginning was summed up: the lines behind the cut, and no half of a call.

use std::collections::BTreeMap;

use recount_event::family::context::Compacted;
use recount_event::{ForeignId, RunId};

use super::{Block, History, Line, Placed};

/// Where the model no longer sees what was said before, and what it sees instead.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cut {
    through_run: String,
    through_sequence: u64,
    summary: String,
}

impl Cut {
    pub(super) fn of(compacted: &Compacted) -> Self {
        Cut {
            through_run: compacted.through_run_id.clone(),
            through_sequence: compacted.through_sequence,
            summary: compacted.summary.clone(),
        }
    }
}

impl History {
    /// What the last compaction left: its summary, and the lines that it does not stand for. A line with a call that
    /// is not settled stays, and results stay or go with the line that holds their call. A cut in a run that was
    /// not told cuts nothing.
    pub fn compacted(&self) -> (Option<&str>, impl Iterator<Item = &Placed>) {
        let order: BTreeMap<RunId, usize> =
            self.runs.iter().enumerate().map(|(at, run)| (*run, at)).collect();
        let through = self.cut.as_ref().and_then(|cut| {
            let run: RunId = cut.through_run.parse().ok()?;
            Some(((*order.get(&run)?, cut.through_sequence), cut.summary.as_str()))
        });
        let Some((through, summary)) = through else {
            return (None, self.lines.iter().collect::<Vec<_>>().into_iter());
        };
        let mut gone: BTreeMap<(RunId, &ForeignId), bool> = BTreeMap::new();
        let mut left = Vec::new();
        for placed in &self.lines {
            let before = (order.get(&placed.run).copied().unwrap_or(0), placed.sequence) <= through;
            let goes = match &placed.line {
                Line::User { .. } => before,
                Line::Assistant { blocks } => {
                    let calls: Vec<&ForeignId> = blocks.iter().filter_map(Block::call).collect();
                    let is_open = |id: &&ForeignId| self.open.contains(&(placed.run, ForeignId::clone(id)));
                    let goes = before && !calls.iter().any(is_open);
                    gone.extend(calls.into_iter().map(|id| ((placed.run, id), goes)));
                    goes
                }
                Line::Tool { tool_call_id, .. } => {
                    gone.get(&(placed.run, tool_call_id)).copied().unwrap_or(before)
                }
            };
            if !goes {
                left.push(placed);
            }
        }
        (Some(summary), left.into_iter())
    }
}

impl Block {
    fn call(&self) -> Option<&ForeignId> {
        match self {
            Block::ToolUse { tool_call_id, .. } => Some(tool_call_id),
            Block::Text(_) | Block::Thinking(_) => None,
        }
    }
}
