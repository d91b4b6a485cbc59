//! Looks up and lists prompts: approvals, clarifications, handoffs.
//!
//! Reads only the catalogue. To answer a prompt, a client submits a command to its run.

use recount_event::{ForeignId, Json, Payload};
use recount_log::{ReadBound, RowRange};
use recount_run::PromptKind;

use crate::boxed;
use crate::catalogue::prompt_rows::PromptRow;
use crate::catalogue::table::read_row;
use crate::ground::error::damaged_row;
use crate::ground::{journal, rows};
use crate::read::handle::ReadHandle;
use crate::{ApprovalRow, ClarificationRow, Error, HandoffRow, ListPage, ListQuery, PageEnd, limits};

impl ReadHandle {
    /// An approval.
    #[boxed]
    pub async fn approval(&self, approval: &ForeignId) -> Result<Option<ApprovalRow>, Error> {
        self.catalogue().row(rows::APPROVALS, &rows::tenant_key(approval)).await
    }

    /// A clarification.
    #[boxed]
    pub async fn clarification(&self, id: &ForeignId) -> Result<Option<ClarificationRow>, Error> {
        self.find_prompt(id).await
    }

    /// A handoff.
    #[boxed]
    pub async fn handoff(&self, id: &ForeignId) -> Result<Option<HandoffRow>, Error> {
        self.find_prompt(id).await
    }

    /// Approvals, newest first. With the status `pending` only pending rows are read.
    #[boxed]
    pub async fn list_approvals(&self, query: &ListQuery) -> Result<ListPage<ApprovalRow>, Error> {
        self.list_prompts(query).await
    }

    /// Clarifications, newest first.
    #[boxed]
    pub async fn list_clarifications(&self, query: &ListQuery) -> Result<ListPage<ClarificationRow>, Error> {
        self.list_prompts(query).await
    }

    /// Handoffs, newest first.
    #[boxed]
    pub async fn list_handoffs(&self, query: &ListQuery) -> Result<ListPage<HandoffRow>, Error> {
        self.list_prompts(query).await
    }

    /// The packaged context of a handoff, from its requesting event.
    #[boxed]
    pub async fn handoff_context(&self, handoff: &HandoffRow) -> Result<Option<Json>, Error> {
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

    /// In older stores two runs may use one id: returns the first pending prompt, otherwise the last one.
    async fn find_prompt<T: PromptRow>(&self, id: &ForeignId) -> Result<Option<T>, Error> {
        let space = rows::prompts(T::KIND).each;
        let range = RowRange::first(space, rows::prompt_prefix(id), limits::PROMPT_NAMESAKES_MAX);
        let mut last = None;
        for row in self.ground().store().rows(range).await? {
            let row: T = read_row(space, &row.key, &row.value)?;
            if row.status() == "pending" {
                return Ok(Some(row));
            }
            last = Some(row);
        }
        Ok(last)
    }

    async fn list_prompts<T: PromptRow>(&self, query: &ListQuery) -> Result<ListPage<T>, Error> {
        let spaces = rows::prompts(T::KIND);
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
                // A prompt that was settled after the list was read has another status now.
                let Ok(event_id) = event_id.parse() else {
                    end.name(format!("{space}/{}", rows::tenant_key(event_id)));
                    continue;
                };
                let key = rows::prompt_key(T::KIND, id, event_id);
                let row = self.catalogue().listed_row::<T>(spaces.each, &key, &mut end).await?;
                let wanted = |row: &T| query.status.as_ref().is_none_or(|status| *status == row.status());
                items.extend(row.filter(wanted));
            }
        }
        Ok(ListPage { items, end })
    }
}
