//! Refuses a connection: reads one request, and sends the response of a router to it. See [`refuse_connection`].

use std::fmt::Display;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt as _;

use crate::limits;

/// Reads one request and refuses it. A refusal sent before the request could be lost with the connection.
pub(crate) async fn refuse_connection<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    peer: impl Display + Send,
    full: Router,
) {
    let connection = http1::Builder::new()
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service(full));
    match tokio::time::timeout(limits::REFUSAL_WAIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection over the limit closed before it was rejected")
        }
        Err(_) => tracing::debug!(%peer, "a connection over the limit timed out before it was rejected"),
    }
}

type RequestService = TowerToHyperService<
    tower::util::MapRequest<Router, fn(http::Request<Incoming>) -> http::Request<axum::body::Body>>,
>;

fn service(router: Router) -> RequestService {
    TowerToHyperService::new(router.map_request(|request| request.map(axum::body::Body::new)))
}
