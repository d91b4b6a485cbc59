//! Reads the usage that agents report: tokens of a prompt or of one of its requests to a model, and the cost of a session.
//!
//! It must not know runs. Entry point: [`SessionUsage`].

use serde_json::Value;

use crate::recording::Usage;

/// A usage that is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// Of one request to a model.
    Request(Usage),
    /// Of the whole prompt. It replaces what its requests add up to.
    Prompt(Usage),
    /// The cost since the last report, in millionths of a US dollar.
    Cost(u64),
}

/// What a session has used so far, to know what its next prompt uses: some figures are totals of the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionUsage {
    cost_micros_usd: Option<u64>,
    tokens: Option<Usage>,
    /// The cost was reported when no prompt was open.
    unclaimed_micros_usd: u64,
}

/// Agents whose usage of a prompt is the total of its session, by a part of their names. By the protocol it is that of
/// the prompt.
const COUNT_SESSIONS: [&str; 1] = ["mistral-vibe"];

impl SessionUsage {
    /// A session that the agent has just created has used nothing.
    pub fn of_new_session() -> Self {
        SessionUsage { cost_micros_usd: Some(0), tokens: Some(Usage::default()), ..SessionUsage::default() }
    }

    /// Of a `session/update`.
    pub fn update(&mut self, update: &Value) -> Option<Reported> {
        if update["sessionUpdate"] == "usage_update" {
            return self.cost(&update["cost"]).map(Reported::Cost);
        }
        tokens(&update["_meta"]["usage"]).map(Reported::Request)
    }

    /// Of the result of a prompt.
    pub fn result(&mut self, agent: &str, result: &Value) -> Option<Reported> {
        let meta = &result["_meta"];
        let used = [&result["usage"], &meta["usage"], &meta["quota"]["token_count"]];
        let used = used.into_iter().find_map(tokens)?;
        if !COUNT_SESSIONS.iter().any(|name| agent.contains(name)) {
            return Some(Reported::Prompt(used));
        }
        // Without the total before, it is not known what of it the prompt used.
        let before = self.tokens.replace(used)?;
        Some(Reported::Prompt(since(used, before).unwrap_or(used)))
    }

    /// A cost that came when no prompt was open: it is reported with the next one.
    pub fn keep_cost(&mut self, micros_usd: u64) {
        self.unclaimed_micros_usd = self.unclaimed_micros_usd.saturating_add(micros_usd);
    }

    pub fn take_kept_cost(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.unclaimed_micros_usd)).filter(|cost| *cost > 0)
    }

    /// The cost since the last report. Only US dollars have a field.
    fn cost(&mut self, cost: &Value) -> Option<u64> {
        let amount = cost["amount"].as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0)?;
        if cost["currency"] != "USD" {
            return None;
        }
        let total = (amount * 1e6).round() as u64;
        let before = self.cost_micros_usd.replace(total)?;
        // A total that fell began anew.
        Some(total.checked_sub(before).unwrap_or(total))
    }
}

/// What was used between two totals; `None` if the second is not one of the same count.
fn since(now: Usage, before: Usage) -> Option<Usage> {
    let less = |now: Option<u64>, before: Option<u64>| -> Option<Option<u64>> {
        let Some(now) = now else { return Some(None) };
        now.checked_sub(before.unwrap_or(0)).map(Some)
    };
    Some(Usage {
        input_tokens: less(now.input_tokens, before.input_tokens)?,
        cached_input_tokens: less(now.cached_input_tokens, before.cached_input_tokens)?,
        output_tokens: less(now.output_tokens, before.output_tokens)?,
        ..Usage::default()
    })
}

/// Tokens, with names in camel case or snake case. Tokens read from and written to a cache, and those of thoughts, are
/// added if the total has them in addition.
fn tokens(usage: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| names.iter().find_map(|name| usage.get(*name)?.as_u64());
    let input = count(["inputTokens", "input_tokens"])?;
    let output = count(["outputTokens", "output_tokens"])?;
    let total = count(["totalTokens", "total_tokens"]);
    let read = count(["cachedReadTokens", "cached_read_tokens"]);
    let cached =
        read.unwrap_or(0).saturating_add(count(["cachedWriteTokens", "cached_write_tokens"]).unwrap_or(0));
    let thought = count(["thoughtTokens", "thought_tokens"]).unwrap_or(0);
    let (with_cache, with_thoughts) = (input.saturating_add(cached), output.saturating_add(thought));
    let is_total = |input: u64, output: u64| total == input.checked_add(output);
    let (input, output) = if is_total(input, output) {
        (input, output)
    } else if is_total(with_cache, output) {
        (with_cache, output)
    } else if is_total(input, with_thoughts) {
        (input, with_thoughts)
    } else if is_total(with_cache, with_thoughts) {
        (with_cache, with_thoughts)
    } else {
        (input, output)
    };
    Some(Usage {
        input_tokens: Some(input),
        cached_input_tokens: read,
        output_tokens: Some(output),
        ..Usage::default()
    })
}

/// The sum of two usages, as far as each is known.
pub(super) fn added(one: Usage, other: Usage) -> Usage {
    let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => one.checked_add(other),
        (one, other) => one.or(other),
    };
    Usage {
        input_tokens: sum(one.input_tokens, other.input_tokens),
        cached_input_tokens: sum(one.cached_input_tokens, other.cached_input_tokens),
        output_tokens: sum(one.output_tokens, other.output_tokens),
        cost_micros_usd: sum(one.cost_micros_usd, other.cost_micros_usd),
        duration_ms: sum(one.duration_ms, other.duration_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn counts(usage: Usage) -> [Option<u64>; 3] {
        [usage.input_tokens, usage.cached_input_tokens, usage.output_tokens]
    }

    #[test]
    fn the_total_shows_what_the_parts_contain() {
        for (usage, expected) in [
            (
                json!({"inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 4, "totalTokens": 12}),
                [10, 4, 2],
            ),
            (
                json!({"inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 4, "cachedWriteTokens": 1, "totalTokens": 17}),
                [15, 4, 2],
            ),
            (
                json!({"inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 4, "thoughtTokens": 3, "totalTokens": 15}),
                [10, 4, 5],
            ),
            (
                json!({"inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 4, "thoughtTokens": 3, "totalTokens": 19}),
                [14, 4, 5],
            ),
            (
                json!({"input_tokens": 10, "output_tokens": 2, "cached_read_tokens": 4, "total_tokens": 99}),
                [10, 4, 2],
            ),
        ] {
            assert_eq!(tokens(&usage).map(counts), Some(expected.map(Some)), "{usage}");
        }
        for none in [
            json!(null),
            json!({}),
            json!({"inputTokens": 1}),
            json!({"inputTokens": -1, "outputTokens": "2"}),
        ] {
            assert_eq!(tokens(&none), None, "{none}");
        }
    }

    #[test]
    fn the_cost_of_a_session_is_counted_once() {
        let cost = |amount: f64, currency: &str| json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": amount, "currency": currency}});
        let mut session = SessionUsage::of_new_session();
        assert_eq!(session.update(&cost(0.1, "USD")), Some(Reported::Cost(100_000)));
        assert_eq!(session.update(&cost(0.25, "USD")), Some(Reported::Cost(150_000)));
        assert_eq!(session.update(&cost(0.25, "EUR")), None);
        assert_eq!(session.update(&cost(-1.0, "USD")), None);
        assert_eq!(session.update(&cost(0.05, "USD")), Some(Reported::Cost(50_000)), "it began anew");
        // A session that was loaded has a cost that no prompt here caused.
        let mut loaded = SessionUsage::default();
        assert_eq!(loaded.update(&cost(3.0, "USD")), None);
        assert_eq!(loaded.update(&cost(3.5, "USD")), Some(Reported::Cost(500_000)));
    }

    #[test]
    fn a_result_has_the_usage_of_its_prompt() {
        let result = |input: u64| json!({"usage": {"inputTokens": input, "outputTokens": 1, "totalTokens": input + 1}});
        let input = |reported: Option<Reported>| match reported {
            Some(Reported::Prompt(usage)) => usage.input_tokens,
            _ => None,
        };
        let mut session = SessionUsage::of_new_session();
        assert_eq!([10, 30].map(|n| input(session.result("other", &result(n)))), [Some(10), Some(30)]);
        let mut session = SessionUsage::of_new_session();
        let name = "@mistralai/mistral-vibe";
        assert_eq!(
            [10, 30, 5].map(|n| input(session.result(name, &result(n)))),
            [Some(10), Some(20), Some(5)]
        );
        assert_eq!(input(SessionUsage::default().result(name, &result(7))), None);
        let quota = json!({"_meta": {"quota": {"token_count": {"input_tokens": 3, "output_tokens": 4}}}});
        assert_eq!(input(session.result("gemini-cli", &quota)), Some(3));
    }
}
