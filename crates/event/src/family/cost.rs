//! `cost.*`: tokens and money used so far, and the state of the budget.

use crate::family::payload;

payload! {
    /// The totals so far, including earlier runs of the chain. They never decrease.
    Tick {
        cumulative_input_tokens: u64,
        cumulative_output_tokens: u64,
        cumulative_cost_micros_usd: u64,
    } {
        task_budget_micros_usd: u64,
        task_budget_remaining_micros_usd: u64,
        task_budget_tokens: u64,
        task_budget_remaining_tokens: u64,
        /// Input tokens that the provider has reported for the open turn; part of the totals.
        open_turn_input_tokens: u64,
        /// Output tokens that the provider has reported for the open turn; part of the totals.
        open_turn_output_tokens: u64,
        /// The cost of those tokens, in millionths of a US dollar; part of the totals.
        open_turn_cost_micros_usd: u64,
        /// Input tokens of the runs that this run started, directly or indirectly; part of the totals.
        child_runs_input_tokens: u64,
        /// Output tokens of those runs; part of the totals.
        child_runs_output_tokens: u64,
        /// The cost of those runs, in millionths of a US dollar; part of the totals.
        child_runs_cost_micros_usd: u64,
    }

    /// A threshold of the budget was reached. Written once for each threshold.
    BudgetWarning { threshold_pct: u64, cumulative_cost_micros_usd: u64, task_budget_micros_usd: u64 } {}

    /// The budget is exhausted; no further model or tool is called.
    BudgetExceeded { cumulative_cost_micros_usd: u64, task_budget_micros_usd: u64,
        /// The action; `halted`.
        action: String,
    } {
        /// The limit that was reached: `cost_micros_usd`, `tokens` or `turns`.
        exhausted: String,
    }
}
