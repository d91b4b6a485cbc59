//! Stalled listeners of the accessibility face, over an event stream and a WebSocket: they are cut, cost bounded
//! memory, slow no other, and resume correctly.

use std::time::Duration;

use recount_face_aaep::limits::RUN_WINDOW_BYTES_MAX;
use recount_transport::limits::WRITE_STALL;
use recount_transport::sse::Decoder;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::http::web_socket::{WebSocket, subscription_request};
use crate::test_context::TestContext;
use crate::wire::{End, Wire, request};

/// Much more than the operating system buffers for a connection: 60 pieces of model output.
const PIECES: u64 = 60;
const PIECE: &str = "It rains in Oslo, and all coats are wet. ";
const REPEATED: usize = 2_500;

/// A stream of the face over HTTP.
struct StreamListener {
    wire: Wire,
    decoder: Decoder,
    last_id: Option<String>,
}

impl StreamListener {
    /// Subscribes to a run from its start.
    async fn subscription(context: &TestContext, run: &str) -> String {
        let own = json!({ "run_id": run, "from": "start" });
        let reply =
            context.post("/aaep/v1/subscriptions", &subscription_request(json!({}), own).to_string()).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.header("location").expect("where its stream is").to_owned()
    }

    async fn open(
        context: &TestContext,
        mut wire: Wire,
        location: &str,
        last_id: Option<&str>,
    ) -> StreamListener {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(last_id.map(|id| ("last-event-id", id)));
        wire.send(&request(context.address, "GET", location, &headers, None)).await;
        let head = wire.head().await.expect("a response head");
        assert_eq!(head.status, 200, "{head:?}");
        StreamListener { wire, decoder: Decoder::new(), last_id: None }
    }

    async fn next(&mut self) -> Result<Value, End> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                self.last_id = frame.id.or(self.last_id.take());
                return Ok(serde_json::from_str(&frame.data).unwrap());
            }
            match self.wire.chunk().await {
                Some(Some(chunk)) => self.decoder.feed(&chunk).unwrap(),
                Some(None) => return Err(End::Good),
                None => return Err(End::Cut),
            }
        }
    }

    /// The announced text, and how the stream ends.
    async fn rest(&mut self) -> (String, End) {
        let mut text = String::new();
        loop {
            match self.next().await {
                Ok(event) => text.push_str(event["chunk"].as_str().unwrap_or_default()),
                Err(end) => return (text, end),
            }
        }
    }
}

/// A connection with a small receive buffer.
async fn small_buffer_wire(context: &TestContext) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    Wire::over(socket.connect(context.address).await.unwrap())
}

/// Reports a long answer and the end of the run. Returns the text.
async fn report_answer(context: &TestContext, run: &str) -> String {
    let piece = PIECE.repeat(REPEATED);
    context.report(run, 0, &[("run.started", "{}"), ("turn.started", r#"{"turn_index":0}"#)]).await;
    for seq in 1..=PIECES {
        let block = json!({ "turn_index": 0, "block_index": seq, "text": piece }).to_string();
        context.report(run, seq, &[("assistant.text_complete", block.as_str())]).await;
    }
    let whole = piece.repeat(usize::try_from(PIECES).unwrap());
    let end = [
        ("turn.completed", r#"{"turn_index":0,"stop_reason":"end_turn","tool_calls":0}"#),
        ("run.finished", r#"{"final_status":"completed"}"#),
    ];
    context.report(run, PIECES + 1, &end).await;
    whole
}

/// Lets so much time pass that stalled readers are cut.
async fn stall() {
    tokio::time::pause();
    let began = recount_world::moment();
    while began.elapsed() < WRITE_STALL + Duration::from_secs(2) {
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::resume();
}

async fn figure(context: &TestContext, name: &str) -> f64 {
    let metrics = context.get("/metrics").await;
    let value = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {}", metrics.text())).parse().unwrap()
}

/// Checks that a second listener receives everything, and that the memory for both is bounded.
async fn check_other_listener(context: &TestContext, run: &str) -> String {
    let location = StreamListener::subscription(context, run).await;
    let mut beside =
        StreamListener::open(context, Wire::connect(context.address).await, &location, None).await;
    let (whole, (received, end)) = tokio::join!(report_answer(context, run), beside.rest());
    assert!(received == whole, "{} of {} bytes", received.len(), whole.len());
    assert_eq!(end, End::Good);
    let kept = figure(context, "recount_aaep_projected_bytes").await;
    // The newest event may exceed the limit.
    assert!(kept <= (RUN_WINDOW_BYTES_MAX + (64 << 10)) as f64, "{kept} bytes");
    whole
}

#[tokio::test]
async fn a_stalled_event_stream_is_cut_and_resumes_exactly() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let location = StreamListener::subscription(&context, &run).await;
    let mut slow = StreamListener::open(&context, small_buffer_wire(&context).await, &location, None).await;
    let whole = check_other_listener(&context, &run).await;
    stall().await;
    assert_eq!(figure(&context, "recount_connections_stalled_total").await, 1.0);
    let (before, end) = slow.rest().await;
    assert_eq!(end, End::Cut, "the end is not a regular one");
    assert!(!before.is_empty() && before.len() < whole.len(), "{} of {} bytes", before.len(), whole.len());
    let mut again = StreamListener::open(
        &context,
        Wire::connect(context.address).await,
        &location,
        slow.last_id.as_deref(),
    )
    .await;
    let (after, end) = again.rest().await;
    assert_eq!(end, End::Good);
    assert!(
        before.clone() + &after == whole,
        "{} and {} of {} bytes",
        before.len(),
        after.len(),
        whole.len()
    );
}

#[tokio::test]
async fn a_stalled_websocket_is_cut_counted_and_its_subscription_ends() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let own = json!({ "run_id": run, "from": "start" });
    let (mut slow, _) = WebSocket::subscribed(context.address, None, own).await;
    let whole = check_other_listener(&context, &run).await;
    assert_eq!(figure(&context, "recount_aaep_subscriptions").await, 2.0);
    stall().await;
    assert_eq!(figure(&context, "recount_connections_stalled_total").await, 1.0);
    // The subscription of the other stream remains.
    assert_eq!(figure(&context, "recount_aaep_subscriptions").await, 1.0);
    // Half of a frame may end the stream, so nothing after it is a frame.
    let (texts, closed) = slow.until_closed().await;
    let mut received = String::new();
    for text in texts {
        let event: Value = serde_json::from_str(&text).unwrap();
        received.push_str(event["chunk"].as_str().unwrap_or_default());
    }
    assert!(
        !received.is_empty() && whole.starts_with(&received) && received.len() < whole.len(),
        "{} bytes",
        received.len()
    );
    assert_eq!(closed, None, "no close code claims that all events were sent");
}
