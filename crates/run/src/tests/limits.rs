//! Input beyond a limit is refused by its rule, and the run can still be ended.

use recount_event::Code;

use super::story::{Story, append, drafts, fid, json};
use crate::{CancelledBy, Command, limits};

#[test]
fn a_run_at_its_limits_refuses_input_and_can_still_end() {
    let mut story = Story::of("@ext\n@turn 0");
    let many = |n: usize, line: &dyn Fn(usize) -> String| (0..n).map(|i| line(i) + "\n").collect::<String>();
    story.does(append(&many(limits::CALLS_OPEN_MAX, &|n| format!("@propose c{n}"))));
    let no = story.refuses(append("@propose one_more"));
    assert_eq!((no.code, no.index, no.rule), (Code::LimitReached, Some(0), Some("limit.calls_open")));
    assert_eq!(no.message, "256 calls are open, the maximum: settle one before call one_more");
    let limited = |story: &Story, command: Command, rule: &str| {
        let no = story.refuses(command);
        assert_eq!((no.code, no.rule), (Code::LimitReached, Some(rule)), "{}", no.message);
    };

    story.does(append(&many(limits::PROMPTS_OPEN_MAX, &|n| format!("@question q{n} c{n}"))));
    limited(&story, append("@question one_more c0"), "limit.prompts_open");

    let delta = |n: usize, text: &str| {
        format!("assistant.text_delta {{'turn_index':0,'block_index':{n},'delta':'{text}'}}")
    };
    story.does(append(&many(limits::BLOCKS_OPEN_MAX, &|n| delta(n, "a"))));
    limited(&story, append(&delta(99, "a")), "limit.blocks_open");
    let piece = "x".repeat(limits::TEXT_BLOCK_BYTES_MAX - 1);
    story.does(append(&delta(0, &piece)));
    limited(&story, append(&delta(0, "a")), "limit.text_block");

    let long = Command::Cancel { by: CancelledBy::System, reason: "x".repeat(limits::WORDS_BYTES_MAX + 1) };
    limited(&story, long, "limit.words");
    let batch = Command::Append { drafts: vec![drafts("@turn 5").remove(0); limits::BATCH_DRAFTS_MAX + 1] };
    limited(&story, batch, "limit.batch");
    let response = json(&format!("'{}'", "x".repeat(limits::RESPONSE_BYTES_MAX)));
    let long = Command::AnswerClarification {
        clarification_id: fid("q0"),
        response,
        by: "ann".into(),
        blocks: None,
        config: None,
    };
    limited(&story, long, "limit.response");

    // What takes a long run to reach, reached by decree.
    let mut long = Story::of("@ext\n@turn 0");
    long.state.calls_seen = limits::CALLS_MAX;
    limited(&long, append("@propose c"), "limit.calls");
    long.state.prompts_seen = limits::PROMPTS_MAX;
    limited(
        &long,
        append("clarification.requested {'clarification_id':'q','question':'?'}"),
        "limit.prompts",
    );
    long.state.turns.started = limits::TURNS_MAX;
    limited(&long, append("@turned 0\n@turn 1"), "limit.turns");
    long.state.turns.closed_blocks = (0..limits::BLOCKS_PER_TURN_MAX as u64).collect();
    limited(&long, append(&delta(5_000, "a")), "limit.blocks_per_turn");
    long.state.cost.warned = (0..limits::WARNINGS_MAX as u64).collect();
    let warning =
        "cost.budget_warning {'threshold_pct':200,'cumulative_cost_micros_usd':8,'task_budget_micros_usd':9}";
    limited(&long, append(warning), "limit.warnings");

    let end = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
    assert_eq!(story.does(end).last().map(String::as_str), Some("run.cancelled"));
}
