//! `recount webhooks`: the webhooks of a server and their dead letters, sent again on request.

use clap::{Args, Subcommand};
use recount_client::admin::{DeadLetter, Delivery, RequestDelivery, WebhookProgress};
use serde::Serialize;

use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::output::note;
use crate::render::{clean, count, utc_time};

/// List webhooks and their dead letters, and send these again
#[derive(Args)]
pub(super) struct Webhooks {
    #[command(subcommand)]
    action: Option<WebhookAction>,
}

#[derive(Subcommand)]
enum WebhookAction {
    /// List webhooks, how far they are, and the events that they gave up
    Ls,
    /// Send dead letters again, each once; those that are delivered are deleted
    Retry {
        /// Name of the webhook
        name: String,
        /// Ids of the events
        #[arg(value_name = "EVENT", required_unless_present = "all")]
        events: Vec<String>,
        /// Send all dead letters of the webhook, oldest first
        #[arg(long, conflicts_with = "events")]
        all: bool,
    },
    /// Send a test message, which is marked as one
    Test {
        /// Name of the webhook
        name: String,
    },
}

/// A webhook as `--json` prints it.
#[derive(Serialize)]
struct ListedWebhook<'a> {
    #[serde(flatten)]
    webhook: &'a WebhookProgress,
    letters: &'a [DeadLetter],
}

impl Webhooks {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(async |asking| match self.action.unwrap_or(WebhookAction::Ls) {
            WebhookAction::Ls => list(asking).await,
            WebhookAction::Retry { name, events, all } => {
                let events = match all {
                    true => all_events(&asking, &name).await?,
                    false => events,
                };
                deliver(asking, &name, events.into_iter().map(Some).collect()).await
            }
            WebhookAction::Test { name } => deliver(asking, &name, vec![None]).await,
        })
    }
}

async fn list(mut asking: Asking) -> Result<(), Failure> {
    let webhooks = asking.client.webhooks().await?.data;
    if webhooks.is_empty() {
        note("no webhooks are configured");
    }
    for webhook in &webhooks {
        let letters = match webhook.dead_letters {
            0 => Vec::new(),
            _ => asking.client.dead_letters(&webhook.name).await?.data,
        };
        if asking.json {
            asking.out.value(&ListedWebhook { webhook, letters: &letters })?;
            continue;
        }
        asking.out.line(&clean::line(&webhook_line(webhook)))?;
        for letter in &letters {
            asking.out.line(&clean::line(&letter_line(letter)))?;
        }
    }
    Ok(())
}

fn webhook_line(webhook: &WebhookProgress) -> String {
    let WebhookProgress { name, tenant, format, state, position, delivered, .. } = webhook;
    let mut line =
        format!("{name}: {state}, {format}, tenant {tenant}, position {position}, {delivered} delivered");
    line += &format!(", {}", count(webhook.dead_letters, "dead letter"));
    if let Some(at) = &webhook.disabled_at {
        line += &format!("; disabled by its receiver since {}", utc_time(at));
    }
    if let (Some(at), Some(reason)) = (&webhook.failing_since, &webhook.reason) {
        line += &format!("; failing since {}: {reason}", utc_time(at));
    }
    line
}

fn letter_line(letter: &DeadLetter) -> String {
    let DeadLetter { event_id, type_name, run_id, occurred_at, attempts, reason, .. } = letter;
    let (at, attempts) = (utc_time(occurred_at), count(u64::from(*attempts), "attempt"));
    format!("  {event_id} {type_name} of {run_id}, {at}, {attempts}: {reason}")
}

/// The events of all dead letters, oldest first.
async fn all_events(asking: &Asking, name: &str) -> Result<Vec<String>, Failure> {
    let letters = asking.client.dead_letters(name).await?.data;
    if letters.is_empty() {
        note("the webhook has no dead letters");
    }
    Ok(letters.into_iter().rev().map(|letter| letter.event_id).collect())
}

/// Requests one delivery after the other; without an event it is a test message.
async fn deliver(mut asking: Asking, name: &str, events: Vec<Option<String>>) -> Result<(), Failure> {
    let mut are_all_delivered = true;
    for event_id in events {
        let is_test = event_id.is_none();
        let delivery = asking.client.request_delivery(name, &RequestDelivery { event_id }).await?;
        are_all_delivered &= delivery.delivered;
        match asking.json {
            true => asking.out.value(&delivery)?,
            false => asking.out.line(&clean::line(&delivery_line(&delivery, is_test)))?,
        }
    }
    if are_all_delivered { Ok(()) } else { Err(Failure::No) }
}

fn delivery_line(delivery: &Delivery, is_test: bool) -> String {
    let subject = if is_test { "test message" } else { delivery.event_id.as_str() };
    match &delivery.reason {
        None => format!("{subject}: delivered"),
        Some(reason) => format!("{subject}: not delivered: {reason}"),
    }
}
