//! The pool where no agent can be executed. Recorded runs, reading and prompts do not need one.

use std::sync::Arc;

use recount_agent::model::Registry;
use recount_agent::tools::Tools;
use recount_api::admin::Check;
use recount_engine::{Engine, Error, Profiles};
use recount_world::World;

pub(crate) use self::ListedAgents as AgentPool;
use crate::{Config, StartError};

/// What operators read about own runs.
const SUMMARY: &str = "this server records and serves runs; agents are executed on Linux and macOS only";

/// The configured agents, for listings.
pub(crate) struct ListedAgents {
    profiles: Arc<Profiles>,
}

impl ListedAgents {
    pub(crate) async fn build(config: &Config, _: Registry) -> Result<Arc<ListedAgents>, StartError> {
        let (profiles, _) = config.agents.profiles(&Tools::standard());
        Ok(Arc::new(ListedAgents { profiles: Arc::new(profiles) }))
    }

    /// The configured agents.
    pub(crate) fn profiles(&self) -> &Arc<Profiles> {
        &self.profiles
    }

    /// Attaches none: the engine refuses own runs.
    pub(crate) async fn attach_performer(&self, _: &str, engine: &Engine) -> Result<(), Error> {
        engine.catalogue().register_profiles(self.profiles.clone());
        Ok(())
    }

    /// The same: the engine refuses requests that need a workspace.
    pub(crate) fn attach_idle(&self, _: &str, _: &Engine) -> Result<(), Error> {
        Ok(())
    }

    /// None: no run is executed.
    pub(crate) async fn has_copies(&self, _: &str, _: &World) -> bool {
        false
    }

    /// Why runs execute no commands.
    pub(crate) fn no_commands(&self) -> Option<&str> {
        Some(SUMMARY)
    }

    pub(crate) fn sandbox_summary(&self, _: bool) -> String {
        SUMMARY.to_owned()
    }

    pub(crate) async fn checks(&self, checks: &mut Vec<Check>, _: &World) {
        checks.push(Check::note("agents", SUMMARY, "run a server on Linux or macOS to execute agents"));
    }
}
