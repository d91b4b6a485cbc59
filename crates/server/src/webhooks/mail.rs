//! Makes a mail of a message: headers in ASCII, and a body of plain text. Pure.
//!
//! Start at [`compose`]. It must not know how a mail is sent. Text of events is only in the subject and the body, where it
//! can end nothing.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::config::MailSettings;
use crate::limits::MAIL_LINE_BYTES_MAX;

/// Bytes of text in one encoded word, which may have 75 characters.
const ENCODED_WORD_BYTES: usize = 45;

/// Bytes of one line of base64, before they are encoded.
const BASE64_LINE_BYTES: usize = 57;

/// The mail about one event: a second delivery of the event has the same `Message-ID`.
pub(super) fn compose(
    mail: &MailSettings,
    webhook: &str,
    event_id: &str,
    now_ms: u64,
    subject: &str,
    text: &str,
) -> Vec<u8> {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now_ms)).replace("GMT", "+0000");
    let domain = mail.from.rsplit('@').next().unwrap_or_default();
    let mut out = format!(
        "From: Recount <{}>\r\nTo: <{}>\r\nSubject: {}\r\nDate: {date}\r\nMessage-ID: <{event_id}.{webhook}@{domain}>\r\n\
         Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n",
        mail.from,
        mail.to,
        header_text(subject),
    );
    let is_plain = text.is_ascii() && text.lines().all(|line| line.len() <= MAIL_LINE_BYTES_MAX);
    let body: String = text.lines().flat_map(|line| [line, "\r\n"]).collect();
    if is_plain {
        out += "Content-Transfer-Encoding: 7bit\r\n\r\n";
        out += &body;
    } else {
        out += "Content-Transfer-Encoding: base64\r\n\r\n";
        for chunk in body.as_bytes().chunks(BASE64_LINE_BYTES) {
            out += &STANDARD.encode(chunk);
            out += "\r\n";
        }
    }
    out.into_bytes()
}

/// The text as it is if it is printable ASCII and not too long, otherwise as encoded words of RFC 2047.
fn header_text(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !text.contains("=?");
    if is_plain && text.len() <= MAIL_LINE_BYTES_MAX {
        return text.to_owned();
    }
    let mut words: Vec<String> = vec![String::new()];
    for c in text.chars() {
        let last = words.last_mut().filter(|word| word.len() + c.len_utf8() <= ENCODED_WORD_BYTES);
        match last {
            Some(word) => word.push(c),
            None => words.push(c.into()),
        }
    }
    let mut out = String::new();
    for (number, word) in words.iter().enumerate() {
        let fold = if number > 0 { "\r\n " } else { "" };
        write!(out, "{fold}=?utf-8?B?{}?=", STANDARD.encode(word)).expect("writing to a string cannot fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MailServer;

    fn mail(subject: &str, text: &str) -> String {
        let settings = MailSettings {
            server: MailServer::parse("smtps://mail.example").unwrap(),
            from: "recount@b.example".to_owned(),
            to: "ada@c.example".to_owned(),
        };
        String::from_utf8(compose(&settings, "ops", "evt_1", 1_767_225_600_000, subject, text)).unwrap()
    }

    fn decoded(text: &str) -> String {
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    }

    #[test]
    fn a_mail_is_plain_text_with_a_stable_id() {
        let expected = "From: Recount <recount@b.example>\r\nTo: <ada@c.example>\r\nSubject: Run finished: done\r\n\
             Date: Thu, 01 Jan 2026 00:00:00 +0000\r\nMessage-ID: <evt_1.ops@b.example>\r\n\
             Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Transfer-Encoding: 7bit\r\n\r\nRun finished: done\r\n.\r\n";
        assert_eq!(mail("Run finished: done", "Run finished: done\n."), expected);
    }

    #[test]
    fn text_cannot_add_headers_and_long_or_foreign_text_is_encoded() {
        let subject = format!("{}\r\nBcc: eve@d.example", "é".repeat(40));
        let sent = mail(&subject, "zürich\r\nBcc: x");
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("Bcc") && head.is_ascii() && head.contains("base64"), "{head}");
        assert!(head.lines().all(|line| line.len() <= 85), "{head}");
        let words = head.split("=?utf-8?B?").skip(1).map(|word| decoded(word.split("?=").next().unwrap()));
        assert_eq!(words.collect::<String>(), subject);
        assert_eq!(decoded(&body.replace("\r\n", "")), "zürich\r\nBcc: x\r\n");
        let long = mail("=?utf-8?B?eA==?=", &"x".repeat(2_000));
        assert!(long.lines().all(|line| line.len() <= 85), "{long}");
        assert!(!long.contains("=?utf-8?B?eA==?="), "{long}");
    }
}
