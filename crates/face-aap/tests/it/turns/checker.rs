//! Folds a stream into messages as the protocol's clients do, and checks the order of its frames.
//! Written from the protocol alone; must not depend on runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::reader::{ReceivedFrame, read};

/// The requested mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestedMode {
    Delta,
    Message,
}

/// The calls of a session that an application knows, and which of them have a result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    calls: BTreeMap<String, bool>,
    /// Calls that the application executes itself.
    own: BTreeSet<String>,
}

impl Session {
    /// The application carries this call out.
    pub(crate) fn carries_out(&mut self, id: &str) {
        self.own.insert(id.to_owned());
    }

    /// The application has a result of its own, or learned the outcome of the call elsewhere.
    pub(crate) fn knows(&mut self, id: &str) {
        if let Some(settled) = self.calls.get_mut(id) {
            *settled = true;
        }
    }
}

/// What a client makes of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Folded {
    pub(crate) messages: Vec<Value>,
    pub(crate) stop: Map<String, Value>,
    /// Calls of the last assistant message without a result: those that the client will answer.
    pub(crate) pending: BTreeSet<String>,
}

#[derive(Default)]
struct Fold {
    text: String,
    thinking: String,
    /// Blocks of the assistant's open message.
    current: Vec<Value>,
    messages: Vec<Value>,
}

impl Fold {
    /// What came in pieces: the text first, then the thoughts, in whatever order they came.
    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.current.push(json!({"type": "text", "text": std::mem::take(&mut self.text)}));
        }
        if !self.thinking.is_empty() {
            self.current.push(json!({"type": "thinking", "thinking": std::mem::take(&mut self.thinking)}));
        }
    }

    fn close(&mut self) {
        if !self.current.is_empty() {
            let blocks = std::mem::take(&mut self.current);
            self.messages.push(json!({"role": "assistant", "content": blocks}));
        }
    }

    /// Calls of the last message of the assistant that have no result yet.
    fn pending(&self) -> BTreeSet<String> {
        let Some(at) = self.messages.iter().rposition(|message| message["role"] == "assistant") else {
            return BTreeSet::new();
        };
        let mut pending: BTreeSet<String> = self.messages[at]["content"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|block| block["toolCallId"].as_str().unwrap().to_owned())
            .collect();
        for message in &self.messages[at + 1..] {
            pending.remove(message["toolCallId"].as_str().unwrap());
        }
        pending
    }
}

/// Reads, folds and judges the stream of one turn.
pub(crate) fn check(bytes: &[u8], requested: RequestedMode, session: &mut Session) -> Folded {
    let frames = read(bytes);
    let names: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(names.first(), Some(&"turn_start"), "{names:?}");
    assert_eq!(names.last(), Some(&"turn_stop"), "{names:?}");
    for once in ["turn_start", "turn_stop"] {
        assert_eq!(names.iter().filter(|name| **name == once).count(), 1, "{once} comes once: {names:?}");
    }
    assert!(frames[0].data.is_empty(), "turn_start has no data");
    let ids: Vec<(u64, u32)> =
        frames.iter().map(|frame| frame.id.expect("a frame of a turn has an id")).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "ids ascend: {ids:?}");

    let mut fold = Fold::default();
    let mut new_calls = BTreeSet::new();
    let mut after_result = false;
    let mut closed_with_open = BTreeSet::new();
    for frame in &frames {
        if !frame.event.ends_with("_delta") {
            fold.flush();
        }
        let is_output = matches!(
            frame.event.as_str(),
            "text" | "thinking" | "text_delta" | "thinking_delta" | "tool_call"
        );
        if is_output && after_result {
            // The model speaks again: what was open in the message before is lost to clients that stop now.
            let open = |id: &&String| !session.calls[id.as_str()];
            closed_with_open.extend(new_calls.iter().filter(open).cloned());
            after_result = false;
        }
        match frame.event.as_str() {
            "turn_start" => {}
            "text_delta" | "thinking_delta" => {
                assert_eq!(requested, RequestedMode::Delta);
                let piece = words(frame, "delta");
                let accumulated =
                    if frame.event == "text_delta" { &mut fold.text } else { &mut fold.thinking };
                match frame.data.get("retracts") {
                    None => *accumulated += piece,
                    Some(retracts) => retract(accumulated, retracts),
                }
            }
            kind @ ("text" | "thinking") => {
                assert_eq!(requested, RequestedMode::Message);
                let mut block = json!({"type": kind, kind: words(frame, kind)});
                if let Some(status) = frame.data.get("status") {
                    assert_eq!(status, "aborted", "an abandoned block is not sent: {frame:?}");
                    block["status"] = status.clone();
                }
                fold.current.push(block);
            }
            "tool_call" => {
                let id = words(frame, "toolCallId");
                assert!(frame.data["input"].is_object(), "{frame:?}");
                assert!(session.calls.insert(id.to_owned(), false).is_none(), "{id} was sent before");
                new_calls.insert(id.to_owned());
                fold.current.push(json!({
                    "type": "tool_use", "toolCallId": id, "name": words(frame, "name"), "input": frame.data["input"]
                }));
            }
            "tool_result" => {
                let id = words(frame, "toolCallId");
                content(&frame.data["content"]);
                assert!(!session.own.contains(id), "{id} is the application's own to carry out");
                let settled = session.calls.get_mut(id).unwrap_or_else(|| panic!("{id} was never sent"));
                assert!(!std::mem::replace(settled, true), "{id} has a result already");
                fold.close();
                fold.messages
                    .push(json!({"role": "tool", "toolCallId": id, "content": frame.data["content"]}));
                after_result = true;
            }
            "turn_stop" => fold.close(),
            other => panic!("{other} is no event of the protocol"),
        }
    }
    let stop = frames.last().unwrap().data.clone();
    let pending = fold.pending();
    judge_stop(&stop);
    if stop["stopReason"] == "tool_use" {
        assert!(closed_with_open.iter().all(|id| session.calls[id]), "calls are lost: {closed_with_open:?}");
        let open: BTreeSet<String> = new_calls.into_iter().filter(|id| !session.calls[id]).collect();
        assert_eq!(pending, open, "a client would not answer all that is open");
        assert!(session.calls.values().any(|settled| !settled), "nothing is open at {stop:?}");
    }
    Folded { messages: fold.messages, stop, pending }
}

fn words<'a>(frame: &'a ReceivedFrame, key: &str) -> &'a str {
    let words = frame.data.get(key).and_then(Value::as_str);
    let words = words.unwrap_or_else(|| panic!("no {key} in {frame:?}"));
    assert!(!words.is_empty(), "{key} is empty in {frame:?}");
    words
}

/// Retracts the end of the text that was sent in pieces.
fn retract(text: &mut String, retracts: &Value) {
    let count = usize::try_from(retracts.as_u64().unwrap()).unwrap();
    let chars: Vec<char> = text.chars().collect();
    assert!((1..=chars.len()).contains(&count), "{count} characters of {text:?} are retracted");
    *text = chars[..chars.len() - count].iter().collect();
}

/// The text that a client has that knows nothing of retractions.
pub(crate) fn joined_text(bytes: &[u8]) -> String {
    let frames = read(bytes);
    let pieces = frames.iter().filter(|frame| frame.event == "text_delta");
    pieces.map(|frame| words(frame, "delta")).collect()
}

fn content(content: &Value) {
    match content {
        Value::String(_) => {}
        Value::Array(blocks) => {
            for block in blocks {
                let value = match block["type"].as_str() {
                    Some("text") => &block["text"],
                    Some("image") => &block["url"],
                    other => panic!("{other:?} in a result"),
                };
                assert!(value.is_string(), "{block}");
            }
        }
        other => panic!("{other} is no content"),
    }
}

fn judge_stop(stop: &Map<String, Value>) {
    let reason = stop["stopReason"].as_str().unwrap();
    assert!(["end_turn", "tool_use", "max_tokens", "refusal", "error"].contains(&reason), "{stop:?}");
    for figure in ["inputTokens", "outputTokens", "cachedInputTokens"] {
        assert!(stop["usage"][figure].is_u64(), "{stop:?}");
    }
    assert_eq!(stop.contains_key("error"), reason == "error", "{stop:?}");
    if let Some(error) = stop.get("error") {
        assert!(error["code"].is_string() && error["message"].is_string() && error["retryable"].is_boolean());
    }
    assert!(!stop.contains_key("awaiting") || reason == "end_turn", "{stop:?}");
}

/// What a client in delta mode can know of messages: between two calls one text, then one thought.
pub(crate) fn as_deltas(messages: &[Value]) -> Vec<Value> {
    let merged = |message: &Value| {
        if message["role"] != "assistant" {
            return message.clone();
        }
        let mut fold = Fold::default();
        for block in message["content"].as_array().unwrap() {
            match block["type"].as_str().unwrap() {
                // The pieces were sent before it was known that the response is never completed.
                "text" => fold.text += block["text"].as_str().unwrap(),
                "thinking" => fold.thinking += block["thinking"].as_str().unwrap(),
                _ => {
                    fold.flush();
                    fold.current.push(block.clone());
                }
            }
        }
        fold.flush();
        fold.close();
        fold.messages.remove(0)
    };
    messages.iter().map(merged).collect()
}

/// A checker that lets everything pass would show nothing.
#[test]
fn the_checker_finds_streams_that_clients_misread() {
    let start = "id: 0.0\nevent: turn_start\ndata: {}\n\n";
    let stop = |reason: &str| {
        format!(
            "id: 9.0\nevent: turn_stop\ndata: {{\"stopReason\":\"{reason}\",\"usage\":{{\"inputTokens\":0,\"outputTokens\":0,\"cachedInputTokens\":0}}}}\n\n"
        )
    };
    let call = |at: u32, id: &str| {
        format!(
            "id: {at}.0\nevent: tool_call\ndata: {{\"toolCallId\":\"{id}\",\"name\":\"f\",\"input\":{{}}}}\n\n"
        )
    };
    let result = |at: u32, id: &str| {
        format!("id: {at}.0\nevent: tool_result\ndata: {{\"toolCallId\":\"{id}\",\"content\":\"x\"}}\n\n")
    };
    let text = |at: u32| format!("id: {at}.0\nevent: text\ndata: {{\"text\":\"x\"}}\n\n");
    let holds = |parts: &[String]| {
        let bytes = parts.concat();
        let mut session = Session::default();
        session.carries_out("own");
        std::panic::catch_unwind(move || check(bytes.as_bytes(), RequestedMode::Message, &mut session)).ok()
    };
    let (first, end, tools) = (start.to_owned(), stop("end_turn"), stop("tool_use"));
    let good =
        holds(&[first.clone(), text(1), call(2, "a"), call(3, "b"), result(4, "a"), tools.clone()]).unwrap();
    assert_eq!(good.pending.len(), 1);
    assert!(holds(&[first.clone(), end.clone()]).is_some());
    for bad in [
        vec![],
        vec![first.clone()],
        vec![end.clone()],
        vec![first.clone(), first.clone(), end.clone()],
        vec![first.clone(), end.clone(), end.clone()],
        vec![first.clone(), end.clone(), text(10)],
        vec![first.clone(), text(2), text(1), end.clone()],
        vec![first.clone(), result(1, "a"), end.clone()],
        vec![first.clone(), call(1, "a"), call(2, "a"), end.clone()],
        vec![first.clone(), call(1, "a"), result(2, "a"), result(3, "a"), end.clone()],
        vec![first.clone(), call(1, "own"), result(2, "own"), end.clone()],
        vec![first.clone(), call(1, "a"), call(2, "b"), result(3, "a"), text(4), tools.clone()],
        vec![first.clone(), call(1, "a"), call(2, "b"), result(3, "a"), call(4, "c"), tools.clone()],
        vec![first.clone(), text(1), tools],
        vec![first.clone(), stop("error")],
        vec![first.clone(), stop("done")],
        vec![first, text(1).replace("text\"", "delta\"").replace(": text", ": text_delta"), end],
    ] {
        assert!(holds(&bad).is_none(), "{bad:?}");
    }
}
