//! The tokens and the cost of a turn or a session.

use serde::{Deserialize, Serialize};

/// Ours: the usage of a turn or a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The part of the input that the provider had cached.
    pub cached_input_tokens: u64,
    /// Missing when the model's price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros_usd: Option<u64>,
}

impl Usage {
    pub fn add(&mut self, more: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(more.cached_input_tokens);
        self.cost_micros_usd = match (self.cost_micros_usd, more.cost_micros_usd) {
            (Some(so_far), Some(more)) => Some(so_far.saturating_add(more)),
            (so_far, more) => so_far.or(more),
        };
    }
}
