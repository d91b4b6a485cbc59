//! The folder that a chat works on: which one is sent with a new session, and where its changes are in the end.
//!
//! It must not know how a chat proceeds, nor whether a server may work on the folder: the server decides. See
//! [`FolderOptions::of`].

use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::aap::AapError;
use recount_client::aap::wire::{AgentInfo, SessionWorkspace};
use recount_client::{Client, Listing, is_on_this_machine};

use crate::command::{apply, run};
use crate::failure::Failure;
use crate::render::clean;

/// The same words as those of `recount run`.
#[derive(Args)]
pub(super) struct FolderOptions {
    /// Folder to work on; default: the folder of the agent, or the current folder
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    workspace: Option<PathBuf>,
    /// clone (default): work in a copy of the folder, the same in every turn, whose changes recount apply applies;
    /// in_place: work in the folder itself
    #[arg(long, value_name = "MODE", value_parser = ["clone", "in_place"], conflicts_with = "session")]
    workspace_mode: Option<String>,
    /// Also copy files that git ignores
    #[arg(long, conflicts_with = "session")]
    copy_ignored: bool,
    /// Send no folder; the agent works in its own folder or in an empty one
    #[arg(long, conflicts_with_all = ["workspace", "workspace_mode", "copy_ignored", "session"])]
    no_workspace: bool,
}

/// A folder for a new session.
pub(super) struct ChatFolder {
    pub(super) sent: SessionWorkspace,
    /// It was requested by a flag, so without it there is no chat.
    is_requested: bool,
}

impl FolderOptions {
    /// The folder that a server within this program may work on.
    pub(super) fn for_inside(&self) -> Result<Option<String>, Failure> {
        match (self.no_workspace, &self.workspace) {
            (true, _) => Ok(None),
            (false, Some(path)) => run::folder(path).map(Some),
            (false, None) => Ok(run::folder(Path::new(".")).ok()),
        }
    }

    /// The folder for a new session with this agent at this server. A server that takes none gets none; a flag for one
    /// is an error. A path of this machine names another folder elsewhere, so a remote server gets a folder only from a
    /// flag.
    pub(super) fn of(&self, agent: &AgentInfo, base: &str) -> Result<Option<ChatFolder>, Failure> {
        let is_requested = self.workspace.is_some() || self.workspace_mode.is_some() || self.copy_ignored;
        let Some(kind) = &agent.capabilities.workspace else {
            return match is_requested {
                true => Err(Failure::Usage(format!(
                    "the server does not allow clients to choose the folder of {}; omit --workspace, \
                     --workspace-mode and --copy-ignored",
                    agent.name
                ))),
                false => Ok(None),
            };
        };
        if self.no_workspace || (!is_requested && kind.own.is_some()) {
            return Ok(None);
        }
        if self.workspace.is_none() && !is_on_this_machine(base) {
            return match is_requested {
                true => Err(Failure::Usage(format!(
                    "the server at {base} is not on this machine, so the current folder is not sent; name a \
                     folder on the server with --workspace, or omit --workspace-mode and --copy-ignored"
                ))),
                false => Ok(None),
            };
        }
        let path = run::folder(self.workspace.as_deref().unwrap_or(Path::new(".")))?;
        let copy_ignored = self.copy_ignored.then_some(true);
        let sent = SessionWorkspace { path, mode: self.workspace_mode.clone(), copy_ignored };
        Ok(Some(ChatFolder { sent, is_requested }))
    }
}

impl FolderOptions {
    /// Why the current folder was not sent, in words, where it would have been to a server on this machine.
    pub(super) fn not_sent(&self, agent: &AgentInfo, base: &str) -> Option<String> {
        let takes_ours = agent.capabilities.workspace.as_ref().is_some_and(|kind| kind.own.is_none());
        let is_elsewhere = takes_ours && !self.no_workspace && !is_on_this_machine(base);
        is_elsewhere.then(|| {
            "works in an empty folder: the server is not on this machine, so the current folder is not sent; \
             --workspace DIR names a folder on the server"
                .to_owned()
        })
    }
}

impl ChatFolder {
    /// What is worked on, in words.
    pub(super) fn in_words(&self) -> String {
        let path = clean::line(&self.sent.path);
        match self.sent.mode.as_deref() {
            Some("in_place") => format!("works on {path} itself"),
            _ => format!("works on a copy of {path}"),
        }
    }

    /// How a chat continues without the folder, in words, if no flag requested it and the server rejects it.
    pub(super) fn refused(&self, why: &AapError) -> Option<String> {
        let AapError::Refused { error, code, .. } = why else { return None };
        let is_about_it = code.as_deref() == Some("workspace_refused") && !self.is_requested;
        is_about_it.then(|| {
            format!("works in an empty folder: {}; --workspace DIR names another folder", clean::line(error))
        })
    }
}

/// After a chat: where its changes are, and how to bring them back. All turns of a session work on one copy, so its newest
/// run shows what each of them changed.
pub(super) async fn report_changes(native: &Client, session: &str, address: &str) {
    let newest = Listing { limit: Some(1), ..Listing::default() };
    let Ok(runs) = native.list_session_runs(session, &newest).await else { return };
    if let Some(run) = runs.data.first() {
        apply::report_changes(native, &run.id, address).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(options: &FolderOptions, base: &str) -> Option<String> {
        let agent = json!({ "name": "clerk", "capabilities": { "workspace": {} } });
        let agent: AgentInfo = serde_json::from_value(agent).unwrap();
        options.of(&agent, base).unwrap().map(|folder| folder.sent.path)
    }

    #[test]
    fn the_current_folder_is_sent_to_this_machine_alone() {
        let options = |workspace: Option<&str>| FolderOptions {
            workspace: workspace.map(PathBuf::from),
            workspace_mode: None,
            copy_ignored: false,
            no_workspace: false,
        };
        for base in ["http://127.0.0.1:8765/aap", "http://[::1]:80/aap", "https://localhost/aap"] {
            assert_eq!(sent(&options(None), base), Some(run::folder(Path::new(".")).unwrap()), "{base}");
        }
        for base in ["http://elsewhere/aap", "http://10.0.0.7:8765/aap", "https://localhost.example/aap"] {
            assert_eq!(sent(&options(None), base), None, "{base}");
            assert_eq!(sent(&options(Some("/")), base), Some("/".to_owned()), "{base}");
        }
    }
}
