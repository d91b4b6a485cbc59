//! What readers that do not read cost the server. A process of its own, because its memory is measured.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use futures_util::future::join_all;
use tokio::net::TcpSocket;

#[allow(dead_code, reason = "shared with the other tests of this face")]
#[path = "it/house.rs"]
mod house;
#[allow(dead_code, reason = "shared with the other tests of this face")]
#[path = "it/wire.rs"]
mod wire;

use house::House;
use wire::{Wire, events, request};

const STALLED: usize = 50;
/// Bytes a reader may cost while it does not read: a page of history, what is framed of it, and change.
const EACH_BYTES_MAX: usize = 1 << 20;
/// What the server needs for itself, readers or not: pages of the store, the list of the feed.
const HOUSE_BYTES_MAX: usize = 96 << 20;

/// Memory of our own. The mapped pages of the database are the system's, counted once for each that maps them,
/// and taken back when they are wanted elsewhere.
fn own_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kib: usize = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    kib << 10
}

/// A reader that asks and then never takes a byte.
async fn stall(house: &House, target: &str) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut wire = Wire::over(socket.connect(house.address).await.unwrap());
    let accept = [("accept", "text/event-stream")];
    wire.send(&request(house.address, "GET", target, &accept, None)).await;
    wire
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_do_not_read_cost_little_and_slow_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::sqlite(folder.path()).await;
    let run = house.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    let batch = [("user.message", large.as_str()); 8];
    let mut seq = 0;
    let mut tell = async |batches: u64| {
        for _ in 0..batches {
            house.tell(&run, seq, &batch).await;
            seq += 1;
        }
    };
    // As much history as is told live below, and far more than a reader may cost.
    tell(30).await;
    let before = own_bytes();
    let targets = [path.as_str(), "/v1/events/stream"];
    let stalled = join_all((0..STALLED).map(|at| stall(&house, targets[at % 2]))).await;
    let mut reader = house.listen(&path).await;
    let mut of_feed = house.listen("/v1/events/stream").await;
    let reading = async {
        let mut heard = events(&reader.until_caught_up().await).len();
        while heard < 1 + 60 * 8 {
            reader.event().await.expect("others go on");
            heard += 1;
        }
        heard
    };
    let reading_feed = async {
        let mut heard = 0;
        while heard < 1 + 60 * 8 {
            of_feed.event().await.expect("others go on");
            heard += 1;
        }
        heard
    };
    let ((), heard, heard_of_feed) = tokio::join!(tell(30), reading, reading_feed);
    assert_eq!((heard, heard_of_feed), (481, 481));
    let grown = own_bytes().saturating_sub(before);
    let most = HOUSE_BYTES_MAX + STALLED * EACH_BYTES_MAX;
    assert!(grown < most, "{} MiB for {STALLED} readers, at most {}", grown >> 20, most >> 20);
    println!("{} MiB for {STALLED} readers that do not read", grown >> 20);
    drop(stalled);
}
