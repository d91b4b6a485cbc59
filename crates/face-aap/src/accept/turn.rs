//! Validates the input of a turn: one user message, or answers to open calls. Pure. Start with [`turn`].

use std::collections::BTreeSet;

use recount_engine::{Profile, Setup};
use recount_event::{Code, ForeignId};
use recount_run::{CallAnswer, CallResolution};

use super::message::{MessageContent, message_content};
use super::setup::{Change, change};
use super::{Accepted, malformed, shortened};
use crate::error::Refusal;
use crate::limits;
use crate::wire::{ApplicationMessage, PostSessionTurnRequest, StreamMode};

/// The validated request for a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) mode: StreamMode,
    pub(crate) change: Change,
    pub(crate) input: TurnInput,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TurnInput {
    Message(MessageContent),
    Answers(Vec<Answer>),
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) call: ForeignId,
    pub(crate) response: CallResponse,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallResponse {
    Result(MessageContent),
    Granted,
    Denied { reason: Option<String> },
}

impl Answer {
    /// Converts the answer to the form of the command.
    pub(crate) fn command(self) -> CallAnswer {
        let resolution = match self.response {
            CallResponse::Granted => CallResolution::Granted,
            CallResponse::Denied { reason } => CallResolution::Denied { reason },
            CallResponse::Result(content) => {
                CallResolution::Output { output: content.output(), text: content.text() }
            }
        };
        CallAnswer { tool_call_id: self.call, resolution }
    }
}

/// Validates a turn of a session with the current configuration of its agent.
pub(crate) fn turn(request: PostSessionTurnRequest, setup: &Setup, profile: &Profile) -> Accepted<Turn> {
    let change = change(setup, profile, request.agent, request.tools)?;
    let input = turn_input(request.messages, profile)?;
    Ok(Turn { mode: request.stream, change, input })
}

fn turn_input(mut messages: Vec<ApplicationMessage>, profile: &Profile) -> Accepted<TurnInput> {
    let can = profile.capabilities;
    if messages.len() > limits::TURN_MESSAGES_MAX {
        let (count, most) = (messages.len(), limits::TURN_MESSAGES_MAX);
        let detail = format!("the turn has {count} messages; send at most {most} (TURN_MESSAGES_MAX)");
        return Err(Refusal::new(Code::LimitReached, detail));
    }
    let is_user = |message: &ApplicationMessage| matches!(message, ApplicationMessage::User { .. });
    if messages.is_empty() {
        let forms = "send one user message, or results and permissions";
        return Err(malformed(format!("messages is empty; {forms}")));
    }
    if messages.iter().any(is_user) && messages.len() > 1 {
        let forms = "send either one user message, or results and permissions";
        return Err(malformed(format!("messages mixes a user message with other messages; {forms}")));
    }
    if let Some(ApplicationMessage::User { .. }) = messages.first()
        && let Some(ApplicationMessage::User { content }) = messages.pop()
    {
        let content = message_content("messages[0]", content, can)?;
        if content.text().trim().is_empty() && !content.has_pictures() {
            return Err(malformed("messages[0] is empty; send at least one character"));
        }
        return Ok(TurnInput::Message(content));
    }
    let mut calls = BTreeSet::new();
    let mut answers = Vec::with_capacity(messages.len());
    let mut bytes = 0;
    for (index, message) in messages.into_iter().enumerate() {
        let whose = format!("messages[{index}]");
        let (id, response) = match message {
            ApplicationMessage::Tool { tool_call_id, content } => {
                let content = message_content(&whose, content, can)?;
                let size = content.output().text().len();
                if size > limits::RESULT_BYTES_MAX {
                    let most = limits::RESULT_BYTES_MAX;
                    let detail = format!(
                        "{whose} has {size} bytes as JSON with its images; send at most {most} \
                         (RESULT_BYTES_MAX)"
                    );
                    return Err(Refusal::new(Code::ImageRefused, detail));
                }
                bytes += size;
                (tool_call_id, CallResponse::Result(content))
            }
            ApplicationMessage::ToolPermission { tool_call_id, granted: true, .. } => {
                (tool_call_id, CallResponse::Granted)
            }
            ApplicationMessage::ToolPermission { tool_call_id, granted: false, reason } => {
                (tool_call_id, CallResponse::Denied { reason: reason_of(&whose, reason)? })
            }
            ApplicationMessage::User { .. } => {
                return Err(malformed(format!(
                    "{whose} is a user message next to other messages; send it alone"
                )));
            }
        };
        // An invalid id is never the id of a call.
        let call = ForeignId::parse(&id).map_err(|_| no_call(&id))?;
        if !calls.insert(call.clone()) {
            return Err(malformed(format!(
                "{whose} is a second answer to {call}; send one answer for each call"
            )));
        }
        answers.push(Answer { call, response });
    }
    if bytes > limits::ANSWERS_BYTES_MAX {
        let most = limits::ANSWERS_BYTES_MAX;
        let detail =
            format!("the results have {bytes} bytes as JSON; send at most {most} (ANSWERS_BYTES_MAX)");
        return Err(Refusal::new(Code::BodyTooLarge, detail));
    }
    Ok(TurnInput::Answers(answers))
}

fn reason_of(whose: &str, reason: Option<String>) -> Accepted<Option<String>> {
    let Some(reason) = reason else { return Ok(None) };
    if reason.len() > limits::REASON_BYTES_MAX {
        let (bytes, most) = (reason.len(), limits::REASON_BYTES_MAX);
        let detail =
            format!("the reason of {whose} has {bytes} bytes; send at most {most} (REASON_BYTES_MAX)");
        return Err(Refusal::new(Code::BodyTooLarge, detail));
    }
    Ok(Some(reason).filter(|reason| !reason.trim().is_empty()))
}

/// The refusal of an answer to a call that never waited for one.
pub(crate) fn no_call(id: &str) -> Refusal {
    let advice = "answer open calls of the last turn";
    let detail = format!("call {:?} not found in this session; {advice}", shortened(id));
    Refusal::new(Code::CallNotFound, detail)
}

#[cfg(test)]
mod tests {
    use recount_event::Json;

    use super::*;

    fn check(body: &str) -> Accepted<Turn> {
        let profile = Profile { name: "clerk".into(), version: "1.0.0".into(), ..Profile::default() };
        let setup = Setup { agent: "clerk".into(), ..Setup::default() };
        turn(super::super::body(body.as_bytes())?, &setup, &profile)
    }

    fn check_messages(messages: &str) -> Accepted<TurnInput> {
        check(&format!(r#"{{"messages":{messages}}}"#)).map(|turn| turn.input)
    }

    #[test]
    fn a_turn_is_one_message_or_answers() {
        let hi = check_messages(r#"[{"role":"user","content":"hi"}]"#).unwrap();
        assert_eq!(hi, TurnInput::Message(MessageContent::Text("hi".into())));
        let input = check_messages(
            r#"[{"role":"tool","toolCallId":"a","content":"x"},
                {"role":"tool_permission","toolCallId":"b","granted":true,"reason":"fine"},
                {"role":"tool_permission","toolCallId":"c","granted":false,"reason":" "}]"#,
        );
        let TurnInput::Answers(answers) = input.unwrap() else { panic!("they are answers") };
        let responses: Vec<_> = answers.into_iter().map(|answer| answer.command().resolution).collect();
        assert_eq!(
            responses,
            [
                CallResolution::Output { output: Json::parse("\"x\"").unwrap(), text: "x".into() },
                CallResolution::Granted,
                CallResolution::Denied { reason: None }
            ]
        );
    }

    // P-027, P-071
    #[test]
    fn a_result_with_pictures_may_be_as_large_as_an_event_allows() {
        let result = |bytes: usize| {
            let content = format!(
                r#"[{{"type":"image","url":"data:image/png;base64,iVBORw0KGgoA{}"}}]"#,
                "AAAA".repeat(bytes / 4 - 3)
            );
            check_messages(&format!(r#"[{{"role":"tool","toolCallId":"a","content":{content}}}]"#))
        };
        assert_eq!(limits::RESULT_BYTES_MAX, recount_run::limits::OUTPUT_BYTES_MAX);
        assert!(result(limits::RESULT_BYTES_MAX - 100).is_ok());
        let refusal = result(limits::RESULT_BYTES_MAX).unwrap_err();
        assert_eq!(refusal.code, Code::ImageRefused);
        assert!(refusal.detail.contains("RESULT_BYTES_MAX"), "{}", refusal.detail);
    }

    // P-030
    #[test]
    fn invalid_turns_are_refused() {
        let user = r#"{"role":"user","content":"hi"}"#;
        let tool = r#"{"role":"tool","toolCallId":"a","content":"x"}"#;
        for bad in [
            "[]".to_owned(),
            format!("[{user},{user}]"),
            format!("[{user},{tool}]"),
            format!("[{tool},{user}]"),
            format!("[{tool},{tool}]"),
            r#"[{"role":"system","content":"x"}]"#.into(),
            r#"[{"role":"assistant","content":"x"}]"#.into(),
            r#"[{"role":"user","content":""}]"#.into(),
            r#"[{"role":"user","content":[]}]"#.into(),
            r#"[{"role":"tool","content":"x"}]"#.into(),
            r#"[{"role":"tool_permission","toolCallId":"a"}]"#.into(),
            "{}".into(),
        ] {
            assert_eq!(check_messages(&bad).unwrap_err().code, Code::BodyMalformed, "{bad}");
        }
        let odd = r#"[{"role":"tool","toolCallId":"a b","content":"x"}]"#;
        assert_eq!(check_messages(odd).unwrap_err().code, Code::CallNotFound);
        for stream in ["\"sse\"", "\"\"", "7", "null", "\"Delta\""] {
            let body = format!(r#"{{"messages":[{user}],"stream":{stream}}}"#);
            assert_eq!(check(&body).unwrap_err().code, Code::BodyMalformed, "{stream}");
        }
        assert_eq!(check(&format!(r#"{{"messages":[{user}]}}"#)).unwrap().mode, StreamMode::None);
    }
}
