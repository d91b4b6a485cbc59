//! The store as the engine holds it: the same, and it is noted when there was no space, and what hardly ever changes is
//! not asked for again and again. Damage to rows is repaired where that can be done. See [`CataloguedStore`].

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::{
    Answer, Append, AppendError, Committed, Damage, DamagedRow, DroppedEnd, End, Fault, FaultKind,
    FeedRecord, Integrity, Observer, PageWriter, ReadBound, Record, RecordPage, Retry, Row, RowRange,
    RowRepair, Stats, Store, StreamKey, Tail, WholeRows,
};

use crate::catalogue::repair::Repairs;
use crate::catalogue::row_cache::{Became, Look, RowCache};
use crate::ground::append::may_have_happened;
use crate::ground::counters::Counters;
use crate::limits;

/// Hands everything on to the store beneath.
pub(crate) struct CataloguedStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) meters: Arc<Counters>,
    pub(crate) remembered: Arc<RowCache>,
    pub(crate) repairs: Arc<Repairs>,
}

impl CataloguedStore {
    pub(crate) fn new(store: Arc<dyn Store>, meters: Arc<Counters>) -> Self {
        let repairs = Arc::new(Repairs::new(store.clone(), meters.clone()));
        CataloguedStore { store, meters, remembered: Arc::default(), repairs }
    }

    /// An answer about rows. Where damage is in the way it is asked for again once that was repaired.
    fn repaired<T: Send + 'static>(
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

    /// An answer about events, with damage noted that is in the way.
    fn noted<T: Send + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let meters = self.meters.clone();
        Box::pin(async move {
            let answer = answer.await;
            if let Err(Fault { damage: Some(damage), .. }) = &answer {
                meters.findings().damaged(damage);
            }
            answer
        })
    }

    /// See [`Store::row`].
    fn read_row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        let (again_space, again_key) = (space.to_owned(), key.to_owned());
        self.repaired(self.store.row(space, key), move |store| store.row(&again_space, &again_key))
    }
}

impl Store for CataloguedStore {
    fn observe(&self, observer: Arc<dyn Observer>) {
        self.store.observe(observer);
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        let (remembered, meters, repairs) =
            (self.remembered.clone(), self.meters.clone(), self.repairs.clone());
        let changing = remembered.change(&append);
        let is_ordinary = !append.may_use_reserve();
        let answer = self.store.append(append);
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(committed) => {
                    let place = committed.streams.first().map(|landed| landed.first_position);
                    remembered.changed(changing, Became::Landed(place));
                }
                Err(error) if !may_have_happened(error) => remembered.changed(changing, Became::Nothing),
                Err(_) => {}
            }
            match &answer {
                // What may use the reserve says nothing of those that may not.
                Ok(_) if is_ordinary => meters.had_space(true),
                Err(AppendError::Fault(fault)) if fault.kind == FaultKind::Full => meters.had_space(false),
                Ok(_) | Err(_) => {}
            }
            if let Err(AppendError::Fault(fault)) = &answer
                && let Some(outcome) = repairs.after(fault).await
            {
                // Damage of another kind stays what it is: trying again would meet it again.
                if outcome.repaired {
                    let message = "a row of the catalogue is damaged and is being rebuilt; nothing was appended, try \
                         again";
                    let retry = Retry::After(limits::TRY_AGAIN);
                    return Err(Fault::new(FaultKind::Busy, retry, message).into());
                }
                // What cannot be made again is not looked for with each append.
                repairs.give_up(fault.message.clone());
            }
            answer
        })
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        self.noted(self.store.read(stream, from, bound))
    }

    fn read_page(
        &self,
        stream: &StreamKey,
        from: u64,
        bound: ReadBound,
        write: PageWriter,
    ) -> Answer<Option<RecordPage>> {
        self.noted(self.store.read_page(stream, from, bound, write))
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.noted(self.store.read_feed(from, bound))
    }

    fn known_damage(&self) -> Vec<Damage> {
        self.store.known_damage()
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
        let reading = match self.remembered.look(space, key) {
            Look::Known(row) => return Box::pin(std::future::ready(Ok(row))),
            Look::Unknown(reading) => reading,
            Look::Passing => return self.read_row(space, key),
        };
        let (answer, remembered) = (self.read_row(space, key), self.remembered.clone());
        Box::pin(async move {
            let row = answer.await?;
            remembered.keep(reading, row.clone());
            Ok(row)
        })
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        let again = range.clone();
        self.repaired(self.store.rows(range), move |store| store.rows(again))
    }

    fn whole_rows(&self, range: RowRange) -> Answer<WholeRows> {
        let (repairs, store) = (self.repairs.clone(), self.store.clone());
        let answer = self.repaired(self.store.whole_rows(range.clone()), {
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
