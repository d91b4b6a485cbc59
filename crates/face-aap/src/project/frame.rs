//! Frames of a turn's event stream, and their encoding as server-sent events.

use std::io;

use bytes::{BufMut, BytesMut};
use recount_event::Code;
use serde::Serialize;
use serde_json::ser::Formatter;

use super::{FrameId, ImageRef, Pictures, UnresolvedContent};
use crate::wire::{StopReason, TurnError, TurnEvent};

/// One frame with its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// `None` if the frame is not part of the turn: it does not advance the cursor of a reader.
    pub id: Option<FrameId>,
    pub payload: FramePayload,
}

/// The content of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FramePayload {
    Event(TurnEvent),
    /// [`TurnEvent::ToolResult`] with unresolved pictures.
    ToolResult {
        tool_call_id: String,
        content: UnresolvedContent,
    },
}

impl Frame {
    /// The last frame of a stream that ends before its turn. The turn continues or can be resumed: a client that
    /// reconnects with the last id gets the rest.
    pub fn broken_off(error: TurnError) -> Self {
        let stop = TurnEvent::TurnStop {
            stop_reason: StopReason::Error,
            usage: None,
            error: Some(error),
            awaiting: None,
        };
        Frame { id: None, payload: FramePayload::Event(stop) }
    }

    /// [`Frame::broken_off`] because the server shuts down.
    pub fn shutting_down() -> Self {
        Frame::broken_off(TurnError {
            code: Code::ShuttingDown.to_string(),
            message: "the server is shutting down; the turn is stored and can be resumed after the restart"
                .into(),
            retryable: true,
        })
    }

    /// The unresolved pictures.
    pub fn pictures(&self) -> impl Iterator<Item = &ImageRef> {
        let content = match &self.payload {
            FramePayload::Event(_) => None,
            FramePayload::ToolResult { content, .. } => Some(content),
        };
        content.into_iter().flat_map(UnresolvedContent::pictures)
    }

    /// Whether a reader that has the frame `last` also has this one.
    pub fn is_through(&self, last: FrameId) -> bool {
        self.id.is_some_and(|id| id <= last)
    }

    /// Whether it is the last one of its stream.
    pub fn is_stop(&self) -> bool {
        matches!(self.payload, FramePayload::Event(TurnEvent::TurnStop { .. }))
    }

    /// The event with its pictures.
    pub fn event(&self, pictures: &Pictures) -> TurnEvent {
        match &self.payload {
            FramePayload::Event(event) => event.clone(),
            FramePayload::ToolResult { tool_call_id, content } => {
                TurnEvent::ToolResult { tool_call_id: tool_call_id.clone(), content: content.with(pictures) }
            }
        }
    }

    /// Appends the encoded frame.
    pub fn write(&self, pictures: &Pictures, out: &mut BytesMut) {
        match &self.payload {
            FramePayload::Event(event) => write(self.id, event, out),
            FramePayload::ToolResult { .. } => write(self.id, &self.event(pictures), out),
        }
    }
}

fn write(id: Option<FrameId>, event: &TurnEvent, out: &mut BytesMut) {
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.to_string().as_bytes());
        out.put_u8(b'\n');
    }
    out.put_slice(b"event: ");
    out.put_slice(event.name().as_bytes());
    out.put_slice(b"\ndata: ");
    let mut json = serde_json::Serializer::with_formatter(out.writer(), OneLine);
    event.serialize(&mut json).expect("events hold only values that JSON can represent");
    out.put_slice(b"\n\n");
}

/// JSON without characters that a reader might treat as a line end. Besides CR and LF these are three characters that
/// JSON allows in strings.
struct OneLine;

/// U+0085, U+2028 and U+2029, and how they are escaped.
const LINE_ENDS: [(&str, &[u8]); 3] =
    [("\u{85}", br"\u0085"), ("\u{2028}", br"\u2028"), ("\u{2029}", br"\u2029")];

impl OneLine {
    /// They occur in strings only, where an escape is equivalent.
    fn escaped<W: io::Write + ?Sized>(writer: &mut W, mut rest: &str) -> io::Result<()> {
        // Their first bytes; nearly every text has neither.
        while let Some(at) = rest.bytes().position(|byte| byte == 0xC2 || byte == 0xE2) {
            let (before, from) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let end = LINE_ENDS.iter().find(|(end, _)| from.starts_with(end));
            let taken = match end {
                Some((end, escape)) => {
                    writer.write_all(escape)?;
                    end.len()
                }
                None => {
                    let length = from.chars().next().map_or(from.len(), char::len_utf8);
                    writer.write_all(&from.as_bytes()[..length])?;
                    length
                }
            };
            rest = &from[taken..];
        }
        writer.write_all(rest.as_bytes())
    }
}

impl Formatter for OneLine {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        OneLine::escaped(writer, fragment)
    }

    /// JSON that is passed on as its text: line ends in it are white space.
    fn write_raw_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut pieces = fragment.split(['\r', '\n']);
        OneLine::escaped(writer, pieces.next().unwrap_or_default())?;
        for piece in pieces {
            writer.write_all(b" ")?;
            OneLine::escaped(writer, piece)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use recount_event::Json;

    use super::*;

    fn check(expected: &str, frame: &Frame) {
        let mut out = BytesMut::new();
        frame.write(&Pictures::default(), &mut out);
        assert_eq!(std::str::from_utf8(&out), Ok(expected));
    }

    fn frame(event: TurnEvent) -> Frame {
        Frame { id: Some(FrameId { sequence: 12, part: 0 }), payload: FramePayload::Event(event) }
    }

    /// P-021, P-026.
    #[test]
    fn frames_are_encoded_on_single_lines() {
        check("id: 12.0\nevent: turn_start\ndata: {}\n\n", &frame(TurnEvent::TurnStart {}));
        check(
            "id: 12.0\nevent: text_delta\ndata: {\"delta\":\"a\\n\\r\\u0000\\\"\\\\ é 🦀\\u2028\\u2029\\u0085\"}\n\n",
            &frame(TurnEvent::TextDelta {
                delta: "a\n\r\0\"\\ é 🦀\u{2028}\u{2029}\u{85}".into(),
                retracts: None,
            }),
        );
        let input = Json::parse("{\n\"a\":\r\n\"\u{2028} …\"}").unwrap();
        check(
            "id: 12.0\nevent: tool_call\ndata: {\"toolCallId\":\"call_1\",\"name\":\"find\",\"input\":{ \"a\":  \"\\u2028 …\"}}\n\n",
            &frame(TurnEvent::ToolCall { tool_call_id: "call_1".into(), name: "find".into(), input }),
        );
    }

    /// P-079: the frame is not part of the turn, so it does not advance the cursor of a reader.
    #[test]
    fn a_stream_that_ends_early_ends_with_a_stop_without_id() {
        let frame = Frame::shutting_down();
        assert!(frame.is_stop() && !frame.is_through(FrameId { sequence: u64::MAX, part: u32::MAX }));
        check(
            "event: turn_stop\ndata: {\"stopReason\":\"error\",\"error\":{\"code\":\"shutting_down\",\
             \"message\":\"the server is shutting down; the turn is stored and can be resumed after the restart\",\
             \"retryable\":true}}\n\n",
            &frame,
        );
    }
}
