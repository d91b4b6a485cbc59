//! Slow and failing disks: what a command writes is what the log tells, or the log says what is missing.

use std::time::Duration;

use recount_engine::Order;
use recount_event::family::run::RunKind;
use recount_event::family::shell::Stream;
use recount_event::{Event, Payload};

use crate::scene::{Scene, first};

/// How many bytes of a stream the log has.
fn recorded(events: &[Event], stream: Stream) -> u64 {
    let chunks = events.iter().filter_map(|event| match event.payload() {
        Payload::ToolShellOutputChunk(chunk) if chunk.stream == stream => chunk.byte_count(),
        _ => None,
    });
    chunks.sum()
}

fn shell(command: &str) -> Order {
    Order { command: Some(command.into()), ..Order::default() }
}

#[tokio::test]
async fn a_slow_disk_loses_no_output() {
    const BYTES: u64 = 1_900_000;
    let scene = Scene::with("").await;
    scene.put("much.txt", "0123456789abcdef\n".repeat(120_000)[..1_900_000].as_bytes());
    scene.disk.faults.slow(Duration::from_millis(400));
    let run = scene.call(RunKind::Shell, shell("cat much.txt")).await;
    let events = scene.ended(run).await;
    let exited = first!(events, ToolShellExited);
    assert_eq!((recorded(&events, Stream::Stdout), exited.stdout_bytes), (BYTES, BYTES));
    assert!(!exited.truncated);
}
