//! Rooms that have readers: their readers and terms, and messages to all of them.
//!
//! A room exists as long as it has a reader. Must not depend on the content of messages. Start with [`Rooms::enter`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use recount_aaep::negotiate::Terms;
use recount_aaep::wire::{Choice, ReplyToken};
use recount_engine::EngineInstance;
use tokio::sync::{Notify, mpsc};

use crate::limits;
use crate::subscription::Subscription;

/// The key of a room. Callers share no room, so that none receives the terms of another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RoomKey {
    pub(crate) engine: EngineInstance,
    pub(crate) caller: String,
    pub(crate) name: String,
}

/// All rooms of the process that have readers. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Rooms(Arc<AllRooms>);

#[derive(Default)]
struct AllRooms {
    by_key: Mutex<HashMap<RoomKey, Arc<Room>>>,
    entered: Notify,
}

/// One room of one caller.
pub(crate) struct Room {
    key: RoomKey,
    state: Mutex<RoomState>,
}

#[derive(Default)]
struct RoomState {
    readers: Vec<Arc<RoomReader>>,
    /// The last negotiated terms; `None`: none.
    terms: Option<Terms>,
}

/// A stream of a room.
pub(crate) struct RoomReader {
    pub(crate) subscription: Arc<Subscription>,
    messages: mpsc::Sender<Bytes>,
    /// Messages were lost, so the stream ends.
    has_lost: AtomicBool,
    shown: Mutex<Option<ShownPrompt>>,
}

/// The prompt that a reader was sent and can answer.
#[derive(Debug, Clone)]
pub(crate) struct ShownPrompt {
    pub(crate) token: ReplyToken,
    pub(crate) choices: Vec<Choice>,
}

impl RoomReader {
    /// A reader, and where its feed finds messages for it.
    pub(crate) fn new(subscription: Arc<Subscription>) -> (Arc<RoomReader>, mpsc::Receiver<Bytes>) {
        let (messages, inbox) = mpsc::channel(limits::ROOM_MESSAGES_MAX);
        let (has_lost, shown) = (AtomicBool::new(false), Mutex::default());
        (Arc::new(RoomReader { subscription, messages, has_lost, shown }), inbox)
    }

    /// Queues a message for its stream, which ends if too many are unread.
    pub(crate) fn send(&self, message: String) {
        if self.messages.try_send(message.into()).is_err() {
            self.has_lost.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    pub(crate) fn shown(&self) -> Option<ShownPrompt> {
        lock(&self.shown).clone()
    }

    pub(crate) fn shows(&self, prompt: Option<ShownPrompt>) {
        *lock(&self.shown) = prompt;
    }
}

impl Rooms {
    /// A room that has readers.
    pub(crate) fn find(&self, key: &RoomKey) -> Option<Arc<Room>> {
        lock(&self.0.by_key).get(key).cloned()
    }

    /// Adds a reader to a room, with the terms of the room.
    pub(crate) fn enter(&self, key: RoomKey, reader: Arc<RoomReader>) -> Arc<Room> {
        let room = {
            let mut rooms = lock(&self.0.by_key);
            let room = rooms
                .entry(key)
                .or_insert_with_key(|key| Arc::new(Room { key: key.clone(), state: Mutex::default() }));
            lock(&room.state).readers.push(reader.clone());
            room.clone()
        };
        if let Some(terms) = room.terms() {
            reader.subscription.change_terms(terms);
        }
        self.0.entered.notify_waiters();
        room
    }

    /// Removes a reader, and the room with the last one.
    pub(crate) fn leave(&self, room: &Arc<Room>, reader: &Arc<RoomReader>) {
        let mut rooms = lock(&self.0.by_key);
        let mut state = lock(&room.state);
        state.readers.retain(|other| !Arc::ptr_eq(other, reader));
        if state.readers.is_empty() {
            rooms.remove(&room.key);
        }
    }

    /// Waits for the first reader of a room, for a short time.
    pub(crate) async fn has_reader(&self, key: &RoomKey) {
        let there = async {
            loop {
                let entered = self.0.entered.notified();
                if self.find(key).is_some() {
                    return;
                }
                entered.await;
            }
        };
        if tokio::time::timeout(limits::ROOM_READER_WAIT, there).await.is_err() {
            tracing::debug!(room = key.name, "no subscriber reads the shared stream");
        }
    }
}

impl Room {
    pub(crate) fn readers(&self) -> Vec<Arc<RoomReader>> {
        lock(&self.state).readers.clone()
    }

    /// The negotiated terms of the room.
    pub(crate) fn terms(&self) -> Option<Terms> {
        lock(&self.state).terms.clone()
    }

    /// Sets other terms for all readers.
    pub(crate) fn change_terms(&self, terms: &Terms) {
        let readers = {
            let mut state = lock(&self.state);
            state.terms = Some(terms.clone());
            state.readers.clone()
        };
        for reader in readers {
            reader.subscription.change_terms(terms.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
