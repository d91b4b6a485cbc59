//! Validates seed messages: the conversation before a session, from the application. They are stored exactly as sent,
//! after a check that a model accepts them. Pure.

use std::collections::BTreeSet;

use recount_engine::Capabilities;
use recount_event::{Code, Json};

use super::image::picture_of;
use super::message::{few_blocks, fits, message_content};
use super::{Accepted, encoded_len, malformed, shortened};
use crate::error::Refusal;
use crate::limits;
use crate::wire::{AsSent, Content, ContentBlock, HistoryMessage};

/// Checks the messages and drops the parsed form. Calls at the end may have no result.
pub(super) fn seed(messages: Vec<AsSent<HistoryMessage>>, can: Capabilities) -> Accepted<Vec<Json>> {
    if messages.len() > limits::SEED_MESSAGES_MAX {
        let (count, most) = (messages.len(), limits::SEED_MESSAGES_MAX);
        let detail =
            format!("the session has {count} seed messages; send at most {most} (SEED_MESSAGES_MAX)");
        return Err(Refusal::new(Code::LimitReached, detail));
    }
    let (mut called, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for (index, message) in messages.iter().enumerate() {
        let whose = format!("messages[{index}]");
        match message.value() {
            HistoryMessage::System { content } => fits(&whose, encoded_len(content))?,
            HistoryMessage::User { content } => drop(message_content(&whose, content.clone(), can)?),
            HistoryMessage::Assistant { content } => assistant(&whose, content, can, &mut called)?,
            HistoryMessage::Tool { tool_call_id, content } => {
                message_content(&whose, content.clone(), can)?;
                if !called.contains(tool_call_id) {
                    let id = shortened(tool_call_id);
                    return Err(malformed(format!(
                        "{whose} is the result of {id:?}, but no earlier message calls it"
                    )));
                }
                if !answered.insert(tool_call_id.clone()) {
                    let id = shortened(tool_call_id);
                    return Err(malformed(format!(
                        "{whose} is a second result of {id:?}; send one result for each call"
                    )));
                }
            }
        }
    }
    Ok(messages.into_iter().map(AsSent::into_json).collect())
}

fn assistant(
    whose: &str,
    content: &Content,
    can: Capabilities,
    called: &mut BTreeSet<String>,
) -> Accepted<()> {
    let blocks = match content {
        Content::Text(text) => return fits(whose, encoded_len(text)),
        Content::Blocks(blocks) => blocks,
    };
    few_blocks(whose, blocks)?;
    let mut bytes = 0;
    for (index, block) in blocks.iter().enumerate() {
        match block {
            ContentBlock::Text { text, .. } | ContentBlock::Thinking { thinking: text, .. } => {
                bytes += encoded_len(text)
            }
            ContentBlock::Image { url } => drop(picture_of(whose, index, url, can)?),
            ContentBlock::ToolUse { tool_call_id, name, input } => {
                bytes += input.text().len();
                let shown = shortened(tool_call_id);
                if tool_call_id.is_empty() || tool_call_id.len() > limits::SEED_CALL_ID_BYTES_MAX {
                    let most = limits::SEED_CALL_ID_BYTES_MAX;
                    return Err(malformed(format!(
                        "{whose} has the toolCallId {shown:?}; send 1 to {most} bytes"
                    )));
                }
                if name.is_empty() {
                    return Err(malformed(format!("{whose} has the call {shown:?} without a tool name")));
                }
                if !called.insert(tool_call_id.clone()) {
                    return Err(malformed(format!(
                        "{whose} repeats the toolCallId {shown:?} of an earlier call"
                    )));
                }
            }
        }
    }
    fits(whose, bytes)
}

/// The ids of the calls in stored messages.
pub(crate) fn call_ids(seed: &[Json]) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for message in seed {
        if let Ok(HistoryMessage::Assistant { content: Content::Blocks(blocks) }) =
            serde_json::from_str(message.text())
        {
            ids.extend(blocks.into_iter().filter_map(|block| match block {
                ContentBlock::ToolUse { tool_call_id, .. } => Some(tool_call_id),
                _ => None,
            }));
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(messages: &str) -> Accepted<Vec<Json>> {
        seed(serde_json::from_str(messages).unwrap(), Capabilities::default())
    }

    #[test]
    fn seed_messages_are_stored_exactly() {
        let messages = concat!(
            r#"[{"role":"system","content":"Be brief."},"#,
            r#"{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}],"x":1},"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","toolCallId":"c1","name":"f","input":{"b":1,"a":2.0}}]},"#,
            r#"{"role":"tool","toolCallId":"c1","content":"sun"},"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c2","name":"f","input":{}}]}]"#,
        );
        let kept = check(messages).unwrap();
        let texts: Vec<&str> = kept.iter().map(Json::text).collect();
        assert_eq!(format!("[{}]", texts.join(",")), messages);
        assert_eq!(call_ids(&kept), BTreeSet::from(["c1".to_owned(), "c2".to_owned()]));
    }

    #[test]
    fn seed_messages_that_no_model_accepts_are_refused() {
        let call =
            r#"{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c","name":"f","input":{}}]}"#;
        let result = r#"{"role":"tool","toolCallId":"c","content":"x"}"#;
        for bad in [
            format!("[{result}]"),
            format!("[{result},{call}]"),
            format!("[{call},{result},{result}]"),
            format!("[{call},{call}]"),
            format!("[{}]", call.replace(r#""c""#, r#""""#)),
        ] {
            let refusal = check(&bad).unwrap_err();
            assert_eq!(refusal.code, Code::BodyMalformed, "{bad}");
        }
        let http = r#"[{"role":"user","content":[{"type":"image","url":"https://a.b/c"}]}]"#;
        assert_eq!(check(http).unwrap_err().code, Code::ImageRefused);
    }
}
