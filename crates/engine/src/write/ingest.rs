//! Exactly-once for producers: the triple, and what it was answered the first time.

use std::collections::BTreeMap;

use recount_event::{Code, Draft, ForeignId, RunId};
use recount_log::{Guard, RowPut, RowRange, Store};
use serde::{Deserialize, Serialize};

use crate::catalogue::table::read_row;
use crate::ground::error::damaged_row;
use crate::ground::rows;
use crate::{Error, limits};

/// Which producer, which instance of it, which batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Triple {
    pub producer: ForeignId,
    pub epoch: u64,
    pub seq: u64,
}

/// What a batch became; stored with the batch, in one append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Landing {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// What the batch said, so that other events under the same number are noticed. Of a batch in which
    /// something was masked only its form ([`Said`]): what it said could be guessed from anything more.
    pub(crate) digest: String,
}

/// How a batch stands to those before it.
pub(crate) enum BatchStanding {
    New,
    /// Seen before, word for word.
    Repeated(Landing),
}

/// The newest batch of each producer of one run, as far as anybody has asked; batches of the append in
/// hand included.
#[derive(Default)]
pub(crate) struct Producers {
    newest: BTreeMap<ForeignId, Option<(u64, u64)>>,
    in_hand: BTreeMap<(ForeignId, u64, u64), Landing>,
}

impl Producers {
    /// Judges a triple. Answers what it became when it was seen before.
    pub(crate) async fn judge(
        &mut self,
        store: &dyn Store,
        run: RunId,
        triple: &Triple,
        said: &Said,
    ) -> Result<BatchStanding, Error> {
        let newest = match self.newest.get(&triple.producer) {
            Some(known) => *known,
            None => {
                let found = newest_stored(store, run, &triple.producer).await?;
                self.newest.insert(triple.producer.clone(), found);
                found
            }
        };
        let wanted = match newest {
            Some((epoch, _)) if triple.epoch < epoch => {
                return Err(Error::rejected(
                    Code::ProducerFenced,
                    format!(
                        "producer {} now writes with epoch {epoch}; epoch {} is rejected",
                        triple.producer, triple.epoch
                    ),
                ));
            }
            Some((epoch, seq)) if triple.epoch == epoch => {
                if triple.seq <= seq {
                    return self.seen_before(store, run, triple, said).await.map(BatchStanding::Repeated);
                }
                seq + 1
            }
            _ => 0,
        };
        if triple.seq != wanted {
            return Err(Error::rejected(
                Code::ProducerGap,
                format!(
                    "producer {} must send batch {wanted} of epoch {} next, not batch {}",
                    triple.producer, triple.epoch, triple.seq
                ),
            ));
        }
        Ok(BatchStanding::New)
    }

    async fn seen_before(
        &self,
        store: &dyn Store,
        run: RunId,
        triple: &Triple,
        said: &Said,
    ) -> Result<Landing, Error> {
        let key = (triple.producer.clone(), triple.epoch, triple.seq);
        let landing = match self.in_hand.get(&key) {
            Some(landing) => landing.clone(),
            None => {
                let key = rows::producer_key(run, &triple.producer, triple.epoch, triple.seq);
                let row = store.row(rows::PRODUCERS, &key).await?;
                let Some(row) = row else {
                    return Err(Error::bug(format!("the row {key} is missing although later ones exist")));
                };
                read_row(rows::PRODUCERS, &key, &row.value)?
            }
        };
        if !said.is(&landing.digest) {
            return Err(Error::rejected(
                Code::ProducerReused,
                format!(
                    "batch {} of epoch {} was already sent by producer {} with other events",
                    triple.seq, triple.epoch, triple.producer
                ),
            ));
        }
        Ok(landing)
    }

    /// Notes a batch that is about to be appended, and gives the row that goes with it.
    pub(crate) fn note(&mut self, run: RunId, triple: &Triple, landing: Landing) -> RowPut {
        let key = rows::producer_key(run, &triple.producer, triple.epoch, triple.seq);
        let row = rows::put(rows::PRODUCERS, key, Guard::Absent, &landing);
        self.newest.insert(triple.producer.clone(), Some((triple.epoch, triple.seq)));
        self.in_hand.insert((triple.producer.clone(), triple.epoch, triple.seq), landing);
        row
    }

    /// The append in hand is durable: its rows are in the store from now on.
    pub(crate) fn settled(&mut self) {
        self.in_hand.clear();
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
    let range = RowRange {
        space: rows::PRODUCERS.into(),
        prefix: prefix.as_str().into(),
        after: None,
        backwards: true,
        limit: 1,
    };
    let Some(row) = store.rows(range).await?.pop() else { return Ok(None) };
    let numbers = row.key.strip_prefix(prefix.as_str()).and_then(|rest| rest.split_once('/'));
    match numbers.map(|(epoch, seq)| (epoch.parse(), seq.parse())) {
        Some((Ok(epoch), Ok(seq))) => Ok(Some((epoch, seq))),
        _ => Err(damaged_row(rows::PRODUCERS, &row.key, "its key is not that of a batch")),
    }
}

/// What a batch says, in 128 bits, and which form it has: types and lengths. Both of it as it came, so that they
/// are the same however much is masked by the time it comes again.
pub(crate) struct Said {
    words: String,
    form: String,
}

/// What the digest of a form begins with.
const FORM: &str = "form:";

impl Said {
    pub(crate) fn by(drafts: &[Draft]) -> Self {
        let (mut words, mut form) = (blake3::Hasher::new(), blake3::Hasher::new());
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
                words.update(&(part.len() as u64).to_le_bytes());
                words.update(part.as_bytes());
            }
            form.update(draft.payload.type_name().as_bytes());
            form.update(&(data.len() as u64).to_le_bytes());
        }
        let short = |hasher: blake3::Hasher| hasher.finalize().to_hex().as_str()[..32].to_owned();
        Said { words: short(words), form: format!("{FORM}{}", short(form)) }
    }

    /// What is kept of it.
    pub(crate) fn digest(&self, masked: bool) -> String {
        if masked { self.form.clone() } else { self.words.clone() }
    }

    fn is(&self, kept: &str) -> bool {
        kept == if kept.starts_with(FORM) { &self.form } else { &self.words }
    }
}
