//! A request that is held open, on a connection of its own.

use serde_json::Value;

use super::house::House;
use super::wire::{Wire, request};

/// The answer's body. Aborted, the connection is closed.
pub(crate) type Held = tokio::task::JoinHandle<Value>;

#[allow(clippy::disallowed_methods)]
pub(crate) fn hold(house: &House, target: &str, body: &str) -> Held {
    let (address, bytes) =
        (house.address, request(house.address, "POST", target, &[], Some(body.as_bytes())));
    tokio::spawn(async move {
        let mut wire = Wire::connect(address).await;
        wire.send(&bytes).await;
        let reply = wire.reply("POST").await.expect("an answer");
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    })
}
