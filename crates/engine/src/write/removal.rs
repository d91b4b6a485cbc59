//! What takes events away, done by the run's writer like everything else that changes a run.
//!
//! A prune cuts in the append that brings its marker. Erasing leaves a tombstone; rows that are too many for
//! one append go first, so that a run that is still there may lack them only while it is being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use recount_event::{Code, RunId, TaskId};
use recount_log::{End, ReadBound, RowPut, RowRange};
use recount_run::Command;

use crate::catalogue::artifact_rows::{Gone, artifact_goes, blob_of, leaves};
use crate::catalogue::deleted_artifacts::records_go;
use crate::catalogue::fold::successor_key;
use crate::catalogue::prompt_rows::{asked_for, prompt_rows};
use crate::catalogue::pruned::pruned_up_to;
use crate::catalogue::table::read_row;
use crate::ground::error::{run_erased, run_not_found};
use crate::ground::rows::taking_away;
use crate::ground::{journal, rows};
use crate::write::commit::Commit;
use crate::write::damaged_rows::damaged_go;
use crate::write::listed_rows::{ListedRow, Relations, listed, relations};
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::Masking;
use crate::write::run_writer::Writer;
use crate::{ArtifactRow, Error, Receipt, Tombstone, limits};

/// What a prune did to one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// The first event that is left.
    pub first_sequence: u64,
    /// Events taken by this prune.
    pub events: u64,
    /// The marker, when there was something to take.
    pub receipt: Option<Receipt>,
}

/// Makes the rows that go with a prune, from what it takes.
pub(crate) type PruneRows = Box<dyn FnOnce(&Pruned) -> Vec<RowPut> + Send>;

/// Events that are about to go.
struct Going {
    /// The first that stays.
    keep_from: u64,
    /// Position of the last one that goes.
    last_position: u64,
    /// What leaves the lists with them, and what is noted of it, by space and key.
    rows: BTreeMap<(Arc<str>, Arc<str>), RowPut>,
    /// The blobs that one artifact less needs now.
    blobs: Vec<String>,
}

impl Going {
    fn from(sequence: u64) -> Self {
        Going { keep_from: sequence, last_position: 0, rows: BTreeMap::new(), blobs: Vec::new() }
    }

    fn add(&mut self, put: RowPut) {
        self.rows.insert((put.space.clone(), put.key.clone()), put);
    }

    /// An artifact goes, and what is noted of it.
    fn add_artifact(&mut self, made: &ArtifactRow, extent: Extent) {
        let gone = Gone { run_id: Some(made.run_id), pruned: extent == Extent::Beginning, deleted: None };
        artifact_goes(made).into_iter().chain(records_go(made)).for_each(|put| self.add(put));
        let key = rows::tenant_key(&made.id);
        self.add(rows::put(rows::ARTIFACTS_GONE, key, recount_log::Guard::Any, &gone));
        if let Some(hash) = made.hash.as_deref().and_then(blob_of) {
            self.add(rows::delete(rows::BLOBS_KEPT, format!("{hash}/{}", made.event_id)));
            self.blobs.push(hash.to_owned());
        }
    }

    fn rows(&self) -> impl Iterator<Item = RowPut> {
        self.rows.values().cloned()
    }
}

/// What goes away of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Beginning,
    All,
}

impl Writer {
    pub(super) async fn prune(
        &mut self,
        mut loaded: Box<LoadedRun>,
        before: Option<u64>,
        reason: String,
        with: Option<PruneRows>,
    ) -> Result<Pruned, Error> {
        let reason = loaded.redaction.redactor.text(&reason).into_owned();
        // Where a run goes on, the rules say so.
        let ending = loaded.state.ending_sequence().unwrap_or(0);
        let gone = loaded.state.first_sequence();
        let wanted = before.map_or(ending, |before| before.min(ending));
        let going = self.going(gone, wanted, limits::PRUNE_ROWS_MAX, Extent::Beginning).await?;
        let command = Command::Prune { before: Some(going.keep_from), reason };
        let decided = recount_run::decide(&loaded.state, command, self.stamp());
        let events = match decided {
            Ok(events) if !events.is_empty() => events,
            other => {
                self.loaded = Some(loaded);
                other?;
                return Ok(Pruned { first_sequence: gone, events: 0, receipt: None });
            }
        };
        let first = loaded.state.next_sequence();
        loaded.apply(&events, Masking::default());
        let mut rows = loaded.fold.rows(&loaded.state);
        rows.extend(going.rows());
        rows.push(rows::must_be_absent(rows::PINS, self.run.to_string()));
        rows.extend(self.pruned_up_to(going.last_position).await?);
        let pruned =
            Pruned { first_sequence: going.keep_from, events: going.keep_from - gone, receipt: None };
        rows.extend(with.into_iter().flat_map(|with| with(&pruned)));
        let mut commit = Commit::of(rows);
        commit.events(self.run, first, &events);
        commit.cut(self.run, going.keep_from);
        let landed = match self.room.commit(commit).await {
            Ok(landed) => landed,
            Err(failed) => return Err(failed.meaning(self.run).into_error()),
        };
        self.room.publisher.forget(&self.stream, going.last_position);
        self.room.publisher.mark_ended(&self.stream, loaded.state.next_sequence());
        let task = loaded.state.task_id();
        self.settle(loaded, true, false);
        self.let_go(task, going.blobs).await;
        Ok(Pruned { receipt: landed.of(self.run), ..pruned })
    }

    pub(super) async fn erase(&mut self, loaded: Box<LoadedRun>, by: String) -> Result<(), Error> {
        if !loaded.state.is_ended() {
            self.loaded = Some(loaded);
            let message = format!("{} is active; it can be erased after it has ended", self.run);
            return Err(Error::rejected(Code::RunActive, message));
        }
        let state = &loaded.state;
        let prior = state.queued().and_then(|queued| queued.prior_run_id.clone());
        let relations = Relations {
            task: state.task_id(),
            session: state.session_id(),
            successor_key: successor_key(prior.as_deref(), self.run),
        };
        self.erase_related(relations, true, by).await
    }

    /// Erases a run that cannot be read. It need not have ended, because it accepts no more events.
    pub(super) async fn erase_damaged(&mut self, by: String) -> Result<(), Error> {
        let relations = relations(self.room.ground.store(), self.run).await?;
        self.erase_related(relations, false, by).await
    }

    async fn erase_related(
        &mut self,
        relations: Relations,
        is_readable: bool,
        by: String,
    ) -> Result<(), Error> {
        let room = self.room.clone();
        // Until the last append nothing is written anew that one before it took away.
        let _erasure = room.repairs.erasure_of(&self.stream).await;
        let store = room.ground.store();
        let Some(end) = store.end(&self.stream).await? else { return Err(run_not_found(self.run)) };
        if end.erased {
            return Err(run_erased(self.run));
        }
        for space in [rows::PRODUCERS, rows::SEALED] {
            self.delete_all(space).await?;
        }
        self.forget_allowances(store, self.run).await?;
        let task = relations.task;
        let is_told = is_readable
            && match self.listed_go_by_events(end, task).await {
                // Damaged while the server runs.
                Err(error) if error.is_damage() => false,
                gone => gone.map(|()| true)?,
            };
        if !is_told {
            self.listed_go_by_lists(task).await?;
        }
        let head = match store.tail(&self.stream).await.map_err(Error::from) {
            Ok(tail) => tail.map(|tail| tail.head.to_string()),
            Err(error) if error.is_damage() => None,
            Err(error) => return Err(error),
        };
        let mut rows = self.last_rows(&relations).await?;
        if !is_told {
            damaged_go(store, &rows).await?;
        }
        let tombstone = Tombstone {
            run_id: self.run,
            task_id: relations.task,
            session_id: relations.session,
            events: end.next_sequence,
            head,
            erased_at: recount_event::time::format_ms(self.room.ground.world.clock.now_ms()),
            by,
        };
        let key = rows::tenant_key(self.run);
        rows.push(rows::put(rows::ERASED, key, recount_log::Guard::Any, &tombstone));
        let mut commit = Commit::of(rows);
        commit.erase(self.run);
        if let Err(failed) = room.commit(commit).await {
            return Err(failed.meaning(self.run).into_error());
        }
        self.room.publisher.forget(&self.stream, end.last_position);
        self.room.publisher.mark_ended(&self.stream, end.next_sequence);
        self.room.timers.set(self.run, None, &self.room.ground.world);
        self.room.fresh.forget(self.run);
        // What was kept for it and never named.
        let kept = self.room.blobs.forget_run(self.run);
        self.let_go(task, kept).await;
        Ok(())
    }

    /// What goes with the run itself.
    async fn last_rows(&self, relations: &Relations) -> Result<Vec<RowPut>, Error> {
        let run = self.run.to_string();
        let mut gone = vec![
            rows::delete(rows::RUNS, rows::tenant_key(&run)),
            rows::delete(rows::DEADLINES, run.as_str()),
            rows::delete(rows::OWN_OPEN, run.as_str()),
            rows::delete(rows::PINS, run.as_str()),
            rows::delete(rows::IMPORTED, run.as_str()),
        ];
        let mut active = Vec::new();
        if let Some(task) = relations.task {
            gone.push(rows::delete(rows::TASK_RUNS, format!("{}{run}", rows::task_runs_prefix(task))));
            active.push((rows::TASK_ACTIVE, task.to_string()));
        }
        if let Some(session) = relations.session {
            let key = format!("{}{run}", rows::session_runs_prefix(session));
            gone.push(rows::delete(rows::SESSION_RUNS, key));
            active.push((rows::SESSION_ACTIVE, session.to_string()));
        }
        if let Some(key) = &relations.successor_key {
            gone.push(rows::delete(rows::RUN_SUCCESSORS, key.as_str()));
        }
        // One that is damaged was never taken off them.
        for (space, key) in active {
            let row = match self.room.ground.store.row(space, &key).await.map_err(Error::from) {
                Err(error) if error.is_damage() => continue,
                row => row?,
            };
            let active = row.and_then(|row| read_row::<RunId>(space, &key, &row.value).ok());
            if active == Some(self.run) {
                gone.push(rows::delete(space, key));
            }
        }
        Ok(gone)
    }

    /// Takes away what the lists hold of the run, as its events tell it.
    async fn listed_go_by_events(&self, end: End, task: Option<TaskId>) -> Result<(), Error> {
        let mut from = end.first_sequence;
        while from < end.next_sequence {
            let going = self.going(from, end.next_sequence, limits::ERASE_ROWS_MAX, Extent::All).await?;
            from = going.keep_from;
            self.listed_go(going, task).await?;
        }
        Ok(())
    }

    /// The same, as the lists tell it.
    async fn listed_go_by_lists(&self, task: Option<TaskId>) -> Result<(), Error> {
        loop {
            let max = limits::ERASE_ROWS_MAX / limits::EVENT_ROWS_MAX;
            let found = listed(self.room.ground.store(), self.run, max).await?;
            if found.is_empty() {
                return Ok(());
            }
            let mut going = Going::from(0);
            for row in found {
                match row {
                    ListedRow::Plain(put) => going.add(put),
                    ListedRow::Artifact(made) => going.add_artifact(&made, Extent::All),
                }
            }
            self.listed_go(going, task).await?;
        }
    }

    async fn listed_go(&self, going: Going, task: Option<TaskId>) -> Result<(), Error> {
        let rows: Vec<RowPut> = going.rows().collect();
        if !rows.is_empty() {
            self.room.ground.store.append(taking_away(rows)).await?;
        }
        self.let_go(task, going.blobs).await;
        Ok(())
    }

    /// Takes away what nobody needs any more. What cannot be taken away now, the next start finds.
    async fn let_go(&self, task: Option<TaskId>, blobs: Vec<String>) {
        let owner = task.map_or_else(|| self.run.to_string(), |task| task.to_string());
        self.room.quotas.forget(&owner).await;
        if let Err(error) = self.room.blobs.release(blobs).await {
            tracing::warn!(
                run = %self.run,
                %error,
                "cannot delete the bytes of removed artifacts; they are deleted at the next start"
            );
        }
    }

    /// Looks at the events from one place up to another, and stops where more than so many rows would change.
    async fn going(&self, from: u64, up_to: u64, rows_max: usize, extent: Extent) -> Result<Going, Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let mut going = Going::from(from);
        while going.keep_from < up_to {
            let page = self.room.ground.store.read(&self.stream, going.keep_from, bound).await?;
            if page.first().is_none_or(|record| record.sequence != going.keep_from) {
                return Err(Error::bug(format!("{} has no event {}", self.run, going.keep_from)));
            }
            for record in page.iter().take_while(|record| record.sequence < up_to) {
                let event = journal::decode(&record.bytes, &self.stream, record.sequence)?;
                if going.rows.len() + limits::EVENT_ROWS_MAX > rows_max {
                    return Ok(going);
                }
                if let Some((kind, id)) = asked_for(event.payload()) {
                    prompt_rows(kind, id, event.event_id).into_iter().for_each(|put| going.add(put));
                }
                let (gone, made) = leaves(&event);
                gone.into_iter().for_each(|put| going.add(put));
                if let Some(made) = made {
                    going.add_artifact(&made, extent);
                }
                (going.keep_from, going.last_position) = (record.sequence + 1, record.position);
            }
        }
        Ok(going)
    }

    /// The row that says how far the feed was ever pruned, when it says less.
    async fn pruned_up_to(&self, position: u64) -> Result<Option<RowPut>, Error> {
        let known = pruned_up_to(self.room.ground.store()).await?;
        let key = rows::PRUNED_LAST;
        Ok((position > known).then(|| rows::put(rows::PRUNED, key, recount_log::Guard::Any, &position)))
    }

    /// Deletes all rows of a space whose keys begin with the run.
    async fn delete_all(&self, space: &str) -> Result<(), Error> {
        let store = self.room.ground.store();
        loop {
            let range = RowRange {
                space: space.into(),
                prefix: format!("{}/", self.run).into(),
                after: None,
                backwards: false,
                limit: limits::ERASE_ROWS_MAX,
            };
            let page = store.rows(range).await?;
            if page.is_empty() {
                return Ok(());
            }
            let rows = page.into_iter().map(|row| rows::delete(space, row.key)).collect();
            store.append(taking_away(rows)).await?;
        }
    }
}
