//! Artifact quotas of tasks, and of runs without a task.

use std::collections::HashMap;
use std::sync::OnceLock;

use recount_event::Code;
use recount_log::{RowRange, Store};

use crate::catalogue::artifact_rows::ArtifactEntry;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, RunRow, limits};

/// The artifact quota. Refusals name the settings of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactQuota {
    /// Bytes of the artifacts of a task, or of a run without a task.
    pub task_bytes: u64,
    /// Number of artifacts of a task, or of a run without a task.
    pub task_count: usize,
    /// Bytes of unused uploads.
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

/// Usage by task, or by run without a task.
#[derive(Default)]
pub(crate) struct Quotas {
    usage: tokio::sync::Mutex<HashMap<String, (u64, usize)>>,
    quota: OnceLock<ArtifactQuota>,
}

impl Quotas {
    /// Sets the quota. Only the first call has an effect.
    pub(crate) fn set(&self, quota: ArtifactQuota) {
        if self.quota.set(quota).is_err() {
            tracing::debug!("the artifact quota is already set");
        }
    }

    pub(crate) fn quota(&self) -> ArtifactQuota {
        self.quota.get().copied().unwrap_or_default()
    }

    /// Adds an artifact to the usage of a run's task, or refuses it.
    pub(crate) async fn take(&self, store: &dyn Store, run: &RunRow, bytes: u64) -> Result<(), Error> {
        let owner = run.task_id.map_or_else(|| run.id.to_string(), |task| task.to_string());
        let space = if run.task_id.is_some() { rows::TASK_ARTIFACTS } else { rows::RUN_ARTIFACTS };
        let ArtifactQuota { task_bytes, task_count, .. } = self.quota();
        let mut usage = self.usage.lock().await;
        if usage.len() >= limits::QUOTAS_REMEMBERED_MAX && !usage.contains_key(&owner) {
            usage.clear();
        }
        let (sum, count) = match usage.get(&owner) {
            Some(known) => *known,
            None => stored_by(store, space, &owner, task_count).await?,
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
            usage.insert(owner, (sum, count));
            return Err(Error::rejected(Code::ArtifactQuota, message));
        }
        usage.insert(owner, (sum + bytes, count + 1));
        Ok(())
    }

    /// Drops the cached usage after a deletion; it is counted again on use.
    pub(crate) async fn forget(&self, owner: &str) {
        self.usage.lock().await.remove(owner);
    }
}

/// Bytes and number of artifacts, counted up to the limit.
async fn stored_by(store: &dyn Store, space: &str, owner: &str, most: usize) -> Result<(u64, usize), Error> {
    // Individually deleted artifacts are still listed.
    let freed = summed(store, rows::ARTIFACTS_FREED, format!("{owner}/"), usize::MAX).await?;
    let listed = summed(store, space, rows::within(owner), most.saturating_add(freed.1)).await?;
    Ok((listed.0.saturating_sub(freed.0), listed.1.saturating_sub(freed.1)))
}

async fn summed(store: &dyn Store, space: &str, prefix: String, most: usize) -> Result<(u64, usize), Error> {
    let (mut sum, mut count, mut after) = (0_u64, 0, None);
    while count < most {
        let range =
            RowRange { after: after.take(), ..RowRange::first(space, prefix.as_str(), limits::PAGE_EVENTS) };
        let page = store.rows(range).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for row in &page {
            let ArtifactEntry(_, bytes) = read_row(space, &row.key, &row.value)?;
            sum = sum.saturating_add(bytes);
            count += 1;
        }
    }
    Ok((sum, count))
}
