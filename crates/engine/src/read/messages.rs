//! The messages of a session: a view of its runs, in order, read from the log.

use recount_event::{Code, RunId, SessionId};
use recount_log::{ReadBound, RowRange};
use recount_run::view::{Message, message};

use crate::boxed;
use crate::ground::{journal, rows};
use crate::read::handle::ReadHandle;
use crate::{Error, limits};

/// A message and its position in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMessage {
    pub run: RunId,
    pub sequence: u64,
    pub occurred_ms: u64,
    pub message: Message,
}

/// A page of a conversation. `next` continues it, also if the scanned events have no messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Messages {
    pub messages: Vec<SessionMessage>,
    /// The run and the last event that was scanned.
    pub next: Option<(RunId, u64)>,
    pub has_more: bool,
}

impl ReadHandle {
    /// The messages of the runs of a session, oldest first. Scans a limited number of events, so a page may be short
    /// or empty although there are more.
    #[boxed]
    pub async fn messages(
        &self,
        session: SessionId,
        after: Option<(RunId, u64)>,
        limit: usize,
    ) -> Result<Messages, Error> {
        let mut page = Messages { messages: Vec::new(), next: after, has_more: true };
        let mut looked_at = 0;
        let prefix = rows::session_runs_prefix(session);
        if let Some((run, sequence)) = after {
            if self.ground().store().row(rows::SESSION_RUNS, &format!("{prefix}{run}")).await?.is_none() {
                let foreign = format!("the cursor names {run}, which is not a run of {session}");
                return Err(Error::rejected(Code::CursorForeign, foreign));
            }
            self.messages_of(run, sequence + 1, limit, &mut looked_at, &mut page).await?;
        }
        while page.messages.len() < limit && looked_at < limits::MESSAGES_SCAN_MAX {
            let range = RowRange {
                after: page.next.map(|(run, _)| format!("{prefix}{run}").into()),
                ..RowRange::first(rows::SESSION_RUNS, prefix.as_str(), 1)
            };
            let Some(row) = self.ground().store().rows(range).await?.pop() else {
                page.has_more = false;
                break;
            };
            let run = rows::run_in_key(rows::SESSION_RUNS, &row.key, &prefix)?;
            page.next = Some((run, 0));
            looked_at += 1;
            self.messages_of(run, 0, limit, &mut looked_at, &mut page).await?;
        }
        Ok(page)
    }

    /// The messages of one run. None if it was erased meanwhile.
    async fn messages_of(
        &self,
        run: RunId,
        mut from: u64,
        limit: usize,
        looked_at: &mut usize,
        page: &mut Messages,
    ) -> Result<(), Error> {
        let stream = journal::stream_of(run);
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        while *looked_at < limits::MESSAGES_SCAN_MAX {
            let records = self.ground().store().read(&stream, from, bound).await?;
            if records.is_empty() {
                return Ok(());
            }
            for record in records {
                if page.messages.len() == limit {
                    return Ok(());
                }
                let event = journal::decode(&record.bytes, &stream, record.sequence)?;
                *looked_at += 1;
                from = event.sequence + 1;
                page.next = Some((run, event.sequence));
                if let Some(message) = message(&event) {
                    let (sequence, occurred_ms) = (event.sequence, event.occurred_ms);
                    page.messages.push(SessionMessage { run, sequence, occurred_ms, message });
                }
            }
        }
        Ok(())
    }
}
