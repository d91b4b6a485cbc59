//! Secrets do not reach the log: complete, in pieces, over batches and restarts; and masked paths are listed.

use std::sync::Arc;

use recount_engine::{Engine, NewRun, NewSetup, Redactor, Setup};
use recount_event::digest::call_digest;
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Event, ForeignId, Json, Payload, RunId, SessionId};
use recount_log::{Append, Guard, MemoryStore, RowPut};
use recount_redact::Secret;
use recount_run::{CancelledBy, Command};
use recount_world::World;
use serde_json::{Value, json};

use crate::scene::{Bare, Scene, batch_id, code, drafts};

/// Assembled here, so that secret scanners do not report it.
fn key() -> String {
    format!("sk-ant-{}", "api03-Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0")
}

fn secret() -> String {
    key()["sk-ant-".len()..].to_owned()
}

fn stars() -> String {
    "*".repeat(secret().len())
}

fn data(event: &Event) -> Value {
    serde_json::from_str(event.body.verbatim.as_deref().unwrap()).unwrap()
}

async fn stored_text(scene: &Scene, run: RunId) -> String {
    let (page, _) = scene.engine.read().read_run(run, None, 1000).await.unwrap();
    page.iter().map(|(_, bytes)| std::str::from_utf8(bytes).unwrap()).collect::<Vec<_>>().join("\n")
}

async fn last(scene: &Scene, run: RunId) -> Value {
    data(scene.events(run).await.last().unwrap())
}

fn delta(text: &str) -> String {
    json!({"turn_index": 0, "block_index": 0, "delta": text}).to_string()
}

fn complete(text: &str) -> String {
    json!({"turn_index": 0, "block_index": 0, "text": text}).to_string()
}

const TURN: (&str, &str) = ("turn.started", r#"{"turn_index":0}"#);
const DELTA: &str = "assistant.text_delta";
const COMPLETE: &str = "assistant.text_complete";

#[tokio::test(start_paused = true)]
async fn a_secret_anywhere_in_an_event_is_masked_and_its_path_is_listed() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let (key, masked) = (key(), format!("sk-ant-{}", stars()));
    let sent = json!({"a/b": [1.50, {"deep": format!("key {key}, yes")}], "n": 1, &key: "x"}).to_string();
    let escaped = sent.replace("sk-ant-", "\\u0073k-\\u0061nt-");
    scene.report(run, 1, &[("ext.test.note", &sent), ("ext.test.note", &escaped)]).await.unwrap();
    scene
        .report(run, 2, &[("user.message", &json!({"text": key, "later": {"t": key}}).to_string())])
        .await
        .unwrap();
    let events = scene.events(run).await;
    for event in &events[2..4] {
        let stored = data(event);
        assert_eq!(stored["a/b"][1]["deep"], format!("key {masked}, yes"));
        assert_eq!(stored[&masked], "x");
        let mut paths: Vec<&str> =
            stored["redacted_paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["/a~1b/1/deep", &format!("/{masked}")]);
    }
    let Payload::UserMessage(message) = events[4].payload() else { panic!("{:?}", events[4]) };
    assert_eq!(message.text, masked, "the rules and the catalogue see the stored text");
    assert_eq!(data(&events[4])["redacted_paths"], json!(["/later/t", "/text"]));
    assert!(!stored_text(&scene, run).await.contains(&secret()));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn data_without_secrets_is_stored_unchanged() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let sent = r#"{"exact":1.00,"z":"\u00e9\/","a":"0123456789abcdef0123456789abcdef01234567"}"#;
    scene.report(run, 1, &[("ext.test.note", sent)]).await.unwrap();
    assert_eq!(scene.events(run).await.last().unwrap().body.verbatim.as_deref(), Some(sent));
}

#[tokio::test(start_paused = true)]
async fn a_secret_split_over_any_pieces_is_masked() {
    let text = format!("The key is {} and no more.", key());
    let masked = text.replace(&secret(), &stars());
    for size in [1, 2, 3, 7, 11, 20, 64] {
        for batched in [false, true] {
            for restarts in [false, true] {
                let mut scene = Scene::new().await;
                let run = scene.start().await;
                let deltas: Vec<String> = text
                    .as_bytes()
                    .chunks(size)
                    .map(|piece| delta(std::str::from_utf8(piece).unwrap()))
                    .collect();
                scene.report(run, 1, &[TURN]).await.unwrap();
                let mut seq = 2;
                for group in deltas.chunks(if batched { 5 } else { 1 }) {
                    let batch: Vec<(&str, &str)> =
                        group.iter().map(|delta| (DELTA, delta.as_str())).collect();
                    scene.report(run, seq, &batch).await.unwrap();
                    seq += 1;
                    if restarts && seq == 8 {
                        scene.reopen().await;
                    }
                }
                scene.report(run, seq, &[(COMPLETE, &complete(&text))]).await.unwrap();
                let events = scene.events(run).await;
                let joined: String = events
                    .iter()
                    .filter_map(|event| match event.payload() {
                        Payload::AssistantTextDelta(delta) => Some(delta.delta.as_str()),
                        _ => None,
                    })
                    .collect();
                assert_eq!((&joined, events.len()), (&masked, 4 + deltas.len()), "pieces of {size}");
                assert_eq!(
                    last(&scene, run).await,
                    json!({"turn_index": 0, "block_index": 0, "text": masked, "redacted_paths": ["/text"]})
                );
                scene.check().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_text_must_equal_its_pieces() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let text = format!("{} is the key", key());
    let two = [TURN, (DELTA, &delta(&text[..20])), (DELTA, &delta(&text[20..]))];
    scene.report(run, 1, &two).await.unwrap();
    let other = format!("{}!", &text[..text.len() - 1]);
    assert_eq!(code(scene.report(run, 2, &[(COMPLETE, &complete(&other))]).await), Code::EventRefused);
    assert_eq!(code(scene.report(run, 2, &[(COMPLETE, &complete("short"))]).await), Code::EventRefused);
    let stars = text.replace(&secret(), &stars());
    for whole in [&text, &stars] {
        // A producer may send what it read from the log.
        let scene = Scene::new().await;
        let run = scene.start().await;
        scene.report(run, 1, &two).await.unwrap();
        scene.report(run, 2, &[(COMPLETE, &complete(whole))]).await.unwrap();
        assert_eq!(last(&scene, run).await["text"], stars.as_str());
    }
    // In one batch, and without pieces.
    scene
        .report(
            run,
            2,
            &[
                (DELTA, &delta("")),
                (COMPLETE, &complete(&text)),
                (COMPLETE, &json!({"turn_index": 0, "block_index": 1, "text": text}).to_string()),
            ],
        )
        .await
        .unwrap();
    assert_eq!(last(&scene, run).await["text"], stars.as_str());
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn output_of_commands_is_masked_with_its_offsets_in_place() {
    use base64::Engine as _;
    let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let scene = Scene::new().await;
    let run = scene.start().await;
    let key = key();
    let (head, tail) = key.split_at(16);
    let output = |stream: &str, data: &str, offset: usize| {
        json!({"tool_call_id": "c", "stream": stream, "data": data, "byte_offset": offset}).to_string()
    };
    let chunk = "tool.shell.output_chunk";
    let bytes = [b"\xff\xfe", tail.as_bytes(), b"\xff"].concat();
    let coded = json!({"tool_call_id": "c", "stream": "stderr", "data": base64(&bytes), "byte_offset": 0, "encoding": "base64"});
    scene
        .report(
            run,
            1,
            &[
                ("tool.invoked", r#"{"tool_call_id":"c","tool_name":"sh"}"#),
                ("tool.shell.command", r#"{"tool_call_id":"c","argv":["env"],"cwd":"/"}"#),
                (chunk, &output("stdout", &format!("A={head}"), 0)),
            ],
        )
        .await
        .unwrap();
    // The other stream is another text.
    scene.report(run, 2, &[(chunk, &coded.to_string())]).await.unwrap();
    scene.report(run, 3, &[(chunk, &output("stdout", tail, 2 + head.len()))]).await.unwrap();
    let known = [b"\xfeA=", key.as_bytes(), b"\xff"].concat();
    let coded = json!({"tool_call_id": "c", "stream": "stderr", "data": base64(&known), "byte_offset": bytes.len(), "encoding": "base64"});
    scene.report(run, 4, &[(chunk, &coded.to_string())]).await.unwrap();
    let exit = json!({"tool_call_id": "c", "exit_code": 0, "signal": null, "stdout_bytes": 2 + key.len(), "stderr_bytes": bytes.len() + known.len(), "truncated": false});
    scene.report(run, 5, &[("tool.shell.exited", &exit.to_string())]).await.unwrap();
    let events = scene.events(run).await;
    assert_eq!(data(&events[4])["data"], format!("A=sk-ant-{}", "*".repeat(head.len() - 7)));
    assert_eq!(data(&events[6])["data"], "*".repeat(tail.len()));
    assert_eq!(data(&events[5])["data"], base64(&bytes));
    let masked = [b"\xfeA=sk-ant-", stars().as_bytes(), b"\xff"].concat();
    assert_eq!(data(&events[7])["data"], base64(&masked));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_approval_request_has_the_digest_of_the_masked_call() {
    for in_one_batch in [false, true] {
        for restarts in [false, true] {
            let mut scene = Scene::new().await;
            let run = scene.start().await;
            let input = json!({"command": format!("curl -H x-api-key:{}", key())}).to_string();
            let proposed = format!(
                r#"{{"turn_index":0,"tool_call_id":"c","tool_name":"sh","input":{input},"redacted_paths":["/input/own"]}}"#
            );
            let approval_data = json!({"approval_id": "a", "tool_call_id": "c", "kind": "sh", "summary": "s", "call_digest": call_digest("sh", &input)});
            let (proposed, approval_data) =
                (("assistant.tool_call_proposed", proposed.as_str()), approval_data.to_string());
            if in_one_batch {
                scene
                    .report(run, 1, &[TURN, proposed, ("approval.requested", &approval_data)])
                    .await
                    .unwrap();
            } else {
                scene.report(run, 1, &[TURN, proposed]).await.unwrap();
                if restarts {
                    scene.reopen().await;
                }
                scene.report(run, 2, &[("approval.requested", &approval_data)]).await.unwrap();
            }
            let events = scene.events(run).await;
            let Payload::AssistantToolCallProposed(call) = events[3].payload() else {
                panic!("{:?}", events[3])
            };
            assert_eq!(
                call.redacted_paths.as_deref(),
                Some(&["/input/own".to_owned(), "/input/command".to_owned()][..])
            );
            assert!(!call.input.text().contains(&secret()));
            let request = data(&events[4]);
            assert_eq!(request["call_digest"], call_digest("sh", call.input.text()));
            assert_eq!(request["redacted_paths"], json!(["/call_digest"]));
            let wrong = json!({"approval_id": "b", "tool_call_id": "d", "kind": "sh", "summary": "s", "call_digest": "blake3:00"}).to_string();
            let other = r#"{"turn_index":0,"tool_call_id":"d","tool_name":"sh","input":{}}"#;
            let refused = scene
                .report(
                    run,
                    3 - u64::from(in_one_batch),
                    &[("assistant.tool_call_proposed", other), ("approval.requested", &wrong)],
                )
                .await;
            assert_eq!(
                code(refused),
                Code::EventRefused,
                "of a call that was not masked the digest must be right"
            );
            scene.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_batch_with_secrets_is_recognized() {
    let mut scene = Scene::new().await;
    let run = scene.start().await;
    let (one, two) = (delta("sk-ant-api03-abcd"), delta("EFGH1234efgh5678"));
    scene.report(run, 1, &[TURN, (DELTA, &one)]).await.unwrap();
    let first = scene.report(run, 2, &[(DELTA, &two)]).await.unwrap();
    assert_eq!(last(&scene, run).await["delta"], "*".repeat(16));
    scene.report(run, 3, &[(DELTA, &delta(" on"))]).await.unwrap();
    for _ in 0..2 {
        assert_eq!(scene.report(run, 2, &[(DELTA, &two)]).await.unwrap(), first);
        // Other events are detected by their form only.
        assert_eq!(code(scene.report(run, 2, &[(DELTA, &delta("other"))]).await), Code::ProducerReused);
        assert_eq!(code(scene.report(run, 2, &[(DELTA, &two), (DELTA, &two)]).await), Code::ProducerReused);
        scene.reopen().await;
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn texts_of_people_titles_and_names_are_masked() {
    let scene = Scene::new().await;
    let key = key();
    let queued = Queued {
        title: Some(format!("use {key}")),
        request_text: Some(key.clone()),
        ..Queued::new(RunKind::External)
    };
    let (task, run) =
        scene.engine.write().create_task(Some(format!("with {key}")), Some(queued)).await.unwrap();
    let run = run.unwrap();
    assert_eq!(task.title.unwrap(), format!("with sk-ant-{}", stars()));
    let events = scene.events(run).await;
    assert_eq!(data(&events[0])["redacted_paths"], json!(["/title", "/request_text"]));
    let approval_data = r#"{"approval_id":"a9","tool_call_id":"c9","kind":"k","summary":"s"}"#;
    let question = ("clarification.requested", r#"{"clarification_id":"q9","question":"Which key?"}"#);
    scene
        .report(run, 0, &[("run.started", "{}"), question, ("approval.requested", approval_data)])
        .await
        .unwrap();
    let answer = Command::AnswerClarification {
        clarification_id: ForeignId::parse("q9").unwrap(),
        response: Json::of(&format!("this\n{key}")).unwrap(),
        blocks: Some(
            [json!({"type": "text", "text": "this"}), json!({"type": "text", "text": key})]
                .map(|block| Json::of(&block).unwrap())
                .into(),
        ),
        by: "operator".into(),
        config: None,
    };
    scene.engine.write().submit(run, answer).await.unwrap();
    let answered = last(&scene, run).await;
    assert_eq!(answered["blocks"][1]["text"], format!("sk-ant-{}", stars()));
    assert_eq!(answered["redacted_paths"], json!(["/blocks/1/text", "/response"]));
    let answer = Command::ResolveApproval {
        approval_id: ForeignId::parse("a9").unwrap(),
        approve: true,
        by: "operator".into(),
        comment: Some(format!("take {key}")),
        remember: None,
    };
    scene.engine.write().submit(run, answer).await.unwrap();
    let resolved = last(&scene, run).await;
    assert_eq!(resolved["comment"], format!("take sk-ant-{}", stars()));
    assert_eq!(resolved["redacted_paths"], json!(["/comment"]));
    let cancel = Command::Cancel { by: CancelledBy::Operator, reason: format!("leaked {key}") };
    scene.engine.write().submit(run, cancel).await.unwrap();
    let cancelled = last(&scene, run).await;
    assert_eq!(
        (&cancelled["reason"], &cancelled["redacted_paths"]),
        (&json!(format!("leaked sk-ant-{}", stars())), &json!(["/reason"]))
    );
    scene.engine.admin().prune(run, None, &format!("because of {key}")).await.unwrap();
    assert!(!stored_text(&scene, run).await.contains(&secret()));
    let row = scene.engine.catalogue().run(run).await.unwrap().unwrap();
    assert!(!format!("{row:?}").contains(&secret()) && row.title.unwrap().contains("sk-ant-**"));
    scene.check().await;
}

/// Replaces a text in the row of a run.
async fn rewrite_run_row(scene: &Scene, run: RunId, text: &str, other: &str) {
    let store = scene.disk.store();
    let key = format!("default/{run}");
    let row = store.row("catalogue.runs", &key).await.unwrap().unwrap();
    let value = String::from_utf8(row.value.to_vec()).unwrap().replace(text, other);
    let put =
        RowPut { space: "catalogue.runs".into(), key: row.key, guard: Guard::Any, value: Some(value.into()) };
    store.append(Append { rows: vec![put], ..Append::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_session_cannot_be_read_does_not_switch_masking_off() {
    let mut scene = Scene::new().await;
    let (option, value) = ("key".to_owned(), "correct-horse-battery-staple-41".to_owned());
    let setup = Setup { agent: "clerk".into(), secrets: [option.clone()].into(), ..Setup::default() };
    let new = NewSetup { setup, secrets: [(option, value.clone())].into(), ..NewSetup::default() };
    let session: SessionId = scene.engine.write().create_setup(new, None).await.unwrap().id;
    let run = scene.queue_in(session).await.unwrap();
    let note = json!({"text": value}).to_string();
    scene.report(run, 0, &[("run.started", "{}"), ("user.message", &note)]).await.unwrap();
    assert!(!stored_text(&scene, run).await.contains(&value));
    rewrite_run_row(&scene, run, &session.to_string(), "no-session").await;
    scene.reopen().await;
    let refused = scene.report(run, 1, &[("user.message", &note)]).await.unwrap_err();
    assert_eq!(refused.code(), Code::StoreCorrupt);
    assert!(refused.to_string().contains(&format!("catalogue.runs/default/{run}")), "{refused}");
    assert!(!stored_text(&scene, run).await.contains(&value));
}

async fn engine_with_secrets(values: &[&str], shapes: bool) -> Engine {
    let known = values.iter().map(|value| Secret::new(value).unwrap()).collect();
    let redactor = Arc::new(Redactor::new(known, shapes));
    Engine::open_with(
        Arc::new(MemoryStore::new()),
        World::seeded(7, 1_777_803_825_000),
        Arc::new(Bare),
        redactor,
    )
    .await
    .unwrap()
}

async fn texts_of(engine: &Engine, batches: &[&[(&str, &str)]]) -> Vec<String> {
    let new =
        NewRun { queued: Queued::new(RunKind::External), task: None, session: None, resumed_from: None };
    let (run, _) = engine.write().create_run(new).await.unwrap();
    for (seq, batch) in (0..).zip(batches) {
        engine.write().ingest(run, batch_id("p", 0, seq), drafts(batch)).await.unwrap();
    }
    let (page, _) = engine.read().read_run(run, Some(0), 100).await.unwrap();
    page.iter().map(|(_, bytes)| String::from_utf8(bytes.to_vec()).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_known_secret_that_equals_a_protocol_value_is_masked_only_in_text() {
    let engine =
        engine_with_secrets(&["approve!", "stdout-x", "call-number-one", "irreversible", "rejected"], false)
            .await;
    let approval_data = r#"{"approval_id":"call-number-one","tool_call_id":"call-number-one","kind":"irreversible","summary":"call-number-one is rejected","reversibility":"irreversible"}"#;
    let stored = texts_of(&engine, &[&[("run.started", "{}"), ("approval.requested", approval_data)]]).await;
    let event: Value = serde_json::from_str(&stored[1]).unwrap();
    assert_eq!(
        event["data"],
        json!({"approval_id": "call-number-one", "tool_call_id": "call-number-one", "kind": "************",
               "summary": "*************** is ********", "reversibility": "irreversible", "redacted_paths": ["/kind", "/summary"]})
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_masked_if_redaction_is_off() {
    let engine = engine_with_secrets(&[], false).await;
    let stored = texts_of(&engine, &[&[("user.message", &json!({"text": key()}).to_string())]]).await;
    assert!(stored[0].contains(&key()));
}
