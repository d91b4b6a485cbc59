//! The tool `http_request`: sends a request with any method and returns the response unchanged.
//!
//! Start at [`HttpRequest`].

use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{self, FOREIGN, WebCall};
use super::exchange::WebEvents;
use super::guard::WebUrl;
use super::request::WebRequest;
use super::{Web, text};
use crate::limits::CALL_INPUT_BYTES_MAX;
use crate::tool::{Assessment, Job, Outcome, Tool};
use crate::tools::ending::CallFailure;
use crate::tools::input;
use crate::web::limits;

pub(super) struct HttpRequest(pub(super) Web);

const METHODS: &[&str] = &["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

const CONSEQUENCE: &str = "The effect depends on the server.";

/// Response headers whose values are shown to the model. For others only the names are shown, because values such as
/// cookies may be secrets.
const SHOWN_HEADERS: &[&str] = &[
    "age",
    "allow",
    "cache-control",
    "content-disposition",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "retry-after",
    "vary",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

#[derive(Deserialize)]
struct HttpRequestInput {
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: Vec<HeaderInput>,
    body: Option<String>,
}

#[derive(Deserialize)]
struct HeaderInput {
    name: String,
    value: String,
}

impl Tool for HttpRequest {
    fn name(&self) -> &'static str {
        "http_request"
    }

    fn kind(&self) -> &'static str {
        "web"
    }

    fn description(&self) -> &'static str {
        "Sends an HTTP request and returns the status, headers and body of the response. To read a web page, \
         use web_fetch. API keys configured for a host are added automatically. Never put secrets into a \
         call, because calls are logged."
    }

    fn schema(&self) -> Value {
        let properties = json!({
            "url": {
                "type": "string", "minLength": 1, "maxLength": limits::WEB_URL_BYTES_MAX,
                "description": "The URL, starting with http:// or https://."
            },
            "method": { "type": "string", "enum": METHODS, "description": "The HTTP method. Default GET." },
            "headers": {
                "type": "array", "maxItems": limits::WEB_HEADERS_SENT_MAX,
                "items": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string", "minLength": 1 },
                        "value": { "type": "string" }
                    },
                    "required": ["name", "value"],
                    "additionalProperties": false
                },
                "description": "The request headers."
            },
            "body": {
                "type": "string", "maxLength": CALL_INPUT_BYTES_MAX,
                "description": "The request body as text. Set its type in the Content-Type header."
            }
        });
        input::schema(properties, &["url"])
    }

    fn assess(&self, input: &Value) -> Assessment {
        let method =
            input::text(input, "method").parse().ok().filter(|method: &Method| !method.as_str().is_empty());
        call::assess(&method.unwrap_or(Method::GET), input::text(input, "url"), CONSEQUENCE)
    }

    fn run<'a>(&'a self, mut job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.execute(&mut job).await.unwrap_or_else(Outcome::from) })
    }
}

impl HttpRequest {
    async fn execute(&self, job: &mut Job<'_>) -> Result<Outcome, CallFailure> {
        let request = request(job.input)?;
        let call = WebCall {
            web: &self.0,
            events: WebEvents::Http,
            consequence: CONSEQUENCE,
            body_bytes_max: limits::HTTP_BODY_BYTES_MAX,
        };
        let mut received = call.send(job, request).await?;
        let media = received.media();
        let shown = text::plain(&received.body, &media);
        let mut output = format!("HTTP {} from {}\n", received.status, received.url);
        output.push_str(&render_headers(&received.headers));
        let mut events = std::mem::take(&mut received.before);
        let bytes = received.body.len();
        let is_long = shown.as_ref().is_some_and(|text| text.len() > limits::WEB_SHOWN_BYTES);
        let mut artifact = None;
        if bytes > 0 && (shown.is_none() || is_long) {
            let stored = call::store(
                job.artifacts,
                job.call,
                &media.essence,
                &received.url,
                received.body.clone(),
                &mut events,
            );
            match stored.await {
                Ok(id) => artifact = Some(id),
                Err(why) => output.push_str(&format!("[The body could not be stored: {why}]\n")),
            }
        }
        match shown {
            _ if bytes == 0 => output.push_str("[no body]\n"),
            None => output.push_str(&format!("[{bytes} bytes of binary content, not shown]\n")),
            Some(text) => {
                output.push_str(FOREIGN);
                output.push('\n');
                output.push_str(&text);
                output.push('\n');
            }
        }
        if let Some(why) = received.end.reason() {
            output.push_str(&format!("[{why}]\n"));
        }
        received.response.body_artifact_id.clone_from(&artifact);
        let summary = format!("{} from {}, {bytes} bytes", received.status.as_u16(), received.url.host());
        events.push(WebEvents::Http.response(received.response));
        Ok(call::outcome(&received.end, output, summary, events, artifact))
    }
}

fn request(given: &Value) -> Result<WebRequest, CallFailure> {
    let HttpRequestInput { method, url, headers, body } = input::read(given)?;
    let wrong = |why: String| CallFailure::failed("invalid_input", why);
    let method = method.as_deref().unwrap_or("GET");
    let method: Method = method.parse().map_err(|_| wrong(format!("{method:?} is not an HTTP method")))?;
    let url = WebUrl::read(&url).map_err(|why| CallFailure::failed(why.code(), why.to_string()))?;
    let mut request = WebRequest::new(method, url, "*/*");
    for HeaderInput { name, value } in &headers {
        request.add_header(name, value).map_err(wrong)?;
    }
    if let Some(body) = body {
        if request.method.is_safe() {
            return Err(wrong(format!("a {} request has no body; remove it", request.method)));
        }
        if !request.headers.contains_key(CONTENT_TYPE) {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok();
            let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        request.body = Some(Bytes::from(body));
    } else if !request.method.is_safe() {
        request.body = Some(Bytes::new());
    }
    Ok(request)
}

fn render_headers(headers: &HeaderMap) -> String {
    let mut lines = String::new();
    let mut named = Vec::new();
    for (name, value) in headers {
        if SHOWN_HEADERS.contains(&name.as_str()) {
            let value = String::from_utf8_lossy(value.as_bytes());
            lines.push_str(&format!(
                "{name}: {}\n",
                crate::tools::ending::cut(&value, limits::WEB_HEADER_CHARS_SHOWN)
            ));
        } else if !named.contains(&name.as_str()) {
            named.push(name.as_str());
        }
    }
    if !named.is_empty() {
        lines.push_str(&format!("[more headers: {}]\n", named.join(", ")));
    }
    lines
}
