//! Reads one subscription: waits for its messages. It does not depend on how they are written to a peer.

use std::sync::Arc;

use bytes::Bytes;
use recount_aaep_host::{Close, Item};
use tokio::sync::watch;

use super::hub::{Hub, NextMessage};

/// A reader of one subscription. Dropping it detaches the reader.
pub(super) struct ScriptedFeed {
    hub: Arc<Hub>,
    id: String,
    versioned: bool,
    reader: u64,
    at: u64,
    ticks: watch::Receiver<u64>,
}

impl ScriptedFeed {
    /// Starts after this many messages.
    pub(super) fn open(hub: &Arc<Hub>, id: &str, at: u64, versioned: bool) -> Option<ScriptedFeed> {
        let reader = hub.attach(id)?;
        Some(ScriptedFeed { hub: hub.clone(), id: id.to_owned(), versioned, reader, at, ticks: hub.ticks() })
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
            if *self.hub.stopped.borrow() {
                return Item::End(Close::Clean);
            }
            let due_ms = match self.hub.read(&self.id, self.reader, self.at) {
                NextMessage::Over => return Item::End(Close::Clean),
                NextMessage::Message(sent) => {
                    self.at += 1;
                    self.hub.reader_advanced();
                    let text = Bytes::copy_from_slice(sent.text.as_bytes());
                    return match sent.id {
                        Some(id) => Item::Event { id: Some(id), text },
                        None => Item::Message(text),
                    };
                }
                NextMessage::Wait(due_ms) => due_ms,
            };
            let due = async {
                match due_ms {
                    Some(due_ms) => self.hub.world.sleep_until_ms(due_ms).await,
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
        self.hub.detach(&self.id, self.reader);
    }
}
