//! Tests of the examples, alone and together.

#[allow(dead_code, reason = "its program is not what is looked at")]
#[path = "../../examples/ask_permission.rs"]
mod ask_permission;
#[allow(dead_code, reason = "its program is not what is looked at")]
#[path = "../../examples/check_stream.rs"]
mod check_stream;
#[allow(dead_code, reason = "its program is not what is looked at")]
#[path = "../../examples/follow_session.rs"]
mod follow_session;
#[allow(dead_code, reason = "its program is not what is looked at")]
#[path = "../../examples/make_events.rs"]
mod make_events;
#[allow(dead_code, reason = "its program is not what is looked at")]
#[path = "../../examples/produce_session.rs"]
mod produce_session;

use recount_aaep::wire::Decision;

fn made() -> String {
    let mut out = Vec::new();
    make_events::write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn checked(text: &str) -> (usize, String) {
    let mut out = Vec::new();
    let errors = check_stream::check(text.as_bytes(), &mut out).unwrap();
    (errors, String::from_utf8(out).unwrap())
}

fn followed(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    follow_session::follow(text.as_bytes(), &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_session_of_make_events_breaks_no_rule() {
    assert_eq!(checked(&made()), (0, "0 errors\n".into()));
}

#[test]
fn the_session_of_produce_session_breaks_no_rule_for_any_decision() {
    for (decision, called) in [(Some(Decision::Accept), true), (Some(Decision::Reject), false), (None, false)]
    {
        let text = produce_session::lines(decision).unwrap().join("\n");
        assert_eq!(text.contains("tool.invoked"), called);
        let (errors, output) = checked(&text);
        // The missing countdown is a note.
        assert!(errors == 0 && !output.contains("warning"), "{output}");
    }
}

#[test]
fn stream_errors_are_reported() {
    let text = made();
    let without_prompt: Vec<&str> =
        text.lines().filter(|line| !line.contains("awaiting.confirmation")).collect();
    let (errors, output) = checked(&without_prompt.join("\n"));
    assert!(errors > 0 && output.contains("line 7: error tool.unconfirmed: "), "{output}");
    let (errors, output) = checked("{\"cut off");
    assert!(errors == 1 && output.starts_with("line 1: error json.truncated: "), "{output}");
}

//
#[test]
fn a_reader_prints_each_item_once_and_whole() {
    let text = made();
    let output = followed(&text);
    assert_eq!(output[0], "Looking at your savings.");
    assert_eq!(output[2], "You have saved $12,400.", "output is announced in sentences");
    let prompt = output.iter().find(|line| line.starts_with("now: ")).unwrap();
    assert!(prompt.contains("Transfer $500 to savings. The money moves at once"), "{prompt}");
    assert!(prompt.ends_with("reject in 300 seconds."), "{prompt}");
    assert_eq!(followed(&format!("{text}{text}")), output, "a duplicate is announced once");

    let event = text.lines().next().unwrap();
    let stranger = event.replace("aaep:agent.session.started", "zz:thing").replace("evt_0", "evt_9");
    assert_eq!(followed(&format!("not JSON\n{stranger}\n{event}")), [output[0].clone(), output[0].clone()]);
    let words = text.replace("\"coalesce_hint\":\"sentence\"", "\"coalesce_hint\":\"none\"");
    let whole = "You have saved $12,400. Moving $500 more would fill this year's allowance.";
    assert!(followed(&words).contains(&whole.to_owned()), "a chunk without a boundary is held");
}

//
#[test]
fn a_reply_has_the_token_of_its_prompt_and_fits_the_session() {
    let text = made();
    let mut out = Vec::new();
    ask_permission::reply(text.as_bytes(), &mut out, &Decision::Accept).unwrap();
    let reply = String::from_utf8(out).unwrap();
    assert!(reply.contains("\"reply_token\":\"rpl_4f8a2e7d9c1b6a3f\""), "{reply}");
    let with = |reply: &str| -> String {
        let lines = text.lines().flat_map(|line| {
            let is_prompt = line.contains("awaiting.confirmation");
            std::iter::once(line).chain(is_prompt.then_some(reply.trim()))
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(checked(&with(&reply)).0, 0, "{:?}", checked(&with(&reply)));
    let mut out = Vec::new();
    ask_permission::reply(text.as_bytes(), &mut out, &Decision::Reject).unwrap();
    let (errors, output) = checked(&with(&String::from_utf8(out).unwrap()));
    assert!(errors > 0 && output.contains("tool.after_reject"), "{output}");
    let narrow = text.replace("\"reply_token\"", "\"allowed_replies\":[\"reject\"],\"reply_token\"");
    let mut out = Vec::new();
    ask_permission::reply(narrow.as_bytes(), &mut out, &Decision::Accept).unwrap();
    assert_eq!(out, b"", "a reply that the prompt does not allow is not sent");
}
