//! Listeners of the accessibility face that do not read, over an event stream and a WebSocket: they are cut, cost a
//! bounded amount, slow nobody, and learn the truth when they read again.

use std::time::Duration;

use recount_face_aaep::limits::RUN_WINDOW_BYTES_MAX;
use recount_transport::limits::WRITE_STALL;
use recount_transport::sse::Decoder;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::house::House;
use crate::http::web_socket::{WebSocket, wish};
use crate::wire::{End, Wire, request};

/// Much more than the operating system holds for a connection: 60 pieces of a model's answer.
const PIECES: u64 = 60;
const PIECE: &str = "It rains in Oslo, and nobody has a coat. ";
const REPEATED: usize = 2_500;

/// A stream of the face over HTTP.
struct Ear {
    wire: Wire,
    decoder: Decoder,
    last_id: Option<String>,
}

impl Ear {
    /// Subscribes to a run from its start.
    async fn subscription(house: &House, run: &str) -> String {
        let own = json!({ "run_id": run, "from": "start" });
        let reply = house.post("/aaep/v1/subscriptions", &wish(json!({}), own).to_string()).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.header("location").expect("where its stream is").to_owned()
    }

    async fn open(house: &House, mut wire: Wire, location: &str, last_id: Option<&str>) -> Ear {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(last_id.map(|id| ("last-event-id", id)));
        wire.send(&request(house.address, "GET", location, &headers, None)).await;
        let head = wire.head().await.expect("a head comes");
        assert_eq!(head.status, 200, "{head:?}");
        Ear { wire, decoder: Decoder::new(), last_id: None }
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

    /// The text that is heard, and how the stream ends.
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

/// A connection that receives as little as possible ahead.
async fn reluctant(house: &House) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    Wire::over(socket.connect(house.address).await.unwrap())
}

/// Tells a long answer and the end of the run. Answers the text.
async fn tell(house: &House, run: &str) -> String {
    let piece = PIECE.repeat(REPEATED);
    house.tell(run, 0, &[("run.started", "{}"), ("turn.started", r#"{"turn_index":0}"#)]).await;
    for seq in 1..=PIECES {
        let block = json!({ "turn_index": 0, "block_index": seq, "text": piece }).to_string();
        house.tell(run, seq, &[("assistant.text_complete", block.as_str())]).await;
    }
    let whole = piece.repeat(usize::try_from(PIECES).unwrap());
    let end = [
        ("turn.completed", r#"{"turn_index":0,"stop_reason":"end_turn","tool_calls":0}"#),
        ("run.finished", r#"{"final_status":"completed"}"#),
    ];
    house.tell(run, PIECES + 1, &end).await;
    whole
}

/// Lets so much time pass that who accepts no data is cut.
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

async fn figure(house: &House, name: &str) -> f64 {
    let metrics = house.get("/metrics").await;
    let value = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {}", metrics.text())).parse().unwrap()
}

/// A listener beside one that does not read has heard all of it, and what is kept for both is bounded.
async fn others_hear_all(house: &House, run: &str) -> String {
    let location = Ear::subscription(house, run).await;
    let mut beside = Ear::open(house, Wire::connect(house.address).await, &location, None).await;
    let (whole, (heard, end)) = tokio::join!(tell(house, run), beside.rest());
    assert!(heard == whole, "{} of {} bytes", heard.len(), whole.len());
    assert_eq!(end, End::Good);
    let kept = figure(house, "recount_aaep_projected_bytes").await;
    // The newest event may be over it.
    assert!(kept <= (RUN_WINDOW_BYTES_MAX + (64 << 10)) as f64, "{kept} bytes");
    whole
}

#[tokio::test]
async fn who_does_not_read_a_stream_is_cut_and_goes_on_exactly_where_it_was() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let location = Ear::subscription(&house, &run).await;
    let mut slow = Ear::open(&house, reluctant(&house).await, &location, None).await;
    let whole = others_hear_all(&house, &run).await;
    stall().await;
    assert_eq!(figure(&house, "recount_connections_stalled_total").await, 1.0);
    let (before, end) = slow.rest().await;
    assert_eq!(end, End::Cut, "no good end is pretended");
    assert!(!before.is_empty() && before.len() < whole.len(), "{} of {} bytes", before.len(), whole.len());
    let mut again =
        Ear::open(&house, Wire::connect(house.address).await, &location, slow.last_id.as_deref()).await;
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
async fn who_does_not_read_a_websocket_is_cut_counted_and_its_subscription_ends() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let own = json!({ "run_id": run, "from": "start" });
    let (mut slow, _) = WebSocket::subscribed(house.address, None, own).await;
    let whole = others_hear_all(&house, &run).await;
    assert_eq!(figure(&house, "recount_aaep_subscriptions").await, 2.0);
    stall().await;
    assert_eq!(figure(&house, "recount_connections_stalled_total").await, 1.0);
    // That of the stream beside it lives on.
    assert_eq!(figure(&house, "recount_aaep_subscriptions").await, 1.0);
    // At once: behind the half of a frame that was cut, nothing is a frame.
    let (texts, closed) = slow.until_closed().await;
    let mut heard = String::new();
    for text in texts {
        let event: Value = serde_json::from_str(&text).unwrap();
        heard.push_str(event["chunk"].as_str().unwrap_or_default());
    }
    assert!(
        !heard.is_empty() && whole.starts_with(&heard) && heard.len() < whole.len(),
        "{} bytes",
        heard.len()
    );
    assert_eq!(closed, None, "no code pretends that all events were sent");
}
