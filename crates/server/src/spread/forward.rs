//! Sends requests of tenants to the server that has their store, as streams in both directions. See [`forward`].

use std::io;
use std::pin::pin;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use recount_api::routes::{SERVER_ROUTES, ServerRouteName};
use recount_engine::{Caller, RequestContext};
use recount_event::Code;
use recount_face_aep::{DryRun, Refusal};
use recount_transport::RequestId;
use recount_world::Kind;

use super::client::{CLIENT, ClientHeader, DRY_RUN};
use crate::access::{Admitted, Gate};
use crate::forwarding::ForwardTarget;
use crate::idle_connections::IdleConnections;
use crate::limits;
use crate::tenants::{Elsewhere, TenantPlace, TenantServer, Tenants};

/// In the extensions of a request of a tenant that this server does not serve.
#[derive(Clone, Copy)]
pub(crate) struct ForwardedRequest;

/// Headers about one connection.
const OF_A_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
];

/// Sends a request to the server that has its tenant; all others go on here.
pub(crate) async fn forward(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let extensions = request.extensions_mut();
    let is_forwarded = extensions.remove::<ForwardedRequest>().is_some();
    let client = (extensions.get::<Admitted>().cloned(), extensions.get::<Caller>().cloned());
    let (true, (Some(admitted), Some(caller))) = (is_forwarded, client) else {
        return next.run(request).await;
    };
    if is_of_the_main_server(request.uri().path()) {
        return next.run(request).await;
    }
    match gate.tenants.settled_place(&admitted.tenant).await {
        Some(TenantPlace::Here(engine)) => {
            request.extensions_mut().insert(RequestContext { engine, caller });
            next.run(request).await
        }
        Some(TenantPlace::Elsewhere(Elsewhere::Server(server))) => {
            send(request, &admitted.tenant, caller, &server, &gate.tenants).await
        }
        Some(TenantPlace::Elsewhere(Elsewhere::Moving | Elsewhere::Leaving(_))) | None => {
            unavailable("the tenant is being moved to another server").into_response()
        }
    }
}

/// Whether a route is about the whole server, or about tokens, which only the main server has.
pub(crate) fn is_of_the_main_server(path: &str) -> bool {
    let is_path = |pattern: &str| {
        let (mut parts, mut of_path) = (pattern.split('/'), path.split('/'));
        parts.all(|part| of_path.next().is_some_and(|there| part.starts_with('{') || part == there))
            && of_path.next().is_none()
    };
    SERVER_ROUTES.iter().any(|route| is_path(route.path) && !has_tenant(route.name))
}

/// Whether a route of the server is about one tenant.
fn has_tenant(name: ServerRouteName) -> bool {
    match name {
        ServerRouteName::RotateSigningKey
        | ServerRouteName::ListWebhooks
        | ServerRouteName::ListDeadLetters
        | ServerRouteName::RequestDelivery => true,
        ServerRouteName::AddToken
        | ServerRouteName::ListTokens
        | ServerRouteName::RemoveToken
        | ServerRouteName::MakeTicket
        | ServerRouteName::MakeTicketToo
        | ServerRouteName::MakeBackup
        | ServerRouteName::ListSigningKeys
        | ServerRouteName::LookAtHealth
        | ServerRouteName::DescribeSignIn
        | ServerRouteName::FinishSignIn
        | ServerRouteName::StartDeviceSignIn
        | ServerRouteName::FinishDeviceSignIn
        | ServerRouteName::EndSignIn
        | ServerRouteName::IsAlive
        | ServerRouteName::IsReady
        | ServerRouteName::Measure
        | ServerRouteName::Describe
        | ServerRouteName::Explain => false,
    }
}

fn unavailable(why: &str) -> Refusal {
    let refusal = Refusal::new(Code::StoreUnavailable, format!("{why}; try again shortly"));
    Refusal { retry_after: Some(limits::STANDBY_RETRY), ..refusal }
}

async fn send(
    mut request: Request,
    tenant: &str,
    mut caller: Caller,
    server: &TenantServer,
    tenants: &Tenants,
) -> Response {
    let world = tenants.world();
    let client = request.extensions_mut().remove::<OnUpgrade>();
    let header = ClientHeader::of(&request, tenant, &caller);
    let request = between_servers(request, header);
    let over = server.watch_end();
    let mut ended = Box::pin(async move {
        tokio::select! {
            () = over => {}
            () = caller.revoked() => {}
        }
    });
    let Ok(permit) = tenants.forwarded.clone().try_acquire_owned() else {
        return unavailable("too many requests are at other servers").into_response();
    };
    let idle = Some(&server.idle).filter(|_| client.is_none());
    let response = tokio::select! {
        response = exchange(request, &server.target, idle, tenants) => response,
        () = &mut ended => Err(io::Error::other("the tenant is no longer there, or the token was revoked")),
    };
    let mut response = match response {
        Ok(response) => response,
        Err(error) => {
            let node = &server.target.node;
            tracing::info!(tenant, node, %error, "cannot send a request to the server that has the tenant");
            return unavailable("the server that has the tenant does not respond").into_response();
        }
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let other = response.extensions_mut().remove::<OnUpgrade>();
        if let (Some(client), Some(other)) = (client, other) {
            world.tasks.spawn_until_shutdown(Kind::Connection, async move {
                tokio::select! {
                    () = ended => {}
                    () = connect(client, other) => {}
                }
                drop(permit);
            });
        }
        return response;
    }
    for name in OF_A_CONNECTION {
        response.headers_mut().remove(name);
    }
    if response.headers_mut().remove(DRY_RUN).is_some() {
        response.extensions_mut().insert(DryRun);
    }
    // It may be a stream, which ends with the access.
    response.map(|body| {
        let pieces = body.into_data_stream().take_until(ended);
        Body::from_stream(pieces.inspect(move |_| {
            let _until_the_end = &permit;
        }))
    })
}

/// A request of a client as it is sent to another server.
fn between_servers(request: Request, client: HeaderValue) -> Request {
    let (mut parts, body) = request.into_parts();
    let is_upgrade = parts.headers.contains_key(header::UPGRADE);
    let connection = parts.headers.get(header::CONNECTION).cloned().filter(|_| is_upgrade);
    for name in OF_A_CONNECTION {
        parts.headers.remove(name);
    }
    parts.headers.extend(connection.map(|connection| (header::CONNECTION, connection)));
    if let (Some(host), false) = (parts.uri.authority(), parts.headers.contains_key(header::HOST))
        && let Ok(host) = HeaderValue::from_str(host.as_str())
    {
        parts.headers.insert(header::HOST, host);
    }
    if let Some(RequestId(id)) = parts.extensions.get::<RequestId>()
        && let Ok(id) = HeaderValue::from_str(id)
    {
        parts.headers.insert("x-request-id", id);
    }
    // The client is identified, and its credentials are not needed any more.
    parts.headers.remove(header::AUTHORIZATION);
    parts.headers.insert(CLIENT, client);
    let target = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    (parts.uri, parts.version) = (Uri::from(target), Version::HTTP_11);
    parts.extensions.clear();
    Request::from_parts(parts, body)
}

/// Sends one request to another server of the database, over a connection that is kept there, or over a new one.
pub(super) async fn exchange(
    mut request: Request,
    target: &ForwardTarget,
    idle: Option<&IdleConnections>,
    tenants: &Tenants,
) -> io::Result<Response> {
    while let Some(mut connection) = idle.and_then(IdleConnections::take) {
        match connection.try_send_request(request).await {
            Ok(response) => return Ok(keep(idle, connection, response)),
            // The other side has closed the connection, and nothing was sent.
            Err(mut error) => match error.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(io::Error::other(error.into_error())),
            },
        }
    }
    let world = tenants.world();
    let node = tenants.stores().and_then(|stores| stores.node()).unwrap_or_default();
    let stream = target.connect_as(node, &*world.entropy).await?;
    let (mut connection, serving) =
        http1::handshake::<_, Body>(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    world.tasks.spawn_until_shutdown(Kind::Connection, async move {
        if let Err(error) = serving.with_upgrades().await {
            tracing::debug!(%error, "a connection to another server ended early");
        }
    });
    let response = connection.send_request(request).await.map_err(io::Error::other)?;
    Ok(keep(idle, connection, response))
}

fn keep(
    idle: Option<&IdleConnections>,
    connection: http1::SendRequest<Body>,
    response: http::Response<Incoming>,
) -> Response {
    if let Some(idle) = idle {
        idle.put(connection);
    }
    response.map(Body::new)
}

/// Copies bytes between a client and another server after both have changed the protocol.
async fn connect(client: OnUpgrade, server: OnUpgrade) {
    let (client, server) = match tokio::try_join!(client, server) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "a connection did not change its protocol"),
    };
    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
    let copying = pin!(tokio::io::copy_bidirectional(&mut client, &mut server));
    if let Err(error) = copying.await {
        tracing::debug!(%error, "a connection to another server ended early");
    }
}

/// A request of this server itself.
pub(super) fn own_request(method: Method, path: &str, body: Body) -> Request {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap_or_default();
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("recount"));
    *request.headers_mut() = headers;
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_tokens_and_the_server_stay() {
        for (path, expected) in [
            ("/admin/tokens", true),
            ("/admin/tokens/tok_1", true),
            ("/v1/tickets", true),
            ("/sign-in/session", true),
            ("/metrics", true),
            ("/admin/tokens/tok_1/x", false),
            ("/admin/signing-keys", false),
            ("/admin/webhooks/a/deliveries", false),
            ("/v1/runs", false),
            ("/", false),
        ] {
            assert_eq!(is_of_the_main_server(path), expected, "{path}");
        }
    }

    #[test]
    fn a_request_between_servers_has_the_client_and_no_credentials() {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "https://example.org/v1/runs?limit=1".parse().unwrap();
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive"));
        headers.insert(CLIENT, HeaderValue::from_static("forged"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let sent = between_servers(request, HeaderValue::from_static("real"));
        assert_eq!((sent.uri().to_string(), sent.version()), ("/v1/runs?limit=1".into(), Version::HTTP_11));
        let names: Vec<(&str, &str)> =
            sent.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        let expected =
            [("recount-vouched-client", "real"), ("accept", "text/event-stream"), ("host", "example.org")];
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>(), expected.iter().collect());
    }
}
