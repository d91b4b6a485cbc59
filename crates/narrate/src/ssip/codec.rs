//! The lines of SSIP, the protocol of speech-dispatcher: encodes commands, decodes replies and notifications. Pure.
//!
//! Lines end in CR LF. A reply is lines `NNN-text` and a last one `NNN text`. Codes from 700 on are notifications,
//! which may come at any time.

use super::error::SsipError;
use crate::limits;

/// A complete reply or notification of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SsipReply {
    pub(super) code: u16,
    /// The text of each line, without its code. The last one is for display.
    pub(super) lines: Vec<String>,
}

impl SsipReply {
    pub(super) fn is_notification(&self) -> bool {
        self.code >= 700
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The message id of a notification, or of the reply to a message.
    pub(super) fn message_id(&self) -> Option<&str> {
        self.lines.first().filter(|_| self.lines.len() > 1).map(String::as_str)
    }

    pub(super) fn words(&self) -> &str {
        self.lines.last().map_or("", String::as_str)
    }
}

/// Assembles replies from received bytes.
#[derive(Debug, Default)]
pub(super) struct SsipDecoder {
    bytes: Vec<u8>,
    lines: Vec<String>,
}

impl SsipDecoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete reply or notification.
    pub(super) fn next(&mut self) -> Result<Option<SsipReply>, SsipError> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            let refused =
                || SsipError::Protocol(format!("the line {line:?} does not begin with a three-digit code"));
            let (code, rest) = line.split_at_checked(3).ok_or_else(refused)?;
            let code: u16 = code.parse().map_err(|_| refused())?;
            if let Some(text) = rest.strip_prefix('-') {
                if self.lines.len() >= limits::SSIP_REPLY_LINES_MAX {
                    let why = format!("a reply has more than {} lines", limits::SSIP_REPLY_LINES_MAX);
                    return Err(SsipError::Protocol(why));
                }
                self.lines.push(text.to_owned());
                continue;
            }
            let mut lines = std::mem::take(&mut self.lines);
            lines.push(rest.trim_start().to_owned());
            return Ok(Some(SsipReply { code, lines }));
        }
        if self.bytes.len() > limits::SSIP_LINE_BYTES_MAX {
            let why = format!("a line is longer than {} bytes", limits::SSIP_LINE_BYTES_MAX);
            return Err(SsipError::Protocol(why));
        }
        Ok(None)
    }
}

/// A parameter without white space, which would start another command.
pub(super) fn word(text: &str) -> String {
    text.chars().filter(|character| character.is_ascii_graphic()).take(limits::SSIP_WORD_CHARS_MAX).collect()
}

/// Encodes a text as the lines after `SPEAK`, with the final line.
pub(super) fn data(text: &str) -> String {
    let mut data = String::with_capacity(text.len() + 8);
    for line in text.lines() {
        let line = spoken(line);
        if line.starts_with('.') {
            data.push('.');
        }
        data.push_str(&line);
        data.push_str("\r\n");
    }
    data.push_str(".\r\n");
    data
}

/// Removes control characters and direction isolates.
fn spoken(text: &str) -> String {
    let is_mark = |character| matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let kept = text.chars().filter(|character| !is_mark(*character));
    kept.map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(pieces: &[&[u8]]) -> Result<Vec<(u16, Vec<String>)>, SsipError> {
        let mut decoder = SsipDecoder::default();
        let mut all = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            while let Some(reply) = decoder.next()? {
                all.push((reply.code, reply.lines));
            }
        }
        Ok(all)
    }

    #[test]
    fn replies_are_read_from_any_pieces() {
        let one = |code, lines: &[&str]| (code, lines.iter().map(|line| (*line).to_owned()).collect());
        let whole =
            b"208 OK CLIENT NAME SET\r\n225-1\r\n225 OK MESSAGE QUEUED\r\n701-1\r\n701-7\r\n701 BEGIN\r\n";
        let expected = vec![
            one(208, &["OK CLIENT NAME SET"]),
            one(225, &["1", "OK MESSAGE QUEUED"]),
            one(701, &["1", "7", "BEGIN"]),
        ];
        assert_eq!(replies(&[whole]).unwrap(), expected);
        for cut in 0..whole.len() {
            assert_eq!(replies(&[&whole[..cut], &whole[cut..]]).unwrap(), expected, "{cut}");
        }
        assert_eq!(replies(&[b"200 OK\n"]).unwrap(), [one(200, &["OK"])], "a bare line feed");
    }

    #[test]
    fn invalid_replies_are_refused_and_buffers_are_bounded() {
        for bad in [&b"hello\r\n"[..], b"\r\n", b"20x OK\r\n", "2é OK\r\n".as_bytes()] {
            assert!(replies(&[bad]).unwrap_err().to_string().contains("three-digit code"), "{bad:?}");
        }
        let long = vec![b'2'; limits::SSIP_LINE_BYTES_MAX + 1];
        assert!(replies(&[&long]).unwrap_err().to_string().contains("longer than"));
        let many = b"249-voice\r\n".repeat(limits::SSIP_REPLY_LINES_MAX + 1);
        assert!(replies(&[&many]).unwrap_err().to_string().contains("lines"));
    }

    #[test]
    fn texts_are_escaped_and_cannot_contain_commands() {
        for (text, expected) in [
            ("Hello.", "Hello.\r\n.\r\n"),
            (".", "..\r\n.\r\n"),
            ("a\n.\nb", "a\r\n..\r\nb\r\n.\r\n"),
            ("a\r\n.\r\nSTOP ALL", "a\r\n..\r\nSTOP ALL\r\n.\r\n"),
            ("a\rb\u{7}\u{1b}c", "a b  c\r\n.\r\n"),
            ("\u{2068}x\u{2069} y", "x y\r\n.\r\n"),
            ("", ".\r\n"),
        ] {
            assert_eq!(data(text), expected, "{text:?}");
        }
        assert_eq!(word("en-US\r\nSTOP ALL"), "en-USSTOPALL");
    }
}
