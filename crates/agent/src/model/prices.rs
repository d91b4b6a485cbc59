//! Costs of responses, from the price table of the configuration.
//!
//! It must never guess: a model without a price has no known cost. Start with [`Prices::cost_micros_usd`].

use serde::Deserialize;

use super::Usage;
use super::pattern::{Pattern, most_specific};

/// The price of some models, in micro-USD for a million tokens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// `provider/model`, or a prefix followed by `*`.
    pub model: Pattern,
    pub input_micros_usd: u64,
    pub output_micros_usd: u64,
    /// The price of cached input; the default is that of other input.
    pub cached_input_micros_usd: Option<u64>,
}

/// All prices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices(Vec<Price>);

impl Prices {
    pub fn new(prices: Vec<Price>) -> Self {
        Prices(prices)
    }

    /// The price of `provider/model`. The most specific pattern counts.
    pub fn of(&self, model: &str) -> Option<&Price> {
        most_specific(self.0.iter().map(|price| (&price.model, price)), model)
    }

    /// The cost of a response of `provider/model`, rounded up; `None` without a price.
    pub fn cost_micros_usd(&self, model: &str, usage: Usage) -> Option<u64> {
        self.of(model).map(|price| price.cost_micros_usd(usage))
    }
}

impl Price {
    /// The cost, rounded up and limited to `u64::MAX`.
    pub fn cost_micros_usd(&self, usage: Usage) -> u64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let cached_price = self.cached_input_micros_usd.unwrap_or(self.input_micros_usd);
        let parts = [
            (usage.input_tokens - cached, self.input_micros_usd),
            (cached, cached_price),
            (usage.output_tokens, self.output_micros_usd),
        ];
        let sum = parts
            .iter()
            .map(|(tokens, price)| u128::from(*tokens) * u128::from(*price))
            .fold(0, u128::saturating_add);
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> Prices {
        #[derive(Deserialize)]
        struct Table {
            prices: Vec<Price>,
        }
        let table: Table = toml::from_str(
            r#"
            [[prices]]
            model = "a/*"
            input_micros_usd = 1
            output_micros_usd = 1
            [[prices]]
            model = "a/big*"
            input_micros_usd = 3_000_000
            output_micros_usd = 15_000_000
            cached_input_micros_usd = 300_000
            [[prices]]
            model = "a/big-free"
            input_micros_usd = 0
            output_micros_usd = 0
            "#,
        )
        .unwrap();
        Prices::new(table.prices)
    }

    #[test]
    fn the_most_specific_price_counts_and_fractions_are_rounded_up() {
        let usage = |input, output, cached| Usage {
            input_tokens: input,
            output_tokens: output,
            cached_input_tokens: cached,
        };
        for (model, usage, cost) in [
            ("a/big-2", usage(1_000_000, 0, 0), Some(3_000_000)),
            ("a/big-2", usage(1_000, 100, 900), Some(300 + 270 + 1_500)),
            ("a/big-2", usage(10, 0, 99), Some(3)),
            ("a/big-free", usage(1_000_000, 9, 0), Some(0)),
            ("a/small", usage(1, 0, 0), Some(1)),
            ("a/small", usage(0, 0, 0), Some(0)),
            ("b/big", usage(1, 1, 1), None),
            ("a/big", usage(u64::MAX, u64::MAX, 0), Some(u64::MAX)),
        ] {
            assert_eq!(prices().cost_micros_usd(model, usage), cost, "{model} {usage:?}");
        }
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for pattern in ["", "a*b", "**"] {
            assert!(Pattern::try_from(pattern.to_owned()).is_err(), "{pattern}");
        }
        assert!(Pattern::try_from("*".to_owned()).is_ok());
    }
}
