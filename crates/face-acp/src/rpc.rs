//! JSON-RPC 2.0 as messages of one line: reads what the editor sends, writes what it gets.
//!
//! Pure. It must not know methods. Look at [`read`].

use serde_json::{Value, json};

use crate::error::{INVALID_REQUEST, PARSE_ERROR, RpcError};

/// A message of the editor.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours.
    Answer {
        id: Value,
        outcome: Result<Value, RpcError>,
    },
}

/// A line that is no message: the error and the id that it is answered with.
#[derive(Debug, PartialEq)]
pub(crate) struct Malformed {
    pub(crate) id: Value,
    pub(crate) error: RpcError,
}

pub(crate) fn read(line: &[u8]) -> Result<Incoming, Malformed> {
    let no = |id: Value, code: i64, why: String| Malformed { id, error: RpcError::new(code, why) };
    let message: Value = serde_json::from_slice(line)
        .map_err(|why| no(Value::Null, PARSE_ERROR, format!("the message is not JSON: {why}")))?;
    let Value::Object(mut message) = message else {
        let why = match message {
            Value::Array(_) => "batches are not supported; send each message on its own line",
            _ => "a message must be a JSON object",
        };
        return Err(no(Value::Null, INVALID_REQUEST, why.to_owned()));
    };
    let id = message.remove("id");
    let id_or_null = id.clone().filter(|id| id.is_string() || id.is_number()).unwrap_or(Value::Null);
    if let Some(version) = message.get("jsonrpc").filter(|version| *version != "2.0") {
        return Err(no(id_or_null, INVALID_REQUEST, format!("jsonrpc is {version}; send \"2.0\"")));
    }
    if id.as_ref().is_some_and(|id| !(id.is_string() || id.is_number() || id.is_null())) {
        return Err(no(Value::Null, INVALID_REQUEST, "id is neither a string nor a number".to_owned()));
    }
    match message.remove("method") {
        Some(Value::String(method)) => {
            let params = message.remove("params").unwrap_or_else(|| json!({}));
            Ok(match id {
                Some(id) => Incoming::Request { id, method, params },
                None => Incoming::Notification { method, params },
            })
        }
        Some(_) => Err(no(id_or_null, INVALID_REQUEST, "method is not a string".to_owned())),
        None => {
            let Some(id) = id else {
                return Err(no(
                    Value::Null,
                    INVALID_REQUEST,
                    "a message must have a method or an id".to_owned(),
                ));
            };
            match (message.remove("result"), message.remove("error")) {
                (_, Some(error)) if !error.is_null() => {
                    let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
                    let words =
                        error.get("message").and_then(Value::as_str).unwrap_or("no message").to_owned();
                    Ok(Incoming::Answer { id, outcome: Err(RpcError::new(code, words)) })
                }
                (Some(result), _) => Ok(Incoming::Answer { id, outcome: Ok(result) }),
                (None, _) => {
                    let why = "a message must have a method, a result or an error";
                    Err(no(id_or_null, INVALID_REQUEST, why.to_owned()))
                }
            }
        }
    }
}

pub(crate) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(crate) fn error(id: &Value, error: &RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error.json() })
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_notifications_and_responses_are_distinguished() {
        let request = read(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":1}}"#);
        let params = json!({"a": 1});
        assert_eq!(request, Ok(Incoming::Request { id: json!(1), method: "initialize".into(), params }));
        let without = read(br#"{"jsonrpc":"2.0","id":"x","method":"m"}"#);
        assert_eq!(without, Ok(Incoming::Request { id: json!("x"), method: "m".into(), params: json!({}) }));
        let notification = read(br#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#);
        assert_eq!(
            notification,
            Ok(Incoming::Notification { method: "session/cancel".into(), params: json!({}) })
        );
        let answer = read(br#"{"jsonrpc":"2.0","id":7,"result":null}"#);
        assert_eq!(answer, Ok(Incoming::Answer { id: json!(7), outcome: Ok(Value::Null) }));
        let refusal = read(br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32800,"message":"cancelled"}}"#);
        let outcome = Err(RpcError::new(-32800, "cancelled"));
        assert_eq!(refusal, Ok(Incoming::Answer { id: json!(7), outcome }));
    }

    #[test]
    fn invalid_messages_are_refused_with_the_reason() {
        let cases: [(&[u8], i64, Value, &str); 9] = [
            (b"{", PARSE_ERROR, Value::Null, "not JSON"),
            (b"\xff", PARSE_ERROR, Value::Null, "not JSON"),
            (b"[]", INVALID_REQUEST, Value::Null, "batches"),
            (b"3", INVALID_REQUEST, Value::Null, "object"),
            (b"{}", INVALID_REQUEST, Value::Null, "method or an id"),
            (br#"{"id":3}"#, INVALID_REQUEST, json!(3), "a result or an error"),
            (br#"{"id":{},"method":"m"}"#, INVALID_REQUEST, Value::Null, "id is neither"),
            (br#"{"id":4,"method":5}"#, INVALID_REQUEST, json!(4), "method is not a string"),
            (br#"{"jsonrpc":"1.0","id":4,"method":"m"}"#, INVALID_REQUEST, json!(4), "jsonrpc is \"1.0\""),
        ];
        for (line, code, id, words) in cases {
            let no = read(line).unwrap_err();
            assert_eq!((no.error.code, &no.id), (code, &id), "{no:?}");
            assert!(no.error.message.contains(words), "{no:?}");
        }
    }
}
