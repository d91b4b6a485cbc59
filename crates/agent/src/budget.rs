//! What a task may cost: what was used is told after each turn, a warning is given once, and nothing more is asked
//! or run when it is used up. What a provider has reported counts, however its turn ends.
//!
//! Budgets are only ever raised, also while a run goes on, so the task is asked anew each time. Look at
//! [`Worker::tick`].

use std::collections::BTreeSet;

use recount_event::family::cost::{BudgetExceeded, BudgetWarning, Tick};
use recount_event::{Draft, Payload};
use recount_run::Totals;

use crate::agent::{Agent, Chosen};
use crate::limits;
use crate::model::{Usage, adjusted};
use crate::worker::{Done, Worker};

/// The code of a run that ends because its budget is used up.
pub(crate) const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// What a run may use, where anything is said of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Of the task, all its runs together.
    pub(crate) micros_usd: Option<u64>,
    /// The same.
    pub(crate) tokens: Option<u64>,
    /// Of this run alone.
    pub(crate) turns: Option<u64>,
}

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) micros_usd: u64,
    pub(crate) tokens: u64,
    pub(crate) turns: u64,
}

/// How a turn ends that is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// It made calls, so another turn follows.
    Calls,
    /// It is the run's last.
    Last,
    /// It failed and is tried again.
    Again,
    /// It failed for good.
    Failed,
}

impl Budget {
    /// The bound of which nothing is left, or with `beyond` the one that was crossed.
    fn reached(self, used: Used, beyond: bool) -> Option<&'static str> {
        let is =
            |most: Option<u64>, used: u64| most.is_some_and(|most| used > most || (!beyond && used == most));
        let bounds = [
            ("cost_micros_usd", is(self.micros_usd, used.micros_usd)),
            ("tokens", is(self.tokens, used.tokens)),
            ("turns", is(self.turns, used.turns)),
        ];
        bounds.into_iter().find(|(_, reached)| *reached).map(|(name, _)| name)
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

impl Agent {
    pub(crate) fn has_price(&self, chosen: &Chosen) -> bool {
        self.cost(&chosen.provider, &chosen.model, Usage::default()).is_some()
    }

    /// Refuses a budget in money that nobody could enforce: the model has no price, and nothing else bounds the run.
    pub(crate) fn affords(&self, chosen: &Chosen, budget: Budget) -> Result<(), String> {
        let is_bounded = budget.tokens.is_some() || budget.turns.is_some();
        if budget.micros_usd.is_none() || is_bounded || self.has_price(chosen) {
            return Ok(());
        }
        Err(format!(
            "the task has a cost budget, but the model {}/{} has no configured price; add a price to models.prices, or \
             set budget_tokens or budget_turns",
            chosen.provider, chosen.model
        ))
    }
}

impl Worker {
    /// What the run may use now.
    pub(crate) async fn budget(&self) -> Done<Budget> {
        let turns = self.order.budget_turns;
        let queued = Budget {
            micros_usd: self.queued.task_budget_micros_usd,
            tokens: self.queued.task_budget_tokens,
            turns,
        };
        let Some(task) = self.desk.state().task_id() else { return Ok(queued) };
        let Some(row) = self.desk.catalogue().task(task).await? else { return Ok(queued) };
        Ok(Budget { micros_usd: row.budget_micros_usd, tokens: row.budget_tokens, turns })
    }

    /// What is used when the totals are these, and so many turns are completed.
    pub(crate) fn used(totals: Totals, turns: u64) -> Used {
        let tokens = totals.input_tokens.saturating_add(totals.output_tokens);
        Used { micros_usd: totals.cost_micros_usd, tokens, turns }
    }

    /// Ends a run whose task had nothing left before it began.
    pub(crate) async fn halts(&mut self, opening: &mut Vec<Draft>) -> Done<bool> {
        let state = self.desk.state();
        let used = Worker::used(state.totals(), state.turns_completed());
        let budget = self.budget().await?;
        let Some(bound) = budget.reached(used, false) else { return Ok(false) };
        opening.push(exceeded(budget, used, bound));
        self.report(std::mem::take(opening)).await?;
        Ok(true)
    }

    /// The usage of an answer, or where none was reported and a budget counts on it, an estimate.
    pub(crate) async fn usage_of(
        &self,
        reported: Usage,
        bytes_written: usize,
        adjusted: &mut BTreeSet<&'static str>,
    ) -> Done<Usage> {
        if reported.is_reported() {
            return Ok(reported);
        }
        let budget = self.budget().await?;
        if budget.micros_usd.is_none() && budget.tokens.is_none() {
            return Ok(reported);
        }
        adjusted.insert(adjusted::USAGE_ESTIMATED);
        let output_tokens = bytes_written.div_ceil(limits::BYTES_PER_TOKEN) as u64;
        let input_tokens = self.conversation.tokens_estimate().max(1);
        Ok(Usage { input_tokens, output_tokens, ..reported }.bounded())
    }

    /// What the open turn has used, in tokens and money, and not less than was told of it before.
    pub(crate) fn spent(&self, chosen: &Chosen, usage: Usage) -> Totals {
        let cost = self.agent.cost(&chosen.provider, &chosen.model, usage).unwrap_or(0);
        let told = self.desk.state().open_turn_used();
        Totals {
            input_tokens: usage.input_tokens.max(told.input_tokens),
            output_tokens: usage.output_tokens.max(told.output_tokens),
            cost_micros_usd: cost.min(limits::TURN_COST_MICROS_MAX).max(told.cost_micros_usd),
        }
    }

    /// Tells what the open turn has used so far.
    pub(crate) async fn open_turn_tick(&self, chosen: &Chosen, usage: Usage) -> Done<Draft> {
        let budget = self.budget().await?;
        Ok(self.tick_of(budget, self.spent(chosen, usage), true))
    }

    fn tick_of(&self, budget: Budget, spent: Totals, is_open: bool) -> Draft {
        self.tick_with(budget, spent, Totals::default(), is_open)
    }

    /// The same with what a run has used that this one started and that has just ended.
    pub(crate) fn tick_with(&self, budget: Budget, spent: Totals, child: Totals, is_open: bool) -> Draft {
        let state = self.desk.state();
        let totals = state.totals_of_closed_turns().plus(spent).plus(child);
        let used = Worker::used(totals, 0);
        let mut tick = Tick::new(totals.input_tokens, totals.output_tokens, totals.cost_micros_usd);
        tick.task_budget_micros_usd = budget.micros_usd;
        tick.task_budget_remaining_micros_usd =
            budget.micros_usd.map(|most| most.saturating_sub(used.micros_usd));
        tick.task_budget_tokens = budget.tokens;
        tick.task_budget_remaining_tokens = budget.tokens.map(|most| most.saturating_sub(used.tokens));
        let children = state.child_runs_used().plus(child);
        if children != Totals::default() {
            tick.child_runs_input_tokens = Some(children.input_tokens);
            tick.child_runs_output_tokens = Some(children.output_tokens);
            tick.child_runs_cost_micros_usd = Some(children.cost_micros_usd);
        }
        if is_open {
            tick.open_turn_input_tokens = Some(spent.input_tokens);
            tick.open_turn_output_tokens = Some(spent.output_tokens);
            tick.open_turn_cost_micros_usd = Some(spent.cost_micros_usd);
        }
        Payload::CostTick(Box::new(tick)).into()
    }

    /// Tells what was used up to the end of a turn, and answers whether that is the end of the run: where something is
    /// still to be done, when nothing is left of the budget, and else only when more was used than it allows.
    pub(crate) async fn tick(&self, drafts: &mut Vec<Draft>, spent: Totals, end: TurnEnd) -> Done<bool> {
        let state = self.desk.state();
        let budget = self.budget().await?;
        let completes = matches!(end, TurnEnd::Calls | TurnEnd::Last);
        let turns = state.turns_completed() + u64::from(completes);
        let used = Worker::used(state.totals_of_closed_turns().plus(spent), turns);
        drafts.push(self.tick_of(budget, spent, !completes));
        let beyond = matches!(end, TurnEnd::Last | TurnEnd::Failed);
        if let Some(bound) = budget.reached(used, beyond) {
            drafts.push(exceeded(budget, used, bound));
            return Ok(true);
        }
        drafts.extend(self.warning(budget, used));
        Ok(false)
    }

    /// The warning that is due when so much is used, once.
    pub(crate) fn warning(&self, budget: Budget, used: Used) -> Option<Draft> {
        let was_given = self.desk.state().budget_warned(limits::BUDGET_WARNING_PCT);
        if was_given || !budget.nears_its_end(used) {
            return None;
        }
        let most = budget.micros_usd.unwrap_or(0);
        let warning = BudgetWarning::new(limits::BUDGET_WARNING_PCT, used.micros_usd, most);
        Some(Payload::CostBudgetWarning(Box::new(warning)).into())
    }
}

fn exceeded(budget: Budget, used: Used, bound: &str) -> Draft {
    let most = budget.micros_usd.unwrap_or(0);
    let mut exceeded = BudgetExceeded::new(used.micros_usd, most, "halted".to_owned());
    exceeded.exhausted = Some(bound.to_owned());
    Payload::CostBudgetExceeded(Box::new(exceeded)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_at_its_figure_and_crossed_beyond_it() {
        let budget = Budget { micros_usd: Some(1_000), ..Budget::default() };
        let used = |micros_usd| Used { micros_usd, tokens: 9_999, turns: 9 };
        assert_eq!(budget.reached(used(999), false), None);
        assert_eq!(budget.reached(used(1_000), false), Some("cost_micros_usd"));
        assert_eq!(budget.reached(used(1_000), true), None);
        assert_eq!(budget.reached(used(1_001), true), Some("cost_micros_usd"));
        assert!(!budget.nears_its_end(used(799)) && budget.nears_its_end(used(800)));
        let tokens = Budget { tokens: Some(10), ..Budget::default() };
        assert_eq!(tokens.reached(Used { tokens: 10, ..Used::default() }, false), Some("tokens"));
        let turns = Budget { turns: Some(3), ..Budget::default() };
        assert_eq!(turns.reached(Used { turns: 3, ..Used::default() }, false), Some("turns"));
        let all = Used { micros_usd: u64::MAX, tokens: u64::MAX, turns: u64::MAX };
        assert_eq!(Budget::default().reached(all, false), None);
        let none = Budget { micros_usd: Some(0), ..Budget::default() };
        assert_eq!(none.reached(Used::default(), false), Some("cost_micros_usd"));
    }
}
