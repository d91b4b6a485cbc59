//! A conversation as providers want it: roles take turns, what was called is answered by the message behind, and no two
//! calls have one name.

use std::collections::BTreeSet;

use super::{Asked, Conversation, ModelTurn, Said, Shown, Words};
use crate::model::{Call, CallResult, Message, Part};

impl Conversation {
    /// What the model is told. `shown` holds the pictures that could be fetched, when the model can see any; in place of
    /// others it is told that there is one.
    pub fn messages(&self, shown: Shown<'_>) -> Vec<Message> {
        let parts =
            |words: &[Words]| words.iter().filter(|word| word.says()).map(|word| word.part(shown)).collect();
        let mut messages = Vec::new();
        let mut names = CallNames::default();
        // Whether the model has the word.
        let extract = self.extract.as_ref().filter(|extract| !extract.trim().is_empty());
        let mut is_asked = extract.is_some();
        messages.extend(extract.map(|extract| Message::User(vec![Part::Text(extract.clone())])));
        for placed in &self.said {
            match &placed.said {
                // Providers refuse messages without a word.
                said if !said.says() => {}
                Said::User(words) => {
                    is_asked = true;
                    messages.push(Message::User(parts(words)));
                }
                Said::Turn(turn) => {
                    if !is_asked {
                        messages.push(go_on());
                    }
                    is_asked = !turn.calls.is_empty();
                    step(turn, &parts, &mut names, &mut messages);
                }
            }
        }
        if !is_asked {
            messages.push(go_on());
        }
        messages
    }
}

/// What is said where nobody has said anything, so that the model goes on: the same each time it is told.
fn go_on() -> Message {
    Message::User(vec![Part::Text("Go on.".to_owned())])
}

/// What the model said and called, and what came of its calls.
fn step(
    turn: &ModelTurn,
    parts: &impl Fn(&[Words]) -> Vec<Part>,
    names: &mut CallNames,
    messages: &mut Vec<Message>,
) {
    let text = turn.texts.join("");
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for asked in &turn.calls {
        let id = names.name(asked);
        results.push(asked.answer(id.clone(), parts));
        calls.push(Call { id, name: asked.name.clone(), input: asked.input.clone() });
    }
    messages.push(Message::Assistant { text: (!text.is_empty()).then_some(text), calls });
    if !results.is_empty() {
        messages.push(Message::Results(results));
    }
}

impl Said {
    /// Whether there is anything to tell.
    fn says(&self) -> bool {
        match self {
            Said::User(words) => words.iter().any(Words::says),
            Said::Turn(turn) => {
                !turn.calls.is_empty() || turn.texts.iter().any(|text| !text.trim().is_empty())
            }
        }
    }
}

impl Asked {
    fn answer(&self, call_id: String, parts: &impl Fn(&[Words]) -> Vec<Part>) -> CallResult {
        match &self.result {
            Some(told) => CallResult { call_id, parts: parts(&told.words), is_error: told.is_error },
            // Providers refuse a conversation with a call that has no answer.
            None => {
                let unsettled = "nothing is known of what became of this call".to_owned();
                CallResult { call_id, parts: vec![Part::Text(unsettled)], is_error: true }
            }
        }
    }
}

/// What calls are called towards the provider. Its own name for a call is kept; where it gave that name before, or gave
/// none, the call goes by ours, because providers refuse a conversation in which a name stands twice.
#[derive(Default)]
struct CallNames(BTreeSet<String>);

impl CallNames {
    fn name(&mut self, asked: &Asked) -> String {
        let own = asked.tool_call_id.as_ref().map(ToString::to_string);
        let wanted = [Some(asked.provider_call_id.clone()), own];
        for name in wanted.into_iter().flatten().filter(|name| !name.is_empty()) {
            if self.take(&name) {
                return name;
            }
        }
        let mut number = self.0.len() + 1;
        loop {
            let name = format!("call_{number}");
            if self.take(&name) {
                return name;
            }
            number += 1;
        }
    }

    /// Names that differ only in what some providers refuse are one there.
    fn take(&mut self, name: &str) -> bool {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        self.0.insert(name.chars().map(plain).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::StoredResult;

    #[test]
    fn calls_of_one_name_are_told_apart() {
        let call = |id: &str| Asked {
            tool_call_id: None,
            provider_call_id: id.into(),
            name: "look".into(),
            input: serde_json::json!({}),
            result: Some(StoredResult { words: vec![Words::Text(id.into())], is_error: false }),
        };
        let mut conversation = Conversation::default();
        let turn = ModelTurn { texts: vec![], calls: vec![call("a.1"), call("a.1"), call("a-1"), call("")] };
        conversation.push(Said::Turn(turn), None);
        let messages = conversation.messages(None);
        let Message::Assistant { calls, .. } = &messages[1] else { panic!("{messages:?}") };
        let Message::Results(results) = &messages[2] else { panic!("{messages:?}") };
        let names: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(names, ["a.1", "call_2", "call_3", "call_4"]);
        assert!(results.iter().zip(names).all(|(result, name)| result.call_id == name));
    }

    #[test]
    fn messages_in_a_row_stay_apart_and_what_came_with_one_stays_with_it() {
        let payload = |name: &str, data: &str| recount_event::Payload::read(name, data).unwrap();
        let place = |sequence| (recount_event::RunId::new(1.into()), sequence);
        let mut conversation = Conversation::default();
        let seed = serde_json::json!({ "role": "user", "content": [
            { "type": "text", "text": "a" }, { "type": "text", "text": "b" },
        ]});
        conversation.seed(&seed);
        conversation.take(&payload("user.message", r#"{"text":"first"}"#), place(1));
        conversation.take(&payload("user.message", r#"{"text":"second"}"#), place(2));
        let attached = r#"{"artifact_id":"art_1","kind":"image","mime":"image/png"}"#;
        conversation.take(&payload("user.attachment", attached), place(3));
        let texts =
            |texts: &[&str]| Message::User(texts.iter().map(|text| Part::Text((*text).into())).collect());
        let hidden = "[a picture that cannot be shown: art_1]";
        assert_eq!(
            conversation.messages(None),
            [texts(&["a", "b"]), texts(&["first"]), texts(&["second", hidden])]
        );
    }

    #[test]
    fn who_said_nothing_is_not_told_of() {
        let mut conversation = Conversation { extract: Some(String::new()), ..Conversation::default() };
        let texts = |texts: &[&str]| texts.iter().map(|text| Words::Text((*text).into())).collect::<Vec<_>>();
        let turn = |text: &str| Said::Turn(ModelTurn { texts: vec![text.into()], calls: vec![] });
        conversation.push(Said::User(texts(&[" ", ""])), None);
        conversation.push(turn("Hello."), None);
        conversation.push(Said::User(texts(&["", "hi"])), None);
        conversation.push(turn("\n"), None);
        let user = |text: &str| Message::User(vec![Part::Text(text.into())]);
        let said = |text: &str| Message::Assistant { text: Some(text.into()), calls: vec![] };
        assert_eq!(conversation.messages(None), [user("Go on."), said("Hello."), user("hi")]);
        conversation.push(turn("Yes."), None);
        conversation.push(Said::User(texts(&["\t"])), None);
        assert_eq!(conversation.messages(None)[3..], [said("Yes."), user("Go on.")]);
    }
}
