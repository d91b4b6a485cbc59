//! Agents that execute own runs: built from the configuration, attached to the engine of each tenant.
//!
//! Start at [`AgentPool`]. It must never know the state of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recount_agent::hooks::Hooks;
use recount_agent::mcp::{self, McpServers};
use recount_agent::model::Registry;
use recount_agent::policy::Policy;
use recount_agent::sandbox::{Layer, Sandbox, SandboxContext};
use recount_agent::tools::{COMMAND_TOOLS, Tools};
use recount_agent::{Agent, Experimental, Settings, Workspaces};
use recount_api::admin::Check;
use recount_engine::{Engine, Error, Profiles};
use recount_world::{Kind, World};

use crate::{Config, StartError, limits};

/// The folder for copies of workspaces, within the data folder.
const FOLDER: &str = "workspaces";

/// The settings that agents of all tenants share.
pub(crate) struct AgentPool {
    registry: Registry,
    tools: Tools,
    mcp: McpServers,
    hooks: Hooks,
    policy: Policy,
    /// `Err` is the reason why no command can run.
    sandbox: Result<Arc<Sandbox>, String>,
    allowed: Arc<[PathBuf]>,
    data: PathBuf,
    at_once: usize,
    mcp_at_once: usize,
    /// Whether requests need no token.
    allows_anonymous: bool,
    /// How long an unused copy of a workspace is kept.
    keep: Option<Duration>,
    /// Whether runs read the `AGENTS.md` files of their workspaces.
    workspace_instructions: bool,
    experimental: Experimental,
    /// The configured agents.
    profiles: Arc<Profiles>,
}

impl AgentPool {
    /// Reads the policy and probes the sandbox. The data folder must exist.
    pub(crate) async fn build(config: &Config, registry: Registry) -> Result<Arc<AgentPool>, StartError> {
        let runs = &config.runs;
        let data = config
            .data
            .canonicalize()
            .map_err(|why| StartError::failed(format!("cannot open {}: {why}", config.data.display())))?;
        let context = SandboxContext { data: Some(data.clone()), ..SandboxContext::default() };
        let sandbox = Sandbox::probe(runs.sandbox.clone(), context).await;
        let sandbox = sandbox.map(Arc::new).map_err(|why| why.to_string());
        let mut tools = Tools::standard();
        tools.set_at_once(runs.tools_at_once);
        if let Ok(sandbox) = &sandbox {
            tools.add_commands(sandbox);
        }
        let allows_anonymous = config.bind.is_local() && !config.access.require_token;
        let mut web = runs.web.clone();
        if allows_anonymous {
            web = web.without_loopback(
                "this server requires no token, so a call could answer prompts; start the server with \
                 --require-token",
            );
        }
        web.add_to(&mut tools);
        if runs.child_runs {
            tools.add_child_runs();
        }
        let policy = match &runs.policy {
            None => Policy::default(),
            Some(path) => read_policy(path, &tools, &runs.mcp)?,
        };
        let (profiles, without) = config.agents.profiles(&tools);
        without.iter().for_each(|words| tracing::warn!("{words}"));
        Ok(Arc::new(AgentPool {
            profiles: Arc::new(profiles),
            registry,
            policy,
            sandbox,
            allowed: runs.workspaces.iter().map(|path| canonical_path(path)).collect(),
            data,
            at_once: runs.at_once,
            mcp_at_once: runs.mcp_at_once,
            allows_anonymous,
            keep: runs.keep,
            workspace_instructions: runs.workspace_instructions,
            experimental: runs.experimental,
            tools,
            mcp: runs.mcp.clone(),
            hooks: runs.hooks.clone(),
        }))
    }

    /// The configured agents.
    pub(crate) fn profiles(&self) -> &Arc<Profiles> {
        &self.profiles
    }

    /// Attaches an agent that executes the runs of a tenant.
    pub(crate) async fn attach_performer(&self, tenant: &str, engine: &Engine) -> Result<(), Error> {
        let agent = self.agent(tenant, engine);
        engine.catalogue().register_profiles(self.profiles.clone());
        engine.work().attach_performer(Arc::new(agent.clone()), self.at_once).await?;
        if let Some(keep) = self.keep {
            sweep_copies(agent, engine.clone(), keep);
        }
        Ok(())
    }

    /// Attaches an agent that executes no runs: for programs that only manage workspaces.
    pub(crate) fn attach_idle(&self, tenant: &str, engine: &Engine) -> Result<(), Error> {
        engine.work().attach_idle_performer(Arc::new(self.agent(tenant, engine)))
    }

    fn agent(&self, tenant: &str, engine: &Engine) -> Agent {
        let settings = Settings {
            models: self.registry.clone(),
            tools: self.tools.clone(),
            hooks: self.hooks.clone(),
            mcp: self
                .mcp
                .clone()
                .in_sandbox(self.sandbox.as_ref().ok().cloned(), self.no_network())
                .with_places(self.mcp_at_once),
            policy: self.policy.clone(),
            sandbox_layer: self.sandbox.as_ref().map_or("none".to_owned(), |sandbox| sandbox.label(false)),
            sandboxed: self.sandbox.as_ref().is_ok_and(|sandbox| sandbox.layer() != Layer::Off),
            no_network: self.no_network(),
            workspaces: Workspaces {
                home: self.data.join(FOLDER).join(tenant),
                allowed: self.allowed.clone(),
                forbidden: [self.data.clone()].into(),
            },
            system: None,
            workspace_instructions: self.workspace_instructions,
            experimental: self.experimental,
            profiles: self.profiles.clone(),
        };
        Agent::new(settings, engine.world().clone())
    }

    /// The reason to refuse network access: without required tokens, a command could answer the prompts of its own run.
    fn no_network(&self) -> Option<String> {
        let is_sandboxed = self.sandbox.as_ref().is_ok_and(|sandbox| sandbox.layer() != Layer::Off);
        let reaches_us = self.sandbox.as_ref().is_ok_and(|sandbox| sandbox.reaches_loopback(true));
        (is_sandboxed && reaches_us && self.allows_anonymous).then(|| {
            "a command with network access could answer prompts, because this server requires no token; \
             create a token with `recount token add` and start the server with --require-token"
                .to_owned()
        })
    }

    /// Whether this server has copies of workspaces of a tenant.
    pub(crate) async fn has_copies(&self, tenant: &str, world: &World) -> bool {
        let folder = self.data.join(FOLDER).join(tenant);
        let found = world.tasks.block(Kind::Effect, move || match std::fs::read_dir(folder) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        });
        // A folder that cannot be read may have some.
        found.await.unwrap_or(true)
    }

    /// Why runs execute no commands.
    pub(crate) fn no_commands(&self) -> Option<&str> {
        self.sandbox.as_ref().err().map(String::as_str)
    }

    /// Describes the sandbox for an operator.
    pub(crate) fn sandbox_summary(&self, allows_anonymous: bool) -> String {
        match &self.sandbox {
            Err(why) => why.clone(),
            Ok(sandbox) if allows_anonymous && sandbox.reaches_loopback(false) => format!(
                "commands of runs: {}; they can reach this server and answer prompts, because it requires no \
                 token",
                sandbox.detail()
            ),
            Ok(sandbox) => format!("commands of runs: {}", sandbox.detail()),
        }
    }

    /// Adds the health checks of sandbox, policy, models, agents and workspaces.
    pub(crate) async fn checks(&self, checks: &mut Vec<Check>, world: &World) {
        checks.push(match &self.sandbox {
            Ok(sandbox) if sandbox.layer() == Layer::Off => Check::note(
                "sandbox",
                sandbox.detail(),
                "commands of runs have all rights of the server; set sandbox.mode to auto",
            ),
            Ok(sandbox) if !sandbox.gaps().is_empty() => Check::note(
                "sandbox",
                format!("{}: {}", sandbox.label(false), sandbox.detail()),
                "install bubblewrap to enforce this; with sandbox.strict = true commands run only if it is \
                 enforced",
            ),
            Ok(sandbox) => Check::fine("sandbox", format!("{}: {}", sandbox.label(false), sandbox.detail())),
            Err(why) => Check::note("sandbox", why, "runs execute no commands until a sandbox works"),
        });
        checks.push(Check::fine(
            "policy",
            match self.policy.digest() {
                Some(digest) => format!("the rules in policy.file, digest {digest}"),
                None => "the default rules; no policy.file is configured".to_owned(),
            },
        ));
        let providers: Vec<&str> = self.registry.models.by_name.keys().map(String::as_str).collect();
        checks.push(match providers.as_slice() {
            [] => Check::fine("models", "no provider is configured; runs of kind agent_loop need one"),
            several => {
                let default = self.registry.default.as_ref();
                let default = default.map_or("no default".to_owned(), |name| format!("default {name}"));
                Check::fine("models", format!("{}; {default}", several.join(", ")))
            }
        });
        let agents: Vec<&str> = self.profiles.iter().map(|profile| profile.name.as_str()).collect();
        checks.push(match agents.as_slice() {
            [] => Check::fine("agents", "no agents are configured; applications have no agent to use"),
            several => Check::fine("agents", several.join(", ")),
        });
        let servers = self.mcp.in_words();
        checks.push(match servers.as_slice() {
            [] => Check::fine("mcp", "no MCP servers are configured"),
            several => Check::fine("mcp", several.join(", ")),
        });
        let hooks = self.hooks.in_words();
        checks.push(match hooks.as_slice() {
            [] => Check::fine("hooks", "no hooks are configured"),
            several => Check::fine("hooks", several.join(", ")),
        });
        let folder = self.data.join(FOLDER);
        let size = world.tasks.block(Kind::Effect, move || folder_size_text(&folder)).await;
        checks.push(match size {
            Ok(size) => Check::fine("workspaces", size),
            Err(_) => Check::note("workspaces", "cannot measure the workspaces", "see the server's log"),
        });
    }
}

/// Deletes workspace copies that were unused for so long, at intervals.
fn sweep_copies(agent: Agent, engine: Engine, keep: Duration) {
    let tasks = engine.world().tasks.clone();
    tasks.spawn(Kind::Service, move |mut shutdown| async move {
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = tokio::time::sleep(limits::SWEEP_EVERY_DEFAULT) => {}
            }
            match agent.sweep(&engine, keep).await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(deleted, "unused workspaces were deleted"),
                Err(error) => tracing::warn!(%error, "cannot delete unused workspaces"),
            }
        }
    });
}

fn read_policy(path: &Path, tools: &Tools, mcp: &McpServers) -> Result<Policy, StartError> {
    let unusable = |why: String| StartError::usage(format!("policy.file: {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|why| unusable(why.to_string()))?;
    let policy = Policy::parse(&text).map_err(|why| unusable(why.to_string()))?;
    // The tools of a server are known only when a run connects to it or a connection is recorded.
    let prefix = |server: &str| format!("{}{server}__", mcp::PREFIX);
    let mut servers: Vec<String> = mcp.names().map(prefix).collect();
    for (rule, tool) in policy.recorded() {
        let server = mcp::server_of(tool).ok_or_else(|| {
            let such = "use `recorded` with tools of one MCP server, such as mcp__files__*";
            unusable(format!("rule `{rule}`: `tool` is `{tool}`; {such}"))
        })?;
        servers.push(prefix(server));
    }
    // Rules for commands are valid on a machine without a sandbox, where no command runs.
    let names: Vec<&str> = tools.names().chain(COMMAND_TOOLS.iter().copied()).collect();
    policy.check_tools(names.into_iter(), &servers).map_err(|why| unusable(why.to_string()))?;
    Ok(policy)
}

/// Resolves links, because paths are compared resolved. A missing path stays as written.
fn canonical_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|why| {
        tracing::warn!(path = %path.display(), %why, "cannot open a folder of workspaces.allow");
        path.to_owned()
    })
}

/// Describes the number and size of files below a folder, counted up to a bound. Blocks.
fn folder_size_text(folder: &Path) -> String {
    let (mut waiting, mut entries, mut bytes) = (vec![folder.to_owned()], 0_usize, 0_u64);
    while let Some(next) = waiting.pop() {
        let Ok(listed) = std::fs::read_dir(&next) else { continue };
        for entry in listed.flatten() {
            entries += 1;
            if entries > limits::WORKSPACE_ENTRIES_COUNTED_MAX {
                let more = limits::WORKSPACE_ENTRIES_COUNTED_MAX;
                return format!("more than {more} files and folders with {} MiB", bytes >> 20);
            }
            match entry.metadata() {
                Ok(about) if about.is_dir() => waiting.push(entry.path()),
                Ok(about) => bytes += about.len(),
                // It was removed meanwhile.
                Err(_) => {}
            }
        }
    }
    format!("{entries} files and folders with {} MiB", bytes >> 20)
}
