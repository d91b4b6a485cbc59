//! Checks whether an answer fits its question, and returns the value to record. Pure.
//!
//! Must not depend on tokens, subscriptions or times. Start with [`response`] and [`decision`].

use recount_aaep::wire::{ConfirmationReply, Decision, Response};
use recount_event::Json;
use serde_json::Value;

use crate::project::answers;

/// The answers that a question takes.
pub(super) struct Question<'q> {
    pub(super) kinds: Option<&'q [String]>,
    pub(super) choices: Option<&'q [Json]>,
}

/// A decision and the comment that is recorded with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) approve: bool,
    pub(super) comment: Option<String>,
}

const MODIFIED: &str = "the reply accepts a changed action, which is not supported";

/// The decision of a confirmation; `None` for an unknown word. A modified action rejects the requested action (R-087).
pub(super) fn decision(reply: &ConfirmationReply) -> Option<Decided> {
    let rationale = reply.decision_rationale.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let accepts = match reply.decision {
        Decision::Accept => true,
        Decision::Reject => false,
        Decision::Other(_) => return None,
    };
    if accepts && reply.modified_action.is_some() {
        let comment = match rationale {
            Some(rationale) => format!("{MODIFIED}: {rationale}"),
            None => MODIFIED.to_owned(),
        };
        return Some(Decided { approve: false, comment: Some(comment) });
    }
    Some(Decided { approve: accepts, comment: rationale.map(str::to_owned) })
}

/// The answer as recorded; `None` if the question does not take it.
pub(super) fn response(question: &Question<'_>, response: &Response) -> Option<Json> {
    let (kinds, choices) = answers(question.kinds, question.choices);
    let takes = |kind: &str| kinds.contains(kind);
    let value = match response {
        Response::Bool(yes) => takes("yes_no").then(|| Value::from(*yes)),
        Response::Number(number) => takes("numeric").then(|| whole(*number)).flatten(),
        // Digits are recorded as text, never as a number (G-16).
        Response::Text(text) => {
            let chosen = choices.iter().flatten().any(|choice| choice.value == *text);
            ((takes("multiple_choice") && chosen) || takes("freetext")).then(|| Value::from(text.as_str()))
        }
    }?;
    Json::parse(&value.to_string()).ok()
}

/// A number as JSON, without an empty fraction; `None` if the log cannot hold it.
fn whole(number: f64) -> Option<Value> {
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > EXACT_MAX {
        return None;
    }
    match number.fract() == 0.0 {
        true => format!("{number:.0}").parse::<i64>().ok().map(Value::from),
        false => serde_json::Number::from_f64(number).map(Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use recount_aaep::Message;

    use super::*;

    fn confirmation(more: &str) -> ConfirmationReply {
        let text = format!(
            r#"{{"type":"confirmation.reply","reply_token":"rpl_1","subscription_id":"sub_1","timestamp":"2026-05-24T14:22:21.000Z",{more}}}"#
        );
        match Message::parse(&text).unwrap() {
            Message::ConfirmationReply(reply) => *reply,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_an_unchanged_acceptance_approves() {
        let decided = |more| decision(&confirmation(more)).unwrap();
        assert_eq!(decided(r#""decision":"accept""#), Decided { approve: true, comment: None });
        assert_eq!(
            decided(r#""decision":"reject","decision_rationale":" too much ""#),
            Decided { approve: false, comment: Some("too much".into()) }
        );
        let changed = decided(r#""decision":"accept","modified_action":{},"decision_rationale":"smaller""#);
        assert_eq!(changed, Decided { approve: false, comment: Some(format!("{MODIFIED}: smaller")) });
    }

    #[test]
    fn an_answer_is_of_a_kind_that_the_question_takes() {
        let kinds = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<String>>();
        let choices = ["60", "65"].map(|value| Json::parse(&format!("{value:?}")).unwrap());
        let text = |text: &str| Response::Text(text.into());
        let numbers = kinds(&["numeric"]);
        let question = Question { kinds: Some(&numbers), choices: Some(&choices) };
        let of = |answer: &Response| response(&question, answer).map(|json| json.text().to_owned());
        assert_eq!(of(&text("65")).as_deref(), Some("\"65\""));
        assert_eq!(of(&text("67.5")), None);
        assert_eq!(of(&Response::Number(67.0)).as_deref(), Some("67"));
        assert_eq!(of(&Response::Number(-67.5)).as_deref(), Some("-67.5"));
        assert_eq!(of(&Response::Number(1e300)), None);
        assert_eq!(of(&Response::Bool(true)), None);

        let open = Question { kinds: None, choices: None };
        assert_eq!(response(&open, &text("anything")).unwrap().text(), "\"anything\"");
        assert!(response(&open, &Response::Bool(true)).is_none());
        let yes = kinds(&["yes_no"]);
        let yes = Question { kinds: Some(&yes), choices: None };
        assert_eq!(response(&yes, &Response::Bool(false)).unwrap().text(), "false");
        assert!(response(&yes, &text("yes")).is_none());
    }
}
