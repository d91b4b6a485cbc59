//! Following a run as events: history joined with live, each event once and in order, and nothing behind the end.

use std::time::Duration;

use recount_engine::Events;
use recount_event::{Code, RunId};
use recount_faulty_store::AppendFault;

use crate::scene::{Scene, code};

const NOTE: &[(&str, &str)] = &[("ext.test.note", "{}")];

/// Everything that comes until nothing does for a minute; `true` when the run has ended.
async fn read(events: &mut Events) -> (Vec<u64>, bool) {
    let mut sequences = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(60), events.next()).await {
            Ok(Ok(Some(page))) => {
                assert!(!page.is_empty(), "who is woken is given something");
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
async fn a_run_is_given_from_anywhere_and_then_as_it_goes_on() {
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
        assert_eq!(read(events).await, (vec![], true), "the end is said again to who asks again");
    }
    let mut late = follow(&scene, run, Some(3)).await;
    assert_eq!(read(&mut late).await, (range(4..12), true));
}

#[tokio::test(start_paused = true)]
async fn what_is_given_is_what_is_stored() {
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
async fn what_a_face_makes_of_an_event_is_made_once_for_all_its_readers() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let (mut one, mut other) = (follow(&scene, run, None).await, follow(&scene, run, Some(1)).await);
    read(&mut one).await;
    scene.report(run, 1, NOTE).await.unwrap();
    let made = std::cell::Cell::new(0);
    let count = |event: &recount_event::Event| {
        made.set(made.get() + 1);
        event.sequence
    };
    for reader in [&mut one, &mut other] {
        let batch = reader.next().await.unwrap().unwrap();
        assert_eq!((batch.len(), *batch[0].made(count)), (1, 2));
        // Another face, which makes something of another type.
        assert_eq!(*batch[0].made(|event| event.type_name().to_owned()), "ext.test.note");
    }
    assert_eq!(made.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_client_follows_is_not_read_back() {
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
    // Who comes while another follows finds the same frames.
    let mut other = follow(&scene, run, Some(4)).await;
    assert_eq!(read(&mut other).await.0, range(5..21));
    assert_eq!(scene.store.reads(), written, "reading took none");
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
async fn breaking_off_the_wait_loses_nothing() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut events = follow(&scene, run, None).await;
    let mut sequences = Vec::new();
    for seq in 1..30_u64 {
        // Looked at once and dropped, whatever it has come to.
        if let Some(Ok(Some(page))) = futures_util::FutureExt::now_or_never(events.next()) {
            sequences.extend(page.iter().map(|event| event.sequence));
        }
        scene.report(run, seq, NOTE).await.unwrap();
    }
    sequences.extend(read(&mut events).await.0);
    assert_eq!(sequences, range(0..31));
}

#[tokio::test(start_paused = true)]
async fn an_ending_that_is_told_late_is_given_before_the_end() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut early = follow(&scene, run, None).await;
    assert_eq!(read(&mut early).await.0, range(0..2));
    for fate in [AppendFault::Unobserved] {
        scene.store.next_appends([fate]);
        assert!(scene.cancel(run).await.is_err());
        assert_eq!(read(&mut early).await, (vec![2], true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_erased_is_said_to_be() {
    let scene = Scene::new().await;
    let session = scene.engine.write().create_session(None).await.unwrap().id;
    let run = scene.queue_in(session).await.unwrap();
    let mut events = follow(&scene, run, None).await;
    assert_eq!(read(&mut events).await, (vec![0], false));
    scene.engine.admin().delete_session(session, "ann").await.unwrap();
    assert_eq!(code(events.next().await.map(|_| ())), Code::RunErased);
    assert_eq!(code(scene.engine.read().follow_events(run, None).await.map(|_| ())), Code::RunErased);
    let nobody: RunId = "run_01HZX3Q0M0000000000000000C".parse().unwrap();
    assert_eq!(code(scene.engine.read().follow_events(nobody, None).await.map(|_| ())), Code::RunNotFound);
}
