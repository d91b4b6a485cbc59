//! Many readers of event streams at once, and readers that stop reading.

use std::time::Duration;

use futures_util::future::join_all;
use recount_transport::limits::WRITE_STALL;
use recount_world::Kind;

use crate::test_context::{STORY, TestContext};
use crate::wire::{End, Listener, events};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_of_one_run_each_receive_every_event_once() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let early = join_all((0..500).map(|_| context.listen(&path))).await;
    let rounds = 20;
    let report = async |from: u64, to: u64| {
        for seq in from..to {
            let data = format!(r#"{{"text":"{seq}"}}"#);
            context.report(&run, seq, &[("user.message", data.as_str()); 3]).await;
        }
    };
    let collect = |listeners: Vec<Listener>| {
        join_all(listeners.into_iter().map(|mut listener| async move { listener.all().await }))
    };
    let later = async {
        report(0, rounds / 2).await;
        // These connect in the middle, while events arrive.
        let (late, ()) =
            tokio::join!(join_all((0..500).map(|_| context.listen(&path))), report(rounds / 2, rounds));
        context.report(&run, rounds, &[STORY[0], STORY[13]]).await;
        collect(late).await
    };
    let (early, late) = tokio::join!(collect(early), later);
    let expected: Vec<(u64, String)> = (0..).zip(context.envelopes(&path).await).collect();
    assert_eq!(expected.len() as u64, 1 + rounds * 3 + 2);
    for (frames, end) in early.iter().chain(&late) {
        assert_eq!(*end, End::Good);
        assert_eq!(events(frames), expected);
    }
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_cut_and_misses_nothing_when_it_reconnects() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(500_000));
    // More than the operating system buffers for a connection.
    let total = 60;
    for seq in 0..total / 4 {
        context.report(&run, seq, &[("user.message", large.as_str()); 4]).await;
    }
    let mut stalled = context.listen(&path).await;
    let tasks = context.running.engine.world().tasks.clone();
    // The server closes the earlier connections when it sees their ends.
    while tasks.alive(Kind::Connection) > 1 {
        tokio::task::yield_now().await;
    }
    // From here on time advances only when no task can run.
    tokio::time::pause();
    let began = recount_world::moment();
    while tasks.alive(Kind::Connection) > 0 {
        assert!(began.elapsed() < WRITE_STALL * 2, "it was never cut");
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    let waited = began.elapsed();
    assert!(waited + Duration::from_secs(1) >= WRITE_STALL, "cut after {waited:?}");
    tokio::time::resume();
    let metrics = context.get("/metrics").await;
    assert!(metrics.text().contains("\nrecount_connections_stalled_total 1\n"), "{}", metrics.text());
    let mut received = Vec::new();
    let end = loop {
        match stalled.event().await {
            Ok(event) => received.push(event),
            Err(end) => break end,
        }
    };
    assert_eq!(end, End::Cut);
    assert!(!received.is_empty() && received.len() < 61, "{} events", received.len());
    let last = received.last().unwrap().0.to_string();
    let mut again = Listener::open(context.address, &path, &[("last-event-id", &last)]).await;
    received.extend(events(&again.until_caught_up().await));
    let expected: Vec<(u64, String)> = (0..).zip(context.envelopes(&path).await).collect();
    assert!(received == expected, "{} of {} events, or other ones", received.len(), expected.len());
}

#[tokio::test]
async fn a_reader_that_stops_reading_does_not_hold_up_shutdown() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(500_000));
    for seq in 0..15 {
        context.report(&run, seq, &[("user.message", large.as_str()); 4]).await;
    }
    let stalled = context.listen(&path).await;
    let tasks = context.running.engine.world().tasks.clone();
    while tasks.alive(Kind::Connection) > 1 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    assert_eq!(context.running.stop().await, 0, "every task ended in time");
    drop(stalled);
}
