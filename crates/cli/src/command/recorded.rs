//! Agents that are recorded through their hooks, and where this user's state of that is. Shared by `connect` and `hook`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::failure::Failure;

/// An agent that reports what it does by hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
}

impl Agent {
    pub(super) fn name(self) -> &'static str {
        match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
        }
    }
}

/// Where hooks that wait and copies of settings are kept.
pub(super) fn state_folder() -> Result<PathBuf, Failure> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    base.map(|base| base.join("recount"))
        .ok_or_else(|| Failure::Usage("unknown state folder: set HOME or XDG_STATE_HOME".to_owned()))
}
