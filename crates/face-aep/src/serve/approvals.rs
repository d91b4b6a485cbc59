//! Approvals: list, show, resolve.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use recount_api::query::APPROVAL_STATUSES;
use recount_api::reply::One;
use recount_api::request::{ResolveApproval, Verdict};
use recount_event::Code;
use recount_run::Command;

use super::Face;
use super::http::{Answer, Ids, Query, body_bytes, json, page};
use crate::error::Refusal;
use crate::{accept, limits, project};

pub(super) async fn list_approvals(face: Face, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref()).list(None, &APPROVAL_STATUSES)?;
    let listed = face.engine.list_approvals(&query).await?;
    let mut approvals = Vec::with_capacity(listed.items.len());
    for row in listed.items {
        if face.sees_run(accept::run_id(&row.run_id)?).await? {
            approvals.push(project::approval(row));
        }
    }
    Ok(page(approvals, listed.next, listed.has_more))
}

async fn approval_row(
    face: &Face,
    id: &recount_event::ForeignId,
) -> Result<recount_engine::ApprovalRow, Refusal> {
    let missing = || Refusal::new(Code::ApprovalNotFound, format!("there is no approval {:?}", id.as_str()));
    let row = face.engine.approval(id).await?.ok_or_else(missing)?;
    if face.sees_run(accept::run_id(&row.run_id)?).await? { Ok(row) } else { Err(missing()) }
}

pub(super) async fn get_approval(face: Face, Ids(approval): Ids<String>) -> Answer {
    let row = approval_row(&face, &accept::approval_id(&approval)?).await?;
    Ok(json(StatusCode::OK, &One::new("approval", project::approval(row))))
}

pub(super) async fn resolve_approval(face: Face, Ids(approval): Ids<String>, request: Request) -> Answer {
    let approval_id = accept::approval_id(&approval)?;
    let row = approval_row(&face, &approval_id).await?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: ResolveApproval = accept::body(&bytes)?;
    let command = Command::ResolveApproval {
        approval_id: approval_id.clone(),
        approve: request.decision == Verdict::Approve,
        by: face.caller.name.clone(),
        comment: accept::text("comment", request.comment)?,
    };
    face.engine.submit(accept::run_id(&row.run_id)?, command).await?;
    let row = approval_row(&face, &approval_id).await?;
    Ok(json(StatusCode::OK, &One::new("approval", project::approval(row))))
}
