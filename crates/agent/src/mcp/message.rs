//! Messages of JSON-RPC as MCP uses it: written, and read from outside.
//!
//! Look at [`Incoming`]. Pure. It must not know how messages travel.

use serde_json::{Value, json};

use super::fault::Fault;

/// The error for a method that is not offered.
const METHOD_NOT_FOUND: i64 = -32_601;

/// What a server sends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    Answer {
        id: u64,
        answer: Result<Value, Fault>,
    },
    /// It asks something of us.
    Request {
        id: Value,
        method: String,
    },
    Notification {
        method: String,
    },
}

impl Incoming {
    /// `None`: it is no message of the protocol.
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
            return Some(Incoming::Answer { id: id?.as_u64()?, answer: Ok(result) });
        }
        let error = message.remove("error")?;
        let number = error.get("code")?.as_i64()?;
        let said = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
        let data = error.get("data").cloned().unwrap_or_default();
        // One without an id is about the only request that is under way.
        let id = id.and_then(|id| id.as_u64()).unwrap_or(u64::MAX);
        Some(Incoming::Answer { id, answer: Err(Fault::refused(number, said, data)) })
    }

    /// Whether it answers the request of this number, which is the only one under way.
    pub(crate) fn into_answer_to(self, wanted: u64) -> Result<Result<Value, Fault>, Incoming> {
        match self {
            Incoming::Answer { id, answer } if id == wanted || (id == u64::MAX && answer.is_err()) => {
                Ok(answer)
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

/// The answer to what a server asks: a sign of life, and for everything else that it is not offered.
pub(crate) fn answer(id: &Value, method: &str) -> Vec<u8> {
    if method == "ping" {
        return written(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
    let message = format!("this client does not offer {method}");
    let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
    written(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

fn written(message: &Value) -> Vec<u8> {
    // JSON as it is written here has no line feed in it.
    message.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let read = |text: &str| Incoming::read(text.as_bytes());
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
            Some(Incoming::Answer { id: 7, answer: Ok(json!({ "a": 1 })) })
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
    fn an_error_without_an_id_is_about_the_request_under_way() {
        let error =
            Incoming::read(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#).unwrap();
        let answered = error.into_answer_to(3).unwrap().unwrap_err();
        assert_eq!(answered.refusal, Some((-32_700, Value::Null)));
        let other = Incoming::Answer { id: 2, answer: Ok(Value::Null) };
        assert_eq!(other.clone().into_answer_to(3), Err(other));
    }

    #[test]
    fn what_is_not_offered_is_declined() {
        let said = |method| serde_json::from_slice::<Value>(&answer(&json!(4), method)).unwrap();
        assert_eq!(said("ping"), json!({ "jsonrpc": "2.0", "id": 4, "result": {} }));
        for method in ["sampling/createMessage", "roots/list", "elicitation/create"] {
            assert_eq!(said(method)["error"]["code"], METHOD_NOT_FOUND, "{method}");
        }
    }
}
