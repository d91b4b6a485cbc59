//! Repeated recordings: ids and times are new in each round, and related ids stay related.

use std::collections::BTreeSet;

use recount_aaep_kit::aaep::json::Splitter;
use recount_aaep_kit::aaep::session::{Checker, Options as Rules};
use recount_aaep_kit::replay::ReplayOptions;
use serde_json::Value;

use crate::replay::fixture::{Fixture, StreamReader, at_once, recorded_lines, recording};

/// Rules on durations, which differ in a replay.
const TAKES_TIME: &[&str] = &["prompt.countdown"];

/// The findings of the rules in a file.
fn found(lines: &[String]) -> Vec<(&'static str, usize)> {
    let mut checker = Checker::new(Rules::default());
    let mut splitter = Splitter::new();
    splitter.push(lines.join("\n").as_bytes(), |piece| {
        checker.piece(piece);
    });
    splitter.finish(|piece| {
        checker.piece(piece);
    });
    checker.finish();
    let found = checker.take();
    let timeless = found.iter().filter(|finding| !TAKES_TIME.contains(&finding.rule.id));
    timeless.map(|finding| (finding.rule.id, finding.line)).collect()
}

/// All ids and tokens of some lines.
fn ids(lines: &[String]) -> BTreeSet<String> {
    let names = ["event_id", "session_id", "reply_token", "tool_call_id", "output_id"];
    let values = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values.flat_map(|value| names.map(|name| value[name].as_str().map(str::to_owned))).flatten().collect()
}

async fn texts(reader: &mut StreamReader, count: usize) -> Vec<String> {
    reader.some(count).await.into_iter().map(|frame| frame.data).collect()
}

/// Every recording of the corpus keeps its verdict in each round, and no id is reused.
#[tokio::test]
async fn each_round_is_new_and_is_as_good_as_the_recording() {
    let folder = format!("{}/../../testdata/aaep/sessions", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.starts_with("good."));
    assert!(names.len() > 30);
    for name in names {
        let recording = recording(name.trim_end_matches(".jsonl"));
        let lines = recorded_lines(&recording);
        if lines.is_empty() {
            continue;
        }
        let fixture = Fixture::of(&recording, ReplayOptions { repeat: true, ..at_once() }).await;
        let mut reader = fixture.listen("/events", None).await;
        let rounds = [texts(&mut reader, lines.len()).await, texts(&mut reader, lines.len()).await];
        let verdict = found(&lines);
        let mut known = ids(&lines);
        for round in &rounds {
            assert_eq!(found(round), verdict, "{name}: {round:#?}");
            let new = ids(round);
            assert_eq!(new.len(), ids(&lines).len(), "{name}: what was one id is one id");
            assert!(known.is_disjoint(&new), "{name}");
            known.extend(new);
            for (new, old) in round.iter().zip(&lines) {
                let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                let (new, old) = (value(new), value(old));
                for kept in
                    ["type", "sequence_number", "summary_normal", "chunk", "position", "tool", "producer"]
                {
                    assert_eq!(new[kept], old[kept], "{name}");
                }
                assert!(
                    new["timestamp"].as_str() > old["timestamp"].as_str(),
                    "{name}: it has the current time"
                );
            }
        }
        fixture.replay.stop().await;
    }
}

#[tokio::test]
async fn ids_in_other_places_are_the_same_as_where_they_belong() {
    let line = |id: &str, more: &str| {
        format!(
            "{{\"type\":\"x:y\",\"event_id\":\"{id}\",\"session_id\":\"sess_1\",\"timestamp\":\"2026-05-24T14:22:21.000Z\",{more}}}"
        )
    };
    let recording = [
        line("evt_1", r#""tool_call_id":"call_1","a":"evt_9""#),
        line("evt_2", r#""extra_context":{"of":["evt_1",{"call":"call_1"}],"text":"see evt_1"},"tool_call_id":"toolu-7""#),
    ]
    .join("\n");
    let fixture = Fixture::of(&recording, ReplayOptions { fresh: true, ..at_once() }).await;
    let received = fixture.listen("/events", None).await.rest().await;
    let values: Vec<Value> = received.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let (one, two) = (&values[0], &values[1]);
    assert_ne!(one["event_id"], "evt_1");
    assert_eq!(two["extra_context"]["of"][0], one["event_id"]);
    assert_eq!(two["extra_context"]["of"][1]["call"], one["tool_call_id"]);
    assert_eq!(one["session_id"], two["session_id"]);
    assert_eq!(two["extra_context"]["text"], "see evt_1", "a text is a text");
    assert_eq!(one["a"], "evt_9", "nothing here has this id");
    let odd = two["tool_call_id"].as_str().unwrap();
    assert!(odd.starts_with("toolu-7-") && odd.len() > 8, "what breaks the grammar breaks it still: {odd}");
    fixture.ends().await;
}

#[tokio::test]
async fn a_late_listener_starts_the_round_and_a_returning_one_resumes_it() {
    let recording = recording("good.confirmed");
    let count = recorded_lines(&recording).len();
    // The second round is not over while it waits for a reply.
    let fixture = Fixture::of(&recording, ReplayOptions { repeat: true, hold: true, ..at_once() }).await;
    let mut reader = fixture.listen("/events", None).await;
    let answer = |token: String| {
        format!("{{\"type\":\"confirmation.reply\",\"reply_token\":\"{token}\",\"decision\":\"accept\"}}")
    };
    let prompt = reader.some(4).await.pop().unwrap();
    fixture.post("/messages", &answer(crate::replay::fixture::field(&prompt.data, "reply_token"))).await;
    reader.some(count - 4).await;
    let round = reader.some(4).await;
    assert!(round[0].data.contains("session.started"));
    let mut late = fixture.listen("/events", None).await;
    assert_eq!(late.some(4).await, round);
    let mut back = fixture.listen("/events", round[1].id.as_deref()).await;
    assert_eq!(back.some(2).await, round[2..]);
    // A token of an earlier round has no effect.
    fixture.post("/messages", &answer(crate::replay::fixture::field(&prompt.data, "reply_token"))).await;
    let notices = fixture.notices.lock().unwrap().join("\n");
    assert!(notices.contains("outcome: Unknown"), "{notices}");
    fixture.replay.stop().await;
}
