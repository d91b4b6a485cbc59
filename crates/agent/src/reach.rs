//! The tools of a run's MCP servers, in addition to the server's own tools.
//!
//! It must not know the MCP protocol.
//!
//! Start at [`Worker::reach_servers`].

use std::path::PathBuf;
use std::sync::Arc;

use recount_engine::WorkerExit;
use recount_event::family::error::ToolUnavailable;
use recount_event::{Draft, Payload};

use crate::limits;
use crate::mcp::PREFIX;
use crate::model::ToolSpec;
use crate::tool::Tool;
use crate::tools;
use crate::worker::{WorkResult, Worker};
use crate::workspace::claims::ClaimMode;

impl Worker {
    /// Connects the run's servers and learns their tools. Adds events about missing servers to `opening`, and reports
    /// `opening` early if the run has to wait for a place.
    pub(crate) async fn reach_servers(&mut self, opening: &mut Vec<Draft>) -> WorkResult<()> {
        if self.agent.settings.mcp.named_by(self.config.tools.as_deref()).next().is_none() {
            return Ok(());
        }
        self.server_place(opening).await?;
        let servers = &self.agent.settings.mcp;
        let requested_tools = self.config.tools.as_deref();
        let root = self.terms.as_ref().map(|terms| terms.root.clone()).unwrap_or_default();
        let mut watch = self.worker_session.watch();
        if self.server_claim.is_none() && root != PathBuf::new() {
            // Its processes work in the folder between calls too.
            let claim = self.agent.claims.claim(vec![root.clone()], ClaimMode::Shared);
            self.server_claim = tokio::select! {
                biased;
                () = watch.ended() => return Err(WorkerExit::Ended),
                // If the folder is claimed, each call is refused.
                claim = claim => claim.ok(),
            };
        }
        let missing = tokio::select! {
            biased;
            () = watch.ended() => return Err(WorkerExit::Ended),
            missing = self.mcp.reach(servers, requested_tools, &root) => missing,
        };
        let run = self.worker_session.run();
        opening.extend(missing.into_iter().map(|missing| {
            tracing::warn!(
                %run, server = missing.server, why = missing.message,
                "tools of an MCP server are not available"
            );
            let name = format!("{PREFIX}{}__*", missing.server);
            let reason = format!("{}: {}", missing.reason, missing.message);
            let unavailable =
                ToolUnavailable::new(name, tools::cut_bytes(reason, limits::CALL_ERROR_BYTES_MAX));
            Draft::from(Payload::ErrorToolUnavailable(Box::new(unavailable)))
        }));
        Ok(())
    }

    /// Whether an open call may belong to a server's tool, and no child run has to end first.
    pub(crate) fn calls_servers(&self) -> bool {
        let names =
            self.worker_session.state().open_calls().filter_map(|(_, call)| call.tool_name.as_deref());
        self.children.is_empty() && names.into_iter().any(|name| name.starts_with(PREFIX))
    }

    /// The tool with this name, whether or not the run may use it.
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.agent.tool(name).or_else(|| self.mcp.tool(name))
    }

    /// The descriptions of the run's tools for the model.
    pub(crate) fn tool_specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.agent.tool_specs(&self.config);
        let offered = self.mcp.tools().filter(|tool| self.agent.offers(&self.config, tool.name()));
        let named: Vec<ToolSpec> = offered
            .filter(|tool| specs.iter().all(|spec| spec.name != tool.name()))
            .map(|tool| tools::spec(&**tool))
            .collect();
        specs.extend(named);
        specs
    }

    /// The error for a model that calls an unknown tool. It lists only tools that the run may use.
    pub(crate) fn unknown_tool_message(&self, name: &str) -> String {
        let offered = self.tool_specs();
        let unknown = tools::UnknownTool::for_names(name, offered.iter().map(|tool| tool.name.as_str()));
        unknown.to_string()
    }

    /// Closes the servers of the run.
    pub(crate) async fn close_servers(&mut self) {
        self.mcp.close().await;
        (self.server_claim, self.server_place) = (None, None);
    }
}
