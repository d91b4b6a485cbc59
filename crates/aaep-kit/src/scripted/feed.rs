//! Reads one subscription: waits for its messages. It must not know how they are written to a peer.

use std::sync::Arc;

use bytes::Bytes;
use recount_aaep_host::{Close, Item};
use tokio::sync::watch;

use super::room::{Read, Room};

/// Reads one subscription. When it is dropped, the reader is gone.
pub(super) struct ScriptedFeed {
    room: Arc<Room>,
    id: String,
    versioned: bool,
    reader: u64,
    at: u64,
    ticks: watch::Receiver<u64>,
}

impl ScriptedFeed {
    /// Begins to read after this many messages.
    pub(super) fn open(room: &Arc<Room>, id: &str, at: u64, versioned: bool) -> Option<ScriptedFeed> {
        let reader = room.attach(id)?;
        Some(ScriptedFeed {
            room: room.clone(),
            id: id.to_owned(),
            versioned,
            reader,
            at,
            ticks: room.ticks(),
        })
    }

    pub(super) fn subscription(&self) -> &str {
        &self.id
    }

    /// Whether it is on the specification's surface.
    pub(super) fn is_versioned(&self) -> bool {
        self.versioned
    }
}

impl recount_aaep_host::Feed for ScriptedFeed {
    async fn next(&mut self) -> Item {
        loop {
            self.ticks.borrow_and_update();
            if *self.room.stopped.borrow() {
                return Item::End(Close::Clean);
            }
            let due_ms = match self.room.read(&self.id, self.reader, self.at) {
                Read::Over => return Item::End(Close::Clean),
                Read::Message(sent) => {
                    self.at += 1;
                    self.room.noticed();
                    let text = Bytes::copy_from_slice(sent.text.as_bytes());
                    return match sent.id {
                        Some(id) => Item::Event { id: Some(id), text },
                        None => Item::Message(text),
                    };
                }
                Read::Wait(due_ms) => due_ms,
            };
            let due = async {
                match due_ms {
                    Some(due_ms) => self.room.world.sleep_until_ms(due_ms).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.ticks.changed() => if changed.is_err() {
                    return Item::End(Close::Clean);
                },
                () = due => {}
            }
        }
    }
}

impl Drop for ScriptedFeed {
    fn drop(&mut self) {
        self.room.detach(&self.id, self.reader);
    }
}
