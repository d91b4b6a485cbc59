//! Looks up and lists prompts: approvals, clarifications, handoffs.
//!
//! Reads only the catalogue. To answer a prompt, a client submits a command to its run.

use recount_event::{ForeignId, Json, Payload};
use recount_log::{ReadBound, ReadResult as _};
use recount_run::PromptKind;

use crate::boxed;
use crate::catalogue::prompt_rows;
use crate::ground::error::damaged_row;
use crate::ground::{journal, rows};
use crate::read::handle::ReadHandle;
use crate::{Error, ListPage, ListQuery, PageEnd, PromptRow, limits};

impl ReadHandle {
    /// A prompt. In older stores two runs may use one id: returns the first pending prompt, otherwise the last one.
    #[boxed]
    pub async fn prompt(&self, kind: PromptKind, id: &ForeignId) -> Result<Option<PromptRow>, Error> {
        let stored =
            prompt_rows::stored(self.ground().store(), kind, id, limits::PROMPT_NAMESAKES_MAX).await?;
        let mut last = None;
        for row in stored {
            let row = PromptRow::read(kind, &row)?;
            if row.is_pending() {
                return Ok(Some(row));
            }
            last = Some(row);
        }
        Ok(last)
    }

    /// The packaged context of a handoff, from its requesting event. Other prompts have none.
    #[boxed]
    pub async fn packaged_context(&self, prompt: &PromptRow) -> Result<Option<Json>, Error> {
        let PromptRow::Handoff(handoff) = prompt else { return Ok(None) };
        let stream = journal::stream_of(handoff.run_id);
        let bound = ReadBound { count: 1, bytes: 1 };
        let found = self.ground().store().read(&stream, handoff.sequence, bound).await?;
        // If it was pruned meanwhile, the store returns the next event or none.
        let Some(record) = found.first().filter(|record| record.sequence == handoff.sequence) else {
            return Ok(None);
        };
        match journal::decode(&record.bytes, &stream, record.sequence)?.payload() {
            Payload::HandoffRequested(request) => Ok(request.packaged_context.clone()),
            _ => {
                let key = rows::prompt_key(PromptKind::Handoff, &handoff.id, handoff.event_id);
                let why =
                    format!("event {} of {} is not a handoff request", handoff.sequence, handoff.run_id);
                Err(damaged_row(rows::HANDOFFS, &key, why))
            }
        }
    }

    /// Prompts of one kind, newest first. With the status `pending` only pending rows are read.
    #[boxed]
    pub async fn list_prompts(
        &self,
        kind: PromptKind,
        query: &ListQuery,
    ) -> Result<ListPage<PromptRow>, Error> {
        let spaces = rows::prompts(kind);
        let pending = query.status.as_deref() == Some("pending");
        let space = if pending { spaces.pending } else { spaces.listed };
        let (mut items, mut end) = (Vec::new(), PageEnd::before(query));
        let mut looked_at = 0;
        while items.len() < query.limit && looked_at < limits::LIST_SCAN_MAX && end.has_more {
            let limit = query.limit - items.len();
            let ids = ListQuery { after: end.next.take(), limit, status: None };
            let ids = self
                .catalogue()
                .list(space, &rows::tenant_key(""), &ids, |_: &ForeignId| String::new())
                .await?;
            looked_at += ids.items.len();
            end.advance(ids.end);
            for (event_id, id) in &ids.items {
                let Ok(event_id) = event_id.parse() else {
                    end.name(format!("{space}/{}", rows::tenant_key(event_id)));
                    continue;
                };
                let key = rows::prompt_key(kind, id, event_id);
                let row = self.stored_prompt(kind, &key).await.readable()?;
                // A prompt that was settled after the list was read has another status now.
                let matches =
                    |row: &PromptRow| query.status.as_ref().is_none_or(|status| *status == row.status());
                let row = row.whole_or(|_| end.name(format!("{}/{key}", spaces.each))).flatten();
                items.extend(row.filter(matches));
            }
        }
        Ok(ListPage { items, end })
    }

    async fn stored_prompt(&self, kind: PromptKind, key: &str) -> Result<Option<PromptRow>, Error> {
        let row = self.ground().store().row(rows::prompts(kind).each, key).await?;
        row.map(|row| PromptRow::read(kind, &row)).transpose()
    }
}
