//! Follows the feed of a tenant for one webhook, and delivers the selected events one after the other. See
//! [`Follower::run`].

use std::sync::Arc;
use std::time::Duration;

use recount_engine::{AdminHandle, DeadLetter, DisabledWebhook, Engine, Error, WebhookRow};
use recount_event::codec::{self, Envelope};
use recount_event::{Code, PromptEvent, PromptKind, time};
use recount_world::World;

use super::WebhookStatus;
use super::delivery::{Sender, Verdict, judge, pause};
use super::message::{DecisionLink, Message};
use crate::decide::DecisionLinks;
use crate::limits;
use crate::tenants::Tenants;

pub(super) struct Follower {
    pub(super) status: Arc<WebhookStatus>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) links: Option<DecisionLinks>,
    pub(super) world: World,
}

impl Follower {
    /// Delivers until the server stops or the receiver ends the deliveries.
    pub(super) async fn run(self: Arc<Self>) {
        let webhook = &self.status.webhook;
        let sender = match Sender::new(webhook, &self.world).await {
            Ok(sender) => sender,
            Err(why) => {
                self.status.failed(&why, self.world.clock.now_ms());
                tracing::error!(webhook = webhook.name, why, "cannot prepare a webhook; nothing is sent");
                return;
            }
        };
        // All events of a tenant that did not exist are new.
        let mut is_new_tenant = false;
        loop {
            match self.tenants.engine(&webhook.tenant) {
                // One that another server has given back is not new.
                None => is_new_tenant = self.tenants.elsewhere(&webhook.tenant).is_none(),
                Some(engine) => match self.follow(&engine, &sender, is_new_tenant).await {
                    Ok(()) => return,
                    Err(error) => {
                        self.status.failed(&error.to_string(), self.world.clock.now_ms());
                        tracing::warn!(webhook = webhook.name, %error, "a webhook cannot read the log; retrying");
                    }
                },
            }
            tokio::time::sleep(limits::WEBHOOK_RESTART).await;
        }
    }

    /// The stored progress, or that of a new webhook: it begins with the events from now on, or with all of a new tenant.
    async fn progress(&self, engine: &Engine, is_new_tenant: bool) -> Result<WebhookRow, Error> {
        let (admin, webhook) = (engine.admin(), &self.status.webhook);
        let last = engine.read().last_position().await?;
        let mut row = match admin.webhook(&webhook.name).await? {
            Some(row) => row,
            None => WebhookRow { cursor: if is_new_tenant { 0 } else { last }, ..WebhookRow::default() },
        };
        if row.cursor > last {
            let cursor = row.cursor;
            tracing::warn!(
                webhook = webhook.name,
                cursor,
                last,
                "the log is shorter than before; going on at its end"
            );
            row.cursor = last;
        }
        if row.disabled.as_ref().is_some_and(|disabled| disabled.url_digest != self.url_digest()) {
            tracing::info!(webhook = webhook.name, "the webhook has another URL and is enabled again");
            row.disabled = None;
        }
        self.save(admin, &row, None).await?;
        Ok(row)
    }

    async fn follow(&self, engine: &Engine, sender: &Sender, is_new_tenant: bool) -> Result<(), Error> {
        let (admin, webhook) = (engine.admin(), &self.status.webhook);
        let mut row = self.progress(engine, is_new_tenant).await?;
        self.status.succeeded();
        if row.disabled.is_some() {
            tracing::warn!(webhook = webhook.name, "the webhook is disabled: its receiver returned 410");
            return Ok(());
        }
        let mut records = match engine.read().follow_feed_records(row.cursor).await {
            Err(error) if error.code() == Code::CursorPruned => {
                tracing::warn!(
                    webhook = webhook.name,
                    cursor = row.cursor,
                    "events were pruned before the webhook sent them; going on with the first stored event"
                );
                engine.read().follow_feed_records(0).await?
            }
            followed => followed?,
        };
        let mut saved = row.cursor;
        while let Some(found) = records.next().await? {
            for (position, bytes) in found {
                let Ok(envelope) = Envelope::read(&bytes) else { continue };
                row.cursor = row.cursor.max(position);
                if webhook.events.iter().any(|pattern| pattern.takes(&envelope.type_name)) {
                    self.deliver(engine, sender, position, &envelope, &bytes, &mut row).await?;
                    if row.disabled.is_some() {
                        return Ok(());
                    }
                    saved = row.cursor;
                }
            }
            if row.cursor >= saved + limits::WEBHOOK_CURSOR_EVERY {
                self.save(admin, &row, None).await?;
                saved = row.cursor;
            }
        }
        Ok(())
    }

    /// Sends an event until it is delivered or given up, and stores that.
    async fn deliver(
        &self,
        engine: &Engine,
        sender: &Sender,
        position: u64,
        envelope: &Envelope<'_>,
        bytes: &[u8],
        row: &mut WebhookRow,
    ) -> Result<(), Error> {
        let (admin, webhook) = (engine.admin(), &self.status.webhook);
        let id = envelope.event_id.to_string();
        let mut attempts = 0;
        loop {
            // Made again for each attempt: a prompt may have been answered meanwhile.
            let message = self.message(engine, position, envelope, bytes).await?;
            let source = self.links.as_ref().map(DecisionLinks::public_url);
            let message = message.render(webhook.format, source);
            let sent = sender.send(webhook, &id, self.world.clock.now_ms(), message).await;
            attempts += 1;
            let now_ms = self.world.clock.now_ms();
            let age = Duration::from_millis(now_ms.saturating_sub(envelope.occurred_ms));
            let reason = match judge(&sent, attempts, age) {
                Verdict::Delivered => {
                    row.delivered += 1;
                    self.status.succeeded();
                    return self.save(admin, row, None).await;
                }
                Verdict::Disable => {
                    // The event was not taken, so the cursor stays before it.
                    row.cursor = position.saturating_sub(1);
                    let at = time::format_ms(now_ms);
                    tracing::error!(
                        webhook = webhook.name,
                        "the receiver returned 410: the webhook is disabled"
                    );
                    row.disabled = Some(DisabledWebhook { at, url_digest: self.url_digest() });
                    self.status.succeeded();
                    return self.save(admin, row, None).await;
                }
                Verdict::GiveUp(reason) => {
                    let failures = self.status.gave_up(&reason, now_ms);
                    self.give_up(admin, position, envelope, attempts, &reason, row).await?;
                    tokio::time::sleep(pause(failures, &sent)).await;
                    return Ok(());
                }
                Verdict::Retry(reason) => reason,
            };
            let failures = self.status.failed(&reason, now_ms);
            if failures == 1 {
                tracing::warn!(
                    webhook = webhook.name,
                    event = id,
                    reason,
                    "a webhook cannot deliver; retrying"
                );
            }
            tokio::time::sleep(pause(failures, &sent)).await;
        }
    }

    /// Stores a dead letter.
    async fn give_up(
        &self,
        admin: &AdminHandle,
        position: u64,
        envelope: &Envelope<'_>,
        attempts: u32,
        reason: &str,
        row: &mut WebhookRow,
    ) -> Result<(), Error> {
        let webhook = &self.status.webhook;
        row.given_up += 1;
        let dead = DeadLetter {
            position,
            event_id: envelope.event_id.to_string(),
            run_id: envelope.run_id.to_string(),
            type_name: envelope.type_name.to_string(),
            occurred_at: time::format_ms(envelope.occurred_ms),
            given_up_at: time::format_ms(self.world.clock.now_ms()),
            attempts,
            reason: reason.to_owned(),
        };
        tracing::error!(
            webhook = webhook.name,
            event = dead.event_id,
            run = dead.run_id,
            reason,
            "a webhook gave up an event; recount doctor lists it"
        );
        self.save(admin, row, Some(&dead)).await
    }

    async fn save(
        &self,
        admin: &AdminHandle,
        row: &WebhookRow,
        dead: Option<&DeadLetter>,
    ) -> Result<(), Error> {
        admin.save_webhook(&self.status.webhook.name, row, dead).await?;
        self.status.saved(row);
        Ok(())
    }

    pub(super) async fn message<'a>(
        &'a self,
        engine: &Engine,
        position: u64,
        envelope: &'a Envelope<'a>,
        bytes: &'a [u8],
    ) -> Result<Message<'a>, Error> {
        // A damaged row costs the title or the link, not the event.
        let title = match engine.catalogue().run(envelope.run_id).await {
            Err(error) if error.is_damage() => None,
            run => run?.and_then(|run| run.title),
        };
        let decision = match self.decision(engine, envelope, bytes).await {
            Err(error) if error.is_damage() => None,
            decision => decision?,
        };
        let tenant = &self.status.webhook.tenant;
        Ok(Message { envelope, bytes, position, tenant, title, decision })
    }

    /// The link for a pending prompt, if links are configured.
    async fn decision(
        &self,
        engine: &Engine,
        envelope: &Envelope<'_>,
        bytes: &[u8],
    ) -> Result<Option<DecisionLink>, Error> {
        let webhook = &self.status.webhook;
        let (Some(links), Some(approver)) = (&self.links, &webhook.approver) else { return Ok(None) };
        if !envelope.type_name.ends_with(".requested") {
            return Ok(None);
        }
        let Ok(event) = codec::decode(bytes) else { return Ok(None) };
        let Some(prompt) = PromptEvent::requested(event.payload()) else { return Ok(None) };
        if prompt.kind == PromptKind::Handoff {
            return Ok(None);
        }
        let row = engine.read().prompt(prompt.kind, prompt.id).await?;
        let Some(row) = row.filter(|row| row.is_pending() && row.run_id() == envelope.run_id) else {
            return Ok(None);
        };
        let expires_at = row.expires_at().map(str::to_owned);
        let url = links.create(webhook, approver, &row, self.world.clock.now_ms());
        Ok(url.map(|url| DecisionLink { url, approver: approver.clone(), expires_at }))
    }

    /// Recognizes the URL and does not reveal it.
    fn url_digest(&self) -> String {
        let digest =
            blake3::derive_key("recount 2026 url of a webhook", self.status.webhook.url.reveal().as_bytes());
        digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
