//! Hooks that come twice, out of order, late or not at all; a server that restarts; bodies that are none.

use recount_event::Code;
use serde_json::{Value, json};

use super::agent::{claude, event_of, events, post, runs, story, tell, the, types, until};
use super::house::{House, check_problem};

#[tokio::test]
async fn what_comes_twice_is_recorded_once() {
    let once = House::memory().await;
    tell(&once, "claude", &story()).await;
    let twice = House::memory().await;
    for body in story() {
        tell(&twice, "claude", &[body.clone(), body]).await;
    }
    // The whole session again, late.
    tell(&twice, "claude", &story()[1..2]).await;
    let (one, two) = (runs(&once).await, runs(&twice).await);
    assert_eq!((one.len(), two.len()), (1, 1), "{two:?}");
    assert_eq!(events(&once, &one[0]).await, events(&twice, &two[0]).await);
}

#[tokio::test]
async fn hooks_that_overtake_each_other_give_the_same_account() {
    let house = House::memory().await;
    let mut bodies = story();
    // The second piece before the first, the outcome before the call, the end before the outcome of another.
    bodies.swap(2, 3);
    bodies.swap(4, 5);
    let late = claude(
        "PostToolUse",
        Some("p-1"),
        json!({"tool_name": "Read", "tool_input": {"file_path": "/a"}, "tool_use_id": "toolu_02", "tool_response": "x"}),
    );
    let call = claude(
        "PreToolUse",
        Some("p-1"),
        json!({"tool_name": "Read", "tool_input": {"file_path": "/a"}, "tool_use_id": "toolu_02"}),
    );
    bodies.insert(6, call);
    bodies.push(late);
    tell(&house, "claude", &bodies).await;
    let runs = runs(&house).await;
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("finished")), "{runs:?}");
    let all = events(&house, &runs[0]).await;
    let texts: Vec<&Value> = all
        .iter()
        .filter(|(kind, _)| kind == "assistant.text_complete")
        .map(|(_, data)| &data["text"])
        .collect();
    assert_eq!(texts, ["I will look.", "a and b"]);
    let done = all.iter().filter(|(kind, _)| kind == "tool.completed").count();
    assert_eq!(done, 2, "{:?}", types(&all));
    assert!(!types(&all).contains(&"ext.recount.gap"));
}

#[tokio::test]
async fn a_lost_end_is_said_and_a_call_without_an_outcome_is_closed() {
    let house = House::memory().await;
    let bodies = story();
    tell(&house, "claude", &bodies[..4]).await;
    tell(&house, "claude", &[claude("UserPromptSubmit", Some("p-2"), json!({"prompt": "next"}))]).await;
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "sleep"}, "tool_use_id": "t9"});
    tell(
        &house,
        "claude",
        &[
            claude("PreToolUse", Some("p-2"), call),
            claude("Stop", Some("p-2"), json!({"stop_hook_active": false})),
        ],
    )
    .await;
    // Nothing more comes: after a while the run ends by itself.
    let runs = until("the second run has ended", async || {
        let runs = runs(&house).await;
        (runs.len() == 2 && runs[1]["status"] == "finished").then_some(runs)
    })
    .await;
    let first = events(&house, &runs[0]).await;
    assert_eq!(the(&first, "ext.recount.gap")["reason"], "stop_lost");
    assert_eq!(the(&first, "run.finished")["final_status"], "end_not_seen");
    let second = events(&house, &runs[1]).await;
    assert_eq!(the(&second, "tool.refused")["code"], "cancelled");
}

#[tokio::test]
async fn a_server_that_restarts_goes_on_with_the_run_and_says_that_it_was_away() {
    let data = tempfile::tempdir().unwrap();
    let bodies = story();
    for cut in [2, 3, 5, 6] {
        let folder = data.path().join(cut.to_string());
        std::fs::create_dir(&folder).unwrap();
        let house = House::sqlite(&folder).await;
        tell(&house, "claude", &bodies[..cut]).await;
        house.running.stop().await;
        let house = House::sqlite(&folder).await;
        // The last one before is sent again, as a client does that got no answer.
        tell(&house, "claude", &bodies[cut - 1..]).await;
        let runs = runs(&house).await;
        assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("finished")), "cut at {cut}: {runs:?}");
        let all = events(&house, &runs[0]).await;
        assert_eq!(the(&all, "ext.recount.gap")["reason"], "recorder_restarted");
        let count = |kind: &str| all.iter().filter(|(known, _)| known == kind).count();
        assert_eq!(
            (count("user.message"), count("tool.completed"), count("assistant.text_complete")),
            (1, 1, 2),
            "cut at {cut}: {:?}",
            types(&all)
        );
        house.running.stop().await;
    }
}

#[tokio::test]
async fn what_is_no_hook_is_refused_by_name_and_records_nothing() {
    let house = House::memory().await;
    let json_type = [("content-type", "application/json")];
    let body = claude("Stop", None, json!({})).to_string();
    let nameless = r#"{"hook_event_name":"Stop"}"#;
    for (target, body, code) in [
        ("/hooks/claude/Stop", "{", Code::BodyMalformed),
        ("/hooks/claude/Stop", "[]", Code::BodyMalformed),
        ("/hooks/claude/Stop", nameless, Code::BodyMalformed),
        ("/hooks/nobody/Stop", body.as_str(), Code::BodyMalformed),
        ("/hooks/claude/Stop?ask=2", body.as_str(), Code::ParameterInvalid),
        ("/hooks/claude/Stop?wait_seconds=0", body.as_str(), Code::ParameterInvalid),
        ("/hooks/claude/Stop?asks=1", body.as_str(), Code::ParameterInvalid),
    ] {
        let reply = house.ask("POST", target, &json_type, Some(body.as_bytes())).await;
        check_problem(&reply, code, target);
    }
    let plain = house
        .ask("POST", "/hooks/claude/Stop", &[("content-type", "text/plain")], Some(body.as_bytes()))
        .await;
    check_problem(&plain, Code::MediaTypeUnsupported, "a type that pages may send");
    assert!(runs(&house).await.is_empty());
}

#[tokio::test]
async fn a_hook_costs_little_more_than_an_empty_handler() {
    let house = House::memory().await;
    let mut took = Vec::new();
    for n in 0..60 {
        let body = claude(
            "MessageDisplay",
            Some("p"),
            json!({"message_id": "m", "index": n, "final": false, "delta": "x"}),
        );
        let target = format!("/hooks/claude/{}", event_of(&body));
        let text = body.to_string();
        let start = recount_world::moment();
        assert_eq!(house.get("/healthz").await.status, 200);
        let empty = start.elapsed();
        let start = recount_world::moment();
        assert_eq!(house.post(&target, &text).await.status, 200);
        took.push(start.elapsed().saturating_sub(empty));
    }
    took.sort();
    println!("a hook beyond an empty handler: median {:?}, p99 {:?} of {}", took[30], took[58], took.len());
    let all = events(&house, &runs(&house).await[0]).await;
    assert_eq!(all.iter().filter(|(kind, _)| kind == "assistant.text_delta").count(), 60);
    let doubled = claude(
        "MessageDisplay",
        Some("p"),
        json!({"message_id": "m", "index": 3, "final": false, "delta": "x"}),
    );
    assert_eq!(post(&house, "claude", "", &doubled).await.text(), "{}");
}

#[tokio::test]
async fn what_belongs_to_a_prompt_that_has_ended_opens_no_run_and_is_in_the_next_one() {
    let house = House::memory().await;
    tell(&house, "claude", &story()).await;
    let late = claude("SubagentStop", Some("p-1"), json!({"agent_id": "sub-9", "agent_type": "Explore"}));
    tell(&house, "claude", &[late.clone(), late]).await;
    assert_eq!(runs(&house).await.len(), 1, "no run without a prompt");
    let next = claude("UserPromptSubmit", Some("p-2"), json!({"prompt": "and now?"}));
    tell(&house, "claude", &[next]).await;
    let all = runs(&house).await;
    assert_eq!(all.len(), 2);
    let newest = all.iter().find(|run| run["title"] == "and now?").unwrap();
    let told = events(&house, newest).await;
    let ends: Vec<_> = told.iter().filter(|(kind, _)| kind == "ext.claude.subagent_stop").collect();
    assert_eq!(ends.len(), 1, "{told:?}");
    assert_eq!(ends[0].1["raw"]["agent_id"], "sub-9");
}
