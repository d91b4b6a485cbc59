//! Tests of single steps: emitted events and rejected calls.

use recount_aaep::Event;
use recount_aaep::build::{self, Frame};
use recount_aaep::produce::{AppliedDefault, CallHandle, Misuse, ProducerSession, StateTexts};
use recount_aaep::wire::{
    Boundary, CancelledBy, Decision, ErrorCategory, HandoffTarget, Level, Progress, ToolStatus,
};

use super::replies::{accept, reply};
use super::{accusations, at, payment, session, started, texts, types};

#[test]
fn a_session_with_everything_breaks_no_rule() {
    let (mut session, mut sent) = started();
    sent.extend(session.set_state(at(1), "thinking", "Looking.").unwrap());
    let answer = session.open_output(Some("text/markdown")).unwrap();
    sent.extend(session.write(at(2), answer, "Für 👩‍👩‍👧 ", Boundary::Word).unwrap());
    let fetch = || build::tool_invoked("fetch", "Fetching.");
    let (one, events) = session.begin_call(at(3), fetch()).unwrap();
    sent.extend(events);
    let (two, events) = session.begin_call(at(3), fetch()).unwrap();
    sent.extend(events);
    let back = || build::tool_completed("fetch", ToolStatus::Success, "Fetched.");
    sent.extend(session.end_call(at(4), two, back()).unwrap());
    sent.extend(session.end_call(at(4), one, back()).unwrap());
    sent.extend(session.finish_output(at(5), answer, "alles.").unwrap());
    let (prompt, events) = session
        .confirm(at(6), &payment(), |token| build::confirmation("Pay.", "It is gone.", token, 300))
        .unwrap();
    sent.extend(events);
    let half = Progress { percent: Some(50.into()), ..Progress::default() };
    sent.extend(
        session.report_progress(at(150), build::progress(half).summary("Half the time is left.")).unwrap(),
    );
    let accepted = accept(&session, at(160));
    let mut lines = texts(&sent);
    lines.push(accepted.clone());
    let received = session.receive(at(160), &accepted).unwrap();
    let mut sent = received.events;
    let (call, events) = session.begin_confirmed_call(at(161), payment(), prompt).unwrap();
    sent.extend(events);
    sent.extend(
        session.end_call(at(162), call, build::tool_completed("pay", ToolStatus::Success, "Paid.")).unwrap(),
    );
    sent.extend(
        session.hand_off(at(163), build::handoff("Look.", HandoffTarget::Human, "A person looks.")).unwrap(),
    );
    sent.extend(session.complete(at(164), build::session_completed("Done.")).unwrap());
    lines.extend(texts(&sent));
    assert_eq!(accusations(&lines, true), Vec::<String>::new());
    // Without replies, which only some recordings contain.
    lines.retain(|line| !line.contains("confirmation.reply"));
    assert_eq!(accusations(&lines, true), Vec::<String>::new());
    let last = sent.last().unwrap();
    assert_eq!(last.envelope.sequence_number, Some(lines.len() as u64 - 1));
}

#[test]
fn positions_count_characters() {
    let (mut session, _) = started();
    let output = session.open_output(None).unwrap();
    let position = |events: &[Event]| match &events.last().unwrap().body {
        recount_aaep::Body::OutputStreaming(piece) => piece.position,
        other => panic!("{other:?}"),
    };
    assert_eq!(position(&session.write(at(1), output, "é👍", Boundary::None).unwrap()), 0);
    assert_eq!(position(&session.write(at(1), output, "", Boundary::None).unwrap()), 2);
    assert_eq!(position(&session.finish_output(at(1), output, "").unwrap()), 2);
    assert_eq!(session.write(at(1), output, "more", Boundary::None), Err(Misuse::OutputUnknown(1)));
}

#[test]
fn the_default_of_a_prompt_applies_at_its_deadline() {
    let (mut session, mut sent) = started();
    let (prompt, events) =
        session.confirm(at(10), &payment(), |token| build::confirmation("Pay.", "Gone.", token, 60)).unwrap();
    sent.extend(events);
    assert_eq!(session.next_deadline(), Some(at(70).now_ms));
    assert_eq!(session.advance(at(69)).unwrap().default, None);
    let advanced = session.advance(at(70)).unwrap();
    assert_eq!(advanced.default, Some((prompt, AppliedDefault::Rejected)));
    assert_eq!(types(&advanced.events), ["state.changed"]);
    assert_eq!(session.begin_confirmed_call(at(71), payment(), prompt), Err(Misuse::NotAccepted(1)));
    assert_eq!(session.advance(at(99)).unwrap().default, None, "once");

    let note = || build::tool_invoked("note", "Noting.");
    let ask = |token| build::confirmation("Note it.", "It can be removed.", token, 60).default_accept();
    let (prompt, events) = session.confirm(at(100), &note(), ask).unwrap();
    sent.extend(advanced.events.into_iter().chain(events));
    let advanced = session.advance(at(161)).unwrap();
    assert_eq!(advanced.default, Some((prompt, AppliedDefault::Accepted)));
    sent.extend(advanced.events);
    let (call, events) = session.begin_confirmed_call(at(161), note(), prompt).unwrap();
    sent.extend(events);
    sent.extend(
        session.end_call(at(162), call, build::tool_completed("note", ToolStatus::Error, "No.")).unwrap(),
    );

    let question = |token| build::clarification("Where?", token, 60).default_response("Oslo");
    sent.extend(session.clarify(at(200), question).unwrap().1);
    let advanced = session.advance(at(300)).unwrap();
    assert_eq!(advanced.default.unwrap().1, AppliedDefault::Response("Oslo".into()));
    sent.extend(advanced.events);
    sent.extend(session.clarify(at(300), |token| build::clarification("When?", token, 60)).unwrap().1);
    let advanced = session.advance(at(400)).unwrap();
    assert_eq!(advanced.default.unwrap().1, AppliedDefault::Unanswered);
    sent.extend(advanced.events);
    sent.extend(session.complete(at(401), build::session_completed("Done.")).unwrap());
    assert_eq!(accusations(&texts(&sent), true), Vec::<String>::new());
}

#[test]
fn open_parts_are_closed_when_a_session_ends_early() {
    for fails in [true, false] {
        let (mut session, mut sent) = started();
        let output = session.open_output(None).unwrap();
        sent.extend(session.write(at(1), output, "So ", Boundary::Word).unwrap());
        session.open_output(None).unwrap();
        let (_, events) = session.begin_call(at(2), build::tool_invoked("fetch", "Fetching.")).unwrap();
        sent.extend(events);
        let ask = |token| build::confirmation("Pay.", "Gone.", token, 60);
        sent.extend(session.confirm(at(3), &payment(), ask).unwrap().1);
        let last = if fails {
            session.fail(at(4), build::session_errored(ErrorCategory::Transient, "It broke."))
        } else {
            session.cancel(at(4), build::session_cancelled(CancelledBy::User, "Stopped."))
        };
        let last = last.unwrap();
        assert_eq!(types(&last)[..2], ["output.streaming", "tool.completed"], "{last:?}");
        sent.extend(last);
        assert!(session.has_ended() && session.next_deadline().is_none());
        assert_eq!(accusations(&texts(&sent), true), Vec::<String>::new());
    }
}

/// Ids and tokens are unique even if the entropy is not, and times never decrease.
#[test]
fn bad_clocks_and_bad_entropy_cause_no_invalid_events() {
    let (mut session, mut sent) = started();
    let mut tokens = std::collections::BTreeSet::new();
    for round in 0..20 {
        let ask = |token| build::clarification("Where?", token, 60);
        sent.extend(session.clarify(at(-round), ask).unwrap().1);
        tokens.insert(session.open_token().unwrap().clone());
        sent.extend(session.withdraw(at(i64::MIN / 1_000_000)).unwrap());
    }
    sent.extend(
        session.cancel(at(i64::MAX / 1_000_000), build::session_cancelled(CancelledBy::User, "So.")).unwrap(),
    );
    assert_eq!(tokens.len(), 20);
    assert_eq!(accusations(&texts(&sent), true), Vec::<String>::new());
}

/// Calls a step, which must be rejected without an effect.
#[track_caller]
fn refused<T: std::fmt::Debug>(
    session: &mut ProducerSession,
    step: impl FnOnce(&mut ProducerSession) -> Result<T, Misuse>,
) -> Misuse {
    let before = format!("{session:?}");
    let misuse = step(session).unwrap_err();
    assert_eq!(format!("{session:?}"), before, "{misuse}");
    misuse
}

/// A payment that was confirmed and has started.
fn confirmed_call(session: &mut ProducerSession) -> (CallHandle, Vec<Event>) {
    let ask = |token| build::confirmation("Pay.", "Gone.", token, 60);
    let (prompt, _) = session.confirm(at(1), &payment(), ask).unwrap();
    let yes = accept(session, at(2));
    session.receive(at(2), &yes).unwrap();
    session.begin_confirmed_call(at(3), payment().summary("Paying now."), prompt).unwrap()
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let mut fresh = session();
    let state = |session: &mut ProducerSession| session.set_state(at(1), "thinking", "So.");
    assert_eq!(refused(&mut fresh, state), Misuse::NotStarted);
    let start = |session: &mut ProducerSession| session.start(at(1), build::session_started("So."));
    let (mut session, _) = started();
    assert_eq!(refused(&mut session, start), Misuse::AlreadyStarted);
    assert_eq!(
        refused(&mut session, |session| session.set_state(at(1), "calling_tool", "So.")),
        Misuse::ManagedState("calling_tool".into())
    );
    assert!(matches!(
        refused(&mut session, |session| session.set_state(at(1), "", "So.")),
        Misuse::Invalid(_)
    ));
    assert_eq!(refused(&mut session, |session| session.withdraw(at(1))), Misuse::NoPromptOpen);
}

/// A call that cannot be undone or has high risk needs a prompt that shows enough to decide.
#[test]
fn a_high_risk_call_without_a_matching_prompt_is_refused() {
    let (mut session, _) = started();
    assert_eq!(
        refused(&mut session, |session| session.begin_call(at(1), payment())),
        Misuse::ConfirmationRequired("pay".into())
    );
    let risky = || build::tool_invoked("risk", "Risking.").risk_level(Level::High);
    assert_eq!(
        refused(&mut session, |session| session.begin_call(at(1), risky())),
        Misuse::ConfirmationRequired("risk".into())
    );
    let ask = |token| build::confirmation("Pay.", "Gone.", token, 60);
    let silent = build::tool_invoked("pay", "Paying.").irreversible(true);
    assert_eq!(
        refused(&mut session, |session| session.confirm(at(1), &silent, ask)),
        Misuse::ArgumentsNotShown("pay".into())
    );
    for call in [payment(), risky(), payment().risk_level(Level::Low)] {
        let tool = call.clone();
        let misuse = refused(&mut session, |session| {
            session.confirm(at(1), &tool, |token| ask(token).default_accept())
        });
        assert!(matches!(misuse, Misuse::DefaultAccepts(_)), "{misuse}");
    }
    let named = build::tool_invoked("fetch", "Fetching.").tool_call_id("call_1");
    assert_eq!(
        refused(&mut session, |session| session.begin_call(at(1), named)),
        Misuse::IdGiven("tool_call_id")
    );
    let wrong = build::tool_invoked("no tool", "Calling.");
    assert!(matches!(
        refused(&mut session, |session| session.confirm(at(1), &wrong, ask)),
        Misuse::Invalid(_)
    ));
    assert!(matches!(
        refused(&mut session, |session| session
            .confirm(at(1), &payment(), |token| build::confirmation("", "Gone.", token, 60))),
        Misuse::Invalid(_)
    ));
}

#[test]
fn an_open_prompt_blocks_calls_and_its_acceptance_allows_one_call() {
    let (mut session, _) = started();
    let ask = |token| build::confirmation("Pay.", "Gone.", token, 60);
    let (prompt, _) = session.confirm(at(1), &payment(), ask).unwrap();
    assert_eq!(refused(&mut session, |session| session.confirm(at(1), &payment(), ask)), Misuse::PromptOpen);
    assert_eq!(
        refused(&mut session, |session| session.set_state(at(1), "thinking", "So.")),
        Misuse::PromptOpen
    );
    assert_eq!(
        refused(&mut session, |session| session.complete(at(1), build::session_completed("So."))),
        Misuse::PromptOpen
    );
    assert_eq!(
        refused(&mut session, |session| session.begin_confirmed_call(at(1), payment(), prompt)),
        Misuse::NotAccepted(1)
    );
    let yes = accept(&session, at(2));
    session.receive(at(2), &yes).unwrap();

    // One acceptance allows exactly one call.
    for other in [
        payment().args_summary("6 euros"),
        payment().description("Another payment."),
        build::tool_invoked("give", "Giving.")
            .args_summary("5 euros")
            .irreversible(true)
            .risk_level(Level::High),
        build::tool_invoked("pay", "Paying.").args_summary("5 euros"),
    ] {
        let misuse = refused(&mut session, |session| session.begin_confirmed_call(at(3), other, prompt));
        assert_eq!(misuse, Misuse::ArgumentsChanged(1));
    }
    assert_eq!(
        refused(&mut session, |session| session.complete(at(3), build::session_completed("So."))),
        Misuse::AcceptedNotDone(1)
    );
    session.begin_confirmed_call(at(3), payment().summary("Paying now."), prompt).unwrap();
    assert_eq!(
        refused(&mut session, |session| session.begin_confirmed_call(at(3), payment(), prompt)),
        Misuse::NotAccepted(1)
    );
}

/// An open call must end first.
#[test]
fn a_session_completes_only_without_open_parts() {
    let (mut session, _) = started();
    let (call, _) = confirmed_call(&mut session);
    let output = session.open_output(None).unwrap();
    assert_eq!(
        refused(&mut session, |session| session.write(at(3), output, "So.", Boundary::Word)),
        Misuse::CallsOpen(1)
    );
    assert_eq!(
        refused(&mut session, |session| session.complete(at(3), build::session_completed("So."))),
        Misuse::CallsOpen(1)
    );
    let renamed = build::tool_completed("give", ToolStatus::Success, "Given.");
    assert!(matches!(
        refused(&mut session, |session| session.end_call(at(3), call, renamed)),
        Misuse::ToolRenamed { .. }
    ));
    let paid = || build::tool_completed("pay", ToolStatus::Success, "Paid.");
    session.end_call(at(3), call, paid()).unwrap();
    assert_eq!(
        refused(&mut session, |session| session.end_call(at(3), call, paid())),
        Misuse::CallUnknown(1)
    );

    session.write(at(4), output, "So ", Boundary::Word).unwrap();
    assert_eq!(
        refused(&mut session, |session| session.complete(at(4), build::session_completed("So."))),
        Misuse::OutputsOpen(1)
    );
    let long = "x".repeat(16_385);
    assert!(matches!(
        refused(&mut session, |session| session.write(at(4), output, &long, Boundary::Word)),
        Misuse::Invalid(_)
    ));
    session.finish_output(at(4), output, "").unwrap();
    for _ in 0..recount_aaep::limits::PRODUCED_CALLS_MAX {
        session.begin_call(at(5), build::tool_invoked("fetch", "Fetching.")).unwrap();
    }
    let more = build::tool_invoked("fetch", "Fetching.");
    assert!(matches!(
        refused(&mut session, |session| session.begin_call(at(5), more)),
        Misuse::LimitReached { what: "calls", .. }
    ));
    session.cancel(at(5), build::session_cancelled(CancelledBy::User, "So.")).unwrap();
    assert_eq!(refused(&mut session, |session| session.set_state(at(1), "thinking", "So.")), Misuse::Ended);
    assert_eq!(
        refused(&mut session, |session| session.start(at(1), build::session_started("So."))),
        Misuse::Ended
    );
}

#[test]
fn invalid_frames_and_texts_are_refused() {
    let tongue = Frame::new("sess_1", "planner", "english-american-long").unwrap();
    assert!(matches!(ProducerSession::new(tongue), Err(Misuse::Invalid(_))));
    let texts = StateTexts { rejected: "".into(), ..StateTexts::english() };
    let frame = Frame::new("sess_1", "planner", "en").unwrap();
    assert!(matches!(ProducerSession::with_texts(frame, texts), Err(Misuse::Invalid(_))));
}

/// A prompt may allow one decision only; another decision leaves it open.
#[test]
fn a_prompt_accepts_its_allowed_replies_only() {
    let (mut session, _) = started();
    let ask = |token| build::confirmation("Pay.", "Gone.", token, 60).allowed_replies(vec![Decision::Reject]);
    session.confirm(at(1), &payment(), ask).unwrap();
    let yes = accept(&session, at(2));
    session.receive(at(2), &yes).unwrap();
    assert!(session.next_deadline().is_some());
    let no = reply(session.open_token().unwrap().as_str(), at(3), r#""decision":"reject""#);
    session.receive(at(3), &no).unwrap();
    assert_eq!((session.next_deadline(), session.state()), (None, "thinking"));
}
