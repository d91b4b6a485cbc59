//! A request that is held open, on a connection of its own.

use serde_json::Value;

use super::test_context::TestContext;
use super::wire::{Wire, request};

/// Resolves to the body of the response. Aborting it closes the connection.
pub(crate) type Held = tokio::task::JoinHandle<Value>;

#[allow(clippy::disallowed_methods)]
pub(crate) fn hold(context: &TestContext, target: &str, body: &str) -> Held {
    let (address, bytes) =
        (context.address, request(context.address, "POST", target, &[], Some(body.as_bytes())));
    tokio::spawn(async move {
        let mut wire = Wire::connect(address).await;
        wire.send(&bytes).await;
        let reply = wire.reply("POST").await.expect("a response");
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    })
}
