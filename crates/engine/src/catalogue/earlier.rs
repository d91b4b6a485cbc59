//! Rows of a run as they were after one of its events, folded from the log again: the response of a repeated request
//! shows them. Reads events in pages and keeps none. It must not know requests. Start with [`CatalogueHandle::run_at`].

use recount_event::{ForeignId, Payload, PromptKind, RunId};
use recount_run::State;

use crate::boxed;
use crate::catalogue::fold::run_row;
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::prompt_rows::{PromptRow, Prompts};
use crate::catalogue::recorder::RecorderFields;
use crate::ground::{journal, rows};
use crate::{Error, RunRow};

impl CatalogueHandle {
    /// A run after the event at `sequence`, or when it was queued; as it is now if its events were pruned.
    #[boxed]
    pub async fn run_at(&self, run: RunId, sequence: Option<u64>) -> Result<Option<RunRow>, Error> {
        let (store, stream) = (self.ground().store(), journal::stream_of(run));
        if let Some(sequence) = sequence {
            let row = self.run(run).await?;
            // The row was read before the end of the run, so it has no later event.
            if store.end(&stream).await?.is_some_and(|end| end.next_sequence == sequence + 1) {
                return Ok(row);
            }
        }
        let mut recorder = RecorderFields::default();
        let state = journal::replay_until(store, &stream, |event| {
            recorder.event(event);
            match sequence {
                Some(sequence) => event.sequence == sequence,
                None => matches!(event.payload(), Payload::RunQueued(_)),
            }
        })
        .await?;
        match state.filter(is_whole) {
            Some(state) => Ok(Some(run_row(&state, &state.summary(), &recorder))),
            None => self.run(run).await,
        }
    }

    /// A prompt of a run after the event at `sequence`. `None` if the run's events were pruned or erased.
    pub async fn prompt_at(
        &self,
        kind: PromptKind,
        run: RunId,
        sequence: u64,
        id: &ForeignId,
    ) -> Result<Option<PromptRow>, Error> {
        let space = rows::prompts(kind).each;
        let (mut prompts, mut found) = (None, None);
        let state = journal::replay_until(self.ground().store(), &journal::stream_of(run), |event| {
            let prompts = prompts.get_or_insert_with(|| Prompts::of(event.run_id, event.task_id));
            let puts = prompts.event(event, true).into_iter().filter(|put| &*put.space == space);
            let rows = puts.filter_map(|put| PromptRow::parse(kind, &put.value?).ok());
            found = rows.filter(|row| row.id() == id).last().or(found.take());
            event.sequence == sequence
        })
        .await?;
        Ok(state.filter(is_whole).and(found))
    }
}

/// Whether no event before the last replayed one is missing.
fn is_whole(state: &State) -> bool {
    state.first_sequence() == 0
}
