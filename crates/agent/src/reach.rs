//! The tools of a run beside the server's own: those of the MCP servers that it may use.
//!
//! Look at [`Worker::reach_servers`]. It must not know the protocol.

use std::path::PathBuf;
use std::sync::Arc;

use recount_engine::Left;
use recount_event::family::error::ToolUnavailable;
use recount_event::{Draft, Payload};

use crate::limits;
use crate::mcp::PREFIX;
use crate::model::ToolSpec;
use crate::tool::Tool;
use crate::tools;
use crate::worker::{Done, Worker};
use crate::workspace::claims::Sort;

impl Worker {
    /// Sees that the tools of the run's servers are known. Adds what the log should say of those that are missing to what
    /// it is to say before, and reports that early if the run has to wait for a place.
    pub(crate) async fn reach_servers(&mut self, opening: &mut Vec<Draft>) -> Done<()> {
        if self.agent.settings.mcp.wanted(self.order.tools.as_deref()).next().is_none() {
            return Ok(());
        }
        self.server_place(opening).await?;
        let servers = &self.agent.settings.mcp;
        let wanted = self.order.tools.as_deref();
        let root = self.terms.as_ref().map(|terms| terms.root.clone()).unwrap_or_default();
        let mut watch = self.desk.watch();
        if self.server_claim.is_none() && root != PathBuf::new() {
            // Its processes work in the folder between calls, too.
            let claim = self.agent.claims.claim(vec![root.clone()], Sort::Shared);
            self.server_claim = tokio::select! {
                biased;
                () = watch.ended() => return Err(Left::Ended),
                // Where it is held, calls are refused one by one.
                claim = claim => claim.ok(),
            };
        }
        let missing = tokio::select! {
            biased;
            () = watch.ended() => return Err(Left::Ended),
            missing = self.mcp.reach(servers, wanted, &root) => missing,
        };
        let run = self.desk.run();
        opening.extend(missing.into_iter().map(|missing| {
            tracing::warn!(%run, server = missing.server, why = missing.words, "tools of an MCP server are missing");
            let name = format!("{PREFIX}{}__*", missing.server);
            let reason = format!("{}: {}", missing.reason, missing.words);
            let gone = ToolUnavailable::new(name, tools::cut_bytes(reason, limits::CALL_ERROR_BYTES_MAX));
            Draft::from(Payload::ErrorToolUnavailable(Box::new(gone)))
        }));
        Ok(())
    }

    /// Whether a call that is open may be of a server's tool, and no run is to be waited for before.
    pub(crate) fn calls_servers(&self) -> bool {
        let names = self.desk.state().open_calls().filter_map(|(_, call)| call.tool_name.as_deref());
        self.children.is_empty() && names.into_iter().any(|name| name.starts_with(PREFIX))
    }

    /// A tool of this name, whether the run may use it or not.
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.agent.tool(name).or_else(|| self.mcp.tool(name))
    }

    /// What the model is told of the run's tools.
    pub(crate) fn tool_specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.agent.tool_specs(&self.order);
        let offered = self.mcp.tools().filter(|tool| self.agent.offers(&self.order, tool.name()));
        let named: Vec<ToolSpec> = offered
            .filter(|tool| specs.iter().all(|spec| spec.name != tool.name()))
            .map(|tool| tools::spec(&**tool))
            .collect();
        specs.extend(named);
        specs
    }

    /// What a model reads when it calls an unknown tool. It learns only of those that it may use.
    pub(crate) fn no_such_tool(&self, name: &str) -> String {
        let offered = self.tool_specs();
        let unknown = tools::UnknownTool::among(name, offered.iter().map(|tool| tool.name.as_str()));
        unknown.to_string()
    }

    /// Ends the servers of the run.
    pub(crate) async fn leave_servers(&mut self) {
        self.mcp.close().await;
        (self.server_claim, self.server_place) = (None, None);
    }
}
