//! Routes for sessions: create, list, show, delete. Their runs are listed with all runs.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use axum::response::Response;
use recount_api::reply::{self, One};
use recount_api::request::CreateSession;
use recount_engine::{ListQuery, SessionRow};
use recount_event::SessionId;

use super::Face;
use super::http::{HandlerResult, Ids, Query, body_bytes, created, json, page};
use super::once::IdempotentRequest;
use crate::error::Refusal;
use crate::{accept, limits, project};

pub(super) async fn create_session(face: Face, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if let Some(created) = &idempotent.created {
        return Ok(created_session(face.engine.catalogue().existing_session(created.session()?).await?));
    }
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: CreateSession = accept::body_or_default(&bytes)?;
    face.check_may_create_in(None, None)?;
    let title = accept::text("title", request.title)?;
    let row = face.engine.write().create_session_keyed(title, idempotent.once.as_ref()).await?;
    Ok(created_session(row))
}

/// The response to the creation of a session, which has no runs then.
fn created_session(row: SessionRow) -> Response {
    let location = format!("/v1/sessions/{}", row.id);
    created(&location, &One::new("session", project::session(row, None, 0)))
}

pub(super) async fn list_sessions(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let query = Query::parse(raw.as_deref()).list(Some(SessionId::PREFIX))?;
    let mut listed = face.engine.catalogue().list_sessions(&query).await?;
    listed.items.retain(|row| face.caller.narrowing.admits(None, Some(row.id)));
    let mut sessions = Vec::with_capacity(listed.items.len());
    for row in listed.items {
        sessions.push(show_session(&face, row).await?);
    }
    Ok(page(&face, sessions, listed.end))
}

async fn show_session(face: &Face, row: SessionRow) -> Result<reply::Session, Refusal> {
    let session = row.id;
    let newest = ListQuery { limit: 1, ..ListQuery::default() };
    let latest = face.engine.catalogue().list_session_runs(session, &newest).await?.items.pop();
    let runs = face.engine.catalogue().count_session_runs(session).await?;
    Ok(project::session(row, latest, runs))
}

pub(super) async fn get_session(face: Face, Ids(session): Ids<String>) -> HandlerResult {
    let session = face.session_id(&session)?;
    let row = face.engine.catalogue().existing_session(session).await?;
    Ok(json(StatusCode::OK, &One::new("session", show_session(&face, row).await?)))
}

pub(super) async fn delete_session(face: Face, Ids(session): Ids<String>) -> HandlerResult {
    let session = face.session_id(&session)?;
    let runs = face.engine.admin().delete_session(session, &face.caller.name).await?;
    let reply = reply::SessionDeleted { session_id: session.to_string(), runs };
    Ok(json(StatusCode::OK, &One::new("deleted", reply)))
}
