//! Messages with their framing on an event stream: [`Piece`], [`Framing`]. Every framing here is legal; the content
//! need not be.

use std::collections::VecDeque;

use bytes::Bytes;

/// How a piece is cut into bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Framing {
    /// One `data` line, LF.
    #[default]
    Plain,
    /// Writes of a few bytes each, which also split characters.
    Split,
    /// A `data` line for each line of the text.
    Lines,
    /// CR LF at the end of each line.
    Crlf,
    /// No space after `data:`, fields in another order, comments and unknown fields between them.
    Odd,
}

/// A message to send.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// The id after which an event stream can be resumed.
    pub id: Option<String>,
    /// The name of the frame, if not the surface's own.
    pub event: Option<&'static str>,
    pub data: Vec<u8>,
    pub framing: Framing,
}

impl Piece {
    pub(crate) fn new(id: Option<String>, data: impl Into<Vec<u8>>) -> Piece {
        Piece { id, event: None, data: data.into(), framing: Framing::Plain }
    }

    pub(crate) fn framed(mut self, framing: Framing) -> Piece {
        self.framing = framing;
        self
    }

    pub(crate) fn named(mut self, event: &'static str) -> Piece {
        self.event = Some(event);
        self
    }

    /// The writes of a piece on an event stream; `event` is the surface's frame name.
    pub(super) fn writes(&self, event: Option<&'static str>) -> VecDeque<Bytes> {
        let end: &[u8] = if self.framing == Framing::Crlf { b"\r\n" } else { b"\n" };
        let mut out = Vec::with_capacity(self.data.len() + 128);
        let mut line = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            out.extend_from_slice(end);
        };
        let odd = self.framing == Framing::Odd;
        if odd {
            line(&[b": a comment"]);
            line(&[b"later: a field of a later version"]);
        } else if let Some(event) = self.event.or(event) {
            line(&[b"event: ", event.as_bytes()]);
        }
        if let (Some(id), false) = (&self.id, odd) {
            line(&[b"id: ", id.as_bytes()]);
        }
        for text in self.data.split(|byte| *byte == b'\n') {
            line(&[if odd { b"data:" } else { b"data: " }, text]);
        }
        if odd {
            line(&[b":"]);
            if let Some(id) = &self.id {
                line(&[b"id:", id.as_bytes()]);
            }
            if let Some(event) = self.event.or(event) {
                line(&[b"event:", event.as_bytes()]);
            }
        }
        line(&[]);
        match self.framing {
            // An odd number, so that characters of two and four bytes are split.
            Framing::Split => out.chunks(7).map(Bytes::copy_from_slice).collect(),
            _ => VecDeque::from([Bytes::from(out)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(piece: Piece, event: Option<&'static str>, expected: &str) {
        let writes: Vec<u8> = piece.writes(event).into_iter().flatten().collect();
        assert_eq!(String::from_utf8_lossy(&writes), expected);
    }

    #[test]
    fn frames_are_written_in_every_framing() {
        let piece = |data: &str| Piece::new(Some("evt_1".into()), data);
        check(piece("{}"), None, "id: evt_1\ndata: {}\n\n");
        check(piece("{}"), Some("aaep.event"), "event: aaep.event\nid: evt_1\ndata: {}\n\n");
        check(piece("{\n}"), None, "id: evt_1\ndata: {\ndata: }\n\n");
        check(piece("{}").framed(Framing::Crlf), None, "id: evt_1\r\ndata: {}\r\n\r\n");
        check(
            piece("{}").framed(Framing::Odd),
            Some("aaep.event"),
            ": a comment\nlater: a field of a later version\ndata:{}\n:\nid:evt_1\nevent:aaep.event\n\n",
        );
        assert!(piece("{\"summary_normal\":\"é\"}").framed(Framing::Split).writes(None).len() > 3);
    }
}
