//! Whole runs as files: adding up what is written, and a data folder that no server holds.

use std::path::Path;

use bytes::Bytes;
use recount_engine::Import;
use recount_log::chain::ChainValue;
use recount_log::{Fault, ReadBound, Store, StreamKey, Tail};
use recount_log_sqlite::SqliteStore;

use crate::config::{Config, Options};
use crate::start::open_store;
use crate::{StartError, limits};

/// Adds a run's events up while they are written, one by one, and compares in the end.
pub struct Sum {
    run_id: String,
    events: u64,
    head: ChainValue,
}

impl Sum {
    pub fn new(run_id: &str) -> Self {
        Sum { run_id: run_id.to_owned(), events: 0, head: ChainValue::start(run_id) }
    }

    /// Of a run whose events before `first` were pruned, and added up to `start`. `None` when that is no head.
    pub fn beginning_at(run_id: &str, first: u64, start: &str) -> Option<Self> {
        Some(Sum { run_id: run_id.to_owned(), events: first, head: ChainValue::parse(start)? })
    }

    /// Takes the next event. An error says why it cannot stand on a line.
    pub fn event(&mut self, bytes: &[u8]) -> Result<(), String> {
        if bytes.contains(&b'\n') {
            return Err(format!("event {} of {} has a line break in it", self.events, self.run_id));
        }
        self.events += 1;
        self.head = self.head.then(bytes);
        Ok(())
    }

    /// The head so far.
    pub fn head(&self) -> String {
        self.head.to_string()
    }

    /// Compares with what was noted before. An error says what is wrong.
    pub fn finish(self, events: u64, head: &str) -> Result<(), String> {
        let Sum { run_id, events: found, head: sum } = self;
        if found != events {
            return Err(format!("{run_id} has {found} readable events, but {events} were noted"));
        }
        if sum.to_string() != head {
            return Err(format!("the events of {run_id} add up to {sum}, but {head} was noted"));
        }
        Ok(())
    }
}

/// Why a run did not come into a folder.
#[derive(Debug)]
pub enum NotImported {
    /// The run cannot come in; the folder is as it was.
    Refused { code: &'static str, detail: String },
    /// The world failed.
    Failed(StartError),
}

/// A data folder that no server holds, and none can hold until this is dropped.
pub struct Folder {
    store: SqliteStore,
}

impl Folder {
    /// Opens a folder that holds a store already.
    pub fn open(data: &Path) -> Result<Self, StartError> {
        if !data.join("recount.db").is_file() {
            return Err(StartError::usage(format!(
                "{} holds no store; name the folder of one",
                data.display()
            )));
        }
        Folder::open_or_make(data)
    }

    /// The same, where a folder that is not there is made.
    pub fn open_or_make(data: &Path) -> Result<Self, StartError> {
        let options = Options { data: Some(data.to_owned()), ..Options::default() };
        Ok(Folder { store: open_store(&Config::settle(options, |_| None)?)? })
    }

    /// The ids of all runs, oldest first, and how many were erased.
    pub async fn runs(&self) -> Result<(Vec<String>, u64), StartError> {
        let (mut runs, mut erased) = (Vec::new(), 0);
        let mut after: Option<StreamKey> = None;
        loop {
            let page = self.store.streams(after.take(), limits::VERIFY_PAGE_EVENTS).await.map_err(failed)?;
            let Some(last) = page.last() else { return Ok((runs, erased)) };
            after = Some(last.clone());
            for stream in &page {
                match self.store.tail(stream).await.map_err(failed)? {
                    Some(tail) if tail.erased => erased += 1,
                    _ => runs.push(stream.to_string()),
                }
            }
        }
    }

    /// Where a run begins and ends and what it adds up to, when there is such a run.
    pub async fn tail(&self, run: &str) -> Result<Option<Tail>, StartError> {
        self.store.tail(&run.into()).await.map_err(failed)
    }

    /// Some of a run's events as they are stored, from sequence `from` on; none when there are none.
    pub async fn events(&self, run: &str, from: u64) -> Result<Vec<Bytes>, StartError> {
        let bound = ReadBound { count: limits::VERIFY_PAGE_EVENTS, bytes: limits::VERIFY_PAGE_BYTES };
        let stream: StreamKey = run.into();
        let page = self.store.read(&stream, from, bound).await.map_err(failed)?;
        Ok(page.into_iter().map(|record| record.bytes).collect())
    }

    /// Takes in one run, as the lines of an export.
    pub async fn import(&self, lines: &[u8]) -> Result<recount_engine::Imported, NotImported> {
        let import: Import = recount_face_aep::read_export(lines).map_err(|refusal| {
            NotImported::Refused { code: refusal.code.as_str(), detail: refusal.detail }
        })?;
        recount_engine::import::import(&self.store, import).await.map_err(|error| match error {
            recount_engine::Error::Rejected(rejection) => {
                NotImported::Refused { code: rejection.code.as_str(), detail: rejection.message }
            }
            recount_engine::Error::Failed(failure) => {
                NotImported::Failed(StartError::failed(failure.to_string()))
            }
        })
    }

    /// Lets go of the folder.
    pub async fn close(self) -> Result<(), StartError> {
        self.store.close().await.map_err(failed)
    }
}

fn failed(fault: Fault) -> StartError {
    StartError::failed(fault.to_string())
}
