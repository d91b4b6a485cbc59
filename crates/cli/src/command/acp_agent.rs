//! `recount acp`: speaks ACP, the agent client protocol, with an editor over standard input and output.
//!
//! It must not know the protocol: an agent of the server is `recount_face_acp`. Look at [`Acp`].

use clap::Args;
use recount_client::aap::AapClient;
use recount_face_acp::{Options, serve};

use super::invocation::{self, Invocation};
use crate::failure::Failure;
use crate::output::note;
use crate::render::clean;

/// Serve an agent to an editor over ACP, the agent client protocol, on standard input and output
#[derive(Args)]
pub(super) struct Acp {
    /// Agent of the server that the editor drives
    #[arg(long, value_name = "NAME", required_unless_present = "command", conflicts_with = "command")]
    agent: Option<String>,
    /// With --agent: set one of its options in new sessions; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = option, requires = "agent")]
    option: Vec<(String, String)>,
    /// With --agent, in_place (default): new sessions work in the editor's folder itself; clone: in a copy of it, whose
    /// changes recount apply applies
    #[arg(long, value_name = "MODE", value_parser = ["in_place", "clone"], requires = "agent")]
    workspace_mode: Option<String>,
    /// With --agent: open sessions without the MCP servers that the editor names, instead of refusing them
    #[arg(long, requires = "agent")]
    without_mcp_servers: bool,
    /// Agent to start and record: a program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Acp {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Some(agent) = self.agent else {
            let program = self.command.first().map_or("", String::as_str);
            return Err(Failure::Usage(format!(
                "recording the agent {program:?} is not part of this build; use --agent NAME to serve an agent of the server"
            )));
        };
        let options = Options {
            agent,
            workspace_mode: self.workspace_mode.unwrap_or_else(|| "in_place".to_owned()),
            without_mcp_servers: self.without_mcp_servers,
            options: self.option.into_iter().collect(),
        };
        let token = invocation.token.as_deref().filter(|token| !token.is_empty());
        let base = format!("{}/aap", invocation.url.trim_end_matches('/'));
        let clients = (invocation.client()?, AapClient::new(&base, token)?);
        let say = |words: &str| note(&clean::line(words));
        invocation::block_on_threads(async move {
            serve(tokio::io::stdin(), tokio::io::stdout(), clients, options, say).await.map_err(Failure::from)
        })
    }
}

fn option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
