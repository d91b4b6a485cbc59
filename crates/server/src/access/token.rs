//! Tokens of the admin API: checks a request, shows a token, and makes its audit record.
//!
//! It must not know HTTP or the store. Entry point: [`new_token`].

use std::collections::BTreeSet;
use std::time::Duration;

use recount_api::admin::{AddToken, Token};
use recount_api::scope::Scope as Named;
use recount_engine::{Caller, Narrowing, Scope, TokenRow};
use recount_event::{Code, time};
use recount_face_aep::Refusal;
use serde_json::{Value, json};

use super::active_tokens::NewToken;
use crate::tenant_folder::is_tenant_name;
use crate::{audit, limits};

/// The audit record of a new token.
pub(crate) fn created(row: &TokenRow) -> Value {
    let scopes: Vec<&str> = row.scopes.iter().map(|scope| scope.as_str()).collect();
    json!({
        "token_id": row.id.to_string(), "name": row.name, "tenant": row.tenant, "scopes": scopes,
        "by": row.created_by,
    })
}

/// Checks a request for a token and returns the token to create.
pub(crate) fn new_token(request: AddToken, tenant: String, by: &Caller) -> Result<NewToken, Refusal> {
    let wrong = |detail: String| Refusal::new(Code::BodyMalformed, detail);
    if tenant == audit::TENANT {
        return Err(wrong(format!(
            "the tenant {tenant:?} is reserved for the audit trail; choose another name"
        )));
    }
    if !is_tenant_name(&tenant) {
        let shown: String = tenant.chars().take(80).collect();
        let most = limits::TENANT_NAME_MAX;
        return Err(wrong(format!(
            "invalid tenant {shown:?}; use at most {most} characters of a-z, 0-9 and -"
        )));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    let name = request.name;
    if name.is_empty() || name.len() > limits::TOKEN_NAME_MAX || !name.chars().all(plain) {
        let shown: String = name.chars().take(80).collect();
        let most = limits::TOKEN_NAME_MAX;
        return Err(wrong(format!("invalid name {shown:?}; use at most {most} letters, digits and . _ - @")));
    }
    let scopes: BTreeSet<Scope> = request.scopes.iter().map(|named| scope(*named)).collect();
    if scopes.is_empty() {
        return Err(wrong("scopes is empty; send at least one scope".into()));
    }
    let within = request.tasks.len() + request.sessions.len();
    if within > limits::TOKEN_NARROWED_MAX {
        let most = limits::TOKEN_NARROWED_MAX;
        return Err(wrong(format!(
            "the token is narrowed to {within} tasks and sessions; the limit is {most}"
        )));
    }
    let mut narrowing = Narrowing::default();
    for task in &request.tasks {
        narrowing.tasks.insert(task.parse().map_err(|why| wrong(format!("tasks: {why}")))?);
    }
    for session in &request.sessions {
        narrowing.sessions.insert(session.parse().map_err(|why| wrong(format!("sessions: {why}")))?);
    }
    if scopes.contains(&Scope::Admin) && !narrowing.is_none() {
        return Err(wrong("a token with the scope admin cannot be narrowed; omit tasks and sessions".into()));
    }
    if request.expires_in_seconds == Some(0) || request.requests_per_second == Some(0) {
        return Err(wrong("expires_in_seconds and requests_per_second must be at least 1".into()));
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

pub(crate) fn scope(named: Named) -> Scope {
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

/// A token as lists show it, without its secret.
pub(crate) fn public_token(row: TokenRow) -> Token {
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
