//! Routes for sessions: create, list, show, name, delete.

use std::collections::{BTreeMap, BTreeSet};

use ::http::{HeaderMap, StatusCode};
use axum::body::Body;
use axum::extract::{OriginalUri, RawQuery};
use recount_engine::{ListQuery, NewRun, NewSetup, ReadResult as _, Scope, SessionRow, SetupRow};
use recount_event::SessionId;

use super::caller::Face;
use super::http::{HandlerResult, Ids, body_bytes, empty, json};
use super::idempotency::{IdempotentRequest, replayed};
use super::latest::{self, SessionState};
use crate::accept;
use crate::error::Refusal;
use crate::limits;
use crate::wire::{
    AgentConfig, PostSessionsResponse, ServerToolRef, SessionInfo, SessionWorkspace, SessionsResponse,
    ToolSpec, Usage,
};

pub(super) async fn create_session(
    face: Face,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Body,
) -> HandlerResult {
    face.may(Scope::Run)?;
    face.check_may_create()?;
    let bytes = body_bytes(&headers, body).await?;
    let idempotent = IdempotentRequest::of(&face, &uri, &headers, &bytes).await?;
    if let Some(created) = idempotent.created {
        let session_id = created.session()?.to_string();
        return Ok(replayed(json(StatusCode::CREATED, &PostSessionsResponse { session_id })));
    }
    let new = accept::session(accept::body(&bytes)?, &face.places.profiles)?;
    face.may_trust(new.setup.tools.as_deref())?;
    may_work_there(&face, &new)?;
    let row = face.engine.write().create_setup(new, idempotent.idempotency.as_ref()).await?;
    Ok(json(StatusCode::CREATED, &PostSessionsResponse { session_id: row.id.to_string() }))
}

/// Refuses a forbidden folder before the session is created, because its runs could never start.
fn may_work_there(face: &Face, new: &NewSetup) -> Result<(), Refusal> {
    if new.setup.workspace.is_none() {
        return Ok(());
    }
    let (mut queued, order) = face.profile(&new.setup.agent)?.run_config(&new.setup.choice())?;
    queued.config = Some(order.written());
    Ok(face.engine.work().check_workspace(NewRun {
        queued,
        task: None,
        session: None,
        resumed_from: None,
    })?)
}

pub(super) async fn list_sessions(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    face.may(Scope::Read)?;
    let list_query = accept::listing(raw.as_deref())?;
    let mut after = list_query.after.map(|session| session.to_string());
    let mut sessions = Vec::new();
    let mut damaged = BTreeSet::new();
    let mut looked_at = 0;
    let mut has_more = true;
    while has_more && sessions.len() < list_query.limit && looked_at < limits::LIST_LOOKED_AT_MAX {
        let query = ListQuery { after: after.take(), limit: list_query.limit - sessions.len(), status: None };
        let listed = face.engine.catalogue().list_setups(&query).await?;
        looked_at += query.limit;
        (after, has_more) = (listed.end.next, listed.end.has_more);
        damaged.extend(listed.end.damaged);
        for (row, setup) in listed.items {
            let session = row.id;
            let is_theirs = face.caller.narrowing.admits(None, Some(session));
            if !is_theirs || list_query.agent.as_ref().is_some_and(|agent| *agent != setup.setup.agent) {
                continue;
            }
            let state = known(latest::session_state(&face, session).await)?;
            if state.is_none() {
                damaged.insert(format!("sessions/{session}"));
            }
            let status = state.as_ref().map(|state| state.status);
            if list_query.status.is_none_or(|requested| status == Some(requested)) {
                let last_activity = known(last_activity_at(&face, session).await)?.flatten();
                sessions.push(info(row, setup, state, last_activity));
            }
        }
    }
    if !face.caller.narrowing.is_none() {
        // A client that is narrowed to some sessions learns that there is damage, but not the ids of other sessions.
        damaged = damaged.iter().filter_map(|row| row.split('/').next()).map(str::to_owned).collect();
    }
    let damaged = damaged.into_iter().collect();
    let next = after.filter(|_| has_more).map(|session| accept::cursor(&session));
    Ok(json(StatusCode::OK, &SessionsResponse { sessions, next, damaged }))
}

/// `None` if the stored data of the session is damaged.
fn known<T>(read: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
    Ok(read.readable()?.whole())
}

pub(super) async fn get_session(face: Face, Ids(session): Ids<String>) -> HandlerResult {
    face.may(Scope::Read)?;
    let session = face.session_id(&session)?;
    Ok(json(StatusCode::OK, &shown(&face, session).await?))
}

async fn shown(face: &Face, session: SessionId) -> Result<SessionInfo, Refusal> {
    let (row, setup) = face.session(session).await?;
    let state = Some(latest::session_state(face, session).await?);
    let info = info(row, setup, state, last_activity_at(face, session).await?);
    Ok(SessionInfo { usage: Some(usage(face, session).await?), ..info })
}

pub(super) async fn change_session(
    face: Face,
    Ids(session): Ids<String>,
    headers: HeaderMap,
    body: Body,
) -> HandlerResult {
    face.may(Scope::Run)?;
    let session = face.session_id(&session)?;
    face.setup(session).await?;
    let title = accept::new_title(&body_bytes(&headers, body).await?)?;
    face.engine.write().set_title(session, title).await?;
    Ok(json(StatusCode::OK, &shown(&face, session).await?))
}

pub(super) async fn delete_session(face: Face, Ids(session): Ids<String>) -> HandlerResult {
    face.may(Scope::Run)?;
    let session = face.session_id(&session)?;
    face.setup(session).await?;
    face.engine.admin().delete_session(session, &face.caller.name).await?;
    Ok(empty())
}

/// When the newest run of a session ended, or started if it has not ended.
async fn last_activity_at(face: &Face, session: SessionId) -> Result<Option<String>, Refusal> {
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    let newest = face.engine.catalogue().list_session_runs(session, &query).await?.items.pop();
    Ok(newest.map(|run| run.ended_at.or(run.started_at).unwrap_or(run.created_at)))
}

/// The total usage of its runs.
async fn usage(face: &Face, session: SessionId) -> Result<Usage, Refusal> {
    let standing = face.engine.read().session_totals(session).await?;
    Ok(Usage {
        input_tokens: standing.input_tokens,
        output_tokens: standing.output_tokens,
        cached_input_tokens: 0,
        cost_micros_usd: Some(standing.cost_micros_usd).filter(|cost| *cost > 0),
    })
}

/// A session for lists, without its secrets.
fn info(
    row: SessionRow,
    setup: SetupRow,
    state: Option<SessionState>,
    last_activity_at: Option<String>,
) -> SessionInfo {
    let (status, running) = state.map(|state| (state.status, state.running)).unzip();
    let SetupRow { setup, updated_at, .. } = setup;
    let mut options: BTreeMap<String, String> = setup.options;
    options.extend(setup.secrets.into_iter().map(|name| (name, accept::PLACEHOLDER.to_owned())));
    let tools = setup.tools.map(|tools| {
        tools.into_iter().map(|tool| ServerToolRef { name: tool.name, trust: tool.trust }).collect()
    });
    let client_tools: Vec<ToolSpec> = setup
        .client_tools
        .into_iter()
        .map(|tool| ToolSpec {
            name: tool.name,
            title: tool.title,
            description: tool.description,
            parameters: tool.parameters,
        })
        .collect();
    SessionInfo {
        session_id: row.id.to_string(),
        agent: AgentConfig {
            name: setup.agent,
            tools,
            options: Some(options).filter(|options| !options.is_empty()),
        },
        tools: Some(client_tools).filter(|tools| !tools.is_empty()),
        title: row.title,
        workspace: setup.workspace.map(|chosen| SessionWorkspace {
            path: chosen.source,
            mode: chosen.mode,
            copy_ignored: Some(chosen.copy_ignored).filter(|copied| *copied),
        }),
        created_at: Some(row.created_at),
        // Times are in a format that sorts as text.
        updated_at: Some(updated_at).max(last_activity_at),
        status,
        running_turn_id: running.flatten().map(|turn| turn.to_string()),
        usage: None,
    }
}
