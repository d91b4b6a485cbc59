//! The configured MCP servers, checked and ready to connect.
//!
//! Start at [`McpServers::build`]. The module must not depend on the protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::era::KnownEra;
use super::headers;
use super::http::HttpEndpoint;
use super::names;
use super::settings::{McpServerSettings, McpSettings, McpSettingsError};
use crate::limits::NAMED_CHARS_MAX;
use crate::mcp::limits;
use crate::model::Secret;
use crate::sandbox::Sandbox;
use crate::tool::Approval;
use crate::work_places::WorkPlaces;

/// The servers of a configuration. Cheap to clone.
#[derive(Clone)]
pub struct McpServers {
    by_name: Arc<BTreeMap<String, Arc<McpServer>>>,
    /// The sandbox for servers that are commands; without it none is started.
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    /// Why commands have no network, if they have none.
    pub(crate) no_network: Option<String>,
    /// Slots for runs with servers that are commands.
    places: WorkPlaces,
    /// Values of headers and variables, to be masked in texts of others.
    secrets: Arc<[Secret]>,
}

/// One server.
pub(crate) struct McpServer {
    pub(crate) name: String,
    pub(crate) transport: McpTransport,
    pub(crate) start_timeout: Duration,
    pub(crate) call_timeout: Duration,
    approval: Approval,
    tools: BTreeMap<String, Approval>,
    /// The protocol era at the last connection.
    pub(crate) era: KnownEra,
}

/// How to connect to a server.
pub(crate) enum McpTransport {
    Command { argv: Vec<String>, environment: Vec<(String, String)>, network: bool },
    Url(HttpEndpoint),
}

impl McpServer {
    pub(crate) fn approval(&self, tool: &str) -> Approval {
        self.tools.get(tool).copied().unwrap_or(self.approval)
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Default for McpServers {
    fn default() -> Self {
        McpServers {
            by_name: Arc::default(),
            sandbox: None,
            no_network: None,
            places: WorkPlaces::new(limits::MCP_AT_ONCE),
            secrets: Arc::default(),
        }
    }
}

impl McpServers {
    /// Builds the servers from settings. `environment` looks up variables; file paths are relative to `folder`.
    pub fn build(
        settings: &McpSettings,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<McpServers, McpSettingsError> {
        let count = settings.servers.len();
        if count > limits::MCP_SERVERS_MAX {
            return Err(McpSettingsError::TooMany { count });
        }
        let mut by_name = BTreeMap::new();
        let mut secrets = Vec::new();
        for (name, server) in &settings.servers {
            if !names::is_server_name(name) {
                return Err(McpSettingsError::Name { name: name.clone() });
            }
            let server = built(name, server, environment, folder, &mut secrets)?;
            by_name.insert(name.clone(), Arc::new(server));
        }
        Ok(McpServers { by_name: Arc::new(by_name), secrets: secrets.into(), ..McpServers::default() })
    }

    /// Sets the sandbox for servers that are commands.
    pub fn in_sandbox(mut self, sandbox: Option<Arc<Sandbox>>, no_network: Option<String>) -> Self {
        (self.sandbox, self.no_network) = (sandbox, no_network);
        self
    }

    /// Sets the number of slots for runs with servers that are commands.
    pub fn with_places(mut self, at_once: usize) -> Self {
        self.places = WorkPlaces::new(at_once);
        self
    }

    pub(crate) fn places(&self) -> &WorkPlaces {
        &self.places
    }

    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// The server names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// A description of each server and its transport.
    pub fn in_words(&self) -> Vec<String> {
        let words = |server: &Arc<McpServer>| match &server.transport {
            McpTransport::Command { argv, .. } => format!("{} (command {})", server.name, argv[0]),
            McpTransport::Url(endpoint) => format!("{} (at {})", server.name, endpoint.host()),
        };
        self.by_name.values().map(words).collect()
    }

    /// Checks that the server of a tool name or pattern is configured.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let server = names::server_of(name).filter(|server| self.by_name.contains_key(*server));
        if server.is_some() {
            return Ok(());
        }
        let known: Vec<&str> = self.names().collect();
        let known = if known.is_empty() {
            "no MCP servers are configured".to_owned()
        } else {
            format!("configured MCP servers: {}", known.join(", "))
        };
        let name: String = name.chars().take(NAMED_CHARS_MAX).collect();
        Err(format!(
            "`{name}` does not name an MCP tool; use `mcp__SERVER__TOOL` or `mcp__SERVER__*`; {known}"
        ))
    }

    /// The approval that calls of a tool need, if its server is configured.
    pub(crate) fn approval(&self, server: &str, tool: &str) -> Option<Approval> {
        Some(self.by_name.get(server)?.approval(tool))
    }

    /// The servers of which the list names a tool; all servers without a list.
    pub(crate) fn named_by(&self, tools: Option<&[String]>) -> impl Iterator<Item = &Arc<McpServer>> {
        let is_named = move |server: &&Arc<McpServer>| {
            tools.is_none_or(|tools| {
                tools.iter().any(|entry| names::server_of(entry) == Some(server.name.as_str()))
            })
        };
        self.by_name.values().filter(is_named)
    }

    /// Whether a run with this list of tools starts processes.
    pub(crate) fn starts_any(&self, tools: Option<&[String]>) -> bool {
        self.sandbox.is_some() && self.needs_workspace(tools)
    }

    /// Whether one of these servers works in the run's folder.
    pub(crate) fn needs_workspace(&self, tools: Option<&[String]>) -> bool {
        self.named_by(tools).any(|server| matches!(server.transport, McpTransport::Command { .. }))
    }
}

fn built(
    name: &str,
    settings: &McpServerSettings,
    environment: &dyn Fn(&str) -> Option<String>,
    folder: &Path,
    secrets: &mut Vec<Secret>,
) -> Result<McpServer, McpSettingsError> {
    let invalid =
        |key: &str, why: String| McpSettingsError::Key { server: name.to_owned(), key: key.to_owned(), why };
    let milliseconds = |key: &str, given: Option<u64>, default: Duration| {
        let limit = limits::MCP_TIMEOUT_MAX;
        match given.map(Duration::from_millis) {
            None => Ok(default),
            Some(given) if !given.is_zero() && given <= limit => Ok(given),
            Some(given) => {
                let (given, limit) = (given.as_millis(), limit.as_millis());
                Err(invalid(key, format!("{given} is out of range; use 1 to {limit} milliseconds")))
            }
        }
    };
    let of_commands = !settings.env.is_empty() || !settings.env_from.is_empty() || settings.network;
    let of_urls =
        !settings.headers.is_empty() || !settings.headers_env.is_empty() || !settings.headers_file.is_empty();
    let transport = match (settings.command.first(), &settings.url) {
        (Some(_), None) if of_urls => {
            return Err(invalid(
                "headers",
                "headers are for url; a command takes env or env_from".to_owned(),
            ));
        }
        (None, Some(_)) if of_commands => {
            return Err(invalid(
                "env",
                "env, env_from and network are for command; a url takes headers".to_owned(),
            ));
        }
        (Some(program), None) => {
            if program.is_empty() {
                return Err(invalid("command", "the first item is empty; name a program".to_owned()));
            }
            let mut variables: Vec<(String, String)> =
                settings.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect();
            for variable in &settings.env_from {
                let value = environment(variable)
                    .ok_or_else(|| invalid("env_from", format!("the variable {variable} is not set")))?;
                variables.push((variable.clone(), value));
            }
            // Short values, such as `1`, are not treated as secrets.
            let long = variables.iter().filter(|(_, value)| recount_redact::Secret::new(value).is_ok());
            secrets.extend(long.map(|(_, value)| Secret::new(value.clone())));
            McpTransport::Command {
                argv: settings.command.clone(),
                environment: variables,
                network: settings.network,
            }
        }
        (None, Some(url)) => {
            let headers =
                headers::read(settings, environment, folder).map_err(|(key, why)| invalid(key, why))?;
            secrets.extend(headers.secrets());
            McpTransport::Url(HttpEndpoint::new(url, headers).map_err(|why| invalid("url", why))?)
        }
        _ => return Err(McpSettingsError::Reach { server: name.to_owned() }),
    };
    Ok(McpServer {
        name: name.to_owned(),
        transport,
        start_timeout: milliseconds(
            "start_timeout_ms",
            settings.start_timeout_ms,
            limits::MCP_START_TIMEOUT,
        )?,
        call_timeout: milliseconds("call_timeout_ms", settings.call_timeout_ms, limits::MCP_CALL_TIMEOUT)?,
        approval: settings.approval,
        tools: settings.tools.clone(),
        era: KnownEra::default(),
    })
}
