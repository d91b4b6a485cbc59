//! Following a run as events: history joined with live events, each event once and in order, and none after the end.

use std::time::Duration;

use recount_engine::Events;
use recount_event::{Code, RunId};
use recount_faulty_store::AppendFault;

use crate::scene::{Scene, code};

const NOTE: &[(&str, &str)] = &[("ext.test.note", "{}")];

/// All events until none arrives for a minute; `true` if the run has ended.
async fn read(events: &mut Events) -> (Vec<u64>, bool) {
    let mut sequences = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(60), events.next()).await {
            Ok(Ok(Some(page))) => {
                assert!(!page.is_empty(), "a woken reader gets events");
                sequences.extend(page.iter().map(|event| event.sequence));
                assert_eq!(events.last(), sequences.last().copied());
            }
            Ok(Ok(None)) => return (sequences, true),
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => return (sequences, false),
        }
    }
}

async fn follow(scene: &Scene, run: RunId, after: Option<u64>) -> Events {
    scene.engine.read().follow_events(run, after).await.unwrap()
}

fn range(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

#[tokio::test(start_paused = true)]
async fn events_are_delivered_from_any_cursor_and_then_live() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.report(run, 1, &[NOTE[0]; 8]).await.unwrap();
    let mut readers = Vec::new();
    for (after, next) in [(None, 0), (Some(0), 1), (Some(4), 5), (Some(9), 10)] {
        let mut events = follow(&scene, run, after).await;
        assert_eq!(read(&mut events).await, (range(next..10), false));
        readers.push(events);
    }
    for ahead in [10, u64::MAX] {
        assert_eq!(
            code(scene.engine.read().follow_events(run, Some(ahead)).await.map(|_| ())),
            Code::CursorAhead
        );
    }
    scene.report(run, 2, NOTE).await.unwrap();
    for events in &mut readers {
        assert_eq!(read(events).await, (vec![10], false));
    }
    scene.cancel(run).await.unwrap();
    for events in &mut readers {
        assert_eq!(read(events).await, (vec![11], true));
        assert_eq!(read(events).await, (vec![], true), "a second read reports the end again");
    }
    let mut late = follow(&scene, run, Some(3)).await;
    assert_eq!(read(&mut late).await, (range(4..12), true));
}

#[tokio::test(start_paused = true)]
async fn delivered_events_equal_the_stored_events() {
    let scene = Scene::new().await;
    let run = scene.queue().await;
    let mut live = follow(&scene, run, None).await;
    scene
        .report(run, 0, &[("run.started", "{ }"), ("ext.test.note", r#"{ "é" : [1.0, "\u00e9"] }"#)])
        .await
        .unwrap();
    scene.cancel(run).await.unwrap();
    let mut given = Vec::new();
    while let Some(events) = live.next().await.unwrap() {
        given.extend(events.iter().map(|event| (***event).clone()));
    }
    assert_eq!(given, scene.events(run).await);
}

#[tokio::test(start_paused = true)]
async fn a_derived_value_of_an_event_is_computed_once_for_all_readers() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let (mut one, mut other) = (follow(&scene, run, None).await, follow(&scene, run, Some(1)).await);
    read(&mut one).await;
    scene.report(run, 1, NOTE).await.unwrap();
    let computed = std::cell::Cell::new(0);
    let count = |event: &recount_event::Event| {
        computed.set(computed.get() + 1);
        event.sequence
    };
    for reader in [&mut one, &mut other] {
        let batch = reader.next().await.unwrap().unwrap();
        assert_eq!((batch.len(), *batch[0].derived(count)), (1, 2));
        // Another face derives a value of another type.
        assert_eq!(*batch[0].derived(|event| event.type_name().to_owned()), "ext.test.note");
    }
    assert_eq!(computed.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn live_events_are_not_read_from_the_store() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut events = follow(&scene, run, None).await;
    assert_eq!(read(&mut events).await.0, range(0..2));
    let before = scene.store.reads();
    for seq in 1..20 {
        scene.report(run, seq, NOTE).await.unwrap();
    }
    let written = scene.store.reads();
    assert_eq!(read(&mut events).await.0, range(2..21));
    // A later reader uses the same list.
    let mut other = follow(&scene, run, Some(4)).await;
    assert_eq!(read(&mut other).await.0, range(5..21));
    assert_eq!(scene.store.reads(), written, "reading removed none");
    assert!(written - before <= 19, "{} reads for 19 batches", written - before);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_off_the_list_is_served_from_the_store() {
    let scene = Scene::padded(1 << 20).await;
    let run = scene.start().await;
    let mut events = follow(&scene, run, Some(1)).await;
    // Its frames fill the list.
    let _idle = scene.engine.read().follow_run(run, None).await.unwrap();
    for seq in 1..40 {
        scene.report(run, seq, NOTE).await.unwrap();
    }
    let before = scene.store.reads();
    assert_eq!(read(&mut events).await, (range(2..41), false));
    assert!(scene.store.reads() > before, "the list holds four of them");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_loses_no_events() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut events = follow(&scene, run, None).await;
    let mut sequences = Vec::new();
    for seq in 1..30_u64 {
        // Polled once and dropped, with any result.
        if let Some(Ok(Some(page))) = futures_util::FutureExt::now_or_never(events.next()) {
            sequences.extend(page.iter().map(|event| event.sequence));
        }
        scene.report(run, seq, NOTE).await.unwrap();
    }
    sequences.extend(read(&mut events).await.0);
    assert_eq!(sequences, range(0..31));
}

#[tokio::test(start_paused = true)]
async fn an_ending_that_is_published_late_is_delivered_before_the_stream_ends() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut early = follow(&scene, run, None).await;
    assert_eq!(read(&mut early).await.0, range(0..2));
    for fault in [AppendFault::Unobserved] {
        scene.store.next_appends([fault]);
        assert!(scene.cancel(run).await.is_err());
        assert_eq!(read(&mut early).await, (vec![2], true));
    }
}

#[tokio::test(start_paused = true)]
async fn following_an_erased_run_returns_an_error() {
    let scene = Scene::new().await;
    let session = scene.engine.write().create_session(None).await.unwrap().id;
    let run = scene.queue_in(session).await.unwrap();
    let mut events = follow(&scene, run, None).await;
    assert_eq!(read(&mut events).await, (vec![0], false));
    scene.engine.admin().delete_session(session, "ann").await.unwrap();
    assert_eq!(code(events.next().await.map(|_| ())), Code::RunErased);
    assert_eq!(code(scene.engine.read().follow_events(run, None).await.map(|_| ())), Code::RunErased);
    let unknown: RunId = "run_01HZX3Q0M0000000000000000C".parse().unwrap();
    assert_eq!(code(scene.engine.read().follow_events(unknown, None).await.map(|_| ())), Code::RunNotFound);
}
