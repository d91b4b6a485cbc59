//! Tests of replies and their outcomes.

use recount_aaep::build;
use recount_aaep::produce::{AppliedDefault, ProducerSession, PromptHandle, ReplyOutcome, Stamp};
use recount_aaep::wire::{Response, Timestamp};

use super::{at, payment, started};

/// The text of a reply that is sent at this time.
pub(crate) fn reply(token: &str, at: Stamp, more: &str) -> String {
    let kind = if more.contains("\"response\"") { "clarification" } else { "confirmation" };
    let time = Timestamp::of_millis(at.now_ms);
    format!(
        r#"{{"type":"{kind}.reply","reply_token":"{token}",{more},"subscription_id":"sub_1","timestamp":"{time}"}}"#
    )
}

/// An acceptance of the open prompt.
pub(crate) fn accept(session: &ProducerSession, at: Stamp) -> String {
    reply(session.open_token().unwrap().as_str(), at, r#""decision":"accept""#)
}

fn prompted() -> (ProducerSession, PromptHandle, String) {
    let (mut session, _) = started();
    let ask = |token| build::confirmation("Pay.", "Gone.", token, 60);
    let (prompt, _) = session.confirm(at(10), &payment(), ask).unwrap();
    let token = session.open_token().unwrap().as_str().to_owned();
    (session, prompt, token)
}

#[test]
fn the_first_valid_reply_before_the_deadline_counts() {
    let (mut session, prompt, token) = prompted();
    let decision = |decision: &str, at: Stamp| reply(&token, at, &format!(r#""decision":"{decision}""#));
    let mut outcome = |stamp, text: &str| session.receive(stamp, text).unwrap().outcome;
    assert_eq!(outcome(at(11), &decision("accept", at(11)).replace("rpl_", "rpl_x")), ReplyOutcome::Unknown);
    for bad in [
        "not JSON",
        "[]",
        r#"{"type":"subscription.close"}"#,
        &decision("perhaps", at(11)),
        &decision("accept", at(11)).replace("\"subscription_id\":\"sub_1\",", ""),
        &decision("accept", at(11)).replace("\"reply_token\"", "\"more\":1,\"reply_token\""),
    ] {
        let outcome = outcome(at(11), bad);
        assert!(matches!(outcome, ReplyOutcome::Malformed { .. }), "{bad}: {outcome:?}");
    }
    // Its own timestamp is after the deadline.
    assert_eq!(outcome(at(12), &decision("accept", at(71))), ReplyOutcome::Late { prompt });
    let words = reply(&token, at(12), r#""response":"yes""#);
    assert!(matches!(outcome(at(12), &words), ReplyOutcome::NotAllowed { .. }));
    assert_eq!(outcome(at(13), &decision("accept", at(13))), ReplyOutcome::Accepted { prompt });
    assert_eq!(outcome(at(14), &decision("reject", at(14))), ReplyOutcome::Settled);
}

#[test]
fn a_reply_after_the_deadline_comes_after_the_default() {
    let (mut session, prompt, token) = prompted();
    // An early timestamp does not help.
    let late = session.receive(at(70), &reply(&token, at(20), r#""decision":"accept""#)).unwrap();
    assert_eq!(late.outcome, ReplyOutcome::Late { prompt });
    assert_eq!(late.default, Some((prompt, AppliedDefault::Rejected)));
    assert_eq!(late.events.len(), 1);
    assert!(session.begin_confirmed_call(at(71), payment(), prompt).is_err());
}

#[test]
fn an_acceptance_with_changes_is_a_rejection() {
    let (mut session, prompt, token) = prompted();
    let more = r#""decision":"accept","modified_action":{"args_summary":"4 euros"}"#;
    let received = session.receive(at(11), &reply(&token, at(11), more)).unwrap();
    assert_eq!(received.outcome, ReplyOutcome::Rejected { prompt, modified: true });
    assert_eq!(received.events.len(), 1);
    assert!(session.begin_confirmed_call(at(12), payment().args_summary("4 euros"), prompt).is_err());
}

#[test]
fn responses_must_be_of_an_accepted_kind() {
    let (mut session, _) = started();
    let cases: [(&[&str], &[&str], &str, bool); 9] = [
        (&[], &[], r#""Oslo""#, true),
        (&[], &[], "true", false),
        (&["yes_no"], &[], "true", true),
        (&["yes_no"], &[], r#""yes""#, false),
        (&["numeric"], &[], "7.5", true),
        (&["numeric"], &[], r#""7.5""#, false),
        (&[], &["a", "b"], r#""b""#, true),
        (&[], &["a", "b"], r#""c""#, false),
        (&["freetext"], &["a", "b"], r#""c""#, true),
    ];
    for (kinds, choices, response, fits) in cases {
        let ask = |token| {
            let mut draft = build::clarification("Which?", token, 60);
            if !kinds.is_empty() {
                let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
                draft = draft.accepted_response_kinds(kinds);
            }
            choices.iter().fold(draft, |draft, choice| draft.choice(*choice, *choice))
        };
        session.clarify(at(1), ask).unwrap();
        let token = session.open_token().unwrap().as_str().to_owned();
        let text = reply(&token, at(2), &format!(r#""response":{response}"#));
        let outcome = session.receive(at(2), &text).unwrap().outcome;
        let answered = matches!(outcome, ReplyOutcome::Answered { .. });
        assert_eq!(answered, fits, "{kinds:?} {choices:?} {response}: {outcome:?}");
        if let ReplyOutcome::Answered { response: Response::Text(text), .. } = outcome {
            assert!(response.contains(&text));
        }
        if !fits {
            session.withdraw(at(2)).unwrap();
        }
        assert_eq!(session.receive(at(3), &text).unwrap().outcome, ReplyOutcome::Settled);
    }
}
