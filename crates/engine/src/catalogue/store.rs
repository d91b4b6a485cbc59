//! The store as the engine uses it: records whether there was space, caches rarely changing rows, and repairs damaged
//! catalogue rows. See [`CataloguedStore`].

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, Damage, DamagedRow, DroppedEnd, End, Fault, FaultKind,
    FeedRecord, Integrity, Observer, PageWriter, ReadBound, Record, RecordPage, Retry, Row, RowRange,
    RowRepair, Stats, Store, StreamKey, Tail, WholeRows,
};

use crate::catalogue::repair::Repairs;
use crate::catalogue::row_cache::{AppendOutcome, Lookup, RowCache};
use crate::ground::counters::Counters;
use crate::ground::error::may_have_happened;
use crate::limits;

/// Wraps the underlying store.
pub(crate) struct CataloguedStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) cache: Arc<RowCache>,
    pub(crate) repairs: Arc<Repairs>,
}

impl CataloguedStore {
    pub(crate) fn new(store: Arc<dyn Store>, counters: Arc<Counters>) -> Self {
        let repairs = Arc::new(Repairs::new(store.clone(), counters.clone()));
        CataloguedStore { store, counters, cache: Arc::default(), repairs }
    }

    /// Runs a read of rows. If it fails because of damage, repairs the rows and reads again.
    fn with_repair<T: Send + 'static>(
        &self,
        answer: Answer<T>,
        again: impl FnOnce(&dyn Store) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let (repairs, store) = (self.repairs.clone(), self.store.clone());
        Box::pin(async move {
            let fault = match answer.await {
                Err(fault) => fault,
                answer => return answer,
            };
            let answer = match repairs.after(&fault).await {
                Some(outcome) if outcome.is_worth_a_retry() => again(&*store).await,
                Some(_) => Err(fault),
                None => return Err(fault),
            };
            if let Err(fault) = &answer {
                repairs.give_up(fault.message.clone());
            }
            answer
        })
    }

    /// Runs a read of events, and records damage.
    fn with_damage_noted<T: Send + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let counters = self.counters.clone();
        Box::pin(async move {
            let answer = answer.await;
            if let Err(Fault { damage: Some(damage), .. }) = &answer {
                counters.findings().damaged(damage);
            }
            answer
        })
    }

    /// See [`Store::row`].
    fn read_row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        let (again_space, again_key) = (space.to_owned(), key.to_owned());
        self.with_repair(self.store.row(space, key), move |store| store.row(&again_space, &again_key))
    }
}

impl Store for CataloguedStore {
    fn observe(&self, observer: Arc<dyn Observer>) {
        self.store.observe(observer);
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let (cache, counters, repairs) = (self.cache.clone(), self.counters.clone(), self.repairs.clone());
        let changing = cache.change(&append);
        let is_ordinary = !append.may_use_reserve();
        let answer = self.store.append(append);
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(committed) => {
                    let position = committed.streams.first().map(|landed| landed.first_position);
                    cache.changed(changing, AppendOutcome::Committed(position));
                }
                Err(error) if !may_have_happened(error) => {
                    cache.changed(changing, AppendOutcome::NotAppended)
                }
                Err(_) => {}
            }
            match &answer {
                // An append that may use the reserve does not show that others have space.
                Ok(_) if is_ordinary => counters.had_space(true),
                Err(AppendError::Fault(fault)) if fault.kind == FaultKind::Full => counters.had_space(false),
                Ok(_) | Err(_) => {}
            }
            if let Err(AppendError::Fault(fault)) = &answer
                && let Some(outcome) = repairs.after(fault).await
            {
                // Other damage stays; a retry would fail again.
                if outcome.repaired {
                    let message = "a row of the catalogue is damaged and is being rebuilt; nothing was appended, try \
                         again";
                    let retry = Retry::After(limits::TRY_AGAIN);
                    return Err(Fault::new(FaultKind::Busy, retry, message).into());
                }
                // Later appends do not try to repair it again.
                repairs.give_up(fault.message.clone());
            }
            answer
        })
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        self.with_damage_noted(self.store.read(stream, from, bound))
    }

    fn read_page(
        &self,
        stream: &StreamKey,
        from: u64,
        bound: ReadBound,
        write: PageWriter,
    ) -> Answer<Option<RecordPage>> {
        self.with_damage_noted(self.store.read_page(stream, from, bound, write))
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.with_damage_noted(self.store.read_feed(from, bound))
    }

    fn known_damage(&self) -> Vec<Damage> {
        self.store.known_damage()
    }

    fn is_owner(&self) -> bool {
        self.store.is_owner()
    }

    fn dropped_end(&self) -> Option<DroppedEnd> {
        self.store.dropped_end()
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        self.store.tail(stream)
    }

    fn end(&self, stream: &StreamKey) -> Answer<Option<End>> {
        self.store.end(stream)
    }

    fn last_position(&self) -> Answer<u64> {
        self.store.last_position()
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.store.streams(after, limit)
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        let reading = match self.cache.get(space, key) {
            Lookup::Known(row) => return Box::pin(std::future::ready(Ok(row))),
            Lookup::Unknown(reading) => reading,
            Lookup::Uncached => return self.read_row(space, key),
        };
        let (answer, cache) = (self.read_row(space, key), self.cache.clone());
        Box::pin(async move {
            let row = answer.await?;
            cache.keep(reading, row.clone());
            Ok(row)
        })
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        let again = range.clone();
        self.with_repair(self.store.rows(range), move |store| store.rows(again))
    }

    fn whole_rows(&self, range: RowRange) -> Answer<WholeRows> {
        let (repairs, store) = (self.repairs.clone(), self.store.clone());
        let answer = self.with_repair(self.store.whole_rows(range.clone()), {
            let again = range.clone();
            move |store| store.whole_rows(again)
        });
        Box::pin(async move {
            let mut found = answer.await?;
            if !found.damaged.is_empty()
                && let Some(outcome) = repairs.after_damage(&found.damaged).await
            {
                if outcome.is_worth_a_retry() {
                    found = store.whole_rows(range).await?;
                }
                found.damaged.iter().for_each(|row| repairs.give_up(row.to_string()));
            }
            Ok(found)
        })
    }

    fn damaged_rows(&self) -> Answer<Vec<DamagedRow>> {
        self.store.damaged_rows()
    }

    fn repair_rows(&self, repair: RowRepair) -> Answer<bool> {
        self.store.repair_rows(repair)
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        self.store.put_blob(bytes)
    }

    fn blob(&self, hash: &str) -> Answer<Option<Bytes>> {
        self.store.blob(hash)
    }

    fn remove_blob(&self, hash: &str) -> Answer<()> {
        self.store.remove_blob(hash)
    }

    fn blobs(&self, after: Option<String>, limit: usize) -> Answer<Vec<String>> {
        self.store.blobs(after, limit)
    }

    fn integrity(&self) -> Answer<Integrity> {
        self.store.integrity()
    }

    fn backup(&self, to: PathBuf) -> Answer<()> {
        self.store.backup(to)
    }

    fn stats(&self) -> Answer<Stats> {
        self.store.stats()
    }

    fn space(&self) -> Answer<()> {
        self.store.space()
    }

    fn close(&self) -> Answer<()> {
        self.store.close()
    }
}
