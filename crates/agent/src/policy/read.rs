//! Parses and validates a policy file. Each error names the rule and the key.
//!
//! Start at [`Policy::parse`]. Pure; the caller adds the source of the text.

use recount_event::family::approval::{DefaultDecision, Reversibility};
use recount_event::family::tool::RiskLevel;
use serde::Deserialize;

use crate::limits::APPROVAL_TIMEOUT_SECONDS_MAX;
use crate::paths::revision;
use crate::policy::limits;
use crate::policy::{Action, Policy, Rule, ToolPattern, is_grave, path_glob};
use crate::schema::nearest;
use crate::toml_error::one_line;

/// Why a policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: Vec<toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    id: String,
    tool: Option<String>,
    path: Option<String>,
    host: Option<String>,
    command_prefix: Option<String>,
    risk_at_least: Option<RiskLevel>,
    action: Action,
    risk: Option<RiskLevel>,
    reversibility: Option<Reversibility>,
    timeout_seconds: Option<u64>,
    default_decision: Option<DefaultDecision>,
    reason: Option<String>,
    #[serde(default)]
    recorded: bool,
}

impl Policy {
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        if text.len() > limits::POLICY_BYTES_MAX {
            let most = limits::POLICY_BYTES_MAX;
            return Err(PolicyError(format!("the policy has {} bytes; the limit is {most}", text.len())));
        }
        let file: File = toml::from_str(text)
            .map_err(|why| PolicyError(format!("the policy cannot be read: {}", one_line(&why, text))))?;
        if file.rules.len() > limits::POLICY_RULES_MAX {
            let most = limits::POLICY_RULES_MAX;
            return Err(PolicyError(format!(
                "the policy has {} rules; the limit is {most}",
                file.rules.len()
            )));
        }
        let mut rules: Vec<Rule> = Vec::new();
        for (index, table) in file.rules.into_iter().enumerate() {
            let called = match table.get("id").and_then(toml::Value::as_str) {
                Some(id) => {
                    format!("rule `{}`", id.chars().take(limits::RULE_ID_CHARS_MAX).collect::<String>())
                }
                None => format!("rule number {}", index + 1),
            };
            let rule = table
                .try_into::<WrittenRule>()
                .map_err(|error| error.to_string().trim_end().replace('\n', " "))
                .and_then(Rule::from_written)
                .map_err(|wrong| PolicyError(format!("{called}: {wrong}")))?;
            if rules.iter().any(|other| other.id == rule.id) {
                return Err(PolicyError(format!(
                    "{called}: an earlier rule has the same `id`; ids must be unique"
                )));
            }
            rules.push(rule);
        }
        Ok(Policy { rules, digest: Some(revision(text.as_bytes())) })
    }

    /// The rules whose server is only recorded: the id, and the tool name or prefix.
    pub fn recorded(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rules.iter().filter(|rule| rule.recorded).map(|rule| {
            let (ToolPattern::Name(name) | ToolPattern::Prefix(name)) = &rule.tool;
            (rule.id.as_str(), name.as_str())
        })
    }

    /// Checks that every rule matches an existing tool, because otherwise it would silently do nothing. `servers`:
    /// prefixes of tool names that are not known completely.
    pub fn check_tools<'a>(
        &self,
        names: impl Iterator<Item = &'a str> + Clone,
        servers: &[String],
    ) -> Result<(), PolicyError> {
        for rule in &self.rules {
            if servers.iter().any(|beginning| rule.tool.can_match_prefix(beginning)) {
                continue;
            }
            if !names.clone().any(|name| rule.tool.matches(name)) {
                let (ToolPattern::Name(name) | ToolPattern::Prefix(name)) = &rule.tool;
                let near = nearest(name, names.clone());
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(PolicyError(format!(
                    "rule `{}`: `tool` is `{name}`, which is not a tool{near}",
                    rule.id
                )));
            }
        }
        Ok(())
    }
}

impl Rule {
    fn from_written(written: WrittenRule) -> Result<Self, String> {
        let WrittenRule { id, tool, path, host, command_prefix, reason, .. } = written;
        let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
        if id.is_empty() || id.chars().count() > limits::RULE_ID_CHARS_MAX || !id.chars().all(plain) {
            let most = limits::RULE_ID_CHARS_MAX;
            return Err(format!("`id` must have 1 to {most} of the characters A-Z a-z 0-9 . _ -"));
        }
        let texts = [
            ("tool", &tool),
            ("path", &path),
            ("host", &host),
            ("command_prefix", &command_prefix),
            ("reason", &reason),
        ];
        for (key, text) in texts {
            let chars = text.as_ref().map_or(1, |text| text.trim().chars().count());
            if chars == 0 || chars > limits::RULE_TEXT_CHARS_MAX {
                let most = limits::RULE_TEXT_CHARS_MAX;
                return Err(format!("`{key}` has {chars} characters; it must have 1 to {most}"));
            }
        }
        let tool = tool.unwrap_or_else(|| "*".to_owned());
        let tool = match tool.split_once('*') {
            None => ToolPattern::Name(tool),
            Some((prefix, "")) => ToolPattern::Prefix(prefix.to_owned()),
            Some(_) => return Err(format!("`tool` is `{tool}`; `*` is allowed only at the end")),
        };
        let path = path
            .map(|path| path_glob(&path).map_err(|error| format!("`path` is not a valid pattern: {error}")))
            .transpose()?;
        let host = host.map(|host| host.trim().trim_end_matches('.').to_ascii_lowercase());
        if let Some(host) = host
            .as_deref()
            .filter(|host| host.strip_prefix("*.").unwrap_or(host).contains('*') && *host != "*")
        {
            return Err(format!(
                "`host` is `{host}`; use `*` for all hosts or `*.example.com` for subdomains"
            ));
        }
        let command_prefix =
            command_prefix.map(|prefix| prefix.split_whitespace().map(str::to_owned).collect());
        let rule = Rule {
            id,
            tool,
            path,
            host,
            command_prefix,
            risk_at_least: written.risk_at_least,
            action: written.action,
            risk: written.risk,
            reversibility: written.reversibility,
            timeout_seconds: written.timeout_seconds,
            default_decision: written.default_decision,
            reason,
            recorded: written.recorded,
        };
        rule.check_decision()?;
        Ok(rule)
    }

    /// Checks who decides: some calls are never allowed without an approval, nor approved by a timeout.
    fn check_decision(&self) -> Result<(), String> {
        if let Some(seconds) = self.timeout_seconds
            && !(1..=APPROVAL_TIMEOUT_SECONDS_MAX).contains(&seconds)
        {
            let most = APPROVAL_TIMEOUT_SECONDS_MAX;
            return Err(format!("`timeout_seconds` is {seconds}; it must be 1 to {most}"));
        }
        let (risk, reversibility) =
            (self.risk.unwrap_or(RiskLevel::Low), self.reversibility.unwrap_or(Reversibility::Reversible));
        let because =
            if risk == RiskLevel::High { "`risk = \"high\"`" } else { "`reversibility = \"irreversible\"`" };
        if is_grave(risk, reversibility) {
            if self.action == Action::Allow {
                return Err(format!(
                    "`action` is `allow` with {because}; such calls always need approval; use `ask` or \
                     `block`"
                ));
            }
            if self.default_decision == Some(DefaultDecision::Approve) {
                return Err(format!(
                    "`default_decision` is `approve` with {because}; such calls are never approved by a \
                     timeout; use `reject`"
                ));
            }
        }
        if self.action == Action::Allow && (self.default_decision.is_some() || self.timeout_seconds.is_some())
        {
            let key = if self.default_decision.is_some() { "default_decision" } else { "timeout_seconds" };
            return Err(format!("`{key}` has no effect with `action = \"allow\"`; remove it"));
        }
        Ok(())
    }
}
