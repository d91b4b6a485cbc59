//! `recount acp --agent`: serves an agent of the server to an editor, over standard input and output.
//!
//! It must not know the protocol, which is in `recount_face_acp`, nor how other agents are recorded. Look at [`AgentOptions`].

use clap::Args;
use recount_client::aap::AapClient;
use recount_client::url_below;
use recount_face_acp::{Options, serve};

use super::invocation::{self, Invocation};
use crate::failure::Failure;
use crate::output::note;
use crate::render::clean;

/// The options of an agent of the server.
#[derive(Args)]
pub(super) struct AgentOptions {
    /// Serve this agent of the server to the editor, instead of recording a command
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "ask", "ask_seconds"])]
    agent: Option<String>,
    /// With --agent: set one of its options in new sessions; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = option, requires = "agent")]
    option: Vec<(String, String)>,
    /// With --agent: in_place (default): new sessions work in the editor's folder itself; clone: in a copy of it, whose
    /// changes recount apply applies
    #[arg(long, value_name = "MODE", value_parser = ["in_place", "clone"], requires = "agent")]
    workspace_mode: Option<String>,
    /// With --agent: open sessions without the MCP servers that the editor names, instead of rejecting the sessions
    #[arg(long, requires = "agent")]
    without_mcp_servers: bool,
}

impl AgentOptions {
    /// Serves the agent, if one is named.
    pub(super) fn run(self, invocation: &Invocation) -> Option<Result<(), Failure>> {
        let options = Options {
            agent: self.agent?,
            workspace_mode: self.workspace_mode.unwrap_or_else(|| "in_place".to_owned()),
            without_mcp_servers: self.without_mcp_servers,
            options: self.option.into_iter().collect(),
        };
        Some(serve_agent(options, invocation))
    }
}

fn serve_agent(options: Options, invocation: &Invocation) -> Result<(), Failure> {
    let token = invocation.token_of_program();
    let base = url_below(&invocation.url, "/aap");
    let clients = (invocation.client_of_program()?, AapClient::new(&base, token)?);
    let log = |words: &str| note(&clean::line(words));
    invocation::block_on_threads(async move {
        serve(tokio::io::stdin(), tokio::io::stdout(), clients, options, log).await.map_err(Failure::from)
    })
}

fn option(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
