//! Marks merged events: a new id, and the ids of the original events in an extension (G-25, G-27).

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::hash::hash_text;
use crate::kind::{EXTENSION_CONTEXT, EXTENSION_PREFIX};
use crate::limits;
use crate::wire::{Context, Event, EventId};

/// The original events of a merged event.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    ids: Vec<EventId>,
    count: u32,
}

impl Sources {
    pub(super) fn one(id: EventId) -> Self {
        Sources { ids: vec![id], count: 1 }
    }

    /// No sources: chunks of output are counted with their text.
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

    /// Appends the sources of another event.
    pub(super) fn join(&mut self, other: Sources) {
        self.ids.extend(other.ids);
        shorten(&mut self.ids);
        self.count = self.count.saturating_add(other.count);
    }

    /// Sets a new id on a merged event and lists its sources. The id is a hash of the sources, so that the same merge
    /// always has the same id.
    pub(super) fn note(&self, event: &mut Event, subscription: &str, place: &str) {
        let ids: Vec<&str> = self.ids.iter().map(EventId::as_str).collect();
        let content = format!("{subscription} {} {} {place}", ids.join(" "), self.count);
        let (one, two) = (hash_text(1, content.as_bytes()), hash_text(2, content.as_bytes()));
        if let Ok(id) = EventId::new(format!("evt_{one:016x}{two:016x}")) {
            event.envelope.event_id = id;
        }
        declare(&mut event.envelope.context);
        let extensions = &mut event.envelope.extensions;
        // Members added by an earlier hop are kept unless they are replaced.
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

/// Keeps the first id and the newest ids.
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
