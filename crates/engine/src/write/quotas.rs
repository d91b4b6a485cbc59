//! How many bytes of artifacts each task keeps, and each run without a task, so that none keeps more than it may.

use std::collections::HashMap;

use recount_event::Code;
use recount_log::{RowRange, Store};

use crate::catalogue::artifact_rows::Indexed;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, RunRow, limits};

/// How much each task, or each run without one, keeps.
#[derive(Default)]
pub(crate) struct Quotas(tokio::sync::Mutex<HashMap<String, (u64, usize)>>);

impl Quotas {
    /// Takes its share of what the task of a run may keep, or refuses.
    pub(crate) async fn take(&self, store: &dyn Store, run: &RunRow, bytes: u64) -> Result<(), Error> {
        let owner = run.task_id.map_or_else(|| run.id.to_string(), |task| task.to_string());
        let space = if run.task_id.is_some() { rows::TASK_ARTIFACTS } else { rows::RUN_ARTIFACTS };
        let mut kept = self.0.lock().await;
        if kept.len() >= limits::QUOTAS_REMEMBERED_MAX && !kept.contains_key(&owner) {
            kept.clear();
        }
        let (sum, count) = match kept.get(&owner) {
            Some(known) => *known,
            None => kept_by(store, space, &owner).await?,
        };
        let (most, count_most) = (limits::TASK_ARTIFACT_BYTES_MAX, limits::TASK_ARTIFACTS_MAX);
        if sum.saturating_add(bytes) > most || count >= count_most {
            let message = format!(
                "{owner} keeps {sum} bytes in {count} artifacts and would keep {bytes} more; it may keep {most} \
                 (TASK_ARTIFACT_BYTES_MAX) in {count_most} (TASK_ARTIFACTS_MAX)"
            );
            kept.insert(owner, (sum, count));
            return Err(Error::rejected(Code::LimitReached, message));
        }
        kept.insert(owner, (sum + bytes, count + 1));
        Ok(())
    }

    /// Less is kept than was thought: it is counted again when it matters.
    pub(crate) async fn forget(&self, owner: &str) {
        self.0.lock().await.remove(owner);
    }
}

/// How many bytes, and in how many artifacts; not counted beyond what may be.
async fn kept_by(store: &dyn Store, space: &str, owner: &str) -> Result<(u64, usize), Error> {
    let (mut sum, mut count, mut after) = (0_u64, 0, None);
    while count < limits::TASK_ARTIFACTS_MAX {
        let range = RowRange {
            space: space.into(),
            prefix: rows::within(owner).into(),
            after: after.take(),
            backwards: false,
            limit: limits::PAGE_EVENTS,
        };
        let page = store.rows(range).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for row in &page {
            let Indexed(_, bytes) = read_row(space, &row.key, &row.value)?;
            sum = sum.saturating_add(bytes);
            count += 1;
        }
    }
    Ok((sum, count))
}
