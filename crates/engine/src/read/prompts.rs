//! Looks up and lists prompts: approvals, clarifications, handoffs.
//!
//! Reads only the catalogue. To answer a prompt, a client submits a command to its run.

use recount_event::{Code, ForeignId, Json, Payload};
use recount_log::ReadBound;
use recount_run::PromptKind;

use crate::boxed;
use crate::catalogue::prompt_rows;
use crate::ground::error::damaged_row;
use crate::ground::{journal, rows};
use crate::read::handle::ReadHandle;
use crate::{Error, ListPage, ListQuery, PromptRow, limits};

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
        let (items, damaged) = (Vec::new(), Vec::new());
        let mut listed = ListPage { items, next: query.after.clone(), has_more: true, damaged };
        let mut looked_at = 0;
        while listed.items.len() < query.limit && looked_at < limits::LIST_SCAN_MAX && listed.has_more {
            let limit = query.limit - listed.items.len();
            let ids = ListQuery { after: listed.next.take(), limit, status: None };
            let ids = self
                .catalogue()
                .list(space, &rows::tenant_key(""), &ids, |_: &ForeignId| String::new())
                .await?;
            looked_at += ids.items.len();
            (listed.next, listed.has_more) = (ids.next, ids.has_more);
            listed.name_damaged(ids.damaged);
            for (id, event_id) in ids.items.iter().zip(&ids.keys) {
                let Ok(event_id) = event_id.parse() else {
                    listed.name_damaged(vec![format!("{space}/{}", rows::tenant_key(event_id))]);
                    continue;
                };
                let key = rows::prompt_key(kind, id, event_id);
                match self.stored_prompt(kind, &key).await {
                    Err(error) if error.code() == Code::StoreCorrupt => {
                        listed.damaged.push(format!("{}/{key}", spaces.each));
                    }
                    // A prompt that was settled after the list was read has another status now.
                    found => {
                        let matches = |row: &PromptRow| {
                            query.status.as_ref().is_none_or(|status| *status == row.status())
                        };
                        listed.items.extend(found?.filter(matches));
                    }
                }
            }
        }
        Ok(listed)
    }

    async fn stored_prompt(&self, kind: PromptKind, key: &str) -> Result<Option<PromptRow>, Error> {
        let row = self.ground().store().row(rows::prompts(kind).each, key).await?;
        row.map(|row| PromptRow::read(kind, &row)).transpose()
    }
}
