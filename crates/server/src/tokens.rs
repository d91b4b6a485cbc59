//! `/admin/tokens`: hand out tokens, list them, take them back; `POST /v1/tickets`: a ticket for a stream.
//!
//! Who administers the default tenant administers all; who administers another sees only its own.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Path, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use recount_api::admin::{AddToken, AddedToken, AskTicket, Removed, Ticket, Token};
use recount_api::reply::{One, Page};
use recount_api::scope::Scope as Named;
use recount_engine::Visitor;
use recount_engine::{Caller, Narrowing, Scope, TokenRow};
use recount_event::{Code, time};
use recount_face_aep::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::access::{Admitted, Gate, NewToken, TENANT_DEFAULT, is_tenant_name};
use crate::audit::{self, What};
use crate::limits;

/// Only who administers comes through.
pub(crate) async fn admin_only(request: Request, next: Next) -> Response {
    let may = |visitor: &Visitor| visitor.caller.may(Scope::Admin);
    if request.extensions().get::<Visitor>().is_some_and(may) {
        return next.run(request).await;
    }
    Refusal::new(Code::ScopeMissing, "this needs the scope admin").into_response()
}

/// Only who administers the whole house comes through: what lies behind tells of all tenants.
pub(crate) async fn house_only(request: Request, next: Next) -> Response {
    let whole = |admitted: &Admitted| &*admitted.tenant == TENANT_DEFAULT;
    if request.extensions().get::<Admitted>().is_some_and(whole) {
        return admin_only(request, next).await;
    }
    Refusal::new(Code::ScopeMissing, "this needs the scope admin of the default tenant").into_response()
}

/// Whose tokens somebody may administer: `None` for all.
fn reach(admitted: &Admitted) -> Option<&str> {
    (&*admitted.tenant != TENANT_DEFAULT).then_some(&*admitted.tenant)
}

pub(crate) async fn add(
    State(gate): State<Gate>,
    Extension(visitor): Extension<Visitor>,
    Extension(admitted): Extension<Admitted>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let request: AddToken = read(&headers, body).await?;
    let tenant = request.tenant.clone().unwrap_or_else(|| admitted.tenant.to_string());
    if reach(&admitted).is_some_and(|own| own != tenant) {
        let detail = "tenant is another one; the default tenant's administrators make tokens for others";
        return Err(Refusal::new(Code::ScopeMissing, detail));
    }
    let new = new_token(request, tenant, &visitor.caller)?;
    gate.tenants.make(&new.tenant).await?;
    let (row, secret) = gate.keys.add(new).await?;
    tracing::info!(token = %row.id, tenant = row.tenant, by = row.created_by, "a token was handed out");
    if let Some(audit) = gate.tenants.audit() {
        audit.record(What::TokenCreated, created(&row)).await;
    }
    let added = AddedToken { secret: secret.reveal().to_owned(), token: told(row) };
    Ok(json(StatusCode::CREATED, &One::new("token", added)))
}

/// What the audit trail says of a new token.
pub(crate) fn created(row: &TokenRow) -> Value {
    let scopes: Vec<&str> = row.scopes.iter().map(|scope| scope.as_str()).collect();
    json!({
        "token_id": row.id.to_string(), "name": row.name, "tenant": row.tenant, "scopes": scopes,
        "by": row.created_by,
    })
}

/// What was asked for, where it can be.
pub(crate) fn new_token(request: AddToken, tenant: String, by: &Caller) -> Result<NewToken, Refusal> {
    let wrong = |detail: String| Refusal::new(Code::BodyMalformed, detail);
    if tenant == audit::TENANT {
        return Err(wrong(format!("tenant is {tenant:?}, which is the audit trail's; choose another name")));
    }
    if !is_tenant_name(&tenant) {
        let shown: String = tenant.chars().take(80).collect();
        let most = limits::TENANT_NAME_MAX;
        return Err(wrong(format!("tenant is {shown:?}; use a-z, 0-9 and -, at most {most}")));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    let name = request.name;
    if name.is_empty() || name.len() > limits::TOKEN_NAME_MAX || !name.chars().all(plain) {
        let shown: String = name.chars().take(80).collect();
        let most = limits::TOKEN_NAME_MAX;
        return Err(wrong(format!("name is {shown:?}; use letters, digits, . _ - and @, at most {most}")));
    }
    let scopes: BTreeSet<Scope> = request.scopes.iter().map(|named| scope(*named)).collect();
    if scopes.is_empty() {
        return Err(wrong("scopes is empty; name at least one".into()));
    }
    let within = request.tasks.len() + request.sessions.len();
    if within > limits::TOKEN_NARROWED_MAX {
        let most = limits::TOKEN_NARROWED_MAX;
        return Err(wrong(format!("the token is narrowed to {within} things; name at most {most}")));
    }
    let mut narrowing = Narrowing::default();
    for task in &request.tasks {
        narrowing.tasks.insert(task.parse().map_err(|why| wrong(format!("tasks: {why}")))?);
    }
    for session in &request.sessions {
        narrowing.sessions.insert(session.parse().map_err(|why| wrong(format!("sessions: {why}")))?);
    }
    if scopes.contains(&Scope::Admin) && !narrowing.is_none() {
        return Err(wrong("scopes has admin, which cannot be narrowed; leave tasks and sessions out".into()));
    }
    if request.expires_in_seconds == Some(0) || request.requests_per_second == Some(0) {
        return Err(wrong("expires_in_seconds and requests_per_second are at least 1".into()));
    }
    Ok(NewToken {
        tenant,
        name,
        scopes,
        narrowing,
        expires_in: request.expires_in_seconds.map(Duration::from_secs),
        requests_per_second: request.requests_per_second,
        created_by: by.name.clone(),
    })
}

fn scope(named: Named) -> Scope {
    match named {
        Named::Read => Scope::Read,
        Named::Run => Scope::Run,
        Named::Approve => Scope::Approve,
        Named::Ingest => Scope::Ingest,
        Named::Admin => Scope::Admin,
    }
}

fn named(scope: Scope) -> Named {
    match scope {
        Scope::Read => Named::Read,
        Scope::Run => Named::Run,
        Scope::Approve => Named::Approve,
        Scope::Ingest => Named::Ingest,
        Scope::Admin => Named::Admin,
    }
}

/// A token as it is told of; never what was shown once.
pub(crate) fn told(row: TokenRow) -> Token {
    Token {
        id: row.id.to_string(),
        tenant: row.tenant,
        name: row.name,
        scopes: row.scopes.into_iter().map(named).collect(),
        tasks: row.narrowing.tasks.iter().map(ToString::to_string).collect(),
        sessions: row.narrowing.sessions.iter().map(ToString::to_string).collect(),
        created_at: row.created_at,
        created_by: row.created_by,
        expires_at: row.expires_ms.map(time::format_ms),
        requests_per_second: row.requests_per_second,
    }
}

pub(crate) async fn list(State(gate): State<Gate>, Extension(admitted): Extension<Admitted>) -> Response {
    let tokens: Vec<Token> = gate.keys.list(reach(&admitted)).into_iter().map(told).collect();
    json(StatusCode::OK, &Page::new(tokens, None, false))
}

pub(crate) async fn remove(
    State(gate): State<Gate>,
    Extension(visitor): Extension<Visitor>,
    Extension(admitted): Extension<Admitted>,
    Path(token): Path<String>,
) -> Result<Response, Refusal> {
    let missing = || {
        let shown: String = token.chars().take(80).collect();
        Refusal::new(Code::TokenNotFound, format!("there is no token {shown:?}"))
    };
    let id = token.parse().map_err(|_| missing())?;
    if !gate.keys.remove(id, reach(&admitted)).await? {
        return Err(missing());
    }
    tracing::info!(token = %id, by = visitor.caller.name, "a token was taken back");
    if let Some(audit) = gate.tenants.audit() {
        let facts =
            json!({"token_id": id.to_string(), "by": visitor.caller.name, "caller_id": visitor.caller.id});
        audit.record(What::TokenRevoked, facts).await;
    }
    Ok(json(StatusCode::OK, &One::new("removed", Removed { id: id.to_string() })))
}

pub(crate) async fn ticket(
    State(gate): State<Gate>,
    Extension(visitor): Extension<Visitor>,
    Extension(admitted): Extension<Admitted>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if !visitor.caller.may(Scope::Read) {
        return Err(Refusal::new(Code::ScopeMissing, "a ticket needs the scope read"));
    }
    let request: AskTicket = read(&headers, body).await?;
    let plain = request.path.starts_with('/') && !request.path.contains(['?', '#']);
    if !plain || request.path.len() > limits::TICKET_PATH_MAX {
        let shown: String = request.path.chars().take(80).collect();
        let detail = format!("path is {shown:?}; send the path of a stream, without what follows ?");
        return Err(Refusal::new(Code::BodyMalformed, detail));
    }
    let ticket = gate.tickets.issue(&request.path, admitted.key)?;
    let reply = Ticket { ticket, path: request.path, redeem_within_seconds: limits::TICKET_WAIT.as_secs() };
    Ok(json(StatusCode::CREATED, &One::new("ticket", reply)))
}

/// A small JSON object, declared as one.
async fn read<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, Refusal> {
    let body = to_bytes(body, limits::ADMIN_BODY_BYTES_MAX).await.map_err(|_| {
        let most = limits::ADMIN_BODY_BYTES_MAX;
        Refusal::new(Code::BodyTooLarge, format!("the body broke off or is larger than {most} bytes"))
    })?;
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !declared.is_some_and(recount_transport::media::is_json) {
        let otherwise = "the body is not declared as JSON; send content-type: application/json";
        return Err(Refusal::new(Code::MediaTypeUnsupported, otherwise));
    }
    // An object and nothing else: a list would do for the words of a struct.
    serde_json::from_slice(&body)
        .and_then(|object| serde_json::from_value(serde_json::Value::Object(object)))
        .map_err(|why| Refusal::new(Code::BodyMalformed, format!("the body cannot be read: {why}")))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("texts can be said in JSON");
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, body).into_response()
}
