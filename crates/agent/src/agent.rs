//! The agent: its settings, the model and tools of a run, and the conversation before a run.
//!
//! It must not know how a run is executed. Start with [`Agent`]; `perform` implements the engine's interface.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use recount_engine::{
    Damage, Error, Failure, ListQuery, Profile, Profiles, ReadHandle, RunConfig, RunRow, WorkerExit,
    WorkerSession,
};
use recount_event::family::run::{Queued, ResumedFromEvent, RunKind};
use recount_event::{Code, Event, ForeignId, RunId, SessionId, codec};
use recount_world::World;
use tokio::time::Instant;

use crate::client;
use crate::conversation::{Conversation, Picture};
use crate::conversation_cache::{self, CachedConversation, ConversationCache};
use crate::experimental::Experimental;
use crate::hooks::Hooks;
use crate::limits;
use crate::mcp::{self, McpServers};
use crate::model::{Capability, Model, ModelName, Registry, ToolSpec, Usage};
use crate::policy::Policy;
use crate::system::CommandFacts;
use crate::tool::Tool;
use crate::tools::Tools;
use crate::work_places::WorkPlaces;
use crate::workspace::Workspaces;
use crate::workspace::claims::Claims;

/// The settings of the agent.
pub struct Settings {
    pub models: Registry,
    pub tools: Tools,
    /// The MCP servers that runs may use.
    pub mcp: McpServers,
    /// Programs that run before and after calls.
    pub hooks: Hooks,
    pub policy: Policy,
    /// The name of the sandbox layer.
    pub sandbox_layer: String,
    /// Whether the layer restricts commands.
    pub sandboxed: bool,
    /// Why commands get no network access, if the sandbox cannot limit it.
    pub no_network: Option<String>,
    pub workspaces: Workspaces,
    /// The system prompt of runs without one; the default is [`default_system`](crate::default_system).
    pub system: Option<String>,
    /// Whether runs read the `AGENTS.md` files of their workspaces, unless the run turns it off.
    pub workspace_instructions: bool,
    pub experimental: Experimental,
    /// The configured agents.
    pub profiles: Arc<Profiles>,
}

impl Settings {
    /// The default settings: no commands, no policy rules.
    pub fn new(models: Registry, tools: Tools, workspaces: Workspaces) -> Self {
        Settings {
            models,
            tools,
            mcp: McpServers::default(),
            hooks: Hooks::default(),
            policy: Policy::default(),
            sandbox_layer: "none".to_owned(),
            sandboxed: false,
            no_network: None,
            workspaces,
            system: None,
            workspace_instructions: true,
            experimental: Experimental::default(),
            profiles: Arc::default(),
        }
    }
}

/// Starts and supports runs. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) settings: Arc<Settings>,
    pub(crate) world: World,
    pub(crate) conversation_cache: Arc<ConversationCache>,
    /// The folders to which changes are being applied, and those that are being copied.
    pub(crate) claims: Claims,
}

/// The conversation before a run.
pub(crate) struct EarlierConversation {
    pub(crate) conversation: Conversation,
    /// The number of runs in it.
    pub(crate) runs: usize,
    /// Whether all of these runs have ended.
    pub(crate) is_final: bool,
    /// When it was read from the log.
    pub(crate) read_at: Instant,
}

/// The model of a run, and its provider.
pub(crate) struct ChosenModel {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) provides: Arc<dyn Model>,
    /// The requested model and the reason, if a rule replaced it.
    pub(crate) rewrote: Option<(String, String)>,
}

impl ChosenModel {
    pub(crate) fn can(&self, capability: Capability) -> bool {
        self.provides.can(&self.model, capability)
    }
}

impl Agent {
    pub fn new(settings: Settings, world: World) -> Self {
        Agent {
            settings: Arc::new(settings),
            world,
            conversation_cache: Arc::default(),
            claims: Claims::default(),
        }
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.settings.workspaces
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.settings.policy
    }

    pub(crate) fn system(&self) -> Option<&str> {
        self.settings.system.as_deref()
    }

    pub(crate) fn reads_instructions(&self, config: &RunConfig) -> bool {
        self.settings.workspace_instructions && config.workspace_instructions != Some(false)
    }

    /// How commands of a run are restricted, if one of these tools runs commands.
    pub(crate) fn command_facts(&self, config: &RunConfig, names: &[&str]) -> Option<CommandFacts> {
        let runs = |name: &&str| self.tool(name).is_some_and(|tool| tool.kind() == "shell");
        let facts = CommandFacts { sandboxed: self.settings.sandboxed, network: config.network };
        names.iter().any(runs).then_some(facts)
    }

    pub(crate) fn profile(&self, name: &str) -> Option<&Profile> {
        self.settings.profiles.get(name).ok()
    }

    /// Whether a run needs a workspace: only tools that access files or run commands do.
    pub(crate) fn needs_workspace(&self, config: &RunConfig) -> bool {
        let uses_workspace =
            |tool: &Arc<dyn Tool>| matches!(tool.kind(), "shell" | "git" | "file" | "search");
        let names = self.settings.tools.names().filter(|name| self.offers(config, name));
        names.filter_map(|name| self.tool(name)).any(uses_workspace)
            || self.settings.mcp.needs_workspace(config.tools.as_deref())
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.settings.tools.get(name).ok()
    }

    /// Whether calls of a tool never change anything.
    pub(crate) fn only_reads(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.reads_only())
    }

    pub(crate) fn tool_places(&self) -> &WorkPlaces {
        self.settings.tools.places()
    }

    /// Whether a run may use a tool.
    pub(crate) fn offers(&self, config: &RunConfig, name: &str) -> bool {
        !Agent::is_too_deep(config, name)
            && config.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| mcp::is_meant(tool, name)))
    }

    /// The tools of a run for a model: those of the server, and those that the application executes.
    pub(crate) fn tool_specs(&self, config: &RunConfig) -> Vec<ToolSpec> {
        let names = self.own_names(config);
        let mut specs = self.settings.tools.specs(&names).unwrap_or_default();
        specs.extend(client::specs(config, &names));
        specs
    }

    /// The names of the server's tools. A client tool replaces a tool with the same name.
    fn own_names(&self, config: &RunConfig) -> Vec<&str> {
        // An unavailable tool is offered only if the run names it, so that the log has the reason.
        let is_usable = |name: &str| {
            config.tools.is_some() || self.tool(name).is_some_and(|tool| tool.unavailable().is_none())
        };
        let is_own =
            |name: &&str| self.offers(config, name) && is_usable(name) && !client::carries_out(config, name);
        self.settings.tools.names().filter(is_own).collect()
    }

    /// The client tool that a model calls by this name.
    pub(crate) fn client_tool_of(&self, config: &RunConfig, name: &str) -> Option<String> {
        if config.client_tools.is_empty() {
            return None;
        }
        client::tool_of(config, &self.own_names(config), name)
    }

    /// The cost of a turn, if its model has a price.
    pub(crate) fn cost(&self, provider: &str, model: &str, usage: Usage) -> Option<u64> {
        self.settings.models.prices.cost_micros_usd(&format!("{provider}/{model}"), usage)
    }

    /// Chooses the model of a run.
    pub(crate) fn choose_model(&self, queued: &Queued) -> Result<ChosenModel, String> {
        let named = self.model_name(queued.provider.as_deref(), queued.model.as_deref())?;
        let requested = format!("{}/{}", named.provider, named.model);
        let (name, rewrote) = match self.settings.models.rewrites.apply(&requested) {
            Some(rewritten) => (rewritten.to.parse()?, Some((named.model, rewritten.reason))),
            None => (named, None),
        };
        let ModelName { provider, model } = name;
        let Some(provides) = self.settings.models.models.by_name.get(&provider).cloned() else {
            return Err(format!(
                "the model \"{provider}/{model}\" has the unknown provider {provider:?}; {}",
                self.known_providers()
            ));
        };
        Ok(ChosenModel { provider, model, provides, rewrote })
    }

    /// The full name of the model, from an optional provider and an optional model. In a name with a slash the part before
    /// it is the provider: text and keys must never go to another one because of a typing error.
    fn model_name(&self, provider: Option<&str>, model: Option<&str>) -> Result<ModelName, String> {
        let known = &self.settings.models.models.by_name;
        let default = self.settings.models.default.as_ref();
        match (provider, model) {
            (Some(provider), Some(model)) => Ok(ModelName { provider: provider.into(), model: model.into() }),
            (None, Some(name)) if name.contains('/') => {
                let named: Result<ModelName, _> = name.parse();
                named.map_err(|_| format!("{name:?} is not a model name; {}", self.known_providers()))
            }
            (None, Some(name)) => match (default, known.keys().next()) {
                (Some(default), _) => {
                    Ok(ModelName { provider: default.provider.clone(), model: name.into() })
                }
                (None, Some(only)) if known.len() == 1 => {
                    Ok(ModelName { provider: only.clone(), model: name.into() })
                }
                _ => {
                    Err(format!("the model {name:?} has no configured provider; {}", self.known_providers()))
                }
            },
            (Some(provider), None) => match default {
                Some(default) if default.provider == provider => Ok(default.clone()),
                _ => Err(format!("no model of provider {provider:?} is given; send provider/model")),
            },
            (None, None) => default.cloned().ok_or_else(|| {
                format!("no model is given and no default is configured; {}", self.known_providers())
            }),
        }
    }

    /// The list of configured providers for a message.
    fn known_providers(&self) -> String {
        let names: Vec<&str> = self.settings.models.models.by_name.keys().map(String::as_str).collect();
        match names.as_slice() {
            [] => "no providers are configured; add one under [models.providers] in the configuration"
                .to_owned(),
            names => format!("send provider/model; configured providers: {}", names.join(", ")),
        }
    }

    /// The conversation before a run: the seed messages and earlier runs of its session, or the run that it resumes, up
    /// to the event in `resumed`. An unreadable event is an error, because nothing may be left out silently.
    pub(crate) async fn earlier_conversation(
        &self,
        worker_session: &WorkerSession,
        resumed: Option<(RunId, u64)>,
    ) -> Result<EarlierConversation, WorkerExit> {
        let mut is_first = false;
        if let Some(session) = worker_session.state().session_id().filter(|_| resumed.is_none()) {
            let newest = match worker_session.previous() {
                Some(previous) => Some(previous),
                None => {
                    let newest = self.session_runs(worker_session, session, 1).await?;
                    is_first = newest.is_empty();
                    newest.first().map(|row| row.id)
                }
            };
            let cached =
                newest.and_then(|last| self.conversation_cache.take(session, last, recount_world::moment()));
            if let Some(CachedConversation { conversation, runs, read_at, last: _ }) = cached {
                return Ok(EarlierConversation { conversation, runs, read_at, is_final: true });
            }
        }
        let read_at = recount_world::moment();
        let mut conversation = Conversation::default();
        if let Some(session) = worker_session.state().session_id() {
            for message in worker_session.catalogue().seed(session).await? {
                // Each was validated when the session was created.
                serde_json::from_str(message.text()).iter().for_each(|message| conversation.seed(message));
            }
        }
        let (earlier, is_final) =
            if is_first { (Vec::new(), true) } else { self.earlier_runs(worker_session, resumed).await? };
        let runs = earlier.len();
        for (run, until) in earlier {
            each_event(worker_session.read(), run, until, |event| conversation.event(event)).await?;
            conversation.next_run();
        }
        Ok(EarlierConversation { conversation, runs, read_at, is_final })
    }

    /// Caches the conversation of a session up to the end of this run.
    pub(crate) fn cache_conversation(&self, worker_session: &WorkerSession, earlier: EarlierConversation) {
        if let Some(session) = worker_session.state().session_id().filter(|_| earlier.is_final) {
            let EarlierConversation { mut conversation, runs, read_at, is_final: _ } = earlier;
            conversation.next_run();
            let cached =
                CachedConversation { conversation, last: worker_session.run(), runs: runs + 1, read_at };
            self.conversation_cache.put(session, cached);
        }
    }

    /// The newest runs of a session before this one, newest first.
    async fn session_runs(
        &self,
        worker_session: &WorkerSession,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<RunRow>, WorkerExit> {
        let mut query = ListQuery { limit, ..ListQuery::default() };
        query.after = Some(worker_session.run().to_string());
        Ok(worker_session.catalogue().list_session_runs(session, &query).await?.items)
    }

    /// The runs that this run continues, oldest first, each with the last event to use; and whether all of them have
    /// ended.
    async fn earlier_runs(
        &self,
        worker_session: &WorkerSession,
        resumed: Option<(RunId, u64)>,
    ) -> Result<(Vec<(RunId, u64)>, bool), WorkerExit> {
        let mut found = Vec::new();
        let mut next = resumed;
        if let Some(session) = worker_session.state().session_id() {
            let mut listed = self.session_runs(worker_session, session, limits::EARLIER_RUNS_MAX).await?;
            listed.truncate(conversation_cache::runs_to_use(listed.len()));
            let is_final = listed.iter().all(RunRow::has_ended);
            for row in listed {
                let until = match next {
                    Some((run, until)) if run == row.id => until,
                    // The later run branched off before this one.
                    Some(_) => continue,
                    None => u64::MAX,
                };
                if row.kind == RunKind::AgentLoop.as_str() {
                    found.push((row.id, until));
                }
                // Only a run with a prior run can resume it.
                next = match row.prior_run_id {
                    Some(_) => resumed_from(worker_session.read(), row.id).await?,
                    None => None,
                };
            }
            found.reverse();
            return Ok((found, is_final));
        }
        while let Some((run, until)) = next.take() {
            found.push((run, until));
            if found.len() >= limits::EARLIER_RUNS_MAX {
                break;
            }
            next = resumed_from(worker_session.read(), run).await?;
        }
        found.reverse();
        Ok((found, false))
    }

    /// Fetches the bytes of pictures. Missing and too large pictures are left out.
    pub(crate) async fn fetch_pictures(
        &self,
        worker_session: &WorkerSession,
        pictures: &[Picture],
    ) -> BTreeMap<ForeignId, Bytes> {
        let mut found = BTreeMap::new();
        for picture in pictures.iter().rev().take(limits::PICTURES_MAX) {
            if let Some(bytes) = picture_bytes(worker_session.read(), picture).await {
                found.insert(picture.artifact_id.clone(), bytes);
            }
        }
        found
    }
}

/// Calls `each` with the events of an earlier run up to a sequence, in order. Erased runs and pruned events are
/// skipped. An unreadable event is an error, because the rest would look complete without it.
pub(crate) async fn each_event(
    read: &ReadHandle,
    run: RunId,
    until: u64,
    mut each: impl FnMut(&Event),
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let (page, has_more) = match read.read_run(run, after, limits::EARLIER_PAGE).await {
            Ok(page) => page,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(with_run(run, error)),
        };
        after = page.last().map(|(sequence, _)| *sequence).or(after);
        for (sequence, bytes) in page.iter().filter(|(sequence, _)| *sequence <= until) {
            let event = codec::decode(bytes).map_err(|why| {
                damaged(
                    run,
                    Some(*sequence..=*sequence),
                    format!("{run} cannot be read at {sequence}: {why}"),
                )
            })?;
            each(&event);
        }
        if !has_more || after >= Some(until) {
            return Ok(());
        }
    }
}

/// Whether a run was erased or never existed.
fn is_missing(error: &Error) -> bool {
    matches!(error.code(), Code::RunErased | Code::RunNotFound)
}

fn damaged(run: RunId, sequences: Option<RangeInclusive<u64>>, message: String) -> Error {
    let damage = Damage { stream: Some(run.to_string().into()), sequences, positions: None };
    Failure { damage: Some(Box::new(damage)), ..Failure::new(Code::RunDamaged, message) }.into()
}

/// Adds the run to a read error: the store may not know whose events are damaged.
fn with_run(run: RunId, error: Error) -> Error {
    match error.code() {
        Code::StoreCorrupt => damaged(run, None, format!("{run} cannot be read: {error}")),
        _ => error,
    }
}

/// A description of the damaged events, if these caused the error.
pub(crate) fn damaged_events(error: &Error) -> Option<String> {
    let Damage { stream: Some(run), sequences, .. } = error.damage()? else { return None };
    Some(match sequences {
        Some(range) => format!("events {} to {} of {run} are damaged", range.start(), range.end()),
        None => format!("{run} is damaged"),
    })
}

/// The run that another one resumes, and the last of its events to use.
async fn resumed_from(read: &ReadHandle, run: RunId) -> Result<Option<(RunId, u64)>, Error> {
    match read.resumed_from(run).await {
        Ok(resumed) => Ok(resumed.as_ref().and_then(resume_point)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(with_run(run, error)),
    }
}

/// The run and the event in a `run.resumed_from_event` event.
pub(crate) fn resume_point(resumed: &ResumedFromEvent) -> Option<(RunId, u64)> {
    Some((resumed.from_run_id.parse().ok()?, resumed.from_sequence))
}

async fn picture_bytes(read: &ReadHandle, picture: &Picture) -> Option<Bytes> {
    let rows = read.find_artifacts(&picture.artifact_id).await.ok()?;
    let bytes = read.artifact_bytes(rows.first()?).await.ok()?;
    (bytes.len() <= limits::PICTURE_BYTES_MAX).then_some(bytes)
}
