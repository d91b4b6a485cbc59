//! How many bytes of artifacts each task keeps, and each run without a task, so that none keeps more than it may.

use std::collections::HashMap;
use std::sync::OnceLock;

use recount_event::Code;
use recount_log::{RowRange, Store};

use crate::catalogue::artifact_rows::Indexed;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, RunRow, limits};

/// How much may be kept. A server has it in its settings, under the names that refusals give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactQuota {
    /// Bytes that the artifacts of a task, or of a run without one, may have.
    pub task_bytes: u64,
    /// Artifacts that a task, or a run without one, may keep.
    pub task_count: usize,
    /// Bytes of uploads that wait for a run.
    pub upload_bytes: u64,
}

impl Default for ArtifactQuota {
    fn default() -> Self {
        ArtifactQuota {
            task_bytes: limits::TASK_ARTIFACT_BYTES_MAX,
            task_count: limits::TASK_ARTIFACTS_MAX,
            upload_bytes: limits::UPLOADS_BYTES_MAX,
        }
    }
}

/// How much each task, or each run without one, keeps.
#[derive(Default)]
pub(crate) struct Quotas {
    kept: tokio::sync::Mutex<HashMap<String, (u64, usize)>>,
    quota: OnceLock<ArtifactQuota>,
}

impl Quotas {
    /// What holds from now on. The first call counts.
    pub(crate) fn set(&self, quota: ArtifactQuota) {
        if self.quota.set(quota).is_err() {
            tracing::debug!("the artifact quota is already set");
        }
    }

    pub(crate) fn quota(&self) -> ArtifactQuota {
        self.quota.get().copied().unwrap_or_default()
    }

    /// Takes its share of what the task of a run may keep, or refuses.
    pub(crate) async fn take(&self, store: &dyn Store, run: &RunRow, bytes: u64) -> Result<(), Error> {
        let owner = run.task_id.map_or_else(|| run.id.to_string(), |task| task.to_string());
        let space = if run.task_id.is_some() { rows::TASK_ARTIFACTS } else { rows::RUN_ARTIFACTS };
        let ArtifactQuota { task_bytes, task_count, .. } = self.quota();
        let mut kept = self.kept.lock().await;
        if kept.len() >= limits::QUOTAS_REMEMBERED_MAX && !kept.contains_key(&owner) {
            kept.clear();
        }
        let (sum, count) = match kept.get(&owner) {
            Some(known) => *known,
            None => kept_by(store, space, &owner, task_count).await?,
        };
        let reached = match (sum.saturating_add(bytes) > task_bytes, count >= task_count) {
            (true, _) => Some(format!("artifacts.task_bytes is {task_bytes}")),
            (false, true) => Some(format!("artifacts.task_count is {task_count}")),
            (false, false) => None,
        };
        if let Some(reached) = reached {
            let message = format!(
                "{owner} has {count} artifacts with {sum} bytes and would get {bytes} bytes more, but \
                 {reached}; delete artifacts that are not needed, or ask an operator to raise the setting"
            );
            kept.insert(owner, (sum, count));
            return Err(Error::rejected(Code::ArtifactQuota, message));
        }
        kept.insert(owner, (sum + bytes, count + 1));
        Ok(())
    }

    /// Less is kept than was thought: it is counted again when it matters.
    pub(crate) async fn forget(&self, owner: &str) {
        self.kept.lock().await.remove(owner);
    }
}

/// How many bytes, and in how many artifacts; not counted beyond what may be.
async fn kept_by(store: &dyn Store, space: &str, owner: &str, most: usize) -> Result<(u64, usize), Error> {
    // Those that were deleted alone are listed still.
    let freed = summed(store, rows::ARTIFACTS_FREED, format!("{owner}/"), usize::MAX).await?;
    let listed = summed(store, space, rows::within(owner), most.saturating_add(freed.1)).await?;
    Ok((listed.0.saturating_sub(freed.0), listed.1.saturating_sub(freed.1)))
}

async fn summed(store: &dyn Store, space: &str, prefix: String, most: usize) -> Result<(u64, usize), Error> {
    let (mut sum, mut count, mut after) = (0_u64, 0, None);
    while count < most {
        let range = RowRange {
            space: space.into(),
            prefix: prefix.as_str().into(),
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
