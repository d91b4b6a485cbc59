//! Agents that are recorded through their hooks, and where this user's state of that is. Shared by `connect` and `hook`.

use std::path::PathBuf;

use clap::ValueEnum;
use recount_client::{Client, ClientError, Listing};
use recount_world::platform;

use crate::failure::Failure;
use crate::limits;

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
    let base =
        folder("XDG_STATE_HOME").or_else(|| folder(platform::HOME).map(|home| home.join(".local/state")));
    base.map(|base| base.join("recount")).ok_or_else(|| {
        Failure::Usage(format!("unknown state folder: set {} or XDG_STATE_HOME", platform::HOME))
    })
}

/// Our session with a title that begins and ends so, the newest if there are several.
pub(super) async fn find_session(
    client: &Client,
    begin: &str,
    end: &str,
) -> Result<Option<String>, ClientError> {
    let fits = |title: &str| title.starts_with(begin) && title.ends_with(end);
    let mut listing = Listing { limit: Some(limits::ACP_LOOKUP_PAGE), ..Listing::default() };
    for _ in 0..limits::ACP_LOOKUP_PAGES_MAX {
        let page = client.list_sessions(&listing).await?;
        if let Some(found) = page.data.into_iter().find(|session| session.title.as_deref().is_some_and(fits))
        {
            return Ok(Some(found.id));
        }
        if !page.has_more {
            return Ok(None);
        }
        listing.after = page.next;
    }
    Ok(None)
}
