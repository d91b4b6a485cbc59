//! Messages about events: for programs the envelope, for chat programs a few lines of text. Pure.
//!
//! Start at [`Message::render`]. It must not know how a message is sent. Text of events cannot steer a chat program: markup is
//! escaped, mentions and previews are off.

use recount_command_line::clean;
use recount_event::codec::Envelope;
use recount_event::time;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::config::WebhookFormat;
use crate::decide::utc_time;
use crate::limits::{CHAT_LINE_CHARS_MAX, WEBHOOK_EVENT_BYTES_MAX};

/// The type of test messages, which are no events.
pub(super) const TEST: &str = "ext.recount.webhook_test";

/// An event and its context.
pub(super) struct Message<'a> {
    pub(super) envelope: &'a Envelope<'a>,
    /// The stored envelope.
    pub(super) bytes: &'a [u8],
    pub(super) position: u64,
    pub(super) tenant: &'a str,
    /// The title of the run.
    pub(super) title: Option<String>,
    pub(super) decision: Option<DecisionLink>,
}

/// The link that answers a prompt.
pub(super) struct DecisionLink {
    pub(super) url: String,
    pub(super) approver: String,
    pub(super) expires_at: Option<String>,
}

/// The name of the header that has the subject of a mail.
pub(super) const SUBJECT: &str = "subject";

/// The body of a request or a mail, and its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) headers: Vec<(&'static str, String)>,
}

/// The message for programs.
#[derive(Serialize)]
struct EventMessage<'a> {
    #[serde(rename = "type")]
    type_name: &'a str,
    timestamp: String,
    tenant: &'a str,
    position: u64,
    run_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_url: Option<&'a str>,
    /// The stored envelope; absent if it is too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_omitted_bytes: Option<usize>,
}

/// CloudEvents 1.0 in JSON.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: String,
    source: String,
    #[serde(rename = "type")]
    type_name: &'a str,
    time: &'a str,
    subject: &'a str,
    /// The position, as text that sorts like the number.
    sequence: String,
    datacontenttype: &'static str,
    data: &'a EventMessage<'a>,
}

impl Message<'_> {
    /// `source` is the URL of this server, if it is configured.
    pub(super) fn render(&self, format: WebhookFormat, source: Option<&str>) -> Rendered {
        const JSON: &str = "application/json";
        let body = |value: &Value| value.to_string().into_bytes();
        let rendered = |content_type, body| Rendered { content_type, body, headers: Vec::new() };
        let lines = || self.lines();
        match format {
            WebhookFormat::Recount => rendered(JSON, to_json(&self.event_message())),
            WebhookFormat::CloudEvents => {
                rendered("application/cloudevents+json; charset=utf-8", self.cloud_event(source))
            }
            WebhookFormat::Slack => {
                let text = joined(&lines(), slack_escaped);
                rendered(JSON, body(&json!({"text": text, "unfurl_links": false, "unfurl_media": false})))
            }
            WebhookFormat::Discord => {
                let text = joined(&lines(), discord_escaped);
                // 4: links are shown without previews.
                let mentions = json!({"parse": []});
                rendered(JSON, body(&json!({"content": text, "allowed_mentions": mentions, "flags": 4})))
            }
            WebhookFormat::Telegram => {
                let text = joined(&lines(), str::to_owned);
                rendered(JSON, body(&json!({"text": text, "link_preview_options": {"is_disabled": true}})))
            }
            WebhookFormat::Ntfy => {
                let text = joined(&lines(), str::to_owned).into_bytes();
                let click = self.decision.iter().map(|decision| ("x-click", decision.url.clone()));
                let headers = [("x-title", "Recount".to_owned())].into_iter().chain(click).collect();
                Rendered { headers, ..rendered("text/plain; charset=utf-8", text) }
            }
            WebhookFormat::Email => {
                let mut lines = lines();
                let subject = joined(&lines[..1], str::to_owned);
                lines.push(Line::text("Replies to this mail are not read; a reply approves nothing."));
                let text = joined(&lines, str::to_owned).into_bytes();
                Rendered { headers: vec![(SUBJECT, subject)], ..rendered("text/plain; charset=utf-8", text) }
            }
        }
    }

    fn event_message(&self) -> EventMessage<'_> {
        let is_small = self.bytes.len() <= WEBHOOK_EVENT_BYTES_MAX;
        let event = serde_json::from_slice(self.bytes).ok().filter(|_| is_small);
        EventMessage {
            type_name: &self.envelope.type_name,
            timestamp: time::format_ms(self.envelope.occurred_ms),
            tenant: self.tenant,
            position: self.position,
            run_id: self.envelope.run_id.to_string(),
            run_title: self.title.as_deref(),
            decision_url: self.decision.as_ref().map(|decision| &*decision.url),
            event,
            event_omitted_bytes: event.is_none().then_some(self.bytes.len()),
        }
    }

    fn cloud_event(&self, source: Option<&str>) -> Vec<u8> {
        let data = self.event_message();
        to_json(&CloudEvent {
            specversion: "1.0",
            id: self.envelope.event_id.to_string(),
            source: match source {
                Some(url) => format!("{url}#{}", self.tenant),
                None => format!("urn:recount:{}", self.tenant),
            },
            type_name: data.type_name,
            time: &data.timestamp,
            subject: &data.run_id,
            sequence: format!("{:020}", self.position),
            datacontenttype: "application/json",
            data: &data,
        })
    }

    /// The lines for people: what happened, in which run, and how it is answered.
    fn lines(&self) -> Vec<Line> {
        let data: Value = serde_json::from_str(self.envelope.data).unwrap_or_default();
        let field = |name: &str| data.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let type_name: &str = &self.envelope.type_name;
        let (heading, text) = match type_name {
            "approval.requested" => ("Approval requested", field("summary")),
            "clarification.requested" => ("Question", field("question")),
            "handoff.requested" => ("Handoff requested", field("summary_terse").or(field("reason"))),
            "run.finished" => ("Run finished", field("final_status")),
            "run.failed" => ("Run failed", field("message")),
            "run.cancelled" => ("Run cancelled", field("reason")),
            TEST => ("Test message", field("message")),
            other => (other, None),
        };
        let mut lines = vec![match text {
            Some(text) => Line::text(&format!("{heading}: {text}")),
            None => Line::text(heading),
        }];
        if type_name == "approval.requested" {
            lines.extend(field("consequence").map(|text| Line::text(&format!("Consequence: {text}"))));
        }
        let run = self.envelope.run_id;
        match &self.title {
            Some(title) => lines.push(Line::text(&format!("Run: {title} ({run})"))),
            None if type_name == TEST => {}
            None => lines.push(Line::text(&format!("Run: {run}"))),
        }
        if let Some(DecisionLink { url, approver, expires_at }) = &self.decision {
            lines.extend(expires_at.iter().map(|at| Line::text(&format!("Deadline: {}", utc_time(at)))));
            lines.push(Line::text(&format!("Link for {approver}, for one answer; do not forward it:")));
            lines.push(Line::Url(url.clone()));
        }
        lines
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are valid JSON")
}

/// A line of a chat message.
enum Line {
    /// Text of an event.
    Text(String),
    /// Our own URL, which stays as it is.
    Url(String),
}

impl Line {
    /// One line in which nothing is invisible, cut if it is long.
    fn text(text: &str) -> Line {
        let line = clean::approvable(text).join(" ");
        let mut shown: String = line.chars().take(CHAT_LINE_CHARS_MAX).collect();
        if shown.len() < line.len() {
            shown.push('…');
        }
        Line::Text(shown)
    }
}

fn joined(lines: &[Line], escape: fn(&str) -> String) -> String {
    let lines = lines.iter().map(|line| match line {
        Line::Text(text) => escape(text),
        Line::Url(url) => url.clone(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Slack reads `<…>` as links and mentions.
fn slack_escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Discord reads Markdown.
fn discord_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(
            c,
            '\\' | '*' | '_' | '~' | '`' | '|' | '>' | '<' | '[' | ']' | '(' | ')' | '#' | '-' | ':' | '@'
        ) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "run_01JZZZZZZZZZZZZZZZZZZZZZZZ";

    fn stored(type_name: &str, data: &str) -> String {
        format!(
            r#"{{"schema_version":"1","event_id":"evt_01JZZZZZZZZZZZZZZZZZZZZZZZ","run_id":"{RUN}","sequence":3,"occurred_at":"2026-01-01T00:00:00.000Z","type":"{type_name}","data":{data}}}"#
        )
    }

    fn render(text: &str, format: WebhookFormat, has_link: bool) -> Rendered {
        let envelope = Envelope::read(text.as_bytes()).unwrap();
        let decision = has_link.then(|| DecisionLink {
            url: "https://r.example/decide/a_b.c".to_owned(),
            approver: "ada".to_owned(),
            expires_at: Some("2026-01-01T00:10:00.000Z".to_owned()),
        });
        let title = Some("fix <it>".to_owned());
        let bytes = text.as_bytes();
        Message { envelope: &envelope, bytes, position: 42, tenant: "acme", title, decision }
            .render(format, has_link.then_some("https://r.example"))
    }

    fn body(rendered: &Rendered) -> Value {
        serde_json::from_slice(&rendered.body).unwrap()
    }

    #[test]
    fn a_program_gets_the_envelope_as_stored() {
        let text = stored("run.finished", r#"{"final_status":"done", "x":1.50}"#);
        let rendered = render(&text, WebhookFormat::Recount, false);
        assert!(String::from_utf8(rendered.body.clone()).unwrap().contains(&text));
        let expected = json!({
            "type": "run.finished", "timestamp": "2026-01-01T00:00:00.000Z", "tenant": "acme", "position": 42,
            "run_id": RUN, "run_title": "fix <it>", "event": serde_json::from_str::<Value>(&text).unwrap(),
        });
        assert_eq!(body(&rendered), expected);
        let linked = body(&render(&text, WebhookFormat::Recount, true));
        assert_eq!(linked["decision_url"], "https://r.example/decide/a_b.c");
        let cloud = render(&text, WebhookFormat::CloudEvents, false);
        assert_eq!(cloud.content_type, "application/cloudevents+json; charset=utf-8");
        let cloud_event = json!({
            "specversion": "1.0", "id": "evt_01JZZZZZZZZZZZZZZZZZZZZZZZ", "source": "urn:recount:acme",
            "type": "run.finished", "time": "2026-01-01T00:00:00.000Z", "subject": RUN,
            "sequence": "00000000000000000042", "datacontenttype": "application/json", "data": expected,
        });
        assert_eq!(body(&cloud), cloud_event);
        assert_eq!(
            body(&render(&text, WebhookFormat::CloudEvents, true))["source"],
            "https://r.example#acme"
        );
    }

    #[test]
    fn a_large_envelope_is_omitted_with_its_size() {
        let long = "x".repeat(WEBHOOK_EVENT_BYTES_MAX);
        let text = stored("user.message", &format!(r#"{{"text":"{long}"}}"#));
        let rendered = body(&render(&text, WebhookFormat::Recount, false));
        assert_eq!(
            (&rendered["event"], &rendered["event_omitted_bytes"]),
            (&Value::Null, &json!(text.len()))
        );
    }

    #[test]
    fn chat_programs_get_text_that_steers_nothing() {
        let text = stored(
            "approval.requested",
            r#"{"summary":"rm <!here> [x](http://e) \u202eab\u200b","consequence":"Deletes *all*."}"#,
        );
        let run = format!("Run: fix <it> ({RUN})");
        let summary = r"Approval requested: rm <!here> [x](http://e) \u{202e}ab\u{200b}";
        let link = "Deadline: 2026-01-01 00:10:00 UTC\nLink for ada, for one answer; do not forward it:\n\
                    https://r.example/decide/a_b.c";
        let plain = format!("{summary}\nConsequence: Deletes *all*.\n{run}\n{link}");
        let telegram = render(&text, WebhookFormat::Telegram, true);
        assert_eq!(body(&telegram), json!({"text": plain, "link_preview_options": {"is_disabled": true}}));
        let ntfy = render(&text, WebhookFormat::Ntfy, true);
        assert_eq!(String::from_utf8(ntfy.body).unwrap(), plain);
        let click = ("x-click", "https://r.example/decide/a_b.c".to_owned());
        assert_eq!(ntfy.headers, [("x-title", "Recount".to_owned()), click]);
        let email = render(&text, WebhookFormat::Email, true);
        assert_eq!(email.headers, [(SUBJECT, summary.to_owned())]);
        let reply = "\nReplies to this mail are not read; a reply approves nothing.";
        assert_eq!(String::from_utf8(email.body).unwrap(), plain.clone() + reply);
        let slack = body(&render(&text, WebhookFormat::Slack, true));
        assert_eq!(slack["text"], plain.replace('<', "&lt;").replace('>', "&gt;"));
        assert_eq!((&slack["unfurl_links"], &slack["unfurl_media"]), (&json!(false), &json!(false)));
        let discord = body(&render(&text, WebhookFormat::Discord, true));
        let content = discord["content"].as_str().unwrap();
        assert!(content.contains(r"\<!here\> \[x\]\(http\://e\)"), "{content}");
        assert!(
            content.ends_with("\nhttps://r.example/decide/a_b.c") && content.contains(r"Deletes \*all\*.")
        );
        assert_eq!((&discord["allowed_mentions"], &discord["flags"]), (&json!({"parse": []}), &json!(4)));
    }

    #[test]
    fn lines_name_what_happened() {
        for (type_name, data, line) in [
            ("clarification.requested", r#"{"question":"which?"}"#, "Question: which?"),
            ("handoff.requested", r#"{"reason":"stuck"}"#, "Handoff requested: stuck"),
            ("run.finished", r#"{"final_status":"done"}"#, "Run finished: done"),
            ("run.failed", r#"{"message":"no model"}"#, "Run failed: no model"),
            ("run.cancelled", "{}", "Run cancelled"),
            ("tool.completed", "{}", "tool.completed"),
            (TEST, r#"{"message":"it works"}"#, "Test message: it works"),
        ] {
            let rendered = body(&render(&stored(type_name, data), WebhookFormat::Telegram, false));
            assert_eq!(rendered["text"].as_str().unwrap().lines().next(), Some(line), "{type_name}");
        }
        let long = stored("run.failed", &format!(r#"{{"message":"{}"}}"#, "é".repeat(9_000)));
        let text = body(&render(&long, WebhookFormat::Discord, true))["content"].as_str().unwrap().to_owned();
        assert!(
            text.chars().count() < 2_000 && text.contains('…'),
            "Discord refuses more than 2000 characters"
        );
    }
}
