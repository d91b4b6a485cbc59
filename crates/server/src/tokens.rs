//! `/admin/tokens`: create, list and revoke tokens. `POST /v1/tickets`: create a ticket for a stream.
//!
//! Administrators of the default tenant manage all tokens, those of another tenant only its own.

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use recount_api::admin::{AddToken, AddedToken, AskTicket, Removed, Ticket, Token};
use recount_api::reply::{One, Page};
use recount_engine::{Caller, Scope};
use recount_event::Code;
use recount_face_aep::Refusal;
use serde_json::json;

use crate::access::{Admitted, Gate, created, new_token, public_token};
use crate::admin_json::{json, read};
use crate::audit::AuditKind;
use crate::limits;
use crate::tenant_folder::TENANT_DEFAULT;

/// Lets only requests with the scope admin pass.
pub(crate) async fn admin_only(request: Request, next: Next) -> Response {
    let is_admin = |caller: &Caller| caller.may(Scope::Admin);
    if request.extensions().get::<Caller>().is_some_and(is_admin) {
        return next.run(request).await;
    }
    Refusal::new(Code::ScopeMissing, "this needs the scope admin").into_response()
}

/// Lets only requests with the scope admin of the default tenant pass: these routes show data of all tenants.
pub(crate) async fn default_admin_only(request: Request, next: Next) -> Response {
    let is_default = |admitted: &Admitted| &*admitted.tenant == TENANT_DEFAULT;
    if request.extensions().get::<Admitted>().is_some_and(is_default) {
        return admin_only(request, next).await;
    }
    Refusal::new(Code::ScopeMissing, "this needs the scope admin of the default tenant").into_response()
}

/// The tenant whose tokens and webhooks an administrator may manage: `None` for all.
pub(crate) fn managed_tenant(admitted: &Admitted) -> Option<&str> {
    (&*admitted.tenant != TENANT_DEFAULT).then_some(&*admitted.tenant)
}

pub(crate) async fn add(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    Extension(admitted): Extension<Admitted>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let request: AddToken = read(&headers, body).await?;
    let tenant = request.tenant.clone().unwrap_or_else(|| admitted.tenant.to_string());
    if managed_tenant(&admitted).is_some_and(|own| own != tenant) {
        let detail =
            "only administrators of the default tenant can create tokens for other tenants; omit tenant";
        return Err(Refusal::new(Code::ScopeMissing, detail));
    }
    let new = new_token(request, tenant, &caller)?;
    gate.tenants.ensure(&new.tenant).await?;
    let (row, secret) = gate.tokens.add(new).await?;
    tracing::info!(token = %row.id, tenant = row.tenant, by = row.created_by, "a token was created");
    if let Some(audit) = gate.tenants.audit() {
        audit.record(AuditKind::TokenCreated, created(&row)).await;
    }
    let added = AddedToken { secret: secret.reveal().to_owned(), token: public_token(row) };
    Ok(json(StatusCode::CREATED, &One::new("token", added)))
}

pub(crate) async fn list(State(gate): State<Gate>, Extension(admitted): Extension<Admitted>) -> Response {
    let within = managed_tenant(&admitted);
    let tokens: Vec<Token> = gate.tokens.list(within).into_iter().map(public_token).collect();
    let mut page = Page::new(tokens, None, false);
    // The tenant of a damaged token is unknown.
    if within.is_none() {
        page.damaged = gate.tokens.damaged();
    }
    json(StatusCode::OK, &page)
}

pub(crate) async fn remove(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    Extension(admitted): Extension<Admitted>,
    Path(token): Path<String>,
) -> Result<Response, Refusal> {
    let missing = || {
        let shown: String = token.chars().take(80).collect();
        Refusal::new(
            Code::TokenNotFound,
            format!("no token has the id {shown:?}; list the ids with recount token ls"),
        )
    };
    let id = token.parse().map_err(|_| missing())?;
    if !gate.tokens.remove(id, managed_tenant(&admitted)).await? {
        return Err(missing());
    }
    tracing::info!(token = %id, by = caller.name, "a token was revoked");
    if let Some(audit) = gate.tenants.audit() {
        let facts = json!({"token_id": id.to_string(), "by": caller.name, "caller_id": caller.id});
        audit.record(AuditKind::TokenRevoked, facts).await;
    }
    Ok(json(StatusCode::OK, &One::new("removed", Removed { id: id.to_string() })))
}

pub(crate) async fn ticket(
    State(gate): State<Gate>,
    Extension(caller): Extension<Caller>,
    Extension(admitted): Extension<Admitted>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if !caller.may(Scope::Read) {
        return Err(Refusal::new(Code::ScopeMissing, "a ticket needs the scope read"));
    }
    let request: AskTicket = read(&headers, body).await?;
    let plain = request.path.starts_with('/') && !request.path.contains(['?', '#']);
    if !plain || request.path.len() > limits::TICKET_PATH_MAX {
        let shown: String = request.path.chars().take(80).collect();
        let detail = format!("invalid path {shown:?}; send the path of a stream, without a query");
        return Err(Refusal::new(Code::BodyMalformed, detail));
    }
    let ticket = gate.tickets.issue(&request.path, admitted.identity)?;
    let reply = Ticket { ticket, path: request.path, redeem_within_seconds: limits::TICKET_WAIT.as_secs() };
    Ok(json(StatusCode::CREATED, &One::new("ticket", reply)))
}
