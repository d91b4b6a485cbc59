//! The messages that the events of a turn add up to. Pure; see [`Fold`].
//!
//! It holds to what all clients of the protocol do: pieces gather in one text and one thought, which any other event
//! closes, text first; a result closes the assistant's message; what no `turn_stop` has closed is not kept. What the
//! server retracts is not kept either.

use super::events::{OpenCall, Stop, TurnEvent};
use super::wire::{Block, Content, HistoryMessage};

/// Takes the events of one turn.
#[derive(Debug, Default)]
pub struct Fold {
    messages: Vec<HistoryMessage>,
    blocks: Vec<Block>,
    text: String,
    thinking: String,
    stop: Option<Stop>,
}

impl Fold {
    pub fn new() -> Self {
        Fold::default()
    }

    /// Events after the stop are not part of the turn.
    pub fn event(&mut self, event: &TurnEvent) {
        if self.stop.is_some() {
            return;
        }
        match event {
            TurnEvent::TextDelta(piece) => return self.text.push_str(piece),
            TurnEvent::ThinkingDelta(piece) => return self.thinking.push_str(piece),
            TurnEvent::TextRetracted(retraction) => return drop_last(&mut self.text, retraction.chars),
            TurnEvent::ThinkingRetracted(retraction) => {
                return drop_last(&mut self.thinking, retraction.chars);
            }
            _ => self.flush(),
        }
        match event {
            TurnEvent::Text(text) => self.blocks.push(Block::text(text.clone())),
            TurnEvent::Thinking(thinking) => self.blocks.push(Block::thinking(thinking.clone())),
            TurnEvent::ToolCall(call) => self.blocks.push(Block::ToolUse {
                tool_call_id: call.tool_call_id.clone(),
                name: call.name.clone(),
                input: call.input.clone(),
            }),
            TurnEvent::ToolResult { tool_call_id, content } => {
                self.close();
                let (tool_call_id, content) = (tool_call_id.clone(), content.clone());
                self.messages.push(HistoryMessage::Tool { tool_call_id, content });
            }
            TurnEvent::Stop(stop) => {
                self.close();
                self.stop = Some(stop.clone());
            }
            _ => {}
        }
    }

    /// How the turn ended, once it has.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// The messages that are closed.
    pub fn messages(&self) -> &[HistoryMessage] {
        &self.messages
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.blocks.push(Block::text(std::mem::take(&mut self.text)));
        }
        if !self.thinking.is_empty() {
            self.blocks.push(Block::thinking(std::mem::take(&mut self.thinking)));
        }
    }

    fn close(&mut self) {
        if !self.blocks.is_empty() {
            let content = Content::Blocks(std::mem::take(&mut self.blocks));
            self.messages.push(HistoryMessage::Assistant { content });
        }
    }
}

/// Drops so many characters from the end, or all when there are fewer.
fn drop_last(text: &mut String, chars: usize) {
    if let Some(last) = chars.checked_sub(1) {
        let from = text.char_indices().rev().nth(last).map_or(0, |(at, _)| at);
        text.truncate(from);
    }
}

/// The calls that wait for an answer: those of the last message of the assistant that no result follows.
pub fn open_calls(messages: &[HistoryMessage]) -> Vec<OpenCall> {
    let last = messages.iter().rposition(|message| matches!(message, HistoryMessage::Assistant { .. }));
    let Some((HistoryMessage::Assistant { content: Content::Blocks(blocks) }, later)) =
        last.and_then(|last| messages[last..].split_first())
    else {
        return Vec::new();
    };
    let is_answered = |id: &str| {
        later.iter().any(|message| match message {
            HistoryMessage::Tool { tool_call_id, .. } => tool_call_id == id,
            _ => false,
        })
    };
    let calls = blocks.iter().filter_map(|block| match block {
        Block::ToolUse { tool_call_id, name, input } if !is_answered(tool_call_id) => {
            Some(OpenCall { tool_call_id: tool_call_id.clone(), name: name.clone(), input: input.clone() })
        }
        _ => None,
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::super::events::StopReason;
    use super::*;
    use serde_json::json;

    fn call(id: &str, name: &str) -> TurnEvent {
        TurnEvent::ToolCall(OpenCall { tool_call_id: id.into(), name: name.into(), input: json!({}) })
    }

    fn result(id: &str) -> TurnEvent {
        TurnEvent::ToolResult { tool_call_id: id.into(), content: Content::Text("r".into()) }
    }

    fn stop(reason: StopReason) -> TurnEvent {
        TurnEvent::Stop(Stop { reason, error: None, usage: None, awaiting: None })
    }

    fn text(text: &str) -> Block {
        Block::text(text.into())
    }

    fn thought(thinking: &str) -> Block {
        Block::thinking(thinking.into())
    }

    fn used(id: &str, name: &str) -> Block {
        Block::ToolUse { tool_call_id: id.into(), name: name.into(), input: json!({}) }
    }

    fn assistant(blocks: Vec<Block>) -> HistoryMessage {
        HistoryMessage::Assistant { content: Content::Blocks(blocks) }
    }

    fn tool(id: &str) -> HistoryMessage {
        HistoryMessage::Tool { tool_call_id: id.into(), content: Content::Text("r".into()) }
    }

    fn delta(text: &str) -> TurnEvent {
        TurnEvent::TextDelta(text.into())
    }

    fn folded(events: &[TurnEvent]) -> Fold {
        let mut fold = Fold::new();
        events.iter().for_each(|event| fold.event(event));
        fold
    }

    #[test]
    fn pieces_merge_and_text_goes_before_thinking() {
        let fold = folded(&[
            TurnEvent::Start,
            TurnEvent::ThinkingDelta("pl".into()),
            delta("a"),
            TurnEvent::ThinkingDelta("an".into()),
            delta("b"),
            call("1", "look"),
            stop(StopReason::ToolUse),
        ]);
        let expected = assistant(vec![text("ab"), thought("plan"), used("1", "look")]);
        assert_eq!(fold.messages(), [expected]);
        assert_eq!(fold.stop().map(|stop| &stop.reason), Some(&StopReason::ToolUse));
    }

    #[test]
    fn what_is_retracted_is_no_part_of_the_message() {
        let frame = |data: &str| {
            let frame = recount_transport::sse::Frame {
                id: None,
                event: Some("text_delta".into()),
                data: data.into(),
            };
            TurnEvent::read(&frame).unwrap()
        };
        let note = frame(r#"{"delta":"[cut off]","retracts":3}"#);
        let fold = folded(&[delta("Well. "), delta("Té🦀"), note, delta("Two."), stop(StopReason::EndTurn)]);
        assert_eq!(fold.messages(), [assistant(vec![text("Well. Two.")])]);
        let too_much =
            folded(&[delta("One"), frame(r#"{"delta":"","retracts":99}"#), stop(StopReason::EndTurn)]);
        assert_eq!(too_much.messages(), []);
        let none = folded(&[delta("One"), frame(r#"{"delta":"x","retracts":0}"#), stop(StopReason::EndTurn)]);
        assert_eq!(none.messages(), [assistant(vec![text("One")])]);
        let other_make = frame(r#"{"delta":"x","retracts":"yes"}"#);
        assert_eq!(other_make, delta("x"));
    }

    #[test]
    fn whole_blocks_keep_their_order_and_an_unknown_event_closes_a_piece() {
        let thinking = TurnEvent::Thinking("t".into());
        let whole = folded(&[thinking, TurnEvent::Text("x".into()), stop(StopReason::EndTurn)]);
        assert_eq!(whole.messages(), [assistant(vec![thought("t"), text("x")])]);
        let other = TurnEvent::Other("mark".into());
        let cut = folded(&[delta("a"), other, delta("b"), stop(StopReason::EndTurn)]);
        assert_eq!(cut.messages(), [assistant(vec![text("a"), text("b")])]);
    }

    #[test]
    fn a_result_closes_the_message_and_open_calls_are_those_of_the_last_one() {
        let fold = folded(&[
            delta("looking"),
            call("1", "look"),
            call("2", "keep"),
            result("1"),
            stop(StopReason::ToolUse),
        ]);
        let first = assistant(vec![text("looking"), used("1", "look"), used("2", "keep")]);
        assert_eq!(fold.messages(), [first, tool("1")]);
        let open: Vec<String> = open_calls(fold.messages()).into_iter().map(|call| call.name).collect();
        assert_eq!(open, ["keep"]);
        let next = folded(&[call("1", "look"), result("1"), delta("done"), stop(StopReason::EndTurn)]);
        assert_eq!(open_calls(next.messages()), []);
        assert_eq!(next.messages().len(), 3);
    }

    #[test]
    fn without_a_stop_the_last_message_is_not_kept_and_behind_one_nothing_is() {
        let cut = folded(&[call("1", "look"), result("1"), delta("do")]);
        assert_eq!(cut.messages(), [assistant(vec![used("1", "look")]), tool("1")]);
        assert_eq!(cut.stop(), None);
        let twice = folded(&[delta("a"), stop(StopReason::EndTurn), delta("b"), stop(StopReason::Error)]);
        assert_eq!(twice.messages(), [assistant(vec![text("a")])]);
        assert_eq!(twice.stop().map(|stop| &stop.reason), Some(&StopReason::EndTurn));
    }

    #[test]
    fn a_plain_text_history_has_no_open_calls() {
        let user = HistoryMessage::User { content: Content::Text("hi".into()) };
        let plain = HistoryMessage::Assistant { content: Content::Text("ho".into()) };
        assert_eq!(open_calls(&[]), []);
        assert_eq!(open_calls(std::slice::from_ref(&user)), []);
        assert_eq!(open_calls(&[assistant(vec![used("1", "x")]), plain]), []);
        let open = [user.clone(), assistant(vec![used("1", "x"), used("2", "y")]), tool("2")];
        assert_eq!(open_calls(&open).len(), 1);
        // A later message of the user leaves the call open.
        let later = [assistant(vec![used("1", "x")]), user];
        assert_eq!(open_calls(&later).len(), 1);
    }
}
