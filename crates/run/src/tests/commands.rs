//! Each command in the states that matter, described by the events it causes.

use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Draft, Event, Payload, Stamp, codec};

use super::story::{Story, T0, append, fid, json, payload, progress, run_id};
use crate::view::{Ending, PromptDefault};
use crate::{CancelledBy, Command, PromptKind, State, Status, Timer, Work, decide, outstanding};

/// Two calls proposed, one waits for approval and one for the application.
const SUSPENDED: &str = "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@ask a c\n@client d\n\
                         @wait approval a client_tool d";

fn approve(id: &str) -> Command {
    Command::ResolveApproval {
        approval_id: fid(id),
        approve: true,
        by: "ann".into(),
        comment: None,
        remember: None,
    }
}

fn reject(id: &str) -> Command {
    let comment = Some("not today".to_owned());
    Command::ResolveApproval {
        approval_id: fid(id),
        approve: false,
        by: "ann".into(),
        comment,
        remember: None,
    }
}

fn answer(id: &str) -> Command {
    Command::AnswerClarification {
        clarification_id: fid(id),
        response: json("'left'"),
        by: "ann".into(),
        blocks: None,
        config: None,
    }
}

fn acknowledge(id: &str) -> Command {
    Command::AcknowledgeHandoff { handoff_id: fid(id), by: "ann".into(), comment: None }
}

fn cancel() -> Command {
    Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() }
}

fn take_over() -> Command {
    Command::TakeOver { worker_id: "w2".into(), lease_until_ms: Some(T0 + 60_000), reason: "lost".into() }
}

fn work(story: &Story) -> Vec<Work> {
    outstanding(&story.state).work
}

fn tool(id: &str) -> Work {
    Work::RunTool { tool_call_id: fid(id) }
}

// --- fail

#[test]
fn a_run_that_cannot_continue_fails_and_closes_everything_open() {
    let fail = || Command::Fail { code: "worker_lost".into(), message: "lost".into(), retriable: true };
    for open in [
        "@own",
        "@own\n@turn 0",
        "@own\n@turn 0\n@propose c\n@propose d\n@turned 0",
        "@own\n@turn 0\n@propose c\n@turned 0\n@ask a c",
        SUSPENDED,
    ] {
        let mut story = Story::of(open);
        let events = story.does(fail());
        assert_eq!(events.last().map(String::as_str), Some("run.failed"), "{open}: {events:?}");
        assert!(work(&story).is_empty() && story.state.is_ended(), "{open}");
        let no = story.refuses(fail());
        assert!(no.message.ends_with("there is nothing to fail"), "{}", no.message);
    }
}

// --- queue and report

#[test]
fn a_run_starts_once() {
    let blank = State::blank(run_id(), None, None);
    let stamp = Stamp { now_ms: T0, entropy: 1 };
    let queue = || {
        let Payload::RunResumedFromEvent(resumed) = payload(
            "run.resumed_from_event",
            "{'from_run_id':'run_x','from_sequence':3,'prior_cost_micros_usd':5}",
        ) else {
            unreachable!()
        };
        Command::Queue { queued: Box::new(Queued::new(RunKind::AgentLoop)), resumed_from: Some(resumed) }
    };
    let events = decide(&blank, queue(), stamp).unwrap();
    let names: Vec<&str> = events.iter().map(Event::type_name).collect();
    assert_eq!(names, ["run.resumed_from_event", "run.queued"]);
    assert_eq!(decide(&blank, Command::Tick, stamp).unwrap_err().code, Code::RunNotFound);
    assert_eq!(Story::of("@own").refuses(queue()).code, Code::IdTaken);
}

#[test]
fn a_rejection_after_the_ending_states_the_status() {
    for (ending, phrase) in [
        ("@finished", "has finished"),
        (FAILED, "has failed"),
        ("run.cancelled {'by':'operator','reason':'r'}", "was cancelled"),
    ] {
        let story = Story::of(&format!("@ext\n{ending}"));
        let no = story.refuses(append("@turn 0"));
        assert_eq!(no.message, format!("{} {phrase}: no more events can be added", run_id()));
        let no = story.refuses(cancel());
        assert_eq!(no.message, format!("{} {phrase}: there is nothing to cancel", run_id()));
    }
}

#[test]
fn times_and_ids_never_decrease_when_the_clock_steps_back() {
    let mut story = Story::of("@ext");
    story.now_ms = 1_000;
    story.does(append("user.message {'text':'a'}\nuser.message {'text':'b'}"));
    let [.., before, a, b] = story.events.as_slice() else { unreachable!() };
    assert!(before.event_id < a.event_id && a.event_id < b.event_id);
    assert_eq!((a.occurred_ms, b.occurred_ms), (before.occurred_ms, before.occurred_ms));
    assert_eq!((a.sequence, b.sequence), (2, 3));
}

#[test]
fn events_of_a_producer_are_stored_unchanged() {
    let data = r#"{"text":"hi","later":[1.0]}"#;
    let draft = Draft { payload: Payload::read("user.message", data).unwrap(), verbatim: Some(data.into()) };
    let events = Story::of("@ext").decide(Command::Append { drafts: vec![draft] }).unwrap();
    assert!(String::from_utf8(codec::encode(&events[0])).unwrap().ends_with(&format!("{data}}}")));
}

#[test]
fn a_batch_is_accepted_or_rejected_as_a_whole() {
    let story = Story::of("@ext");
    let no = story.refuses(append("@turn 0\n@propose c\n@turned 0\n@complete c"));
    assert_eq!(no.code, Code::EventRefused);
    assert_eq!(
        (no.index, no.type_name.as_deref(), no.rule),
        (Some(3), Some("tool.completed"), Some("call.open"))
    );
    assert_eq!(no.message, "call c is not invoked yet: send tool.invoked first");
    assert_eq!(
        story.decide(append("@turn 0\n@propose c\n@turned 0\n@invoke c\n@complete c")).unwrap().len(),
        5
    );
}

#[test]
fn a_producer_withdraws_its_approval_with_decided_elsewhere() {
    let withdrawn = |decided: &str| {
        format!(
            "approval.resolved {{'approval_id':'a','decision':'cancelled','by':'editor','decided_elsewhere':'{decided}'}}"
        )
    };
    for requested in ["@ext\n@ask a c", "@ext\n@turn 0\n@propose c\n@ask a c"] {
        for decided in ["approved", "undecided"] {
            let mut story = Story::of(requested);
            story.does(append(&withdrawn(decided)));
            assert!(story.state.prompts.is_empty());
            assert_eq!(
                story.does(append("@ask b c")),
                ["approval.requested"],
                "{decided}: another approval may be requested"
            );
            story.does(append(&withdrawn(decided).replace("'a'", "'b'")));
            assert_eq!(story.does(append("@invoke c\n@complete c")).len(), 2, "{decided}: it may run");
        }
        let mut story = Story::of(requested);
        story.does(append(&withdrawn("rejected")));
        assert_eq!(story.refuses(append("@invoke c")).rule, Some("approval.denied"));
        assert_eq!(
            story.refuses(append(&withdrawn("approved"))).rule,
            Some("prompt.pending"),
            "the first one wins"
        );
    }
    // It answers nothing, and withdraws only what is its own and pending.
    for (data, rule) in [
        ("{'approval_id':'a','decision':'cancelled','by':'editor'}", "append.runtime_only"),
        ("{'approval_id':'a','decision':'approved','by':'editor'}", "append.runtime_only"),
        (
            "{'approval_id':'a','decision':'approved','by':'editor','decided_elsewhere':'approved'}",
            "approval.elsewhere",
        ),
        (
            "{'approval_id':'z','decision':'cancelled','by':'editor','decided_elsewhere':'approved'}",
            "prompt.pending",
        ),
    ] {
        let no = Story::of("@ext\n@ask a c").refuses(append(&format!("approval.resolved {data}")));
        assert_eq!(no.rule, Some(rule), "{data}");
    }
    // A call that this server executes cannot be decided elsewhere.
    let no = Story::of("@own\n@ask a c").refuses(progress(&withdrawn("approved")));
    assert_eq!(no.rule, Some("approval.elsewhere"));
}

#[test]
fn each_reporter_may_report_only_its_event_types() {
    assert_eq!(Story::of("@own").refuses(append("@turn 0")).code, Code::RunNotExternal);
    assert_eq!(Story::of("@ext\n@finished").refuses(append("@turn 0")).code, Code::RunEnded);
    assert_eq!(Story::of("@own\n@finished").refuses(progress("@turn 0")).code, Code::RunEnded);
    let gap = "gap.run_disconnected {'since_sequence':1,'since_at':'x','reason':'lost'}";
    assert_eq!(Story::of("@ext\n@finished").does(progress(gap)), ["gap.run_disconnected"]);
    assert_eq!(Story::of("@ext").does(progress(gap)), ["gap.run_disconnected"]);
    assert_eq!(Story::of("@ext").refuses(append(gap)).rule, Some("append.runtime_only"));
    assert_eq!(Story::of("@ext").does(append("ext.acme.note {}")), ["ext.acme.note"]);
    let old = "@invoke c\ntool.file.patch {'tool_call_id':'c','tool_name':'tool'}";
    assert_eq!(Story::of("@ext").does(append(old)).len(), 2);
    // A registered type cannot hide as an unknown one.
    let hidden = Payload::Opaque(recount_event::registry::Opaque {
        type_name: "run.finished".into(),
        data: "{}".into(),
    });
    let no = Story::of("@own").refuses(Command::Progress { drafts: vec![hidden.into()] });
    assert_eq!(no.rule, Some("append.unknown_type"));
}

// --- endings by the producer

/// A call that waits for approval, one that runs, and one that only the approval has named.
const LEFT_BEHIND: &str =
    "@ext\n@turn 0\n@propose c\n@invoke d\n@ask a c\n@ask b e\n@question q d\n@handoff h d";
const FAILED_TURN: &str = "turn.failed {'turn_index':0,'code':'restarted','message':'m','will_retry':false}";
const FAILED: &str = "run.failed {'code':'restarted','message':'m','retriable':true}";

#[test]
fn a_producer_ends_its_run_although_prompts_are_open() {
    let endings = [
        ("run.finished", "@finished"),
        ("run.failed", FAILED),
        ("run.cancelled", "run.cancelled {'by':'operator','reason':'r'}"),
    ];
    for (name, ending) in endings {
        let mut story = Story::of("@ext\n@ask a c\n@invoke d\n@question q d\n@handoff h d\n@complete d");
        let events = ["approval.resolved", "clarification.timed_out", "handoff.rejected", name];
        assert_eq!(story.does(append(ending)), events);
        assert_eq!(
            story.last("approval.resolved"),
            format!(
                r#"{{"approval_id":"a","decision":"cancelled","by":"producer","tool_call_id":"c","comment":"its producer reported {name}"}}"#
            )
        );
        assert_eq!(
            story.last("clarification.timed_out"),
            r#"{"clarification_id":"q","applied":"unavailable","tool_call_id":"d","by":"producer"}"#
        );
        assert_eq!(
            story.last("handoff.rejected"),
            format!(
                r#"{{"handoff_id":"h","by":"producer","tool_call_id":"d","reason":"its producer reported {name}"}}"#
            )
        );
        assert_eq!(outstanding(&story.state).timers, []);
    }
}

#[test]
fn a_restarted_producer_closes_its_run_in_one_batch() {
    let refuse = "tool.refused {'tool_call_id':'c','tool_name':'tool','code':'cancelled','message':'m'}";
    let cancel = "tool.cancelled {'tool_call_id':'d','tool_name':'tool'}";
    let withdrawn = ["approval.resolved", "approval.resolved", "clarification.timed_out", "handoff.rejected"];
    let orders =
        [[FAILED_TURN, refuse, cancel], [refuse, cancel, FAILED_TURN], [cancel, FAILED_TURN, refuse]];
    for order in orders {
        let mut story = Story::of(LEFT_BEHIND);
        let mut events: Vec<&str> =
            order.iter().map(|line| line.split_once(' ').expect("a type and its data").0).collect();
        events.extend(withdrawn);
        events.push("run.failed");
        assert_eq!(story.does(append(&format!("{}\n{FAILED}", order.join("\n")))), events);
        assert_eq!(story.refuses(approve("a")).code, Code::ApprovalNotPending);
    }
}

#[test]
fn an_ending_is_rejected_while_turns_or_calls_are_open() {
    for (left, rule) in [
        ("@ext\n@turn 0\n@ask a c", "ending.turn_open"),
        ("@ext\n@turn 0\n@propose c\n@turned 0\n@ask a c", "ending.call_open"),
        ("@ext\n@invoke c\n@question q c", "ending.call_open"),
    ] {
        let no = Story::of(left).refuses(append(FAILED));
        assert_eq!((no.code, no.index, no.rule), (Code::EventRefused, Some(0), Some(rule)), "{left}");
    }
    let no = Story::of("@ext\n@ask a c").refuses(append("@finished\nuser.message {'text':'late'}"));
    assert_eq!((no.index, no.rule), (Some(1), Some("ending.last")), "counted as it was sent");
    let no = Story::of("@own\n@ask a c").refuses(progress("@finished"));
    assert_eq!(no.rule, Some("ending.prompt_open"), "our own performer withdraws its own prompts");
}

// --- answers

#[test]
fn nothing_runs_before_the_last_answer() {
    let mut story = Story::of(SUSPENDED);
    assert_eq!(work(&story), []);
    assert_eq!(story.does(approve("a")), ["approval.resolved"]);
    assert_eq!(story.state.status(), Status::Waiting);
    assert_eq!(
        story.does(progress("@complete d")),
        ["tool.completed", "run.continued", "tool.invoked"],
        "the application's result is the last answer"
    );
    assert_eq!(story.last("run.continued"), r#"{"by":"application"}"#);
    assert_eq!(
        story.last("tool.invoked"),
        r#"{"tool_call_id":"c","tool_name":"tool","turn_index":0,"executor":"server","args_summary":"may I"}"#
    );
    assert_eq!(work(&story), [tool("c")]);
}

#[test]
fn a_refused_call_is_reported_to_the_model() {
    let mut story = Story::of(SUSPENDED);
    story.does(progress("@complete d"));
    assert_eq!(story.does(reject("a")), ["approval.resolved", "run.continued", "tool.refused"]);
    assert_eq!(
        story.last("tool.refused"),
        r#"{"tool_call_id":"c","tool_name":"tool","code":"denied","message":"Tool call denied: not today"}"#
    );
    assert_eq!(work(&story), [Work::CallModel]);
}

#[test]
fn a_run_that_does_not_wait_acts_at_once() {
    let mut story = Story::of("@own\n@turn 0\n@propose c\n@turned 0\n@ask a c");
    assert_eq!(story.does(approve("a")), ["approval.resolved", "tool.invoked"]);
    let mut story = Story::of("@own\n@turn 0\n@propose c\n@turned 0\n@ask a c");
    assert_eq!(story.does(reject("a")), ["approval.resolved", "tool.refused"]);
    let mut story = Story::of("@own\n@turn 0\n@propose c\n@turned 0\n@ask a c\n@exceeded");
    assert_eq!(story.does(approve("a")), ["approval.resolved", "tool.refused"]);
    assert_eq!(work(&story), [Work::Conclude]);
}

#[test]
fn in_external_runs_only_the_outcome_is_reported() {
    let mut story = Story::of("@ext\n@turn 0\n@propose c\n@turned 0\n@ask a c");
    assert_eq!(story.does(approve("a")), ["approval.resolved"]);
    assert_eq!(work(&story), []);
    let mut story = Story::of("@ext\n@invoke d\n@handoff h d");
    assert_eq!(story.does(acknowledge("h")), ["handoff.acknowledged"]);
}

#[test]
fn the_first_answer_wins() {
    let mut story = Story::of("@ext\n@ask a c\n@invoke d\n@question q d\n@handoff h d");
    story.does(approve("a"));
    let no = story.refuses(reject("a"));
    assert_eq!((no.code, no.message.as_str()), (Code::ApprovalNotPending, "approval a was approved by ann"));
    assert_eq!(story.refuses(approve("z")).code, Code::ApprovalNotFound);
    story.does(answer("q"));
    let no = story.refuses(answer("q"));
    assert_eq!(
        (no.code, no.message.as_str()),
        (Code::ClarificationNotPending, "clarification q was answered by ann")
    );
    assert_eq!(story.refuses(answer("a")).code, Code::ClarificationNotFound);
    story.does(acknowledge("h"));
    assert_eq!(story.refuses(acknowledge("h")).code, Code::HandoffNotPending);
    assert_eq!(story.refuses(acknowledge("q")).code, Code::HandoffNotFound);
    story.does(cancel());
    assert_eq!(story.refuses(reject("a")).code, Code::ApprovalNotPending, "also when the run has ended");
}

#[test]
fn the_answer_to_a_question_settles_its_call() {
    for ask in ["@invoke c\n@question q c", "@question q c"] {
        let mut story =
            Story::of(&format!("@own\n@turn 0\n@propose c\n@turned 0\n{ask}\n@wait clarification q"));
        let mut events = vec!["clarification.answered", "run.continued", "tool.invoked", "tool.completed"];
        if ask.starts_with("@invoke") {
            events.remove(2);
        }
        assert_eq!(story.does(answer("q")), events);
        assert_eq!(
            story.last("tool.completed"),
            r#"{"tool_call_id":"c","tool_name":"tool","turn_index":0,"output":"left"}"#
        );
        assert_eq!(work(&story), [Work::CallModel]);
    }
}

#[test]
fn a_run_waits_for_approvals_before_it_requests_answers() {
    for tool in crate::ASKING_TOOLS {
        let asks = format!(
            "assistant.tool_call_proposed {{'turn_index':0,'tool_call_id':'d','tool_name':'{tool}','input':{{}}}}"
        );
        let script = format!("@own\n@turn 0\n@propose c\n{asks}\n@turned 0\n@ask a c\n@wait approval a");
        let mut story = Story::of(&script);
        assert_eq!(work(&story), []);
        assert_eq!(story.does(approve("a")), ["approval.resolved", "run.continued", "tool.invoked"]);
        let owed = ["c", "d"].map(|id| Work::RunTool { tool_call_id: fid(id) });
        assert_eq!(work(&story), owed);
    }
}

#[test]
fn a_handoff_ends_an_own_run() {
    let script = "@own\n@turn 0\n@propose c\n@turned 0\n@invoke c\n@handoff h c\n@wait handoff h";
    let mut story = Story::of(script);
    let events = ["handoff.acknowledged", "run.continued", "tool.completed", "run.finished"];
    assert_eq!(story.does(acknowledge("h")), events);

    let mut story = Story::of(script);
    let events = ["handoff.rejected", "run.continued", "tool.failed", "run.cancelled"];
    let reject = Command::RejectHandoff { handoff_id: fid("h"), by: "ann".into(), reason: None };
    assert_eq!(story.does(reject), events);
    assert!(story.last("run.cancelled").starts_with(r#"{"by":"operator","reason":"ann did not take over""#));

    let mut story = Story::of(&script.replace(
        "@handoff h c",
        "handoff.requested {'handoff_id':'h','reason':'r',\
         'target_kind':'human','tool_call_id':'c','timeout_seconds':5}",
    ));
    story.now_ms += 5_000;
    let events = ["handoff.timed_out", "run.continued", "tool.timed_out", "run.failed"];
    assert_eq!(story.does(Command::Tick), events);
    assert!(story.last("run.failed").starts_with(r#"{"code":"handoff_timed_out""#));
}

#[test]
fn an_approval_that_the_agents_own_dialog_decides_is_withdrawn_at_its_deadline() {
    let request = "approval.requested {'approval_id':'a','tool_call_id':'c','kind':'tool','summary':'s',\
                   'timeout_seconds':5,'withdrawn_at_deadline':true}";
    let mut story = Story::of(&format!("@ext\n@turn 0\n@propose c\n{request}"));
    story.now_ms += 5_000;
    assert_eq!(story.does(Command::Tick), ["approval.resolved"]);
    let resolved = story.last("approval.resolved");
    assert!(resolved.contains(r#""decision":"cancelled","by":"timeout""#), "{resolved}");
    assert!(resolved.contains(r#""decided_elsewhere":"undecided""#), "{resolved}");
    assert_eq!(story.does(append("@invoke c")), ["tool.invoked"]);
    // An own run has no other dialog.
    let mut story = Story::of(&format!("@own\n@turn 0\n@propose c\n@turned 0\n{request}\n@wait approval a"));
    story.now_ms += 5_000;
    assert_eq!(story.does(Command::Tick).first().map(|kind| &**kind), Some("approval.timed_out"));
}

fn extend(kind: PromptKind, id: &str, seconds: u64) -> Command {
    Command::ExtendPrompt { kind, id: fid(id), seconds, by: "ann".into() }
}

#[test]
fn an_extension_moves_the_deadline_of_a_prompt_and_nothing_else() {
    for (kind, id, asks, extended, missed) in [
        (
            PromptKind::Approval,
            "a",
            "approval.requested {'approval_id':'a','tool_call_id':'c','kind':'tool','summary':'s','timeout_seconds':5}\n\
             @wait approval a",
            "approval.extended",
            "approval.timed_out",
        ),
        (
            PromptKind::Clarification,
            "q",
            "@invoke c\nclarification.requested {'clarification_id':'q','question':'?','tool_call_id':'c','timeout_seconds':5}\n\
             @wait clarification q",
            "clarification.extended",
            "clarification.timed_out",
        ),
        (
            PromptKind::Handoff,
            "h",
            "@invoke c\nhandoff.requested {'handoff_id':'h','reason':'r','target_kind':'human','tool_call_id':'c','timeout_seconds':5}\n\
             @wait handoff h",
            "handoff.extended",
            "handoff.timed_out",
        ),
    ] {
        let mut story = Story::of(&format!("@own\n@turn 0\n@propose c\n@turned 0\n{asks}"));
        let before_ms = story.state.open_prompts().next().unwrap().1.deadline_ms.unwrap();
        assert_eq!(story.does(extend(kind, id, 60)), [extended], "the run goes on waiting");
        let (_, prompt) = story.state.open_prompts().next().unwrap();
        assert_eq!((prompt.deadline_ms, prompt.extensions()), (Some(before_ms + 60_000), 1));
        let data = story.last(extended);
        assert!(data.contains(r#""seconds":60,"by":"ann","tool_call_id":"c"}"#), "{data}");
        story.now_ms = before_ms;
        assert_eq!(story.does(Command::Tick), [""; 0], "its first deadline is over");
        assert_eq!(story.state.status(), Status::Waiting);
        story.now_ms = before_ms + 60_000;
        assert_eq!(story.does(Command::Tick)[0], missed);
        assert!(
            kind == PromptKind::Clarification || story.last(missed).contains(r#""after_seconds":65"#),
            "{}",
            story.last(missed)
        );
    }
}

#[test]
fn a_deadline_is_extended_only_before_it_passes_and_within_limits() {
    use crate::limits::{EXTENSION_SECONDS_MAX, EXTENSIONS_MAX};
    const KIND: PromptKind = PromptKind::Approval;
    let requested = "@own\n@turn 0\n@propose c\n@turned 0\napproval.requested {'approval_id':'a','tool_call_id':'c',\
                 'kind':'tool','summary':'s','timeout_seconds':5}\n@wait approval a";
    let refused = |story: &Story, command: Command, code: Code, rule: Option<&str>, words: &str| {
        let no = story.refuses(command);
        assert_eq!((no.code, no.rule), (code, rule), "{}", no.message);
        assert!(no.message.contains(words), "{}", no.message);
    };
    let mut story = Story::of(requested);
    refused(&story, extend(KIND, "b", 9), Code::ApprovalNotFound, None, "does not exist");
    refused(&story, extend(PromptKind::Handoff, "a", 9), Code::HandoffNotFound, None, "does not exist");
    refused(&story, extend(KIND, "a", 0), Code::ExtensionRefused, None, "send at least 1");
    story.does(extend(KIND, "a", EXTENSION_SECONDS_MAX - 1));
    let rule = Some("limit.extension_seconds");
    refused(&story, extend(KIND, "a", 2), Code::LimitReached, rule, "send at most 1");
    refused(&story, extend(KIND, "a", u64::MAX), Code::LimitReached, rule, "send at most 1");
    story.does(extend(KIND, "a", 1));

    let mut often = Story::of(requested);
    for _ in 0..EXTENSIONS_MAX {
        often.does(extend(KIND, "a", 1));
    }
    let rule = Some("limit.extensions");
    refused(&often, extend(KIND, "a", 1), Code::LimitReached, rule, "the maximum");

    let mut late = Story::of(requested);
    late.now_ms += 5_000;
    refused(&late, extend(KIND, "a", 9), Code::ApprovalNotPending, None, "expired at");
    late.does(Command::Tick);
    refused(&late, extend(KIND, "a", 9), Code::ApprovalNotPending, None, "by its timeout");

    let endless = Story::of(SUSPENDED);
    refused(&endless, extend(KIND, "a", 9), Code::ExtensionRefused, None, "has no deadline");
}

#[test]
fn a_handoff_closes_everything_else_that_is_open() {
    let mut story = Story::of(
        "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@client d\n@handoff h c\n@ask a e\n@turn 1\n\
         assistant.text_delta {'turn_index':1,'block_index':0,'delta':'half'}",
    );
    assert_eq!(
        story.does(acknowledge("h")),
        [
            "handoff.acknowledged",
            "assistant.text_complete",
            "tool.cancelled",
            "approval.resolved",
            "tool.invoked",
            "tool.completed",
            "turn.failed",
            "run.finished"
        ]
    );
}

#[test]
fn an_answer_does_not_settle_a_command() {
    let mut story = Story::of("@own\n@invoke c\n@command c\n@question q c");
    assert_eq!(work(&story), []);
    assert_eq!(story.does(answer("q")), ["clarification.answered"]);
    assert_eq!(work(&story), [tool("c")]);
}

#[test]
fn an_application_may_answer_in_parts() {
    let mut story = Story::of("@own\n@client c\n@client d\n@wait client_tool c client_tool d");
    let parts = "@complete c\nrun.continued {'by':'app'}\n@wait client_tool d";
    assert_eq!(story.does(progress(parts)), ["tool.completed", "run.continued", "run.waiting"]);
    assert_eq!(story.does(progress("@complete d")), ["tool.completed", "run.continued"]);
    assert_eq!(story.state.status(), Status::Running);
}

// --- cancel

#[test]
fn cancelling_closes_everything_in_a_legal_order() {
    let mut story = Story::of(
        "@own\n@turn 0\n@propose c\n@propose d\n@propose e\n@invoke d\n@ask a c\n@question q d\n@handoff h e\n\
         assistant.text_delta {'turn_index':0,'block_index':1,'delta':'ha'}\n\
         assistant.text_delta {'turn_index':0,'block_index':1,'delta':'lf'}",
    );
    assert_eq!(
        story.does(cancel()),
        [
            "assistant.text_complete",
            "tool.cancelled",
            "approval.resolved",
            "clarification.timed_out",
            "handoff.rejected",
            "tool.refused",
            "tool.refused",
            "turn.failed",
            "run.cancelled"
        ]
    );
    assert_eq!(
        story.last("assistant.text_complete"),
        r#"{"turn_index":0,"block_index":1,"text":"half","aborted":true}"#
    );
    assert_eq!(
        story.last("turn.failed"),
        r#"{"turn_index":0,"code":"cancelled","message":"enough","will_retry":false}"#
    );
    assert_eq!(story.refuses(cancel()).code, Code::RunEnded);
}

#[test]
fn a_waiting_or_queued_run_can_be_cancelled() {
    let mut story = Story::of(SUSPENDED);
    assert_eq!(
        story.does(cancel()),
        ["tool.cancelled", "approval.resolved", "tool.refused", "run.cancelled"]
    );
    let mut story = Story::of("run.queued {'kind':'agent_loop','prior_run_id':null}");
    assert_eq!(work(&story), [Work::Start]);
    assert_eq!(story.does(cancel()), ["run.cancelled"]);
    assert_eq!(story.last("run.cancelled"), r#"{"by":"operator","reason":"enough"}"#);
}

// --- time

#[test]
fn due_prompts_get_their_default() {
    let ask = |id: &str, more: &str| {
        format!(
            "approval.requested {{'approval_id':'{id}','tool_call_id':'c_{id}','kind':'tool','summary':'s'{more}}}"
        )
    };
    let script = [
        "@ext".to_owned(),
        ask("a", ",'timeout_seconds':10,'default_decision':'approve'"),
        ask("b", ",'timeout_seconds':5"),
        ask("c", ",'expires_at':'2026-05-03T10:23:52.000Z'"),
        ask("d", ""),
        "clarification.requested {'clarification_id':'q','question':'?','default_response':3,'timeout_seconds':6}"
            .to_owned(),
        "clarification.requested {'clarification_id':'r','question':'?','timeout_seconds':6}".to_owned(),
    ]
    .join("\n");
    let mut story = Story::of(&script);
    let timers = outstanding(&story.state).timers;
    let names: Vec<&str> = timers.iter().map(|timer| timer.what.id.as_str()).collect();
    assert_eq!(names, ["b", "q", "r", "c", "a"]);
    assert!(timers.is_sorted_by_key(|timer: &Timer| timer.at_ms));

    assert_eq!(story.does(Command::Tick), Vec::<String>::new());
    story.now_ms = timers[3].at_ms;
    let events =
        ["approval.timed_out", "clarification.timed_out", "clarification.timed_out", "approval.timed_out"];
    assert_eq!(story.does(Command::Tick), events);
    let missed: Vec<String> =
        story.events[story.events.len() - 4..].iter().map(|event| event.payload().write()).collect();
    assert_eq!(
        missed[0],
        r#"{"approval_id":"b","after_seconds":5,"tool_call_id":"c_b","decision":"rejected","by":"timeout"}"#
    );
    assert_eq!(
        missed[1],
        r#"{"clarification_id":"q","applied":"default","response":3,"after_seconds":6,"by":"timeout"}"#
    );
    assert_eq!(
        missed[2],
        r#"{"clarification_id":"r","applied":"unavailable","after_seconds":6,"by":"timeout"}"#
    );
    story.now_ms = timers[4].at_ms;
    story.does(Command::Tick);
    assert!(story.last("approval.timed_out").contains(r#""decision":"approved""#));
    assert_eq!(story.does(append("tool.invoked {'tool_call_id':'c_a','tool_name':'tool'}")).len(), 1);
    let no = story.refuses(append("tool.invoked {'tool_call_id':'c_b','tool_name':'tool'}"));
    assert_eq!(no.rule, Some("approval.denied"));
    assert_eq!(story.refuses(approve("b")).message, "approval b was rejected by its timeout");
}

#[test]
fn a_timed_out_approval_continues_a_waiting_run() {
    let mut story = Story::of(
        "@own\n@turn 0\n@propose c\n@turned 0\napproval.requested {'approval_id':'a','tool_call_id':'c',\
         'kind':'tool','summary':'s','timeout_seconds':5}\n@wait approval a",
    );
    story.now_ms += 6_000;
    assert_eq!(story.does(Command::Tick), ["approval.timed_out", "run.continued", "tool.refused"]);
    assert!(story.last("tool.refused").contains(r#""code":"timed_out""#));
}

// --- takeover

#[test]
fn a_takeover_reports_what_was_interrupted() {
    let mut story = Story::of(
        "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@invoke c\n@client d\n@turn 1\n\
         assistant.tool_call_proposed {'turn_index':1,'tool_call_id':'e','tool_name':'tool','input':{}}\n\
         assistant.text_delta {'turn_index':1,'block_index':0,'delta':'half'}",
    );
    assert_eq!(
        story.does(take_over()),
        [
            "gap.run_disconnected",
            "assistant.text_complete",
            "tool.failed",
            "tool.refused",
            "turn.failed",
            "run.started",
            "run.waiting"
        ],
        "what the application does goes on, and the model waits for it"
    );
    assert_eq!(story.last("run.waiting"), r#"{"for":[{"kind":"client_tool","id":"d"}]}"#);
    assert_eq!(
        story.last("tool.failed"),
        r#"{"tool_call_id":"c","tool_name":"tool","turn_index":0,"error":"interrupted (lost): the call may have started, and it is unknown whether it took effect; repeating the call may apply it twice","code":"interrupted"}"#
    );
    assert!(story.last("turn.failed").contains(r#""will_retry":true"#));
    assert_eq!(story.last("run.started"), r#"{"worker_id":"w2","lease_until":"2026-05-03T10:24:45.000Z"}"#);
    assert_eq!(story.does(progress("@complete d")), ["tool.completed", "run.continued"]);
    assert_eq!(work(&story), [Work::CallModel]);
    story.does(progress("@turn 1"));
}

/// `tool.started` comes before the wait for a place: only the command shows that a call of the shell did something.
#[test]
fn a_takeover_and_a_cancellation_report_how_far_a_call_has_come() {
    let error = |script: &str, command: Command, name: &str| {
        let mut story = Story::of(script);
        story.does(command);
        let ended: serde_json::Value = serde_json::from_str(&story.last(name)).unwrap();
        ended["error"].as_str().unwrap().to_owned()
    };
    let shell = "@own\ntool.invoked {'tool_call_id':'c','tool_name':'sh','kind':'shell','executor':'server'}\n\
                 tool.started {'tool_call_id':'c','tool_name':'sh'}";
    let command = format!("{shell}\n@command c");
    let unknown = "it is unknown whether it took effect";
    let none = "the call had not started, so it had no effect";
    assert_eq!(error(shell, take_over(), "tool.failed"), format!("interrupted (lost): {none}"));
    assert_eq!(error(shell, cancel(), "tool.cancelled"), format!("cancelled (enough): {none}"));
    assert_eq!(
        error(&command, take_over(), "tool.failed"),
        format!(
            "interrupted (lost): the call had started, and {unknown}; repeating the call may apply it twice"
        )
    );
    assert_eq!(error(&command, cancel(), "tool.cancelled"), "enough", "output_incomplete says it");
    let other = "@own\n@invoke c";
    let may = format!("the call may have started, and {unknown}");
    assert_eq!(error(other, cancel(), "tool.cancelled"), format!("cancelled (enough): {may}"));
    assert_eq!(error("@own\n@client c", cancel(), "tool.cancelled"), "enough");
    assert_eq!(error("@own\n@invoke c\n@question q c", cancel(), "tool.cancelled"), "enough");
}

#[test]
fn a_takeover_leaves_a_call_that_started_a_run_open() {
    let mut story = Story::of(
        "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@invoke c\n@invoke d\n\
         child_run.started {'child_run_id':'run_x','tool_call_id':'c'}",
    );
    assert_eq!(story.does(take_over()), ["gap.run_disconnected", "tool.failed", "run.started"]);
    assert!(story.last("tool.failed").contains(r#""tool_call_id":"d""#));
    assert_eq!(work(&story), [Work::RunTool { tool_call_id: fid("c") }]);
    let tick = |used: u64, children: u64| {
        format!(
            "cost.tick {{'cumulative_input_tokens':{used},'cumulative_output_tokens':0,\
             'cumulative_cost_micros_usd':0,'child_runs_input_tokens':{children}}}"
        )
    };
    let used = story.state.totals().input_tokens;
    assert_eq!(story.refuses(progress(&tick(used, 70))).rule, Some("cost.sum"));
    let events = story.does(progress(&format!("{}\n@complete c", tick(used + 70, 70))));
    assert_eq!(events, ["cost.tick", "tool.completed"]);
    assert_eq!(story.state.child_runs_used().input_tokens, 70);
    assert_eq!(story.state.totals().input_tokens, used + 70, "what runs have used that it started counts");
    assert_eq!(story.refuses(progress(&tick(used + 60, 60))).rule, Some("cost.falls"));
    assert_eq!(crate::audit(&story.events), None);
}

#[test]
fn a_takeover_appends_nothing_if_no_worker_was_active() {
    for script in [SUSPENDED, "run.queued {'kind':'agent_loop','prior_run_id':null}"] {
        assert_eq!(Story::of(script).does(take_over()), Vec::<String>::new());
    }
    assert_eq!(Story::of("@own\n@finished").refuses(take_over()).code, Code::RunEnded);
    assert_eq!(Story::of("@ext").refuses(take_over()).code, Code::EventRefused);
}

// --- work

#[test]
fn outstanding_work_follows_from_the_state() {
    let table: &[(&str, &[Work])] = &[
        ("run.queued {'kind':'shell','prior_run_id':null}", &[Work::Start]),
        ("run.queued {'kind':'shell','prior_run_id':null}\nrun.started {}", &[Work::Start]),
        (
            "run.queued {'kind':'shell','prior_run_id':null}\nrun.started {}\n@invoke c\n@complete c",
            &[Work::Conclude],
        ),
        ("@own", &[Work::CallModel]),
        ("@own\n@turn 0", &[Work::CallModel]),
        ("@own\n@turn 0\n@propose c", &[Work::CallModel]),
        ("@own\n@turn 0\nturn.completed {'turn_index':0,'stop_reason':'end_turn'}", &[Work::Conclude]),
        (
            "@own\n@turn 0\nturn.completed {'turn_index':0,'stop_reason':'end_turn'}\nuser.message {'text':'and?'}",
            &[Work::CallModel],
        ),
        (
            "@own\n@turn 0\nturn.failed {'turn_index':0,'code':'x','message':'m','will_retry':false}",
            &[Work::Conclude],
        ),
        ("@own\n@exceeded", &[Work::Conclude]),
        ("@own\n@finished", &[]),
        ("@ext\n@invoke c", &[]),
    ];
    for (script, owed) in table {
        assert_eq!(work(&Story::of(script)), *owed, "{script}");
    }
    let story = Story::of("@own\n@turn 0\n@propose d\n@propose c\n@turned 0");
    assert_eq!(work(&story), [tool("d"), tool("c")], "in the order in which they came");
}

// --- reading

#[test]
fn a_summary_has_the_fields_of_lists() {
    let mut story = Story::of(
        "run.queued {'kind':'agent_loop','title':'Fix it','agent':{'name':'fixer'},'prior_run_id':null,\
         'prior_input_tokens':2}\nrun.started {}\n@turn 0\n@propose c\n\
         turn.completed {'turn_index':0,'stop_reason':'tool_use','input_tokens':3,'cost_micros_usd':7}\n\
         approval.requested {'approval_id':'a','tool_call_id':'c','kind':'tool','summary':'may I',\
         'timeout_seconds':5,'risk_level':'high'}\n@wait approval a",
    );
    let summary = story.state.summary();
    assert_eq!((summary.status, summary.turns), (Status::Waiting, 1));
    assert_eq!((summary.totals.input_tokens, summary.totals.cost_micros_usd), (5, 7));
    assert_eq!(
        (summary.title.as_deref(), summary.created_ms, summary.started_ms),
        (Some("Fix it"), T0, Some(T0 + 1))
    );
    assert_eq!(summary.next_deadline_ms, Some(T0 + 5 + 5_000));
    let [prompt] = summary.prompts.as_slice() else { panic!("{:?}", summary.prompts) };
    assert_eq!(
        (prompt.kind, prompt.id.as_str(), prompt.summary.as_str()),
        (PromptKind::Approval, "a", "may I")
    );
    assert_eq!(prompt.default, Some(PromptDefault::Reject));

    story.does(cancel());
    let summary = story.state.summary();
    assert_eq!((summary.status, summary.ended_ms), (Status::Cancelled, Some(story.now_ms)));
    assert_eq!(summary.ending, Some(Ending { code: "operator".into(), message: Some("enough".into()) }));
    assert_eq!(summary.prompts, []);
}
