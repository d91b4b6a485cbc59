//! Configuration of own runs: how many at once, in which folders, in which sandbox.
//!
//! Start at [`Runs`]. It must not know what models, sandbox and policy do with their settings.

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
use crate::settings::{Lookup, join_names};

/// The checked settings of own runs.
#[derive(Debug, Clone)]
pub struct Runs {
    /// Runs executed at a time, for each tenant.
    pub at_once: usize,
    /// Tools that run at a time, over all tenants.
    pub tools_at_once: usize,
    /// Runs with MCP servers that are commands, at a time, for each tenant.
    pub mcp_at_once: usize,
    /// Folders that runs may work in and copy, with all below them.
    pub workspaces: Vec<PathBuf>,
    /// How long an unused copy is kept.
    pub keep: Option<Duration>,
    /// Whether runs read the `AGENTS.md` files of their workspaces.
    pub workspace_instructions: bool,
    /// Whether runs may start runs.
    pub child_runs: bool,
    /// Which other experimental events runs may have.
    pub experimental: Experimental,
    pub sandbox: SandboxSettings,
    /// The file with the policy rules for calls.
    pub policy: Option<PathBuf>,
    pub models: ModelsSettings,
    /// The MCP servers that runs may use, without a sandbox for commands yet.
    pub mcp: McpServers,
    /// What web tools may reach, and the provider of searches.
    pub web: Web,
    /// Programs that run before and after tool calls.
    pub hooks: Hooks,
    /// The folder of the configuration file, where its relative paths start.
    pub folder: PathBuf,
}

/// The folders that paths in settings start from.
pub(super) struct Folders<'a> {
    /// The home folder of the user that runs the server.
    pub(super) home: Option<PathBuf>,
    /// The folder of the configuration file.
    pub(super) beside: &'a Path,
}

/// Settings of external programs and web hosts that runs use.
pub(super) struct ExternalSettings<'a> {
    pub(super) mcp: &'a McpSettings,
    pub(super) hooks: &'a BTreeMap<String, HookSettings>,
    pub(super) web: WebSettings,
}

pub(super) fn settle(
    lookup: &mut Lookup<'_>,
    values: &Values,
    environment: BTreeMap<String, String>,
    mut models: ModelsSettings,
    external: ExternalSettings<'_>,
    folders: &Folders<'_>,
) -> Result<Runs, StartError> {
    let names: Vec<&str> = environment.keys().map(String::as_str).collect();
    // Not their values: they may be secret.
    lookup.note("sandbox", "sandbox.environment", join_names(&names), !names.is_empty());
    models.default.clone_from(&values.model);
    note_models(lookup, &models);
    let variable = |name: &str| lookup.variable(name);
    let hooks = Hooks::build(external.hooks, &variable, folders.beside);
    let hooks = hooks.map_err(|why| StartError::usage(why.to_string()))?;
    let mcp = McpServers::build(external.mcp, &variable, folders.beside);
    let mcp = mcp.map_err(|why| StartError::usage(why.to_string()))?;
    // Neither variables nor headers: they may be secret.
    lookup.note("mcp", "mcp.servers", join_names(&mcp.in_words()), mcp.names().next().is_some());
    let hosts: Vec<&str> = external.web.hosts.keys().map(String::as_str).collect();
    // Not their headers: they may be secret.
    lookup.note("web", "web.hosts", join_names(&hosts), !hosts.is_empty());
    let web = WebSettings { private_hosts: values.private_hosts.clone(), ..external.web };
    let web = Web::build(&web, &|name| lookup.variable(name), folders.beside);
    let web = web.map_err(|why| StartError::usage(why.to_string()))?;
    let search = web.search_in_words();
    lookup.note("web", "web.search", search.clone().unwrap_or_else(|| "none".to_owned()), search.is_some());
    let configured = hooks.in_words();
    lookup.note("hooks", "hooks", join_names(&configured), !configured.is_empty());
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
fn note_models(lookup: &mut Lookup<'_>, models: &ModelsSettings) {
    let providers: Vec<String> = models
        .providers
        .iter()
        .map(|(name, provider)| match &provider.base_url {
            Some(url) => format!("{name} ({} at {url})", provider.kind),
            None => format!("{name} ({})", provider.kind),
        })
        .collect();
    lookup.note("models", "models.providers", join_names(&providers), !providers.is_empty());
    let prices = format!("{} known", models.prices.len());
    lookup.note("models", "models.prices", prices, !models.prices.is_empty());
    let rules = format!("{} rules", models.rewrite.len());
    lookup.note("models", "models.rewrite", rules, !models.rewrite.is_empty());
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
