//! Event streams (`text/event-stream`): writes and reads frames.
//!
//! Writing is [`push_data`] and its siblings: they only append to a buffer. Reading is [`Decoder`].

mod decode;

use bytes::{BufMut, BytesMut};

pub use decode::{Decoder, DecoderError, Frame};

/// The media type of an event stream.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// A frame without content that shows that the stream is alive.
pub const HEARTBEAT: &[u8] = b":\n\n";

/// A frame with a cursor. The hot path: `data` is one line as it was stored, so it is not searched.
pub fn push_data(out: &mut BytesMut, id: u64, data: &[u8]) {
    debug_assert!(is_one_line(data), "stored envelopes hold no line end");
    let mut digits = [0; 20];
    let id = decimal(id, &mut digits);
    out.reserve(id.len() + data.len() + 13);
    out.put_slice(b"id: ");
    out.put_slice(id);
    out.put_slice(b"\ndata: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
}

/// A named frame that moves the reader's cursor and carries no event.
pub fn push_mark(out: &mut BytesMut, event: &str, id: u64, data: &[u8]) {
    let mut digits = [0; 20];
    out.put_slice(b"id: ");
    out.put_slice(decimal(id, &mut digits));
    out.put_slice(b"\n");
    push_named(out, event, data);
}

/// A frame with a name and no cursor: it does not move the reader's place. `data` is one line.
pub fn push_named(out: &mut BytesMut, event: &str, data: &[u8]) {
    debug_assert!(is_one_line(event.as_bytes()), "an event's name is one line");
    debug_assert!(is_one_line(data), "the data of a named frame is one line");
    out.reserve(event.len() + data.len() + 16);
    out.put_slice(b"event: ");
    out.put_slice(event.as_bytes());
    out.put_slice(b"\ndata: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
}

/// A comment, which readers skip. Each line of `text` becomes one.
pub fn push_comment(out: &mut BytesMut, text: &str) {
    for line in text.split(['\r', '\n']) {
        out.put_slice(b": ");
        out.put_slice(line.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_u8(b'\n');
}

/// Sets how long the reader waits before it reconnects.
pub fn push_retry(out: &mut BytesMut, ms: u64) {
    let mut digits = [0; 20];
    out.put_slice(b"retry: ");
    out.put_slice(decimal(ms, &mut digits));
    out.put_slice(b"\n\n");
}

fn is_one_line(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, b'\r' | b'\n'))
}

/// The digits of a number, without the machinery of formatting.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).expect("a remainder of ten is one digit");
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, push: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        push(&mut out);
        assert_eq!(std::str::from_utf8(&out), Ok(expected));
    }

    #[test]
    fn frames_as_they_go_out() {
        check("id: 0\ndata: {\"a\":1}\n\n", |out| push_data(out, 0, br#"{"a":1}"#));
        check("id: 18446744073709551615\ndata: x\n\n", |out| push_data(out, u64::MAX, b"x"));
        check("event: caught_up\ndata: {\"sequence\":9}\n\n", |out| {
            push_named(out, "caught_up", br#"{"sequence":9}"#);
        });
        check(": one\n: two\n\n", |out| push_comment(out, "one\ntwo"));
        check("retry: 1000\n\n", |out| push_retry(out, 1000));
    }
}
