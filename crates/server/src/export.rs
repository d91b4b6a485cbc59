//! Exports and imports whole runs: the digest of an export, and both operations on a data folder that no server holds.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use recount_api::admin::SigningKeys;
use recount_engine::Import;
use recount_log::chain::ChainValue;
use recount_log::{Fault, FaultKind, ReadBound, ReadResult as _, Store, StreamKey, Tail};
use recount_salvage::{Damage, Salvage, Stream};
use recount_signature::SignedHead;

use crate::start::open_store;
use crate::stores::{SqliteSettings, Stores, database_of, missing_store, open_folder};
use crate::{StartError, limits, signing_keys};

/// Computes the digest of a run while its events are written, and compares it at the end.
pub struct ExportDigest {
    run_id: String,
    events: u64,
    head: ChainValue,
}

impl ExportDigest {
    pub fn new(run_id: &str) -> Self {
        ExportDigest { run_id: run_id.to_owned(), events: 0, head: ChainValue::start(run_id) }
    }

    /// The digest of a run whose events before `first` were pruned, from the chain value `start`. `None` if `start` is
    /// invalid.
    pub fn beginning_at(run_id: &str, first: u64, start: &str) -> Option<Self> {
        Some(ExportDigest { run_id: run_id.to_owned(), events: first, head: ChainValue::parse(start)? })
    }

    /// Adds the next event. The error names why it cannot be a line of an export.
    pub fn event(&mut self, bytes: &[u8]) -> Result<(), String> {
        if bytes.contains(&b'\n') {
            return Err(format!("event {} of {} contains a line break", self.events, self.run_id));
        }
        self.events += 1;
        self.head = self.head.then(bytes);
        Ok(())
    }

    /// The head so far.
    pub fn head(&self) -> String {
        self.head.to_string()
    }

    /// Compares with the recorded digest. The error names the difference.
    pub fn finish(self, events: u64, head: &str) -> Result<(), String> {
        let ExportDigest { run_id, events: found, head: sum } = self;
        if found != events {
            return Err(format!("{run_id} has {found} readable events, expected {events}"));
        }
        if sum.to_string() != head {
            return Err(format!("the events of {run_id} have the head {sum}, expected {head}"));
        }
        Ok(())
    }
}

/// What to do about stores in a database.
const OF_DATABASE: &str = "start a server on it, and name the server with --url";

/// Why a run was not imported into a folder.
#[derive(Debug)]
pub enum ImportError {
    /// The run is invalid or conflicts; the folder is unchanged.
    Refused { code: &'static str, detail: String },
    /// The store or the machine failed.
    Failed(StartError),
}

/// A data folder that no server holds; it stays locked until this is dropped.
pub struct Folder {
    source: ExportSource,
}

enum ExportSource {
    Store(Arc<dyn Store>),
    /// The store is damaged; its whole runs are read by salvage.
    Damaged {
        salvage: Box<RefCell<Salvage>>,
        whole: Vec<Stream>,
        damaged: Vec<String>,
    },
}

/// The runs of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FolderRuns {
    /// Oldest first.
    pub ids: Vec<String>,
    pub erased: u64,
    /// Runs that cannot be read whole; only where the store is damaged.
    pub damaged: Vec<String>,
    /// Describes unreadable parts of a damaged store that may belong to unknown runs.
    pub unread: Option<String>,
}

impl Folder {
    /// Opens a folder with a store. Of a damaged store, only whole runs can be read.
    pub fn open(data: &Path) -> Result<Self, StartError> {
        if !data.join("recount.db").is_file() {
            return Err(missing_store(data, OF_DATABASE));
        }
        match open_folder(data) {
            Ok(store) => Ok(Folder { source: ExportSource::Store(store) }),
            Err(fault) if fault.kind == FaultKind::Corrupt => {
                let mut salvage = crate::salvage::read(data).map_err(failed)?;
                let (whole, damaged) = crate::salvage::whole_runs(&mut salvage)?;
                Ok(Folder {
                    source: ExportSource::Damaged {
                        salvage: Box::new(RefCell::new(salvage)),
                        whole,
                        damaged,
                    },
                })
            }
            Err(fault) => Err(failed(fault)),
        }
    }

    /// Opens a folder, and creates it if it is missing. A damaged one is refused.
    pub fn open_or_create(data: &Path) -> Result<Self, StartError> {
        if database_of(data).is_some() {
            return Err(missing_store(data, OF_DATABASE));
        }
        let stores = Stores::in_folder(data, SqliteSettings::default());
        Ok(Folder { source: ExportSource::Store(open_store(&stores)?) })
    }

    /// All runs. Includes those with an unreadable end.
    pub async fn runs(&self) -> Result<FolderRuns, StartError> {
        let mut found = FolderRuns::default();
        let store = match &self.source {
            ExportSource::Store(store) => store,
            ExportSource::Damaged { salvage, whole, damaged } => {
                let (erased, runs): (Vec<&Stream>, Vec<&Stream>) = whole.iter().partition(|run| run.erased);
                return Ok(FolderRuns {
                    ids: runs.iter().map(|run| run.key.to_string()).collect(),
                    erased: erased.len() as u64,
                    damaged: damaged.clone(),
                    unread: unread(&salvage.borrow().damage),
                });
            }
        };
        let mut after: Option<StreamKey> = None;
        loop {
            let page = store.streams(after.take(), limits::VERIFY_PAGE_EVENTS).await.map_err(failed)?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.clone());
            for stream in &page {
                match store.tail(stream).await.readable().map_err(failed)?.whole().flatten() {
                    Some(tail) if tail.erased => found.erased += 1,
                    _ => found.ids.push(stream.to_string()),
                }
            }
        }
    }

    /// The beginning, end and chain value of a run, if it exists.
    pub async fn tail(&self, run: &str) -> Result<Option<Tail>, StartError> {
        match &self.source {
            ExportSource::Store(store) => store.tail(&run.into()).await.map_err(failed),
            ExportSource::Damaged { damaged, .. } if damaged.iter().any(|damaged| damaged == run) => {
                Err(StartError::damaged(format!(
                    "{run} cannot be read completely; save its readable events with `recount salvage`"
                )))
            }
            ExportSource::Damaged { whole, .. } => Ok(find(whole, run).map(Stream::tail)),
        }
    }

    /// A page of a run's events as stored, from sequence `from` on; empty at the end.
    pub async fn events(&self, run: &str, from: u64) -> Result<Vec<Bytes>, StartError> {
        let store = match &self.source {
            ExportSource::Store(store) => store,
            ExportSource::Damaged { salvage, whole, .. } => {
                let Some(stream) = find(whole, run) else { return Ok(Vec::new()) };
                return salvage.borrow_mut().page(stream, from.max(stream.first_sequence)).map_err(failed);
            }
        };
        let bound = ReadBound { count: limits::VERIFY_PAGE_EVENTS, bytes: limits::VERIFY_PAGE_BYTES };
        let stream: StreamKey = run.into();
        let page = store.read(&stream, from, bound).await.map_err(failed)?;
        Ok(page.into_iter().map(|record| record.bytes).collect())
    }

    /// The stored signed head of a run; `None` if it has not ended, or the store is damaged.
    pub async fn signed_head(&self, run: &str) -> Result<Option<SignedHead>, StartError> {
        let ExportSource::Store(store) = &self.source else { return Ok(None) };
        recount_engine::stored_head(&**store, run).await.map_err(|why| StartError::failed(why.to_string()))
    }

    /// The public keys that sign heads in this folder.
    pub async fn public_keys(&self) -> Result<SigningKeys, StartError> {
        let ExportSource::Store(store) = &self.source else { return Ok(SigningKeys { keys: Vec::new() }) };
        let keys = recount_engine::signing_keys(&**store).await;
        let keys = keys.map_err(|why| StartError::failed(why.to_string()))?;
        Ok(SigningKeys { keys: keys.into_iter().map(signing_keys::public).collect() })
    }

    /// Imports one run from the lines of an export.
    pub async fn import(&self, lines: &[u8]) -> Result<recount_engine::ImportedRun, ImportError> {
        let import: Import = recount_face_aep::read_export(lines).map_err(|refusal| {
            ImportError::Refused { code: refusal.code.as_str(), detail: refusal.detail }
        })?;
        let ExportSource::Store(store) = &self.source else {
            return Err(ImportError::Failed(StartError::failed("a damaged store accepts no imports")));
        };
        recount_engine::import::import(&**store, import).await.map_err(|error| match error {
            recount_engine::Error::Rejected(rejection) => {
                ImportError::Refused { code: rejection.code.as_str(), detail: rejection.message }
            }
            recount_engine::Error::Failed(failure) => {
                ImportError::Failed(StartError::failed(failure.to_string()))
            }
        })
    }

    /// Closes and unlocks the folder.
    pub async fn close(self) -> Result<(), StartError> {
        match self.source {
            ExportSource::Store(store) => store.close().await.map_err(failed),
            ExportSource::Damaged { .. } => Ok(()),
        }
    }
}

fn unread(damage: &Damage) -> Option<String> {
    let Damage { pages, rows, frames, commits, nameless_records } = damage;
    let mut words: Vec<String> = [
        (pages, "pages"),
        (rows, "rows"),
        (frames, "frames of the write-ahead log"),
        (nameless_records, "events of unnamed runs"),
    ]
    .into_iter()
    .filter(|(count, _)| **count > 0)
    .map(|(count, what)| format!("{count} {what} cannot be read"))
    .collect();
    if *commits {
        words.push("the newest commits may be missing".to_owned());
    }
    (!words.is_empty()).then(|| format!("the store is damaged: {}", words.join(", ")))
}

fn find<'s>(streams: &'s [Stream], run: &str) -> Option<&'s Stream> {
    streams.iter().find(|stream| *stream.key == *run)
}

fn failed(fault: Fault) -> StartError {
    match fault.kind {
        FaultKind::Corrupt => StartError::damaged(fault.to_string()),
        _ => StartError::failed(fault.to_string()),
    }
}
