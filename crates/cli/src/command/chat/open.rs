//! How a talk begins: which agent, with what it may choose and use, in a new session or one that is there.

use std::collections::BTreeMap;

use recount_client::aap::wire::{
    AgentConfig, AgentInfo, HistoryMessage, Meta, NewSession, Overrides, ServerToolRef, SessionInfo,
};
use recount_client::aap::{AapClient, AapError};

use super::choose::{self, Given};
use super::typed::{Input, Typed, ask};
use super::{Chat, image, named};
use crate::command::credential::small_file;
use crate::failure::Failure;
use crate::output::note;
use crate::render::clean;

pub(super) struct Opened {
    pub(super) agent: AgentInfo,
    pub(super) session: SessionInfo,
    pub(super) typed: Typed,
    /// What is chosen anew in a session that is there.
    pub(super) overrides: Option<Overrides>,
    /// Its history, where the server returns it.
    pub(super) past: Vec<HistoryMessage>,
    /// Which folder is worked on, in words, where that was decided here.
    pub(super) works: Option<String>,
}

pub(super) async fn open(chat: &Chat, client: &AapClient, mut typed: Typed) -> Result<Opened, Failure> {
    let meta = client.meta().await.map_err(|why| at_another_path(client, why.into()))?;
    if let Some(id) = &chat.session {
        let session = client.session(id).await.map_err(|why| match why.status() {
            Some(404 | 410) => Failure::Refused(format!("the server has no session {id} ({why})")),
            _ => why.into(),
        })?;
        let agent = of_session(&meta, &session, chat.agent.as_deref())?;
        takes_pictures(chat, &agent)?;
        let overrides = overrides(chat, &agent, &mut typed).await?;
        let past = match agent.capabilities.history() {
            Some(kind) => client.history(&session.session_id, kind).await?,
            None => Vec::new(),
        };
        return Ok(Opened { agent, session, typed, overrides, past, works: None });
    }
    let agent = chosen(&meta, chat.agent.as_deref(), &mut typed).await?;
    takes_pictures(chat, &agent)?;
    let options = options(chat, &agent, &mut typed).await?;
    let config = AgentConfig { name: agent.name.clone(), tools: Some(tools(chat, &agent)?), options };
    let folder = chat.folder.of(&agent, client.base_url())?;
    let mut new = NewSession {
        agent: config,
        messages: Vec::new(),
        tools: Vec::new(),
        workspace: folder.as_ref().map(|folder| folder.sent.clone()),
    };
    let mut works = match &folder {
        Some(folder) => Some(folder.in_words()),
        None => chat.folder.not_sent(&agent, client.base_url()),
    };
    let mut created = client.create_session(&new).await;
    if chat.trust.is_none() && created.as_ref().is_err_and(lacks_scope) {
        // Trust permits calls, which this token may not.
        let tools = new.agent.tools.iter_mut().flatten();
        tools.for_each(|tool| tool.trust = false);
        note("each call needs an approval, because the token lacks the scope approve");
        created = client.create_session(&new).await;
    }
    let session_id = match (created, folder) {
        (Err(why), Some(folder)) => {
            works = Some(folder.refused(&why).ok_or(why)?);
            new.workspace = None;
            client.create_session(&new).await?
        }
        (created, _) => created?,
    };
    let session = SessionInfo { session_id, agent: new.agent, ..SessionInfo::default() };
    Ok(Opened { agent, session, typed, overrides: None, past: Vec::new(), works })
}

fn lacks_scope(why: &AapError) -> bool {
    matches!(why, AapError::Refused { code: Some(code), .. } if code == "scope_missing")
}

/// Where nothing speaks the protocol, an address without a path is the likely cause.
fn at_another_path(client: &AapClient, why: Failure) -> Failure {
    let base = client.base_url();
    let has_path = base.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    let hint = |why: String| format!("{why}; try {base}/aap");
    match why {
        Failure::Refused(why) if !has_path && !why.contains("status 401") => Failure::Protocol(hint(why)),
        Failure::Protocol(why) if !has_path => Failure::Protocol(hint(why)),
        why => why,
    }
}

/// The agent of an existing session. The server may have removed it since; the session still has its name.
fn of_session(meta: &Meta, session: &SessionInfo, requested: Option<&str>) -> Result<AgentInfo, Failure> {
    let name = &session.agent.name;
    if let Some(requested) = requested.filter(|requested| requested != name) {
        let id = &session.session_id;
        return Err(Failure::Usage(format!("session {id} belongs to the agent {name}, not {requested}")));
    }
    let found = meta.agents.iter().find(|agent| agent.name == *name);
    Ok(found.cloned().unwrap_or_else(|| {
        note(&format!("unknown agent {name}; the server no longer offers it"));
        AgentInfo { name: name.clone(), ..AgentInfo::default() }
    }))
}

async fn chosen(meta: &Meta, requested: Option<&str>, typed: &mut Typed) -> Result<AgentInfo, Failure> {
    if let Some(agent) = choose::agent(&meta.agents, requested).map_err(Failure::Usage)? {
        return Ok(agent.clone());
    }
    if !typed.is_terminal() {
        let names = choose::names(&meta.agents);
        return Err(Failure::Usage(format!(
            "the server has several agents; use --agent with one of {names}"
        )));
    }
    note("The server has these agents:");
    for (place, agent) in meta.agents.iter().enumerate() {
        let about = agent.title.as_ref().or(agent.description.as_ref());
        let about =
            about.and_then(|about| about.lines().next()).map_or(String::new(), |about| format!(": {about}"));
        note(&format!("  {} {}{about}", place + 1, agent.name));
    }
    loop {
        ask("Type the number or the name of an agent:");
        match typed.next().await? {
            Input::Line(line) => match choose::typed(&meta.agents, &line) {
                Some(agent) => return Ok(agent.clone()),
                None => note(&format!("Unknown agent {:?}.", line.trim())),
            },
            Input::End => return Err(Failure::Usage("no agent was chosen".to_owned())),
            Input::Interrupt => return Err(Failure::Interrupted),
        }
    }
}

/// Refuses pictures for an agent that takes none, before anything is sent.
fn takes_pictures(chat: &Chat, agent: &AgentInfo) -> Result<(), Failure> {
    match chat.image.is_empty() || agent.capabilities.image.data.is_some() {
        true => Ok(()),
        false => Err(Failure::Usage(image::not_taken(&agent.name))),
    }
}

fn tools(chat: &Chat, agent: &AgentInfo) -> Result<Vec<ServerToolRef>, Failure> {
    let requested = chat.tools.as_deref().map(named);
    let trusted = match &chat.trust {
        Some(trusted) => named(trusted),
        // The policy of a Recount server decides, as for `recount run`.
        None if agent.capabilities.workspace.is_some() => match &requested {
            Some(requested) => requested.clone(),
            None => agent.tools.iter().map(|tool| tool.name.clone()).collect(),
        },
        None => Vec::new(),
    };
    choose::tools(agent, requested.as_deref(), &trusted).map_err(Failure::Usage)
}

/// What is chosen, if anything; what is not keeps its default.
async fn options(
    chat: &Chat,
    agent: &AgentInfo,
    typed: &mut Typed,
) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let mut values = BTreeMap::new();
    for argument in &chat.option {
        let (option, given) = choose::option(agent, argument).map_err(Failure::Usage)?;
        let name = &option.name;
        let value = match given {
            Given::Value(value) => value,
            Given::File(path) => small_file(&path)?,
            Given::Prompt if typed.is_terminal() => {
                match typed.unseen(&format!("{} (not shown):", clean::line(name))).await? {
                    Input::Line(line) => line.trim_end_matches(['\r', '\n']).to_owned(),
                    Input::End => return Err(Failure::Usage(format!("--option {name}: no value entered"))),
                    Input::Interrupt => return Err(Failure::Interrupted),
                }
            }
            Given::Prompt => {
                let why = format!(
                    "--option {name}: cannot prompt for the value without a terminal; use --option \
                             {name}=@FILE"
                );
                return Err(Failure::Usage(why));
            }
        };
        choose::check(option, &value).map_err(Failure::Usage)?;
        values.insert(name.clone(), value);
    }
    Ok((!values.is_empty()).then_some(values))
}

/// What changes in an existing session: only what the flags name.
async fn overrides(chat: &Chat, agent: &AgentInfo, typed: &mut Typed) -> Result<Option<Overrides>, Failure> {
    let names_tools = chat.tools.is_some() || chat.trust.is_some();
    let tools = if names_tools { Some(tools(chat, agent)?) } else { None };
    let options = options(chat, agent, typed).await?;
    Ok((tools.is_some() || options.is_some()).then_some(Overrides { tools, options }))
}
