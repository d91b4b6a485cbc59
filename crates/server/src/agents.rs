//! Builds what executes own runs from the configuration.
//!
//! Start at [`AgentPool`]. Agents need Linux or macOS; on Windows a pool has only the settings that listings show.

#[cfg(unix)]
mod pool;
#[cfg(not(unix))]
#[path = "agents/settings_only.rs"]
mod pool;

use recount_agent::model::Registry;
use recount_agent::tools::{COMMAND_TOOLS, Tools};
use recount_agent::web::{WEB_SEARCH, WEB_TOOLS};
use recount_agent::{CommandFacts, SystemFacts, WorkspaceFacts};
use recount_world::World;

pub(crate) use self::pool::AgentPool;
use crate::{Config, StartError};

/// Builds the configured providers. Their keys are secrets, so this happens before anything is logged.
pub(crate) fn registry(config: &Config, world: &World) -> Result<Registry, StartError> {
    let environment = |name: &str| std::env::var(name).ok();
    let built = Registry::build(&config.runs.models, &environment, &config.runs.folder, &world.clock);
    built.map_err(|why| StartError::usage(why.to_string()))
}

/// The default system prompt of a run with all tools on a copy of a folder. Assumes that the configured sandbox works.
pub fn default_system_prompt(config: &Config) -> String {
    let standard = Tools::standard();
    let is_found = |name: &&str| *name != WEB_SEARCH || config.runs.web.search_in_words().is_some();
    let web = WEB_TOOLS.iter().copied().filter(is_found);
    let mut names: Vec<&str> = standard.names().chain(COMMAND_TOOLS.iter().copied()).chain(web).collect();
    names.sort_unstable();
    let sandboxed = config.runs.sandbox.mode != recount_agent::sandbox::Mode::Off;
    recount_agent::default_system(&SystemFacts {
        tools: &names,
        workspace: WorkspaceFacts::Copy,
        commands: Some(CommandFacts { sandboxed, network: false }),
    })
}
