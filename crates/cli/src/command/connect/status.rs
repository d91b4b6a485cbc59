//! `recount connect AGENT --status`: whether the hooks are there, which server they call, and what waits to be sent.

use std::collections::BTreeSet;

use recount_client::{Client, ClientError, Listing};
use serde_json::{Value, json};

use super::format::{asks, server_of};
use super::telemetry::{Present, endpoint_of};
use super::{SettingsFile, json_text};
use crate::command::hook::spool::Spool;
use crate::command::invocation::{Invocation, block_on};
use crate::command::recorded::{Agent, state_folder};
use crate::failure::Failure;
use crate::limits;
use crate::output::Output;
use crate::render::clean;

/// Fails if the agent is not recorded, so that a script can ask.
pub(super) fn show(agent: Agent, places: &[SettingsFile], invocation: &Invocation) -> Result<(), Failure> {
    let mut out = Output::new();
    let mut is_connected = false;
    for place in places {
        let found = place.found()?;
        if found.is_empty() {
            continue;
        }
        is_connected = true;
        let servers: BTreeSet<String> = found.iter().filter_map(|(_, handler)| server_of(handler)).collect();
        for server in &servers {
            show_one(agent, place, &found, server, invocation, &mut out)?;
        }
    }
    if is_connected {
        return Ok(());
    }
    let paths: Vec<String> = places.iter().map(|place| place.target.path.display().to_string()).collect();
    if invocation.json {
        out.value(&json!({"agent": agent.name(), "connected": false, "paths": paths}))?;
    } else {
        let words = format!("{} is not recorded: no hooks in {}", agent.name(), paths.join(" or "));
        out.line(&clean::line(&words))?;
    }
    Err(Failure::No)
}

fn show_one(
    agent: Agent,
    place: &SettingsFile,
    found: &[(String, Value)],
    server: &str,
    invocation: &Invocation,
    out: &mut Output,
) -> Result<(), Failure> {
    let hooks = found.iter().filter(|(_, handler)| server_of(handler).as_deref() == Some(server));
    let (count, asking) =
        hooks.fold((0, false), |(count, asking), (_, handler)| (count + 1, asking || asks(handler)));
    let waiting = Spool::waiting(&Spool::place(&state_folder()?, server));
    let token = invocation.token_of_server().filter(|_| server == invocation.url);
    let answers = reach(server, token) != Reach::Silent;
    let is_off = super::is_off(place);
    let path = place.target.path.display().to_string();
    let settings = json_text::value(place.text()).unwrap_or(Value::Null);
    let telemetry = (agent == Agent::Claude).then(|| Present::with(&settings).endpoint()).flatten();
    if invocation.json {
        return out.value(&json!({
            "agent": agent.name(),
            "connected": true,
            "path": path,
            "hooks": count,
            "asks": asking,
            "server": server,
            "server_answers": answers,
            "waiting": waiting,
            "telemetry": telemetry,
            "disabled_by": is_off,
        }));
    }
    let permissions = if asking { "answered in Recount" } else { "recorded only" };
    let hooks = crate::render::count(count, "hook");
    out.line(&clean::line(&format!("{} is recorded: {hooks} in {path}", agent.name())))?;
    let reach = if answers { "answers" } else { "does not respond" };
    out.line(&clean::line(&format!("server {server} {reach}; permission requests are {permissions}")))?;
    if let Some(setting) = is_off {
        out.line(&format!("{setting} disables all hooks"))?;
    }
    if agent == Agent::Claude {
        let words = match telemetry {
            Some(endpoint) if endpoint == endpoint_of(server) => {
                format!("tokens and cost are recorded: telemetry is sent to {endpoint}")
            }
            Some(endpoint) => format!("tokens and cost are not recorded: telemetry is sent to {endpoint}"),
            None => "tokens and cost are not recorded; repeat recount connect with --telemetry to record \
                     them, too"
                .to_owned(),
        };
        out.line(&clean::line(&words))?;
    }
    if waiting.hooks > 0 || waiting.dropped > 0 {
        out.line(&format!(
            "{} ({}) wait on disk for the server; {} more did not fit and were dropped",
            crate::render::count(waiting.hooks, "hook"),
            crate::render::count(waiting.bytes, "byte"),
            waiting.dropped
        ))?;
    }
    Ok(())
}

/// How a server responds to a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Also if the token may not read.
    Responds,
    Unauthorized,
    Silent,
}

pub(super) fn reach(server: &str, token: Option<&str>) -> Reach {
    let Ok(client) = Client::new(server, token) else { return Reach::Silent };
    let one = Listing { limit: Some(1), ..Listing::default() };
    let list = async { Ok(tokio::time::timeout(limits::HOOK_RECORD_WAIT, client.list_runs(&one)).await) };
    match block_on(list) {
        Ok(Ok(Err(ClientError::Problem(problem)))) if problem.status == 401 => Reach::Unauthorized,
        Ok(Ok(Ok(_) | Err(ClientError::Problem(_)))) => Reach::Responds,
        _ => Reach::Silent,
    }
}
