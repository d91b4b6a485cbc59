//! Reads the output of a command from the events of its run, page by page, for output of any size.
//!
//! It must not know who reads. Start with [`LoggedOutput::part`].

use std::collections::VecDeque;

use bytes::Bytes;
use recount_event::{Code, EventId, ForeignId, Payload, RunId};
use recount_log::{ReadBound, StreamKey};

use crate::boxed;
use crate::ground::error::run_erased;
use crate::ground::journal;
use crate::read::handle::ReadHandle;
use crate::{ArtifactRow, Error, limits};

/// An artifact whose bytes are events of its run.
#[derive(Clone)]
pub struct LoggedOutput {
    read: ReadHandle,
    artifact: ForeignId,
    created_by: EventId,
    run: RunId,
    call: ForeignId,
    from: u64,
    size: u64,
}

impl LoggedOutput {
    /// `None` for any other artifact.
    pub(super) fn of(read: &ReadHandle, row: &ArtifactRow) -> Option<LoggedOutput> {
        Some(LoggedOutput {
            read: read.clone(),
            artifact: row.id.clone(),
            created_by: row.event_id,
            run: row.run_id,
            call: row.tool_call_id.clone()?,
            from: row.log_from_sequence?,
            size: row.size_bytes?,
        })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// A unique and permanent name of these bytes: the creating event.
    pub fn name(&self) -> String {
        self.created_by.to_string()
    }

    /// A range of the bytes.
    pub fn part(&self, first: u64, count: u64) -> OutputPieces {
        OutputPieces {
            stream: journal::stream_of(self.run),
            next: self.from,
            passed: 0,
            first: first.min(self.size),
            last: first.saturating_add(count).min(self.size),
            ready: VecDeque::new(),
            output: self.clone(),
        }
    }

    /// All bytes at once, up to the size limit of stored artifacts.
    pub(super) async fn whole(&self) -> Result<Bytes, Error> {
        let most = limits::ARTIFACT_BYTES_MAX;
        if self.size > most as u64 {
            let (id, size) = (&self.artifact, self.size);
            let message = format!(
                "artifact {id} has {size} bytes; one read returns at most {most} (ARTIFACT_BYTES_MAX); read \
                 it in parts"
            );
            return Err(Error::rejected(Code::LimitReached, message));
        }
        let (mut bytes, mut pieces) = (Vec::new(), self.part(0, self.size));
        while let Some(piece) = pieces.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.into())
    }

    /// Refuses an output whose beginning is no longer in the log.
    pub(super) async fn check_stored(&self) -> Result<(), Error> {
        match self.read.ground().store().tail(&journal::stream_of(self.run)).await? {
            Some(tail) if tail.erased => Err(run_erased(self.run)),
            Some(tail) if tail.first_sequence > self.from => Err(self.pruned()),
            Some(_) => Ok(()),
            None => Err(self.read.missing_artifact(&self.artifact).await),
        }
    }

    fn pruned(&self) -> Error {
        let (id, run) = (&self.artifact, self.run);
        let message = format!("the bytes of artifact {id} were pruned with the beginning of {run}");
        Error::rejected(Code::ArtifactPruned, message)
    }
}

/// A range of an output while it is read.
pub struct OutputPieces {
    output: LoggedOutput,
    stream: StreamKey,
    /// The next event to read.
    next: u64,
    /// Bytes of the output before that event.
    passed: u64,
    /// The range to return; `last` is exclusive.
    first: u64,
    last: u64,
    ready: VecDeque<Bytes>,
}

impl OutputPieces {
    /// The next bytes; `None` at the end of the range.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.passed >= self.last {
                return Ok(None);
            }
            self.read_page().await?;
        }
    }

    async fn read_page(&mut self) -> Result<(), Error> {
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let page = {
            let _permit = self.output.read.publisher.reads().acquire().await;
            self.output.read.ground().store().read(&self.stream, self.next, bound).await?
        };
        match page.first() {
            Some(record) if record.sequence == self.next => {}
            // It was pruned after this reader started.
            Some(_) => return Err(self.output.pruned()),
            None => return Err(self.output.read.missing_artifact(&self.output.artifact).await),
        }
        for record in &page {
            let event = journal::decode(&record.bytes, &self.stream, record.sequence)?;
            self.next = record.sequence + 1;
            match event.payload() {
                Payload::ToolShellOutputChunk(chunk) if chunk.tool_call_id == self.output.call => {
                    let bytes = chunk.bytes().ok_or_else(|| self.differs("a chunk cannot be decoded"))?;
                    self.take(bytes.into());
                }
                Payload::ArtifactCreated(_) if event.event_id == self.output.created_by => {
                    return Err(self.differs(&format!("its events have {} bytes", self.passed)));
                }
                _ => {}
            }
            if self.passed >= self.last {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: Bytes) {
        let (begin, end) = (self.passed, self.passed.saturating_add(bytes.len() as u64));
        self.passed = end;
        let (first, last) = (self.first.max(begin), self.last.min(end));
        if first < last {
            let offset = |at: u64| usize::try_from(at - begin).unwrap_or(usize::MAX).min(bytes.len());
            self.ready.push_back(bytes.slice(offset(first)..offset(last)));
        }
    }

    /// The reported size differs from the logged output.
    fn differs(&self, why: &str) -> Error {
        let (id, size) = (&self.output.artifact, self.output.size);
        let message = format!("artifact {id} should have {size} bytes in the log, but {why}");
        Error::rejected(Code::ArtifactBytesMissing, message)
    }
}
