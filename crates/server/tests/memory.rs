//! Memory cost of stalled readers. It is a process of its own, because its memory is measured.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use futures_util::future::join_all;
use tokio::net::TcpSocket;

#[allow(dead_code, reason = "shared with the other tests of this face")]
#[path = "it/test_context.rs"]
mod test_context;
#[allow(dead_code, reason = "shared with the other tests of this face")]
#[path = "it/wire.rs"]
mod wire;

use test_context::TestContext;
use wire::{Wire, events, request};

const STALLED: usize = 50;
/// The most bytes per stalled reader: a page of history, its frames, and a margin.
const EACH_BYTES_MAX: usize = 1 << 20;
/// The most bytes that the server needs without readers: pages of the store, the list of the feed.
const SERVER_BYTES_MAX: usize = 96 << 20;

/// The anonymous memory of this process. Mapped pages of the database do not count: the system reclaims them.
fn own_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kib: usize = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    kib << 10
}

/// Opens a stream and never reads a byte.
async fn stall(context: &TestContext, target: &str) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut wire = Wire::over(socket.connect(context.address).await.unwrap());
    let accept = [("accept", "text/event-stream")];
    wire.send(&request(context.address, "GET", target, &accept, None)).await;
    wire
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_cost_little_and_slow_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    let batch = [("user.message", large.as_str()); 8];
    let mut seq = 0;
    let mut report = async |batches: u64| {
        for _ in 0..batches {
            context.report(&run, seq, &batch).await;
            seq += 1;
        }
    };
    // The history is as large as the live events below, and far larger than the limit per reader.
    report(30).await;
    let before = own_bytes();
    let targets = [path.as_str(), "/v1/events/stream"];
    let stalled = join_all((0..STALLED).map(|at| stall(&context, targets[at % 2]))).await;
    let mut reader = context.listen(&path).await;
    let mut of_feed = context.listen("/v1/events/stream").await;
    let reading = async {
        let mut count = events(&reader.until_caught_up().await).len();
        while count < 1 + 60 * 8 {
            reader.event().await.expect("other readers continue");
            count += 1;
        }
        count
    };
    let reading_feed = async {
        let mut count = 0;
        while count < 1 + 60 * 8 {
            of_feed.event().await.expect("other readers continue");
            count += 1;
        }
        count
    };
    let ((), count, feed_events) = tokio::join!(report(30), reading, reading_feed);
    assert_eq!((count, feed_events), (481, 481));
    let grown = own_bytes().saturating_sub(before);
    let most = SERVER_BYTES_MAX + STALLED * EACH_BYTES_MAX;
    assert!(grown < most, "{} MiB for {STALLED} readers, at most {}", grown >> 20, most >> 20);
    println!("{} MiB for {STALLED} readers that do not read", grown >> 20);
    drop(stalled);
}
