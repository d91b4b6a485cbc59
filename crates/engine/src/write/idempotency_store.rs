//! Claims idempotency keys, stores results and deletes expired keys. The stored data are in
//! [`idempotency`](crate::write::idempotency).

use recount_log::{Append, Guard, ReadResult as _, RowPut, RowRange};

use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::ground::rows::deletion;
use crate::write::handle::WriteHandle;
use crate::write::idempotency::IdempotencyRow;
use crate::{Error, IdempotencyKey, RequestResult, RequestState, limits};

impl WriteHandle {
    /// Claims the key of a request, or returns its state. Also deletes some expired keys.
    #[boxed]
    pub async fn claim_request(&self, idempotency: &IdempotencyKey) -> Result<RequestState, Error> {
        let Some(in_flight) = self.context.in_flight.claim(&idempotency.key) else {
            return Ok(RequestState::InProgress);
        };
        let now = self.ground().world.clock.now_ms();
        let row: Option<IdempotencyRow> =
            self.catalogue().row(rows::IDEMPOTENCY_KEYS, &idempotency.key).await?;
        let row = row.filter(|row| row.until_ms > now);
        if row.is_none()
            && let Err(error) = self.delete_expired_keys().await
        {
            tracing::debug!(%error, "cannot delete expired idempotency keys; retrying later");
        }
        Ok(match row {
            None => RequestState::New(in_flight),
            Some(row) if row.body != idempotency.body => RequestState::KeyReused,
            Some(IdempotencyRow { answer: Some(answer), .. }) => RequestState::Answered(answer),
            Some(IdempotencyRow { result: Some(result), .. }) => RequestState::Executed(in_flight, result),
            Some(_) => RequestState::New(in_flight),
        })
    }

    /// The rows that store the result of a request with a key, for the same append.
    pub(crate) fn result_rows(
        &self,
        idempotency: Option<&IdempotencyKey>,
        result: RequestResult,
    ) -> Vec<RowPut> {
        let now_ms = self.ground().world.clock.now_ms();
        idempotency.map(|idempotency| idempotency.rows(now_ms, result)).unwrap_or_default()
    }

    /// Stores the result of a request that appends nothing itself.
    #[boxed]
    pub async fn store_result(
        &self,
        idempotency: Option<&IdempotencyKey>,
        result: RequestResult,
    ) -> Result<(), Error> {
        let rows = self.result_rows(idempotency, result);
        if !rows.is_empty() {
            self.ground().store().append(Append { rows, ..Append::default() }).await?;
        }
        Ok(())
    }

    /// Deletes responses that earlier releases stored, because they may contain erased data. Results stay.
    pub(crate) async fn delete_stored_responses(&self) -> Result<(), Error> {
        let mut pages = RowPages::new(self.ground().store(), rows::IDEMPOTENCY_KEYS, limits::PAGE_EVENTS);
        while let Some(page) = pages.next().await? {
            let mut changed = Vec::new();
            for row in &page.rows {
                // An unreadable response is never returned.
                let Ok(stored) = read_row::<IdempotencyRow>(rows::IDEMPOTENCY_KEYS, &row.key, &row.value)
                else {
                    continue;
                };
                if stored.answer.is_some() {
                    let stored = IdempotencyRow { answer: None, ..stored };
                    changed.push(rows::put(rows::IDEMPOTENCY_KEYS, row.key.clone(), Guard::Any, &stored));
                }
            }
            if !changed.is_empty() {
                self.ground().store().append(deletion(changed)).await?;
            }
        }
        Ok(())
    }

    /// Deletes a few expired keys, more than one for each new key. A key that is in use is deleted by a later call.
    async fn delete_expired_keys(&self) -> Result<(), Error> {
        let now = self.ground().world.clock.now_ms();
        let range =
            RowRange::first(rows::IDEMPOTENCY_KEYS_DUE, "", limits::IDEMPOTENCY_KEYS_DELETED_AT_A_TIME);
        let mut deletions = Vec::new();
        // An unreadable one does not block the expiry of others.
        for due in self.ground().store().whole_rows(range).await?.rows {
            if &*due.key >= rows::due_key(now, "").as_str() {
                break;
            }
            let Ok(key) = read_row::<String>(rows::IDEMPOTENCY_KEYS_DUE, &due.key, &due.value) else {
                deletions.push(rows::delete(rows::IDEMPOTENCY_KEYS_DUE, due.key));
                continue;
            };
            if self.context.in_flight.has(&key) {
                continue;
            }
            let row = self.catalogue().row::<IdempotencyRow>(rows::IDEMPOTENCY_KEYS, &key).await;
            let row = row.readable()?.whole().flatten();
            // It may have been used again.
            if row.is_some_and(|row| row.until_ms <= now) {
                deletions.push(rows::delete(rows::IDEMPOTENCY_KEYS, key));
            }
            deletions.push(rows::delete(rows::IDEMPOTENCY_KEYS_DUE, due.key));
        }
        if !deletions.is_empty() {
            self.ground().store().append(Append { rows: deletions, ..Append::default() }).await?;
        }
        Ok(())
    }
}
