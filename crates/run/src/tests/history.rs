//! A session's lines, by tables of what happened and what is read of it; what holds of all runs is at the end.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use recount_event::{Event, ForeignId, Payload};

use super::properties::{live, numbers};
use super::story::{Story, placed_all, script};
use crate::view::{AnswerBlock, Block, BlockStatus, CUT_OFF_NOTE, History, Line, Output, Placed, question};
use crate::{ASKING_TOOLS, audit};

/// A line in short form.
fn describe(placed: &Placed) -> String {
    let words = match &placed.line {
        Line::User { text, blocks: None } => format!("user {text}"),
        Line::User { text, blocks: Some(blocks) } => {
            let blocks: Vec<&str> = blocks.iter().map(|block| block.text()).collect();
            format!("user {text} [{}]", blocks.join(" ").replace('"', "'"))
        }
        Line::Assistant { blocks } => {
            let block = |answer: &AnswerBlock| {
                let words = match &answer.block {
                    Block::Text(text) => text.trim().to_owned(),
                    Block::Thinking(text) => format!("({})", text.trim()),
                    Block::ToolUse { tool_call_id, name, input } => {
                        format!("{tool_call_id}={name}{}", input.text().replace('"', "'"))
                    }
                };
                match answer.status {
                    BlockStatus::Open | BlockStatus::Final => words,
                    BlockStatus::Aborted => format!("{words} (aborted)"),
                    BlockStatus::Abandoned => format!("{words} (abandoned)"),
                }
            };
            format!("agent {}", blocks.iter().map(block).collect::<Vec<_>>().join(" | "))
        }
        Line::Tool { tool_call_id, output: Output::Json(output) } => {
            format!("{tool_call_id} -> {}", output.text().replace('"', "'"))
        }
        Line::Tool { tool_call_id, output: Output::Text(text) } => format!("{tool_call_id} -> {text}"),
    };
    format!("{} {words}", placed.sequence)
}

fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> History {
    let mut history = History::new();
    events.into_iter().for_each(|event| history.event(event));
    history
}

fn lines(events: &[Event]) -> Vec<String> {
    fold(events).full().map(describe).collect()
}

/// The lines of a legal run.
fn read(text: &str) -> Vec<String> {
    lines(&Story::of(text).events)
}

/// The text of a block that is complete.
fn text_complete(block: u64, text: &str) -> String {
    format!("assistant.text_complete {{'turn_index':0,'block_index':{block},'text':'{text}'}}")
}

fn thought(block: u64, text: &str) -> String {
    format!("assistant.thinking_complete {{'turn_index':0,'block_index':{block},'text':'{text}'}}")
}

fn ask_user(id: &str) -> String {
    format!(
        "assistant.tool_call_proposed {{'turn_index':0,'tool_call_id':'{id}','tool_name':'ask_user','input':{{}}}}"
    )
}

#[test]
fn a_line_of_the_agent_ends_at_a_result_a_user_message_or_the_end_of_a_segment() {
    // P-032: thoughts, texts and calls as they came.
    let (think, hi, more) = (thought(0, "hm"), text_complete(1, "hi"), text_complete(2, "more"));
    let calls = format!("@own\n@turn 0\n{think}\n{hi}\n@propose c\n@propose d\n@turned 0");
    let by_case: &[(&str, String, &[&str])] = &[
        (
            "a turn and its results",
            format!("{calls}\n@invoke c\n@complete c\n@refuse d\n@turn 1\n@turned 1\n@finished"),
            &["6 agent (hm) | hi | c=tool{'x':1} | d=tool{'x':1}", "9 c -> ", "10 d -> no"],
        ),
        (
            "turns without results go on in one line",
            format!("@own\n@turn 0\n{hi}\n@turned 0\n@turn 1\n@turned 1\n@finished"),
            &["3 agent hi"],
        ),
        (
            "words of a person",
            format!("@own\n@turn 0\n{hi}\nuser.message {{'text':'wait'}}\n{more}"),
            &["3 agent hi", "4 user wait", "5 agent more"],
        ),
        ("an empty text", format!("@own\n@turn 0\n{}\n{}", text_complete(0, ""), thought(1, "")), &[]),
        (
            "what the application brings lies outside and stands as it came",
            "@own\n@turn 0\n@propose c\n@turned 0\n@client c\n@wait client_tool c\n\
             tool.completed {'tool_call_id':'c','tool_name':'tool','output':[{'type':'text','text':'rain'}]}\n\
             run.continued {'by':'app'}\n@turn 1"
                .to_owned(),
            &["3 agent c=tool{'x':1}", "7 c -> [{'type':'text','text':'rain'}]"],
        ),
        (
            "a call that was never proposed is nobody's",
            format!("@ext\n@turn 0\n{hi}\n@invoke c\n@complete c\n{more}"),
            &["6 agent hi | more"],
        ),
        (
            "abandoned words stay marked, and the turn goes on in their line when it is tried again",
            "@own\n@turn 0\nassistant.text_delta {'turn_index':0,'block_index':0,'delta':'hal'}\n\
             assistant.text_complete {'turn_index':0,'block_index':0,'text':'hal','aborted':true}\n\
             turn.failed {'turn_index':0,'code':'overloaded','message':'m','will_retry':true}\n@turn 0\n"
                .to_owned()
                + &text_complete(1, "hello"),
            &["7 agent hal (abandoned) | [The response was cut off here and starts again.] (abandoned) | hello"],
        ),
        (
            "words that nothing took the place of stay aborted",
            format!("@own\n@turn 0\n{think}\n{hi}\nturn.failed {{'turn_index':0,'code':'cancelled','message':'m','will_retry':false}}\nrun.cancelled {{'by':'operator','reason':'enough'}}"),
            &["4 agent (hm) (aborted) | hi (aborted)"],
        ),
        (
            "errors and summaries stand where there is no output",
            "@ext\n@turn 0\n@propose c\n@propose d\n@invoke c\n@invoke d\n\
             tool.failed {'tool_call_id':'c','tool_name':'tool','error':'no such file'}\n\
             tool.completed {'tool_call_id':'d','tool_name':'tool','summary':'one line'}"
                .to_owned(),
            &["4 agent c=tool{'x':1} | d=tool{'x':1}", "7 c -> no such file", "8 d -> one line"],
        ),
    ];
    for (case, text, expected) in by_case {
        assert_eq!(read(text), *expected, "{case}");
    }
}

#[test]
fn a_question_is_a_line_of_the_agent_and_its_answer_one_of_the_user() {
    let asks = format!("@own\n@turn 0\n{}\n{}\n@turned 0\n", text_complete(0, "Well."), ask_user("q"));
    let question = "clarification.requested {'clarification_id':'q1','tool_call_id':'q','question':'Which?',\
                    'context':'It matters.','choices':['left',{'id':2}],'default_response':'left'}\n\
                    @wait clarification q1\n";
    let agent = "7 agent Well. | Which?\nIt matters.\n- left\n- {\"id\":2}";
    let goes_on = "run.continued {'by':'ann'}\ntool.invoked {'tool_call_id':'q','tool_name':'ask_user'}\n\
                   tool.completed {'tool_call_id':'q','tool_name':'ask_user','output':'left'}";
    let by_case: &[(String, &[&str])] = &[
        (
            "clarification.answered {'clarification_id':'q1','response':'le\\u00e9 \\\"x\\\"','by':'ann'}"
                .into(),
            &["8 user leé \"x\""],
        ),
        (
            "clarification.answered {'clarification_id':'q1','response':{'choice':'left'},'by':'ann'}".into(),
            &["8 user {\"choice\":\"left\"}"],
        ),
        ("clarification.timed_out {'clarification_id':'q1','applied':'default'}".into(), &["8 user left"]),
        ("clarification.timed_out {'clarification_id':'q1','applied':'unavailable'}".into(), &[]),
    ];
    for (answer, expected) in by_case {
        let lines = read(&format!("{asks}{question}{answer}\n{goes_on}"));
        assert_eq!(lines[0], agent, "{answer}");
        assert_eq!(lines[1..], **expected, "{answer}");
    }
}

#[test]
fn only_a_wait_for_people_alone_makes_a_question_and_its_answer_lines() {
    let both = format!(
        "@own\n@turn 0\n@propose c\n{}\n@turned 0\n@question q1 q\n@ask a c\n@wait approval a clarification q1\n",
        ask_user("q")
    );
    let left = "clarification.answered {'clarification_id':'q1','response':'left','by':'ann'}";
    let call = "3 agent c=tool{'x':1}";
    // The segment in which it was requested ended without it, so no stream shows it.
    let behind =
        format!("{both}@say a approved\nrun.continued {{'by':'ann'}}\n@wait clarification q1\n{left}");
    assert_eq!(read(&behind), [call, "12 user left"]);
    assert_eq!(read(&format!("{both}{left}")), [call]);
    // It is not shown again where the run waits for it again.
    let again = format!(
        "@own\n@turn 0\n{}\n@turned 0\n@question q1 q\n@wait clarification q1\nrun.continued {{'by':'ann'}}\n\
         @wait clarification q1\n{left}",
        ask_user("q")
    );
    assert_eq!(read(&again), ["6 agent which?", "9 user left"]);
}

#[test]
fn the_reason_of_a_handoff_is_a_line_of_the_agent() {
    let text = "@own\n@turn 0\nassistant.tool_call_proposed {'turn_index':0,'tool_call_id':'h',\
                'tool_name':'hand_off','input':{}}\n@turned 0\n@handoff h1 h\n@wait handoff h1\n\
                handoff.acknowledged {'handoff_id':'h1','by':'dana'}\nrun.continued {'by':'dana'}\n\
                tool.invoked {'tool_call_id':'h','tool_name':'hand_off'}\n\
                tool.completed {'tool_call_id':'h','tool_name':'hand_off'}\n@finished";
    assert_eq!(read(text), ["6 agent stuck"]);
}

#[test]
fn attachments_join_the_message_unless_its_blocks_name_them() {
    let sent = |id: &str, kind: &str, mime: &str| {
        format!("user.attachment {{'kind':'{kind}','mime':'{mime}','artifact_id':'{id}'}}")
    };
    let (png, pdf) = (sent("art_1", "image", "image/png"), sent("art_2", "file", "application/pdf"));
    let png_block = "{'type':'image','artifact_id':'art_1','mime':'image/png'}";
    let pdf_block = "{'type':'file','artifact_id':'art_2','mime':'application/pdf'}";
    let requested =
        "run.queued {'kind':'agent_loop','prior_run_id':null,'request_text':'look'}\nrun.started {}";
    let by_case: &[(&str, String, &[String])] = &[
        (
            "behind the words",
            format!("@own\nuser.message {{'text':'look'}}\n{png}\n{pdf}\n@turn 0"),
            &[format!("4 user look [{{'type':'text','text':'look'}} {png_block} {pdf_block}]")],
        ),
        (
            "named by the words",
            format!(
                "@own\nuser.message {{'text':'look','blocks':[{{'type':'text','text':'look'}},\
                 {{'type':'image', 'artifact_id' : 'art_1','mime':'image/png'}}]}}\n{png}\n@turn 0"
            ),
            &["2 user look [{'type':'text','text':'look'} {'type':'image', 'artifact_id' : 'art_1','mime':'image/png'}]"
                .into()],
        ),
        (
            "before the words",
            format!("@own\n{png}\nuser.message {{'text':'look'}}\n@turn 0"),
            &[format!("3 user look [{{'type':'text','text':'look'}} {png_block}]")],
        ),
        ("alone", format!("@own\n{png}\n@turn 0"), &[format!("2 user  [{png_block}]")]),
        (
            "with the request, which is not a user.message",
            format!("{requested}\n{png}\n@turn 0"),
            &[format!("2 user look [{{'type':'text','text':'look'}} {png_block}]")],
        ),
        ("a request that is a user.message", format!("{requested}\nuser.message {{'text':'look'}}\n@turn 0"), &[
            "2 user look".into(),
        ]),
        (
            "a request without a turn",
            "run.queued {'kind':'agent_loop','prior_run_id':null,'request_text':'look'}\n\
             run.cancelled {'by':'operator','reason':'r'}"
                .into(),
            &["0 user look".into()],
        ),
        (
            "a text that only looks like a name of it",
            format!(
                "@own\nuser.message {{'text':'art_1','blocks':[{{'type':'text','text':'art_1'}}]}}\n{png}\n@turn 0"
            ),
            &[format!("3 user art_1 [{{'type':'text','text':'art_1'}} {png_block}]")],
        ),
    ];
    for (case, text, expected) in by_case {
        assert_eq!(read(text), **expected, "{case}");
    }
}

/// Runs of one session: the n-th has this id.
fn run_of_a_session(n: usize, text: &str) -> Vec<Event> {
    let mut events = placed_all(script(text));
    assert_eq!(audit(&events), None);
    for event in &mut events {
        event.run_id = format!("run_01HZX3Q0M0000000000000000{n}").parse().unwrap();
    }
    events
}

#[test]
fn a_summary_replaces_earlier_lines_and_splits_no_call() {
    // P-067.
    let first = format!(
        "@own\nuser.message {{'text':'one'}}\n@turn 0\n{}\n@turned 0\n@finished",
        text_complete(0, "1")
    );
    let compacted = |run: usize, sequence: u64| {
        format!(
            "context.compacted {{'through_run_id':'run_01HZX3Q0M0000000000000000{run}',\
             'through_sequence':{sequence},'summary':'they counted to {sequence}'}}"
        )
    };
    let second = |cut: &str| {
        format!(
            "@own\nuser.message {{'text':'two'}}\n@turn 0\n{}\n@propose c\n@propose d\n@turned 0\n\
             @invoke c\n@complete c\n{cut}\n@client d\n@wait client_tool d",
            text_complete(0, "2")
        )
    };
    let answered = "@complete d\nrun.continued {'by':'app'}";
    let (one, agent, c, d) =
        ("2 user one", "6 agent 2 | c=tool{'x':1} | d=tool{'x':1}", "9 c -> ", "13 d -> ");
    let all = [one, "4 agent 1", "2 user two", agent, c];
    let by_case: &[(&str, String, Option<&str>, &[&str])] = &[
        ("a run that is not in this history", second(&compacted(9, 4)), None, &all),
        ("the middle of a run", second(&compacted(1, 3)), Some("they counted to 3"), &all[1..]),
        ("a run", second(&compacted(1, 6)), Some("they counted to 6"), &all[2..]),
        ("a person's words", second(&compacted(2, 2)), Some("they counted to 2"), &all[3..]),
        ("calls of which one is open", second(&compacted(2, 9)), Some("they counted to 9"), &all[3..]),
        (
            "calls that are settled, and whose results lie behind",
            format!("{}\n{answered}", second(&compacted(2, 6))),
            Some("they counted to 6"),
            &[],
        ),
        (
            "the last one counts",
            second(&format!("{}\n{}", compacted(2, 9), compacted(1, 6))),
            Some("they counted to 6"),
            &["2 user two", "6 agent 2 | c=tool{'x':1} | d=tool{'x':1}", c],
        ),
    ];
    for (case, text, summary, left) in by_case {
        let mut events = run_of_a_session(1, &first);
        events.extend(run_of_a_session(2, text));
        let history = fold(&events);
        let (found_summary, lines) = history.compacted();
        assert_eq!(found_summary, *summary, "{case}");
        assert_eq!(lines.iter().map(describe).collect::<Vec<_>>(), *left, "{case}");
        let full: Vec<String> = history.full().map(describe).collect();
        assert_eq!(full[..5], all, "{case}: the full history hides nothing");
        assert_eq!(full.get(5).is_some(), text.ends_with(answered), "{case}");
        assert!(full.get(5).is_none_or(|last| last == d), "{case}");
    }
}

#[test]
fn the_next_run_closes_the_line_of_an_interrupted_run() {
    let mut history = History::new();
    run_of_a_session(1, &format!("@own\n@turn 0\n{}", text_complete(0, "1")))
        .iter()
        .for_each(|e| history.event(e));
    history.next_run();
    run_of_a_session(2, &format!("@own\n@turn 0\n{}", text_complete(0, "2")))
        .iter()
        .for_each(|e| history.event(e));
    assert_eq!(history.full().map(describe).collect::<Vec<_>>(), ["3 agent 1", "3 agent 2"]);
}

/// What a client gathers from whole messages, written from the rules of the protocol and not from the view: results
/// of calls that this server carries out close a line, and so does a stop.
fn gathered(events: &[Event]) -> Vec<Vec<String>> {
    let mut messages: Vec<Vec<String>> = Vec::new();
    let mut open = false;
    let mut calls: BTreeMap<&ForeignId, bool> = BTreeMap::new();
    // A question and a handoff may bear one id: each kind has ids of its own.
    let mut prompts: BTreeMap<(&str, &ForeignId), String> = BTreeMap::new();
    for event in events {
        let mut add = |open: &mut bool, text: String| {
            if !*open {
                messages.push(Vec::new());
            }
            *open = true;
            messages.last_mut().unwrap().push(text);
        };
        match event.payload() {
            Payload::AssistantTextComplete(block) | Payload::AssistantThinkingComplete(block)
                if !block.text.is_empty() =>
            {
                add(&mut open, block.text.clone());
            }
            Payload::AssistantToolCallProposed(call) if !ASKING_TOOLS.contains(&&*call.tool_name) => {
                calls.insert(&call.tool_call_id, true);
                add(&mut open, call.tool_call_id.to_string());
            }
            Payload::ToolInvoked(invoked) if calls.contains_key(&invoked.tool_call_id) => {
                let server = invoked.executor.is_none_or(|executor| executor.as_str() == "server");
                calls.insert(&invoked.tool_call_id, server);
            }
            Payload::ToolRefused(no) => open &= calls.get(&no.tool_call_id) != Some(&true),
            Payload::ToolCompleted(end)
            | Payload::ToolFailed(end)
            | Payload::ToolCancelled(end)
            | Payload::ToolTimedOut(end) => open &= calls.get(&end.tool_call_id) != Some(&true),
            Payload::ClarificationRequested(q) => {
                prompts.insert(("clarification", &q.clarification_id), question(q));
            }
            Payload::HandoffRequested(h) => {
                prompts.insert(("handoff", &h.handoff_id), h.reason.clone());
            }
            Payload::RunWaiting(waiting) => {
                let kinds: Vec<&str> = waiting.waits_for.iter().map(|one| one.kind.as_str()).collect();
                if !kinds.contains(&"approval") && !kinds.contains(&"client_tool") {
                    let texts = waiting
                        .waits_for
                        .iter()
                        .filter_map(|one| prompts.remove(&(one.kind.as_str(), &one.id)));
                    texts.for_each(|text| add(&mut open, text));
                }
                prompts.clear();
                open = false;
            }
            Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_) => open = false,
            // The client wrote it.
            Payload::UserMessage(_) => open = false,
            _ => {}
        }
    }
    messages
}

/// The line without what the end of its turn adds: the status of its blocks, and notes.
fn without_status(placed: &Placed) -> Placed {
    let mut placed = placed.clone();
    if let Line::Assistant { blocks } = &mut placed.line {
        blocks.retain(|answer| !is_note(answer));
        blocks.iter_mut().for_each(|answer| answer.status = BlockStatus::Open);
    }
    placed
}

/// What the view adds to an abandoned answer.
fn is_note(answer: &AnswerBlock) -> bool {
    answer.status == BlockStatus::Abandoned && block_words(answer) == CUT_OFF_NOTE
}

fn block_words(answer: &AnswerBlock) -> String {
    match &answer.block {
        Block::Text(text) | Block::Thinking(text) => text.clone(),
        Block::ToolUse { tool_call_id, .. } => tool_call_id.to_string(),
    }
}

/// See the names of the parts.
fn holds(events: &[Event]) {
    let history = fold(events);
    let all: Vec<&Placed> = history.full().collect();

    agrees_with_what_a_client_gathers(events, &all);
    every_settled_call_has_one_result_behind_it(events, &all);
    compaction_halves_nothing(events);
}

fn agrees_with_what_a_client_gathers(events: &[Event], all: &[&Placed]) {
    let mine: Vec<Vec<String>> = all
        .iter()
        .filter_map(|placed| match &placed.line {
            Line::Assistant { blocks } => {
                Some(blocks.iter().filter(|answer| !is_note(answer)).map(block_words).collect())
            }
            _ => None,
        })
        .filter(|blocks: &Vec<String>| !blocks.is_empty())
        .collect();
    assert_eq!(mine, gathered(events));
    assert!(mine.iter().all(|blocks| !blocks.is_empty()));
}

fn every_settled_call_has_one_result_behind_it(events: &[Event], all: &[&Placed]) {
    let settled: BTreeSet<&ForeignId> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ToolRefused(no) => Some(&no.tool_call_id),
            Payload::ToolCompleted(end)
            | Payload::ToolFailed(end)
            | Payload::ToolCancelled(end)
            | Payload::ToolTimedOut(end) => Some(&end.tool_call_id),
            _ => None,
        })
        .collect();
    let mut unanswered: BTreeSet<&ForeignId> = BTreeSet::new();
    for placed in all {
        match &placed.line {
            Line::Assistant { blocks } => {
                for block in blocks {
                    if let Block::ToolUse { tool_call_id, .. } = &block.block {
                        assert!(unanswered.insert(tool_call_id), "{tool_call_id} is called twice");
                    }
                }
            }
            Line::Tool { tool_call_id, .. } => {
                assert!(unanswered.remove(tool_call_id), "{tool_call_id} has a result and no call before it");
                assert!(settled.contains(tool_call_id));
            }
            Line::User { .. } => {}
        }
    }
    assert!(unanswered.is_disjoint(&settled), "{unanswered:?} are settled and have no result");
}

/// Wherever the cut is made, what is left begins with no result and holds the call of each, and open calls stay.
fn compaction_halves_nothing(events: &[Event]) {
    let Some(first) = events.first() else { return };
    let full = fold(events);
    let every = events.len() / 7 + 1;
    for through in (0..events.len()).step_by(every) {
        let mut cut = first.clone();
        let data =
            format!("{{'through_run_id':'{}','through_sequence':{through},'summary':'s'}}", first.run_id);
        cut.body = super::story::payload("context.compacted", &data).into();
        let mut history = full.clone();
        history.event(&cut);
        assert!(history.full().eq(full.full()));
        let (summary, left) = history.compacted();
        assert_eq!(summary, Some("s"));
        let mut calls = BTreeSet::new();
        let mut results = BTreeSet::new();
        for placed in &left {
            match &placed.line {
                Line::Assistant { blocks } => calls.extend(blocks.iter().filter_map(call_of)),
                Line::Tool { tool_call_id, .. } => {
                    assert!(calls.contains(tool_call_id), "{tool_call_id} is halved at {through}");
                    results.insert(tool_call_id.clone());
                }
                Line::User { .. } => assert!(placed.sequence > through as u64),
            }
        }
        let uses = full.full().filter_map(|placed| match &placed.line {
            Line::Assistant { blocks } => Some(blocks.iter().filter_map(call_of)),
            _ => None,
        });
        let answered: BTreeSet<ForeignId> = full
            .full()
            .filter_map(|placed| match &placed.line {
                Line::Tool { tool_call_id, .. } => Some(tool_call_id.clone()),
                _ => None,
            })
            .collect();
        for id in uses.flatten().filter(|id| !answered.contains(id)) {
            assert!(calls.contains(&id), "{id} is open and was hidden at {through}");
        }
        let lines = left.iter().filter_map(|placed| match &placed.line {
            Line::Assistant { blocks } => Some(blocks),
            _ => None,
        });
        for answer in lines.flatten().filter(|answer| call_of(answer).is_none()) {
            assert!(
                matches!(answer.status, BlockStatus::Open | BlockStatus::Final),
                "{answer:?} is not in the context"
            );
            assert!(!matches!(answer.block, Block::Thinking(_)), "{answer:?} is not in the context");
        }
        let halved = calls.iter().find(|id| answered.contains(*id) && !results.contains(*id));
        assert_eq!(halved, None, "a call lost its result at {through}");
    }
}

fn call_of(answer: &AnswerBlock) -> Option<ForeignId> {
    match &answer.block {
        Block::ToolUse { tool_call_id, .. } => Some(tool_call_id.clone()),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn every_run_reads_as_a_conversation(numbers in numbers(), own in any::<bool>(), at in any::<u16>()) {
        let lived = live(&numbers, own);
        holds(&lived.events);
        // What is read of a beginning is never taken back: only the line that gathers may grow.
        let end = usize::from(at) % (lived.events.len() + 1);
        holds(&lived.events[..end]);
        let mut step_by_step = fold(&lived.events[..end]);
        let beginning: Vec<Placed> = step_by_step.full().cloned().collect();
        lived.events[end..].iter().for_each(|event| step_by_step.event(event));
        let whole = fold(&lived.events);
        prop_assert_eq!(&step_by_step, &whole);
        let grown: Vec<&Placed> = whole.full().collect();
        prop_assert!(grown.len() >= beginning.len());
        let changed =
            beginning.iter().zip(&grown).filter(|(then, now)| without_status(then) != without_status(now)).count();
        prop_assert!(changed <= 1, "{:?} became {:?}", beginning, grown);
    }
}

#[test]
fn every_story_reads_as_a_conversation() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs");
    let mut lines = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let events: Vec<Event> =
            text.lines().map(|line| recount_event::codec::decode(line.as_bytes()).unwrap()).collect();
        holds(&events);
        lines += fold(&events).full().count();
    }
    assert!(lines > 60, "{lines} lines in all stories");
}
