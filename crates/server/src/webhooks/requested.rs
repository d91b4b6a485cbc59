//! Deliveries on request: a dead letter again, or a test message. One attempt each.
//!
//! Start at [`Follower::send_again`] and [`Follower::send_test`]. The follower's own progress is not changed. If it gave
//! up its last event, the webhook no longer counts as failing after a successful delivery.

use std::time::Duration;

use bytes::Bytes;
use recount_api::admin::Delivery;
use recount_engine::{DeadLetter, DeadLetterRow, Engine, Error};
use recount_event::codec::Envelope;
use recount_event::{Code, EventId, RunId, time};
use recount_face_aep::Refusal;
use serde_json::json;
use ulid::Ulid;

use super::delivery::{Sender, Verdict, judge};
use super::follower::Follower;
use super::message::{Message, TEST};
use crate::decide::DecisionLinks;

impl Follower {
    /// The engine of the webhook's tenant.
    pub(super) fn engine(&self) -> Result<Engine, Refusal> {
        let tenant = &self.status.webhook.tenant;
        let missing = || {
            let detail =
                format!("the tenant {tenant:?} of the webhook does not exist yet; create a token of it");
            Refusal::new(Code::WebhookNotFound, detail)
        };
        self.tenants.engine(tenant).ok_or_else(missing)
    }

    /// Sends the event of a dead letter, which is deleted if it is delivered.
    pub(super) async fn send_again(&self, event_id: &str) -> Result<Delivery, Refusal> {
        let (engine, webhook) = (self.engine()?, &self.status.webhook);
        let rows = engine.admin().dead_letters(&webhook.name).await?;
        let row = rows.into_iter().find(|row| row.letter.event_id == event_id).ok_or_else(|| {
            let shown: String = event_id.chars().take(80).collect();
            let detail = format!("webhook {:?} has no dead letter of the event {shown:?}", webhook.name);
            Refusal::new(Code::DeadLetterNotFound, detail)
        })?;
        let reason = match stored(&engine, &row).await? {
            None => Some("the event was pruned, deleted or damaged".to_owned()),
            Some(bytes) => match Envelope::read(&bytes) {
                Err(_) => Some("the stored event cannot be read".to_owned()),
                Ok(envelope) => {
                    let message = self.message(&engine, row.letter.position, &envelope, &bytes).await?;
                    self.attempt(event_id, &message).await
                }
            },
        };
        let failed = reason.as_ref().map(|reason| DeadLetter {
            attempts: row.letter.attempts.saturating_add(1),
            reason: reason.clone(),
            ..row.letter.clone()
        });
        engine.admin().settle_dead_letter(&row, failed.as_ref()).await?;
        Ok(self.delivery(event_id.to_owned(), reason))
    }

    /// Sends a message of the type [`TEST`], which is no event.
    pub(super) async fn send_test(&self) -> Delivery {
        let webhook = &self.status.webhook;
        let now_ms = self.world.clock.now_ms();
        let id = EventId::new(Ulid::from_parts(now_ms, self.world.entropy.draw())).to_string();
        let text = format!("webhook {} works; nothing has happened", webhook.name);
        let envelope = json!({
            "schema_version": "1", "event_id": id, "run_id": RunId::new(Ulid::nil()).to_string(), "sequence": 0,
            "occurred_at": time::format_ms(now_ms), "type": TEST, "data": {"message": text},
        });
        let bytes = envelope.to_string();
        let reason = match Envelope::read(bytes.as_bytes()) {
            Err(_) => Some("the test message cannot be composed".to_owned()),
            Ok(envelope) => {
                let (bytes, tenant) = (bytes.as_bytes(), webhook.tenant.as_str());
                let (title, decision) = (None, None);
                let message = Message { envelope: &envelope, bytes, position: 0, tenant, title, decision };
                self.attempt(&id, &message).await
            }
        };
        self.delivery(id, reason)
    }

    /// Sends a message once. Returns why it was not delivered.
    async fn attempt(&self, id: &str, message: &Message<'_>) -> Option<String> {
        let webhook = &self.status.webhook;
        let sender = match Sender::new(webhook, &self.world).await {
            Ok(sender) => sender,
            Err(why) => return Some(why),
        };
        let rendered = message.render(webhook.format, self.links.as_ref().map(DecisionLinks::public_url));
        let sent = sender.send(webhook, id, self.world.clock.now_ms(), rendered).await;
        match judge(&sent, 1, Duration::ZERO) {
            Verdict::Delivered => {
                self.status.delivered_on_request();
                None
            }
            Verdict::Disable => Some("the receiver returned 410".to_owned()),
            Verdict::GiveUp(reason) | Verdict::Retry(reason) => Some(reason),
        }
    }

    fn delivery(&self, event_id: String, reason: Option<String>) -> Delivery {
        let webhook = self.status.webhook.name.clone();
        Delivery { webhook, event_id, delivered: reason.is_none(), reason }
    }
}

/// The stored event of a dead letter; `None` if it was removed or is damaged.
async fn stored(engine: &Engine, row: &DeadLetterRow) -> Result<Option<Bytes>, Error> {
    let position = row.letter.position;
    match engine.read().read_feed(position.checked_sub(1), 1).await {
        Ok((found, _)) => Ok(found.into_iter().find(|(at, _)| *at == position).map(|(_, bytes)| bytes)),
        Err(error) if error.code() == Code::CursorPruned || error.is_damage() => Ok(None),
        Err(error) => Err(error),
    }
}
