//! Reads a message of a client, and checks that its headers agree with it. Start at [`message`].
//!
//! Pure. Whether a request carries its version in `_meta` decides how it is served; no earlier message matters.

use http::HeaderMap;
use recount_transport::mcp_header;
use serde_json::{Map, Value, json};

use crate::limits;
use crate::wire::{
    ErrorCode, Incoming, META_CAPABILITIES, META_VERSION, ProtocolEra, Request, RpcError, STATELESS,
    WITH_INITIALIZE,
};

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Reads the body of a `POST`. An error comes with the id of the request, if that could be read.
pub(crate) fn message(headers: &HeaderMap, body: &[u8]) -> Result<Incoming, (Value, RpcError)> {
    let invalid = |message: &str| RpcError::new(ErrorCode::InvalidRequest, 400, message);
    let refuse = |error: RpcError| (Value::Null, error);
    let message: Value = serde_json::from_slice(body).map_err(|why| {
        refuse(RpcError::new(ErrorCode::Parse, 400, format!("the message is not valid JSON: {why}")))
    })?;
    let Value::Object(mut message) = message else {
        return Err(refuse(invalid("the message is not an object; send one message per request, no batch")));
    };
    let id = message.remove("id");
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(refuse(invalid("jsonrpc is not \"2.0\"")));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(refuse(invalid("method is not a string"))),
        None => return Err(refuse(invalid("method is missing; this server sends no requests"))),
    };
    let Some(id) = id else { return Ok(Incoming::Notification) };
    let is_id = id.is_string() || id.is_i64() || id.is_u64();
    if !is_id {
        return Err(refuse(invalid("id is not a string or an integer")));
    }
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let error = RpcError::new(ErrorCode::InvalidParams, 400, "params is not an object");
            return Err((id, error));
        }
    };
    match era(headers, &method, &params) {
        Ok(era) => Ok(Incoming::Request(Request { id, method, params, era })),
        Err(error) => Err((id, error)),
    }
}

fn era(headers: &HeaderMap, method: &str, params: &Map<String, Value>) -> Result<ProtocolEra, RpcError> {
    let invalid = |message: String| RpcError::new(ErrorCode::InvalidParams, 400, message);
    let header = single(headers, VERSION)?;
    let meta = params.get("_meta");
    let Some(version) = meta.and_then(|meta| meta.get(META_VERSION)) else {
        return match header {
            None => Ok(ProtocolEra::Initialize),
            Some(version) if method == "initialize" || WITH_INITIALIZE.contains(&version) => {
                Ok(ProtocolEra::Initialize)
            }
            Some(STATELESS) => {
                let detail = format!("_meta lacks {META_VERSION}, which every request of {STATELESS} needs");
                Err(invalid(detail))
            }
            Some(other) => Err(unsupported(other)),
        };
    };
    let Some(version) = version.as_str() else {
        return Err(invalid(format!("{META_VERSION} is not a string")));
    };
    if version != STATELESS {
        return Err(unsupported(version));
    }
    check_header(VERSION, header, version)?;
    check_header(METHOD, single(headers, METHOD)?, method)?;
    let named = match method {
        "tools/call" | "prompts/get" => params.get("name"),
        "resources/read" => params.get("uri"),
        _ => None,
    };
    if let Some(name) = named.and_then(Value::as_str) {
        let header = single(headers, NAME)?;
        let decoded = header.map(|text| mcp_header::decode(text).ok_or_else(|| mismatch(NAME)));
        check_header(NAME, decoded.transpose()?.as_deref(), name)?;
    }
    let capabilities = meta.and_then(|meta| meta.get(META_CAPABILITIES));
    match capabilities.is_some_and(Value::is_object) {
        true => Ok(ProtocolEra::Stateless),
        false => Err(invalid(format!("_meta lacks {META_CAPABILITIES}; send an object"))),
    }
}

fn unsupported(version: &str) -> RpcError {
    let requested = shortened(version);
    let supported: Vec<&str> = [STATELESS].iter().chain(WITH_INITIALIZE).copied().collect();
    let message = format!(
        "protocol version {requested:?} is not supported here; send {STATELESS} in _meta, or call initialize"
    );
    let data = json!({ "supported": supported, "requested": requested });
    RpcError { data: Some(data), ..RpcError::new(ErrorCode::UnsupportedVersion, 400, message) }
}

/// The value of a header that occurs at most once.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text.trim())),
        _ => Err(mismatch(name)),
    }
}

fn check_header(name: &str, header: Option<&str>, expected: &str) -> Result<(), RpcError> {
    if header == Some(expected) { Ok(()) } else { Err(mismatch(name)) }
}

fn mismatch(name: &str) -> RpcError {
    let message =
        format!("header mismatch: send {name} once, with the same value as in the body of the request");
    RpcError::new(ErrorCode::HeaderMismatch, 400, message)
}

/// The beginning of an input, for errors.
pub(crate) fn shortened(text: &str) -> &str {
    text.char_indices().nth(limits::SHOWN_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn read(headers: &[(&str, &str)], body: &str) -> Result<Incoming, (Value, RpcError)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        message(&map, body.as_bytes())
    }

    fn check_refused(headers: &[(&str, &str)], body: &str, expected: (i64, u16, Value)) {
        let (id, error) = read(headers, body).expect_err(body);
        assert_eq!((error.code as i64, error.status, id), expected, "{body}: {}", error.message);
    }

    fn check_era(headers: &[(&str, &str)], body: &str, expected: ProtocolEra) {
        match read(headers, body) {
            Ok(Incoming::Request(request)) => assert_eq!(request.era, expected, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (body, code) in [
            ("", -32_700),
            ("{", -32_700),
            ("\u{feff}{}", -32_700),
            ("[]", -32_600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32_600),
            ("null", -32_600),
            ("7", -32_600),
            (r#""ping""#, -32_600),
            ("{}", -32_600),
            (r#"{"id":1,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32_600),
        ] {
            check_refused(&[], body, (code, 400, Value::Null));
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        check_refused(&[], &deep, (-32_700, 400, Value::Null));
        check_refused(
            &[],
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            (-32_602, 400, json!(1)),
        );
    }

    #[test]
    fn the_form_of_a_request_decides_its_era() {
        let plain = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        check_era(&[], plain, ProtocolEra::Initialize);
        for version in WITH_INITIALIZE {
            check_era(&[("mcp-protocol-version", version)], plain, ProtocolEra::Initialize);
        }
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x"}}"#;
        check_era(&[("mcp-protocol-version", STATELESS)], initialize, ProtocolEra::Initialize);
        check_era(&[("mcp-session-id", "any"), ("last-event-id", "3")], plain, ProtocolEra::Initialize);
        check_refused(&[("mcp-protocol-version", STATELESS)], plain, (-32_602, 400, json!(1)));
        check_refused(&[("mcp-protocol-version", "1999-01-01")], plain, (-32_022, 400, json!(1)));
        let twice = [("mcp-protocol-version", "2025-11-25"), ("mcp-protocol-version", "2025-06-18")];
        check_refused(&twice, plain, (-32_020, 400, json!(1)));
    }

    /// A request of the stateless era with this version, and its capabilities.
    fn stateless(version: &Value, capabilities: &Value) -> String {
        let meta = json!({ META_VERSION: version, META_CAPABILITIES: capabilities });
        let params = json!({ "name": "größe", "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params }).to_string()
    }

    #[test]
    fn headers_and_body_must_agree() {
        let version = ("mcp-protocol-version", STATELESS);
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "=?base64?Z3LDtsOfZQ==?="));
        let body = stateless(&json!(STATELESS), &json!({}));
        check_era(&[version, method, name], &body, ProtocolEra::Stateless);
        for headers in [
            vec![],
            vec![version],
            vec![version, method],
            vec![method, name],
            vec![version, ("mcp-method", "tools/list"), name],
            vec![version, method, ("mcp-name", "grosse")],
            vec![version, method, ("mcp-name", "=?base64?!?=")],
            vec![version, method, ("mcp-name", "größe")],
            vec![("mcp-protocol-version", "2025-11-25"), method, name],
            vec![version, version, method, name],
        ] {
            check_refused(&headers, &body, (-32_020, 400, json!("a")));
        }
        let all = [version, method, name];
        for (version, capabilities, code) in [
            (json!("2027-01-01"), json!({}), -32_022),
            (json!("2025-11-25"), json!({}), -32_022),
            (json!(7), json!({}), -32_602),
            (json!(STATELESS), json!(null), -32_602),
            (json!(STATELESS), json!([]), -32_602),
        ] {
            check_refused(&all, &stateless(&version, &capabilities), (code, 400, json!("a")));
        }
    }

    #[test]
    fn notifications_need_nothing() {
        let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(read(&[("mcp-protocol-version", "x")], body), Ok(Incoming::Notification));
    }
}
