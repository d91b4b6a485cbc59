//! `recount connect AGENT --status`: whether the hooks are there, which server they call, and what waits to be sent.

use std::collections::BTreeSet;

use recount_client::{Client, ClientError, Listing};
use serde_json::{Value, json};

use super::format::{asks, server_of};
use super::telemetry::{Present, Telemetry, endpoint_of, shown};
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
    let reach_of_server = reach(server, token);
    let answers = matches!(reach_of_server, Reach::Responds | Reach::Unauthorized);
    let is_off = super::is_off(place);
    let path = place.target.path.display().to_string();
    let settings = json_text::value(place.text()).unwrap_or(Value::Null);
    let present = Present::with(&settings);
    let telemetry = (agent == Agent::Claude).then(|| present.endpoint()).flatten();
    let is_here = telemetry.as_ref().is_some_and(|endpoint| *endpoint == endpoint_of(server));
    let problem = is_here.then(|| obstacle(server, present, answers)).flatten();
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
            "telemetry": telemetry.as_deref().map(shown),
            "telemetry_problem": problem,
            "disabled_by": is_off,
        }));
    }
    let permissions = if asking { "answered in Recount" } else { "recorded only" };
    let hooks = crate::render::count(count, "hook");
    out.line(&clean::line(&format!("{} is recorded: {hooks} in {path}", agent.name())))?;
    let reach = match reach_of_server {
        Reach::Responds | Reach::Unauthorized => "answers".to_owned(),
        Reach::Silent => "does not respond".to_owned(),
        Reach::Failed(why) => format!("cannot be used ({why})"),
    };
    out.line(&clean::line(&format!("server {server} {reach}; permission requests are {permissions}")))?;
    if let Some(setting) = is_off {
        out.line(&format!("{setting} disables all hooks"))?;
    }
    if agent == Agent::Claude {
        let words = match (telemetry.as_deref().map(shown), problem) {
            (Some(_), Some(problem)) => format!("tokens and cost are not recorded: {problem}"),
            (Some(endpoint), None) if is_here => {
                format!("tokens and cost are recorded: telemetry is sent to {endpoint}")
            }
            (Some(endpoint), None) => {
                format!("tokens and cost are not recorded: telemetry is sent to {endpoint}")
            }
            (None, _) => {
                "tokens and cost are not recorded; repeat recount connect with --telemetry to record \
                     them, too"
                    .to_owned()
            }
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

/// What keeps log events, which are sent to this server, from being recorded.
fn obstacle(server: &str, present: Present<'_>, answers: bool) -> Option<String> {
    let in_settings = Telemetry::new(server, None).obstacle(present);
    let lacks_token = || {
        let requires_token =
            answers && !present.has_headers() && matches!(reach(server, None), Reach::Unauthorized);
        requires_token.then(|| {
            "the server requires a token, and telemetry has none; repeat recount connect with --telemetry and \
             --token-file FILE"
                .to_owned()
        })
    };
    in_settings.or_else(lacks_token)
}

/// How a server responds to a token.
pub(super) enum Reach {
    /// Also if the token may not read.
    Responds,
    Unauthorized,
    Silent,
    /// What is there is no server that can be used, or the token cannot be sent.
    Failed(String),
}

pub(super) fn reach(server: &str, token: Option<&str>) -> Reach {
    let client = match Client::new(server, token) {
        Ok(client) => client,
        Err(why) => return Reach::Failed(why.to_string()),
    };
    let one = Listing { limit: Some(1), ..Listing::default() };
    let list = async { Ok(tokio::time::timeout(limits::HOOK_RECORD_WAIT, client.list_runs(&one)).await) };
    match block_on(list) {
        Ok(Ok(Err(ClientError::Problem(problem)))) if problem.status == 401 => Reach::Unauthorized,
        Ok(Ok(Ok(_) | Err(ClientError::Problem(_)))) => Reach::Responds,
        Ok(Ok(Err(why @ (ClientError::Protocol { .. } | ClientError::Unusable(_))))) => {
            Reach::Failed(why.to_string())
        }
        _ => Reach::Silent,
    }
}
