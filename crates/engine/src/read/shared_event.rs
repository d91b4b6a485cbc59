//! An event that all readers of a live list share, with values that faces derive from it. See [`SharedEvent`].
//!
//! It must not know the derived values.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use recount_event::Event;

use crate::limits;

/// A decoded event. Each face can store one derived value with it, by type.
pub struct SharedEvent {
    event: Event,
    derived: [OnceLock<Arc<dyn Any + Send + Sync>>; limits::FACE_SLOTS],
}

impl SharedEvent {
    pub(crate) fn new(event: Event) -> Self {
        SharedEvent { event, derived: Default::default() }
    }

    /// The derived value of type `T`: computed for the first reader and shared with all others.
    pub fn derived<T: Send + Sync + 'static>(&self, make: impl Fn(&Event) -> T) -> Arc<T> {
        for slot in &self.derived {
            let value = slot.get_or_init(|| Arc::new(make(&self.event)));
            if let Ok(value) = value.clone().downcast() {
                return value;
            }
        }
        Arc::new(make(&self.event))
    }
}

impl std::ops::Deref for SharedEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
