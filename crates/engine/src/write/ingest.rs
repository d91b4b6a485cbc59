//! Exactly-once ingest: checks the id of each batch and stores its receipt.

use std::collections::BTreeMap;

use recount_event::{Code, Draft, ForeignId, RunId};
use recount_log::{Guard, RowPut, RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::catalogue::table::read_row;
use crate::ground::error::damaged_row;
use crate::ground::rows;
use crate::{Error, limits};

/// Identifies a batch: the producer, its instance and the batch number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchId {
    pub producer: ForeignId,
    pub epoch: u64,
    pub seq: u64,
}

/// The stored receipt of a batch; written in the same append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchRecord {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The digest of the batch, which detects other events under the same number. For a masked batch only the digest
    /// of its form ([`BatchDigest`]): a digest of the content would allow guessing it.
    pub(crate) digest: String,
}

/// Whether a batch is new.
pub(crate) enum BatchStatus {
    New,
    /// Already stored, with the same events.
    Repeated(BatchRecord),
}

/// Cache of the newest batch of each producer of one run, and the batches of the current append.
#[derive(Default)]
pub(crate) struct Producers {
    newest: BTreeMap<ForeignId, Option<(u64, u64)>>,
    uncommitted: BTreeMap<(ForeignId, u64, u64), BatchRecord>,
}

impl Producers {
    /// Checks a batch id. Returns the receipt of a repeated batch.
    pub(crate) async fn judge(
        &mut self,
        store: &dyn Store,
        run: RunId,
        batch_id: &BatchId,
        digest: &BatchDigest,
    ) -> Result<BatchStatus, Error> {
        let newest = match self.newest.get(&batch_id.producer) {
            Some(known) => *known,
            None => {
                let found = newest_stored(store, run, &batch_id.producer).await?;
                self.newest.insert(batch_id.producer.clone(), found);
                found
            }
        };
        let wanted = match newest {
            Some((epoch, _)) if batch_id.epoch < epoch => {
                return Err(Error::rejected(
                    Code::ProducerFenced,
                    format!(
                        "producer {} now writes with epoch {epoch}; epoch {} is rejected",
                        batch_id.producer, batch_id.epoch
                    ),
                ));
            }
            Some((epoch, seq)) if batch_id.epoch == epoch => {
                if batch_id.seq <= seq {
                    return self.seen_before(store, run, batch_id, digest).await.map(BatchStatus::Repeated);
                }
                seq + 1
            }
            _ => 0,
        };
        if batch_id.seq != wanted {
            return Err(Error::rejected(
                Code::ProducerGap,
                format!(
                    "producer {} must send batch {wanted} of epoch {} next, not batch {}",
                    batch_id.producer, batch_id.epoch, batch_id.seq
                ),
            ));
        }
        Ok(BatchStatus::New)
    }

    async fn seen_before(
        &self,
        store: &dyn Store,
        run: RunId,
        batch_id: &BatchId,
        digest: &BatchDigest,
    ) -> Result<BatchRecord, Error> {
        let key = (batch_id.producer.clone(), batch_id.epoch, batch_id.seq);
        let record = match self.uncommitted.get(&key) {
            Some(record) => record.clone(),
            None => {
                let key = rows::producer_key(run, &batch_id.producer, batch_id.epoch, batch_id.seq);
                let row = store.row(rows::PRODUCERS, &key).await?;
                let Some(row) = row else {
                    return Err(Error::bug(format!("the row {key} is missing although later ones exist")));
                };
                read_row(rows::PRODUCERS, &key, &row.value)?
            }
        };
        if !digest.matches(&record.digest) {
            return Err(Error::rejected(
                Code::ProducerReused,
                format!(
                    "batch {} of epoch {} was already sent by producer {} with other events",
                    batch_id.seq, batch_id.epoch, batch_id.producer
                ),
            ));
        }
        Ok(record)
    }

    /// Adds a batch to the current append, and returns its row.
    pub(crate) fn note(&mut self, run: RunId, batch_id: &BatchId, record: BatchRecord) -> RowPut {
        let key = rows::producer_key(run, &batch_id.producer, batch_id.epoch, batch_id.seq);
        let row = rows::put(rows::PRODUCERS, key, Guard::Absent, &record);
        self.newest.insert(batch_id.producer.clone(), Some((batch_id.epoch, batch_id.seq)));
        self.uncommitted.insert((batch_id.producer.clone(), batch_id.epoch, batch_id.seq), record);
        row
    }

    /// The current append is durable: its rows are in the store.
    pub(crate) fn settled(&mut self) {
        self.uncommitted.clear();
        if self.newest.len() > limits::PRODUCERS_REMEMBERED_MAX {
            self.newest.clear();
        }
    }
}

async fn newest_stored(
    store: &dyn Store,
    run: RunId,
    producer: &ForeignId,
) -> Result<Option<(u64, u64)>, Error> {
    let prefix = rows::producer_prefix(run, producer);
    let range = RowRange { backwards: true, ..RowRange::first(rows::PRODUCERS, prefix.as_str(), 1) };
    let Some(row) = store.rows(range).await?.pop() else { return Ok(None) };
    let numbers = row.key.strip_prefix(prefix.as_str()).and_then(|rest| rest.split_once('/'));
    match numbers.map(|(epoch, seq)| (epoch.parse(), seq.parse())) {
        Some((Ok(epoch), Ok(seq))) => Ok(Some((epoch, seq))),
        _ => Err(damaged_row(rows::PRODUCERS, &row.key, "its key is not that of a batch")),
    }
}

/// Digests of a batch, 128 bits each: of its content, and of its form (types and lengths). Both are computed before
/// masking, so that a repeated batch has the same digests.
pub(crate) struct BatchDigest {
    content: String,
    form: String,
}

/// The prefix of form digests.
const FORM: &str = "form:";

impl BatchDigest {
    pub(crate) fn of(drafts: &[Draft]) -> Self {
        // One piece of memory is hashed several times as fast as the same bytes one after the other.
        let (mut content, mut form) = (Vec::new(), Vec::new());
        for draft in drafts {
            let written;
            let data = match &draft.verbatim {
                Some(text) => text.as_ref(),
                None => {
                    written = draft.payload.write();
                    &written
                }
            };
            for part in [draft.payload.type_name(), data] {
                content.extend_from_slice(&(part.len() as u64).to_le_bytes());
                content.extend_from_slice(part.as_bytes());
            }
            form.extend_from_slice(draft.payload.type_name().as_bytes());
            form.extend_from_slice(&(data.len() as u64).to_le_bytes());
        }
        let short = |bytes: &[u8]| blake3::hash(bytes).to_hex().as_str()[..32].to_owned();
        BatchDigest { content: short(&content), form: format!("{FORM}{}", short(&form)) }
    }

    /// The digest to store.
    pub(crate) fn stored(&self, masked: bool) -> String {
        if masked { self.form.clone() } else { self.content.clone() }
    }

    fn matches(&self, stored: &str) -> bool {
        stored == if stored.starts_with(FORM) { &self.form } else { &self.content }
    }
}
