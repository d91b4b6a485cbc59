//! [`Core`]: what the writer of a store and its calls share.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use recount_log::{Meters, Observer};
use tokio::sync::Notify;

use crate::blobs::Owner;
use crate::connect::Readers;
use crate::node::Node;
use crate::queue::Queue;
use crate::reading::{Reading, Remembered};
use crate::sql::Sql;

/// What the writer and the calls share.
pub(crate) struct Core {
    name: String,
    pub(crate) sql: Sql,
    pub(crate) node: Arc<Node>,
    pub(crate) epoch: i64,
    pub(crate) partition_records: u64,
    pub(crate) queue: Queue,
    pub(crate) observer: OnceLock<Arc<dyn Observer>>,
    pub(crate) meters: Meters,
    pub(crate) last_position: AtomicU64,
    /// Whether a group was committed is unknown, and its callers know that.
    pub(crate) is_unsettled: AtomicBool,
    /// The last commit found no space.
    pub(crate) is_full: AtomicBool,
    /// Notified after a commit that removed records, and after a partition was added.
    pub(crate) partitions_changed: Notify,
    remembered: Remembered,
}

impl Core {
    pub(crate) fn new(
        name: &str,
        sql: Sql,
        node: Arc<Node>,
        epoch: i64,
        last_position: u64,
        partition_records: u64,
    ) -> Self {
        Core {
            name: name.to_owned(),
            sql,
            node,
            epoch,
            partition_records,
            queue: Queue::default(),
            observer: OnceLock::new(),
            meters: Meters::default(),
            last_position: AtomicU64::new(last_position),
            is_unsettled: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            partitions_changed: Notify::new(),
            remembered: Remembered::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn readers(&self) -> &Readers {
        self.node.readers()
    }

    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading { readers: self.readers(), sql: &self.sql, remembered: &self.remembered }
    }

    pub(crate) fn owner(&self) -> Owner<'_> {
        Owner { name: &self.name, epoch: self.epoch }
    }
}
