//! The agent: what it works with, which model and tools a run gets, and what was said before a run.
//!
//! It must not know how a run is worked at. Look at [`Agent`]; what it promises the engine is in `perform`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use recount_engine::{
    Damage, Desk, Error, Failure, Left, ListQuery, Order, Profile, Profiles, ReadHandle, RunRow,
};
use recount_event::family::run::{Queued, ResumedFromEvent, RunKind};
use recount_event::{Code, Event, ForeignId, RunId, SessionId, codec};
use recount_world::World;
use tokio::time::Instant;

use crate::client;
use crate::conversation::{Conversation, Picture};
use crate::hooks::Hooks;
use crate::limits;
use crate::mcp::{self, McpServers};
use crate::model::{Capability, Model, ModelName, Registry, ToolSpec, Usage};
use crate::policy::Policy;
use crate::recall::{self, Recall, Remembered};
use crate::system::CommandFacts;
use crate::tool::Tool;
use crate::tools::Tools;
use crate::work_places::WorkPlaces;
use crate::workspace::Workspaces;
use crate::workspace::claims::Claims;

/// What an agent works with.
pub struct Settings {
    pub models: Registry,
    pub tools: Tools,
    /// The MCP servers that runs may use.
    pub mcp: McpServers,
    /// Programs that run before and after calls.
    pub hooks: Hooks,
    pub policy: Policy,
    /// How commands are kept apart: the layer's name, and whether it keeps anything apart.
    pub sandbox_layer: String,
    pub sandboxed: bool,
    /// Why no command may have the network, where it would reach more than it should.
    pub no_network: Option<String>,
    pub workspaces: Workspaces,
    /// The system prompt of runs for which nothing else is said; without it [`default_system`](crate::default_system).
    pub system: Option<String>,
    /// Whether runs read the `AGENTS.md` files of their workspaces, unless an order says no.
    pub workspace_instructions: bool,
    pub experimental: Experimental,
    /// The agents that are configured.
    pub profiles: Arc<Profiles>,
}

/// Which experimental events runs may have; `docs/event-protocol-experimental.md` describes them. Runs that start runs have
/// a tool instead of a flag here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Experimental {
    /// `run.branched_from`.
    pub branches: bool,
    /// `assistant.tool_call_input_delta`.
    pub input_deltas: bool,
    /// `assistant.image_block`.
    pub images: bool,
}

impl Settings {
    /// The defaults beside what every agent needs: no commands, no policy of its own.
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

/// See the file's head. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) settings: Arc<Settings>,
    pub(crate) world: World,
    pub(crate) recall: Arc<Recall>,
    /// The folders that changes are being brought back to, and those that are being copied.
    pub(crate) claims: Claims,
}

/// What was said before a run.
pub(crate) struct Past {
    pub(crate) conversation: Conversation,
    /// How many runs it was said in, and whether all of them are over.
    pub(crate) runs: usize,
    pub(crate) is_over: bool,
    /// When the log was read for it.
    pub(crate) read: Instant,
}

/// The model that a run asks, and who provides it.
pub(crate) struct Chosen {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) provides: Arc<dyn Model>,
    /// What was asked for, and why a rule chose another.
    pub(crate) rewrote: Option<(String, String)>,
}

impl Chosen {
    pub(crate) fn can(&self, capability: Capability) -> bool {
        self.provides.can(&self.model, capability)
    }
}

impl Agent {
    pub fn new(settings: Settings, world: World) -> Self {
        Agent { settings: Arc::new(settings), world, recall: Arc::default(), claims: Claims::default() }
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

    pub(crate) fn reads_instructions(&self, order: &Order) -> bool {
        self.settings.workspace_instructions && order.workspace_instructions != Some(false)
    }

    /// How commands of a run are held, where one of these tools runs any.
    pub(crate) fn command_facts(&self, order: &Order, names: &[&str]) -> Option<CommandFacts> {
        let runs = |name: &&str| self.tool(name).is_some_and(|tool| tool.kind() == "shell");
        let facts = CommandFacts { sandboxed: self.settings.sandboxed, network: order.network };
        names.iter().any(runs).then_some(facts)
    }

    pub(crate) fn profile(&self, name: &str) -> Option<&Profile> {
        self.settings.profiles.get(name).ok()
    }

    /// Whether a run needs a folder to work in: only what looks at files or runs commands does.
    pub(crate) fn needs_workspace(&self, order: &Order) -> bool {
        let works_there = |tool: &Arc<dyn Tool>| matches!(tool.kind(), "shell" | "git" | "file" | "search");
        let names = self.settings.tools.names().filter(|name| self.offers(order, name));
        names.filter_map(|name| self.tool(name)).any(works_there)
            || self.settings.mcp.needs_workspace(order.tools.as_deref())
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.settings.tools.get(name).ok()
    }

    /// Whether no call of a tool changes anything.
    pub(crate) fn only_reads(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.reads_only())
    }

    pub(crate) fn tool_places(&self) -> &WorkPlaces {
        self.settings.tools.places()
    }

    /// Whether a run may use a tool.
    pub(crate) fn offers(&self, order: &Order, name: &str) -> bool {
        !Agent::is_too_deep(order, name)
            && order.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| mcp::is_meant(tool, name)))
    }

    /// The tools of a run, as a model is told of them: ours, and those that the application carries out.
    pub(crate) fn tool_specs(&self, order: &Order) -> Vec<ToolSpec> {
        let names = self.own_names(order);
        let mut specs = self.settings.tools.specs(&names).unwrap_or_default();
        specs.extend(client::specs(order, &names));
        specs
    }

    /// Those of ours, by name. Where an application came to bring one of the same name, it is the application's.
    fn own_names(&self, order: &Order) -> Vec<&str> {
        // One that no call of can succeed is offered where the order names it, so that the log says why it is not.
        let works = |name: &str| {
            order.tools.is_some() || self.tool(name).is_some_and(|tool| tool.unavailable().is_none())
        };
        let is_own =
            |name: &&str| self.offers(order, name) && works(name) && !client::carries_out(order, name);
        self.settings.tools.names().filter(is_own).collect()
    }

    /// The name of the tool that a model means.
    pub(crate) fn meant(&self, order: &Order, name: &str) -> Option<String> {
        if order.client_tools.is_empty() {
            return None;
        }
        client::meant(order, &self.own_names(order), name)
    }

    /// What a turn cost, where its model has a price.
    pub(crate) fn cost(&self, provider: &str, model: &str, usage: Usage) -> Option<u64> {
        self.settings.models.prices.cost_micros_usd(&format!("{provider}/{model}"), usage)
    }

    /// Who answers a run.
    pub(crate) fn choose(&self, queued: &Queued) -> Result<Chosen, String> {
        let named = self.name(queued.provider.as_deref(), queued.model.as_deref())?;
        let asked = format!("{}/{}", named.provider, named.model);
        let (name, rewrote) = match self.settings.models.rewrites.apply(&asked) {
            Some(rewritten) => (rewritten.to.parse()?, Some((named.model, rewritten.reason))),
            None => (named, None),
        };
        let ModelName { provider, model } = name;
        let Some(provides) = self.settings.models.models.by_name.get(&provider).cloned() else {
            return Err(self.no_provider(&provider));
        };
        Ok(Chosen { provider, model, provides, rewrote })
    }

    /// Which model is meant, by what was said of it.
    fn name(&self, provider: Option<&str>, model: Option<&str>) -> Result<ModelName, String> {
        let known = &self.settings.models.models.by_name;
        let default = self.settings.models.default.as_ref();
        match (provider, model) {
            (Some(provider), Some(model)) => Ok(ModelName { provider: provider.into(), model: model.into() }),
            (None, Some(name)) => match name.split_once('/') {
                Some((provider, model)) if known.contains_key(provider) && !model.is_empty() => {
                    Ok(ModelName { provider: provider.into(), model: model.into() })
                }
                _ => match (default, known.keys().next()) {
                    (Some(default), _) => {
                        Ok(ModelName { provider: default.provider.clone(), model: name.into() })
                    }
                    (None, Some(only)) if known.len() == 1 => {
                        Ok(ModelName { provider: only.clone(), model: name.into() })
                    }
                    _ => Err(format!(
                        "the model {name:?} names no provider that is configured; {}",
                        self.known()
                    )),
                },
            },
            (Some(provider), None) => match default {
                Some(default) if default.provider == provider => Ok(default.clone()),
                _ => Err(format!("no model of {provider:?} is named; send provider/model")),
            },
            (None, None) => default
                .cloned()
                .ok_or_else(|| format!("no model is named, and none is the default; {}", self.known())),
        }
    }

    fn no_provider(&self, name: &str) -> String {
        format!("there is no provider {name:?}; {}", self.known())
    }

    /// Which providers there are, in words.
    fn known(&self) -> String {
        let names: Vec<&str> = self.settings.models.models.by_name.keys().map(String::as_str).collect();
        match names.as_slice() {
            [] => "none is configured: see [models.providers] in the configuration".to_owned(),
            names => format!("send provider/model with one of {}", names.join(", ")),
        }
    }

    /// What was said before a run: before its session began and in the earlier runs of that, or in the run that it goes
    /// on from (`resumed`), up to that place. Fails where one of them cannot be read: nothing is left out unsaid.
    pub(crate) async fn earlier(&self, desk: &Desk, resumed: Option<(RunId, u64)>) -> Result<Past, Left> {
        let mut is_first = false;
        if let Some(session) = desk.state().session_id().filter(|_| resumed.is_none()) {
            let newest = match desk.previous() {
                Some(previous) => Some(previous),
                None => {
                    let newest = self.session_runs(desk, session, 1).await?;
                    is_first = newest.is_empty();
                    newest.first().map(|row| row.id)
                }
            };
            let recalled = newest.and_then(|last| self.recall.take(session, last, recount_world::moment()));
            if let Some(Remembered { conversation, runs, read, last: _ }) = recalled {
                return Ok(Past { conversation, runs, read, is_over: true });
            }
        }
        let read = recount_world::moment();
        let mut conversation = Conversation::default();
        if let Some(session) = desk.state().session_id() {
            for message in desk.catalogue().seed(session).await? {
                // Each was read when the session was opened.
                serde_json::from_str(message.text()).iter().for_each(|message| conversation.seed(message));
            }
        }
        let (before, is_over) =
            if is_first { (Vec::new(), true) } else { self.before(desk, resumed).await? };
        let runs = before.len();
        for (run, until) in before {
            each_event(desk.read(), run, until, |event| conversation.event(event)).await?;
            conversation.next_run();
        }
        Ok(Past { conversation, runs, read, is_over })
    }

    /// Keeps what was said in a session up to the end of this run, for the next.
    pub(crate) fn remember(&self, desk: &Desk, past: Past) {
        if let Some(session) = desk.state().session_id().filter(|_| past.is_over) {
            let Past { mut conversation, runs, read, is_over: _ } = past;
            conversation.next_run();
            self.recall.put(session, Remembered { conversation, last: desk.run(), runs: runs + 1, read });
        }
    }

    /// The newest runs of a session before this one, newest first.
    async fn session_runs(&self, desk: &Desk, session: SessionId, limit: usize) -> Result<Vec<RunRow>, Left> {
        let mut query = ListQuery { limit, ..ListQuery::default() };
        query.after = Some(desk.run().to_string());
        Ok(desk.catalogue().list_session_runs(session, &query).await?.items)
    }

    /// The runs whose conversation goes on in this one, oldest first, each with the last event that counts; and whether
    /// nothing will be added to them any more.
    async fn before(
        &self,
        desk: &Desk,
        resumed: Option<(RunId, u64)>,
    ) -> Result<(Vec<(RunId, u64)>, bool), Left> {
        let mut found = Vec::new();
        let mut next = resumed;
        if let Some(session) = desk.state().session_id() {
            let mut listed = self.session_runs(desk, session, limits::EARLIER_RUNS_MAX).await?;
            listed.truncate(recall::counted(listed.len()));
            let is_over = listed.iter().all(RunRow::has_ended);
            for row in listed {
                let until = match next {
                    Some((run, until)) if run == row.id => until,
                    // The run behind it branched off before this one.
                    Some(_) => continue,
                    None => u64::MAX,
                };
                if row.kind == RunKind::AgentLoop.as_str() {
                    found.push((row.id, until));
                }
                // Only a run that has one before it can go on from it.
                next = match row.prior_run_id {
                    Some(_) => resumed_from(desk.read(), row.id).await?,
                    None => None,
                };
            }
            found.reverse();
            return Ok((found, is_over));
        }
        while let Some((run, until)) = next.take() {
            found.push((run, until));
            if found.len() >= limits::EARLIER_RUNS_MAX {
                break;
            }
            next = resumed_from(desk.read(), run).await?;
        }
        found.reverse();
        Ok((found, false))
    }

    /// The bytes of pictures, those that are there and not too large.
    pub(crate) async fn fetch(&self, desk: &Desk, wanted: &[Picture]) -> BTreeMap<ForeignId, Bytes> {
        let mut found = BTreeMap::new();
        for picture in wanted.iter().rev().take(limits::PICTURES_MAX) {
            if let Some(bytes) = picture_bytes(desk.read(), picture).await {
                found.insert(picture.artifact_id.clone(), bytes);
            }
        }
        found
    }
}

/// Gives each event of an earlier run up to a sequence, in order; none where the run was erased. What was pruned is passed
/// over. An event that cannot be read is an error: without it what follows would look whole.
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
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(of_run(run, error)),
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

/// Whether a run was removed on purpose.
fn is_gone(error: &Error) -> bool {
    matches!(error.code(), Code::RunErased | Code::RunNotFound)
}

fn damaged(run: RunId, sequences: Option<RangeInclusive<u64>>, message: String) -> Error {
    let damage = Damage { stream: Some(run.to_string().into()), sequences, positions: None };
    let damage = Some(Box::new(damage));
    Error::Failed(Failure { code: Code::RunDamaged, message, retry_after: None, damage })
}

/// The store may not know whose events it found damaged; the reader does.
fn of_run(run: RunId, error: Error) -> Error {
    match error.code() {
        Code::StoreCorrupt => damaged(run, None, format!("{run} cannot be read: {error}")),
        _ => error,
    }
}

/// Which events of which run are damaged, where that is why a read failed, in words.
pub(crate) fn damaged_events(error: &Error) -> Option<String> {
    let Damage { stream: Some(run), sequences, .. } = error.damage()? else { return None };
    Some(match sequences {
        Some(range) => format!("events {} to {} of {run} are damaged", range.start(), range.end()),
        None => format!("{run} is damaged"),
    })
}

/// The run that another goes on from, and the last of its events that counts.
async fn resumed_from(read: &ReadHandle, run: RunId) -> Result<Option<(RunId, u64)>, Error> {
    match read.resumed_from(run).await {
        Ok(resumed) => Ok(resumed.as_ref().and_then(place)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(of_run(run, error)),
    }
}

/// The same, as the run's first event says it.
pub(crate) fn place(resumed: &ResumedFromEvent) -> Option<(RunId, u64)> {
    Some((resumed.from_run_id.parse().ok()?, resumed.from_sequence))
}

async fn picture_bytes(read: &ReadHandle, picture: &Picture) -> Option<Bytes> {
    let rows = read.artifacts_called(&picture.artifact_id).await.ok()?;
    let bytes = read.artifact_bytes(rows.first()?).await.ok()?;
    (bytes.len() <= limits::PICTURE_BYTES_MAX).then_some(bytes)
}
