//! Further reports of our own performer: thoughts, and a summary in place of the past.

use recount_event::Code;

use super::story::{Story, append, drafts, progress};
use crate::{Call, CancelledBy, Command};

#[test]
fn the_models_thoughts_are_blocks_of_its_turn() {
    let thinks = |block: u64, rest: &str| {
        format!("assistant.thinking_{rest}").replace("N", &format!("'turn_index':0,'block_index':{block}"))
    };
    let mut story = Story::of("@own\n@turn 0");
    story.does(progress(&thinks(0, "delta {N,'delta':'Hm'}")));
    assert_eq!(story.state.open_text(0, 0).as_deref(), Some("Hm"));
    // A turn does not end while a thought is open, well or badly.
    let failed = "turn.failed {'turn_index':0,'code':'overloaded','message':'m','will_retry':true}";
    for ending in ["@turned 0", failed] {
        assert_eq!(story.refuses(progress(ending)).rule, Some("turn.text_open"), "{ending}");
    }
    // Thoughts and texts share their indexes, and a thought is its pieces, joined.
    let text = "assistant.text_delta {'turn_index':0,'block_index':0,'delta':'Hi'}";
    assert_eq!(story.refuses(progress(text)).rule, Some("text.kind"));
    assert_eq!(story.refuses(progress(&thinks(0, "complete {N,'text':'Oh'}"))).rule, Some("text.joined"));
    // What is cut is cut as a thought, and the turn may be tried again under new indexes.
    let mut cut = story.state.cut_texts();
    assert_eq!(cut.len(), 1);
    assert_eq!(cut[0].type_name(), "assistant.thinking_complete");
    assert_eq!(cut[0].write(), r#"{"turn_index":0,"block_index":0,"text":"Hm","aborted":true}"#);
    let mut all = vec![cut.remove(0).into()];
    all.extend(drafts(failed));
    story.does(Command::Progress { drafts: all });
    story.does(progress("@turn 0"));
    assert_eq!(story.refuses(progress(&thinks(0, "complete {N,'text':'Hm'}"))).rule, Some("text.closed"));
    story.does(progress(&thinks(1, "complete {N,'text':'whole'}")));
    story.does(progress("assistant.text_complete {'turn_index':0,'block_index':2,'text':'Hi'}\n@turned 0"));
    // Who is cancelled in the middle of a thought closes it first.
    let mut story = Story::of("@own\n@turn 0");
    story.does(progress(&thinks(0, "delta {N,'delta':'Hm'}")));
    let cancel = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
    assert_eq!(story.does(cancel), ["assistant.thinking_complete", "turn.failed", "run.cancelled"]);
    // A producer may not: the type is experimental.
    let external = Story::of("@ext\n@turn 0");
    let no = external.refuses(append(&thinks(0, "complete {N,'text':'Hm'}")));
    assert_eq!(no.rule, Some("append.experimental_off"));
}

#[test]
fn a_compaction_is_accepted_between_turns_of_an_active_run() {
    let compacted = "context.compacted {'through_run_id':'run_01HZX3Q0M0000000000000000A',\
                     'through_sequence':1,'summary':'they spoke'}";
    let by_case: &[(&str, &str, Option<&str>)] = &[
        ("before the first turn", "@own", None),
        ("between turns", "@own\n@turn 0\n@turned 0", None),
        ("in a turn, before the model speaks", "@own\n@turn 0", None),
        ("before the run began", "run.queued {'kind':'agent_loop','prior_run_id':null}", Some("start.first")),
        (
            "while it waits",
            "@own\n@turn 0\n@propose d\n@turned 0\n@client d\n@wait client_tool d",
            Some("wait.quiet"),
        ),
    ];
    for (case, text, rule) in by_case {
        match rule {
            None => assert_eq!(Story::of(text).does(progress(compacted)), ["context.compacted"], "{case}"),
            Some(_) => assert_eq!(Story::of(text).refuses(progress(compacted)).rule, *rule, "{case}"),
        }
    }
    assert_eq!(Story::of("@own\n@finished").refuses(progress(compacted)).code, Code::RunEnded);
    let external = Story::of("@ext").refuses(append(compacted));
    assert_eq!(external.rule, Some("append.runtime_only"));
}

#[test]
fn an_open_call_is_masked_when_its_proposal_names_masked_places() {
    let mut story = Story::of("@own\n@turn 0\n@propose plain");
    let masked = "assistant.tool_call_proposed {'turn_index':0,'tool_call_id':'masked','tool_name':'tool',\
        'input':{'key':'****'},'redacted_paths':['/input/key']}";
    story.does(progress(masked));
    let is_masked = |story: &Story, id| story.state.call(id).map(Call::is_masked);
    assert_eq!((is_masked(&story, "plain"), is_masked(&story, "masked")), (Some(false), Some(true)));
    story.does(progress("@turned 0\n@invoke masked"));
    assert_eq!(is_masked(&story, "masked"), Some(true), "it runs");
    story.does(progress("@complete masked"));
    assert_eq!(is_masked(&story, "masked"), None);
    story.does(progress("@invoke unproposed"));
    assert_eq!(is_masked(&story, "unproposed"), Some(false));
}
