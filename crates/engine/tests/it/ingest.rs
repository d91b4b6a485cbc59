//! Batch ids: a batch is appended once, however often it is sent.

use futures_util::future::join_all;
use recount_event::Code;
use recount_faulty_store::AppendFault;

use crate::scene::{Scene, batch_id, code, drafts};

const ONE: &[(&str, &str)] = &[("ext.test.note", r#"{"n":1}"#)];
const TWO: &[(&str, &str)] = &[("ext.test.note", r#"{"n":2}"#), ("ext.test.note", r#"{"n":3}"#)];

/// What happens before a batch is repeated.
enum Since {
    Nothing,
    AnotherBatch,
    TheEnding,
    Sleep,
    Restart,
}

#[tokio::test(start_paused = true)]
async fn a_repeated_batch_gets_the_first_receipt_again() {
    for since in [Since::Nothing, Since::AnotherBatch, Since::TheEnding, Since::Sleep, Since::Restart] {
        let mut scene = Scene::new().await;
        let run = scene.start().await;
        scene.start().await;
        let first = scene.report(run, 1, TWO).await.unwrap();
        match since {
            Since::Nothing => {}
            Since::AnotherBatch => drop(scene.report(run, 2, ONE).await.unwrap()),
            Since::TheEnding => drop(scene.cancel(run).await.unwrap()),
            Since::Sleep => tokio::time::sleep(recount_engine::limits::WRITER_IDLE * 2).await,
            Since::Restart => scene.reopen().await,
        }
        let digest = scene.engine.read().digest(run).await.unwrap();
        assert_eq!(scene.report(run, 1, TWO).await.unwrap(), first);
        assert_eq!(code(scene.report(run, 1, ONE).await), Code::ProducerReused);
        assert_eq!(code(scene.report(run, 5, ONE).await), Code::ProducerGap);
        assert_eq!(scene.engine.read().digest(run).await.unwrap(), digest, "nothing was added");
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_ending_only_repeated_batches_are_accepted() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let last = scene.report(run, 1, &[("run.finished", r#"{"final_status":"ok"}"#)]).await.unwrap();
    assert_eq!(code(scene.report(run, 2, ONE).await), Code::RunEnded);
    assert_eq!(scene.report(run, 1, &[("run.finished", r#"{"final_status":"ok"}"#)]).await.unwrap(), last);
}

#[tokio::test(start_paused = true)]
async fn batch_numbers_start_at_zero_without_gaps() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let ingest = |epoch, seq| scene.engine.write().ingest(run, batch_id("q", epoch, seq), drafts(ONE));
    assert_eq!(code(ingest(0, 1).await), Code::ProducerGap);
    assert_eq!(code(ingest(7, 1).await), Code::ProducerGap);
    ingest(7, 0).await.unwrap();
    ingest(7, 1).await.unwrap();
    assert_eq!(code(ingest(7, 3).await), Code::ProducerGap);
    assert_eq!(code(ingest(8, 2).await), Code::ProducerGap);
    ingest(8, 0).await.unwrap();
    // The longest numbers sort after shorter ones.
    ingest(u64::MAX, 0).await.unwrap();
    ingest(u64::MAX, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_older_instance_is_fenced() {
    for restart in [false, true] {
        let mut scene = Scene::new().await;
        let run = scene.start().await;
        let old = scene.engine.write().ingest(run, batch_id("q", 3, 0), drafts(ONE)).await.unwrap();
        let new = scene.engine.write().ingest(run, batch_id("q", 4, 0), drafts(ONE)).await.unwrap();
        assert!(new.first_sequence > old.last_sequence);
        if restart {
            scene.reopen().await;
        }
        let again = |epoch, seq| scene.engine.write().ingest(run, batch_id("q", epoch, seq), drafts(ONE));
        assert_eq!(code(again(3, 1).await), Code::ProducerFenced);
        assert_eq!(code(again(3, 0).await), Code::ProducerFenced, "an old instance gets no earlier receipt");
        assert_eq!(again(4, 0).await.unwrap(), new);
        // Other producers are not affected.
        scene.engine.write().ingest(run, batch_id("r", 0, 0), drafts(ONE)).await.unwrap();
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn producers_are_distinguished_by_their_full_name() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    for name in ["q", "q.1", "q-1", "qq", "q:0"] {
        for seq in 0..3 {
            scene.engine.write().ingest(run, batch_id(name, 0, seq), drafts(ONE)).await.unwrap();
        }
    }
    let other = scene.start().await;
    scene.engine.write().ingest(other, batch_id("q", 0, 0), drafts(TWO)).await.unwrap();
    assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(17));
}

#[tokio::test(start_paused = true)]
async fn a_batch_sent_many_times_at_once_lands_once() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let answers = join_all((0..50).map(|_| scene.report(run, 1, TWO))).await;
    for answer in answers {
        assert_eq!(answer.unwrap().last_sequence, 3);
    }
    assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(4));
}

#[tokio::test(start_paused = true)]
async fn batches_sent_concurrently_keep_their_order() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let answers = join_all((1..=100).map(|seq| scene.report(run, seq, ONE))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().last_sequence, n as u64 + 2);
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_receipt_was_lost_is_not_written_again() {
    for restart in [false, true] {
        let mut scene = Scene::new().await;
        let run = scene.start().await;
        scene.store.next_appends([AppendFault::LoseAnswer]);
        assert_eq!(code(scene.report(run, 1, TWO).await), Code::StoreUnavailable);
        if restart {
            scene.reopen().await;
        }
        let receipt = scene.report(run, 1, TWO).await.unwrap();
        assert_eq!((receipt.first_sequence, receipt.last_sequence, receipt.position), (2, 3, 4));
        assert_eq!(scene.engine.read().tail(run).await.unwrap(), Some(4));
        assert_eq!(scene.report(run, 2, ONE).await.unwrap().last_sequence, 4);
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_failed_may_be_sent_again_with_other_events() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.store.next_appends([AppendFault::Refuse(recount_log::FaultKind::Full)]);
    assert_eq!(code(scene.report(run, 1, TWO).await), Code::StoreFull);
    assert_eq!(scene.report(run, 1, ONE).await.unwrap().last_sequence, 2);
    scene.check().await;
}
