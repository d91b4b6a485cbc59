//! Requests that are made once: what came of one is remembered under the key that its sender chose, so that it can
//! be sent again without being done again.
//!
//! What a request makes or changes is remembered in the append that does it, so that no crash comes in between. Where
//! the answer follows from that append alone it is in it too ([`KeyedReply`]); otherwise it follows. This knows nothing
//! of headers: an answer is what the face gives it to keep.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use recount_log::{Append, Guard, RowPut, RowRange};
use serde::{Deserialize, Serialize};

use crate::catalogue::prompt_rows::PromptRow;
use crate::ground::rows;
use crate::ground::rows::taking_away;
use crate::write::handle::WriteHandle;
use crate::{ApprovalRow, ClarificationRow, Error, HandoffRow, RunRow, limits};

/// One request that is to be done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// Who asks for what under which key, in one text of bounded length.
    pub key: String,
    /// What was sent, added up.
    pub body: String,
}

impl Once {
    /// The rows that remember it.
    pub(crate) fn rows(&self, now_ms: u64, made: Option<String>, answer: Option<KeptAnswer>) -> Vec<RowPut> {
        let life = u64::try_from(limits::ONCE_LIFE.as_millis()).unwrap_or(u64::MAX);
        let until_ms = now_ms.saturating_add(life);
        let row = OnceRow { body: self.body.clone(), until_ms, made, answer };
        vec![
            rows::put(rows::ONCE, self.key.as_str(), Guard::Any, &row),
            rows::put(rows::ONCE_DUE, rows::due_key(until_ms, &self.key), Guard::Any, &self.key),
        ]
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAnswer {
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// JSON.
    pub body: String,
}

/// Words an answer from what was done.
pub type WordReply<T> = Box<dyn FnOnce(&T) -> Option<KeptAnswer> + Send>;

/// A request with a key, and how it is answered once it is known what it does: worded before the append, so that the
/// answer is durable together with what it reports.
pub struct KeyedReply<T> {
    pub once: Once,
    /// `None` where the answer is too large to be kept: then only what was done is remembered.
    pub word: WordReply<T>,
}

impl<T> KeyedReply<T> {
    /// The rows for the append that does it, and the answer they hold. `made` names what was done for a repeat that
    /// finds no answer.
    pub(crate) fn rows(self, now_ms: u64, made: String, outcome: &T) -> (Vec<RowPut>, Option<KeptAnswer>) {
        let answer = (self.word)(outcome);
        (self.once.rows(now_ms, Some(made), answer.clone()), answer)
    }
}

/// What a command leaves: the run, and the prompts that it settles.
pub struct CommandOutcome {
    run: RunRow,
    rows: Vec<RowPut>,
}

impl CommandOutcome {
    /// From the rows of the append that holds the command's events.
    pub(crate) fn of(run: RunRow, rows: &[RowPut]) -> Self {
        CommandOutcome { run, rows: rows.to_vec() }
    }

    pub fn run(&self) -> &RunRow {
        &self.run
    }

    pub fn approval(&self, id: &str) -> Option<ApprovalRow> {
        self.prompt(id)
    }

    pub fn clarification(&self, id: &str) -> Option<ClarificationRow> {
        self.prompt(id)
    }

    pub fn handoff(&self, id: &str) -> Option<HandoffRow> {
        self.prompt(id)
    }

    fn prompt<T: PromptRow>(&self, id: &str) -> Option<T> {
        let space = rows::prompts(T::KIND).each;
        let written =
            self.rows.iter().filter(|put| &*put.space == space).filter_map(|put| put.value.as_ref());
        written.filter_map(|value| serde_json::from_slice(value).ok()).find(|row: &T| row.id() == id)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OnceRow {
    body: String,
    until_ms: u64,
    /// The id of what it made, or the place of what it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<KeptAnswer>,
}

/// How such a request stands.
pub enum Standing {
    /// It was not made before: nobody else can make it while this is held.
    New(UnderWay),
    /// It made this, and whoever asked was not answered.
    Made(UnderWay, String),
    /// It was answered.
    Answered(KeptAnswer),
    /// The key was used for something else.
    Other,
    /// It is being done.
    Busy,
}

/// Requests that are being done.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<HashSet<String>>);

/// That one request is being done; it is over when this is dropped.
pub struct UnderWay {
    doing: Arc<InFlight>,
    key: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.doing.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl WriteHandle {
    /// Takes up a request, or says why not. Forgets some of those that are too old, whatever face they came through.
    pub async fn take_up(&self, once: &Once) -> Result<Standing, Error> {
        let key = once.key.clone();
        if !self.room.in_flight.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
            return Ok(Standing::Busy);
        }
        let under_way = UnderWay { doing: self.room.in_flight.clone(), key };
        let now = self.ground().world.clock.now_ms();
        let row: Option<OnceRow> = self.catalogue().row(rows::ONCE, &once.key).await?;
        let row = row.filter(|row| row.until_ms > now);
        if row.is_none()
            && let Err(error) = self.forget_old_requests().await
        {
            tracing::debug!(%error, "requests that are too old to be sent again are forgotten later");
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
    pub(crate) fn made_once(&self, once: &Once, made: &str) -> Vec<RowPut> {
        self.once_rows(once, Some(made.to_owned()), None)
    }

    /// Remembers what was answered.
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

    fn once_rows(&self, once: &Once, made: Option<String>, answer: Option<KeptAnswer>) -> Vec<RowPut> {
        once.rows(self.ground().world.clock.now_ms(), made, answer)
    }

    /// Forgets what was answered, though not what was made, since answers may tell of what is being erased. A
    /// request that is sent again is answered anew.
    pub(crate) async fn forget_answers(&self) -> Result<(), Error> {
        let mut after = None;
        loop {
            let range = RowRange {
                space: rows::ONCE.into(),
                prefix: "".into(),
                after: after.take(),
                backwards: false,
                limit: limits::PAGE_EVENTS,
            };
            let page = self.ground().store().rows(range).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.key.clone());
            let mut changed = Vec::new();
            for row in &page {
                let kept: OnceRow = crate::catalogue::table::read_row(rows::ONCE, &row.key, &row.value)?;
                if kept.answer.is_some() {
                    let kept = OnceRow { answer: None, ..kept };
                    changed.push(rows::put(rows::ONCE, row.key.clone(), Guard::Any, &kept));
                }
            }
            if !changed.is_empty() {
                self.ground().store().append(taking_away(changed)).await?;
            }
        }
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
        for due in self.ground().store().rows(range).await? {
            if &*due.key >= rows::due_key(now, "").as_str() {
                break;
            }
            let key: String = crate::catalogue::table::read_row(rows::ONCE_DUE, &due.key, &due.value)?;
            if self.room.in_flight.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
                continue;
            }
            let row: Option<OnceRow> = self.catalogue().row(rows::ONCE, &key).await?;
            // It may have been used again since.
            if row.is_some_and(|row| row.until_ms <= now) {
                gone.push(rows::delete(rows::ONCE, key));
            }
            gone.push(rows::delete(rows::ONCE_DUE, due.key));
        }
        Ok(gone)
    }
}
