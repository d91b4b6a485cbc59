//! Usage that was reported for a turn before it ended.

use super::story::{Story, placed, progress, script};
use crate::Auditor;
use crate::apply::apply;

#[test]
fn reported_usage_counts_for_a_failed_turn_and_is_replaced_for_a_completed_one() {
    let tick = |totals: &str, open: &str| {
        let [input, output, cost] = totals.split(' ').collect::<Vec<_>>()[..] else { panic!("{totals}") };
        format!(
            "cost.tick {{'cumulative_input_tokens':{input},'cumulative_output_tokens':{output},\
             'cumulative_cost_micros_usd':{cost},'open_turn_input_tokens':{open},'open_turn_output_tokens':1,\
             'open_turn_cost_micros_usd':0}}"
        )
    };
    let mut story = Story::of("@own");
    let apply_all = |story: &mut Story, lines: &str| {
        for payload in script(lines) {
            let event = placed(story.state.next_sequence(), payload);
            apply(&mut story.state, &event);
        }
    };
    assert_eq!(story.refuses(progress(&tick("7 1 0", "7"))).rule, Some("cost.sum"), "no turn is open");
    apply_all(&mut story, "@turn 0");
    assert_eq!(story.refuses(progress(&tick("8 1 0", "7"))).rule, Some("cost.sum"), "the sum is wrong");
    story.decide(progress(&tick("7 1 0", "7"))).unwrap();
    apply_all(&mut story, &tick("7 1 0", "7"));
    assert_eq!(story.refuses(progress(&tick("6 1 0", "6"))).rule, Some("cost.falls"));
    let failed = "turn.failed {'turn_index':0,'code':'x','message':'y','will_retry':true}";
    apply_all(&mut story, failed);
    assert_eq!(story.state.totals().input_tokens, 7);
    apply_all(&mut story, "@turn 0");
    apply_all(&mut story, &tick("12 2 0", "5"));
    assert_eq!((story.state.totals().input_tokens, story.state.open_turn_used().input_tokens), (12, 5));
    let completed =
        "turn.completed {'turn_index':0,'stop_reason':'end_turn','input_tokens':6,'output_tokens':1}";
    apply_all(&mut story, completed);
    assert_eq!(story.state.totals().input_tokens, 13);
}

#[test]
fn an_audit_adds_up_the_reported_usage_of_a_turn_independently() {
    let reported = |sum: u64| {
        format!(
            "@own\n@turn 0\ncost.tick {{'cumulative_input_tokens':7,'cumulative_output_tokens':0,\
             'cumulative_cost_micros_usd':0,'open_turn_input_tokens':7}}\n\
             turn.failed {{'turn_index':0,'code':'x','message':'y','will_retry':true}}\n@turn 0\n\
             cost.tick {{'cumulative_input_tokens':{sum},'cumulative_output_tokens':0,\
             'cumulative_cost_micros_usd':0,'open_turn_input_tokens':2}}"
        )
    };
    let read = |lines: &str| {
        let mut auditor = Auditor::default();
        script(lines).into_iter().enumerate().try_for_each(|(at, payload)| {
            auditor.read(&placed(at as u64, payload)).map_err(|found| found.rule)
        })
    };
    assert_eq!(read(&reported(9)), Ok(()));
    assert_eq!(read(&reported(8)), Err("cost.sum"));
}
