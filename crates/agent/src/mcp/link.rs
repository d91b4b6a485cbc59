//! One MCP server of a run: connects when it is first needed, reconnects after a failure, and calls tools.
//!
//! Start at [`Link`]. The module must not depend on other kinds of tools, or on workers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout_at;

use super::connection::{Connection, ProcessContext};
use super::fault::{Fault, code};
use super::listing::{ListedTool, Listing};
use super::server::{McpServer, McpServers};
use crate::mcp::limits;

/// The sandbox and network of a run's server processes.
#[derive(Clone)]
pub(crate) struct RunServers {
    servers: McpServers,
}

impl RunServers {
    pub(crate) fn new(servers: McpServers) -> Self {
        RunServers { servers }
    }

    fn context<'a>(&'a self, root: &'a Path) -> ProcessContext<'a> {
        ProcessContext {
            sandbox: self.servers.sandbox.as_deref(),
            no_network: self.servers.no_network.as_deref(),
            root,
        }
    }
}

/// One server of a run. Calls are made one at a time.
pub(crate) struct Link {
    pub(crate) server: Arc<McpServer>,
    context: RunServers,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    connection: Option<Connection>,
    /// The number of connections since the last close.
    starts: usize,
    listing: Option<Listing>,
}

impl Link {
    pub(crate) fn new(server: Arc<McpServer>, context: RunServers) -> Self {
        Link { server, context, state: Mutex::default() }
    }

    /// Returns its current tools, and messages about omitted ones.
    pub(crate) async fn listed(
        &self,
        root: &Path,
    ) -> Result<(BTreeMap<String, ListedTool>, Vec<String>), Fault> {
        let mut state = self.state.lock().await;
        self.refresh(&mut state, root).await?;
        let listing = state.listing.as_ref().expect("it was read");
        Ok((listing.tools.clone(), listing.left_out.clone()))
    }

    /// Connects if necessary and updates the list of tools.
    async fn refresh(&self, state: &mut LinkState, root: &Path) -> Result<(), Fault> {
        if let Some(connection) = &mut state.connection {
            let drained = connection.drain();
            if drained.is_err() || !connection.is_usable() {
                state.connection = None;
            }
        }
        let until = recount_world::moment() + self.server.start_timeout;
        let late = || {
            Fault::new(
                code::TIMEOUT,
                format!("the server did not respond within {} ms", self.server.start_timeout.as_millis()),
            )
        };
        if state.connection.is_none() {
            state.listing = None;
            if state.starts >= limits::MCP_STARTS_MAX {
                let most = limits::MCP_STARTS_MAX;
                let why =
                    format!("{most} connections to the server failed in this run; it is not tried again");
                return Err(Fault::new(code::UNREACHABLE, why));
            }
            state.starts += 1;
            let opened =
                timeout_at(until, Connection::open(&self.server, self.context.context(root), until)).await;
            state.connection = Some(opened.map_err(|_| late())??);
        }
        let connection = state.connection.as_mut().expect("it was opened");
        if state.listing.is_some() && !connection.list_changed {
            return Ok(());
        }
        state.listing = None;
        match timeout_at(until, connection.tools()).await.map_err(|_| late()).and_then(|tools| tools) {
            Ok(tools) => {
                state.listing = Some(Listing::read(&self.server.name, tools));
                Ok(())
            }
            Err(fault) => {
                if !fault.is_connection_usable() {
                    state.connection = None;
                }
                Err(fault)
            }
        }
    }

    /// Calls a tool that models know by `name`. Dropping the future makes the next call reconnect.
    pub(crate) async fn call(
        &self,
        name: &str,
        input: &Value,
        root: &Path,
        mut cancelled: impl Future<Output = ()> + Send + Unpin,
    ) -> Result<Value, Stopped> {
        match self.attempt(name, input, root, &mut cancelled).await {
            Err(Stopped::Failed(fault)) if fault.code == code::SESSION_OVER => {
                self.attempt(name, input, root, &mut cancelled).await
            }
            outcome => outcome,
        }
    }

    async fn attempt(
        &self,
        name: &str,
        input: &Value,
        root: &Path,
        mut cancelled: &mut (impl Future<Output = ()> + Send + Unpin),
    ) -> Result<Value, Stopped> {
        let mut state = self.state.lock().await;
        let timeout = self.server.call_timeout;
        let until = recount_world::moment() + timeout;
        tokio::select! {
            biased;
            () = &mut cancelled => return Err(Stopped::Cancelled),
            ready = self.refresh(&mut state, root) => ready.map_err(Stopped::Failed)?,
        }
        let LinkState { connection, listing, .. } = &mut *state;
        let (connection, listing) = connection.as_mut().zip(listing.as_ref()).expect("they were made ready");
        let Some(tool) = listing.tools.get(name) else {
            let why = format!(
                "the MCP server {} no longer has this tool; its list of tools has changed",
                self.server.name
            );
            return Err(Stopped::Failed(Fault::new(code::TOOL_MISSING, why)));
        };
        let outcome = tokio::select! {
            biased;
            () = &mut cancelled => Err(Stopped::Cancelled),
            called = connection.call(&tool.name, input) => called.map_err(Stopped::Failed),
            () = tokio::time::sleep_until(until) => Err(Stopped::TimedOut(timeout)),
        };
        match &outcome {
            Ok(_) => {}
            Err(Stopped::Failed(fault)) if fault.is_connection_usable() => {}
            Err(stopped) => {
                if !matches!(stopped, Stopped::Failed(_)) {
                    connection.give_up(&stopped.reason()).await;
                }
                if let Some(connection) = state.connection.take() {
                    connection.close().await;
                }
            }
        }
        outcome
    }

    /// Closes the connection. The next connection does not count as a failure.
    pub(crate) async fn close(&self) {
        // A dropped call does not hold the lock any more.
        let mut state = self.state.lock().await;
        state.starts = 0;
        if let Some(connection) = state.connection.take() {
            connection.close().await;
        }
    }
}

/// Why a call has no result.
pub(crate) enum Stopped {
    Failed(Fault),
    TimedOut(Duration),
    Cancelled,
}

impl Stopped {
    fn reason(&self) -> String {
        match self {
            Stopped::Failed(fault) => fault.message.clone(),
            Stopped::TimedOut(timeout) => format!("no response within {} ms", timeout.as_millis()),
            Stopped::Cancelled => "the run was cancelled".to_owned(),
        }
    }
}
