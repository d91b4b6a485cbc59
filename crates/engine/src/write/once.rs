//! Taking up requests that are done once, and keeping and forgetting what they were answered. What is remembered of one is
//! in [`idempotency`](crate::write::idempotency).

use recount_log::{Append, Guard, RowPut, RowRange};

use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::ground::rows::taking_away;
use crate::write::handle::WriteHandle;
use crate::write::idempotency::OnceRow;
use crate::{Error, KeptAnswer, Made, Once, Standing, limits};

impl WriteHandle {
    /// Takes up a request, or says why not. Forgets some of those that are too old, whatever face they came through.
    #[boxed]
    pub async fn take_up(&self, once: &Once) -> Result<Standing, Error> {
        let Some(under_way) = self.room.in_flight.take_up(&once.key) else { return Ok(Standing::Busy) };
        let now = self.ground().world.clock.now_ms();
        let row: Option<OnceRow> = self.catalogue().row(rows::ONCE, &once.key).await?;
        let row = row.filter(|row| row.until_ms > now);
        if row.is_none()
            && let Err(error) = self.forget_old_requests().await
        {
            tracing::debug!(%error, "cannot delete expired idempotency keys; retrying later");
        }
        Ok(match row {
            None => Standing::New(under_way),
            Some(row) if row.body != once.body => Standing::Other,
            Some(OnceRow { answer: Some(answer), .. }) => Standing::Answered(answer),
            Some(OnceRow { made: Some(made), .. }) => Standing::Made(under_way, made),
            Some(_) => Standing::New(under_way),
        })
    }

    /// The rows that remember what a request makes, for the append that makes it.
    pub(crate) fn made_once(&self, once: &Once, made: Made) -> Vec<RowPut> {
        self.once_rows(once, Some(made), None)
    }

    /// Remembers what was answered.
    #[boxed]
    pub async fn keep_answer(&self, once: &Once, answer: KeptAnswer) -> Result<(), Error> {
        // What it made is known for longer than what was answered: see `forget_answers`.
        let now = self.ground().world.clock.now_ms();
        let row: Option<OnceRow> = self.catalogue().row(rows::ONCE, &once.key).await?;
        let made = row.filter(|row| row.until_ms > now && row.body == once.body).and_then(|row| row.made);
        let rows = self.once_rows(once, made, Some(answer));
        self.ground().store().append(Append { rows, ..Append::default() }).await?;
        Ok(())
    }

    async fn forget_old_requests(&self) -> Result<(), Error> {
        let rows = self.too_old().await?;
        if !rows.is_empty() {
            self.ground().store().append(Append { rows, ..Append::default() }).await?;
        }
        Ok(())
    }

    fn once_rows(&self, once: &Once, made: Option<Made>, answer: Option<KeptAnswer>) -> Vec<RowPut> {
        once.rows(self.ground().world.clock.now_ms(), made, answer)
    }

    /// Forgets what was answered, though not what was made, since answers may tell of what is being erased. A
    /// request that is sent again is answered anew.
    pub(crate) async fn forget_answers(&self) -> Result<(), Error> {
        let mut pages = RowPages::new(self.ground().store(), rows::ONCE, limits::PAGE_EVENTS);
        while let Some(page) = pages.next().await? {
            let mut changed = Vec::new();
            for row in &page.rows {
                // What cannot be read is never returned.
                let Ok(kept) = read_row::<OnceRow>(rows::ONCE, &row.key, &row.value) else { continue };
                if kept.answer.is_some() {
                    let kept = OnceRow { answer: None, ..kept };
                    changed.push(rows::put(rows::ONCE, row.key.clone(), Guard::Any, &kept));
                }
            }
            if !changed.is_empty() {
                self.ground().store().append(taking_away(changed)).await?;
            }
        }
        Ok(())
    }

    /// What takes away the requests that nobody may send again, a few at a time: more than come. One that is under way
    /// is left to a later call.
    async fn too_old(&self) -> Result<Vec<RowPut>, Error> {
        let now = self.ground().world.clock.now_ms();
        let range = RowRange {
            space: rows::ONCE_DUE.into(),
            prefix: "".into(),
            after: None,
            backwards: false,
            limit: limits::ONCE_FORGOTTEN_AT_A_TIME,
        };
        let mut gone = Vec::new();
        // A damaged one does not prevent others from being forgotten.
        for due in self.ground().store().whole_rows(range).await?.rows {
            if &*due.key >= rows::due_key(now, "").as_str() {
                break;
            }
            let Ok(key) = read_row::<String>(rows::ONCE_DUE, &due.key, &due.value) else {
                gone.push(rows::delete(rows::ONCE_DUE, due.key));
                continue;
            };
            if self.room.in_flight.has(&key) {
                continue;
            }
            let row = match self.catalogue().row::<OnceRow>(rows::ONCE, &key).await {
                Err(error) if error.is_damage() => None,
                row => row?,
            };
            // It may have been used again since.
            if row.is_some_and(|row| row.until_ms <= now) {
                gone.push(rows::delete(rows::ONCE, key));
            }
            gone.push(rows::delete(rows::ONCE_DUE, due.key));
        }
        Ok(gone)
    }
}
