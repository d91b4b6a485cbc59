//! Sign-in of people by OpenID Connect: the pages below `/sign-in`, and the requests of the console and the command line.
//!
//! A sign-in ends with an ordinary token of this server, which the client sends like any other; no cookie gives access. Start
//! at [`SignInService`] and [`pages`]; `docs/decisions/0147` has the reasons. It must not know what a token may do.

mod browser;
mod claims;
mod denied;
mod jwt;
mod one_time;
mod provider;
mod service;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use recount_api::admin::Removed;
use recount_api::reply::One;
use recount_api::sign_in::{FinishDeviceSignIn, FinishSignIn, SignInAbout, SignInStatus};
use recount_event::Code;
use recount_face_aep::Refusal;

use self::denied::Denied;
pub(crate) use self::service::SignInService;
use crate::access::{Admitted, Gate, Identity};
use crate::admin_json::{json, read};
use crate::peer::{Peer, PeerId};

/// Where a browser begins, and where it comes back.
const BEGIN: &str = "/sign-in";
const CALLBACK: &str = "/sign-in/callback";

/// Whether a path is that of a page, which needs no token.
pub(crate) fn is_page(path: &str) -> bool {
    path == BEGIN || path == CALLBACK
}

/// The pages for browsers.
pub(crate) fn pages(service: Option<Arc<SignInService>>) -> Router {
    match service {
        Some(service) => {
            Router::new().route(BEGIN, get(begin)).route(CALLBACK, get(arrive)).with_state(service)
        }
        None => Router::new(),
    }
}

type Address = Option<Extension<Peer>>;

fn id(peer: &Address) -> Option<PeerId> {
    peer.as_ref().map(|Extension(peer)| peer.id())
}

async fn begin(
    State(service): State<Arc<SignInService>>,
    peer: Address,
    RawQuery(query): RawQuery,
) -> Response {
    match service.begin(query.as_deref() == Some(denied::AGAIN)).await {
        Ok((url, attempt)) => redirect(&url, service.browsers().set_cookie(Some(&attempt))),
        Err(denied) => page(&service, &denied, &peer),
    }
}

async fn arrive(
    State(service): State<Arc<SignInService>>,
    peer: Address,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    match service.arrive(&query.unwrap_or_default(), &headers, id(&peer)).await {
        Ok(code) => {
            // In the fragment: neither logs nor other servers get it.
            let url = format!("{}/#sign-in={code}", service.public_url());
            redirect(&url, None)
        }
        Err(denied) => page(&service, &denied, &peer),
    }
}

fn page(service: &SignInService, denied: &Denied, peer: &Address) -> Response {
    service.refused(denied, id(peer));
    denied.page(service.public_url())
}

fn redirect(url: &str, cookie: impl Into<Option<HeaderValue>>) -> Response {
    let Ok(location) = HeaderValue::try_from(url) else {
        return Refusal::new(Code::Internal, "the address of the provider is not plain text").into_response();
    };
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    let mut response = (StatusCode::SEE_OTHER, headers).into_response();
    if let Some(cookie) = cookie.into() {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// `GET /sign-in/about`
pub(crate) async fn about(State(service): State<Option<Arc<SignInService>>>) -> Response {
    let url = service.map(|service| format!("{}{BEGIN}", service.public_url()));
    json(StatusCode::OK, &One::new("sign_in_about", SignInAbout { configured: url.is_some(), url }))
}

/// `POST /sign-in/token`
pub(crate) async fn finish(
    State(service): State<Arc<SignInService>>,
    peer: Address,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let request: FinishSignIn = read(&headers, body).await?;
    let found = service.finish(&request.code, request.tenant.as_deref(), &headers).await;
    let sign_in = found.map_err(|denied| refused(&service, denied, &peer))?;
    let is_done = sign_in.status == SignInStatus::SignedIn;
    let mut response = json(StatusCode::OK, &One::new("sign_in", sign_in));
    if is_done {
        response.headers_mut().insert(header::SET_COOKIE, service.browsers().set_cookie(None));
    }
    Ok(response)
}

/// `POST /sign-in/device`
pub(crate) async fn start_device(
    State(service): State<Arc<SignInService>>,
    peer: Address,
) -> Result<Response, Refusal> {
    let started = service.start_device(id(&peer)).await;
    let started = started.map_err(|denied| refused(&service, denied, &peer))?;
    Ok(json(StatusCode::CREATED, &One::new("device_sign_in", started)))
}

/// `POST /sign-in/device/token`
pub(crate) async fn finish_device(
    State(service): State<Arc<SignInService>>,
    peer: Address,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let request: FinishDeviceSignIn = read(&headers, body).await?;
    let found = service.finish_device(&request.device_code, request.tenant.as_deref()).await;
    let sign_in = found.map_err(|denied| refused(&service, denied, &peer))?;
    Ok(json(StatusCode::OK, &One::new("sign_in", sign_in)))
}

fn refused(service: &SignInService, denied: Denied, peer: &Address) -> Refusal {
    service.refused(&denied, id(peer));
    denied.refusal()
}

/// `DELETE /sign-in/session`. Also without a provider: a sign-in of an earlier configuration can be ended.
pub(crate) async fn end(
    State(gate): State<Gate>,
    Extension(admitted): Extension<Admitted>,
) -> Result<Response, Refusal> {
    let ended = match &admitted.identity {
        Identity::Token(token) => service::end(&gate, &token.row).await?,
        Identity::Operator | Identity::User(_) | Identity::Vouched => None,
    };
    let other = "the request is not of a sign-in; revoke other tokens with recount token rm";
    let id = ended.ok_or_else(|| Refusal::new(Code::SignInInvalid, other))?;
    Ok(json(StatusCode::OK, &One::new("removed", Removed { id: id.to_string() })))
}
