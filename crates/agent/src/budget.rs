//! What a task may cost: what was used is told after each turn, a warning is given once, and nothing more is asked
//! or run when it is used up.
//!
//! Budgets are only ever raised, also while a run goes on, so the task is asked anew each time.

use recount_event::family::cost::{BudgetExceeded, BudgetWarning, Tick};
use recount_event::{Draft, Payload};

use crate::limits;
use crate::model::Usage;
use crate::worker::{Done, Worker};

/// What a task may use, where anything is said of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) micros_usd: Option<u64>,
    pub(crate) tokens: Option<u64>,
}

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) micros_usd: u64,
    pub(crate) tokens: u64,
}

impl Budget {
    /// Whether nothing is left.
    pub(crate) fn is_used_up(self, used: Used) -> bool {
        self.micros_usd.is_some_and(|most| used.micros_usd >= most)
            || self.tokens.is_some_and(|most| used.tokens >= most)
    }

    /// Whether it is time to warn.
    pub(crate) fn nears_its_end(self, used: Used) -> bool {
        let share = |most: u64, used: u64| {
            u128::from(used) * 100 >= u128::from(most) * u128::from(limits::BUDGET_WARNING_PCT)
        };
        self.micros_usd.is_some_and(|most| share(most, used.micros_usd))
            || self.tokens.is_some_and(|most| share(most, used.tokens))
    }
}

impl Worker {
    /// What the task may use now.
    pub(crate) async fn budget(&self) -> Done<Budget> {
        let queued =
            Budget { micros_usd: self.queued.task_budget_micros_usd, tokens: self.queued.task_budget_tokens };
        let Some(task) = self.desk.state().task_id() else { return Ok(queued) };
        let Some(row) = self.desk.engine().task(task).await? else { return Ok(queued) };
        Ok(Budget { micros_usd: row.budget_micros_usd, tokens: row.budget_tokens })
    }

    fn used(&self) -> Used {
        let totals = self.desk.state().totals();
        Used {
            micros_usd: totals.cost_micros_usd,
            tokens: totals.input_tokens.saturating_add(totals.output_tokens),
        }
    }

    /// Ends a run whose task had nothing left before it began.
    pub(crate) async fn halts(&mut self, opening: &mut Vec<Draft>) -> Done<bool> {
        let (budget, used) = (self.budget().await?, self.used());
        if !budget.is_used_up(used) {
            return Ok(false);
        }
        opening.push(exceeded(budget, used));
        self.report(std::mem::take(opening)).await?;
        Ok(true)
    }

    /// Tells what was used up to the end of a turn. Behind the last one nothing is left to be halted.
    pub(crate) async fn tick(
        &self,
        drafts: &mut Vec<Draft>,
        usage: Usage,
        cost: u64,
        last: bool,
    ) -> Done<()> {
        let totals = self.desk.state().totals();
        let input = totals.input_tokens.saturating_add(usage.input_tokens);
        let output = totals.output_tokens.saturating_add(usage.output_tokens);
        let micros_usd = totals.cost_micros_usd.saturating_add(cost);
        let used = Used { micros_usd, tokens: input.saturating_add(output) };
        let budget = self.budget().await?;
        let mut tick = Tick::new(input, output, micros_usd);
        tick.task_budget_micros_usd = budget.micros_usd;
        tick.task_budget_remaining_micros_usd = budget.micros_usd.map(|most| most.saturating_sub(micros_usd));
        tick.task_budget_tokens = budget.tokens;
        tick.task_budget_remaining_tokens = budget.tokens.map(|most| most.saturating_sub(used.tokens));
        drafts.push(Payload::CostTick(Box::new(tick)).into());
        let warned = self.desk.state().budget_warned(limits::BUDGET_WARNING_PCT);
        if budget.nears_its_end(used) && !warned {
            let most = budget.micros_usd.unwrap_or(0);
            let warning = BudgetWarning::new(limits::BUDGET_WARNING_PCT, micros_usd, most);
            drafts.push(Payload::CostBudgetWarning(Box::new(warning)).into());
        }
        if !last && budget.is_used_up(used) {
            drafts.push(exceeded(budget, used));
        }
        Ok(())
    }
}

fn exceeded(budget: Budget, used: Used) -> Draft {
    let most = budget.micros_usd.unwrap_or(0);
    let exceeded = BudgetExceeded::new(used.micros_usd, most, "halted".to_owned());
    Payload::CostBudgetExceeded(Box::new(exceeded)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_at_its_figure_and_not_before() {
        let budget = Budget { micros_usd: Some(1_000), tokens: None };
        let used = |micros_usd| Used { micros_usd, tokens: 9_999 };
        assert!(!budget.is_used_up(used(999)) && budget.is_used_up(used(1_000)));
        assert!(!budget.nears_its_end(used(799)) && budget.nears_its_end(used(800)));
        let tokens = Budget { micros_usd: None, tokens: Some(10) };
        assert!(tokens.is_used_up(Used { micros_usd: 0, tokens: 10 }));
        assert!(!Budget::default().is_used_up(Used { micros_usd: u64::MAX, tokens: u64::MAX }));
        assert!(Budget { micros_usd: Some(0), tokens: None }.is_used_up(Used::default()));
    }
}
