//! The history of a session: its runs in order, as a `recount_run::view::History`.
//!
//! Runs of kind `file` are left out, because they have no conversation. Seed messages are not part of it; see
//! [`crate::CatalogueHandle::seed`].

use recount_event::family::run::RunKind;
use recount_event::{Code, Payload, RunId, SessionId};
use recount_log::{ReadBound, RowRange};
use recount_run::view::History;

use crate::boxed;
use crate::ground::{journal, rows};
use crate::read::handle::ReadHandle;
use crate::{Error, limits};

/// The amount read so far.
#[derive(Default)]
struct Read {
    events: usize,
    bytes: usize,
}

impl ReadHandle {
    /// The whole history of a session. A longer one is refused with `limit_reached`.
    #[boxed]
    pub async fn history(&self, session: SessionId) -> Result<History, Error> {
        let prefix = rows::session_runs_prefix(session);
        let (mut history, mut read, mut after) = (History::new(), Read::default(), None);
        loop {
            let range = RowRange {
                after: after.take(),
                ..RowRange::first(rows::SESSION_RUNS, prefix.as_str(), limits::PAGE_EVENTS)
            };
            let page = self.ground().store().rows(range).await?;
            let Some(last) = page.last() else { return Ok(history) };
            after = Some(last.key.clone());
            for row in &page {
                let run = rows::run_in_key(rows::SESSION_RUNS, &row.key, &prefix)?;
                self.add_run(session, run, &mut history, &mut read).await?;
            }
        }
    }

    /// Adds nothing for a run that was erased meanwhile.
    async fn add_run(
        &self,
        session: SessionId,
        run: RunId,
        history: &mut History,
        read: &mut Read,
    ) -> Result<(), Error> {
        let stream = journal::stream_of(run);
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let mut next = 0;
        loop {
            let page = {
                let _permit = self.publisher.reads().acquire().await;
                self.ground().store().read(&stream, next, bound).await?
            };
            let Some(last) = page.last() else { return Ok(()) };
            next = last.sequence + 1;
            for record in &page {
                read.events += 1;
                read.bytes += record.bytes.len();
                if read.events > limits::HISTORY_EVENTS_MAX || read.bytes > limits::HISTORY_BYTES_MAX {
                    let message = format!(
                        "the history of session {session} exceeds {} events (HISTORY_EVENTS_MAX) or {} bytes \
                         (HISTORY_BYTES_MAX); read its runs one by one",
                        limits::HISTORY_EVENTS_MAX,
                        limits::HISTORY_BYTES_MAX
                    );
                    return Err(Error::rejected(Code::LimitReached, message));
                }
                let event = journal::decode(&record.bytes, &stream, record.sequence)?;
                if let Payload::RunQueued(queued) = event.payload()
                    && queued.kind == RunKind::File
                {
                    return Ok(());
                }
                history.event(&event);
            }
        }
    }
}
