//! Reads an event stream as the protocol's clients do: bytes in, frames out. Must not use our own code.

use serde_json::{Map, Value};

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReceivedFrame {
    pub(crate) id: Option<(u64, u32)>,
    pub(crate) event: String,
    pub(crate) data: Map<String, Value>,
}

/// All frames of a stream. Panics at anything that a client could misread.
pub(crate) fn read(bytes: &[u8]) -> Vec<ReceivedFrame> {
    let text = std::str::from_utf8(bytes).expect("a stream is UTF-8");
    for end in ['\r', '\u{85}', '\u{2028}', '\u{2029}', '\0'] {
        assert!(!text.contains(end), "{end:?} is in the stream unescaped");
    }
    assert!(text.is_empty() || text.ends_with("\n\n"), "the last frame is not closed");
    text.split_terminator("\n\n").filter_map(frame).collect()
}

fn frame(text: &str) -> Option<ReceivedFrame> {
    let (mut id, mut event, mut data) = (None, None, None);
    for line in text.split('\n') {
        let (field, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?} is no field"));
        match field {
            "" => continue,
            "id" => assert!(id.replace(place(value)).is_none(), "two ids in {text:?}"),
            "event" => assert!(event.replace(value.to_owned()).is_none(), "two names in {text:?}"),
            "data" => assert!(data.replace(object(value)).is_none(), "two lines of data in {text:?}"),
            other => panic!("{other:?} is no field of a frame"),
        }
    }
    let Some(data) = data else {
        assert!(id.is_none() && event.is_none(), "a frame without data: {text:?}");
        return None;
    };
    Some(ReceivedFrame { id, event: event.unwrap_or_else(|| panic!("no name in {text:?}")), data })
}

/// `12.0`, in this form and no other.
fn place(text: &str) -> (u64, u32) {
    let (sequence, part) = text.split_once('.').unwrap_or_else(|| panic!("{text:?} is no id"));
    let id = (sequence.parse().unwrap(), part.parse().unwrap());
    assert_eq!(format!("{}.{}", id.0, id.1), text);
    id
}

fn object(text: &str) -> Map<String, Value> {
    let Ok(Value::Object(data)) = serde_json::from_str(text) else { panic!("{text:?} is no object") };
    assert!(!data.contains_key("event"), "the name is in the data, where clients would take it from: {text}");
    data
}

#[test]
fn frames_are_read_with_comments_and_blank_lines() {
    let frames =
        read(b": hello\n\nid: 3.1\nevent: text\ndata: {\"text\":\"a: b\"}\n\n: x\nevent: e\ndata: {}\n\n");
    assert_eq!(frames.len(), 2);
    assert_eq!(
        (frames[0].id, frames[0].event.as_str(), frames[0].data["text"].as_str()),
        (Some((3, 1)), "text", Some("a: b"))
    );
    assert_eq!((frames[1].id, frames[1].event.as_str()), (None, "e"));
}
