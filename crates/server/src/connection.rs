//! Serves one connection: HTTP until a client requests an event stream, then the stream, then HTTP again.
//!
//! While a stream is sent, the HTTP library does not have the connection: there are no buffers and no state machine
//! between a frame and the socket. See `recount_transport::Handover` and `docs/decisions/0010`. HTTP/1.0 requests,
//! requests with a body and HEAD requests stay with the library.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode, Version, header};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use recount_transport::outlet::{self, End};
use recount_transport::{Handover, Pieces, StallGuard};
use recount_world::{Clock, Kind, Shutdown, World};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt as _;

use crate::connection_limits::ConnectionLimits;
use crate::encryption::Encryption;
use crate::forwarding::ForwardAcceptor;
use crate::limits;
use crate::peer::{ArrivedAt, Encrypted, Peer};
use crate::upgradable::upgradable;

/// What all connections share.
pub(crate) struct ServerContext {
    pub(crate) router: Router,
    pub(crate) connections: Arc<ConnectionLimits>,
    pub(crate) world: World,
    /// Encrypts connections, if they are to be encrypted.
    pub(crate) encryption: Option<Encryption>,
    /// Accepts connections of other servers, if there can be any.
    pub(crate) forwards: Option<Arc<ForwardAcceptor>>,
    pub(crate) heads: HeadLimits,
}

/// Limits of the heads of requests over HTTP/1.
#[derive(Clone, Copy)]
pub(crate) struct HeadLimits {
    bytes: usize,
    headers: usize,
}

impl HeadLimits {
    pub(crate) const OF_CLIENTS: HeadLimits =
        HeadLimits { bytes: limits::HEAD_BYTES_MAX, headers: limits::HEADERS_MAX };
    /// Such a head, and the client that another server has identified.
    pub(crate) const BETWEEN_SERVERS: HeadLimits =
        HeadLimits { bytes: 2 * limits::HEAD_BYTES_MAX, headers: 2 * limits::HEADERS_MAX };
}

/// Both ends of a connection.
#[derive(Clone)]
pub(crate) struct Ends {
    pub(crate) peer: Peer,
    /// Where it arrived, if that was another server.
    pub(crate) arrived_at: Option<SocketAddr>,
    pub(crate) is_encrypted: bool,
}

/// A requested stream, and the head of its response.
struct Stream {
    head: Bytes,
    pieces: Pieces,
}

/// Serves until the peer leaves, something fails, or the server shuts down.
pub(crate) async fn serve<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    ends: Ends,
    context: Arc<ServerContext>,
    mut shutdown: Shutdown,
) {
    let peer = ends.peer.clone();
    let mut socket = StallGuard::new(stream, recount_transport::limits::WRITE_STALL);
    loop {
        // Boxed, so that it takes no memory while a stream is sent.
        let served = Box::pin(serve_http(socket, ends.clone(), &context, &mut shutdown)).await;
        let Some((free, requested)) = served else { return };
        socket = free;
        let writing = outlet::write(&mut socket, requested.head, requested.pieces);
        let Some(outcome) = until_drained(writing, &mut shutdown).await else { return };
        match outcome.end {
            End::Whole if !shutdown.is_requested() => {}
            End::Whole | End::Left => return,
            End::Failed(error) if error.kind() == io::ErrorKind::TimedOut => {
                context.connections.count_stalled();
                let after = outcome.cursor;
                tracing::info!(%peer, after, "a slow reader was disconnected: it accepted no data for too long; it can resume after this id");
                return;
            }
            End::Failed(error) => {
                tracing::debug!(%peer, %error, "a stream ended early");
                return;
            }
        }
    }
}

/// The outcome, unless the server shuts down and it does not come soon.
async fn until_drained<T>(work: impl Future<Output = T>, shutdown: &mut Shutdown) -> Option<T> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        outcome = work.as_mut() => return Some(outcome),
        () = shutdown.requested() => {}
    }
    tokio::time::timeout(limits::DRAIN_WAIT, work).await.ok()
}

/// Serves requests until one is for a stream; `None` when the connection is over.
async fn serve_http<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: StallGuard<IO>,
    ends: Ends,
    context: &Arc<ServerContext>,
    shutdown: &mut Shutdown,
) -> Option<(StallGuard<IO>, Stream)> {
    let (peer, waiting) = (ends.peer.clone(), socket.waiting());
    let requested = RequestedStream::default();
    let (socket, dropped) = upgradable(socket);
    let handler = RequestHandler { context: context.clone(), ends, requested: requested.clone() };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_WAIT)
        .max_buf_size(context.heads.bytes)
        .max_headers(context.heads.headers)
        .keep_alive(true)
        .serve_connection(TokioIo::new(socket), handler)
        .with_upgrades();
    let poll_until_stream = |connection: &mut http1::UpgradeableConnection<_, _>, cx: &mut Context<'_>| {
        match Pin::new(connection).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Err(outcome)),
            // Earlier responses are written first.
            Poll::Pending if waiting.load(Ordering::Relaxed) => Poll::Pending,
            Poll::Pending => match requested.take() {
                Some(stream) => Poll::Ready(Ok(stream)),
                None => Poll::Pending,
            },
        }
    };
    let served = tokio::select! {
        served = poll_fn(|cx| poll_until_stream(&mut connection, cx)) => served,
        () = shutdown.requested() => {
            Pin::new(&mut connection).graceful_shutdown();
            let rest = poll_fn(|cx| poll_until_stream(&mut connection, cx));
            tokio::time::timeout(limits::DRAIN_WAIT, rest).await.unwrap_or(Err(Ok(())))
        }
    };
    match served {
        Ok(stream) => {
            // The library has answered all earlier requests, and has nothing left to write.
            let parts = connection.into_parts()?;
            let mut socket = parts.io.into_inner().into_inner();
            socket.give_back(&parts.read_buf);
            Some((socket, stream))
        }
        Err(outcome) => {
            drop(connection);
            // A WebSocket keeps the slot of its connection.
            let stalled = until_drained(dropped.wait(), shutdown).await == Some(true);
            match outcome {
                Err(error) if !stalled && !is_stall(&error) => {
                    tracing::debug!(%peer, %error, "a connection ended early");
                }
                Ok(()) if !stalled => {}
                _ => {
                    context.connections.count_stalled();
                    tracing::info!(%peer, "a connection was closed: its peer accepted no data for too long");
                }
            }
            None
        }
    }
}

/// Serves any number of requests at a time until the peer leaves or the server shuts down. Streams stay with the library.
pub(crate) async fn serve_http2<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    ends: Ends,
    context: Arc<ServerContext>,
    mut shutdown: Shutdown,
) {
    let peer = ends.peer.clone();
    let socket = StallGuard::new(stream, recount_transport::limits::WRITE_STALL);
    let requests = Arc::<ActiveRequests>::default();
    let handler = RequestHandler { context: context.clone(), ends, requested: RequestedStream::default() };
    let handler = CountingHandler { handler, requests: requests.clone() };
    let connection = http2::Builder::new(OwnTasks(context.world.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::REQUESTS_OF_A_CONNECTION_MAX)
        .max_header_list_size(limits::HEAD_BYTES_MAX as u32)
        .max_send_buf_size(limits::SEND_BYTES_OF_A_REQUEST_MAX)
        .keep_alive_interval(limits::PROBE_EVERY)
        .keep_alive_timeout(limits::PROBE_EVERY)
        .serve_connection(TokioIo::new(socket), handler);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = async {
            tokio::select! {
                () = shutdown.requested() => {}
                () = requests.idle() => {}
            }
        } => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(limits::DRAIN_WAIT, connection).await.unwrap_or(Ok(()))
        }
    };
    match served {
        Err(error) if is_stall(&error) => {
            context.connections.count_stalled();
            tracing::info!(%peer, "a connection was closed: its peer accepted no data for too long");
        }
        Err(error) => tracing::debug!(%peer, %error, "a connection ended early"),
        Ok(()) => {}
    }
}

/// The requests of an HTTP/2 connection that are not answered in full.
#[derive(Default)]
struct ActiveRequests {
    active: AtomicUsize,
    /// Counts all requests.
    started: AtomicU64,
}

/// One of them, until it is dropped.
struct ActiveRequest(Arc<ActiveRequests>);

impl ActiveRequests {
    fn begin(self: &Arc<Self>) -> ActiveRequest {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.started.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    /// Waits until there was no request for as long as an HTTP/1 connection may be without one.
    async fn idle(&self) {
        loop {
            let before = self.started.load(Ordering::Relaxed);
            tokio::time::sleep(limits::HEAD_WAIT).await;
            let is_active = self.active.load(Ordering::Relaxed) > 0;
            if !is_active && self.started.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts the requests of an HTTP/2 connection until their responses are sent.
struct CountingHandler {
    handler: RequestHandler,
    requests: Arc<ActiveRequests>,
}

impl Service<Request<Incoming>> for CountingHandler {
    type Response = http::Response<CountedBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (active, response) = (self.requests.begin(), self.handler.call(request));
        Box::pin(async move { Ok(response.await?.map(|body| CountedBody { body, _active: active })) })
    }
}

/// A body that counts as active until it is sent or dropped.
struct CountedBody {
    body: Body,
    _active: ActiveRequest,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// Runs the requests of an HTTP/2 connection as tasks of this server.
#[derive(Clone)]
struct OwnTasks(World);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for OwnTasks {
    fn execute(&self, request: F) {
        self.0.tasks.spawn(Kind::Connection, |_| request);
    }
}

/// Whether [`StallGuard`] ended an HTTP connection.
fn is_stall(error: &hyper::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Holds a requested stream until the connection takes it.
#[derive(Clone, Default)]
struct RequestedStream(Arc<Mutex<Option<Stream>>>);

impl RequestedStream {
    fn put(&self, stream: Stream) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }

    fn take(&self) -> Option<Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Serves requests. A request for a stream never gets its response here: the stream is put into the shared slot,
/// and the connection leaves the library.
struct RequestHandler {
    context: Arc<ServerContext>,
    ends: Ends,
    requested: RequestedStream,
}

impl Service<Request<Incoming>> for RequestHandler {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        // The library counts what it has not read as a head yet, and a head may come with the last read.
        if head_bytes(&request) > self.context.heads.bytes {
            let closes = [(header::CONNECTION, "close")];
            let refused = (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, closes).into_response();
            return Box::pin(async move { Ok(refused) });
        }
        request.extensions_mut().insert(self.ends.peer.clone());
        if self.ends.is_encrypted {
            request.extensions_mut().insert(Encrypted);
        }
        if let Some(address) = self.ends.arrived_at {
            request.extensions_mut().insert(ArrivedAt(address));
        }
        let can_take_over = can_take_over(&request);
        let (clock, requested) = (self.context.world.clock.clone(), self.requested.clone());
        let response = self.context.router.clone().oneshot(request.map(Body::new));
        Box::pin(async move {
            let mut response = response.await?;
            let handover = response.extensions_mut().remove::<Handover>();
            match handover.filter(|_| can_take_over && response.status() == StatusCode::OK) {
                Some(handover) if let Some(pieces) = handover.take() => {
                    requested.put(Stream { head: head(response.headers(), &*clock), pieces });
                    std::future::pending().await
                }
                _ => Ok(response),
            }
        })
    }
}

/// How long the head of a request was.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let target = request.uri().path_and_query().map_or(1, |target| target.as_str().len());
    let line = request.method().as_str().len() + target + "  HTTP/1.1\r\n".len();
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + headers.sum::<usize>() + "\r\n".len()
}

/// Whether the bytes after the head of the response are framed by this file, and the next request begins where
/// this one ends.
fn can_take_over(request: &Request<Incoming>) -> bool {
    let stays = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && request.body().is_end_stream()
        && request.headers().get_all(header::CONNECTION).iter().all(stays)
}

/// The head of a stream's response, as the library would write it.
fn head(headers: &HeaderMap, clock: &dyn Clock) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(b"HTTP/1.1 200 OK\r\n");
    for (name, value) in headers {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(clock.now_ms());
    let date = httpdate::fmt_http_date(now);
    out.put_slice(format!("transfer-encoding: chunked\r\ndate: {date}\r\n\r\n").as_bytes());
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_after_a_time_without_requests() {
        let requests = Arc::<ActiveRequests>::default();
        let is_idle = async |within| tokio::time::timeout(within, requests.idle()).await.is_ok();
        let active = requests.begin();
        assert!(!is_idle(10 * limits::HEAD_WAIT).await, "a response is being sent");
        drop(active);
        assert!(is_idle(2 * limits::HEAD_WAIT).await);
    }
}
