//! The producer manifest: the features of this face, for subscribers that read it before they subscribe. Pure.

use recount_aaep::negotiate::{Extension, Offer};
use recount_aaep::shaping::{EXTENSION_CONTEXT, EXTENSION_PREFIX};
use recount_aaep::wire::Producer;
use serde_json::{Map, Value, json};

use crate::limits;
use crate::reply_state::{CONTROL, EXTEND};
use crate::speech::Speech;

/// The agent id of this producer, the same for all versions.
const AGENT: &str = "recount";

/// The states that events name. A session begins in the first.
const STATES: [&str; 7] =
    ["idle", "thinking", "deciding", "calling_tool", "writing_output", "awaiting_input", "handing_off"];

/// The offer that handshakes are negotiated with.
pub(crate) fn offer() -> Offer {
    let producer = Producer {
        agent_version: Some(env!("CARGO_PKG_VERSION").into()),
        agent_name: Some("Recount".into()),
        ..Producer::named(AGENT)
    };
    let mut languages = Speech::languages();
    let primary = languages.next().unwrap_or("en-US");
    let mut offer = Offer::new(producer, primary);
    offer.languages.extend(languages.map(str::to_owned));
    offer.extensions = vec![Extension::new(EXTENSION_CONTEXT, EXTENSION_PREFIX)];
    offer
}

/// The manifest as JSON text.
pub(crate) fn manifest(subscriptions_max: usize) -> String {
    let offer = offer();
    json!({
        "@context": "https://aaep-protocol.org/context/v1",
        "type": "aaep:producer.manifest",
        "agent_id": offer.producer.agent_id,
        "agent_version": offer.producer.agent_version,
        "agent_name": offer.producer.agent_name,
        "aaep_versions_supported": [recount_aaep::VERSION],
        "conformance_levels_supported": [1, 2, 3],
        "transports_supported": ["sse", "websocket", "stdio-jsonrpc"],
        "languages_supported": offer.languages,
        "event_types_emitted": ["aaep:agent.*"],
        "extensions_supported": [EXTENSION_CONTEXT],
        "default_verbosity": "normal",
        "max_concurrent_subscriptions": subscriptions_max,
        "endpoints": {
            "subscriptions": "/aaep/v1/subscriptions",
            "events": "/aaep/v1/events",
            "replies": "/aaep/v1/replies",
            "websocket": "/aaep/v1/ws",
        },
        "framing": "sse: event aaep.event; websocket: subprotocol aaep.v1; stdio: JSON-RPC 2.0",
        "extensions": { "recount": {
            "heartbeat_seconds": limits::HEARTBEAT_EVERY.as_secs(),
            "state_transitions": transitions(),
            "messages": {
                EXTEND: "more time to answer a prompt: subscription_id, reply_token, seconds",
                CONTROL: "cancels a run: subscription_id, session_id, action cancel, reason; accepts or declines a \
                          handoff: action accept_handoff or decline_handoff, handoff_id, reason",
            },
        } },
        "states": STATES,
        "multi_agent_pattern": "linked_sessions",
    })
    .to_string()
}

/// The possible next states of each state. External runs change states in any order; none returns to the first.
fn transitions() -> Map<String, Value> {
    STATES.iter().map(|from| ((*from).to_owned(), json!(STATES[1..]))).collect()
}
