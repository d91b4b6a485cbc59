//! Budgets of tasks and runs: reports usage after each turn, warns once, and stops the run when the budget is
//! exhausted.
//!
//! Usage that a provider has reported counts, however the turn ends. A budget can be raised while a run is active, so
//! each check reads the task again. It must not know providers. Start with [`Worker::tick`].

use std::collections::BTreeSet;

use recount_event::family::cost::{BudgetExceeded, BudgetWarning, Tick};
use recount_event::{Draft, Payload};
use recount_run::Totals;

use crate::agent::{Agent, ChosenModel};
use crate::limits;
use crate::model::{Usage, adjusted};
use crate::worker::{WorkResult, Worker};

/// The code of a run that ends because its budget is exhausted.
pub(crate) const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// The limits of what a run may use; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// For all runs of the task together.
    pub(crate) micros_usd: Option<u64>,
    /// For all runs of the task together.
    pub(crate) tokens: Option<u64>,
    /// For this run only.
    pub(crate) turns: Option<u64>,
}

/// The usage that counts against a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BudgetUsage {
    pub(crate) micros_usd: u64,
    pub(crate) tokens: u64,
    pub(crate) turns: u64,
}

/// How a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// With calls, so another turn follows.
    Calls,
    /// As the last turn of the run.
    Last,
    /// With a failure that is retried.
    Retried,
    /// With a failure that is not retried.
    Failed,
}

impl Budget {
    /// The name of the limit that is reached, or with `beyond` the one that is exceeded.
    fn reached(self, used: BudgetUsage, beyond: bool) -> Option<&'static str> {
        let is_reached =
            |most: Option<u64>, used: u64| most.is_some_and(|most| used > most || (!beyond && used == most));
        let limits = [
            ("cost_micros_usd", is_reached(self.micros_usd, used.micros_usd)),
            ("tokens", is_reached(self.tokens, used.tokens)),
            ("turns", is_reached(self.turns, used.turns)),
        ];
        limits.into_iter().find(|(_, reached)| *reached).map(|(name, _)| name)
    }

    /// Whether usage has reached the share at which the run warns.
    pub(crate) fn is_near_limit(self, used: BudgetUsage) -> bool {
        let share = |most: u64, used: u64| {
            u128::from(used) * 100 >= u128::from(most) * u128::from(limits::BUDGET_WARNING_PCT)
        };
        self.micros_usd.is_some_and(|most| share(most, used.micros_usd))
            || self.tokens.is_some_and(|most| share(most, used.tokens))
    }
}

impl Agent {
    pub(crate) fn has_price(&self, chosen: &ChosenModel) -> bool {
        self.cost(&chosen.provider, &chosen.model, Usage::default()).is_some()
    }

    /// Rejects a cost budget that cannot be enforced: the model has no price, and there is no other limit.
    pub(crate) fn check_budget(&self, chosen: &ChosenModel, budget: Budget) -> Result<(), String> {
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
    /// The current budget of the run.
    pub(crate) async fn budget(&self) -> WorkResult<Budget> {
        let turns = self.config.budget_turns;
        let queued = Budget {
            micros_usd: self.queued.task_budget_micros_usd,
            tokens: self.queued.task_budget_tokens,
            turns,
        };
        let Some(task) = self.worker_session.state().task_id() else { return Ok(queued) };
        let Some(row) = self.worker_session.catalogue().task(task).await? else { return Ok(queued) };
        Ok(Budget { micros_usd: row.budget_micros_usd, tokens: row.budget_tokens, turns })
    }

    /// The usage of these totals and `turns` completed turns.
    pub(crate) fn budget_usage(totals: Totals, turns: u64) -> BudgetUsage {
        let tokens = totals.input_tokens.saturating_add(totals.output_tokens);
        BudgetUsage { micros_usd: totals.cost_micros_usd, tokens, turns }
    }

    /// Ends the run if its budget is exhausted before the next turn.
    pub(crate) async fn end_if_exhausted(&mut self, opening: &mut Vec<Draft>) -> WorkResult<bool> {
        let state = self.worker_session.state();
        let used = Worker::budget_usage(state.totals(), state.turns_completed());
        let budget = self.budget().await?;
        let Some(limit) = budget.reached(used, false) else { return Ok(false) };
        opening.push(exceeded(budget, used, limit));
        self.report(std::mem::take(opening)).await?;
        Ok(true)
    }

    /// The reported usage of a response. If none is reported and a budget needs it, an estimate.
    pub(crate) async fn usage_of(
        &self,
        reported: Usage,
        bytes_written: usize,
        adjusted: &mut BTreeSet<&'static str>,
    ) -> WorkResult<Usage> {
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

    /// Tokens and cost of the open turn, at least what the log already has.
    pub(crate) fn spent(&self, chosen: &ChosenModel, usage: Usage) -> Totals {
        let cost = self.agent.cost(&chosen.provider, &chosen.model, usage).unwrap_or(0);
        let logged = self.worker_session.state().open_turn_used();
        Totals {
            input_tokens: usage.input_tokens.max(logged.input_tokens),
            output_tokens: usage.output_tokens.max(logged.output_tokens),
            cost_micros_usd: cost.min(limits::TURN_COST_MICROS_MAX).max(logged.cost_micros_usd),
        }
    }

    /// The event with the usage of the open turn so far.
    pub(crate) async fn open_turn_tick(&self, chosen: &ChosenModel, usage: Usage) -> WorkResult<Draft> {
        let budget = self.budget().await?;
        Ok(self.tick_of(budget, self.spent(chosen, usage), true))
    }

    fn tick_of(&self, budget: Budget, spent: Totals, is_open: bool) -> Draft {
        self.tick_with(budget, spent, Totals::default(), is_open)
    }

    /// The event with the usage, including that of a child run that has just ended.
    pub(crate) fn tick_with(&self, budget: Budget, spent: Totals, child: Totals, is_open: bool) -> Draft {
        let state = self.worker_session.state();
        let totals = state.totals_of_closed_turns().plus(spent).plus(child);
        let used = Worker::budget_usage(totals, 0);
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

    /// Adds the usage at the end of a turn, and returns whether the budget ends the run. If work is left, the run ends
    /// when a limit is reached; otherwise only when it is exceeded.
    pub(crate) async fn tick(
        &self,
        drafts: &mut Vec<Draft>,
        spent: Totals,
        end: TurnEnd,
    ) -> WorkResult<bool> {
        let state = self.worker_session.state();
        let budget = self.budget().await?;
        let is_completed = matches!(end, TurnEnd::Calls | TurnEnd::Last);
        let turns = state.turns_completed() + u64::from(is_completed);
        let used = Worker::budget_usage(state.totals_of_closed_turns().plus(spent), turns);
        drafts.push(self.tick_of(budget, spent, !is_completed));
        let beyond = matches!(end, TurnEnd::Last | TurnEnd::Failed);
        if let Some(limit) = budget.reached(used, beyond) {
            drafts.push(exceeded(budget, used, limit));
            return Ok(true);
        }
        drafts.extend(self.warning(budget, used));
        Ok(false)
    }

    /// The warning, if it is due and was not sent before.
    pub(crate) fn warning(&self, budget: Budget, used: BudgetUsage) -> Option<Draft> {
        let was_sent = self.worker_session.state().budget_warned(limits::BUDGET_WARNING_PCT);
        if was_sent || !budget.is_near_limit(used) {
            return None;
        }
        let most = budget.micros_usd.unwrap_or(0);
        let warning = BudgetWarning::new(limits::BUDGET_WARNING_PCT, used.micros_usd, most);
        Some(Payload::CostBudgetWarning(Box::new(warning)).into())
    }
}

fn exceeded(budget: Budget, used: BudgetUsage, limit: &str) -> Draft {
    let most = budget.micros_usd.unwrap_or(0);
    let mut exceeded = BudgetExceeded::new(used.micros_usd, most, "halted".to_owned());
    exceeded.exhausted = Some(limit.to_owned());
    Payload::CostBudgetExceeded(Box::new(exceeded)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_at_its_value_and_exceeded_above_it() {
        let budget = Budget { micros_usd: Some(1_000), ..Budget::default() };
        let used = |micros_usd| BudgetUsage { micros_usd, tokens: 9_999, turns: 9 };
        assert_eq!(budget.reached(used(999), false), None);
        assert_eq!(budget.reached(used(1_000), false), Some("cost_micros_usd"));
        assert_eq!(budget.reached(used(1_000), true), None);
        assert_eq!(budget.reached(used(1_001), true), Some("cost_micros_usd"));
        assert!(!budget.is_near_limit(used(799)) && budget.is_near_limit(used(800)));
        let tokens = Budget { tokens: Some(10), ..Budget::default() };
        assert_eq!(
            tokens.reached(BudgetUsage { tokens: 10, ..BudgetUsage::default() }, false),
            Some("tokens")
        );
        let turns = Budget { turns: Some(3), ..Budget::default() };
        assert_eq!(turns.reached(BudgetUsage { turns: 3, ..BudgetUsage::default() }, false), Some("turns"));
        let all = BudgetUsage { micros_usd: u64::MAX, tokens: u64::MAX, turns: u64::MAX };
        assert_eq!(Budget::default().reached(all, false), None);
        let none = Budget { micros_usd: Some(0), ..Budget::default() };
        assert_eq!(none.reached(BudgetUsage::default(), false), Some("cost_micros_usd"));
    }
}
