//! Reads an event stream, chunk by chunk, by the rules of browsers.
//!
//! [`Decoder`] takes bytes in any split and returns whole [`Frame`]s.

use std::collections::VecDeque;

use crate::limits;

/// One frame that had data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The `id` this very frame carried. What the stream's last one is: [`Decoder::last_event_id`].
    pub id: Option<String>,
    /// The frame's name, when it is not the default.
    pub event: Option<String>,
    /// Its data lines, joined with line feeds.
    pub data: String,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecoderError {
    #[error("a line of the stream is longer than {limit} bytes (LINE_BYTES_MAX)")]
    LineTooLong { limit: usize },
    #[error("a frame of the stream is larger than {limit} bytes (FRAME_BYTES_MAX)")]
    FrameTooLarge { limit: usize },
}

/// Turns bytes into frames. After an error it takes nothing more.
#[derive(Debug)]
pub struct Decoder {
    line_bytes_max: usize,
    frame_bytes_max: usize,
    /// The line in hand, without its end.
    line: Vec<u8>,
    /// A carriage return ended the last line: a line feed directly after it belongs to it.
    after_return: bool,
    /// Bytes of the mark at the very start that were seen so far; `None` once past it.
    mark: Option<usize>,
    data: String,
    has_data: bool,
    event: String,
    frame_id: Option<String>,
    last_event_id: String,
    retry_ms: Option<u64>,
    comments: u64,
    ready: VecDeque<Frame>,
    failed: Option<DecoderError>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    pub fn new() -> Self {
        Decoder::with_limits(limits::LINE_BYTES_MAX, limits::FRAME_BYTES_MAX)
    }

    pub fn with_limits(line_bytes_max: usize, frame_bytes_max: usize) -> Self {
        Decoder {
            line_bytes_max,
            frame_bytes_max,
            line: Vec::new(),
            after_return: false,
            mark: Some(0),
            data: String::new(),
            has_data: false,
            event: String::new(),
            frame_id: None,
            last_event_id: String::new(),
            retry_ms: None,
            comments: 0,
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// Takes the next chunk. Frames it completes wait in [`Decoder::next_frame`], also when it then fails.
    ///
    /// What waits is bounded by the chunk: feed a chunk, take the frames, feed the next.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), DecoderError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let rest = self.skip_mark(chunk);
        let outcome = self.lines(rest);
        if let Err(failed) = outcome {
            self.failed = Some(failed);
            self.line = Vec::new();
            self.data = String::new();
        }
        outcome
    }

    /// The next whole frame. A frame that the stream's end cut off never comes.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// The id to resume after, once every waiting frame was taken; empty when none was given.
    pub fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    /// How long the stream asks to wait before connecting again.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Comments so far: a sign of life.
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// Bytes held for the frame in hand.
    pub fn held_bytes(&self) -> usize {
        self.line.len() + self.data.len() + self.event.len()
    }

    /// Leaves the byte order mark out, if the stream begins with one.
    fn skip_mark<'a>(&mut self, mut chunk: &'a [u8]) -> &'a [u8] {
        while let Some(seen) = self.mark {
            let Some((first, rest)) = chunk.split_first() else { return chunk };
            if *first == BYTE_ORDER_MARK[seen] {
                chunk = rest;
                self.mark = if seen + 1 == BYTE_ORDER_MARK.len() { None } else { Some(seen + 1) };
            } else {
                // It only looked like the mark; what was held back is the beginning of a line.
                self.mark = None;
                self.line.extend_from_slice(&BYTE_ORDER_MARK[..seen]);
            }
        }
        chunk
    }

    fn lines(&mut self, mut rest: &[u8]) -> Result<(), DecoderError> {
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            if self.line.is_empty() && end <= self.line_bytes_max {
                self.end_of_line(&rest[..end])?;
            } else {
                self.hold(&rest[..end])?;
                let line = std::mem::take(&mut self.line);
                self.end_of_line(&line)?;
            }
            let ended_by_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if ended_by_return {
                match rest.first() {
                    Some(b'\n') => rest = &rest[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
        }
        self.hold(rest)
    }

    fn hold(&mut self, piece: &[u8]) -> Result<(), DecoderError> {
        if self.line.len() + piece.len() > self.line_bytes_max {
            return Err(DecoderError::LineTooLong { limit: self.line_bytes_max });
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_of_line(&mut self, line: &[u8]) -> Result<(), DecoderError> {
        if line.is_empty() {
            self.end_of_frame();
            return Ok(());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(0) => {
                self.comments += 1;
                return Ok(());
            }
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &line[line.len()..]),
        };
        match field {
            b"data" => self.add_data(&String::from_utf8_lossy(value))?,
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                let id = String::from_utf8_lossy(value).into_owned();
                self.last_event_id.clone_from(&id);
                self.frame_id = Some(id);
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = String::from_utf8_lossy(value);
                self.retry_ms = Some(digits.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), DecoderError> {
        let needed = self.data.len() + value.len() + 1;
        if needed > self.frame_bytes_max {
            return Err(DecoderError::FrameTooLarge { limit: self.frame_bytes_max });
        }
        if self.has_data {
            self.data.push('\n');
        }
        self.has_data = true;
        self.data.push_str(value);
        Ok(())
    }

    fn end_of_frame(&mut self) {
        let id = self.frame_id.take();
        let event = std::mem::take(&mut self.event);
        if self.has_data {
            self.has_data = false;
            let data = std::mem::take(&mut self.data);
            let event = Some(event).filter(|event| !event.is_empty());
            self.ready.push_back(Frame { id, event, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sse::{HEARTBEAT, push_comment, push_data, push_named, push_retry};
    use bytes::BytesMut;
    use proptest::prelude::*;

    fn frame(id: Option<&str>, event: Option<&str>, data: &str) -> Frame {
        Frame { id: id.map(str::to_owned), event: event.map(str::to_owned), data: data.to_owned() }
    }

    fn drain(decoder: &mut Decoder) -> Vec<Frame> {
        std::iter::from_fn(|| decoder.next_frame()).collect()
    }

    fn decode(stream: &[u8]) -> (Decoder, Vec<Frame>) {
        let mut decoder = Decoder::new();
        decoder.feed(stream).expect("the stream is within limits");
        let frames = drain(&mut decoder);
        (decoder, frames)
    }

    #[track_caller]
    fn check(stream: &str, expected: &[Frame]) {
        assert_eq!(decode(stream.as_bytes()).1, expected, "{stream:?}");
    }

    #[test]
    fn the_rules() {
        check("data: a\n\n", &[frame(None, None, "a")]);
        check("data:a\n\n", &[frame(None, None, "a")]);
        check("data:  a\n\n", &[frame(None, None, " a")]);
        check("data: a\ndata: b\ndata\ndata:\n\n", &[frame(None, None, "a\nb\n\n")]);
        check("data\n\n", &[frame(None, None, "")]);
        check("data: a\r\rdata: b\r\n\r\ndata: c\n\n", &["a", "b", "c"].map(|data| frame(None, None, data)));
        check("\u{FEFF}data: a\n\n", &[frame(None, None, "a")]);
        check("\u{FEFF}\u{FEFF}data: a\n\n", &[]);
        check("data: a\n\n\u{FEFF}data: b\n\n", &[frame(None, None, "a")]);
        check(": word\n:\ndata: a\n\n", &[frame(None, None, "a")]);
        check("event: x\n\ndata: a\n\n", &[frame(None, None, "a")]);
        check("event: x\ndata: a\n\n", &[frame(None, Some("x"), "a")]);
        check("event: x\nevent\ndata: a\n\n", &[frame(None, None, "a")]);
        check("Data: a\n data: b\nword: c\n\n", &[]);
        check("id: 7\ndata: a\n\ndata: b\n\n", &[frame(Some("7"), None, "a"), frame(None, None, "b")]);
        check("data: cut off", &[]);
        check("data: cut off\n", &[]);
    }

    #[test]
    fn the_last_id_is_kept_and_can_be_taken_back() {
        assert_eq!(decode(b"id: 7\ndata: a\n\ndata: b\n\n").0.last_event_id(), "7");
        assert_eq!(decode(b"id: 7\n\n").0.last_event_id(), "7");
        assert_eq!(decode(b"id: 7\n\nid\n\n").0.last_event_id(), "");
        assert_eq!(decode(b"id: 7\n\nid: 8\0\n\n").0.last_event_id(), "7");
    }

    #[test]
    fn retry_takes_digits_only() {
        assert_eq!(decode(b"retry: 250\n\n").0.retry_ms(), Some(250));
        for wrong in ["", "-1", "1.5", "1s", "0x1", "+3"] {
            assert_eq!(decode(format!("retry: {wrong}\n\n").as_bytes()).0.retry_ms(), None, "{wrong:?}");
        }
        assert_eq!(decode(b"retry: 99999999999999999999999\n").0.retry_ms(), Some(u64::MAX));
    }

    #[test]
    fn a_line_or_a_frame_beyond_its_limit_is_a_typed_error() {
        let mut decoder = Decoder::with_limits(16, 24);
        assert_eq!(decoder.feed(b"data: 0123456789\n"), Ok(()), "exactly at the limit");
        assert_eq!(decoder.feed(b"data: 0123456789\n"), Ok(()));
        assert_eq!(decoder.feed(b"data: 0123456789\n"), Err(DecoderError::FrameTooLarge { limit: 24 }));
        assert_eq!(decoder.feed(b"\n\n"), Err(DecoderError::FrameTooLarge { limit: 24 }), "it stays failed");

        let mut decoder = Decoder::with_limits(16, 24);
        assert_eq!(decoder.feed(b"data: a\n\n0123456789"), Ok(()));
        assert_eq!(decoder.feed(b"0123456"), Err(DecoderError::LineTooLong { limit: 16 }));
        assert_eq!(drain(&mut decoder), [frame(None, None, "a")], "what was whole is still given");
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_frames(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "data: ä\u{2028}😀", "data", "id: 4", "id: 5\0", "event: x", "retry: 9", ": note", "\u{FEFF}",
                "\r", "\n", "\r\n", "\n\n", "\r\r", "\r\n\r\n", "word", " ",
            ]), 0..40),
            cuts in prop::collection::vec(0usize..9, 1..60),
        ) {
            let stream = pieces.concat().into_bytes();
            let (whole, expected) = decode(&stream);
            let mut decoder = Decoder::new();
            let mut frames = Vec::new();
            let mut rest = &stream[..];
            for length in cuts.iter().cycle().take(stream.len() * cuts.len() + 1) {
                let (piece, left) = rest.split_at((*length).min(rest.len()));
                decoder.feed(piece).unwrap();
                frames.extend(drain(&mut decoder));
                rest = left;
            }
            decoder.feed(rest).unwrap();
            frames.extend(drain(&mut decoder));
            prop_assert_eq!(frames, expected);
            prop_assert_eq!(decoder.last_event_id(), whole.last_event_id());
            prop_assert_eq!(decoder.retry_ms(), whole.retry_ms());
            prop_assert_eq!(decoder.comments(), whole.comments());
        }

        #[test]
        fn what_is_written_is_read(
            frames in prop::collection::vec((any::<u64>(), "[^\r\n]{0,40}", 0u8..4), 0..20),
            retry in any::<u64>(),
        ) {
            let mut out = BytesMut::new();
            let mut expected = Vec::new();
            push_retry(&mut out, retry);
            for (id, data, shape) in &frames {
                match shape {
                    0 | 1 => {
                        push_data(&mut out, *id, data.as_bytes());
                        expected.push(frame(Some(&id.to_string()), None, data));
                    }
                    2 => {
                        push_named(&mut out, "caught_up", data.as_bytes());
                        expected.push(frame(None, Some("caught_up"), data));
                    }
                    _ => {
                        push_comment(&mut out, data);
                        out.extend_from_slice(HEARTBEAT);
                    }
                }
            }
            let (decoder, got) = decode(&out);
            prop_assert_eq!(got, expected);
            prop_assert_eq!(decoder.retry_ms(), Some(retry));
        }

        #[test]
        fn hostile_bytes_neither_panic_nor_pile_up(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..40),
        ) {
            let mut decoder = Decoder::with_limits(64, 128);
            for chunk in &chunks {
                let fed = decoder.feed(chunk);
                drain(&mut decoder);
                // A byte that is not UTF-8 is replaced by three.
                prop_assert!(decoder.held_bytes() <= 64 + 128 + 3 * 64, "{}", decoder.held_bytes());
                if fed.is_err() {
                    break;
                }
            }
        }
    }
}
