//! The cost of checking one more event late in a long run: counted, not timed.

use super::story::{Story, payload, placed, progress, script};
use crate::Auditor;
use crate::apply::apply;
use crate::state::State;

/// How many things a copy of the state has to touch.
fn copied(state: &State) -> usize {
    let blocks: usize = state
        .turns
        .open
        .iter()
        .flat_map(|turn| turn.blocks.values())
        .map(|block| 1 + block.text.links())
        .sum();
    state.calls.len()
        + state.prompts.len()
        + state.cost.warned.len()
        + state.turns.closed_blocks.len()
        + blocks
}

/// A run with that number of settled calls and answered questions, and one open text.
fn long_run(calls: u64, text_bytes: usize) -> State {
    let mut story = Story::of("@own");
    let mut add = |type_name: &str, data: String| {
        let event = placed(story.state.next_sequence(), payload(type_name, &data));
        apply(&mut story.state, &event);
    };
    for n in 0..calls {
        add("tool.invoked", format!("{{'tool_call_id':'call_{n}','tool_name':'t'}}"));
        add("clarification.requested", format!("{{'clarification_id':'q{n}','question':'?'}}"));
        add("clarification.answered", format!("{{'clarification_id':'q{n}','response':1,'by':'ann'}}"));
        add("tool.completed", format!("{{'tool_call_id':'call_{n}','tool_name':'t'}}"));
    }
    add("turn.started", "{'turn_index':0}".into());
    let piece = "x".repeat(1_000);
    for _ in 0..text_bytes / 1_000 {
        add("assistant.text_delta", format!("{{'turn_index':0,'block_index':0,'delta':'{piece}'}}"));
    }
    story.state
}

#[test]
fn a_copy_of_a_long_run_is_as_small_as_one_of_a_short_run() {
    let (short, long) = (long_run(10, 0), long_run(30_000, 0));
    assert_eq!(copied(&short), copied(&long));
    assert!(long.next_sequence() > 100_000);

    let talkative = long_run(10, 1 << 20);
    assert!(copied(&talkative) < 100, "{} for a text of 1 MiB", copied(&talkative));
}

#[test]
fn an_audit_keeps_only_the_names_of_closed_items() {
    let mut auditor = Auditor::default();
    let mut sequence = 0;
    let mut read = |auditor: &mut Auditor, lines: &str| {
        for payload in script(lines) {
            auditor.read(&placed(sequence, payload)).unwrap();
            sequence += 1;
        }
    };
    read(&mut auditor, "@ext");
    for n in 0..5_000 {
        let piece = format!("assistant.text_delta {{'turn_index':{n},'block_index':0,'delta':'{n}'}}");
        read(&mut auditor, &format!("@turn {n}\n{piece}\n{piece}"));
        read(
            &mut auditor,
            &format!(
                "assistant.text_complete {{'turn_index':{n},'block_index':0,'text':'{n}{n}'}}\n@turned {n}"
            ),
        );
        read(&mut auditor, &format!("@ask a{n} c{n}\n@say a{n} approved\n@invoke c{n}\n@complete c{n}"));
        read(&mut auditor, &format!("@ask b{n} d{n}\n@say b{n} rejected\n@tick {n} {n} {n}"));
    }
    assert_eq!(auditor.kept(), (1, 5_000 * 4), "one block, four names a round");
    let late = placed(sequence, script("@invoke c7").remove(0));
    let found = auditor.read(&late).unwrap_err();
    assert_eq!((found.index as u64, found.rule), (sequence, "call.invoked_once"));
    assert_eq!(auditor.read(&placed(0, script("@finished").remove(0))), Err(found), "the first stays");
}

#[test]
fn a_batch_shares_the_old_state() {
    let state = long_run(2_000, 500_000);
    let story = Story { state, events: Vec::new(), now_ms: 0 };
    let events =
        story.decide(progress("assistant.text_delta {'turn_index':0,'block_index':0,'delta':'a'}")).unwrap();
    assert_eq!(events.len(), 1);
    let no = story.refuses(progress("@invoke call_1999"));
    assert_eq!(no.message, "call call_1999 was settled by tool.completed: use a new id");
}
