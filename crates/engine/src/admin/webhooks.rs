//! Stores the progress of webhooks and their dead letters, as rows beside the events.
//!
//! It must not know how events are delivered. Start at [`AdminHandle::save_webhook`].

use std::sync::Arc;

use recount_log::{Append, AppendError, Guard, RowPut, RowRange};
use serde::{Deserialize, Serialize};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, limits};

/// The progress of a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookRow {
    /// The position up to which every event was delivered, given up or not selected.
    pub cursor: u64,
    pub delivered: u64,
    /// Events that were given up, including those whose dead letter was replaced.
    pub given_up: u64,
    /// When the receiver ended the deliveries, and its URL then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<DisabledWebhook>,
}

/// A webhook whose receiver wants no more events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisabledWebhook {
    pub at: String,
    /// A digest of the URL: another URL enables the webhook.
    pub url_digest: String,
}

/// An event that a webhook gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub position: u64,
    pub event_id: String,
    pub run_id: String,
    #[serde(rename = "type")]
    pub type_name: String,
    pub occurred_at: String,
    pub given_up_at: String,
    pub attempts: u32,
    pub reason: String,
}

/// A stored dead letter, in the version in which it was read.
#[derive(Debug, Clone)]
pub struct DeadLetterRow {
    pub letter: DeadLetter,
    key: Arc<str>,
    version: u64,
}

impl AdminHandle {
    #[boxed]
    pub async fn webhook(&self, name: &str) -> Result<Option<WebhookRow>, Error> {
        let row = self.ground().store().row(rows::WEBHOOKS, name).await?;
        row.map(|row| read_row(rows::WEBHOOKS, name, &row.value)).transpose()
    }

    /// Stores the progress, and the dead letter that `row` counts already.
    #[boxed]
    pub async fn save_webhook(
        &self,
        name: &str,
        row: &WebhookRow,
        dead: Option<&DeadLetter>,
    ) -> Result<(), Error> {
        let mut changes = vec![rows::put(rows::WEBHOOKS, name, Guard::Any, row)];
        let slot = row.given_up.saturating_sub(1) % limits::DEAD_LETTERS_KEPT;
        changes.extend(
            dead.map(|dead| rows::put(rows::WEBHOOK_DEAD_LETTERS, slot_key(name, slot), Guard::Any, dead)),
        );
        self.ground().store().append(Append { rows: changes, ..Append::default() }).await?;
        Ok(())
    }

    /// The stored dead letters of a webhook, newest first.
    #[boxed]
    pub async fn dead_letters(&self, name: &str) -> Result<Vec<DeadLetterRow>, Error> {
        let kept = usize::try_from(limits::DEAD_LETTERS_KEPT).unwrap_or(usize::MAX);
        let range = RowRange::first(rows::WEBHOOK_DEAD_LETTERS, format!("{name}/"), kept);
        let mut found = Vec::new();
        for row in self.ground().store().rows(range).await? {
            let letter = read_row(rows::WEBHOOK_DEAD_LETTERS, &row.key, &row.value)?;
            found.push(DeadLetterRow { letter, key: row.key, version: row.version });
        }
        found.sort_by_key(|row: &DeadLetterRow| std::cmp::Reverse(row.letter.position));
        Ok(found)
    }

    /// Deletes a dead letter that was sent again, or stores how the new attempt failed. Changes nothing if another dead letter
    /// has its slot by now.
    #[boxed]
    pub async fn settle_dead_letter(
        &self,
        row: &DeadLetterRow,
        failed: Option<&DeadLetter>,
    ) -> Result<(), Error> {
        let guard = Guard::Version(row.version);
        let change = match failed {
            Some(letter) => rows::put(rows::WEBHOOK_DEAD_LETTERS, row.key.clone(), guard, letter),
            None => RowPut { guard, ..rows::delete(rows::WEBHOOK_DEAD_LETTERS, row.key.clone()) },
        };
        match self.ground().store().append(Append { rows: vec![change], ..Append::default() }).await {
            Ok(_) | Err(AppendError::GuardFailed { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn slot_key(name: &str, slot: u64) -> String {
    format!("{name}/{slot:04}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use recount_log::MemoryStore;
    use recount_world::World;

    use super::*;
    use crate::{Engine, Framing};

    struct NoFrames;

    impl Framing for NoFrames {
        fn frame(&self, _: u64, _: &[u8], _: &mut bytes::BytesMut) {}
    }

    #[tokio::test]
    async fn the_newest_dead_letters_are_kept_and_all_are_counted() {
        let framing = Arc::new(NoFrames);
        let engine = Engine::open(Arc::new(MemoryStore::new()), World::real(), framing).await.unwrap();
        let admin = engine.admin();
        assert_eq!(admin.webhook("ops").await.unwrap(), None);
        let mut row = WebhookRow::default();
        let many = limits::DEAD_LETTERS_KEPT + 3;
        for position in 1..=many {
            row.given_up += 1;
            row.cursor = position;
            let text = || "x".to_owned();
            let dead = DeadLetter {
                position,
                event_id: text(),
                run_id: text(),
                type_name: text(),
                occurred_at: text(),
                given_up_at: text(),
                attempts: 1,
                reason: text(),
            };
            admin.save_webhook("ops", &row, Some(&dead)).await.unwrap();
        }
        assert_eq!(admin.webhook("ops").await.unwrap(), Some(row));
        let kept = admin.dead_letters("ops").await.unwrap();
        let positions: Vec<u64> = kept.iter().map(|row| row.letter.position).collect();
        assert_eq!(positions, (4..=many).rev().collect::<Vec<_>>());
        assert!(admin.dead_letters("op").await.unwrap().is_empty());

        // One is sent again, and one fails again. The slot of the oldest has another letter by now.
        let failed = DeadLetter { attempts: 2, ..kept[1].letter.clone() };
        admin.settle_dead_letter(&kept[0], None).await.unwrap();
        admin.settle_dead_letter(&kept[1], Some(&failed)).await.unwrap();
        let oldest = kept.last().unwrap();
        let letter = DeadLetter { position: many + 1, ..failed.clone() };
        let row = WebhookRow { given_up: many + 1, cursor: many + 1, ..WebhookRow::default() };
        admin.save_webhook("ops", &row, Some(&letter)).await.unwrap();
        admin.settle_dead_letter(oldest, None).await.unwrap();
        let now = admin.dead_letters("ops").await.unwrap();
        let positions: Vec<u64> = now.iter().map(|row| row.letter.position).collect();
        let expected: Vec<u64> = [many + 1].into_iter().chain((5..many).rev()).collect();
        assert_eq!((positions, &now[1].letter), (expected, &failed));
    }
}
