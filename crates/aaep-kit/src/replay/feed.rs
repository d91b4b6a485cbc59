//! One reader of a replay: its position and its next item. Entry: [`ReplayFeed::ready`]. It does not depend on how
//! items are written to a peer.

use std::sync::Arc;

use bytes::Bytes;
use recount_aaep_host::{Close, Item};
use tokio::sync::watch;
use tokio::time::Instant;

use super::ReplayNotice;
use super::pacing::Pacing;
use super::playback::{OutgoingLine, Playback, Progress};
use super::subscriptions::ReaderChannel;
use crate::aaep::field::Field;
use crate::aaep::json::Reader;
use crate::aaep::kind::{TypeClass, classify};
use crate::aaep::negotiate::Terms;
use crate::aaep::{Kind, Reading};

/// A reader's position. Dropping it ends the reading.
pub(super) struct ReplayFeed {
    playback: Arc<Playback>,
    number: u64,
    /// The position of the next line.
    at: u64,
    channel: ReaderChannel,
    progress: watch::Receiver<Progress>,
    changed: watch::Receiver<u64>,
    /// Set if a rate was agreed.
    pacing: Option<Box<Pacing>>,
    /// Whether the end was delivered.
    whole: bool,
    /// Whether the subscription ends with this reader.
    ends_subscription: bool,
}

impl ReplayFeed {
    /// Starts after the event `last`, or at the beginning. Returns `None` if there are too many readers.
    pub(super) fn open(
        playback: &Arc<Playback>,
        channel: ReaderChannel,
        last: Option<&str>,
    ) -> Option<ReplayFeed> {
        let resumed = last.and_then(|id| playback.position_after(id));
        let at = resumed.unwrap_or_else(|| playback.round_start());
        let (progress, changed) = (playback.progress.subscribe(), playback.subscriptions.changed.subscribe());
        let Some(number) = playback.add_listener(at) else {
            playback.subscriptions.remove_listener(&channel);
            return None;
        };
        playback.notify(ReplayNotice::ListenerJoined {
            listeners: playback.listeners(),
            after: last.filter(|_| resumed.is_some()),
        });
        let playback = playback.clone();
        Some(ReplayFeed {
            playback,
            number,
            at,
            channel,
            progress,
            changed,
            pacing: None,
            whole: false,
            ends_subscription: false,
        })
    }

    /// For a WebSocket, whose subscription no other connection can resume.
    pub(super) fn with_ending_subscription(mut self) -> ReplayFeed {
        self.ends_subscription = true;
        self
    }

    pub(super) fn channel(&self) -> &ReaderChannel {
        &self.channel
    }

    fn set_terms(&mut self, terms: Option<&Arc<Terms>>) {
        let Some(terms) = terms else { return };
        match &mut self.pacing {
            Some(pacing) => pacing.set_terms(terms),
            None if terms.events_per_second().is_some() => {
                self.pacing = Pacing::of(terms, self.playback.world.entropy.draw()).map(Box::new);
            }
            None => {}
        }
    }

    /// When the next held line may be sent.
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
            if let Some(answer) = self.playback.subscriptions.answer(&mut self.channel) {
                return Some(Item::Message(Bytes::copy_from_slice(answer.as_bytes())));
            }
            let Some(terms) = self.playback.subscriptions.terms(&self.channel) else {
                self.whole = true;
                return Some(Item::End(Close::Requested));
            };
            self.set_terms(terms.as_ref());
            if let Some(outgoing) = self.pacing.as_mut().and_then(|pacing| pacing.next()) {
                return Some(item(outgoing));
            }
            let Progress { position, over } = *self.progress.borrow();
            // Evicted rounds cannot be sent any more.
            self.at = self.at.max(self.playback.oldest_position());
            if self.at >= position {
                self.whole = over && self.due().is_none();
                return self.whole.then_some(Item::End(Close::Clean));
            }
            if self.pacing.as_ref().is_some_and(|pacing| !pacing.has_capacity()) {
                return None;
            }
            let outgoing = self.playback.outgoing_line(self.at);
            self.at += 1;
            self.playback.record_read(self.number, self.at);
            if terms.is_some_and(|terms| !is_included(&terms, &outgoing)) {
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
        self.playback.subscriptions.remove_listener(&self.channel);
        self.playback.remove_listener(self.number, self.whole);
        if let (ReaderChannel::Subscription(id), true) = (&self.channel, self.ends_subscription) {
            self.playback.subscriptions.close(id);
        }
    }
}

/// Whether these terms include a line. Filters never exclude critical events; subscribers that cannot reply get no
/// prompts; lines that are not events are always included.
fn is_included(terms: &Terms, outgoing: &OutgoingLine) -> bool {
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
    match classify(&name) {
        TypeClass::Core(kind) => terms.passes_filters(&format!("aaep:{}", kind.name())),
        _ => terms.passes_filters(&name),
    }
}
