//! `cost.*`: what the run has used so far, and where the budget stands.

use crate::family::payload;

payload! {
    /// Totals so far, earlier runs of the chain included. They never fall.
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
        /// What those tokens cost, in millionths of a US dollar; part of the totals.
        open_turn_cost_micros_usd: u64,
    }

    /// A share of the budget is used up. Once a threshold.
    BudgetWarning { threshold_pct: u64, cumulative_cost_micros_usd: u64, task_budget_micros_usd: u64 } {}

    /// The budget is used up; no further model or tool is called.
    BudgetExceeded { cumulative_cost_micros_usd: u64, task_budget_micros_usd: u64,
        /// What was done about it; `halted`.
        action: String,
    } {
        /// Which bound was reached: `cost_micros_usd`, `tokens` or `turns`.
        exhausted: String,
    }
}
