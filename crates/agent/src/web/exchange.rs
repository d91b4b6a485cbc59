//! Sends one request and follows its redirects. Each hop is checked, logged before it is sent, and limited in time and
//! size.
//!
//! Start at [`Exchange`]. The module must not depend on the use of the response.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use recount_event::family::web::{Requested, Response as ResponseData};
use recount_event::{Draft, ForeignId, Payload};
use recount_world::World;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use tokio::time::Instant;

use super::Web;
use super::guard::{WebGuard, WebUrl};
use super::request::{NotFollowed, WebRequest, is_redirect};
use super::resolve::PinnedAddresses;
use super::text::MediaType;
use crate::limits::NAMED_CHARS_MAX;
use crate::model::innermost;
use crate::tool::{Cancel, EventReporter};
use crate::tools::cut_bytes;
use crate::tools::ending::{CallFailure, run_blocking};
use crate::web::limits;

/// The event types that record a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebEvents {
    Http,
    Fetch,
    Search,
}

impl WebEvents {
    fn requested(self, data: Requested) -> Draft {
        let data = Box::new(data);
        match self {
            WebEvents::Http => Payload::ToolHttpRequested(data),
            WebEvents::Fetch => Payload::ToolWebFetchRequested(data),
            WebEvents::Search => Payload::ToolWebSearchRequested(data),
        }
        .into()
    }

    pub(crate) fn response(self, data: ResponseData) -> Draft {
        let data = Box::new(data);
        match self {
            WebEvents::Http => Payload::ToolHttpResponse(data),
            WebEvents::Fetch => Payload::ToolWebFetchResponse(data),
            WebEvents::Search => Payload::ToolWebSearchResponse(data),
        }
        .into()
    }
}

/// Whether a redirected request may be sent; `Err` ends the call.
pub(crate) type MayFollow<'a> = &'a (dyn Fn(&WebRequest) -> Result<(), CallFailure> + Send + Sync);

/// The context of one request.
pub(crate) struct Exchange<'a> {
    pub(crate) web: &'a Web,
    pub(crate) events: WebEvents,
    pub(crate) call: &'a ForeignId,
    pub(crate) world: &'a World,
    /// `None`: the host is configured by the operator, and redirects are not followed.
    pub(crate) guard: Option<&'a WebGuard>,
    pub(crate) may_follow: MayFollow<'a>,
    pub(crate) reporter: &'a mut dyn EventReporter,
    pub(crate) body_bytes_max: usize,
    pub(crate) whole: Duration,
    /// The search query, which is logged instead of the URL's query.
    pub(crate) query: Option<&'a str>,
}

/// The received response.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) url: WebUrl,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) end: BodyEnd,
    /// Events that precede the response's.
    pub(crate) before: Vec<Draft>,
    /// The event of the response; the call adds the artifact.
    pub(crate) response: ResponseData,
}

/// How a body ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    Whole,
    /// Reading stopped at this many bytes.
    TooLong(usize),
    TimedOut(String),
    CutOff(String),
    /// The body is compressed and was not read.
    Encoded(String),
}

impl BodyEnd {
    /// Why the body is incomplete.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            BodyEnd::Whole => None,
            BodyEnd::TooLong(most) => {
                Some(format!("the body is larger than {most} bytes; the rest was not read"))
            }
            BodyEnd::TimedOut(why) | BodyEnd::CutOff(why) => Some(why.clone()),
            BodyEnd::Encoded(encoding) => Some(format!(
                "the server sent a compressed body ({encoding}) that was not requested; it was not read"
            )),
        }
    }
}

impl Received {
    pub(crate) fn media(&self) -> MediaType {
        let header = self.headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
        MediaType::read(&header.unwrap_or_default())
    }
}

/// The log of the hops so far.
#[derive(Default)]
struct HopLog {
    /// Events that are not reported yet.
    unreported: Vec<Draft>,
    /// When the open request was sent.
    sent: Option<Instant>,
}

impl Exchange<'_> {
    /// Sends a request and reads its response, or the response after redirects.
    pub(crate) async fn run(
        mut self,
        request: WebRequest,
        mut cancel: Cancel,
    ) -> Result<Received, CallFailure> {
        let until = recount_world::moment() + self.whole;
        let mut log = HopLog::default();
        let ended = {
            let following = tokio::time::timeout_at(until, self.follow(request, until, &mut log));
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(CallFailure::cancelled()),
                ended = following => ended.unwrap_or_else(|_| {
                    Err(CallFailure::timed_out("timeout", format!("no response within {} s", self.whole.as_secs())))
                }),
            }
        };
        match ended {
            Ok(mut received) => {
                received.before = log.unreported;
                Ok(received)
            }
            Err(stop) => {
                if log.sent.is_some() {
                    let mut response = self.start_response(&mut log);
                    response.error = Some(stop.message().to_owned());
                    log.unreported.push(self.events.response(response));
                }
                Err(stop.with_events(log.unreported))
            }
        }
    }

    async fn follow(
        &mut self,
        mut request: WebRequest,
        until: Instant,
        log: &mut HopLog,
    ) -> Result<Received, CallFailure> {
        for hops_left in (0..=limits::WEB_REDIRECTS_MAX).rev() {
            let addresses = self.addresses(&request.url).await?;
            self.report_request(&request, log).await?;
            let response = self.send(&request, addresses).await?;
            let location = response.headers().get(LOCATION).filter(|_| is_redirect(response.status()));
            let Some(location) = location.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned())
            else {
                return self.receive(request, response, until, log).await;
            };
            let status = response.status();
            let mut data = self.start_response(log);
            data.status = Some(status.as_u16().into());
            log.unreported.push(self.events.response(data));
            // No connection to the redirect's target before all of these checks pass.
            request = self.redirected(&request, status, &location)?;
            if hops_left == 0 {
                break;
            }
        }
        let most = limits::WEB_REDIRECTS_MAX;
        Err(CallFailure::failed(
            "too_many_redirects",
            format!("more than {most} redirects; the next one goes to {}", request.url),
        ))
    }

    /// Resolves a host and checks all its addresses.
    async fn addresses(&mut self, url: &WebUrl) -> Result<Vec<SocketAddr>, CallFailure> {
        let host = url.host();
        let mut addresses = match url.literal() {
            Some(address) => vec![SocketAddr::new(address, url.port())],
            None => {
                let looked_up = self.web.resolver().resolve(host, url.port());
                let unresolved = |why: &str| {
                    CallFailure::failed("name_not_resolved", format!("{host} cannot be resolved: {why}"))
                };
                match tokio::time::timeout(self.web.patience().connect, looked_up).await {
                    Ok(Ok(addresses)) if addresses.is_empty() => {
                        return Err(unresolved("the name has no address"));
                    }
                    Ok(Ok(addresses)) => addresses,
                    Ok(Err(why)) => return Err(unresolved(&why.to_string())),
                    Err(_) => return Err(unresolved("the DNS request timed out")),
                }
            }
        };
        addresses.truncate(limits::WEB_ADDRESSES_MAX);
        if let Some(guard) = self.guard {
            guard.check(url, &addresses).map_err(|why| CallFailure::failed(why.code(), why.to_string()))?;
        }
        Ok(addresses)
    }

    /// Reports that a request is sent, before it is sent.
    async fn report_request(&mut self, request: &WebRequest, log: &mut HopLog) -> Result<(), CallFailure> {
        let mut requested = Requested::new(self.call.clone());
        requested.method = Some(request.method.to_string());
        requested.header_keys = Some(request.header_keys());
        requested.query = self.query.map(str::to_owned);
        requested.url = Some(self.logged_url(&request.url));
        let mut drafts = std::mem::take(&mut log.unreported);
        drafts.push(self.events.requested(requested));
        self.reporter.report(drafts).await?;
        log.sent = Some(recount_world::moment());
        Ok(())
    }

    /// The URL to log. The URL of a provider may contain a key.
    fn logged_url(&self, url: &WebUrl) -> String {
        if self.query.is_some() { url.without_query() } else { url.to_string() }
    }

    /// Starts the event of a response.
    fn start_response(&self, log: &mut HopLog) -> ResponseData {
        let mut data = ResponseData::new(self.call.clone());
        let duration = log.sent.take().map(|sent| sent.elapsed().as_millis());
        data.duration_ms = duration.and_then(|duration| u64::try_from(duration).ok());
        data
    }

    async fn send(
        &mut self,
        request: &WebRequest,
        addresses: Vec<SocketAddr>,
    ) -> Result<Response, CallFailure> {
        let host = request.url.host();
        let (is_secure, pinned, connect) =
            (request.url.is_secure(), addresses.clone(), self.web.patience().connect);
        // Building the client reads the certificates of the system.
        let client = run_blocking(self.world, move || {
            client(is_secure, pinned, connect)
                .map_err(|why| CallFailure::failed("internal", format!("cannot prepare the request: {why}")))
        });
        let client = client.await?;
        let mut sending = client
            .request(request.method.clone(), request.url.url().clone())
            .headers(request.headers.clone());
        if let Some(body) = &request.body {
            sending = sending.body(body.clone());
        }
        let response = tokio::time::timeout(self.web.patience().silence, sending.send()).await;
        let response = response
            .map_err(|_| {
                let silence = self.web.patience().silence.as_secs();
                CallFailure::timed_out(
                    "timeout",
                    format!("{host} accepted the request and sent nothing for {silence} s"),
                )
            })?
            .map_err(|why| {
                let what = if why.is_connect() {
                    "cannot be reached"
                } else {
                    "sent a response that cannot be read"
                };
                let code = if why.is_connect() { "unreachable" } else { "response_invalid" };
                CallFailure::failed(code, format!("{host} {what}: {}", innermost(why)))
            })?;
        // The connection can only use the checked addresses. This is verified, because all other checks depend on it.
        if response.remote_addr().is_none_or(|peer| !addresses.contains(&peer)) {
            return Err(CallFailure::failed(
                "address_refused",
                format!("{host} was contacted at an address that was not checked"),
            ));
        }
        let size: usize =
            response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if size > limits::WEB_HEADER_BYTES_MAX {
            let most = limits::WEB_HEADER_BYTES_MAX;
            return Err(CallFailure::failed(
                "response_invalid",
                format!("{host} sent {size} bytes of headers; at most {most} are read"),
            ));
        }
        Ok(response)
    }

    /// The request that follows a redirect, if it is allowed.
    fn redirected(
        &self,
        request: &WebRequest,
        status: StatusCode,
        location: &str,
    ) -> Result<WebRequest, CallFailure> {
        let from = cut_bytes(self.logged_url(&request.url), limits::WEB_NAMED_URL_BYTES_MAX);
        let number = status.as_u16();
        let to = request.url.join(location).map_err(|why| {
            CallFailure::failed(
                why.code(),
                format!("{from} returned {number} with a URL that is not followed: {why}"),
            )
        })?;
        let logged_url = cut_bytes(self.logged_url(&to), limits::WEB_NAMED_URL_BYTES_MAX);
        let not_followed = |why: &str| {
            CallFailure::failed(
                "redirect_not_followed",
                format!("{from} returned {number}, which redirects to {logged_url}; {why}"),
            )
        };
        if self.guard.is_none() {
            return Err(not_followed(
                "redirects of a search provider are not followed; configure its final URL",
            ));
        }
        let next = request.redirected(status, to).map_err(|why| match why {
            NotFollowed::Downgrade => {
                not_followed("that URL is without TLS; request it separately if needed")
            }
            NotFollowed::ChangesThings => not_followed(
                "a request that may change something is not repeated at another server; send it separately \
                 if needed",
            ),
        })?;
        if next.url.host() != request.url.host() {
            (self.may_follow)(&next).map_err(|stop| {
                stop.with_note(&format!("{from} returned {number}, which redirects to {logged_url}"))
            })?;
        }
        Ok(next)
    }

    async fn receive(
        &mut self,
        request: WebRequest,
        response: Response,
        until: Instant,
        log: &mut HopLog,
    ) -> Result<Received, CallFailure> {
        let (status, headers) = (response.status(), response.headers().clone());
        let encoding =
            headers.get(CONTENT_ENCODING).map(|encoding| String::from_utf8_lossy(encoding.as_bytes()));
        let encoding = encoding.filter(|encoding| !matches!(encoding.trim(), "" | "identity"));
        let (body, end) = match encoding {
            Some(encoding) if request.method != Method::HEAD => {
                (Bytes::new(), BodyEnd::Encoded(cut_bytes(encoding.into_owned(), NAMED_CHARS_MAX)))
            }
            _ => self.body(response, until).await,
        };
        let mut data = self.start_response(log);
        data.status = Some(status.as_u16().into());
        data.body_truncated = Some(end != BodyEnd::Whole);
        data.error = end.reason().filter(|_| !matches!(end, BodyEnd::TooLong(_)));
        Ok(Received { url: request.url, status, headers, body, end, before: Vec::new(), response: data })
    }

    /// Reads a body up to its limit. Data received before an error counts.
    async fn body(&mut self, response: Response, until: Instant) -> (Bytes, BodyEnd) {
        let most = self.body_bytes_max;
        let mut body = BytesMut::new();
        let mut chunks = response.bytes_stream();
        let end = loop {
            let silent_at = recount_world::moment() + self.web.patience().silence;
            let chunk = match tokio::time::timeout_at(silent_at.min(until), chunks.next()).await {
                Ok(None) => break BodyEnd::Whole,
                Ok(Some(Ok(chunk))) => chunk,
                Ok(Some(Err(why))) => {
                    break BodyEnd::CutOff(format!(
                        "the response was cut off after {} bytes: {}",
                        body.len(),
                        innermost(why)
                    ));
                }
                Err(_) if silent_at < until => {
                    let silence = self.web.patience().silence.as_secs();
                    break BodyEnd::TimedOut(format!(
                        "the server sent nothing for {silence} s after {} bytes",
                        body.len()
                    ));
                }
                Err(_) => {
                    let whole = self.whole.as_secs();
                    break BodyEnd::TimedOut(format!(
                        "the response did not finish within {whole} s; {} bytes were received",
                        body.len()
                    ));
                }
            };
            let room = most - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                break BodyEnd::TooLong(most);
            }
        };
        (body.freeze(), end)
    }
}

/// Creates a client for one hop: it connects only to the checked addresses, follows no redirects and uses no proxy.
fn client(is_secure: bool, addresses: Vec<SocketAddr>, connect: Duration) -> Result<Client, String> {
    // The process chooses the TLS crypto provider once; an earlier choice is kept.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut client = Client::builder()
        .dns_resolver(std::sync::Arc::new(PinnedAddresses(addresses)))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .http1_only()
        .http1_max_headers(limits::WEB_HEADERS_MAX)
        .connect_timeout(connect)
        .pool_max_idle_per_host(0)
        .tcp_nodelay(true);
    if !is_secure {
        // Without TLS no certificates are read, so a machine without certificates works too.
        client = client.tls_certs_only([]);
    }
    client.build().map_err(innermost)
}
