//! The servers of one run: reached when their tools are first needed, ended with the worker.
//!
//! Look at [`McpSession`]. It must not know workers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::link::{Link, RunPlace};
use super::server::McpServers;
use super::tool::McpTool;
use crate::mcp::limits;
use crate::tool::Tool;

/// See the file's head.
#[derive(Default)]
pub(crate) struct McpSession {
    links: BTreeMap<String, Arc<Link>>,
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// What was said of servers already.
    said: Vec<String>,
}

/// A server whose tools are not, or not all, offered.
pub(crate) struct Missing {
    pub(crate) server: String,
    /// A code such as `mcp_unreachable`, or `mcp_left_out`.
    pub(crate) reason: &'static str,
    pub(crate) words: String,
}

impl McpSession {
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// In alphabetical order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// Reaches the servers of which a list of tools names any, and reads their lists where those may be others by now.
    /// Answers what has not been said before.
    pub(crate) async fn reach(
        &mut self,
        servers: &McpServers,
        wanted: Option<&[String]>,
        root: &Path,
    ) -> Vec<Missing> {
        let place = RunPlace::new(servers.clone());
        for server in servers.wanted(wanted) {
            self.links
                .entry(server.name.clone())
                .or_insert_with(|| Arc::new(Link::new(server.clone(), place.clone())));
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
                    missing.extend(left_out.into_iter().map(|words| Missing {
                        server: server.clone(),
                        reason: "mcp_left_out",
                        words,
                    }));
                }
                Err(fault) => {
                    missing.push(Missing { server: server.clone(), reason: fault.code, words: fault.message })
                }
            }
        }
        missing.retain(|missing| {
            let is_new = !self.said.contains(&missing.words) && self.said.len() < limits::MCP_SAID_MAX;
            if is_new {
                self.said.push(missing.words.clone());
            }
            is_new
        });
        missing
    }

    /// Ends the servers that were reached. Their tools are known until they are reached anew.
    pub(crate) async fn close(&mut self) {
        futures_util::future::join_all(self.links.values().map(|link| link.close())).await;
    }
}
