//! Encodes and decodes the JSON-RPC messages of MCP.
//!
//! Start at [`Incoming`]. Pure. The module must not depend on the transport.

use serde_json::{Value, json};

use super::fault::Fault;

/// The JSON-RPC error code of an unsupported method.
const METHOD_NOT_FOUND: i64 = -32_601;

/// A message from a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    Response {
        id: u64,
        result: Result<Value, Fault>,
    },
    /// A request to this client.
    Request {
        id: Value,
        method: String,
    },
    Notification {
        method: String,
    },
}

impl Incoming {
    /// Returns `None` if the text is not a message of the protocol.
    pub(crate) fn read(text: &[u8]) -> Option<Incoming> {
        let Value::Object(mut message) = serde_json::from_slice(text).ok()? else { return None };
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return None;
        }
        let id = message.remove("id");
        if let Some(Value::String(method)) = message.remove("method") {
            return Some(match id {
                Some(id) if id.is_string() || id.is_number() => Incoming::Request { id, method },
                _ => Incoming::Notification { method },
            });
        }
        if let Some(result) = message.remove("result") {
            return Some(Incoming::Response { id: id?.as_u64()?, result: Ok(result) });
        }
        let error = message.remove("error")?;
        let number = error.get("code")?.as_i64()?;
        let reason = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
        let data = error.get("data").cloned().unwrap_or_default();
        // An error without an id belongs to the only open request.
        let id = id.and_then(|id| id.as_u64()).unwrap_or(u64::MAX);
        Some(Incoming::Response { id, result: Err(Fault::refused(number, reason, data)) })
    }

    /// Returns the response to the request with this id, which is the only open one; otherwise `Err` with the message.
    pub(crate) fn into_response_to(self, expected: u64) -> Result<Result<Value, Fault>, Incoming> {
        match self {
            Incoming::Response { id, result } if id == expected || (id == u64::MAX && result.is_err()) => {
                Ok(result)
            }
            other => Err(other),
        }
    }
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    written(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    written(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// Builds the response to a request of the server: an empty result for `ping`, an error for everything else.
pub(crate) fn respond(id: &Value, method: &str) -> Vec<u8> {
    if method == "ping" {
        return written(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
    let message = format!("this client does not support {method}");
    let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
    written(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

fn written(message: &Value) -> Vec<u8> {
    // `serde_json` writes no line feeds.
    message.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_classified() {
        let read = |text: &str| Incoming::read(text.as_bytes());
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
            Some(Incoming::Response { id: 7, result: Ok(json!({ "a": 1 })) })
        );
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":"x","method":"roots/list"}"#),
            Some(Incoming::Request { id: json!("x"), method: "roots/list".into() })
        );
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#),
            Some(Incoming::Notification { method: "notifications/message".into() })
        );
        for odd in
            ["", "starting", "[]", "{}", r#"{"id":1,"result":1}"#, r#"{"jsonrpc":"2.0","id":"1","result":1}"#]
        {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_error_without_an_id_belongs_to_the_open_request() {
        let error =
            Incoming::read(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#).unwrap();
        let result = error.into_response_to(3).unwrap().unwrap_err();
        assert_eq!(result.refusal, Some((-32_700, Value::Null)));
        let other = Incoming::Response { id: 2, result: Ok(Value::Null) };
        assert_eq!(other.clone().into_response_to(3), Err(other));
    }

    #[test]
    fn unsupported_requests_are_declined() {
        let response = |method| serde_json::from_slice::<Value>(&respond(&json!(4), method)).unwrap();
        assert_eq!(response("ping"), json!({ "jsonrpc": "2.0", "id": 4, "result": {} }));
        for method in ["sampling/createMessage", "roots/list", "elicitation/create"] {
            assert_eq!(response(method)["error"]["code"], METHOD_NOT_FOUND, "{method}");
        }
    }
}
