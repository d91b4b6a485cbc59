//! Returns the verdict of the policy on an MCP call of another agent. It has no effect on the call.

use ::http::StatusCode;
use axum::extract::RawQuery;
use recount_api::query;
use recount_api::reply::One;
use recount_engine::ForeignMcpCall;
use recount_event::Code;

use super::Face;
use super::http::{HandlerResult, Ids, Query, json};
use crate::error::Refusal;
use crate::{accept, project};

pub(super) async fn judge_mcp_call(
    face: Face,
    Ids((server, tool)): Ids<(String, String)>,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let parameters = Query::parse(raw.as_deref());
    let destroys = accept::yes_or_no(query::DESTRUCTIVE, parameters.get(query::DESTRUCTIVE))?;
    let call = ForeignMcpCall {
        server: accept::mcp_name(query::MCP_SERVER, server)?,
        tool: accept::mcp_name(query::MCP_TOOL, tool)?,
        destroys: destroys == Some(true),
    };
    let verdict = face.engine.work().judge_mcp_call(&call).ok_or_else(|| {
        Refusal::new(Code::KindUnavailable, "this server does not execute runs and has no policy")
    })?;
    Ok(json(StatusCode::OK, &One::new("policy_verdict", project::policy_verdict(verdict))))
}
