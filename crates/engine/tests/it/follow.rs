//! Following as frames: history joined with live events, each event once and in order, however slow another reader
//! is.

use std::time::Duration;

use futures_util::future::join_all;
use recount_engine::Delivery;
use recount_event::Code;
use recount_faulty_store::AppendFault;

use crate::scene::{End, Scene, code, read};

const NOTE: &[(&str, &str)] = &[("ext.test.note", "{}")];

fn check(reading: &crate::scene::ReadResult, cursors: std::ops::Range<u64>, end: End) {
    assert_eq!((reading.cursors.clone(), reading.end), (cursors.collect(), end));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_followed_from_anywhere() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.report(run, 1, &[NOTE[0]; 8]).await.unwrap();
    for (after, next) in [(None, 0), (Some(0), 1), (Some(4), 5), (Some(9), 10)] {
        let mut reader = scene.engine.read().follow_run(run, after).await.unwrap();
        check(&read(&mut reader).await, next..10, End::CaughtUp);
        assert_eq!(reader.last(), Some(9));
    }
    for ahead in [10, 11, 1 << 40, u64::MAX] {
        assert_eq!(
            code(scene.engine.read().follow_run(run, Some(ahead)).await.map(|_| ())),
            Code::CursorAhead
        );
        assert_eq!(code(scene.engine.read().read_run(run, Some(ahead), 5).await), Code::CursorAhead);
    }
}

#[tokio::test(start_paused = true)]
async fn the_feed_is_followed_from_anywhere() {
    let scene = Scene::new().await;
    let mut nothing_yet = scene.engine.read().follow_feed(None).await.unwrap();
    check(&read(&mut nothing_yet).await, 0..0, End::CaughtUp);
    let run = scene.start().await;
    scene.report(run, 1, &[NOTE[0]; 8]).await.unwrap();
    for (after, next) in [(None, 1), (Some(0), 1), (Some(4), 5), (Some(10), 11)] {
        let mut reader = scene.engine.read().follow_feed(after).await.unwrap();
        check(&read(&mut reader).await, next..11, End::CaughtUp);
    }
    check(&read(&mut nothing_yet).await, 1..11, End::Quiet);
    for ahead in [11, u64::MAX] {
        assert_eq!(code(scene.engine.read().follow_feed(Some(ahead)).await.map(|_| ())), Code::CursorAhead);
        assert_eq!(code(scene.engine.read().read_feed(Some(ahead), 5).await), Code::CursorAhead);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_are_the_same_on_every_read_path() {
    let scene = Scene::new().await;
    let run = scene.queue().await;
    let mut live = scene.engine.read().follow_run(run, None).await.unwrap();
    let mut live_feed = scene.engine.read().follow_feed(None).await.unwrap();
    read(&mut live).await;
    read(&mut live_feed).await;
    scene
        .report(run, 0, &[("run.started", "{ }"), ("ext.test.note", r#"{ "é" : [1.0, "\u00e9"] }"#)])
        .await
        .unwrap();
    scene.cancel(run).await.unwrap();
    let mut late = scene.engine.read().follow_run(run, None).await.unwrap();
    let stored: Vec<Vec<u8>> = scene
        .engine
        .read()
        .read_run(run, None, 10)
        .await
        .unwrap()
        .0
        .into_iter()
        .map(|(_, bytes)| bytes.to_vec())
        .collect();
    assert_eq!(read(&mut live).await.bytes, stored[1..]);
    assert_eq!(read(&mut live_feed).await.bytes, stored[1..]);
    assert_eq!(read(&mut late).await.bytes, stored);
}

#[tokio::test(start_paused = true)]
async fn a_finished_run_is_delivered_and_then_closed() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut live = scene.engine.read().follow_run(run, None).await.unwrap();
    check(&read(&mut live).await, 0..2, End::CaughtUp);
    scene.report(run, 1, &[("run.finished", r#"{"final_status":"ok"}"#)]).await.unwrap();
    check(&read(&mut live).await, 2..3, End::Closed);
    for (after, next) in [(None, 0), (Some(1), 2), (Some(2), 3)] {
        let mut late = scene.engine.read().follow_run(run, after).await.unwrap();
        check(&read(&mut late).await, next..3, End::CaughtUp);
        check(&read(&mut late).await, 3..3, End::Closed);
    }
    // The feed continues.
    let mut feed = scene.engine.read().follow_feed(None).await.unwrap();
    check(&read(&mut feed).await, 1..4, End::CaughtUp);
    check(&read(&mut feed).await, 4..4, End::Quiet);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ended_before_the_restart_is_closed_too() {
    let mut scene = Scene::new().await;
    let run = scene.start().await;
    scene.cancel(run).await.unwrap();
    scene.reopen().await;
    let mut late = scene.engine.read().follow_run(run, Some(0)).await.unwrap();
    check(&read(&mut late).await, 1..3, End::CaughtUp);
    check(&read(&mut late).await, 3..3, End::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_closed_before_its_ending_was_delivered() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut early = scene.engine.read().follow_run(run, None).await.unwrap();
    check(&read(&mut early).await, 0..2, End::CaughtUp);
    let (go, late) = tokio::sync::oneshot::channel();
    scene.store.next_appends([AppendFault::ObserveLate(late)]);
    let cancel = scene.cancel(run);
    let join = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        // The ending is in the store, and not yet observed.
        let mut joined = scene.engine.read().follow_run(run, Some(1)).await.unwrap();
        check(&read(&mut joined).await, 2..3, End::CaughtUp);
        check(&read(&mut joined).await, 3..3, End::Closed);
        let mut waits = scene.engine.read().follow_run(run, Some(2)).await.unwrap();
        check(&read(&mut waits).await, 3..3, End::CaughtUp);
        check(&read(&mut waits).await, 3..3, End::Closed);
        check(&read(&mut early).await, 2..3, End::Closed);
        go.send(()).unwrap();
    };
    let (cancelled, ()) = tokio::join!(cancel, join);
    assert!(cancelled.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn gaps_after_the_ending_are_delivered_to_later_readers() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.cancel(run).await.unwrap();
    let gap = crate::scene::drafts(&[(
        "gap.run_disconnected",
        r#"{"since_sequence":1,"since_at":"2026-05-03T10:23:45.123Z","reason":"r"}"#,
    )]);
    scene.engine.write().submit(run, recount_run::Command::Progress { drafts: gap }).await.unwrap();
    let mut late = scene.engine.read().follow_run(run, None).await.unwrap();
    check(&read(&mut late).await, 0..4, End::CaughtUp);
    check(&read(&mut late).await, 4..4, End::Closed);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn readers_that_join_during_many_writes_miss_no_events() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let write = async {
        join_all((0..64).map(|writer| {
            let scene = &scene;
            async move {
                for n in 0..8_u64 {
                    tokio::time::sleep(Duration::from_millis(1 + (writer * 7 + n * 13) % 11)).await;
                    scene.note(run, &format!("w{writer}-{n}")).await.unwrap();
                }
            }
        }))
        .await;
        scene.cancel(run).await.unwrap();
    };
    let readers = join_all((0..40).map(|n| {
        let scene = &scene;
        async move {
            tokio::time::sleep(Duration::from_millis(n * 2)).await;
            let mut reader = scene.engine.read().follow_run(run, None).await.unwrap();
            let mut cursors = Vec::new();
            loop {
                let reading = read(&mut reader).await;
                cursors.extend(reading.cursors);
                match reading.end {
                    End::CaughtUp => {}
                    End::Closed => return cursors,
                    End::Quiet => panic!("the run ended, but reader {n} got no end"),
                }
            }
        }
    }));
    let ((), readers) = tokio::join!(write, readers);
    for cursors in readers {
        assert_eq!(cursors, (0..64 * 8 + 3).collect::<Vec<u64>>());
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_falls_off_the_list_is_served_from_the_store() {
    // A hundred frames fill a run's list.
    let scene = Scene::padded(recount_engine::limits::RUN_LIST_BYTES_MAX / 100).await;
    let run = scene.start().await;
    let mut run_reader = scene.engine.read().follow_run(run, None).await.unwrap();
    let mut feed_reader = scene.engine.read().follow_feed(None).await.unwrap();
    read(&mut run_reader).await;
    read(&mut feed_reader).await;
    for seq in 1..=1000 {
        scene.report(run, seq, NOTE).await.unwrap();
    }
    let mut next = 2;
    loop {
        match run_reader.next().await.unwrap() {
            Delivery::Frames { bytes, last } => {
                let events = last + 1 - next;
                assert_eq!(crate::scene::frames(&bytes).len() as u64, events);
                next = last + 1;
                if next == 1002 {
                    break;
                }
            }
            other => panic!("{other:?} at {next}"),
        }
    }
    check(&read(&mut feed_reader).await, 3..1003, End::Quiet);
}

#[tokio::test(start_paused = true)]
async fn an_idle_reader_delays_no_writer() {
    let scene = Scene::padded(recount_engine::limits::RUN_LIST_BYTES_MAX / 10).await;
    let run = scene.start().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(scene.engine.read().follow_run(run, None).await.unwrap());
        idle.push(scene.engine.read().follow_feed(None).await.unwrap());
    }
    let mut busy = scene.engine.read().follow_run(run, Some(1)).await.unwrap();
    read(&mut busy).await;
    let writes = async {
        for seq in 1..=50 {
            scene.report(run, seq, NOTE).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(1), writes).await.expect("no write waits for a slow reader");
    check(&read(&mut busy).await, 2..52, End::Quiet);
    let last = idle.pop().unwrap();
    let mut last = last;
    check(&read(&mut last).await, 1..53, End::CaughtUp);
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_wait_loses_no_events() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let mut reader = scene.engine.read().follow_run(run, None).await.unwrap();
    read(&mut reader).await;
    for seq in 1..=20 {
        for _ in 0..3 {
            let wait = tokio::time::timeout(Duration::from_millis(3), reader.next());
            assert!(wait.await.is_err());
        }
        scene.report(run, seq, NOTE).await.unwrap();
        let Delivery::Frames { last, .. } = reader.next().await.unwrap() else { panic!("one is due") };
        assert_eq!(last, seq + 1);
    }
}
