//! One request with all the redirects that it follows: each hop is checked, told in the log before it is sent, and
//! bounded in time and size.
//!
//! Look at [`Exchange`]. It must not know what a response is for.

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
use crate::tool::{Cancel, Teller};
use crate::tools::cut_bytes;
use crate::tools::ending::{Stop, aside};
use crate::web::limits;

/// Which events a request is told by.
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

/// Whether the server may send the request to an address; `Err` stops the call.
pub(crate) type MayFollow<'a> = &'a (dyn Fn(&WebRequest) -> Result<(), Stop> + Send + Sync);

/// What an exchange needs of its call.
pub(crate) struct Exchange<'a> {
    pub(crate) web: &'a Web,
    pub(crate) events: WebEvents,
    pub(crate) call: &'a ForeignId,
    pub(crate) world: &'a World,
    /// `None`: the host is the operator's choice, and no redirect is followed.
    pub(crate) guard: Option<&'a WebGuard>,
    pub(crate) may_follow: MayFollow<'a>,
    pub(crate) teller: &'a mut dyn Teller,
    pub(crate) body_bytes_max: usize,
    pub(crate) whole: Duration,
    /// What was searched for, where that is what is told of the address.
    pub(crate) query: Option<&'a str>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) url: WebUrl,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) end: BodyEnd,
    /// Events that precede the response's.
    pub(crate) before: Vec<Draft>,
    /// The response's event, to which the call adds what it keeps.
    pub(crate) response: ResponseData,
}

/// How a body ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    Whole,
    /// At this many bytes, where reading stopped.
    TooLong(usize),
    TimedOut(String),
    CutOff(String),
    /// It is compressed, and was not read.
    Encoded(String),
}

impl BodyEnd {
    /// Why the body is not whole.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            BodyEnd::Whole => None,
            BodyEnd::TooLong(most) => {
                Some(format!("the body is longer than {most} bytes; the rest was not read"))
            }
            BodyEnd::TimedOut(why) | BodyEnd::CutOff(why) => Some(why.clone()),
            BodyEnd::Encoded(encoding) => Some(format!(
                "the server compressed the body ({encoding}) although that was not asked for, and it was not read"
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

/// What is written down of requests so far.
#[derive(Default)]
struct HopLog {
    /// Events that are not told yet.
    waiting: Vec<Draft>,
    /// When the request was sent whose response is not written down yet.
    sent: Option<Instant>,
}

impl Exchange<'_> {
    /// Sends a request and reads its response, or that of where it leads.
    pub(crate) async fn run(mut self, request: WebRequest, mut cancel: Cancel) -> Result<Received, Stop> {
        let until = recount_world::moment() + self.whole;
        let mut told = HopLog::default();
        let ended = {
            let following = tokio::time::timeout_at(until, self.follow(request, until, &mut told));
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(Stop::cancelled()),
                ended = following => ended.unwrap_or_else(|_| {
                    Err(Stop::timed_out("timeout", format!("no response came within {} s", self.whole.as_secs())))
                }),
            }
        };
        match ended {
            Ok(mut received) => {
                received.before = told.waiting;
                Ok(received)
            }
            Err(stop) => {
                if told.sent.is_some() {
                    let mut response = self.responded(&mut told);
                    response.error = Some(stop.words().to_owned());
                    told.waiting.push(self.events.response(response));
                }
                Err(stop.with(told.waiting))
            }
        }
    }

    async fn follow(
        &mut self,
        mut request: WebRequest,
        until: Instant,
        told: &mut HopLog,
    ) -> Result<Received, Stop> {
        for hops_left in (0..=limits::WEB_REDIRECTS_MAX).rev() {
            let addresses = self.addresses(&request.url).await?;
            self.announce(&request, told).await?;
            let response = self.send(&request, addresses).await?;
            let location = response.headers().get(LOCATION).filter(|_| is_redirect(response.status()));
            let Some(location) = location.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned())
            else {
                return self.receive(request, response, until, told).await;
            };
            let status = response.status();
            let mut data = self.responded(told);
            data.status = Some(status.as_u16().into());
            told.waiting.push(self.events.response(data));
            // Where it leads is not connected to unless all of this agrees.
            request = self.redirected(&request, status, &location)?;
            if hops_left == 0 {
                break;
            }
        }
        let most = limits::WEB_REDIRECTS_MAX;
        Err(Stop::failed(
            "too_many_redirects",
            format!("more than {most} redirects; the next one leads to {}", request.url),
        ))
    }

    /// What a host resolves to, all of it checked.
    async fn addresses(&mut self, url: &WebUrl) -> Result<Vec<SocketAddr>, Stop> {
        let host = url.host();
        let mut addresses = match url.literal() {
            Some(address) => vec![SocketAddr::new(address, url.port())],
            None => {
                let looked_up = self.web.resolver().resolve(host, url.port());
                let unresolved = |why: &str| {
                    Stop::failed("name_not_resolved", format!("{host} cannot be resolved: {why}"))
                };
                match tokio::time::timeout(self.web.patience().connect, looked_up).await {
                    Ok(Ok(addresses)) if addresses.is_empty() => return Err(unresolved("it has no address")),
                    Ok(Ok(addresses)) => addresses,
                    Ok(Err(why)) => return Err(unresolved(&why.to_string())),
                    Err(_) => return Err(unresolved("no answer came in time")),
                }
            }
        };
        addresses.truncate(limits::WEB_ADDRESSES_MAX);
        if let Some(guard) = self.guard {
            guard.check(url, &addresses).map_err(|why| Stop::failed(why.code(), why.to_string()))?;
        }
        Ok(addresses)
    }

    /// Writes down that a request is sent, before it is.
    async fn announce(&mut self, request: &WebRequest, told: &mut HopLog) -> Result<(), Stop> {
        let mut requested = Requested::new(self.call.clone());
        requested.method = Some(request.method.to_string());
        requested.header_keys = Some(request.header_keys());
        requested.query = self.query.map(str::to_owned);
        requested.url = Some(self.shown(&request.url));
        let mut drafts = std::mem::take(&mut told.waiting);
        drafts.push(self.events.requested(requested));
        self.teller.tell(drafts).await?;
        told.sent = Some(recount_world::moment());
        Ok(())
    }

    /// An address as it may be told. That of a provider may hold a key.
    fn shown(&self, url: &WebUrl) -> String {
        if self.query.is_some() { url.without_query() } else { url.to_string() }
    }

    /// The event of a response, as far as it is known.
    fn responded(&self, told: &mut HopLog) -> ResponseData {
        let mut data = ResponseData::new(self.call.clone());
        let took = told.sent.take().map(|sent| sent.elapsed().as_millis());
        data.duration_ms = took.and_then(|took| u64::try_from(took).ok());
        data
    }

    async fn send(&mut self, request: &WebRequest, addresses: Vec<SocketAddr>) -> Result<Response, Stop> {
        let host = request.url.host();
        let (is_secure, pinned, connect) =
            (request.url.is_secure(), addresses.clone(), self.web.patience().connect);
        // Certificates of the system are read for it.
        let client = aside(self.world, move || {
            client(is_secure, pinned, connect)
                .map_err(|why| Stop::failed("internal", format!("a request cannot be prepared: {why}")))
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
                Stop::timed_out(
                    "timeout",
                    format!("{host} accepted the request and said nothing for {silence} s"),
                )
            })?
            .map_err(|why| {
                let what =
                    if why.is_connect() { "cannot be reached" } else { "gave no response that can be read" };
                let code = if why.is_connect() { "unreachable" } else { "response_invalid" };
                Stop::failed(code, format!("{host} {what}: {}", innermost(why)))
            })?;
        // The connection has no other addresses to choose from; that is looked at, because all else rests on it.
        if response.remote_addr().is_none_or(|peer| !addresses.contains(&peer)) {
            return Err(Stop::failed(
                "address_refused",
                format!("{host} was reached at an address that was not checked"),
            ));
        }
        let size: usize =
            response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if size > limits::WEB_HEADER_BYTES_MAX {
            let most = limits::WEB_HEADER_BYTES_MAX;
            return Err(Stop::failed(
                "response_invalid",
                format!("{host} sent {size} bytes of headers; at most {most} are read"),
            ));
        }
        Ok(response)
    }

    /// The request that a redirect asks for, if it is followed.
    fn redirected(
        &self,
        request: &WebRequest,
        status: StatusCode,
        location: &str,
    ) -> Result<WebRequest, Stop> {
        let from = cut_bytes(self.shown(&request.url), limits::WEB_NAMED_URL_BYTES_MAX);
        let number = status.as_u16();
        let to = request.url.join(location).map_err(|why| {
            Stop::failed(
                why.code(),
                format!("{from} answered {number} with an address that is not followed: {why}"),
            )
        })?;
        let shown = cut_bytes(self.shown(&to), limits::WEB_NAMED_URL_BYTES_MAX);
        let not_followed = |why: &str| {
            Stop::failed(
                "redirect_not_followed",
                format!("{from} answered {number} and leads to {shown}; {why}"),
            )
        };
        if self.guard.is_none() {
            return Err(not_followed("the address of the provider has to be the last one"));
        }
        let next = request.redirected(status, to).map_err(|why| match why {
            NotFollowed::Downgrade => not_followed("that is without encryption; request it by itself if it is wanted"),
            NotFollowed::ChangesThings => not_followed(
                "a request that may change something is not repeated at another server; request it by itself if it is wanted",
            ),
        })?;
        if next.url.host() != request.url.host() {
            (self.may_follow)(&next)
                .map_err(|stop| stop.saying(&format!("{from} answered {number} and leads to {shown}")))?;
        }
        Ok(next)
    }

    async fn receive(
        &mut self,
        request: WebRequest,
        response: Response,
        until: Instant,
        told: &mut HopLog,
    ) -> Result<Received, Stop> {
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
        let mut data = self.responded(told);
        data.status = Some(status.as_u16().into());
        data.body_truncated = Some(end != BodyEnd::Whole);
        data.error = end.words().filter(|_| !matches!(end, BodyEnd::TooLong(_)));
        Ok(Received { url: request.url, status, headers, body, end, before: Vec::new(), response: data })
    }

    /// Reads a body as far as it may be read. What came before it broke off counts.
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
                        "nothing more came for {silence} s after {} bytes",
                        body.len()
                    ));
                }
                Err(_) => {
                    let whole = self.whole.as_secs();
                    break BodyEnd::TimedOut(format!(
                        "the response did not end within {whole} s; {} bytes came",
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

/// A client for one hop: it knows the addresses that were checked and no others, follows nothing, and uses no proxy.
fn client(is_secure: bool, addresses: Vec<SocketAddr>, connect: Duration) -> Result<Client, String> {
    // Whose cryptography TLS uses is for the process to say, once; a choice made earlier is as good.
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
        // No certificate is looked at, so none is read, and a machine without any will do.
        client = client.tls_certs_only([]);
    }
    client.build().map_err(innermost)
}
