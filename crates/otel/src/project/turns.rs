//! Histograms of model turns, tokens and durations, with the names, buckets and attributes of the GenAI conventions.
//!
//! Pure. The number of attribute sets is bounded. It must not know how figures are published. Start with
//! [`TurnHistograms::note`].

use std::collections::BTreeMap;

use super::attributes as name;
use crate::limits;

/// What is measured of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    /// Input and output tokens.
    TokenUsage,
    /// From the request to the end of the response.
    OperationDuration,
}

/// Names and values of attributes, in a fixed order.
pub type AttributeSet = Vec<(&'static str, String)>;

/// A turn that completed or failed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn<'t> {
    pub provider: Option<&'t str>,
    pub model: Option<&'t str>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub duration_ms: Option<u64>,
    /// The code of a failed one.
    pub error: Option<&'t str>,
}

/// On the one set of attribute sets that are too many.
pub const OVERFLOW: &str = "otel.metric.overflow";

/// The number of bounds of each instrument.
pub const BOUNDS: usize = 14;

/// How many values are at most each bound and above the one before it, and those above all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Buckets {
    pub counts: [u64; BOUNDS + 1],
    /// In the unit of the bounds.
    pub sum: u64,
}

/// The histograms of all turns, by attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnHistograms {
    token_usage: BTreeMap<AttributeSet, Buckets>,
    operation_duration: BTreeMap<AttributeSet, Buckets>,
}

impl Instrument {
    pub const ALL: [Instrument; 2] = [Instrument::TokenUsage, Instrument::OperationDuration];

    /// In the conventions.
    pub fn name(self) -> &'static str {
        match self {
            Instrument::TokenUsage => "gen_ai.client.token.usage",
            Instrument::OperationDuration => "gen_ai.client.operation.duration",
        }
    }

    /// In the conventions.
    pub fn unit(self) -> &'static str {
        match self {
            Instrument::TokenUsage => "{token}",
            Instrument::OperationDuration => "s",
        }
    }

    /// The name for Prometheus.
    pub fn page_name(self) -> &'static str {
        match self {
            Instrument::TokenUsage => "gen_ai_client_token_usage",
            Instrument::OperationDuration => "gen_ai_client_operation_duration_seconds",
        }
    }

    /// The bounds of the conventions: powers of 4, and in milliseconds 10 times powers of 2.
    pub fn bounds(self) -> [u64; BOUNDS] {
        std::array::from_fn(|at| match self {
            Instrument::TokenUsage => 1 << (2 * at),
            Instrument::OperationDuration => 10 << at,
        })
    }

    /// How many units of the bounds are one of the published unit.
    pub fn scale(self) -> f64 {
        match self {
            Instrument::TokenUsage => 1.0,
            Instrument::OperationDuration => 1e3,
        }
    }
}

/// The name of an attribute for Prometheus.
pub fn page_label(attribute: &str) -> String {
    attribute.replace('.', "_")
}

/// The attribute with this name for Prometheus.
pub fn attribute_of(label: &str) -> Option<&'static str> {
    let all = [name::OPERATION, name::PROVIDER, name::MODEL, name::TOKEN_TYPE, name::ERROR, OVERFLOW];
    all.into_iter().find(|attribute| page_label(attribute) == label)
}

impl TurnHistograms {
    pub fn note(&mut self, turn: &Turn<'_>) {
        let set = |more: Option<(&'static str, &str)>| {
            let all = [
                Some((name::OPERATION, "chat")),
                turn.provider.map(|provider| (name::PROVIDER, provider)),
                turn.model.map(|model| (name::MODEL, model)),
                more,
            ];
            all.into_iter().flatten().map(|(key, value)| (key, value.to_owned())).collect()
        };
        for (kind, tokens) in [("input", turn.input_tokens), ("output", turn.output_tokens)] {
            if let Some(tokens) = tokens {
                self.value(Instrument::TokenUsage, set(Some((name::TOKEN_TYPE, kind))), tokens);
            }
        }
        if let Some(ms) = turn.duration_ms {
            let error = turn.error.map(|code| (name::ERROR, code));
            self.value(Instrument::OperationDuration, set(error), ms);
        }
    }

    /// Adds the values of others.
    pub fn add(&mut self, others: &TurnHistograms) {
        for instrument in Instrument::ALL {
            for (set, more) in others.of(instrument) {
                self.buckets(instrument, set.clone()).add(more);
            }
        }
    }

    /// Adds the values of another tenant. Each tenant has its own limit of sets, and the sum has none: with one, a new set of
    /// one tenant would displace a published set of another.
    pub fn add_tenant(&mut self, others: &TurnHistograms) {
        for instrument in Instrument::ALL {
            for (set, more) in others.of(instrument) {
                self.of_mut(instrument).entry(set.clone()).or_default().add(more);
            }
        }
    }

    pub fn of(&self, instrument: Instrument) -> &BTreeMap<AttributeSet, Buckets> {
        match instrument {
            Instrument::TokenUsage => &self.token_usage,
            Instrument::OperationDuration => &self.operation_duration,
        }
    }

    fn of_mut(&mut self, instrument: Instrument) -> &mut BTreeMap<AttributeSet, Buckets> {
        match instrument {
            Instrument::TokenUsage => &mut self.token_usage,
            Instrument::OperationDuration => &mut self.operation_duration,
        }
    }

    fn value(&mut self, instrument: Instrument, set: AttributeSet, value: u64) {
        let above = instrument.bounds().iter().take_while(|bound| value > **bound).count();
        let buckets = self.buckets(instrument, set);
        buckets.counts[above] += 1;
        buckets.sum = buckets.sum.saturating_add(value);
    }

    /// Those of a set; of one set for all that are too many or too long, as in the SDKs of OpenTelemetry.
    fn buckets(&mut self, instrument: Instrument, set: AttributeSet) -> &mut Buckets {
        let sets = self.of_mut(instrument);
        let is_short = set.iter().all(|(_, value)| value.len() <= limits::METRIC_VALUE_BYTES_MAX);
        // The last place is for the others.
        let fits = is_short && (sets.len() < limits::METRIC_SETS_MAX - 1 || sets.contains_key(&set));
        sets.entry(if fits { set } else { vec![(OVERFLOW, "true".to_owned())] }).or_default()
    }
}

impl Buckets {
    fn add(&mut self, others: &Buckets) {
        for (count, more) in self.counts.iter_mut().zip(&others.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(others.sum);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn<'t>(model: &'t str, error: Option<&'t str>) -> Turn<'t> {
        let (input_tokens, output_tokens) = (Some(64), error.is_none().then_some(65));
        Turn {
            provider: Some("p"),
            model: Some(model),
            input_tokens,
            output_tokens,
            duration_ms: Some(90_000),
            error,
        }
    }

    #[test]
    fn bounds_are_those_of_the_conventions() {
        assert_eq!(Instrument::TokenUsage.bounds()[..4], [1, 4, 16, 64]);
        assert_eq!(Instrument::TokenUsage.bounds()[13], 67_108_864);
        assert_eq!(Instrument::OperationDuration.bounds()[..3], [10, 20, 40]);
        assert_eq!(Instrument::OperationDuration.bounds()[13], 81_920);
    }

    #[test]
    fn a_value_at_a_bound_is_below_it() {
        let mut turns = TurnHistograms::default();
        turns.note(&turn("m", None));
        turns.note(&turn("m", Some("overloaded")));
        let shown = |instrument| -> Vec<(String, u64, u64, usize)> {
            let sets = turns.of(instrument).iter();
            let shown = sets.map(|(set, buckets)| {
                let names: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let first = buckets.counts.iter().position(|count| *count > 0).unwrap();
                (names.join(","), buckets.count(), buckets.sum, first)
            });
            shown.collect()
        };
        let of = "gen_ai.operation.name=chat,gen_ai.provider.name=p,gen_ai.request.model=m";
        let tokens = [
            (format!("{of},gen_ai.token.type=input"), 2, 128, 3),
            (format!("{of},gen_ai.token.type=output"), 1, 65, 4),
        ];
        assert_eq!(shown(Instrument::TokenUsage), tokens);
        let durations =
            [(of.to_owned(), 1, 90_000, 14), (format!("{of},error.type=overloaded"), 1, 90_000, 14)];
        assert_eq!(shown(Instrument::OperationDuration), durations);
    }

    #[test]
    fn sets_beyond_the_limit_are_one() {
        let mut turns = TurnHistograms::default();
        for at in 0..limits::METRIC_SETS_MAX + 5 {
            turns.note(&turn(&format!("m{at}"), Some("e")));
        }
        turns.note(&turn("m0", Some("e")));
        turns.note(&turn(&"m".repeat(limits::METRIC_VALUE_BYTES_MAX + 1), Some("e")));
        let sets = turns.of(Instrument::OperationDuration);
        assert_eq!(sets.len(), limits::METRIC_SETS_MAX);
        let others = &sets[&vec![("otel.metric.overflow", "true".to_owned())]];
        assert_eq!(others.count(), 7, "six too many, and a long one");
        let mut sum = turns.clone();
        sum.add(&turns);
        assert_eq!(sum.of(Instrument::OperationDuration).len(), limits::METRIC_SETS_MAX);
        let count = |turns: &TurnHistograms| {
            turns.of(Instrument::OperationDuration).values().map(Buckets::count).sum::<u64>()
        };
        assert_eq!(count(&sum), 2 * count(&turns));
    }
}
