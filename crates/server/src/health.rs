//! Health routes: `/healthz` shows that the process responds, `/readyz` that agents are attached and that the store
//! responds and has space.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use recount_api::reply::Health;
use recount_event::Code;

use crate::tenants::Tenants;

pub(crate) async fn alive() -> Response {
    health_response(StatusCode::OK, "ok")
}

pub(crate) async fn ready(State(tenants): State<Arc<Tenants>>) -> Response {
    if tenants.awaits_agents() {
        return health_response(StatusCode::SERVICE_UNAVAILABLE, "no agent executes runs yet");
    }
    match tenants.ready().await {
        Ok(()) => health_response(StatusCode::OK, "ready"),
        Err(error) if error.code() == Code::StoreFull => {
            tracing::warn!(%error, "not ready");
            health_response(StatusCode::SERVICE_UNAVAILABLE, "the disk is full")
        }
        Err(error) => {
            tracing::warn!(%error, "not ready");
            health_response(StatusCode::SERVICE_UNAVAILABLE, "the store does not respond")
        }
    }
}

fn health_response(status: StatusCode, text: &str) -> Response {
    let health = Health { status: text.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let body = serde_json::to_vec(&health).expect("texts are valid JSON strings");
    let headers = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ];
    (status, headers, body).into_response()
}
