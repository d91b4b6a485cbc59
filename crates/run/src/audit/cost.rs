//! Audits usage and budget.

use std::collections::BTreeSet;

use recount_event::Payload;
use recount_event::family::cost::Tick;
use recount_event::family::run::Queued;
use recount_event::family::turn::Completed;

use super::Reading;
use crate::rejection::{Broken, broken};

/// Input tokens, output tokens, micro-dollars.
type Figures = [u64; 3];

#[derive(Default)]
pub(super) struct CostAudit {
    before: Figures,
    /// The usage of earlier runs and of completed turns.
    due: Figures,
    /// The usage that was reported for the open turn.
    open: Figures,
    /// The usage that was reported for the runs that this one started.
    children: Figures,
    ticked: Option<Figures>,
    warnings: BTreeSet<u64>,
    halted: bool,
}

impl CostAudit {
    pub(super) fn begin(&mut self, queued: &Queued) {
        let before = [queued.prior_input_tokens, queued.prior_output_tokens, queued.prior_cost_micros_usd];
        self.before = before.map(Option::unwrap_or_default);
        self.due = self.before;
        if queued.budget_warned == Some(true) {
            self.warnings.insert(80);
        }
    }

    pub(super) fn spend(&mut self, turn: &Completed) {
        let used = [turn.input_tokens, turn.output_tokens, turn.cost_micros_usd];
        self.add(used.map(Option::unwrap_or_default));
    }

    /// A turn failed: what was reported for it was used.
    pub(super) fn fail(&mut self) {
        self.add(self.open);
    }

    fn add(&mut self, used: Figures) {
        self.open = Figures::default();
        for (due, used) in self.due.iter_mut().zip(used) {
            *due = due.saturating_add(used);
        }
    }

    pub(super) fn is_halted(&self) -> bool {
        self.halted
    }

    fn tick(&mut self, tick: &Tick, own: bool, in_turn: bool) -> Result<(), Broken> {
        let now =
            [tick.cumulative_input_tokens, tick.cumulative_output_tokens, tick.cumulative_cost_micros_usd];
        let falls_below = |floor: &Figures| now.iter().zip(floor).any(|(now, floor)| now < floor);
        if self.ticked.as_ref().is_some_and(falls_below) {
            return broken!("cost.falls", "the totals decrease to {now:?}");
        }
        if falls_below(&self.before) {
            return broken!(
                "cost.prior",
                "the totals {now:?} do not include {:?}, the usage of earlier runs",
                self.before
            );
        }
        let open =
            [tick.open_turn_input_tokens, tick.open_turn_output_tokens, tick.open_turn_cost_micros_usd]
                .map(Option::unwrap_or_default);
        let children =
            [tick.child_runs_input_tokens, tick.child_runs_output_tokens, tick.child_runs_cost_micros_usd]
                .map(Option::unwrap_or_default);
        if own && children.iter().zip(self.children).any(|(now, before)| *now < before) {
            return broken!("cost.falls", "the totals of child runs decrease to {children:?}");
        }
        let mut due = self.due;
        for part in [open, children] {
            due.iter_mut().zip(part).for_each(|(due, part)| *due = due.saturating_add(part));
        }
        if own && now != due {
            return broken!("cost.sum", "the totals are {now:?}, expected {due:?}");
        }
        if own && !in_turn && open != Figures::default() {
            return broken!("cost.sum", "the totals include {open:?} for an open turn, but no turn is open");
        }
        self.children = children;
        if in_turn {
            self.open = open;
        }
        let budgets = [
            (tick.task_budget_micros_usd, tick.task_budget_remaining_micros_usd, now[2]),
            (tick.task_budget_tokens, tick.task_budget_remaining_tokens, now[0].saturating_add(now[1])),
        ];
        for (budget, remaining, used) in budgets {
            let right = budget.map(|budget| budget.saturating_sub(used));
            if let (Some(right), Some(remaining)) = (right, remaining)
                && right != remaining
            {
                return broken!("cost.remaining", "the remaining budget is {remaining}, expected {right}");
            }
        }
        self.ticked = Some(now);
        Ok(())
    }
}

impl Reading {
    /// Whether the event was of cost.
    pub(super) fn read_cost(&mut self, payload: &Payload) -> Result<bool, Broken> {
        match payload {
            Payload::CostTick(tick) => {
                let in_turn = self.turns.open_index().is_some();
                self.cost.tick(tick, self.course.is_own(), in_turn)?;
            }
            Payload::CostBudgetWarning(warning) => {
                if !self.cost.warnings.insert(warning.threshold_pct) {
                    return broken!("cost.warned", "a second warning at {} %", warning.threshold_pct);
                }
            }
            Payload::CostBudgetExceeded(_) => self.cost.halted = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
