//! One reader of a replay: its position, and the next item for it. Entry: [`ReplayFeed::ready`]. It must not know how
//! items are written to a peer.

use std::sync::Arc;

use bytes::Bytes;
use recount_aaep_host::{Close, Item};
use tokio::sync::watch;
use tokio::time::Instant;

use super::ReplayNotice;
use super::pacing::Pacing;
use super::playback::{OutgoingLine, Playback, Progress};
use super::room::Door;
use crate::aaep::field::Field;
use crate::aaep::json::Reader;
use crate::aaep::kind::{Named, named};
use crate::aaep::negotiate::Terms;
use crate::aaep::{Kind, Reading};

/// A reader's place. Dropping it is leaving.
pub(super) struct ReplayFeed {
    playback: Arc<Playback>,
    number: u64,
    /// The place of the next line.
    at: u64,
    door: Door,
    progress: watch::Receiver<Progress>,
    changed: watch::Receiver<u64>,
    /// Where a rate was promised.
    pacing: Option<Box<Pacing>>,
    /// It was told that nothing more comes.
    whole: bool,
    /// Its subscription ends with it.
    ends_subscription: bool,
}

impl ReplayFeed {
    /// Begins behind the event that was heard last, or at the beginning. `None` when there are too many readers.
    pub(super) fn open(playback: &Arc<Playback>, door: Door, heard: Option<&str>) -> Option<ReplayFeed> {
        let resumed = heard.and_then(|id| playback.behind(id));
        let at = resumed.unwrap_or_else(|| playback.beginning());
        let (progress, changed) = (playback.progress.subscribe(), playback.room.changed.subscribe());
        let Some(number) = playback.enter(at) else {
            playback.room.leave(&door);
            return None;
        };
        playback.notify(ReplayNotice::Comes {
            listeners: playback.listeners(),
            after: heard.filter(|_| resumed.is_some()),
        });
        let playback = playback.clone();
        Some(ReplayFeed {
            playback,
            number,
            at,
            door,
            progress,
            changed,
            pacing: None,
            whole: false,
            ends_subscription: false,
        })
    }

    /// The reader of a WebSocket, whose subscription no other connection can resume.
    pub(super) fn ending_its_subscription(mut self) -> ReplayFeed {
        self.ends_subscription = true;
        self
    }

    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    fn keep_to(&mut self, terms: Option<&Arc<Terms>>) {
        let Some(terms) = terms else { return };
        match &mut self.pacing {
            Some(pacing) => pacing.keep_to(terms),
            None if terms.events_per_second().is_some() => {
                self.pacing = Pacing::of(terms, self.playback.world.entropy.draw()).map(Box::new);
            }
            None => {}
        }
    }

    /// When more of what is held may go out.
    fn due(&self) -> Option<Instant> {
        self.pacing.as_ref().and_then(|pacing| pacing.due())
    }
}

impl recount_aaep_host::Feed for ReplayFeed {
    async fn next(&mut self) -> Item {
        loop {
            self.progress.borrow_and_update();
            self.changed.borrow_and_update();
            if let Some(item) = self.ready() {
                return item;
            }
            let due = self.due();
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.progress.changed() => if changed.is_err() { return Item::End(Close::Clean) },
                changed = self.changed.changed() => if changed.is_err() { return Item::End(Close::Clean) },
                () = due => {}
            }
        }
    }

    fn ready(&mut self) -> Option<Item> {
        loop {
            if let Some(answer) = self.playback.room.answer(&mut self.door) {
                return Some(Item::Message(Bytes::copy_from_slice(answer.as_bytes())));
            }
            let Some(terms) = self.playback.room.terms(&self.door) else {
                self.whole = true;
                return Some(Item::End(Close::Asked));
            };
            self.keep_to(terms.as_ref());
            if let Some(outgoing) = self.pacing.as_mut().and_then(|pacing| pacing.next()) {
                return Some(item(outgoing));
            }
            let Progress { place, over } = *self.progress.borrow();
            // Rounds that are long over are not said any more.
            self.at = self.at.max(self.playback.oldest());
            if self.at >= place {
                self.whole = over && self.due().is_none();
                return self.whole.then_some(Item::End(Close::Clean));
            }
            if self.pacing.as_ref().is_some_and(|pacing| !pacing.has_room()) {
                return None;
            }
            let outgoing = self.playback.outgoing_line(self.at);
            self.at += 1;
            self.playback.took(self.number, self.at);
            if terms.is_some_and(|terms| !is_wanted(&terms, &outgoing)) {
                continue;
            }
            match &mut self.pacing {
                Some(pacing) => pacing.push(outgoing),
                None => return Some(item(outgoing)),
            }
        }
    }
}

fn item(outgoing: OutgoingLine) -> Item {
    Item::Event { id: outgoing.id, text: outgoing.text }
}

impl Drop for ReplayFeed {
    fn drop(&mut self) {
        self.playback.room.leave(&self.door);
        self.playback.leave(self.number, self.whole);
        if let (Door::Subscription(id), true) = (&self.door, self.ends_subscription) {
            self.playback.room.close(id);
        }
    }
}

/// Whether a line is said where these terms hold. What is critical is said whatever is filtered; who cannot answer is
/// asked nothing; what is no event is said.
fn is_wanted(terms: &Terms, outgoing: &OutgoingLine) -> bool {
    let mut reader = Reader::new();
    let Some(reading) = reader.read_bytes(&outgoing.text).ok().and_then(Reading::of) else { return true };
    match reading.kind() {
        Some(kind @ (Kind::AwaitingConfirmation | Kind::AwaitingClarification)) => {
            return terms.replies(kind);
        }
        Some(kind) if kind.is_critical() => return true,
        _ => {}
    }
    let Some(name) = reading.text(Field::Type) else { return true };
    if reading.is(Field::Urgency, "critical") {
        return true;
    }
    match named(&name) {
        Named::Core(kind) => terms.wants(&format!("aaep:{}", kind.name())),
        _ => terms.wants(&name),
    }
}
