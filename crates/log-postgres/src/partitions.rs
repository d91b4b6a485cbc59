//! Drops partitions of the records that retention and erasure have emptied, so that their number follows what is stored.
//!
//! It must not know what a removal is, and must never make an append wait for longer than its lock timeout. Start at
//! [`drop_empty`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recount_log::Fault;
use tokio::sync::watch;

use crate::connect::Session;
use crate::core::Core;
use crate::fault::QueryError;
use crate::schema;

/// Drops what is empty when the store is opened and after removals, until the writer has ended. A partition that is in use
/// is tried again later.
pub(crate) async fn drop_empty(core: Arc<Core>, pause: Duration, mut ended: watch::Receiver<()>) {
    let sweeps = async {
        loop {
            match sweep(&core).await {
                Ok(true) => core.partitions_changed.notified().await,
                Ok(false) => {}
                Err(fault) => {
                    tracing::debug!(%fault, store = core.name(), "cannot drop empty partitions now; trying again");
                }
            }
            // Removals often come in rows.
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        // An error: the sender was dropped with the writer.
        _ = ended.changed() => {}
        () = sweeps => {}
    }
}

/// Drops each partition that is full and empty. `false`: one of them is in use.
async fn sweep(core: &Core) -> Result<bool, Fault> {
    let before = full_partitions(core).await?;
    if before.is_empty() {
        return Ok(true);
    }
    // A connection of its own, because it may wait for locks. Most stores never need it.
    let session = Session::connect(&core.node.target).await?;
    let mut is_done = true;
    for (from, to) in &before {
        let sql = schema::drop_partition(&core.sql.schema, core.epoch, *from, *to);
        match session.execute("dropping an empty partition", &sql).await {
            Ok(()) => {}
            Err(QueryError::Refused(fault)) => {
                tracing::debug!(%fault, store = core.name(), from, "a partition is in use");
                is_done = false;
            }
            Err(QueryError::Lost(fault)) => return Err(fault),
        }
    }
    let dropped = before.len().saturating_sub(full_partitions(core).await?.len());
    if dropped > 0 {
        tracing::info!(store = core.name(), dropped, "empty partitions were dropped");
    }
    Ok(is_done)
}

/// The partitions that get no more records, as their first positions and those of the next partitions. The newest is never
/// among them.
async fn full_partitions(core: &Core) -> Result<Vec<(u64, u64)>, Fault> {
    let last = core.last_position.load(Ordering::SeqCst);
    let schema = core.sql.schema.trim_matches('"');
    let rows = core.readers().query("listing partitions", &core.sql.partitions, &[&schema]).await?;
    let names = rows.iter().map(|row| row.get::<_, &str>(0));
    let mut firsts: Vec<u64> =
        names.filter_map(|name| name.strip_prefix(schema::PARTITION_PREFIX)?.parse().ok()).collect();
    firsts.sort_unstable();
    let both = firsts.iter().zip(firsts.iter().skip(1));
    Ok(both.map(|(from, next)| (*from, *next)).filter(|(_, next)| *next <= last).collect())
}
