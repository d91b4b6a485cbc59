//! A client that follows the feed or a run over both servers, and resumes by its cursor. See [`Follower::follow`].

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use recount_client::{Source, TailItem, Until};

use super::stored::StoredLog;
use super::tenant::Tenant;
use super::{LOOK, PATIENCE_SECONDS};
use crate::clock;

/// Silence in seconds after which it connects to the other server, because events come all the time.
const SILENCE_SECONDS: f64 = 4.0;

/// What one follower has received.
pub(super) struct Follower {
    of_feed: bool,
    /// The run that is followed, once there is one.
    run: RefCell<String>,
    /// Digests of the received events.
    received: RefCell<Vec<u64>>,
    /// How many events are stored, when the load has ended.
    end: Cell<Option<usize>>,
}

impl Follower {
    pub(super) fn of_feed() -> Self {
        Follower {
            of_feed: true,
            run: RefCell::default(),
            received: RefCell::default(),
            end: Cell::new(None),
        }
    }

    pub(super) fn of_first_run() -> Self {
        Follower { of_feed: false, ..Follower::of_feed() }
    }

    /// The events that it must have received are stored.
    pub(super) fn finish(&self, stored: &StoredLog) {
        self.end.set(Some(self.expected(stored).len()));
    }

    fn expected<'s>(&self, stored: &'s StoredLog) -> &'s [String] {
        if self.of_feed {
            &stored.feed
        } else {
            stored.runs.get(&*self.run.borrow()).map_or(&[], Vec::as_slice)
        }
    }

    /// The first event that is stored and was received otherwise.
    pub(super) fn first_difference(&self, stored: &StoredLog) -> Option<usize> {
        let received = self.received.borrow();
        let differs = |(at, envelope): (usize, &String)| received.get(at) != Some(&digest(envelope));
        self.expected(stored).iter().enumerate().position(differs)
    }

    pub(super) fn count(&self) -> usize {
        self.received.borrow().len()
    }

    pub(super) fn name(&self) -> &'static str {
        if self.of_feed { "the follower of the feed" } else { "the follower of a run" }
    }

    fn is_finished(&self) -> bool {
        self.end.get().is_some_and(|end| self.count() >= end)
    }

    /// Follows until it has received all that is stored. Each event must come once and in order.
    pub(super) async fn follow(&self, tenant: &Tenant) {
        let (mut source, mut first) = (Source::Feed, 1);
        if !self.of_feed {
            let has_run = || !tenant.ledger.borrow().runs.is_empty();
            tenant.course.wait_until("the first run", has_run).await;
            let run = tenant.ledger.borrow().runs.keys().next().cloned().unwrap_or_default();
            self.run.replace(run.clone());
            (source, first) = (Source::Run(run), 0);
        }
        let mut server = 0;
        let mut ended_at = None;
        while !self.is_finished() && !tenant.course.is_broken() && !tenant.course.expects_loss.get() {
            if self.end.get().is_some() {
                let ended_at = *ended_at.get_or_insert_with(clock::now_ns);
                if clock::seconds_since(ended_at) > PATIENCE_SECONDS {
                    tenant.broke(format!(
                        "{} has {} of {:?} events",
                        self.name(),
                        self.count(),
                        self.end.get()
                    ));
                }
            }
            self.follow_once(tenant, server, &source, first).await;
            server = 1 - server;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Follows on one server until its stream ends.
    async fn follow_once(&self, tenant: &Tenant, server: usize, source: &Source, first: u64) {
        let cursor = match self.count() as u64 {
            0 => None,
            count => Some(count + first - 1),
        };
        let mut tail = tenant.clients[server].tail(source.clone(), cursor, Until::Ended);
        let mut last_ns = clock::now_ns();
        let mut is_connected = false;
        while !self.is_finished() && !tenant.course.is_broken() && !tenant.course.expects_loss.get() {
            match tokio::time::timeout(Duration::from_millis(super::LOOK_MS), tail.next()).await {
                Ok(Some(Ok(TailItem::Event { cursor, envelope }))) => {
                    let expected = self.count() as u64 + first;
                    if cursor != expected {
                        tenant.broke(format!("{} received event {cursor}, not {expected}", self.name()));
                        return;
                    }
                    self.received.borrow_mut().push(digest(&envelope));
                    last_ns = clock::now_ns();
                    is_connected = true;
                }
                Ok(Some(Ok(TailItem::CaughtUp { .. }))) => is_connected = true,
                Ok(Some(Ok(TailItem::Gap(gap)))) => {
                    tenant.broke(format!("{} received a gap: {gap:?}", self.name()));
                    return;
                }
                Ok(Some(Err(why))) if !why.may_pass() => {
                    tenant.broke(format!("{} was refused by server {server}: {why}", self.name()));
                    return;
                }
                Ok(Some(Ok(TailItem::Disconnected { .. }) | Err(_)) | None) => break,
                Err(_) if clock::seconds_since(last_ns) > SILENCE_SECONDS => break,
                Err(_) => {}
            }
        }
        tenant.ledger.borrow_mut().resumed += u64::from(is_connected);
    }
}

fn digest(envelope: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    envelope.hash(&mut hasher);
    hasher.finish()
}
