//! Dispatches the methods of ACP, and handles those that need only a call or two of the server.
//!
//! Must not depend on runs. Start with [`request`] and [`notified`].

use std::rc::Rc;

use recount_client::aap::AapError;
use recount_client::aap::wire::{AgentConfig, NewSession, SessionInfo, SessionWorkspace};
use recount_client::is_on_this_machine;
use serde_json::{Value, json};

use super::connection::{Connection, Introduced};
use super::session::Session;
use super::{replay, turn};
use crate::accept;
use crate::error::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError, shortened};
use crate::limits;
use crate::offer::{self, Mode};

type Answer = Result<Value, RpcError>;

/// Executes a request. `None`: the response is sent elsewhere.
pub(super) async fn request(
    this: &Rc<Connection>,
    id: &Value,
    method: &str,
    params: &Value,
) -> Option<Answer> {
    let without = this.options.without_mcp_servers;
    Some(match method {
        "initialize" => initialize(this, params).await,
        "authenticate" => Err(RpcError::new(
            INVALID_REQUEST,
            "this agent has no authentication methods; start it with --token or RECOUNT_TOKEN",
        )),
        "session/new" => new(this, params).await,
        "session/list" => list(this, params).await,
        "session/delete" => delete(this, params).await,
        "session/close" => close(this, params).await,
        "session/set_mode" => set_mode(this, params),
        "session/set_config_option" => set_config_option(this, params),
        "session/load" | "session/resume" => {
            let reopening = match accept::reopening(params, without) {
                Ok(reopening) => reopening,
                Err(no) => return Some(Err(no)),
            };
            return replay::reopen(this, id, reopening, method == "session/load").await.err().map(Err);
        }
        "session/prompt" => return turn::prompt(this, id, params).await.err().map(Err),
        other => {
            Err(RpcError::new(METHOD_NOT_FOUND, format!("method {:?} is not supported", shortened(other))))
        }
    })
}

pub(super) fn notified(this: &Rc<Connection>, method: &str, params: &Value) {
    let session = match method {
        "session/cancel" => accept::session(params).ok().and_then(|id| this.session(&id).ok()),
        "$/cancel_request" => accept::cancelled_request(params).and_then(|request| {
            let is_its_prompt = |session: &Rc<Session>| {
                session.prompting().is_some_and(|prompting| prompting.request == *request)
            };
            this.sessions().into_iter().find(is_its_prompt)
        }),
        // Notifications get no response, not even an error.
        _ => None,
    };
    if let Some(session) = session {
        turn::cancel(this, &session);
    }
}

async fn initialize(this: &Connection, params: &Value) -> Answer {
    let editor = accept::initialize(params)?;
    let meta = this.aap.meta().await?;
    let name = &this.options.agent;
    let Some(agent) = meta.agents.iter().find(|agent| agent.name == *name).cloned() else {
        let known: Vec<&str> = meta.agents.iter().map(|agent| agent.name.as_str()).collect();
        let known = match known.is_empty() {
            true => "no agents are configured; set models.default or [agents] on the server".to_owned(),
            false => format!("available agents: {}", known.join(", ")),
        };
        let (name, url) = (shortened(name), this.client.base_url());
        return Err(RpcError::params(format!("unknown agent {name:?} on the server at {url}; {known}")));
    };
    for (name, value) in &this.options.options {
        let is_known = agent.options.iter().any(|option| option.name == *name && !option.is_select());
        if !is_known {
            offer::check_option(&agent, name, value).map_err(RpcError::params)?;
        }
    }
    let answer = offer::initialized(&agent);
    this.introduce(Introduced { editor, agent });
    Ok(answer)
}

async fn new(this: &Connection, params: &Value) -> Answer {
    let introduced = this.introduced()?;
    let agent = &introduced.agent;
    let folder = accept::folder(params, this.options.without_mcp_servers)?;
    this.has_room(None)?;
    let url = this.client.base_url();
    if !is_on_this_machine(url) {
        return Err(RpcError::params(format!(
            "the server at {url} runs on another machine and cannot use the folder {:?} of this one; use a \
             server on this machine",
            shortened(&folder.cwd)
        )));
    }
    this.leave_out(&folder);
    let mode = Some(this.options.workspace_mode.clone());
    let workspace = SessionWorkspace { path: folder.cwd, mode, copy_ignored: None };
    let options = Some(this.options.options.clone()).filter(|options| !options.is_empty());
    let session = |mode: Mode| NewSession {
        agent: AgentConfig { name: agent.name.clone(), tools: mode.tools(agent), options: options.clone() },
        messages: Vec::new(),
        tools: Vec::new(),
        workspace: Some(workspace.clone()),
    };
    let mut new = session(Mode::Policy);
    let session_id = match this.aap.create_session(&new).await {
        // Trusting a tool needs the scope `approve`. Without it every call needs an approval, which others give.
        Err(AapError::Refused { code: Some(code), .. }) if code == "scope_missing" => {
            new = session(Mode::Ask);
            this.aap.create_session(&new).await?
        }
        created => created?,
    };
    let info = SessionInfo { session_id, agent: new.agent, ..SessionInfo::default() };
    let session = Rc::new(Session::new(&info, agent));
    let mut answer = session.shown(agent);
    answer["sessionId"] = json!(session.id);
    this.open(session);
    Ok(answer)
}

async fn list(this: &Connection, params: &Value) -> Answer {
    this.introduced()?;
    let listed = accept::list(params)?;
    let mut sessions = Vec::new();
    let mut cursor = listed.cursor;
    for _ in 0..limits::LIST_PAGES_MAX {
        let page = this.aap.sessions_of(&this.options.agent, cursor.as_deref()).await?;
        sessions.extend(page.sessions.iter().filter_map(|info| shown(this, info, listed.cwd.as_deref())));
        cursor = page.next;
        if cursor.is_none() || sessions.len() >= limits::LIST_SESSIONS {
            break;
        }
    }
    Ok(match cursor {
        Some(cursor) => json!({ "sessions": sessions, "nextCursor": cursor }),
        None => json!({ "sessions": sessions }),
    })
}

/// A session for the list: only sessions with a known folder, because an editor opens them in it.
fn shown(this: &Connection, info: &SessionInfo, cwd: Option<&str>) -> Option<Value> {
    let folder = accept::trimmed(&info.workspace.as_ref()?.path);
    if info.agent.name != this.options.agent || cwd.is_some_and(|cwd| cwd != folder) {
        return None;
    }
    let mut shown = json!({ "sessionId": info.session_id, "cwd": folder });
    if let Some(title) = &info.title {
        shown["title"] = json!(title);
    }
    if let Some(at) = &info.updated_at {
        shown["updatedAt"] = json!(at);
    }
    Some(shown)
}

async fn delete(this: &Connection, params: &Value) -> Answer {
    this.introduced()?;
    let id = accept::session(params)?;
    replay::found(this, &id).await?;
    this.aap.delete_session(&id).await?;
    if let Some(session) = this.close(&id) {
        if let Some(following) = session.following() {
            following.stop();
        }
        if let Some(prompting) = session.end_prompt() {
            this.answer(&prompting.request, Ok(json!({ "stopReason": "cancelled" }))).await;
        }
    }
    Ok(json!({}))
}

/// Cancels the work of the session and closes it here. The server keeps the session.
async fn close(this: &Rc<Connection>, params: &Value) -> Answer {
    this.introduced()?;
    let session = this.session(&accept::session(params)?)?;
    let is_answered = session.prompting().is_none();
    if let Some(run) = session.cancel() {
        turn::cancel_run(this, &run).await?;
    }
    // A prompt in progress is answered when its run ends.
    if let Some(following) = session.following().filter(|_| is_answered) {
        following.stop();
    }
    this.close(&session.id);
    Ok(json!({}))
}

fn set_mode(this: &Connection, params: &Value) -> Answer {
    this.introduced()?;
    let setting = accept::mode(params)?;
    let session = this.session(&setting.session)?;
    let known = || {
        RpcError::new(
            INVALID_PARAMS,
            format!("modeId is {:?}; send policy or ask", shortened(&setting.value)),
        )
    };
    session.mode.set(Mode::parse(&setting.value).ok_or_else(known)?);
    Ok(json!({}))
}

fn set_config_option(this: &Connection, params: &Value) -> Answer {
    let introduced = this.introduced()?;
    let setting = accept::config_option(params)?;
    let session = this.session(&setting.session)?;
    offer::check_option(&introduced.agent, &setting.name, &setting.value).map_err(RpcError::params)?;
    session.choose(&setting.name, &setting.value);
    Ok(json!({ "configOptions": session.config_options(&introduced.agent) }))
}
