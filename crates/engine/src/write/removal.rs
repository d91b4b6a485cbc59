//! Prunes and erases a run; the run's writer executes both.
//!
//! A prune cuts the events in the append of its marker. Erasing leaves a tombstone. Rows that do not fit one append
//! are deleted first, so a run that still exists can lack rows only while it is being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use recount_event::{Code, EventId, ForeignId, PromptEvent, PromptKind, RunId, TaskId};
use recount_log::{End, ReadBound, ReadResult as _, RowPut};
use recount_run::Command;

use crate::catalogue::artifact_rows::{ArtifactRemoval, artifact_deletions, blob_of, removal_rows};
use crate::catalogue::deleted_artifacts::record_deletions;
use crate::catalogue::fold::successor_key;
use crate::catalogue::prompt_rows::{PromptRow, prompt_rows, stored};
use crate::catalogue::table::read_row;
use crate::catalogue::tombstones::pruned_up_to;
use crate::ground::error::{run_erased, run_not_found};
use crate::ground::rows::deletion;
use crate::ground::{journal, rows};
use crate::write::listed_rows::{ListedRow, Relations, listed, relations};
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::Masking;
use crate::write::request::{Contribution, Erase, PendingReply, Prune, Removal, ReplyTo};
use crate::write::row_deletions::{delete_all, delete_damaged_rows};
use crate::write::writer::{Batch, Writer};
use crate::{ArtifactRow, Error, Pruned, Tombstone, limits};

/// Events to remove.
struct RemovalPlan {
    /// The first event that stays.
    keep_from: u64,
    /// Position of the last event to remove.
    last_position: u64,
    /// Row deletions and removal records, by space and key.
    rows: BTreeMap<(Arc<str>, Arc<str>), RowPut>,
    /// Blobs that lose a use.
    blobs: Vec<String>,
}

impl RemovalPlan {
    fn from(sequence: u64) -> Self {
        RemovalPlan { keep_from: sequence, last_position: 0, rows: BTreeMap::new(), blobs: Vec::new() }
    }

    fn add(&mut self, put: RowPut) {
        self.rows.insert((put.space.clone(), put.key.clone()), put);
    }

    /// Adds the removal of an artifact and its record.
    fn add_artifact(&mut self, artifact: &ArtifactRow, extent: Extent) {
        let removal = ArtifactRemoval {
            run_id: Some(artifact.run_id),
            pruned: extent == Extent::Beginning,
            deleted: None,
        };
        artifact_deletions(artifact)
            .into_iter()
            .chain(record_deletions(artifact))
            .for_each(|put| self.add(put));
        let key = rows::tenant_key(&artifact.id);
        self.add(rows::put(rows::ARTIFACTS_REMOVED, key, recount_log::Guard::Any, &removal));
        if let Some(hash) = artifact.hash.as_deref().and_then(blob_of) {
            self.add(rows::delete(rows::BLOBS_KEPT, format!("{hash}/{}", artifact.event_id)));
            self.blobs.push(hash.to_owned());
        }
    }

    fn rows(&self) -> impl Iterator<Item = RowPut> {
        self.rows.values().cloned()
    }
}

/// The part of a run that is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Beginning,
    All,
}

impl Writer {
    /// Plans a prune, and applies its marker to the state in memory.
    pub(super) async fn prune(
        &self,
        loaded: &mut LoadedRun,
        Prune { before, reason, rows: with, is_trial }: Prune,
    ) -> Result<(Contribution, Pruned), Error> {
        let reason = loaded.redaction.redactor.text(&reason).into_owned();
        // The rules refuse a run that has not ended.
        let ending = loaded.state.ending_sequence().unwrap_or(0);
        let first_kept = loaded.state.first_sequence();
        let wanted = before.map_or(ending, |before| before.min(ending));
        let plan = self.removal_plan(first_kept, wanted, limits::PRUNE_ROWS_MAX, Extent::Beginning).await?;
        let command = Command::Prune { before: Some(plan.keep_from), reason };
        let events = recount_run::decide(&loaded.state, command, self.context.ground.stamp())?;
        if events.is_empty() {
            let pruned = Pruned { first_sequence: first_kept, events: 0, receipt: None };
            let rows = with.map(|with| with(&pruned)).unwrap_or_default();
            return Ok((Contribution { rows, ..Contribution::default() }, pruned));
        }
        let pruned =
            Pruned { first_sequence: plan.keep_from, events: plan.keep_from - first_kept, receipt: None };
        if is_trial {
            return Ok((Contribution::default(), pruned));
        }
        let mut rows: Vec<RowPut> = plan.rows().collect();
        rows.push(rows::must_be_absent(rows::PINS, self.run.to_string()));
        rows.extend(self.pruned_up_to(plan.last_position).await?);
        rows.extend(with.into_iter().flat_map(|with| with(&pruned)));
        loaded.apply(&events, Masking::default());
        let removal = Removal {
            keep_from: Some(plan.keep_from),
            last_position: plan.last_position,
            next_sequence: loaded.state.next_sequence(),
            task: loaded.state.task_id(),
            blobs: plan.blobs,
        };
        Ok((Contribution { events, rows, removal: Some(removal), ..Contribution::default() }, pruned))
    }

    /// Erases a run. An unreadable one need not have ended, because it accepts no events.
    pub(super) async fn erase(
        &mut self,
        loaded: Result<Box<LoadedRun>, Error>,
        by: String,
        to: ReplyTo<Erase>,
    ) {
        let relations = match &loaded {
            Ok(loaded) if !loaded.state.is_ended() => {
                let message = format!("{} is active; it can be erased after it has ended", self.run);
                Err(Error::rejected(Code::RunActive, message))
            }
            Ok(loaded) => {
                let state = &loaded.state;
                let prior = state.queued().and_then(|queued| queued.prior_run_id.clone());
                Ok(Relations {
                    task: state.task_id(),
                    session: state.session_id(),
                    successor_key: successor_key(prior.as_deref(), self.run),
                })
            }
            Err(error) if error.is_damage() => relations(self.context.ground.store(), self.run).await,
            Err(error) => Err(error.clone()),
        };
        let relations = match relations {
            Ok(relations) => relations,
            Err(error) => {
                self.keep(loaded.ok());
                return to.reply(Err(error));
            }
        };
        let context = self.context.clone();
        // Until the last append, no repair may rewrite rows that an earlier append deleted.
        let _erasure = context.repairs.erasure_of(&self.stream).await;
        match self.erasure(relations, loaded.is_ok(), by).await {
            Ok(contribution) => {
                let mut batch = Batch::default();
                batch.add(self.run, contribution, PendingReply::Erase(to, Ok(())));
                self.commit(None, true, batch).await;
            }
            Err(error) => to.reply(Err(error)),
        }
    }

    /// Deletes most rows of the run, and plans the last append.
    async fn erasure(
        &self,
        relations: Relations,
        is_readable: bool,
        by: String,
    ) -> Result<Contribution, Error> {
        let store = self.context.ground.store();
        let Some(end) = store.end(&self.stream).await? else { return Err(run_not_found(self.run)) };
        if end.erased {
            return Err(run_erased(self.run));
        }
        for space in [rows::PRODUCERS, rows::SEALED] {
            delete_all(store, space, &format!("{}/", self.run), limits::ERASE_ROWS_MAX).await?;
        }
        self.forget_allowances(store, self.run).await?;
        let task = relations.task;
        let is_listed_by_events = is_readable
            // The events may be damaged while the server runs.
            && self.remove_listed_by_events(end, task).await.readable()?.whole().is_some();
        if !is_listed_by_events {
            self.remove_listed_by_lists(task).await?;
        }
        let tail = store.tail(&self.stream).await.readable()?.whole().flatten();
        let mut rows = self.last_rows(&relations).await?;
        if !is_listed_by_events {
            delete_damaged_rows(store, &rows).await?;
        }
        let tombstone = Tombstone {
            run_id: self.run,
            task_id: relations.task,
            session_id: relations.session,
            events: end.next_sequence,
            head: tail.map(|tail| tail.head.to_string()),
            erased_at: recount_event::time::format_ms(self.context.ground.world.clock.now_ms()),
            by,
        };
        let key = rows::tenant_key(self.run);
        rows.push(rows::put(rows::ERASED, key, recount_log::Guard::Any, &tombstone));
        let removal = Removal {
            keep_from: None,
            last_position: end.last_position,
            next_sequence: end.next_sequence,
            task,
            blobs: Vec::new(),
        };
        Ok(Contribution { rows, removal: Some(removal), ..Contribution::default() })
    }

    /// The deletions that belong to the run itself.
    async fn last_rows(&self, relations: &Relations) -> Result<Vec<RowPut>, Error> {
        let run = self.run.to_string();
        let mut deletions = vec![
            rows::delete(rows::RUNS, rows::tenant_key(&run)),
            rows::delete(rows::DEADLINES, run.as_str()),
            rows::delete(rows::OWN_OPEN, run.as_str()),
            rows::delete(rows::PINS, run.as_str()),
            rows::delete(rows::IMPORTED, run.as_str()),
        ];
        let mut active = Vec::new();
        if let Some(task) = relations.task {
            deletions.push(rows::delete(rows::TASK_RUNS, format!("{}{run}", rows::task_runs_prefix(task))));
            active.push((rows::TASK_ACTIVE, task.to_string()));
        }
        if let Some(session) = relations.session {
            let key = format!("{}{run}", rows::session_runs_prefix(session));
            deletions.push(rows::delete(rows::SESSION_RUNS, key));
            active.push((rows::SESSION_ACTIVE, session.to_string()));
        }
        if let Some(key) = &relations.successor_key {
            deletions.push(rows::delete(rows::RUN_SUCCESSORS, key.as_str()));
        }
        // A damaged active row was never released by a run.
        for (space, key) in active {
            let row = self.context.ground.store.row(space, &key).await.readable()?.whole().flatten();
            let active = row.and_then(|row| read_row::<RunId>(space, &key, &row.value).ok());
            if active == Some(self.run) {
                deletions.push(rows::delete(space, key));
            }
        }
        Ok(deletions)
    }

    /// Deletes the list rows of the run according to its events.
    async fn remove_listed_by_events(&self, end: End, task: Option<TaskId>) -> Result<(), Error> {
        let mut from = end.first_sequence;
        while from < end.next_sequence {
            let plan =
                self.removal_plan(from, end.next_sequence, limits::ERASE_ROWS_MAX, Extent::All).await?;
            from = plan.keep_from;
            self.remove_listed(plan, task).await?;
        }
        Ok(())
    }

    /// Deletes the list rows of the run according to the lists.
    async fn remove_listed_by_lists(&self, task: Option<TaskId>) -> Result<(), Error> {
        loop {
            let max = limits::ERASE_ROWS_MAX / limits::EVENT_ROWS_MAX;
            let found = listed(self.context.ground.store(), self.run, max).await?;
            if found.is_empty() {
                return Ok(());
            }
            let mut plan = RemovalPlan::from(0);
            for row in found {
                match row {
                    ListedRow::Plain(put) => plan.add(put),
                    ListedRow::Artifact(artifact) => plan.add_artifact(&artifact, Extent::All),
                }
            }
            self.remove_listed(plan, task).await?;
        }
    }

    async fn remove_listed(&self, plan: RemovalPlan, task: Option<TaskId>) -> Result<(), Error> {
        let rows: Vec<RowPut> = plan.rows().collect();
        if !rows.is_empty() {
            self.context.ground.store.append(deletion(rows)).await?;
        }
        self.release_blobs(task, plan.blobs).await;
        Ok(())
    }

    /// What follows the append of a removal. Unused blobs are deleted; the next start deletes those that fail.
    pub(super) async fn removed(&self, removal: Removal) {
        let mut blobs = removal.blobs;
        if removal.keep_from.is_none() {
            self.context.timers.set(self.run, None, &self.context.ground.world);
            self.context.fresh.forget(self.run);
            // Blobs that were stored for it and never named.
            blobs.extend(self.context.blobs.forget_run(self.run));
        }
        self.release_blobs(removal.task, blobs).await;
    }

    async fn release_blobs(&self, task: Option<TaskId>, blobs: Vec<String>) {
        let owner = task.map_or_else(|| self.run.to_string(), |task| task.to_string());
        self.context.quotas.forget(&owner).await;
        if let Err(error) = self.context.blobs.release(blobs).await {
            tracing::warn!(
                run = %self.run,
                %error,
                "cannot delete the bytes of removed artifacts; they are deleted at the next start"
            );
        }
    }

    /// Plans the removal of a range of events, up to a number of row changes.
    async fn removal_plan(
        &self,
        from: u64,
        up_to: u64,
        rows_max: usize,
        extent: Extent,
    ) -> Result<RemovalPlan, Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let mut plan = RemovalPlan::from(from);
        while plan.keep_from < up_to {
            let page = self.context.ground.store.read(&self.stream, plan.keep_from, bound).await?;
            if page.first().is_none_or(|record| record.sequence != plan.keep_from) {
                return Err(Error::bug(format!("{} has no event {}", self.run, plan.keep_from)));
            }
            for record in page.iter().take_while(|record| record.sequence < up_to) {
                let event = journal::decode(&record.bytes, &self.stream, record.sequence)?;
                if plan.rows.len() + limits::EVENT_ROWS_MAX > rows_max {
                    return Ok(plan);
                }
                if let Some(PromptEvent { kind, id, .. }) = PromptEvent::requested(event.payload()) {
                    let deletions = prompt_rows(kind, id, event.event_id).into_iter();
                    let is_taken = self.is_id_of_another(kind, id, event.event_id).await?;
                    deletions.skip(usize::from(is_taken)).for_each(|put| plan.add(put));
                }
                let (deletions, artifact) = removal_rows(&event);
                deletions.into_iter().for_each(|put| plan.add(put));
                if let Some(artifact) = artifact {
                    plan.add_artifact(&artifact, extent);
                }
                (plan.keep_from, plan.last_position) = (record.sequence + 1, record.position);
            }
        }
        Ok(plan)
    }

    /// Whether the row of a prompt belongs to another run now. An erasure that failed has freed the ids of its prompts.
    async fn is_id_of_another(
        &self,
        kind: PromptKind,
        id: &ForeignId,
        event_id: EventId,
    ) -> Result<bool, Error> {
        // The rows of other kinds have the event in their keys.
        if kind != PromptKind::Approval {
            return Ok(false);
        }
        let found = stored(self.context.ground.store(), kind, id, 1).await.readable()?.whole();
        let row = found.and_then(|mut rows| rows.pop()).and_then(|row| PromptRow::read(kind, &row).ok());
        Ok(row.is_some_and(|row| row.event_id() != event_id))
    }

    /// The row with the highest pruned position, if it increases.
    async fn pruned_up_to(&self, position: u64) -> Result<Option<RowPut>, Error> {
        let pruned = pruned_up_to(self.context.ground.store()).await?;
        let key = rows::PRUNED_LAST;
        Ok((position > pruned).then(|| rows::put(rows::PRUNED, key, recount_log::Guard::Any, &position)))
    }
}
