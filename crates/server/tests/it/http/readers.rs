//! Many readers at once.

use std::time::Duration;

use futures_util::future::join_all;
use recount_transport::limits::WRITE_STALL;
use recount_world::Kind;

use crate::house::{House, STORY};
use crate::wire::{End, Listener, events};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_of_one_run_each_hear_every_event_once() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let early = join_all((0..500).map(|_| house.listen(&path))).await;
    let rounds = 20;
    let tell = async |from: u64, to: u64| {
        for seq in from..to {
            let said = format!(r#"{{"text":"{seq}"}}"#);
            house.tell(&run, seq, &[("user.message", said.as_str()); 3]).await;
        }
    };
    let hear = |listeners: Vec<Listener>| {
        join_all(listeners.into_iter().map(|mut listener| async move { listener.all().await }))
    };
    let later = async {
        tell(0, rounds / 2).await;
        // These come in the middle, while it goes on.
        let (late, ()) =
            tokio::join!(join_all((0..500).map(|_| house.listen(&path))), tell(rounds / 2, rounds));
        house.tell(&run, rounds, &[STORY[0], STORY[13]]).await;
        hear(late).await
    };
    let (early, late) = tokio::join!(hear(early), later);
    let expected: Vec<(u64, String)> = (0..).zip(house.envelopes(&path).await).collect();
    assert_eq!(expected.len() as u64, 1 + rounds * 3 + 2);
    for (frames, end) in early.iter().chain(&late) {
        assert_eq!(*end, End::Good);
        assert_eq!(events(frames), expected);
    }
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_cut_and_misses_nothing_when_it_comes_again() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(500_000));
    // More than the operating system holds for a connection.
    let total = 60;
    for seq in 0..total / 4 {
        house.tell(&run, seq, &[("user.message", large.as_str()); 4]).await;
    }
    let mut stalled = house.listen(&path).await;
    let tasks = house.running.engine.world().tasks.clone();
    // The connections of the requests before are let go when the server sees their ends.
    while tasks.alive(Kind::Connection) > 1 {
        tokio::task::yield_now().await;
    }
    // From here on time passes only when nothing else can happen.
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
    let metrics = house.get("/metrics").await;
    assert!(metrics.text().contains("\nrecount_connections_stalled_total 1\n"), "{}", metrics.text());
    let mut heard = Vec::new();
    let end = loop {
        match stalled.event().await {
            Ok(event) => heard.push(event),
            Err(end) => break end,
        }
    };
    assert_eq!(end, End::Cut);
    assert!(!heard.is_empty() && heard.len() < 61, "{} events", heard.len());
    let last = heard.last().unwrap().0.to_string();
    let mut again = Listener::open(house.address, &path, &[("last-event-id", &last)]).await;
    heard.extend(events(&again.until_caught_up().await));
    let expected: Vec<(u64, String)> = (0..).zip(house.envelopes(&path).await).collect();
    assert!(heard == expected, "{} of {} events, or other ones", heard.len(), expected.len());
}

#[tokio::test]
async fn a_reader_that_stops_reading_does_not_hold_up_shutdown() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(500_000));
    for seq in 0..15 {
        house.tell(&run, seq, &[("user.message", large.as_str()); 4]).await;
    }
    let stalled = house.listen(&path).await;
    let tasks = house.running.engine.world().tasks.clone();
    while tasks.alive(Kind::Connection) > 1 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    assert_eq!(house.running.stop().await, 0, "every task ended in time");
    drop(stalled);
}
