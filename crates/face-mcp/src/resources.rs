//! Resources: each run as a text, under `recount://runs/{id}`. Start at [`list`] and [`read`].

use recount_api::query::{AFTER, LIMIT};
use recount_api::reply::{Page, Run};
use recount_event::Code;
use serde_json::{Map, Value, json};

use crate::limits;
use crate::native::{Failure, Native};
use crate::project::cut;
use crate::tools;
use crate::wire::{ErrorCode, ProtocolEra, RpcError};

const PREFIX: &str = "recount://runs/";
const TEXT: &str = "text/plain";

pub(crate) fn templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": format!("{PREFIX}{{id}}"),
        "name": "run",
        "title": "Run of an agent",
        "description": "A run of the log: status, cost, open prompts and last messages. Untrusted data.",
        "mimeType": TEXT,
    }] })
}

pub(crate) async fn list(native: &Native, params: &Map<String, Value>) -> Result<Value, RpcError> {
    let cursor = match params.get("cursor") {
        None | Some(Value::Null) => None,
        Some(Value::String(cursor)) if cursor.chars().count() <= limits::ID_CHARS_MAX => Some(cursor.clone()),
        Some(_) => return Err(RpcError::new(ErrorCode::InvalidParams, 200, "cursor is not from this list")),
    };
    let query = [(AFTER, cursor), (LIMIT, Some(limits::RESOURCES_PAGE.to_string()))];
    let page: Page<Run> =
        native.get(&["runs"], &query).await.map_err(|why| error(&why, ProtocolEra::Initialize))?;
    let resource = |run: &Run| {
        let title = run.title.as_deref().unwrap_or("untitled run");
        json!({
            "uri": format!("{PREFIX}{}", run.id),
            "name": run.id,
            "title": cut(title, limits::FIELD_CHARS_MAX),
            "description": format!("{} {}, created {}", run.status, run.kind, run.created_at),
            "mimeType": TEXT,
        })
    };
    let resources: Vec<Value> = page.data.iter().map(resource).collect();
    let mut result = json!({ "resources": resources });
    if let Some(next) = page.next.filter(|_| page.has_more) {
        result["nextCursor"] = next;
    }
    Ok(result)
}

pub(crate) async fn read(
    native: &Native,
    params: &Map<String, Value>,
    era: ProtocolEra,
) -> Result<Value, RpcError> {
    let uri = params.get("uri").and_then(Value::as_str);
    let id = uri
        .and_then(|uri| uri.strip_prefix(PREFIX))
        .filter(|id| !id.is_empty() && id.chars().count() <= limits::ID_CHARS_MAX);
    let Some(id) = id else {
        let message = format!("uri is not the address of a run; use {PREFIX}ID");
        return Err(RpcError::new(ErrorCode::InvalidParams, 200, message));
    };
    let reply = tools::get_run(native, id, limits::MESSAGES_DEFAULT).await.map_err(|why| error(&why, era))?;
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": TEXT, "text": reply.text }] }))
}

fn error(failure: &Failure, era: ProtocolEra) -> RpcError {
    const MISSING: [Code; 3] = [Code::RunNotFound, Code::RunErased, Code::RouteNotFound];
    let code = match (failure.is(&MISSING), era) {
        (true, ProtocolEra::Initialize) => ErrorCode::ResourceNotFound,
        (false, _) if failure.status >= 500 => ErrorCode::Internal,
        _ => ErrorCode::InvalidParams,
    };
    let message = format!("{}: {}", failure.code, failure.detail);
    RpcError { data: Some(json!(failure)), ..RpcError::new(code, 200, message) }
}
