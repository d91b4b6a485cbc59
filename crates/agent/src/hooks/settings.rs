//! Settings of hooks: `[hooks.NAME]`.
//!
//! Start at [`HookSettings`]. The module must not depend on the source of the configuration.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::Secret;

/// One hook: its event, its tools, and the effect of a failure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookSettings {
    pub event: HookEvent,
    pub command: HookCommand,
    /// A pattern of the tools. Default: all.
    #[serde(default)]
    pub matcher: String,
    #[serde(default)]
    pub style: HookStyle,
    pub on_failure: Option<OnFailure>,
    pub timeout_ms: Option<u64>,
    /// Environment variables of the command.
    #[serde(default)]
    pub env: BTreeMap<String, Secret>,
    /// Names of Recount's own variables that the command receives.
    #[serde(default)]
    pub env_from: Vec<String>,
}

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum HookEvent {
    /// After `tool.invoked` is durable and before the tool runs.
    PreToolUse,
    /// After the event that ends the call is durable.
    PostToolUse,
}

impl HookEvent {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            HookEvent::PreToolUse => "PreToolUse",
            HookEvent::PostToolUse => "PostToolUse",
        }
    }
}

/// The command: a program with its arguments, or a line for `/bin/sh`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a list of strings, or one string for /bin/sh")]
pub enum HookCommand {
    Words(Vec<String>),
    Line(String),
}

/// The input format of a hook and how it returns its decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookStyle {
    /// It reads the stored event, and its exit status is the decision.
    #[default]
    Event,
    /// It uses the protocol of Claude Code's hooks.
    ClaudeCode,
}

/// What happens to a call whose hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The call runs, and the log records that the hook failed.
    Open,
    /// The call is vetoed.
    Closed,
}

/// Why the configuration of a hook is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookSettingsError {
    #[error(
        "hooks: {name:?} is not a valid hook name; use 1 to {} letters, digits, `-` and `_`",
        super::limits::HOOK_NAME_CHARS_MAX
    )]
    Name { name: String },
    #[error("hooks: {count} hooks are configured; the limit is {}", super::limits::HOOKS_MAX)]
    TooMany { count: usize },
    #[error("hooks.{hook}.{key}: {why}")]
    Key { hook: String, key: &'static str, why: String },
}
