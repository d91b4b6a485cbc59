//! Configuration of own runs: how many at once, in which folders, in which sandbox.
//!
//! Look at [`Runs`]. It must not know what models, sandbox and policy do with their settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recount_agent::Experimental;
use recount_agent::hooks::{HookSettings, Hooks};
use recount_agent::mcp::{McpServers, McpSettings};
use recount_agent::model::ModelsSettings;
use recount_agent::sandbox::SandboxSettings;
use recount_agent::web::{Web, WebSettings};

use super::accepts::wrong;
use super::table::Values;
use crate::StartError;
use crate::settings::{Lookup, in_words};

/// What was settled.
#[derive(Debug, Clone)]
pub struct Runs {
    /// Runs that are worked at at a time, for each tenant.
    pub at_once: usize,
    /// Tools that run at a time, over all tenants.
    pub tools_at_once: usize,
    /// Runs that have MCP servers which are commands at a time, for each tenant.
    pub mcp_at_once: usize,
    /// Folders that runs may work in and copy, with all below them.
    pub workspaces: Vec<PathBuf>,
    /// How long a copy is kept that is not worked in.
    pub keep: Option<Duration>,
    /// Whether runs read the `AGENTS.md` files of their workspaces.
    pub workspace_instructions: bool,
    /// Whether runs may start runs.
    pub child_runs: bool,
    /// Which other experimental events runs may have.
    pub experimental: Experimental,
    pub sandbox: SandboxSettings,
    /// Where the rules are that calls are judged by.
    pub policy: Option<PathBuf>,
    pub models: ModelsSettings,
    /// The MCP servers that runs may use, with nowhere to run commands yet.
    pub mcp: McpServers,
    /// What web tools may reach, and the provider of searches.
    pub web: Web,
    /// Programs that run before and after tool calls.
    pub hooks: Hooks,
    /// The folder of the configuration, where what it names begins.
    pub folder: PathBuf,
}

/// Where folders are looked for that a setting names.
pub(super) struct Folders<'a> {
    /// The home folder of the user that runs the server.
    pub(super) home: Option<PathBuf>,
    /// The folder of the configuration file.
    pub(super) beside: &'a Path,
}

/// What runs use that is not part of this server: programs of others, and hosts of the web.
pub(super) struct Outside<'a> {
    pub(super) mcp: &'a McpSettings,
    pub(super) hooks: &'a BTreeMap<String, HookSettings>,
    pub(super) web: WebSettings,
}

pub(super) fn settle(
    look: &mut Lookup<'_>,
    values: &Values,
    environment: BTreeMap<String, String>,
    mut models: ModelsSettings,
    outside: Outside<'_>,
    folders: &Folders<'_>,
) -> Result<Runs, StartError> {
    let names: Vec<&str> = environment.keys().map(String::as_str).collect();
    // Not their values: they may be secret.
    look.note("sandbox", "sandbox.environment", in_words(&names), !names.is_empty());
    models.default.clone_from(&values.model);
    note_models(look, &models);
    let variable = |name: &str| look.variable(name);
    let hooks = Hooks::build(outside.hooks, &variable, folders.beside);
    let hooks = hooks.map_err(|why| StartError::usage(why.to_string()))?;
    let mcp = McpServers::build(outside.mcp, &variable, folders.beside);
    let mcp = mcp.map_err(|why| StartError::usage(why.to_string()))?;
    // Neither variables nor headers: they may be secret.
    look.note("mcp", "mcp.servers", in_words(&mcp.in_words()), mcp.names().next().is_some());
    let hosts: Vec<&str> = outside.web.hosts.keys().map(String::as_str).collect();
    // Not their headers: they may be secret.
    look.note("web", "web.hosts", in_words(&hosts), !hosts.is_empty());
    let web = WebSettings { private_hosts: values.private_hosts.clone(), ..outside.web };
    let web = Web::build(&web, &|name| look.variable(name), folders.beside);
    let web = web.map_err(|why| StartError::usage(why.to_string()))?;
    let search = web.search_in_words();
    look.note("web", "web.search", search.clone().unwrap_or_else(|| "none".to_owned()), search.is_some());
    let configured = hooks.in_words();
    look.note("hooks", "hooks", in_words(&configured), !configured.is_empty());
    Ok(Runs {
        at_once: values.at_once,
        tools_at_once: values.tools_at_once,
        mcp_at_once: values.mcp_at_once,
        workspaces: values.workspaces.iter().map(|path| folder(path, folders)).collect::<Result<_, _>>()?,
        keep: values.keep,
        workspace_instructions: values.instructions,
        child_runs: values.child_runs,
        experimental: Experimental {
            branches: values.branches,
            input_deltas: values.input_deltas,
            images: values.model_images,
        },
        sandbox: SandboxSettings {
            mode: values.sandbox,
            strict: values.strict,
            readable: values.readable.clone(),
            hidden: values.hidden.clone(),
            environment,
            memory_bytes: values.memory_bytes,
            processes: values.processes,
            file_bytes: values.file_bytes,
            tmp_bytes: values.tmp_bytes,
            workspace_bytes: values.workspace_bytes,
        },
        policy: values.policy.clone(),
        models,
        mcp,
        web,
        hooks,
        folder: folders.beside.to_owned(),
    })
}

/// Records the settings of models that only the file can have, without secrets.
fn note_models(look: &mut Lookup<'_>, models: &ModelsSettings) {
    let providers: Vec<String> = models
        .providers
        .iter()
        .map(|(name, provider)| match &provider.base_url {
            Some(url) => format!("{name} ({} at {url})", provider.kind),
            None => format!("{name} ({})", provider.kind),
        })
        .collect();
    look.note("models", "models.providers", in_words(&providers), !providers.is_empty());
    let prices = format!("{} known", models.prices.len());
    look.note("models", "models.prices", prices, !models.prices.is_empty());
    let rules = format!("{} rules", models.rewrite.len());
    look.note("models", "models.rewrite", rules, !models.rewrite.is_empty());
}

/// A folder that runs may work in.
fn folder(path: &str, folders: &Folders<'_>) -> Result<PathBuf, StartError> {
    let named = match (path.strip_prefix('~'), &folders.home) {
        (Some(""), Some(home)) => home.clone(),
        (Some(below), Some(home)) if below.starts_with('/') => home.join(&below[1..]),
        _ => PathBuf::from(path),
    };
    if named.is_absolute() {
        return Ok(named);
    }
    Err(wrong("workspaces.allow", path, "absolute folders, or ~ for the home folder"))
}
