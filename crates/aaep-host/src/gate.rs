//! Middleware around every route: identifies the caller, answers CORS preflight requests and adds CORS headers where
//! the policy allows them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, header};

use crate::policy::{LegacySurface, Pages, Policy, Preflight};
use crate::{Producer, response};

pub(super) async fn gate<P: Producer>(
    State(producer): State<Arc<P>>,
    request: Request,
    next: Next,
) -> Response {
    let policy = producer.policy();
    let (mut parts, body) = request.into_parts();
    let mut allows_cors =
        policy.pages.is_some_and(|pages| pages.versioned || !parts.uri.path().starts_with("/aaep/"));
    let mut response = match producer.admit(&parts) {
        Err(refused) => {
            allows_cors = true;
            *refused
        }
        Ok(_) if parts.method == Method::OPTIONS && grants_preflight(policy, parts.uri.path()) => {
            allows_cors = true;
            response::empty(StatusCode::NO_CONTENT)
        }
        Ok(caller) => {
            parts.extensions.insert(caller);
            next.run(Request::from_parts(parts, body)).await
        }
    };
    if let Some(pages) = policy.pages.filter(|_| allows_cors) {
        add_cors_headers(&pages, &mut response);
    }
    response
}

fn grants_preflight(policy: &Policy, path: &str) -> bool {
    let Some(pages) = &policy.pages else { return false };
    pages.preflight == Preflight::AtAnyPath
        || ["/aaep/v1/subscriptions", "/aaep/v1/events", "/aaep/v1/replies"].contains(&path)
        || policy.legacy.is_some_and(|LegacySurface { base, sessions }| match path.strip_prefix(base) {
            Some("/events" | "/messages" | "/healthz") => true,
            Some("/sessions") => sessions,
            _ => false,
        })
}

fn add_cors_headers(pages: &Pages, response: &mut Response) {
    let headers = response.headers_mut();
    let mut add = |name, value| headers.insert(name, HeaderValue::from_static(value));
    add(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    add(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS");
    add(header::ACCESS_CONTROL_ALLOW_HEADERS, pages.allowed_headers);
    if let Some(exposed) = pages.exposed_headers {
        add(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}
