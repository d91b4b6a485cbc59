//! The identity of the scripted producer in events, responses and its manifest.

use recount_aaep::wire::Producer;

/// The producer's agent.
pub(super) const AGENT: &str = "recount-scripted";

pub(super) fn producer() -> Producer {
    Producer {
        agent_version: Some(env!("CARGO_PKG_VERSION").into()),
        agent_name: Some("Scripted producer".into()),
        ..Producer::named(AGENT)
    }
}
