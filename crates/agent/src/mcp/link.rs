//! One server of a run: reached when it is first needed, reached anew when it has ended, and called.
//!
//! Look at [`Link`]. It must not know tools of other kinds, or workers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout_at;

use super::connection::{Connection, ServerPlace};
use super::fault::{Fault, code};
use super::listing::{ListedTool, Listing};
use super::server::{McpServer, McpServers};
use crate::mcp::limits;

/// Where the processes of a run's servers work.
#[derive(Clone)]
pub(crate) struct RunPlace {
    servers: McpServers,
}

impl RunPlace {
    pub(crate) fn new(servers: McpServers) -> Self {
        RunPlace { servers }
    }

    fn place<'a>(&'a self, root: &'a Path) -> ServerPlace<'a> {
        ServerPlace {
            sandbox: self.servers.sandbox.as_deref(),
            no_network: self.servers.no_network.as_deref(),
            root,
        }
    }
}

/// One server of a run. Calls of it follow one another.
pub(crate) struct Link {
    pub(crate) server: Arc<McpServer>,
    place: RunPlace,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    connection: Option<Connection>,
    /// How often it was reached since it was last left.
    starts: usize,
    listing: Option<Listing>,
}

impl Link {
    pub(crate) fn new(server: Arc<McpServer>, place: RunPlace) -> Self {
        Link { server, place, state: Mutex::default() }
    }

    /// Its tools now, and what of its list is left out.
    pub(crate) async fn listed(
        &self,
        root: &Path,
    ) -> Result<(BTreeMap<String, ListedTool>, Vec<String>), Fault> {
        let mut state = self.state.lock().await;
        self.refresh(&mut state, root).await?;
        let listing = state.listing.as_ref().expect("it was read");
        Ok((listing.tools.clone(), listing.left_out.clone()))
    }

    /// Sees that the server is there and that its list is the newest.
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
                format!("the server did not answer within {} ms", self.server.start_timeout.as_millis()),
            )
        };
        if state.connection.is_none() {
            state.listing = None;
            if state.starts >= limits::MCP_STARTS_MAX {
                let most = limits::MCP_STARTS_MAX;
                let why = format!(
                    "the server was reached {most} times for this run and failed each time; it is not tried again"
                );
                return Err(Fault::new(code::UNREACHABLE, why));
            }
            state.starts += 1;
            let opened =
                timeout_at(until, Connection::open(&self.server, self.place.place(root), until)).await;
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
                if !fault.leaves_it_usable() {
                    state.connection = None;
                }
                Err(fault)
            }
        }
    }

    /// Calls a tool that models know by `name`. Dropping the future leaves the server to be reached anew.
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
                "the server {} does not have this tool any more; its list of tools has changed",
                self.server.name
            );
            return Err(Stopped::Failed(Fault::new(code::TOOL_GONE, why)));
        };
        let outcome = tokio::select! {
            biased;
            () = &mut cancelled => Err(Stopped::Cancelled),
            called = connection.call(&tool.name, input) => called.map_err(Stopped::Failed),
            () = tokio::time::sleep_until(until) => Err(Stopped::TimedOut(timeout)),
        };
        match &outcome {
            Ok(_) => {}
            Err(Stopped::Failed(fault)) if fault.leaves_it_usable() => {}
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

    /// Ends it. Reaching it anew is no sign that it failed.
    pub(crate) async fn close(&self) {
        // A call that was dropped holds it no longer.
        let mut state = self.state.lock().await;
        state.starts = 0;
        if let Some(connection) = state.connection.take() {
            connection.close().await;
        }
    }
}

/// Why a call brought no result.
pub(crate) enum Stopped {
    Failed(Fault),
    TimedOut(Duration),
    Cancelled,
}

impl Stopped {
    fn reason(&self) -> String {
        match self {
            Stopped::Failed(fault) => fault.message.clone(),
            Stopped::TimedOut(timeout) => format!("no answer within {} ms", timeout.as_millis()),
            Stopped::Cancelled => "the run was cancelled".to_owned(),
        }
    }
}
