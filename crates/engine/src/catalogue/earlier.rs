//! Rows of a run as they were after one of its events, folded from the log again: the response of a repeated request
//! shows them. Reads events in pages and keeps none. It must not know requests. Start with [`CatalogueHandle::run_at`].

use recount_event::{ForeignId, Payload, PromptKind, RunId};
use recount_log::ReadResult as _;
use recount_run::State;

use crate::boxed;
use crate::catalogue::fold::{RecorderFields, run_row};
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::prompt_rows::{self, PromptRow, Prompts};
use crate::ground::{journal, rows};
use crate::{Error, RunRow, limits};

impl CatalogueHandle {
    /// A run after the event at `sequence`. `None` if its events were pruned or are damaged: then only the current row
    /// is known.
    #[boxed]
    pub async fn run_at(&self, run: RunId, sequence: u64) -> Result<Option<RunRow>, Error> {
        let row = self.run(run).await?;
        // The row was read before the end of the run, so it has no later event.
        match self.ends_at(run, sequence).await? {
            true => Ok(row),
            false => self.fold_run(run, |at, _| at == sequence).await,
        }
    }

    /// The same when the run was queued.
    pub async fn queued_run(&self, run: RunId) -> Result<Option<RunRow>, Error> {
        self.fold_run(run, |_, payload| matches!(payload, Payload::RunQueued(_))).await
    }

    /// A prompt of a run after the event at `sequence`. `None` if the run's events were pruned, erased or are damaged.
    #[boxed]
    pub async fn prompt_at(
        &self,
        kind: PromptKind,
        run: RunId,
        sequence: u64,
        id: &ForeignId,
    ) -> Result<Option<PromptRow>, Error> {
        let row = self.prompt_of(kind, run, id).await?;
        if self.ends_at(run, sequence).await? {
            return Ok(row);
        }
        let space = rows::prompts(kind).each;
        let (mut prompts, mut found) = (None, None);
        let state = journal::replay_until(self.ground().store(), &journal::stream_of(run), |event| {
            let prompts = prompts.get_or_insert_with(|| Prompts::of(event.run_id, event.task_id));
            let puts = prompts.event(event, true).into_iter().filter(|put| &*put.space == space);
            let rows = puts.filter_map(|put| PromptRow::parse(kind, &put.value?).ok());
            found = rows.filter(|row| row.id() == id).last().or(found.take());
            event.sequence == sequence
        })
        .await
        .readable()?;
        Ok(state.whole().flatten().filter(is_whole).and(found))
    }

    /// A prompt of this run. In older stores two runs may use one id.
    pub async fn prompt_of(
        &self,
        kind: PromptKind,
        run: RunId,
        id: &ForeignId,
    ) -> Result<Option<PromptRow>, Error> {
        for row in prompt_rows::stored(self.ground().store(), kind, id, limits::PROMPT_NAMESAKES_MAX).await? {
            let row = PromptRow::read(kind, &row)?;
            if row.run_id() == run {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Whether this is the last event of the run.
    async fn ends_at(&self, run: RunId, sequence: u64) -> Result<bool, Error> {
        let end = self.ground().store().end(&journal::stream_of(run)).await?;
        Ok(end.is_some_and(|end| end.next_sequence == sequence + 1))
    }

    async fn fold_run(
        &self,
        run: RunId,
        is_last: impl Fn(u64, &Payload) -> bool,
    ) -> Result<Option<RunRow>, Error> {
        let mut recorder = RecorderFields::default();
        let state = journal::replay_until(self.ground().store(), &journal::stream_of(run), |event| {
            recorder.event(event);
            is_last(event.sequence, event.payload())
        })
        .await
        .readable()?;
        let state = state.whole().flatten().filter(is_whole);
        Ok(state.map(|state| run_row(&state, &state.summary(), &recorder)))
    }
}

/// Whether no event before the last replayed one is missing.
fn is_whole(state: &State) -> bool {
    state.first_sequence() == 0
}
