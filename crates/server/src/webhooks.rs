//! Sends events to the configured webhooks: each follows the feed of its tenant from a stored cursor.
//!
//! The log is the queue, so a slow receiver costs no memory and delays no append. An event is sent at least once, in order,
//! and is given up only visibly. Start at [`WebhookService::start`]; `follower.rs` has the loop. It must not know how a
//! decision is made: messages only have the link.

mod delivery;
mod follower;
mod mail;
mod message;
mod requested;
pub(crate) mod requests;
mod signature;
mod smtp;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use recount_api::admin::Check;
use recount_engine::{DeadLetter, DeadLetterRow, WebhookRow};
use recount_event::time;
use recount_world::{Kind, World};
use tokio::sync::Semaphore;

use self::follower::Follower;
use crate::config::{Webhook, Webhooks};
use crate::decide::DecisionLinks;
use crate::limits;
use crate::tenants::Tenants;

/// The configured webhooks and their states.
pub(crate) struct WebhookService {
    statuses: Vec<Arc<WebhookStatus>>,
    followers: Vec<Arc<Follower>>,
    /// Permits of deliveries that requests make.
    requested: Semaphore,
}

/// A webhook and its state, for the health check and the metrics.
pub(crate) struct WebhookStatus {
    pub(crate) webhook: Arc<Webhook>,
    state: Mutex<WebhookState>,
}

#[derive(Clone, Default)]
pub(crate) struct WebhookState {
    pub(crate) row: WebhookRow,
    /// Whether the stored progress was read.
    is_loaded: bool,
    pub(crate) failing: Option<Failing>,
}

/// Deliveries that fail now.
#[derive(Clone)]
pub(crate) struct Failing {
    pub(crate) since_ms: u64,
    attempts: u32,
    reason: String,
    /// Whether the event of the last failure was given up. Otherwise it waits, and the webhook is stuck.
    is_given_up: bool,
}

impl WebhookStatus {
    pub(crate) fn state(&self) -> WebhookState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn saved(&self, row: &WebhookRow) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.row = row.clone();
        state.is_loaded = true;
    }

    fn succeeded(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failing = None;
    }

    /// A delivery on request succeeded, so the receiver works again. A follower still fails if it could not start, cannot
    /// read the log, or has an event that was not delivered.
    fn delivered_on_request(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failing = state.failing.take().filter(|failing| !failing.is_given_up);
    }

    /// Counts a failure after which the follower tries again; returns how many happened in a row.
    fn failed(&self, reason: &str, now_ms: u64) -> u32 {
        self.count_failure(reason, now_ms, false)
    }

    /// The same for a delivery whose event is given up.
    fn gave_up(&self, reason: &str, now_ms: u64) -> u32 {
        self.count_failure(reason, now_ms, true)
    }

    fn count_failure(&self, reason: &str, now_ms: u64, is_given_up: bool) -> u32 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let attempts = state.failing.as_ref().map_or(0, |failing| failing.attempts) + 1;
        let since_ms = state.failing.as_ref().map_or(now_ms, |failing| failing.since_ms);
        state.failing = Some(Failing { since_ms, attempts, reason: reason.to_owned(), is_given_up });
        attempts
    }
}

impl WebhookService {
    /// Starts a task for each webhook.
    pub(crate) fn start(
        webhooks: &Webhooks,
        tenants: &Arc<Tenants>,
        links: Option<&DecisionLinks>,
        world: &World,
    ) -> Arc<Self> {
        let statuses = webhooks
            .0
            .iter()
            .map(|webhook| Arc::new(WebhookStatus { webhook: webhook.clone(), state: Mutex::default() }));
        let statuses: Vec<_> = statuses.collect();
        let followers = statuses.iter().map(|status| {
            let (status, tenants, links) = (status.clone(), tenants.clone(), links.cloned());
            Arc::new(Follower { status, tenants, links, world: world.clone() })
        });
        let followers: Vec<_> = followers.collect();
        for follower in &followers {
            world.tasks.spawn_until_shutdown(Kind::Service, Box::pin(follower.clone().run()));
        }
        let requested = Semaphore::new(limits::REQUESTED_DELIVERIES_MAX);
        Arc::new(WebhookService { statuses, followers, requested })
    }

    pub(crate) fn statuses(&self) -> &[Arc<WebhookStatus>] {
        &self.statuses
    }

    /// Adds what operators should know of each webhook.
    pub(crate) async fn checks(&self, checks: &mut Vec<Check>, tenants: &Tenants) {
        for status in &self.statuses {
            let webhook = &status.webhook;
            let name = format!("webhook {}", webhook.name);
            let WebhookState { row, is_loaded, failing } = status.state();
            let Some(engine) = tenants.engine(&webhook.tenant) else {
                let value = format!("the tenant {} does not exist yet", webhook.tenant);
                checks.push(Check::note(
                    &name,
                    value,
                    "create a token of this tenant, or correct the setting",
                ));
                continue;
            };
            if let Some(disabled) = &row.disabled {
                let value = format!("disabled since {}: the receiver returned 410", disabled.at);
                checks.push(Check::problem(&name, value, "set another URL, or remove the webhook"));
            }
            if let Some(Failing { since_ms, attempts, reason, .. }) = &failing {
                let since = time::format_ms(*since_ms);
                let value = format!("{attempts} deliveries failed since {since}: {reason}");
                let advice =
                    "check the receiver; an event that was not given up is sent again, until it is a day old";
                checks.push(Check::problem(&name, value, advice));
            }
            if row.given_up > 0 {
                let stored = engine.admin().dead_letters(&webhook.name).await.unwrap_or_default();
                let newest = stored.iter().take(limits::DEAD_LETTERS_NAMED_MAX);
                let named = newest.map(|DeadLetterRow { letter, .. }| {
                    let DeadLetter { type_name, run_id, occurred_at, reason, .. } = letter;
                    format!("{type_name} of {run_id} at {occurred_at} ({reason})")
                });
                let named: Vec<String> = named.collect();
                let value =
                    format!("{} events were given up; the newest: {}", row.given_up, named.join("; "));
                let advice = format!("send them again with recount webhooks retry {} --all", webhook.name);
                if !named.is_empty() {
                    checks.push(Check::note(&name, value, advice));
                }
            }
            if !is_loaded && failing.is_none() {
                checks.push(Check::note(&name, "its progress is not read yet", "try again shortly"));
                continue;
            }
            let is_well = row.disabled.is_none() && failing.is_none();
            if is_well {
                let last = engine.read().last_position().await.unwrap_or(row.cursor);
                let (delivered, cursor) = (row.delivered, row.cursor);
                let value =
                    format!("{delivered} events delivered; progress stored at position {cursor} of {last}");
                checks.push(Check::fine(&name, value));
            }
        }
    }
}
