//! Connects an MCP client at our standard input and output to a server at an address: each line is a POST, and each message
//! of the server is a line. See [`HttpServer::connect`].
//!
//! Copies of the messages go to the recorder. It must not know what they mean, except for the id of a request that fails,
//! the session and the protocol version, which HTTP repeats in headers.

use std::collections::VecDeque;
use std::sync::Mutex;

use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use recount_client::{ClientError, moment, request_url};
use recount_record::mcp::McpSide;
use recount_transport::mcp_header;
use recount_transport::sse::Decoder;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::sleep_until;

use super::pump::{LineCutter, McpQueue};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;
use crate::render::count;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
/// In a request of the versions without a handshake: its version.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const LAST_EVENT: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A server at an address.
pub(super) struct HttpServer<'q> {
    http: reqwest::Client,
    url: Url,
    queue: &'q McpQueue,
    /// What every request carries: the token, then the session and the version once they are known.
    headers: Mutex<HeaderMap>,
    out: tokio::sync::Mutex<Output>,
}

/// Standard output, and what of the messages to it is not written yet.
struct Output {
    stdout: tokio::io::Stdout,
    unwritten: VecDeque<u8>,
}

/// A message of the client, and what it is for.
struct Posted {
    line: Vec<u8>,
    /// The id of a request, which needs an answer.
    id: Option<Value>,
    is_initialize: bool,
    /// Whether the response goes on until the client cancels the request.
    is_subscription: bool,
    /// The request that the client cancels.
    cancelled: Option<Value>,
    /// Of a request that is complete in itself: what HTTP repeats of it.
    headers: Option<HeaderMap>,
    /// Whether it is one message at all.
    is_message: bool,
}

/// What follows from a message that was posted.
#[derive(PartialEq, Eq)]
enum PostOutcome {
    Nothing,
    /// The server may send messages of its own from now on.
    Listen,
}

impl<'q> HttpServer<'q> {
    /// `token` is shown to the server as a bearer token.
    pub(super) fn new(address: &str, token: Option<&str>, queue: &'q McpQueue) -> Result<Self, Failure> {
        let parsed = Url::parse(&request_url(address)).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
        });
        // An address may hold a password, so a wrong one is not repeated.
        let url = parsed.ok_or_else(|| {
            let such = "use a URL such as https://mcp.example.com/mcp, without a password";
            Failure::Usage(format!("the argument is not the URL of an MCP server; {such}"))
        })?;
        let http =
            recount_client::connections(address).map_err(|why: ClientError| Failure::Own(why.to_string()))?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let value = recount_client::bearer(token).map_err(|why| Failure::Usage(why.to_string()))?;
            headers.insert(AUTHORIZATION, value);
        }
        let out = Output { stdout: tokio::io::stdout(), unwritten: VecDeque::new() };
        let out = tokio::sync::Mutex::new(out);
        Ok(HttpServer { http, url, queue, headers: Mutex::new(headers), out })
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Forwards until the client has ended its input and its requests are answered or too late, or until `stopped`.
    pub(super) async fn connect(&self, stopped: impl Future<Output = ()>) {
        let (send, mut lines) = channel(limits::MCP_HTTP_LINES_MAX);
        let reading = read_lines(send, self.queue);
        tokio::pin!(reading, stopped);
        let (mut is_reading, mut is_over) = (true, false);
        let mut give_up = moment();
        let mut posts = FuturesUnordered::new();
        let mut listening = None;
        let mut subscriptions: Vec<(Option<Value>, AbortHandle)> = Vec::new();
        while !(is_over && posts.is_empty()) {
            let listen = async {
                match listening.as_mut() {
                    Some(listening) => listening.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut reading, if is_reading => is_reading = false,
                line = lines.recv(), if !is_over && posts.len() < limits::MCP_HTTP_REQUESTS_MAX => match line {
                    Some(line) => {
                        let posted = Posted::of(line);
                        if posted.cancelled.is_some() {
                            end_subscriptions(&mut subscriptions, |id| *id == posted.cancelled);
                        }
                        let (end, registration) = AbortHandle::new_pair();
                        let fits = subscriptions.len() < limits::MCP_SUBSCRIPTIONS_MAX;
                        let refused = posted.is_subscription && !fits;
                        if posted.is_subscription && fits {
                            subscriptions.push((posted.id.clone(), end));
                        }
                        // Awaited with the others: one of them may hold the output.
                        posts.push(async move {
                            if refused {
                                self.refuse_subscription(posted.id.as_ref()).await;
                                return (None, Ok(PostOutcome::Nothing));
                            }
                            let id = posted.id.clone().filter(|_| posted.is_subscription);
                            let outcome = Abortable::new(self.post(posted), registration).await;
                            if outcome.is_err() {
                                // It may have ended within a line.
                                self.write_out(&mut *self.out.lock().await).await;
                            }
                            (id, outcome)
                        });
                    }
                    None => {
                        (is_over, give_up) = (true, moment() + limits::MCP_HTTP_LAST_WAIT);
                        end_subscriptions(&mut subscriptions, |_| true);
                    }
                },
                Some((ended, next)) = posts.next() => {
                    if ended.is_some() {
                        end_subscriptions(&mut subscriptions, |id| *id == ended);
                    }
                    if next == Ok(PostOutcome::Listen) && listening.is_none() {
                        listening = Some(self.listen().boxed_local());
                    }
                }
                () = listen => listening = None,
                () = sleep_until(give_up), if is_over => {
                    let requests = count(posts.len() as u64, "request");
                    note(&format!("stopping: the MCP server at {} did not answer {requests}", self.host()));
                    break;
                }
                () = &mut stopped => break,
            }
        }
        self.leave().await;
    }

    async fn post(&self, posted: Posted) -> PostOutcome {
        let mut next = PostOutcome::Nothing;
        if let Err(why) = self.exchange(&posted, &mut next).await {
            let message = format!("recount: the MCP server at {}: {why}", self.host());
            note(&message);
            if let Some(id) = &posted.id {
                let error =
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": message}});
                self.deliver(error.to_string().as_bytes()).await;
            }
        }
        next
    }

    /// One subscription more would keep other requests of the client waiting.
    async fn refuse_subscription(&self, id: Option<&Value>) {
        let most = limits::MCP_SUBSCRIPTIONS_MAX;
        let message = format!("recount: {most} subscriptions are open; cancel one first");
        let data = json!({"limit": "open subscriptions", "max": most});
        let error = json!({"code": -32025, "message": message, "data": data});
        self.deliver(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().as_bytes()).await;
    }

    async fn exchange(&self, posted: &Posted, next: &mut PostOutcome) -> Result<(), String> {
        let request = self.request(Method::POST).header(CONTENT_TYPE, JSON).body(posted.line.clone());
        let request = request.headers(posted.headers.clone().unwrap_or_default());
        let response = request.header(ACCEPT, format!("{JSON}, {EVENTS}")).send().await.map_err(words)?;
        if posted.is_initialize
            && let Some(session) = response.headers().get(SESSION)
        {
            self.keep_header(SESSION, session.clone());
        }
        let status = response.status();
        if !status.is_success() {
            let body = whole(response, limits::MCP_HTTP_ERROR_BYTES_MAX).await.unwrap_or_default();
            if posted.is_error(&body) {
                self.deliver(&body).await;
                return Ok(());
            }
            return Err(refusal(status, &body));
        }
        let mut is_answered = posted.id.is_none();
        if is_kind(&response, EVENTS) {
            self.stream(response, &mut None, |message| {
                self.learn(posted, message, next);
                is_answered |= message.get("id") == posted.id.as_ref() && message.get("method").is_none();
            })
            .await?;
        } else {
            let body = whole(response, limits::MCP_HTTP_MESSAGE_BYTES_MAX).await?;
            if !body.trim_ascii().is_empty() {
                let message: Value = serde_json::from_slice(&body)
                    .map_err(|why| format!("its response is not valid JSON: {why}"))?;
                self.learn(posted, &message, next);
                is_answered = true;
                self.deliver(&body).await;
            }
        }
        if is_answered { Ok(()) } else { Err("its response ended before the result".to_owned()) }
    }

    /// What HTTP repeats in headers.
    fn learn(&self, posted: &Posted, message: &Value, next: &mut PostOutcome) {
        if !posted.is_initialize || message.get("result").is_none() {
            return;
        }
        let version =
            message["result"]["protocolVersion"].as_str().and_then(|text| HeaderValue::from_str(text).ok());
        if let Some(version) = version {
            self.keep_header(VERSION, version);
        }
        *next = PostOutcome::Listen;
    }

    fn keep_header(&self, name: &'static str, value: HeaderValue) {
        self.headers.lock().expect("nothing panics with it").insert(name, value);
    }

    fn request(&self, method: Method) -> reqwest::RequestBuilder {
        let headers = self.headers.lock().expect("nothing panics with it").clone();
        self.http.request(method, self.url.clone()).headers(headers)
    }

    /// Messages of the server that answer nothing, where it has such a stream. A stream that ends is opened again.
    async fn listen(&self) {
        let mut last = None;
        loop {
            let mut request = self.request(Method::GET).header(ACCEPT, EVENTS);
            if let Some(last) = &last {
                request = request.header(LAST_EVENT, last);
            }
            let Ok(response) = request.send().await else { return };
            if !response.status().is_success() || !is_kind(&response, EVENTS) {
                return;
            }
            if let Err(why) = self.stream(response, &mut last, |_| {}).await {
                note(&format!("message stream of the MCP server at {}: {why}; reconnecting", self.host()));
            }
            tokio::time::sleep(limits::MCP_RETRY).await;
        }
    }

    /// Delivers each message of an event stream, after `look` has seen it.
    async fn stream(
        &self,
        response: Response,
        last: &mut Option<String>,
        mut look: impl FnMut(&Value),
    ) -> Result<(), String> {
        let most = limits::MCP_HTTP_MESSAGE_BYTES_MAX;
        let mut decoder = Decoder::with_limits(most, most);
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let fed = decoder.feed(&chunk.map_err(words)?);
            while let Some(frame) = decoder.next_frame() {
                if frame.id.is_some() {
                    last.clone_from(&frame.id);
                }
                if frame.event.as_deref().is_some_and(|event| event != "message") || frame.data.is_empty() {
                    continue;
                }
                if let Ok(message) = serde_json::from_str(&frame.data) {
                    look(&message);
                }
                self.deliver(frame.data.as_bytes()).await;
            }
            fed.map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    /// A message to the client, as one line.
    async fn deliver(&self, message: &[u8]) {
        let mut line = message.trim_ascii().to_vec();
        // Within JSON a line can only be broken between values.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.push(b'\n');
        let mut out = self.out.lock().await;
        self.queue.push_whole(McpSide::Server, &line);
        out.unwritten.extend(line);
        self.write_out(&mut out).await;
    }

    /// Writes everything that is not written yet, including the rest of a cancelled delivery. Dropping the future loses nothing.
    async fn write_out(&self, out: &mut Output) {
        let written = match out.stdout.write_all_buf(&mut out.unwritten).await {
            Ok(()) => out.stdout.flush().await,
            failed => failed,
        };
        // If the output is closed, the client has exited, and its input ends, too.
        if written.is_err() {
            out.unwritten.clear();
        }
    }

    /// Ends the session, where there is one.
    async fn leave(&self) {
        if self.headers.lock().expect("nothing panics with it").contains_key(SESSION) {
            // A server that keeps it forgets it when it wants.
            let goodbye = self.request(Method::DELETE).timeout(limits::MCP_LAST_WAIT).send();
            goodbye.await.ok();
        }
    }
}

impl Posted {
    fn of(mut line: Vec<u8>) -> Self {
        line.truncate(line.trim_ascii_end().len());
        let message: Value = serde_json::from_slice(&line).unwrap_or_default();
        let method = message["method"].as_str();
        let id = message.get("id").filter(|_| method.is_some()).cloned();
        let is_initialize = method == Some("initialize");
        let is_subscription = id.is_some() && method == Some("events/stream");
        let cancelled = (method == Some("notifications/cancelled"))
            .then(|| message["params"].get("requestId").cloned())
            .flatten();
        let (headers, is_message) = (stateless_headers(&message), message.is_object());
        Posted { line, id, is_initialize, is_subscription, cancelled, headers, is_message }
    }

    /// Whether a body is the error that answers a request that is complete in itself, or what is no message. Its client
    /// needs the code, for example to choose another version.
    fn is_error(&self, body: &[u8]) -> bool {
        let id = self.id.as_ref().unwrap_or(&Value::Null);
        let is_of = |message: Value| message["error"]["code"].is_i64() && message.get("id") == Some(id);
        (self.headers.is_some() || !self.is_message) && serde_json::from_slice(body).is_ok_and(is_of)
    }
}

/// Closes the responses of these subscriptions, so that the server ends them.
fn end_subscriptions(
    open: &mut Vec<(Option<Value>, AbortHandle)>,
    is_ended: impl Fn(&Option<Value>) -> bool,
) {
    open.retain(|(id, end)| {
        let is_ended = is_ended(id);
        if is_ended {
            end.abort();
        }
        !is_ended
    });
}

/// The headers of a request that names its version in itself.
fn stateless_headers(message: &Value) -> Option<HeaderMap> {
    let params = &message["params"];
    let version = params["_meta"][META_VERSION].as_str()?;
    let name = params["name"].as_str().or_else(|| params["uri"].as_str());
    let mut headers = HeaderMap::new();
    for (header, text) in [(VERSION, Some(version)), (METHOD, message["method"].as_str()), (NAME, name)] {
        // What no header can carry is left to the server to refuse.
        let value = text.and_then(|text| HeaderValue::from_str(&mcp_header::encode(text)).ok());
        headers.extend(value.map(|value| (HeaderName::from_static(header), value)));
    }
    Some(headers)
}

/// Cuts standard input into lines. One that is too long is not sent.
async fn read_lines(send: Sender<Vec<u8>>, queue: &McpQueue) {
    let (mut input, mut buffer) = (tokio::io::stdin(), vec![0; limits::MCP_READ_BYTES]);
    let mut cutter = LineCutter::default();
    loop {
        let read = input.read(&mut buffer).await.unwrap_or(0);
        let mut lines = Vec::new();
        let mut each = |line: Vec<u8>, long| lines.push((line, long));
        match read {
            0 => cutter.end(&mut each),
            read => cutter.take(&buffer[..read], &mut each),
        }
        for (line, long) in lines {
            let is_long = long.is_some();
            queue.push(McpSide::Client, line.clone(), long);
            if is_long {
                note("a message larger than 8 MiB was not sent to the MCP server");
            } else if send.send(line).await.is_err() {
                return;
            }
        }
        if read == 0 {
            return;
        }
    }
}

/// An address as it may be shown: a query can hold a secret.
pub(super) fn without_query(address: &str) -> String {
    Url::parse(address).map_or_else(
        |_| "at an address".to_owned(),
        |url| format!("{}{}", url.host_str().unwrap_or_default(), url.path().trim_end_matches('/')),
    )
}

async fn whole(response: Response, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(words)?);
        if body.len() > bytes_max {
            return Err(format!("its response is larger than {bytes_max} bytes"));
        }
    }
    Ok(body)
}

fn refusal(status: StatusCode, body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok();
    // Recount's own errors have a detail.
    let words = |message: &Value| {
        message["error"]["message"].as_str().or_else(|| message["detail"].as_str()).map(str::to_owned)
    };
    let message = message.as_ref().and_then(words);
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    match &*message {
        "" => format!("status {status}"),
        message => format!("status {status}: {message}"),
    }
}

/// An error of the connection with its cause, without the address; of a server that is unreachable with the port.
fn words(why: reqwest::Error) -> String {
    let port = why.url().and_then(Url::port_or_known_default);
    let why = why.without_url();
    let mut cause: &dyn std::error::Error = &why;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match port {
        Some(port) if why.is_connect() => format!("unreachable on port {port}: {cause}"),
        _ if why.is_connect() => format!("unreachable: {cause}"),
        _ => cause.to_string(),
    }
}

fn is_kind(response: &Response, expected: &str) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}
