//! The route of MCP: reads one message, calls a tool or lists something, and responds with one message of JSON,
//! or with notifications to a subscription of events.
//!
//! There are no sessions, and no streams of the server's own, so `GET` and `DELETE` are not allowed. Start with [`router`].

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use recount_transport::media;
use serde_json::{Map, Value, json};

use crate::accept::{self, shortened};
use crate::event_types::{self, EXTENSION, Subscription};
use crate::limits;
use crate::native::{Failure, Native};
use crate::poll;
use crate::project::{self, NOTICE};
use crate::push;
use crate::resources;
use crate::tools::{TOOLS, Tool};
use crate::wire::{
    ErrorCode, Incoming, ProtocolEra, Request as RpcRequest, RpcError, STATELESS, WITH_INITIALIZE,
};

/// The path of the face.
pub const PATH: &str = "/mcp";

/// For the model, besides the descriptions of the tools.
const INSTRUCTIONS: &str = "Recount is a log of what AI agents did: runs, made of events. Start with search_runs, then \
                            get_run, diff_run or read_events. To notice changes, call search_runs with `since`, or \
                            list_prompts, from time to time.";

/// How events are delivered.
const DELIVERY: &[&str] = &["poll", "push"];

/// The route of the face. `native` is the whole native face, with its paths and with problems as its errors. Must be served
/// after a layer that adds a `RequestContext`.
pub fn router(native: Router) -> Router {
    Router::new().route(PATH, post(receive)).with_state(native)
}

async fn receive(State(native): State<Router>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let native = Native::new(native, &parts.extensions);
    if native.caller().is_none() {
        let error = RpcError::new(
            ErrorCode::InvalidRequest,
            401,
            "the request has no token; send `authorization: Bearer TOKEN`",
        );
        return reply(StatusCode::UNAUTHORIZED, &error.to_json(&Value::Null));
    }
    let (id, outcome) = match read_body(&parts.headers, body).await {
        Err(error) => (Value::Null, Err(error)),
        Ok(body) => match accept::message(&parts.headers, &body) {
            Ok(Incoming::Notification) => return accepted(),
            Ok(Incoming::Request(request)) => (request.id.clone(), respond(&native, request).await),
            Err((id, error)) => (id, Err(error)),
        },
    };
    match outcome {
        Ok(response) => response,
        Err(error) => {
            let error = RpcError { message: native.masked(&error.message), ..error };
            let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
            reply(status, &error.to_json(&id))
        }
    }
}

/// The response to a request.
async fn respond(native: &Native, request: RpcRequest) -> Result<Response, RpcError> {
    let RpcRequest { id, method, mut params, era } = request;
    let is_stateless = era == ProtocolEra::Stateless;
    let (result, may_be_cached) = match &*method {
        "initialize" if !is_stateless => (initialize(params.get("protocolVersion")), false),
        "ping" if !is_stateless => (json!({}), false),
        "server/discover" if is_stateless => (discover(), true),
        "tools/list" => (list_tools(native), true),
        "tools/call" => {
            let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
            let Some(tool) = Tool::find(name) else {
                let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
                let (name, known) = (shortened(name), known.join(", "));
                let message = format!("unknown tool {name:?}; tools: {known}");
                return Err(RpcError::new(ErrorCode::InvalidParams, 200, message));
            };
            let outcome = tool.call(native, params.remove("arguments")).await;
            let outcome = outcome.map_err(|why| Failure { detail: native.masked(&why.detail), ..why });
            (project::tool_result(outcome), false)
        }
        "resources/list" => (resources::list(native, &params).await?, true),
        "resources/templates/list" => (resources::templates(), true),
        "resources/read" => (resources::read(native, &params, era).await?, true),
        "events/list" if is_stateless => (list_events(native, &params)?, true),
        "events/poll" if is_stateless => {
            (poll::poll(native, &subscription(native, &mut params)?).await?, false)
        }
        "events/stream" if is_stateless => {
            let subscription = subscription(native, &mut params)?;
            return push::open(native, id, subscription).await;
        }
        _ => {
            // A client of the stateless era learns from the status that the method does not exist.
            let status = if is_stateless { 404 } else { 200 };
            let message = format!("unknown method {:?}", shortened(&method));
            return Err(RpcError::new(ErrorCode::MethodNotFound, status, message));
        }
    };
    Ok(reply(StatusCode::OK, &project::response(&id, era, result, may_be_cached)))
}

/// Agrees on the version of the client, or offers the newest one with a handshake.
fn initialize(requested: Option<&Value>) -> Value {
    let known =
        WITH_INITIALIZE.iter().find(|version| requested.is_some_and(|requested| requested == **version));
    let mut result = offer();
    result["protocolVersion"] = (*known.unwrap_or(&WITH_INITIALIZE[0])).into();
    result["serverInfo"] = project::server_info();
    result
}

fn discover() -> Value {
    let mut result = offer();
    result["capabilities"]["extensions"] = json!({ EXTENSION: { "listChanged": false } });
    // Some clients look only here.
    result["capabilities"]["events"] = json!({});
    result["supportedVersions"] = [STATELESS].iter().chain(WITH_INITIALIZE).copied().collect();
    result
}

fn offer() -> Value {
    json!({
        "capabilities": { "tools": {}, "resources": {} },
        "instructions": format!("{INSTRUCTIONS} {NOTICE}"),
    })
}

fn list_tools(native: &Native) -> Value {
    let offered = TOOLS.iter().filter(|tool| native.caller().is_some_and(|caller| tool.is_offered(caller)));
    json!({ "tools": offered.map(Tool::describe).collect::<Vec<_>>() })
}

/// All event types are one page.
fn list_events(native: &Native, params: &Map<String, Value>) -> Result<Value, RpcError> {
    if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
        return Err(RpcError::new(ErrorCode::InvalidParams, 200, "cursor is not from this list"));
    }
    Ok(native.caller().map_or_else(|| json!({ "events": [] }), |caller| event_types::list(caller, DELIVERY)))
}

fn subscription(native: &Native, params: &mut Map<String, Value>) -> Result<Subscription, RpcError> {
    let Some(caller) = native.caller() else {
        return Err(RpcError::new(ErrorCode::Forbidden, 200, "events require a token"));
    };
    Subscription::parse(caller, params, native.now_ms())
}

async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, RpcError> {
    let refuse = |status, message: String| RpcError::new(ErrorCode::InvalidRequest, status, message);
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(refuse(415, "the body has a content-encoding; send it uncompressed".to_owned()));
    }
    // A page of another site can send other content types without a preflight request.
    if !declared.is_some_and(media::is_json) {
        return Err(refuse(415, "send content-type: application/json".to_owned()));
    }
    let most = limits::BODY_BYTES_MAX;
    let too_large = || refuse(413, format!("the message is larger than {most} bytes"));
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(limits::BODY_WAIT, Limited::new(body, most).collect()).await {
        Err(_) => {
            let waited = limits::BODY_WAIT.as_secs();
            Err(refuse(408, format!("the message did not arrive within {waited} seconds")))
        }
        Ok(Err(why)) if why.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Ok(Err(why)) => Err(refuse(400, format!("the message ended early: {why}"))),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}

fn reply(status: StatusCode, message: &Value) -> Response {
    let mut response = Response::new(Body::from(message.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
