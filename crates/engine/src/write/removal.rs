//! What takes events away, done by the run's writer like everything else that changes a run.
//!
//! A prune cuts in the append that brings its marker. Erasing leaves a tombstone; rows that are too many for
//! one append go first, so that a run that is still there may lack them only while it is being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use recount_event::{Code, TaskId};
use recount_log::{ReadBound, RowPut, RowRange};
use recount_run::Command;

use crate::catalogue::artifact_rows::{Gone, blob_of, leaves};
use crate::catalogue::deleted_artifacts::records_go;
use crate::catalogue::fold::successor_key;
use crate::catalogue::prompt_rows::{asked_for, prompt_rows};
use crate::catalogue::pruned::pruned_up_to;
use crate::ground::error::run_not_found;
use crate::ground::rows::taking_away;
use crate::ground::{journal, rows};
use crate::write::commit::Commit;
use crate::write::loaded_run::LoadedRun;
use crate::write::redaction::Masking;
use crate::write::run_writer::Writer;
use crate::{Error, Receipt, Tombstone, limits};

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
    fn add(&mut self, put: RowPut) {
        self.rows.insert((put.space.clone(), put.key.clone()), put);
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
            let message = format!("{} goes on; it is erased when it has ended", self.run);
            return Err(Error::rejected(Code::RunActive, message));
        }
        let room = self.room.clone();
        // Until the last append nothing is written anew that one before it took away.
        let _erasure = room.repairs.erasure_of(&self.stream).await;
        let store = room.ground.store();
        let Some(tail) = store.tail(&self.stream).await? else { return Err(run_not_found(self.run)) };
        let task = loaded.state.task_id();
        for space in [rows::PRODUCERS, rows::SEALED] {
            self.delete_all(space).await?;
        }
        self.forget_allowances(store, self.run).await?;
        let mut from = tail.first_sequence;
        while from < tail.next_sequence {
            let going = self.going(from, tail.next_sequence, limits::ERASE_ROWS_MAX, Extent::All).await?;
            let rows: Vec<RowPut> = going.rows().collect();
            if !rows.is_empty() {
                store.append(taking_away(rows)).await?;
            }
            self.let_go(task, going.blobs).await;
            from = going.keep_from;
        }
        let tombstone = Tombstone {
            run_id: self.run,
            task_id: loaded.state.task_id(),
            session_id: loaded.state.session_id(),
            events: tail.next_sequence,
            head: tail.head.to_string(),
            erased_at: recount_event::time::format_ms(self.room.ground.world.clock.now_ms()),
            by,
        };
        let run = self.run.to_string();
        let mut rows = vec![
            rows::put(rows::ERASED, rows::tenant_key(&run), recount_log::Guard::Any, &tombstone),
            rows::delete(rows::RUNS, rows::tenant_key(&run)),
            rows::delete(rows::DEADLINES, run.as_str()),
            rows::delete(rows::PINS, run.as_str()),
            rows::delete(rows::IMPORTED, run.as_str()),
        ];
        if let Some(task) = loaded.state.task_id() {
            rows.push(rows::delete(rows::TASK_RUNS, format!("{}{run}", rows::task_runs_prefix(task))));
        }
        if let Some(session) = loaded.state.session_id() {
            let key = format!("{}{run}", rows::session_runs_prefix(session));
            rows.push(rows::delete(rows::SESSION_RUNS, key));
        }
        let prior = loaded.state.queued().and_then(|queued| queued.prior_run_id.clone());
        if let Some(key) = successor_key(prior.as_deref(), self.run) {
            rows.push(rows::delete(rows::RUN_SUCCESSORS, key));
        }
        let mut commit = Commit::of(rows);
        commit.erase(self.run);
        if let Err(failed) = room.commit(commit).await {
            return Err(failed.meaning(self.run).into_error());
        }
        self.room.publisher.forget(&self.stream, tail.last_position);
        self.room.publisher.mark_ended(&self.stream, tail.next_sequence);
        self.room.timers.set(self.run, None, &self.room.ground.world);
        self.room.fresh.forget(self.run);
        // What was kept for it and never named.
        let kept = self.room.blobs.forget_run(self.run);
        self.let_go(task, kept).await;
        Ok(())
    }

    /// Takes away what nobody needs any more. What cannot be taken away now, the next start finds.
    async fn let_go(&self, task: Option<TaskId>, blobs: Vec<String>) {
        let owner = task.map_or_else(|| self.run.to_string(), |task| task.to_string());
        self.room.quotas.forget(&owner).await;
        if let Err(error) = self.room.blobs.release(blobs).await {
            tracing::warn!(run = %self.run, %error, "bytes of artifacts that are gone stay until the next start");
        }
    }

    /// Looks at the events from one place up to another, and stops where more than so many rows would change.
    async fn going(&self, from: u64, up_to: u64, rows_max: usize, extent: Extent) -> Result<Going, Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let mut going = Going { keep_from: from, last_position: 0, rows: BTreeMap::new(), blobs: Vec::new() };
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
                    let (run_id, pruned) = (Some(made.run_id), extent == Extent::Beginning);
                    let gone = Gone { run_id, pruned, deleted: None };
                    records_go(&made).into_iter().for_each(|put| going.add(put));
                    let key = rows::tenant_key(&made.id);
                    going.add(rows::put(rows::ARTIFACTS_GONE, key, recount_log::Guard::Any, &gone));
                    if let Some(hash) = made.hash.as_deref().and_then(blob_of) {
                        going.add(rows::delete(rows::BLOBS_KEPT, format!("{hash}/{}", made.event_id)));
                        going.blobs.push(hash.to_owned());
                    }
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
