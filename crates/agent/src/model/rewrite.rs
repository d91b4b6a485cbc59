//! Rules that choose another model than was asked for, which the log tells as `policy.model_rewrote`.
//!
//! Look at [`Rewrites::apply`], a pure function. It must never know whether a model is there.

use serde::Deserialize;

use super::pattern::Pattern;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// `provider/model`, or its beginning with a `*`.
    pub from: Pattern,
    /// `provider/model`. A `*` at its end stands for what the one of `from` stood for.
    pub to: String,
    /// For people.
    pub reason: String,
}

/// All rules, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrites(Vec<Rewrite>);

/// What a rule did.
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

    /// What the first rule that fits makes of `provider/model`. What comes out is not rewritten again, so rules
    /// cannot go in circles; a rule that changes nothing says that this model stays.
    pub fn apply(&self, model: &str) -> Option<RewrittenModel> {
        let (rule, rest) = self.0.iter().find_map(|rule| Some((rule, rule.from.rest(model)?)))?;
        let to = match rule.to.strip_suffix('*') {
            Some(beginning) => format!("{beginning}{rest}"),
            None => rule.to.clone(),
        };
        (to != model).then(|| RewrittenModel { from: model.to_owned(), to, reason: rule.reason.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_is_applied_once() {
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
