//! Rules that replace the requested model by another one. The log records it as `policy.model_rewrote`.
//!
//! Pure. It must not know whether a model exists. Start with [`Rewrites::apply`].

use serde::Deserialize;

use super::pattern::Pattern;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// `provider/model`, or a prefix followed by `*`.
    pub from: Pattern,
    /// `provider/model`. A `*` at its end is replaced by what the `*` of `from` matched.
    pub to: String,
    /// The reason, for people.
    pub reason: String,
}

/// All rules, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrites(Vec<Rewrite>);

/// The result of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenModel {
    pub from: String,
    pub to: String,
    pub reason: String,
}

impl Rewrites {
    pub fn new(rules: Vec<Rewrite>) -> Self {
        Rewrites(rules)
    }

    /// Applies the first matching rule to `provider/model`. The result is not rewritten again, so rules cannot form a
    /// cycle. A rule that changes nothing keeps the model.
    pub fn apply(&self, model: &str) -> Option<RewrittenModel> {
        let (rule, rest) = self.0.iter().find_map(|rule| Some((rule, rule.from.rest(model)?)))?;
        let to = match rule.to.strip_suffix('*') {
            Some(prefix) => format!("{prefix}{rest}"),
            None => rule.to.clone(),
        };
        (to != model).then(|| RewrittenModel { from: model.to_owned(), to, reason: rule.reason.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_rule_is_applied_once() {
        let rule = |from: &str, to: &str| Rewrite {
            from: Pattern::try_from(from.to_owned()).unwrap(),
            to: to.into(),
            reason: "cheaper".into(),
        };
        let rules = Rewrites::new(vec![
            rule("a/keep", "a/keep"),
            rule("a/big", "a/small"),
            rule("a/small", "a/big"),
            rule("a/*", "router/a/*"),
            rule("*", "b/any"),
        ]);
        for (from, to) in [
            ("a/keep", None),
            ("a/big", Some("a/small")),
            ("a/small", Some("a/big")),
            ("a/other", Some("router/a/other")),
            ("c/x", Some("b/any")),
            ("b/any", None),
        ] {
            let rewritten = rules.apply(from);
            assert_eq!(rewritten.as_ref().map(|done| done.to.as_str()), to, "{from}");
            assert!(rewritten.is_none_or(|done| done.from == from && done.reason == "cheaper"));
        }
        assert_eq!(Rewrites::default().apply("a/big"), None);
    }
}
