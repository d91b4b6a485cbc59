//! Reading a policy from its file: everything that is wrong is an error that names the rule and the key.
//!
//! Look at [`Policy::parse`]. Pure; who has the text says where it is from.

use recount_event::family::approval::{DefaultDecision, Reversibility};
use recount_event::family::tool::RiskLevel;
use serde::Deserialize;

use crate::limits::APPROVAL_TIMEOUT_SECONDS_MAX;
use crate::paths::revision;
use crate::policy::limits;
use crate::policy::{Action, Policy, Rule, ToolPattern, is_grave, path_glob};
use crate::schema::nearest;

/// Why a policy is not taken.
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
            return Err(PolicyError(format!("the policy has {} bytes and may have {most}", text.len())));
        }
        let file: File = toml::from_str(text).map_err(|error| {
            PolicyError(format!("the policy cannot be read: {}", error.to_string().trim_end()))
        })?;
        if file.rules.len() > limits::POLICY_RULES_MAX {
            let most = limits::POLICY_RULES_MAX;
            return Err(PolicyError(format!(
                "the policy has {} rules and may have {most}",
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
                    "{called}: `id` is that of an earlier rule; each needs its own"
                )));
            }
            rules.push(rule);
        }
        Ok(Policy { rules, digest: Some(revision(text.as_bytes())) })
    }

    /// The rules that say that their server is only recorded: the id of each, and the name of a tool or the beginning of names.
    pub fn recorded(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rules.iter().filter(|rule| rule.recorded).map(|rule| {
            let (ToolPattern::Name(said) | ToolPattern::Prefix(said)) = &rule.tool;
            (rule.id.as_str(), said.as_str())
        })
    }

    /// Whether every rule is about a tool that is there; one that is not would silently do nothing.
    /// `servers`: how names of tools begin whose ends are not known.
    pub fn check_tools<'a>(
        &self,
        names: impl Iterator<Item = &'a str> + Clone,
        servers: &[String],
    ) -> Result<(), PolicyError> {
        for rule in &self.rules {
            if servers.iter().any(|beginning| rule.tool.may_fit(beginning)) {
                continue;
            }
            if !names.clone().any(|name| rule.tool.fits(name)) {
                let (ToolPattern::Name(said) | ToolPattern::Prefix(said)) = &rule.tool;
                let near = nearest(said, names.clone());
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(PolicyError(format!(
                    "rule `{}`: `tool` is `{said}`, and no tool is called so{near}",
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
                return Err(format!("`{key}` has {chars} characters and may have 1 to {most}"));
            }
        }
        let tool = tool.unwrap_or_else(|| "*".to_owned());
        let tool = match tool.split_once('*') {
            None => ToolPattern::Name(tool),
            Some((prefix, "")) => ToolPattern::Prefix(prefix.to_owned()),
            Some(_) => return Err(format!("`tool` is `{tool}`; a `*` may only stand at its end")),
        };
        let path = path
            .map(|path| path_glob(&path).map_err(|error| format!("`path` is no pattern: {error}")))
            .transpose()?;
        let host = host.map(|host| host.trim().trim_end_matches('.').to_ascii_lowercase());
        if let Some(host) = host
            .as_deref()
            .filter(|host| host.strip_prefix("*.").unwrap_or(host).contains('*') && *host != "*")
        {
            return Err(format!(
                "`host` is `{host}`; a `*` may only stand for all hosts or, as `*.`, for those below one"
            ));
        }
        let command_prefix =
            command_prefix.map(|prefix| prefix.split_whitespace().map(str::to_owned).collect());
        if let Some(seconds) = written.timeout_seconds
            && !(1..=APPROVAL_TIMEOUT_SECONDS_MAX).contains(&seconds)
        {
            let most = APPROVAL_TIMEOUT_SECONDS_MAX;
            return Err(format!("`timeout_seconds` is {seconds} and must be 1 to {most}"));
        }
        let (risk, reversibility) = (
            written.risk.unwrap_or(RiskLevel::Low),
            written.reversibility.unwrap_or(Reversibility::Reversible),
        );
        let because =
            if risk == RiskLevel::High { "`risk = \"high\"`" } else { "`reversibility = \"irreversible\"`" };
        if is_grave(risk, reversibility) {
            if written.action == Action::Allow {
                return Err(format!(
                    "`action` is `allow` with {because}; what is grave is always asked about: use `ask` or `block`"
                ));
            }
            if written.default_decision == Some(DefaultDecision::Approve) {
                return Err(format!(
                    "`default_decision` is `approve` with {because}; what is grave is never approved by waiting"
                ));
            }
        }
        if written.action == Action::Allow
            && (written.default_decision.is_some() || written.timeout_seconds.is_some())
        {
            let key = if written.default_decision.is_some() { "default_decision" } else { "timeout_seconds" };
            return Err(format!("`{key}` says how to ask, but `action` is `allow`"));
        }
        Ok(Rule {
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
        })
    }
}
