//! Checks usage: totals grow, and budgets add up.

use recount_event::family::cost::{BudgetWarning, Tick};

use crate::apply::{child_runs, open_turn};
use crate::rejection::{Broken, broken};
use crate::state::{State, Totals};

pub(super) fn tick(state: &State, tick: &Tick) -> Result<(), Broken> {
    let totals = Totals {
        input_tokens: tick.cumulative_input_tokens,
        output_tokens: tick.cumulative_output_tokens,
        cost_micros_usd: tick.cumulative_cost_micros_usd,
    };
    let cost = &state.cost;
    if let Some(last) = cost.ticked.filter(|last| totals.is_below(*last)) {
        return broken!("cost.falls", "cost.tick decreases from {last} to {totals}: send cumulative totals");
    }
    if totals.is_below(cost.prior) {
        return broken!(
            "cost.prior",
            "cost.tick has {totals}, but earlier runs used {}: include them",
            cost.prior
        );
    }
    let open = open_turn(tick);
    let children = child_runs(tick);
    if state.is_own() && children.is_below(cost.children) {
        return broken!(
            "cost.falls",
            "the totals of child runs decrease from {} to {children}: send cumulative totals",
            cost.children
        );
    }
    let right = cost.prior.plus(cost.turns).plus(children).plus(open);
    if state.is_own() && totals != right {
        return broken!("cost.sum", "cost.tick has {totals}, but the turns add up to {right}");
    }
    if state.is_own() && state.turns.open.is_none() && open != Totals::default() {
        return broken!(
            "cost.sum",
            "cost.tick has {open} for an open turn, but no turn is open: leave them out"
        );
    }
    let money = (tick.task_budget_micros_usd, tick.task_budget_remaining_micros_usd, totals.cost_micros_usd);
    let tokens = totals.input_tokens.saturating_add(totals.output_tokens);
    let tokens = (tick.task_budget_tokens, tick.task_budget_remaining_tokens, tokens);
    for (what, (budget, remaining, used)) in [("micro-dollars", money), ("tokens", tokens)] {
        if let (Some(budget), Some(remaining)) = (budget, remaining)
            && remaining != budget.saturating_sub(used)
        {
            return broken!(
                "cost.remaining",
                "cost.tick reports {remaining} {what} remaining of {budget} after {used}: send {}",
                budget.saturating_sub(used)
            );
        }
    }
    Ok(())
}

pub(super) fn warning(state: &State, warning: &BudgetWarning) -> Result<(), Broken> {
    let threshold = warning.threshold_pct;
    if state.cost.warned.contains(&threshold) {
        return broken!("cost.warned", "the warning at {threshold} % was sent before: leave it out");
    }
    Ok(())
}
