//! Allowances: list and revoke. They are granted with the answer to an approval, in `prompts`.

use ::http::StatusCode;
use axum::extract::RawQuery;
use recount_api::query;
use recount_api::reply::One;
use recount_engine::AllowanceFilter;
use recount_event::Code;

use super::Face;
use super::http::{HandlerResult, Ids, Query, json, page};
use super::prompts::reaches;
use crate::error::Refusal;
use crate::{accept, project};

pub(super) async fn list_allowances(face: Face, RawQuery(raw): RawQuery) -> HandlerResult {
    let parameters = Query::parse(raw.as_deref());
    let query = parameters.list(Some("allow_"))?;
    let filter = AllowanceFilter {
        scope: accept::allowance_scope(parameters.get(query::SCOPE))?,
        run: match parameters.get(query::RUN_ID) {
            Some(run) => Some(accept::run_id(run)?),
            None => None,
        },
        session: match parameters.get(query::SESSION_ID) {
            Some(session) => Some(accept::session_id(session)?),
            None => None,
        },
    };
    let listed = face.engine.catalogue().list_allowances(&query, &filter, &face.caller.narrowing).await?;
    Ok(page(&face, listed.items.into_iter().map(project::allowance).collect(), listed.end))
}

pub(super) async fn take_back_allowance(face: Face, Ids(id): Ids<String>) -> HandlerResult {
    let missing = || Refusal::new(Code::AllowanceNotFound, format!("allowance {id:?} not found"));
    let allowance = accept::allowance_id(&id).ok_or_else(missing)?;
    let row = face.engine.catalogue().allowance(&allowance).await?.ok_or_else(missing)?;
    let is_seen = face.caller.narrowing.admits(row.task_id, row.session_id);
    // A narrowed token must not revoke allowances with a wider scope than its own.
    if !is_seen || !reaches(&face, row.session_id, row.scope) {
        return Err(missing());
    }
    let row = face.engine.write().revoke_allowance(&allowance).await?;
    Ok(json(StatusCode::OK, &One::new("allowance", project::allowance(row))))
}
