//! Hooks as they are configured: `[hooks.NAME]`.
//!
//! Look at [`HookSettings`]. It must never know where the configuration came from.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::Secret;

/// One hook: when it runs, about which tools, and what its failure means.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookSettings {
    pub event: HookEvent,
    pub command: HookCommand,
    /// The tools it is about; all when nothing is said.
    #[serde(default)]
    pub matcher: String,
    #[serde(default)]
    pub style: HookStyle,
    pub on_failure: Option<OnFailure>,
    pub timeout_ms: Option<u64>,
    /// Variables of the command.
    #[serde(default)]
    pub env: BTreeMap<String, Secret>,
    /// Names of variables of this server that the command gets.
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

/// What is run: a program with its words, or a line for `/bin/sh`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a list of words, or one text for /bin/sh")]
pub enum HookCommand {
    Words(Vec<String>),
    Line(String),
}

/// What a hook reads and how it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookStyle {
    /// It reads the stored event, and its exit status is the answer.
    #[default]
    Event,
    /// It reads and answers as hooks of Claude Code do.
    ClaudeCode,
}

/// What becomes of a call whose hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is made, and the log says that the hook failed.
    Open,
    /// It is vetoed.
    Closed,
}

/// Why a hook cannot be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookSettingsError {
    #[error(
        "hooks: {name:?} is not a valid name of a hook; use 1 to {} letters, digits, `-` and `_`",
        super::limits::HOOK_NAME_CHARS_MAX
    )]
    Name { name: String },
    #[error("hooks: {count} hooks are configured; use at most {}", super::limits::HOOKS_MAX)]
    TooMany { count: usize },
    #[error("hooks.{hook}.{key}: {why}")]
    Key { hook: String, key: &'static str, why: String },
}
