//! A stream of a room: a stream of the face in the form of old clients, with messages to its reader, and one open
//! prompt at a time.
//!
//! Must not depend on where the stream's events come from. Start with [`RoomFeed`].

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use recount_aaep::wire::ReplyToken;
use recount_aaep::{Event, Kind};
use recount_aaep_host::{Close, Feed, Item};
use recount_engine::{Error, ListQuery};
use recount_event::{PromptKind, RunId};
use serde_json::json;
use tokio::sync::mpsc;

use super::compat;
use super::prompts::{PromptQueue, Pushed};
use super::room::{Room, RoomKey, RoomReader, Rooms};
use crate::limits;
use crate::project::run_of;
use crate::subscription::{Subscription, Subscriptions};

/// The stream of one reader of a room.
pub(crate) struct RoomFeed<F> {
    stream: F,
    place: InRoom,
    inbox: mpsc::Receiver<Bytes>,
    prompts: PromptQueue,
    /// The items to send next.
    out: VecDeque<Item>,
    /// A run with events that may have settled a prompt.
    changed: Option<RunId>,
    /// Whether a message with the id of the session comes before each `session.started`.
    announces: bool,
}

/// The place of a reader in its room; dropping it gives it up.
struct InRoom {
    rooms: Rooms,
    subscriptions: Subscriptions,
    room: Arc<Room>,
    reader: Arc<RoomReader>,
}

impl Drop for InRoom {
    fn drop(&mut self) {
        self.rooms.leave(&self.room, &self.reader);
        // Old clients do not resume a subscription.
        self.subscriptions.close(&self.reader.subscription);
    }
}

impl<F: Feed> RoomFeed<F> {
    /// Enters the room with an open stream of a subscription.
    pub(crate) fn enter(
        rooms: &Rooms,
        subscriptions: &Subscriptions,
        key: RoomKey,
        (subscription, stream): (Arc<Subscription>, F),
        announces: bool,
    ) -> Self {
        let (reader, inbox) = RoomReader::new(subscription);
        let room = rooms.enter(key, reader.clone());
        RoomFeed {
            stream,
            place: InRoom { rooms: rooms.clone(), subscriptions: subscriptions.clone(), room, reader },
            inbox,
            prompts: PromptQueue::default(),
            out: VecDeque::new(),
            changed: None,
            announces,
        }
    }

    pub(crate) fn reader(&self) -> &Arc<RoomReader> {
        &self.place.reader
    }

    /// Takes an item of the stream.
    fn take(&mut self, item: Item) {
        let Item::Event { text, .. } = item else { return self.out.push_back(item) };
        let parsed = std::str::from_utf8(&text).ok().and_then(|text| Event::parse(text).ok());
        let Some(event) = parsed else {
            // The face does not produce such an item.
            tracing::error!("an event of a stream cannot be parsed again; it is sent unchanged");
            return self.out.push_back(Item::Message(text));
        };
        let session = &event.envelope.session_id;
        if self.announces && event.kind() == Some(Kind::SessionStarted) {
            let announced = json!({ "kind": "session", "session_id": session.as_str() });
            self.out.push_back(Item::Message(announced.to_string().into()));
        }
        if let Some(run) = run_of(session.as_str()).filter(|run| self.prompts.concerns(*run)) {
            self.changed = Some(run);
        }
        if let Pushed::Sent(event) = self.prompts.push(event) {
            self.send(&event);
        }
    }

    fn send(&mut self, event: &Event) {
        self.place.reader.shows(self.prompts.shown());
        self.out.push_back(Item::Message(compat::for_old_clients(event)));
    }

    /// Checks which prompts are still open, and shows the next one if none is.
    async fn settle(&mut self, run: RunId) {
        match self.open_tokens(run).await {
            Ok(open) => self.prompts.settle(run, &open),
            Err(error) => tracing::warn!(%error, %run, "the open prompts of a run cannot be read"),
        }
        self.changed = None;
        let now_ms = self.place.reader.subscription.engine().world().clock.now_ms();
        if let Some(event) = self.prompts.next(now_ms) {
            self.send(&event);
        }
    }

    /// The reply tokens of a run's open prompts.
    async fn open_tokens(&self, run: RunId) -> Result<Vec<ReplyToken>, Error> {
        let subscription = &self.place.reader.subscription;
        let (engine, replies) = (subscription.engine(), subscription.replies());
        let mut open = Vec::new();
        for kind in [PromptKind::Approval, PromptKind::Clarification] {
            let (limit, status) = (limits::ROOM_PROMPTS_PAGE, Some("pending".into()));
            let mut query = ListQuery { after: None, limit, status };
            loop {
                let page = engine.read().list_prompts(kind, &query).await?;
                let of_run = page.items.iter().filter(|row| row.run_id() == run);
                open.extend(of_run.map(|row| replies.token_of(run, row.id())));
                query.after = page.end.next;
                if query.after.is_none() || !page.end.has_more {
                    break;
                }
            }
        }
        Ok(open)
    }
}

impl<F: Feed> Feed for RoomFeed<F> {
    async fn next(&mut self) -> Item {
        loop {
            if self.place.reader.has_lost() {
                return Item::End(Close::Unavailable);
            }
            if let Some(item) = self.out.pop_front() {
                return item;
            }
            if let Some(run) = self.changed {
                self.settle(run).await;
                continue;
            }
            tokio::select! {
                biased;
                Some(message) = self.inbox.recv() => return Item::Message(message),
                item = self.stream.next() => self.take(item),
            }
        }
    }

    fn ready(&mut self) -> Option<Item> {
        if self.out.is_empty() && self.changed.is_none() {
            let item = self.stream.ready()?;
            self.take(item);
        }
        self.out.pop_front()
    }
}
