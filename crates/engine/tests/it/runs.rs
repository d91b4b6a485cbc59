//! Commands: which are accepted, which are refused, and that a refusal changes nothing.

use futures_util::future::join_all;
use recount_engine::NewRun;
use recount_event::Code;
use recount_event::family::run::{Queued, RunKind};
use recount_run::{CancelledBy, Command};

use crate::scene::{Scene, batch_id, code, drafts};

#[tokio::test(start_paused = true)]
async fn a_run_is_durable_when_create_run_returns() {
    let scene = Scene::new().await;
    let new =
        NewRun { queued: Queued::new(RunKind::External), task: None, session: None, resumed_from: None };
    let (run, receipt) = scene.engine.write().create_run(new).await.unwrap();
    assert_eq!((receipt.first_sequence, receipt.last_sequence, receipt.position), (0, 0, 1));
    assert_eq!(scene.types(run).await, ["run.queued"]);
    assert_eq!(scene.engine.catalogue().run(run).await.unwrap().unwrap().status, "queued");
    let receipt = scene.report(run, 0, &[("run.started", "{}"), ("ext.test.note", "{}")]).await.unwrap();
    assert_eq!((receipt.first_sequence, receipt.last_sequence, receipt.position), (1, 2, 3));
    assert_eq!(scene.engine.catalogue().run(run).await.unwrap().unwrap().status, "running");
    assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(3));
    assert_eq!(scene.engine.read().last_position().await.unwrap(), 3);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_runs_are_not_found() {
    let scene = Scene::new().await;
    let other = Scene::new().await.queue().await;
    let unknown = recount_event::RunId::new("01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap());
    assert_ne!(unknown, other);
    assert_eq!(code(scene.cancel(unknown).await), Code::RunNotFound);
    assert_eq!(code(scene.report(unknown, 0, &[("run.started", "{}")]).await), Code::RunNotFound);
    assert_eq!(code(scene.engine.read().read_run(unknown, None, 10).await), Code::RunNotFound);
    assert_eq!(code(scene.engine.read().follow_run(unknown, None).await.map(|_| ())), Code::RunNotFound);
    assert_eq!(code(scene.engine.read().digest(unknown).await), Code::RunNotFound);
    assert_eq!(scene.engine.read().tail(unknown).await.unwrap(), None);
    assert_eq!(scene.engine.catalogue().run(unknown).await.unwrap(), None);
    // Unknown ids start no writer.
    assert_eq!(scene.engine.admin().awake(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_writes_nothing_and_names_the_faulty_event() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let digest = scene.engine.read().digest(run).await.unwrap();
    let batch = [
        ("ext.test.note", "{}"),
        ("turn.started", r#"{"turn_index":0}"#),
        ("turn.started", r#"{"turn_index":1}"#),
        ("ext.test.note", "{}"),
    ];
    let refused = scene.report(run, 1, &batch).await.expect_err("two turns are open at once");
    let recount_engine::Error::Rejected(rejection) = refused else { panic!("{refused}") };
    assert_eq!(rejection.code, Code::EventRefused);
    assert_eq!(rejection.index, Some(2));
    assert_eq!(rejection.type_name.as_deref(), Some("turn.started"));
    assert_eq!(rejection.rule, Some("turn.one_open"));
    assert_eq!(scene.engine.read().digest(run).await.unwrap(), digest);
    // The batch number was not used up.
    let receipt = scene.report(run, 1, &batch[..2]).await.unwrap();
    assert_eq!((receipt.first_sequence, receipt.last_sequence), (2, 3));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_beyond_the_limit_is_refused_completely() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let notes = vec![("ext.test.note", "{}"); recount_engine::limits::BATCH_EVENTS_MAX + 1];
    assert_eq!(code(scene.report(run, 1, &notes).await), Code::LimitReached);
    let receipt = scene.report(run, 1, &notes[1..]).await.unwrap();
    assert_eq!(receipt.last_sequence - receipt.first_sequence, 999);
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_refused() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    assert_eq!(code(scene.report(run, 1, &[]).await), Code::BodyMalformed);
    assert!(scene.report(run, 1, &[("ext.test.note", "{}")]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn own_runs_accept_no_batches() {
    let scene = Scene::new().await;
    let new =
        NewRun { queued: Queued::new(RunKind::AgentLoop), task: None, session: None, resumed_from: None };
    let (run, _) = scene.engine.write().create_run(new).await.unwrap();
    assert_eq!(code(scene.report(run, 0, &[("run.started", "{}")]).await), Code::RunNotExternal);
    let progress = Command::Progress { drafts: drafts(&[("run.started", "{}")]) };
    let receipt = scene.engine.write().submit(run, progress).await.unwrap().unwrap();
    assert_eq!(receipt.last_sequence, 1);
}

#[tokio::test(start_paused = true)]
async fn of_many_cancels_one_wins() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let answers = join_all((0..100).map(|_| scene.cancel(run))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for answer in answers {
        if let Err(error) = answer {
            assert_eq!(error.code(), Code::RunEnded);
        }
    }
    assert_eq!(scene.types(run).await, ["run.queued", "run.started", "run.cancelled"]);
    assert_eq!(scene.engine.catalogue().run(run).await.unwrap().unwrap().status, "cancelled");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_cancel_and_batch_have_one_order() {
    for cancel_first in [true, false] {
        let scene = Scene::new().await;
        let run = scene.start().await;
        let notes = [("ext.test.note", "{}")];
        let (cancelled, reported) = if cancel_first {
            tokio::join!(scene.cancel(run), scene.report(run, 1, &notes))
        } else {
            let (reported, cancelled) = tokio::join!(scene.report(run, 1, &notes), scene.cancel(run));
            (cancelled, reported)
        };
        assert!(cancelled.unwrap().is_some());
        assert_eq!(reported.is_ok(), !cancel_first);
        assert_eq!(scene.types(run).await.last().unwrap(), "run.cancelled");
        assert_eq!(
            code(scene.report(run, 2, &notes).await),
            if cancel_first { Code::ProducerGap } else { Code::RunEnded }
        );
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_closes_what_is_open() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let batch = [
        ("turn.started", r#"{"turn_index":0}"#),
        ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"half a"}"#),
        (
            "assistant.tool_call_proposed",
            r#"{"turn_index":0,"tool_call_id":"c1","tool_name":"shell","input":{}}"#,
        ),
        crate::scene::APPROVAL,
    ];
    scene.report(run, 1, &batch).await.unwrap();
    let command = Command::Cancel { by: CancelledBy::Policy, reason: "no".into() };
    scene.engine.write().submit(run, command).await.unwrap();
    let types = scene.types(run).await;
    assert_eq!(
        types[6..],
        ["assistant.text_complete", "approval.resolved", "tool.refused", "turn.failed", "run.cancelled"]
    );
    assert_eq!(scene.engine.catalogue().run(run).await.unwrap().unwrap().ending.as_deref(), Some("policy"));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_commands_share_an_append() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let before = scene.store.appends();
    let names: Vec<String> = (0..64).map(|n| format!("writer-{n}")).collect();
    let receipts = join_all(names.iter().map(|name| scene.note(run, name))).await;
    let mut sequences: Vec<u64> =
        receipts.into_iter().map(|receipt| receipt.unwrap().last_sequence).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, (2..66).collect::<Vec<_>>());
    assert!(scene.store.appends() - before < 8, "{} appends", scene.store.appends() - before);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_receipt_has_the_positions_and_sequences_of_the_store() {
    let scene = Scene::new().await;
    let (a, b) = (scene.start().await, scene.start().await);
    for seq in 1..20 {
        let run = if seq % 3 == 0 { b } else { a };
        let next = scene.engine.read().tail(run).await.unwrap().unwrap();
        let name = format!("n{seq}");
        let receipt = scene.note(run, &name).await.unwrap();
        assert_eq!(receipt.last_sequence, next);
        let (found, _) = scene.engine.read().read_feed(Some(receipt.position - 1), 1).await.unwrap();
        let (in_run, _) = scene.engine.read().read_run(run, next.checked_sub(1), 1).await.unwrap();
        assert_eq!(found[0].1, in_run[0].1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_is_the_chain_over_the_bytes() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.cancel(run).await.unwrap();
    let (records, _) = scene.engine.read().read_run(run, None, 10).await.unwrap();
    let start = recount_log::chain::ChainValue::start(&run.to_string());
    let head = records.iter().fold(start, |head, (_, bytes)| head.then(bytes));
    let digest = scene.engine.read().digest(run).await.unwrap();
    assert_eq!((digest.events, digest.head), (3, head.to_string()));
}

#[tokio::test(start_paused = true)]
async fn an_idle_writer_stops_and_starts_again() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    assert_eq!(scene.engine.admin().awake(), 1);
    tokio::time::sleep(recount_engine::limits::WRITER_IDLE * 2).await;
    assert_eq!(scene.engine.admin().awake(), 0);
    // Some arrive at the moment in which the writer stops.
    for _ in 0..20 {
        scene.note(run, "early").await.unwrap();
        tokio::time::sleep(recount_engine::limits::WRITER_IDLE).await;
        scene.note(run, "early").await.unwrap();
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn the_writer_of_an_ended_run_stops_early() {
    let scene = Scene::new().await;
    let (ended, active) = (scene.start().await, scene.start().await);
    scene.cancel(ended).await.unwrap();
    tokio::time::sleep(recount_engine::limits::WRITER_IDLE_ENDED * 2).await;
    assert_eq!(scene.engine.admin().awake(), 1);
    scene.note(active, "still-here").await.unwrap();
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_completes_accepted_commands_and_refuses_new_ones() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let (go, held) = tokio::sync::oneshot::channel();
    scene.store.next_appends([recount_faulty_store::AppendFault::Hold(held)]);
    let first = scene.note(run, "first");
    let second = async {
        // By then the first append is held by the store.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        scene.note(run, "second").await
    };
    let end = async {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        let unfinished = scene.engine.shutdown();
        let release = async {
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            go.send(()).unwrap();
        };
        tokio::join!(unfinished, release).0
    };
    let (first, second, unfinished) = tokio::join!(first, second, end);
    assert_eq!(unfinished, 0);
    let landed = first.expect("the store had the append").last_sequence;
    assert_eq!(code(second), Code::ShuttingDown);
    assert_eq!(code(scene.note(run, "third").await), Code::ShuttingDown);
    assert_eq!(code(scene.queue_for(None).await), Code::ShuttingDown);
    let mut scene = scene;
    scene.reopen().await;
    assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(landed + 1));
    let receipt =
        scene.engine.write().ingest(run, batch_id("second", 0, 0), drafts(&[("ext.test.note", "{}")]));
    assert_eq!(receipt.await.unwrap().last_sequence, landed + 1);
    scene.check().await;
}
