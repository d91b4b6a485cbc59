//! An event of a run that all readers of a live list share, with what faces make of it. See [`SharedEvent`].
//!
//! It must not know what a face makes.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use recount_event::Event;

use crate::limits;

/// Decoded once. A face keeps beside it, by its type, what it makes of the event.
pub struct SharedEvent {
    event: Event,
    made: [OnceLock<Arc<dyn Any + Send + Sync>>; limits::FACE_SLOTS],
}

impl SharedEvent {
    pub(crate) fn new(event: Event) -> Self {
        SharedEvent { event, made: Default::default() }
    }

    /// What a face makes of the event: made for the first reader that asks, and the same for all others.
    pub fn made<T: Send + Sync + 'static>(&self, make: impl Fn(&Event) -> T) -> Arc<T> {
        for slot in &self.made {
            let made = slot.get_or_init(|| Arc::new(make(&self.event)));
            if let Ok(made) = made.clone().downcast() {
                return made;
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
