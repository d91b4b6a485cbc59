//! Store faults and panicking writers: typed errors, no partial state, and recovery.

use std::time::Duration;

use recount_engine::IdempotencyKey;
use recount_event::Code;
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use recount_run::{CancelledBy, Command};

use crate::prompts::QUESTION;
use crate::scene::{End, Scene, code, read};

const NOTE: &[(&str, &str)] = &[("ext.test.note", "{}")];

#[tokio::test(start_paused = true)]
async fn a_store_fault_has_its_own_error_code_and_writes_nothing() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut reader = scene.engine.read().follow_run(run, None).await.unwrap();
    assert_eq!(read(&mut reader).await.end, End::CaughtUp);
    for (kind, expected) in [
        (FaultKind::Busy, Code::StoreBusy),
        (FaultKind::Corrupt, Code::StoreCorrupt),
        (FaultKind::Full, Code::StoreFull),
        (FaultKind::Io, Code::StoreUnavailable),
        (FaultKind::TooLarge, Code::LimitReached),
    ] {
        let digest = scene.engine.read().digest(run).await.unwrap();
        scene.store.next_appends([AppendFault::Refuse(kind)]);
        let failed = scene.report(run, 1, NOTE).await;
        assert!(matches!(failed, Err(recount_engine::Error::Failed(_))), "{failed:?}");
        assert_eq!(code(failed), expected);
        assert_eq!(scene.engine.read().digest(run).await.unwrap(), digest);
    }
    assert_eq!(read(&mut reader).await.cursors, Vec::<u64>::new(), "a failed append is never delivered");
    assert_eq!(scene.report(run, 1, NOTE).await.unwrap().last_sequence, 2);
    assert_eq!(read(&mut reader).await.cursors, [2]);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_store_gives_typed_errors_and_recovers() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    tokio::time::sleep(recount_engine::limits::WRITER_IDLE * 2).await;
    scene.store.fail_reads(true);
    assert_eq!(code(scene.report(run, 1, NOTE).await), Code::StoreUnavailable);
    assert_eq!(code(scene.engine.read().read_run(run, None, 5).await), Code::StoreUnavailable);
    assert_eq!(code(scene.engine.read().follow_run(run, None).await.map(|_| ())), Code::StoreUnavailable);
    scene.store.fail_reads(false);
    assert_eq!(scene.report(run, 1, NOTE).await.unwrap().last_sequence, 2);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_writer_panics_the_next_one_reads_the_log() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.store.next_appends([AppendFault::Panic]);
    assert_eq!(code(scene.report(run, 1, NOTE).await), Code::Internal);
    assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(2), "nothing was written");
    assert_eq!(scene.report(run, 1, NOTE).await.unwrap().last_sequence, 2);
    scene.store.next_appends([AppendFault::PanicAfter]);
    assert_eq!(code(scene.report(run, 2, NOTE).await), Code::Internal);
    assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(4), "it was written");
    assert_eq!(scene.report(run, 2, NOTE).await.unwrap().last_sequence, 3, "it was not written twice");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn commands_batched_with_one_that_panics_get_a_response() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.store.next_appends([AppendFault::Panic]);
    let names: Vec<String> = (0..300).map(|n| format!("w{n}")).collect();
    let answers = futures_util::future::join_all(names.iter().map(|name| scene.note(run, name))).await;
    assert!(answers.iter().any(|answer| answer.is_err()));
    for answer in answers {
        if let Err(error) = answer {
            assert_eq!(error.code(), Code::Internal);
        }
    }
    for name in &names {
        scene.note(run, name).await.unwrap();
    }
    assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(302));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn readers_close_although_the_result_of_the_ending_was_lost() {
    for fault in [AppendFault::LoseAnswer, AppendFault::Unobserved, AppendFault::PanicAfter] {
        let scene = Scene::new().await;
        let run = scene.start().await;
        let mut reader = scene.engine.read().follow_run(run, None).await.unwrap();
        assert_eq!(read(&mut reader).await.end, End::CaughtUp);
        scene.store.next_appends([fault]);
        assert!(scene.cancel(run).await.is_err());
        let reading = read(&mut reader).await;
        assert_eq!((reading.cursors, reading.end), (vec![2], End::Closed));
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_with_unknown_outcome_is_read_again_on_every_path() {
    let faults: [fn() -> AppendFault; 3] =
        [|| AppendFault::LoseAnswer, || AppendFault::Unobserved, || AppendFault::PanicAfter];
    for fault in faults {
        for path in ["command", "keyed", "deletion", "prune", "start"] {
            // A panic during a start would end the client itself.
            if path == "start" && matches!(fault(), AppendFault::PanicAfter) {
                continue;
            }
            let scene = Scene::new().await;
            let task = scene.engine.write().create_task(None, None).await.unwrap().0.id;
            let run = scene.queue_for(Some(task)).await.unwrap();
            scene.report(run, 0, &[("run.started", "{}")]).await.unwrap();
            if path == "prune" {
                scene.cancel(run).await.unwrap();
            }
            let mut reader = scene.engine.read().follow_run(run, None).await.unwrap();
            let mut feed = scene.engine.read().follow_feed(None).await.unwrap();
            read(&mut reader).await;
            read(&mut feed).await;
            // A deletion first records its intent.
            let passed = (path == "deletion").then_some(AppendFault::Pass);
            scene.store.next_appends(passed.into_iter().chain([fault()]));
            let cancel = || Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
            let failed = match path {
                "command" => scene.engine.write().submit(run, cancel()).await.is_err(),
                "keyed" => {
                    let idempotency = IdempotencyKey { key: "k".into(), body: "b".into() };
                    scene.engine.write().submit_keyed(run, cancel(), idempotency).await.is_err()
                }
                "deletion" => scene.engine.admin().delete_task(task, "ann").await.is_err(),
                "prune" => scene.engine.admin().prune(run, None, "operator").await.is_err(),
                _ => scene.queue_for(None).await.is_err(),
            };
            assert!(failed, "{path}");
            tokio::time::sleep(recount_engine::limits::TIMER_RETRY * 2).await;
            assert_eq!(read(&mut feed).await.cursors.len(), 1, "{path}");
            let row = scene.engine.catalogue().run(run).await.unwrap().unwrap();
            assert_eq!(row.has_ended(), path != "start", "{path}");
            if row.has_ended() {
                assert_eq!(read(&mut reader).await.end, End::Closed, "{path}");
            }
            scene.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_command_does_not_affect_others_in_its_append() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let (good, bad, also_good) = tokio::join!(
        scene.note(run, "a"),
        scene.report(run, 1, &[("turn.completed", r#"{"turn_index":0,"stop_reason":"end_turn"}"#)]),
        scene.note(run, "b")
    );
    assert!(good.is_ok() && also_good.is_ok());
    assert_eq!(code(bad), Code::EventRefused);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_caused_by_one_command_is_retryable_for_others_in_its_append() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.store.next_appends([AppendFault::Refuse(FaultKind::TooLarge)]);
    let (a, b) = tokio::join!(scene.note(run, "a"), scene.note(run, "b"));
    for answer in [a, b] {
        let Err(recount_engine::Error::Failed(failure)) = answer else { panic!("{answer:?}") };
        assert_eq!(failure.code, Code::StoreBusy);
        assert!(failure.retry_after.is_some());
    }
    scene.note(run, "a").await.unwrap();
    scene.note(run, "b").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_the_store_does_not_block_others() {
    let scene = Scene::new().await;
    let (slow, quick) = (scene.start().await, scene.start().await);
    let (go, held) = tokio::sync::oneshot::channel();
    scene.store.next_appends([AppendFault::Hold(held)]);
    let waits = async {
        let waiting = tokio::time::timeout(Duration::from_secs(10), scene.note(slow, "a"));
        assert!(waiting.await.is_err(), "the append waits for its store");
    };
    let other_run = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for n in 0..10 {
            scene.note(quick, &format!("n{n}")).await.unwrap();
        }
    };
    tokio::join!(waits, other_run);
    go.send(()).unwrap();
    // The sender is dropped; the command is executed anyway, once.
    assert_eq!(scene.note(slow, "a").await.unwrap().last_sequence, 2);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_unobserved_commit_reaches_waiting_readers() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut reader = scene.engine.read().follow_run(run, None).await.unwrap();
    let mut feed = scene.engine.read().follow_feed(None).await.unwrap();
    assert_eq!(read(&mut reader).await.end, End::CaughtUp);
    assert_eq!(read(&mut feed).await.end, End::CaughtUp);
    scene.store.next_appends([AppendFault::Unobserved]);
    assert!(scene.report(run, 1, NOTE).await.is_err());
    assert_eq!(read(&mut reader).await.cursors, [2]);
    assert_eq!(read(&mut feed).await.cursors, [3]);
    assert_eq!(scene.report(run, 1, NOTE).await.unwrap().last_sequence, 2);
    scene.report(run, 2, NOTE).await.unwrap();
    assert_eq!(read(&mut reader).await.cursors, [3]);
    // A run with an unknown start is in the feed too.
    scene.store.next_appends([AppendFault::Unobserved]);
    assert!(scene.queue_for(None).await.is_err());
    assert_eq!(read(&mut feed).await.cursors, [4, 5]);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn readiness_fails_while_the_disk_is_full() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.engine.admin().ready().await.unwrap();
    let refuse = || AppendFault::Refuse(FaultKind::Full);
    scene.store.next_appends([refuse(), refuse(), refuse()]);
    assert_eq!(code(scene.report(run, 1, NOTE).await), Code::StoreFull);
    // Only the readiness check writes, and its result still follows the disk.
    for _ in 0..2 {
        assert_eq!(code(scene.engine.admin().ready().await), Code::StoreFull);
    }
    scene.engine.admin().ready().await.unwrap();
    scene.engine.admin().ready().await.unwrap();
    assert_eq!(scene.engine.admin().stats().await.unwrap().appends_full, 3);
    // Another fault does not change the space state.
    scene.store.next_appends([AppendFault::Refuse(FaultKind::Busy)]);
    assert_eq!(code(scene.report(run, 1, NOTE).await), Code::StoreBusy);
    scene.engine.admin().ready().await.unwrap();
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_readiness_checks_for_space_before_the_first_append() {
    let mut scene = Scene::new().await;
    let run = scene.start().await;
    scene.reopen().await;
    scene.store.next_appends([AppendFault::Refuse(FaultKind::Full), AppendFault::Refuse(FaultKind::Full)]);
    assert_eq!(code(scene.engine.admin().ready().await), Code::StoreFull);
    assert_eq!(code(scene.engine.admin().ready().await), Code::StoreFull, "the store is still full");
    scene.engine.admin().ready().await.unwrap();
    let appends = scene.store.appends();
    scene.engine.admin().ready().await.unwrap();
    assert_eq!(scene.store.appends(), appends, "a known state is not probed again");
    scene.report(run, 1, NOTE).await.unwrap();
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_damaged_run_is_not_retried_forever() {
    let mut scene = Scene::new().await;
    let run = scene.start().await;
    scene.report(run, 1, &[QUESTION]).await.unwrap();
    scene.reopen().await;
    scene.disk.damage_events(run, 1..=1);
    // The question has a timeout of 30 seconds.
    tokio::time::sleep(Duration::from_secs(40)).await;
    let before = scene.store.reads();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(scene.store.reads(), before);
}
