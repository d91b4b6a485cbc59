//! A request that is held open.

use serde_json::Value;

use crate::test_context::TestContext;

/// The answer's body. Aborted, the client has left.
pub(crate) type Held = tokio::task::JoinHandle<Value>;

#[allow(clippy::disallowed_methods)]
pub(crate) fn hold(context: &TestContext, target: &str, body: &str) -> Held {
    let (context, target, body) = (context.clone(), target.to_owned(), body.to_owned());
    tokio::spawn(async move {
        let reply = context.post(&target, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    })
}
