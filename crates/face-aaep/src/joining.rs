//! What a subscription receives that joins a run in its middle: a sentence on where the run stands. Pure.

use recount_aaep::Event;
use recount_aaep::wire::{Envelope, StateChanged, Urgency};

use crate::project::Place;
use crate::speech::{Key, Speech};

/// Parts from here on are not of events of the log: a stream is never resumed after them.
pub(crate) const SUMMARY_PART: u64 = 1 << 24;

/// A change of state from and to the present one, with a sentence that says it. `key` takes the agent and the state.
pub(crate) fn summary(
    envelope: &Envelope,
    place: Place,
    state: &'static str,
    speech: &'static Speech,
    key: Key,
) -> Event {
    let mut envelope = envelope.clone();
    envelope.event_id = place.event_id();
    envelope.urgency = Some(Urgency::Normal);
    envelope.localization_hints = Some(speech.hints());
    let said = speech.sentence(key_of(state), &[]);
    let agent = envelope.producer.agent_name.clone();
    let agent = agent.unwrap_or_else(|| speech.sentence(Key::AgentUnnamed, &[]));
    let summaries = speech.say(key, &[("agent", agent.as_str().into()), ("state", said.as_str().into())]);
    let direction = speech.direction(summaries.normal.as_deref().unwrap_or_default());
    if let Some(hints) = &mut envelope.localization_hints {
        hints.text_direction = Some(direction);
    }
    let body = StateChanged::new(state.into(), state.into()).into();
    Event { envelope, summaries, body, other: Vec::new() }
}

/// The sentence of a state.
fn key_of(state: &str) -> Key {
    match state {
        "deciding" => Key::Deciding,
        "calling_tool" => Key::CallingTool,
        "writing_output" => Key::Writing,
        "awaiting_input" => Key::AwaitingInput,
        "handing_off" => Key::HandingOff,
        _ => Key::Thinking,
    }
}
