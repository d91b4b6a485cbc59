//! What is said about an event that stands for several: an id of its own, and the ids of the others in an extension
//! (G-25, G-27).

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::hash::sum;
use crate::limits;
use crate::wire::{Context, Event, EventId};

/// The context that declares the extension. It is a name; nothing is to be fetched from it.
pub const EXTENSION_CONTEXT: &str = "urn:recount:aaep:v1:coalesced";

/// The prefix of the extension: `{"recount":{"coalesced_from":["evt_…"],"coalesced_count":3}}`.
pub const EXTENSION_PREFIX: &str = "recount";

/// The events that are in one.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    ids: Vec<EventId>,
    count: u32,
}

impl Sources {
    pub(super) fn one(id: EventId) -> Self {
        Sources { ids: vec![id], count: 1 }
    }

    /// Of output: its pieces are counted with its text.
    pub(super) fn none() -> Self {
        Sources { ids: Vec::new(), count: 0 }
    }

    pub(super) fn of(mut ids: Vec<EventId>, count: u32) -> Self {
        shorten(&mut ids);
        Sources { ids, count }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn bytes(&self) -> usize {
        self.ids.iter().map(|id| id.as_str().len() + size_of::<EventId>()).sum()
    }

    /// Those of another behind these.
    pub(super) fn join(&mut self, other: Sources) {
        self.ids.extend(other.ids);
        shorten(&mut self.ids);
        self.count = self.count.saturating_add(other.count);
    }

    /// Gives an event that stands for these an id of its own, and notes them in it. The id is made of what it stands
    /// for, so that the same event has the same id when it is made again.
    pub(super) fn note(&self, event: &mut Event, subscription: &str, place: &str) {
        let ids: Vec<&str> = self.ids.iter().map(EventId::as_str).collect();
        let made_of = format!("{subscription} {} {} {place}", ids.join(" "), self.count);
        let (one, two) = (sum(1, made_of.as_bytes()), sum(2, made_of.as_bytes()));
        if let Ok(id) = EventId::new(format!("evt_{one:016x}{two:016x}")) {
            event.envelope.event_id = id;
        }
        declare(&mut event.envelope.context);
        let extensions = &mut event.envelope.extensions;
        // What an earlier hop noted stays, except where it is said anew.
        let mut object: Map<String, Value> = extensions
            .get(EXTENSION_PREFIX)
            .and_then(|known| serde_json::from_str(known.get()).ok())
            .unwrap_or_default();
        object.insert("coalesced_from".into(), ids.into());
        object.insert("coalesced_count".into(), self.count.into());
        if let Ok(object) = RawValue::from_string(Value::Object(object).to_string()) {
            extensions.insert(EXTENSION_PREFIX.into(), object);
        }
    }
}

/// The first and the newest are kept.
fn shorten(ids: &mut Vec<EventId>) {
    if ids.len() > limits::SHAPED_PIECES_MAX {
        ids.drain(1..=ids.len() - limits::SHAPED_PIECES_MAX);
    }
}

fn declare(context: &mut Context) {
    match context {
        Context::One(one) => *context = Context::Many(vec![one.clone(), EXTENSION_CONTEXT.into()]),
        Context::Many(contexts) => {
            if !contexts.iter().any(|known| &**known == EXTENSION_CONTEXT) {
                contexts.push(EXTENSION_CONTEXT.into());
            }
        }
    }
}
