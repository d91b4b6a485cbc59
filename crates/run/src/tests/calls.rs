//! Answers of an application to waiting calls, described by the events they cause.

use recount_event::Code;

use super::story::{Story, fid, json, progress};
use crate::{CallAnswer, CallResolution, CancelledBy, Command, Status, Work, limits, outstanding};

/// One call waits for leave and one for the application.
const SUSPENDED: &str = "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@ask a c\n@client d\n\
                         @wait approval a client_tool d";

const CONTINUED: &str = r#"{"by":"app"}"#;

fn brings(text: &str) -> CallResolution {
    CallResolution::Output {
        output: json(&format!("[{{'type':'text','text':'{text}'}}]")),
        text: text.to_owned(),
    }
}

fn denies(reason: &str) -> CallResolution {
    CallResolution::Denied { reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()) }
}

fn answers(answers: &[(&str, CallResolution)], lenient: bool) -> Command {
    let answers = answers
        .iter()
        .map(|(id, resolution)| CallAnswer { tool_call_id: fid(id), resolution: resolution.clone() })
        .collect();
    Command::AnswerCalls { answers, by: "app".into(), via: "aap".into(), config: None, lenient }
}

fn strictly(all: &[(&str, CallResolution)]) -> Command {
    answers(all, false)
}

fn leniently(all: &[(&str, CallResolution)]) -> Command {
    answers(all, true)
}

fn work(story: &Story) -> Vec<Work> {
    outstanding(&story.state).work
}

#[test]
fn a_run_continues_when_all_answers_arrive_together() {
    // P-047, P-048, P-049: in one append, granted calls run and denied calls are reported.
    let by_case: &[(CallResolution, &str, &str, &[&str], &str)] = &[
        (
            CallResolution::Granted,
            "tool.invoked",
            r#"{"tool_call_id":"c","tool_name":"tool","turn_index":0,"executor":"server","args_summary":"may I"}"#,
            &["RunTool"],
            r#"{"approval_id":"a","decision":"approved","by":"app","tool_call_id":"c","via":"aap"}"#,
        ),
        (
            denies(""),
            "tool.refused",
            r#"{"tool_call_id":"c","tool_name":"tool","code":"denied","message":"Tool call denied"}"#,
            &["CallModel"],
            r#"{"approval_id":"a","decision":"rejected","by":"app","tool_call_id":"c","via":"aap"}"#,
        ),
        (
            denies("not today"),
            "tool.refused",
            r#"{"tool_call_id":"c","tool_name":"tool","code":"denied","message":"Tool call denied: not today"}"#,
            &["CallModel"],
            r#"{"approval_id":"a","decision":"rejected","by":"app","tool_call_id":"c","comment":"not today","via":"aap"}"#,
        ),
        (
            // P-053: it does not know the tool, and answers as if it were its own.
            brings("Unknown tool: tool"),
            "tool.refused",
            r#"{"tool_call_id":"c","tool_name":"tool","code":"denied","message":"Unknown tool: tool"}"#,
            &["CallModel"],
            r#"{"approval_id":"a","decision":"rejected","by":"app","tool_call_id":"c","via":"aap","answer":"Unknown tool: tool"}"#,
        ),
    ];
    for (resolution, then, expected_data, owed, resolved) in by_case {
        for turned in [false, true] {
            let mut story = Story::of(SUSPENDED);
            let mut all = vec![("d", brings("rain")), ("c", resolution.clone())];
            let mut expected = vec!["tool.completed", "approval.resolved", "run.continued", then];
            if turned {
                all.reverse();
                expected.swap(0, 1);
            }
            assert_eq!(story.does(strictly(&all)), expected, "{resolution:?}");
            assert_eq!(story.last(then), *expected_data);
            assert_eq!(story.last("approval.resolved"), *resolved);
            assert_eq!(
                story.last("tool.completed"),
                r#"{"tool_call_id":"d","tool_name":"tool","turn_index":0,"output":[{"type":"text","text":"rain"}]}"#
            );
            assert_eq!(story.last("run.continued"), CONTINUED);
            let work: Vec<String> = work(&story).iter().map(|one| format!("{one:?}")).collect();
            let kinds: Vec<&str> = work.iter().map(|one| one.split(' ').next().unwrap()).collect();
            assert_eq!(kinds, *owed, "{resolution:?}");
        }
    }
}

#[test]
fn partial_answers_are_recorded_and_the_run_waits_for_the_rest() {
    // P-050: nothing runs and no model is called before the last answer.
    for first in [CallResolution::Granted, denies("no")] {
        let mut story = Story::of(SUSPENDED);
        assert_eq!(
            story.does(strictly(&[("c", first.clone())])),
            ["approval.resolved", "run.continued", "run.waiting"]
        );
        assert_eq!(story.last("run.waiting"), r#"{"for":[{"kind":"client_tool","id":"d"}]}"#);
        assert_eq!((story.state.status(), work(&story)), (Status::Waiting, vec![]));
        let last = if first == CallResolution::Granted { "tool.invoked" } else { "tool.refused" };
        assert_eq!(story.does(strictly(&[("d", brings("rain"))])), ["tool.completed", "run.continued", last]);
    }
    let mut story = Story::of(SUSPENDED);
    story.does(strictly(&[("d", brings("rain"))]));
    assert_eq!(story.last("run.waiting"), r#"{"for":[{"kind":"approval","id":"a"}]}"#);
    // The run goes on after the rest is answered, on any face.
    let approve = Command::ResolveApproval {
        approval_id: fid("a"),
        approve: true,
        by: "ann".into(),
        comment: None,
        remember: None,
    };
    assert_eq!(story.does(approve), ["approval.resolved", "run.continued", "tool.invoked"]);
}

#[test]
fn a_changed_configuration_is_in_run_continued() {
    let mut story = Story::of(SUSPENDED);
    let Command::AnswerCalls { answers, by, via, lenient, .. } =
        strictly(&[("c", CallResolution::Granted), ("d", brings("rain"))])
    else {
        unreachable!()
    };
    let config = Some(json("{'tools':[]}"));
    story.does(Command::AnswerCalls { answers, by, via, config, lenient });
    assert_eq!(story.last("run.continued"), r#"{"by":"app","config":{"tools":[]}}"#);
}

/// What it is, what happened, an answer, and what comes of it when it is left out.
type Case = (&'static str, String, (&'static str, CallResolution), &'static [&'static str]);

#[test]
fn an_unexpected_answer_is_refused_or_ignored() {
    // P-051, P-052: each case is a script, and the answer of an application to call c or d.
    let answered = format!("{SUSPENDED}\n@say a approved");
    let by_case: &[Case] = &[
        (
            "settled before, while the run still waits",
            format!("{SUSPENDED}\n@complete d"),
            ("d", brings("late")),
            &["run.continued", "run.waiting"],
        ),
        (
            "allowed before, while the run still waits",
            answered.clone(),
            ("c", denies("late")),
            &["run.continued", "run.waiting"],
        ),
        (
            "allowed before, and the run went on",
            format!("{answered}\n@complete d\nrun.continued {{'by':'x'}}\n@invoke c"),
            ("c", denies("late")),
            &[],
        ),
        (
            "never to be allowed",
            "@own\n@turn 0\n@propose c\n@turned 0\n@invoke c".into(),
            ("c", CallResolution::Granted),
            &[],
        ),
        (
            "a question whose turn has not come",
            "@own\n@turn 0\nassistant.tool_call_proposed {'turn_index':0,'tool_call_id':'c',\
             'tool_name':'ask_user','input':{}}\n@propose d\n@turned 0\n@client d\n@wait client_tool d"
                .into(),
            ("c", brings("left")),
            &["run.continued", "run.waiting"],
        ),
        (
            "the application's, and its command still runs",
            "@own\n@turn 0\n@propose c\n@turned 0\n@client c\n@command c\n@wait client_tool c".into(),
            ("c", brings("done")),
            &["run.continued", "run.waiting"],
        ),
        (
            "a question that is asked",
            "@own\n@turn 0\n@propose c\n@turned 0\n@question q c\n@wait clarification q".into(),
            ("c", brings("left")),
            &["run.continued", "run.waiting"],
        ),
        (
            "a run that has ended",
            format!(
                "{answered}\ntool.cancelled {{'tool_call_id':'d','tool_name':'tool'}}\n\
          tool.refused {{'tool_call_id':'c','tool_name':'tool','code':'cancelled','message':'m'}}\n\
          run.cancelled {{'by':'operator','reason':'r'}}"
            ),
            ("d", brings("late")),
            &[],
        ),
    ];
    for (case, text, (id, resolution), lenient) in by_case {
        let story = Story::of(text);
        let no = story.refuses(strictly(&[(id, resolution.clone())]));
        assert_eq!(no.code, Code::CallNotPending, "{case}");
        assert_eq!(
            no.message,
            format!(
                "call {id} expects no answer: it was answered before, or the application does not answer it"
            ),
        );
        assert_eq!(Story::of(text).does(leniently(&[(id, resolution.clone())])), **lenient, "{case}");
        for command in [strictly, leniently] {
            let no = story.refuses(command(&[("nobody", resolution.clone())]));
            assert_eq!(no.code, Code::CallNotFound, "{case}");
        }
    }
}

#[test]
fn an_invalid_answer_is_refused_even_when_lenient() {
    for command in [strictly, leniently] {
        let story = Story::of(SUSPENDED);
        let twice = story.refuses(command(&[("c", CallResolution::Granted), ("c", denies("or not"))]));
        assert_eq!(twice.code, Code::CallNotPending);
        assert_eq!(twice.message, "call c is answered twice in one request: send one answer per call");
        for resolution in [CallResolution::Granted, denies("")] {
            let own = story.refuses(command(&[("c", CallResolution::Granted), ("d", resolution)]));
            assert_eq!(own.code, Code::CallNotPending);
            assert_eq!(
                own.message,
                "call d is executed by the application: send its result, not a permission"
            );
        }
        let foreign = Story::of("@ext\n@ask a c").refuses(command(&[("c", CallResolution::Granted)]));
        assert_eq!(foreign.code, Code::EventRefused);
    }
}

#[test]
fn questions_are_requested_after_the_answers() {
    let mut story = Story::of(
        "@own\n@turn 0\n@propose c\nassistant.tool_call_proposed {'turn_index':0,'tool_call_id':'q',\
         'tool_name':'ask_user','input':{}}\n@turned 0\n@ask a c\n@wait approval a",
    );
    assert_eq!(
        story.does(strictly(&[("c", CallResolution::Granted)])),
        ["approval.resolved", "run.continued", "tool.invoked"]
    );
    story.does(progress("@complete c\n@question q1 q\n@wait clarification q1"));
    let left = Command::AnswerClarification {
        clarification_id: fid("q1"),
        response: json("'left'"),
        by: "app".into(),
        blocks: None,
        config: Some(json("{'tools':[]}")),
    };
    assert_eq!(
        story.does(left),
        ["clarification.answered", "run.continued", "tool.invoked", "tool.completed"]
    );
    assert_eq!(story.last("run.continued"), r#"{"by":"app","config":{"tools":[]}}"#);
    // Asked at once with the rest, it is the rest.
    let mut both = Story::of(&format!(
        "{}\n@question q1 d\n@wait approval a clarification q1",
        "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@ask a c"
    ));
    both.does(strictly(&[("c", CallResolution::Granted)]));
    assert_eq!(both.last("run.waiting"), r#"{"for":[{"kind":"clarification","id":"q1"}]}"#);
}

#[test]
fn a_run_with_partial_answers_can_be_cancelled() {
    let mut story = Story::of(SUSPENDED);
    story.does(strictly(&[("c", CallResolution::Granted)]));
    let cancel = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
    assert_eq!(story.does(cancel), ["tool.cancelled", "tool.refused", "run.cancelled"]);
}

#[test]
fn answers_have_limits() {
    let story = Story::of(SUSPENDED);
    let long = |bytes: usize| "x".repeat(bytes);
    let many: Vec<String> = (0..=limits::CALLS_OPEN_MAX).map(|n| format!("c{n}")).collect();
    let too_many: Vec<(&str, CallResolution)> =
        many.iter().map(|id| (id.as_str(), CallResolution::Granted)).collect();
    let config = |bytes: usize| Command::AnswerCalls {
        answers: Vec::new(),
        by: "app".into(),
        via: "aap".into(),
        config: Some(json(&format!("'{}'", long(bytes)))),
        lenient: true,
    };
    let named = |by: String| Command::AnswerCalls {
        answers: Vec::new(),
        by,
        via: "aap".into(),
        config: None,
        lenient: true,
    };
    let text = CallResolution::Output { output: json("''"), text: long(limits::OUTPUT_BYTES_MAX) };
    let odd =
        CallResolution::Output { output: json("''"), text: "\u{1}".repeat(limits::OUTPUT_BYTES_MAX / 5) };
    let by_case: Vec<(Command, &str)> = vec![
        (strictly(&too_many), "limit.batch"),
        (strictly(&[("d", brings(&long(limits::OUTPUT_BYTES_MAX)))]), "limit.output"),
        (strictly(&[("d", text)]), "limit.output"),
        (strictly(&[("c", odd)]), "limit.output"),
        (strictly(&[("c", denies(&long(limits::WORDS_BYTES_MAX + 1)))]), "limit.words"),
        (config(limits::CONFIG_BYTES_MAX), "limit.config"),
        (named(long(limits::WORDS_BYTES_MAX + 1)), "limit.words"),
    ];
    for (command, rule) in by_case {
        let no = story.refuses(command);
        assert_eq!((no.code, no.rule), (Code::LimitReached, Some(rule)), "{}", no.message);
        let row = crate::RULES.iter().find(|row| row.id == rule);
        assert!(row.is_some_and(|row| row.at_most.is_some()), "{rule} has no row");
    }
    // The longest answer fits in one event.
    let most = CallResolution::Output {
        output: json(&format!("'{}'", long(limits::OUTPUT_BYTES_MAX - 2))),
        text: long(limits::OUTPUT_BYTES_MAX - 2),
    };
    let mut story = Story::of(SUSPENDED);
    story.does(strictly(&[("d", most.clone()), ("c", most)]));
    let longest = story.events.iter().map(|event| event.payload().write().len()).max().unwrap();
    assert!(longest <= recount_event::limits::DATA_BYTES_MAX, "{longest}");
}
