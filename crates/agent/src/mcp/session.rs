//! The MCP servers of one run: connected when their tools are first needed, closed with the worker.
//!
//! Start at [`McpSession`]. The module must not depend on workers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::link::{Link, RunServers};
use super::server::McpServers;
use super::tool::McpTool;
use crate::mcp::limits;
use crate::tool::Tool;

/// The connections and tools of one run.
#[derive(Default)]
pub(crate) struct McpSession {
    links: BTreeMap<String, Arc<Link>>,
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Messages about servers that were already reported.
    reported: Vec<String>,
}

/// A server whose tools are missing or incomplete.
pub(crate) struct Missing {
    pub(crate) server: String,
    /// A code such as `mcp_unreachable`, or `mcp_left_out`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl McpSession {
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// The tools in alphabetical order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// Connects to the servers that the tool list names, and reads their tools if they may have changed. Returns what
    /// was not reported before.
    pub(crate) async fn reach(
        &mut self,
        servers: &McpServers,
        tool_names: Option<&[String]>,
        root: &Path,
    ) -> Vec<Missing> {
        let run_servers = RunServers::new(servers.clone());
        for server in servers.named_by(tool_names) {
            self.links
                .entry(server.name.clone())
                .or_insert_with(|| Arc::new(Link::new(server.clone(), run_servers.clone())));
        }
        let reached = self.links.values().map(|link| async { (link.clone(), link.listed(root).await) });
        let reached = futures_util::future::join_all(reached).await;
        let mut missing = Vec::new();
        self.tools.clear();
        for (link, listed) in reached {
            let server = &link.server.name;
            match listed {
                Ok((tools, left_out)) => {
                    self.tools.extend(tools.into_iter().map(|(name, tool)| {
                        let tool: Arc<dyn Tool> = Arc::new(McpTool::new(name.clone(), tool, link.clone()));
                        (name, tool)
                    }));
                    missing.extend(left_out.into_iter().map(|message| Missing {
                        server: server.clone(),
                        reason: "mcp_left_out",
                        message,
                    }));
                }
                Err(fault) => missing.push(Missing {
                    server: server.clone(),
                    reason: fault.code,
                    message: fault.message,
                }),
            }
        }
        missing.retain(|missing| {
            let is_new = !self.reported.contains(&missing.message)
                && self.reported.len() < limits::MCP_MISSING_MESSAGES_MAX;
            if is_new {
                self.reported.push(missing.message.clone());
            }
            is_new
        });
        missing
    }

    /// Closes the connections. The tools stay known until the next connection.
    pub(crate) async fn close(&mut self) {
        futures_util::future::join_all(self.links.values().map(|link| link.close())).await;
    }
}
