//! One violation of each rule, from `testdata/illegal/`, and the expected message.

use std::fs;
use std::path::PathBuf;
use std::sync::Once;

use recount_event::{Draft, Event, codec};

use super::story::{event_id, placed_all, run_id, script};
use crate::judge::judge;
use crate::{Command, RULES, Reach, Rule, State, apply, audit, decide, grammar_page};

/// A rule, and a run whose last event breaks it.
const BREACHES: &[(&str, &str)] = &[
    ("queued.first", "run.started {}"),
    ("queued.once", "@own\nrun.queued {'kind':'agent_loop','prior_run_id':null}"),
    (
        "start.first",
        "run.queued {'kind':'agent_loop','prior_run_id':null}\nuser.message {'text':'hi'}\n@turn 0",
    ),
    ("start.again", "@own\nrun.started {}"),
    ("ending.once", "@own\n@finished\nrun.cancelled {'by':'operator','reason':'late'}"),
    ("ending.last", "@own\n@finished\nuser.message {'text':'hi'}"),
    (
        "ending.text_open",
        "@own\n@turn 0\nassistant.text_delta {'turn_index':0,'block_index':0,'delta':'a'}\n@finished",
    ),
    ("ending.turn_open", "@own\n@turn 0\n@finished"),
    ("ending.call_open", "@own\n@turn 0\n@propose c\n@turned 0\n@finished"),
    (
        "ending.prompt_open",
        "@ext\n@ask a c\nrun.failed {'code':'broken','message':'it broke','retriable':false}",
    ),
    ("ending.turns", "@own\n@turn 0\n@turned 0\nrun.finished {'final_status':'completed','turns':2}"),
    (
        "gap.pruned",
        "@own\n@finished\ngap.events_pruned {'first_pruned_sequence':0,'last_pruned_sequence':3,\
         'pruned_at':'2026-05-03T10:23:45.123Z','reason':'retention'}",
    ),
    (
        "turn.order",
        "@ext\n@turn 0\nturn.failed {'turn_index':0,'code':'x','message':'y','will_retry':false}\n@turn 0",
    ),
    ("turn.one_open", "@ext\n@turn 0\n@turn 1"),
    ("turn.named", "@ext\n@turn 0\n@turned 1"),
    (
        "turn.text_open",
        "@ext\n@turn 0\nassistant.text_delta {'turn_index':0,'block_index':4,'delta':'a'}\n@turned 0",
    ),
    (
        "turn.calls_open",
        "@ext\n@turn 0\n@propose c\nturn.failed {'turn_index':0,'code':'x','message':'y','will_retry':true}",
    ),
    (
        "turn.tool_calls",
        "@ext\n@turn 0\nturn.completed {'turn_index':0,'stop_reason':'tool_use','tool_calls':1}",
    ),
    ("assistant.turn", "@ext\nassistant.text_delta {'turn_index':0,'block_index':0,'delta':'a'}"),
    (
        "text.joined",
        "@ext\n@turn 0\nassistant.text_delta {'turn_index':0,'block_index':0,'delta':'a'}\n\
         assistant.text_complete {'turn_index':0,'block_index':0,'text':'b'}",
    ),
    (
        "text.closed",
        "@ext\n@turn 0\nassistant.text_complete {'turn_index':0,'block_index':0,'text':'b'}\n\
         turn.failed {'turn_index':0,'code':'x','message':'y','will_retry':true}\n@turn 0\n\
         assistant.text_delta {'turn_index':0,'block_index':0,'delta':'b'}",
    ),
    (
        "text.kind",
        "@own\n@turn 0\nassistant.thinking_delta {'turn_index':0,'block_index':0,'delta':'hm'}\n\
         assistant.text_delta {'turn_index':0,'block_index':0,'delta':'a'}",
    ),
    (
        "answer.once",
        "@ext\n@turn 0\nassistant.final_answer {'turn_index':0,'summary':'a'}\n\
         assistant.final_answer {'turn_index':0,'summary':'a'}",
    ),
    ("answer.last", "@ext\n@turn 0\nassistant.final_answer {'turn_index':0,'summary':'a'}\n@propose c"),
    ("call.id", "@ext\n@turn 0\n@propose c\n@invoke c\n@complete c\n@propose c"),
    ("call.invoked_once", "@ext\n@invoke c\n@complete c\n@invoke c"),
    ("call.proposed", "@ext\ntool.invoked {'tool_call_id':'c','tool_name':'tool','turn_index':0}"),
    (
        "call.name",
        "@ext\n@turn 0\n@propose c\ntool.invoked {'tool_call_id':'c','tool_name':'other','turn_index':0}",
    ),
    (
        "call.open",
        "@ext\n@turn 0\n@propose c\n\
         tool.glob.completed {'tool_call_id':'c','pattern':'*','matches':[],'match_count':0,'truncated':false}",
    ),
    ("call.refused", "@ext\n@invoke c\n@refuse c"),
    (
        "call.settled_once",
        "@ext\n@invoke c\n@complete c\ntool.failed {'tool_call_id':'c','tool_name':'tool'}",
    ),
    ("shell.once", "@ext\n@invoke c\n@command c\n@command c"),
    ("shell.order", "@ext\n@invoke c\n@command c\n@exit c 0 false\n@out c 0 late"),
    (
        "shell.encoding",
        "@ext\n@invoke c\n@command c\ntool.shell.output_chunk {'tool_call_id':'c','stream':'stdout',\
         'data':'no!','byte_offset':0,'encoding':'base64'}",
    ),
    ("shell.offset", "@ext\n@invoke c\n@command c\n@out c 0 abc\n@out c 2 d"),
    ("shell.sums", "@ext\n@invoke c\n@command c\n@out c 0 abc\n@exit c 2 true"),
    ("shell.exit", "@ext\n@invoke c\n@command c\n@complete c"),
    ("prompt.id", "@ext\n@ask a c\n@say a approved\n@ask a d"),
    ("prompt.pending", "@ext\n@ask a c\n@say a approved\n@say a rejected"),
    (
        "prompt.call",
        "@ext\n@ask a c\napproval.resolved {'approval_id':'a','decision':'approved','by':'ann','tool_call_id':'d'}",
    ),
    ("prompt.call_open", "@ext\n@question q c"),
    (
        "prompt.extension",
        "@ext\n@ask a c\napproval.extended {'approval_id':'a','expires_at':'2026-05-03T10:24:45.000Z','seconds':60,'by':'ann'}",
    ),
    ("approval.call", "@ext\n@turn 0\n@propose c\n@ask a c\n@say a rejected\n@ask b c"),
    ("approval.one_pending", "@ext\n@ask a c\n@ask b c"),
    (
        "approval.default",
        "@ext\napproval.requested {'approval_id':'a','tool_call_id':'c','kind':'tool','summary':'s',\
         'reversibility':'irreversible','default_decision':'approve'}",
    ),
    (
        "approval.digest",
        "@ext\n@turn 0\n@propose c\napproval.requested {'approval_id':'a','tool_call_id':'c','kind':'tool',\
         'summary':'s','call_digest':'blake3:00'}",
    ),
    ("approval.pending", "@ext\n@ask a c\n@invoke c"),
    ("approval.denied", "@ext\n@ask a c\n@say a rejected\n@invoke c"),
    (
        "approval.decision",
        "@ext\n@ask a c\napproval.timed_out {'approval_id':'a','after_seconds':1,'decision':'approved'}",
    ),
    ("approval.required", "@own\ntool.invoked {'tool_call_id':'c','tool_name':'tool','risk_level':'high'}"),
    (
        "clarification.default",
        "@ext\n@invoke c\n@question q c\nclarification.timed_out {'clarification_id':'q','applied':'default'}",
    ),
    (
        "workspace.own",
        "@ext\ngap.workspace_removed {'path':'/w','reason':'retention','removed_at':'2026-05-03T10:23:45.123Z'}",
    ),
    ("wait.own", "@ext\n@ask a c\n@wait approval a"),
    ("wait.turn", "@own\n@turn 0\n@propose c\n@ask a c\n@wait approval a"),
    ("wait.calls", "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@ask a c\n@wait approval a"),
    ("wait.nothing", "@own\nrun.waiting {'for':[]}"),
    ("wait.names", "@own\n@turn 0\n@propose c\n@propose d\n@turned 0\n@ask a c\n@client d\n@wait approval a"),
    ("wait.quiet", "@own\n@client c\n@wait client_tool c\nuser.message {'text':'hi'}"),
    ("wait.continued", "@own\nrun.continued {'by':'ann'}"),
    (
        "wait.regroup",
        "@own\n@client c\n@client d\n@wait client_tool c client_tool d\n@complete c\nrun.continued {'by':'app'}\n@turn 0",
    ),
    ("cost.falls", "@ext\n@tick 5 5 5\n@tick 5 5 4"),
    (
        "cost.prior",
        "run.queued {'kind':'external','driver':'external','prior_run_id':null,'prior_input_tokens':9}\n\
         run.started {}\n@tick 8 0 0",
    ),
    (
        "cost.sum",
        "@own\n@turn 0\nturn.completed {'turn_index':0,'stop_reason':'end_turn','input_tokens':3}\n@tick 4 0 0",
    ),
    (
        "cost.remaining",
        "@ext\ncost.tick {'cumulative_input_tokens':0,'cumulative_output_tokens':0,\
         'cumulative_cost_micros_usd':30,'task_budget_micros_usd':20,'task_budget_remaining_micros_usd':10}",
    ),
    (
        "cost.warned",
        "run.queued {'kind':'agent_loop','prior_run_id':null,'budget_warned':true}\nrun.started {}\n\
         cost.budget_warning {'threshold_pct':80,'cumulative_cost_micros_usd':8,'task_budget_micros_usd':10}",
    ),
    ("cost.halted", "@own\n@exceeded\n@turn 0"),
    (
        "approval.elsewhere",
        "@ext\napproval.requested {'approval_id':'a','tool_call_id':'c','kind':'tool','summary':'may I'}\n\
         approval.resolved {'approval_id':'a','decision':'approved','by':'editor','decided_elsewhere':'approved'}",
    ),
    ("append.runtime_only", "@ext\nrun.throttled {'reason':'full','place':1}"),
    (
        "append.experimental_off",
        "@ext\n@turn 0\nassistant.thinking_delta {'turn_index':0,'block_index':0,'delta':'hm'}",
    ),
    ("append.unknown_type", "@ext\next.acme {}"),
    ("progress.external", "@ext\n@turn 0"),
    ("progress.answer", "@own\n@ask a c\n@say a approved"),
];

/// Limits are left out: their breaches would be as long as they are, and are in the tests of limits.
fn breakable() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(|rule| rule.reach != Reach::Limit)
}

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/illegal")
}

/// What is written down of a rule's breach.
fn written(rule: &str) -> String {
    static BLESSED: Once = Once::new();
    BLESSED.call_once(|| {
        if blessing() {
            for rule in breakable() {
                fs::write(testdata().join(format!("{}.jsonl", rule.id)), text(&breach(rule.id))).unwrap();
            }
        }
    });
    let path = testdata().join(format!("{rule}.jsonl"));
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn blessing() -> bool {
    std::env::var_os("RECOUNT_BLESS").is_some()
}

fn text(events: &[Event]) -> String {
    events.iter().map(|event| String::from_utf8(codec::encode(event)).unwrap() + "\n").collect()
}

fn breach(rule: &str) -> Vec<Event> {
    if let Some((_, breach)) = BREACHES.iter().find(|(id, _)| *id == rule) {
        return placed_all(script(breach));
    }
    let mut events = placed_all(script("@own\nuser.message {'text':'hi'}"));
    let last = events.last_mut().unwrap();
    match rule {
        "envelope.sequence" => last.sequence = 3,
        "envelope.ids" => last.task_id = Some("task_01HZX3Q0M0000000000000000A".parse().unwrap()),
        "envelope.time" => last.occurred_ms -= 2,
        "envelope.event_id" => last.event_id = event_id(1),
        _ => panic!("{rule} has no breach"),
    }
    events
}

#[test]
fn every_rule_has_a_breach_file() {
    for rule in breakable() {
        assert!(written(rule.id) == text(&breach(rule.id)), "{}: RECOUNT_BLESS=1 writes it anew", rule.id);
    }
    let mut files: Vec<String> = fs::read_dir(testdata())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut wanted: Vec<String> = breakable().map(|rule| format!("{}.jsonl", rule.id)).collect();
    wanted.sort();
    assert_eq!(files, wanted);
}

#[test]
fn every_breach_is_found_at_its_event_and_nowhere_else() {
    for rule in breakable() {
        let file = written(rule.id);
        let events: Vec<Event> = file.lines().map(|line| codec::decode(line.as_bytes()).unwrap()).collect();
        let (last, before) = events.split_last().unwrap();
        assert_eq!(audit(before), None, "{}: the events before it", rule.id);
        let mut state = State::blank(run_id(), None, None);
        before.iter().for_each(|event| apply(&mut state, event));

        let found = audit(&events).map(|illegal| (illegal.index, illegal.rule));
        match rule.reach {
            Reach::Log => {
                assert_eq!(found, Some((before.len(), rule.id)));
                if !rule.id.starts_with("envelope.") {
                    assert_eq!(judge(&state, last.payload()).map_err(|no| no.rule), Err(rule.id));
                }
            }
            Reach::Command => {
                assert_eq!(found, None, "{}: the log does not show it", rule.id);
                let drafts = vec![Draft { verbatim: None, ..last.body.clone() }];
                let command = match rule.id.split_once('.') {
                    Some(("append", _)) => Command::Append { drafts },
                    _ => Command::Progress { drafts },
                };
                let stamp = recount_event::Stamp { now_ms: last.occurred_ms, entropy: 1 };
                let no = decide(&state, command, stamp).unwrap_err();
                assert_eq!((no.rule, no.index), (Some(rule.id), Some(0)));
                assert_eq!(no.type_name.as_deref(), Some(last.type_name()));
            }
            Reach::Limit => unreachable!("limits are left out"),
        }
    }
}

#[test]
fn the_grammar_page_is_generated_from_the_rules() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/grammar.md");
    if blessing() {
        fs::write(&path, grammar_page()).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == grammar_page(),
        "docs/grammar.md is not what the rules say: RECOUNT_BLESS=1 writes it anew"
    );
}
