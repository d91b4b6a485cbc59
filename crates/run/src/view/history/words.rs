//! Texts and blocks of lines that no event has as such: a question as text, an answer as text, attachments as blocks.

use recount_event::family::{clarification, handoff, user};
use recount_event::{ForeignId, Json, Payload};

/// Follows the text of an abandoned answer, so that a reader that joins all text still sees where the next one starts.
pub const CUT_OFF_NOTE: &str = "\n\n[The response was cut off here and starts again.]\n\n";

/// A question as text: the question, its context, and its choices, on separate lines.
pub fn question(request: &clarification::Requested) -> String {
    let mut text = request.question.clone();
    if let Some(context) = request.context.as_ref().filter(|context| !context.is_empty()) {
        text.push('\n');
        text.push_str(context);
    }
    for choice in request.choices.iter().flatten() {
        text.push_str("\n- ");
        text.push_str(&answer_text(choice));
    }
    text
}

/// A handoff as text: why the agent cannot continue.
pub fn handoff_text(request: &handoff::Requested) -> String {
    request.reason.clone()
}

/// An answer or a choice as a person would write it: a text unchanged, anything else as JSON.
pub(super) fn answer_text(response: &Json) -> String {
    if !response.text().starts_with('"') {
        return response.text().to_owned();
    }
    // The vocabulary reads JSON; this crate does not.
    match Payload::read("user.message", &format!(r#"{{"text":{}}}"#, response.text())) {
        Ok(Payload::UserMessage(message)) => message.text,
        _ => response.text().to_owned(),
    }
}

/// A text as a content block; none of an empty one.
pub(super) fn text_block(text: &str) -> Option<Json> {
    let quoted = Json::of(&text).ok().filter(|_| !text.is_empty())?;
    Json::parse(&format!(r#"{{"type":"text","text":{}}}"#, quoted.text())).ok()
}

/// An attachment as a content block.
pub(super) fn attachment(sent: &user::Attachment) -> Option<Json> {
    let kind = if sent.kind == "image" || sent.mime.starts_with("image/") { "image" } else { "file" };
    let mime = Json::of(&sent.mime).ok()?;
    let block = format!(r#"{{"type":"{kind}","artifact_id":"{}","mime":{}}}"#, sent.artifact_id, mime.text());
    Json::parse(&block).ok()
}

/// Whether a block names an artifact. Inside a text the quotes would be escaped, so what is found is a member.
pub(super) fn names(block: &Json, artifact_id: &ForeignId) -> bool {
    block.text().split(r#""artifact_id""#).skip(1).any(|rest| {
        let value = rest.trim_start().strip_prefix(':').map(str::trim_start);
        let named = value.and_then(|value| value.strip_prefix('"')?.strip_prefix(artifact_id.as_str()));
        named.is_some_and(|behind| behind.starts_with('"'))
    })
}
