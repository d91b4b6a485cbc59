//! The model's context of a session: the lines after the last compaction, without thoughts, without answers that
//! do not count, and with calls only together with their results.

use std::collections::{BTreeMap, BTreeSet};

use recount_event::family::context::{Compacted, Trimmed};
use recount_event::{ForeignId, RunId};

use super::{AnswerBlock, Block, BlockStatus, History, Line, Output, Placed};
use crate::view::trimmed;

/// The point before which the model sees only a summary, and that summary.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cut {
    through_run: String,
    through_sequence: u64,
    summary: String,
    /// Whether the last message of a person before it stays.
    request_kept: bool,
}

impl Cut {
    pub(super) fn of(compacted: &Compacted) -> Self {
        Cut {
            through_run: compacted.through_run_id.clone(),
            through_sequence: compacted.through_sequence,
            summary: compacted.summary.clone(),
            request_kept: compacted.request_kept == Some(true),
        }
    }
}

impl History {
    /// Results that the model sees in part from here on.
    pub(super) fn trim(&mut self, trimmed: &Trimmed) {
        for result in &trimmed.results {
            self.trims.entry(result.tool_call_id.clone()).or_default().push(result.kept_bytes);
        }
    }

    /// The result of the last compaction: its summary, and the lines that it does not replace. A line with an unsettled
    /// call stays, and results stay or go with the line that holds their call. A cut in a run that is
    /// not part of this history cuts nothing. Blocks that are not in the model's context are left out, cut or not.
    pub fn compacted(&self) -> (Option<&str>, Vec<Placed>) {
        let (summary, lines) = self.after_cut();
        let mut omitted = BTreeSet::new();
        let seen = lines.into_iter().filter_map(|placed| self.as_seen(placed, &mut omitted)).collect();
        (summary, seen)
    }

    fn after_cut(&self) -> (Option<&str>, Vec<&Placed>) {
        let order: BTreeMap<RunId, usize> =
            self.runs.iter().enumerate().map(|(at, run)| (*run, at)).collect();
        let through = self.cut.as_ref().and_then(|cut| {
            let run: RunId = cut.through_run.parse().ok()?;
            Some(((*order.get(&run)?, cut.through_sequence), cut))
        });
        let Some((through, cut)) = through else {
            return (None, self.lines.iter().collect());
        };
        let is_before =
            |placed: &Placed| (order.get(&placed.run).copied().unwrap_or(0), placed.sequence) <= through;
        let is_request = |placed: &&Placed| matches!(placed.line, Line::User { .. }) && is_before(placed);
        let request = self.lines.iter().rfind(is_request).filter(|_| cut.request_kept);
        let mut replaced: BTreeMap<(RunId, &ForeignId), bool> = BTreeMap::new();
        let mut remaining = Vec::new();
        for placed in &self.lines {
            let before = is_before(placed);
            let is_replaced = match &placed.line {
                Line::User { .. } => before && request.is_none_or(|request| !std::ptr::eq(request, placed)),
                Line::Assistant { blocks } => {
                    let calls: Vec<&ForeignId> =
                        blocks.iter().filter_map(|answer| answer.block.call()).collect();
                    let is_open = |id: &&ForeignId| self.open.contains(&(placed.run, ForeignId::clone(id)));
                    let is_replaced = before && !calls.iter().any(is_open);
                    replaced.extend(calls.into_iter().map(|id| ((placed.run, id), is_replaced)));
                    is_replaced
                }
                Line::Tool { tool_call_id, .. } => {
                    replaced.get(&(placed.run, tool_call_id)).copied().unwrap_or(before)
                }
            };
            if !is_replaced {
                remaining.push(placed);
            }
        }
        (Some(&cut.summary), remaining)
    }

    /// The line as the model sees it, if it sees any of it. `omitted` collects the calls that are left out, so
    /// that their results are left out too. An unsettled call stays: the application may have to answer it.
    fn as_seen(&self, placed: &Placed, omitted: &mut BTreeSet<(RunId, ForeignId)>) -> Option<Placed> {
        let line = match &placed.line {
            Line::User { .. } => placed.line.clone(),
            Line::Tool { tool_call_id, .. } => match omitted.remove(&(placed.run, tool_call_id.clone())) {
                true => return None,
                false => self.as_trimmed(&placed.line),
            },
            Line::Assistant { blocks } => {
                let is_open = |answer: &AnswerBlock| {
                    answer.block.call().is_some_and(|id| self.open.contains(&(placed.run, id.clone())))
                };
                let (seen, left_out): (Vec<AnswerBlock>, Vec<AnswerBlock>) =
                    blocks.iter().cloned().partition(|answer| answer.is_in_context() || is_open(answer));
                let calls = left_out.iter().filter_map(|answer| answer.block.call().cloned());
                omitted.extend(calls.map(|id| (placed.run, id)));
                if seen.is_empty() {
                    return None;
                }
                Line::Assistant { blocks: seen }
            }
        };
        Some(Placed { line, ..*placed })
    }

    /// The line of a result as the model sees it, where it sees only a part.
    fn as_trimmed(&self, line: &Line) -> Line {
        if let Line::Tool { tool_call_id, output } = line
            && let Some(kept) = self.trims.get(tool_call_id)
        {
            let whole = match output {
                Output::Text(text) => text.clone(),
                Output::Json(json) => json.texts(),
            };
            let text = kept.iter().fold(whole, |text, kept| trimmed(&text, *kept));
            return Line::Tool { tool_call_id: tool_call_id.clone(), output: Output::Text(text) };
        }
        line.clone()
    }
}

impl AnswerBlock {
    fn is_in_context(&self) -> bool {
        let counts = matches!(self.status, BlockStatus::Open | BlockStatus::Final);
        counts && !matches!(self.block, Block::Thinking(_))
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
