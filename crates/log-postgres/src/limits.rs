//! Limits of the PostgreSQL store, and what happens at each.

use std::time::Duration;

/// How long a node owns its stores after it last renewed its lease. Another node takes them over afterwards.
pub const LEASE: Duration = Duration::from_secs(8);

/// How many times a lease is renewed before it would expire.
pub const RENEWALS_PER_LEASE: u32 = 4;

/// Renewals that a node must see before it takes the owner of a store for alive.
pub const RENEWALS_OF_LIVING_NODE: u32 = 2;

/// How far the clock of a node may be from the clock of the database; with more, the node may not own stores.
pub const CLOCK_OFFSET_MAX: Duration = Duration::from_secs(5);

/// Positions of one partition of the records.
pub const PARTITION_RECORDS: u64 = 4 << 20;

/// How long dropping an empty partition may wait for its lock. Appends and reads that come meanwhile wait, too; afterwards it is
/// tried again later.
pub const PARTITION_LOCK_WAIT: Duration = Duration::from_millis(100);

/// The pause before empty partitions are looked for after a removal, and before a drop is tried again.
pub const PARTITION_SWEEP_PAUSE: Duration = Duration::from_secs(60);

/// Connections for reads, for all stores of a process together. Each pipelines its queries.
pub const READERS: usize = 4;

/// Reads and blobs in progress in one store; the next one is refused with [`recount_log::FaultKind::Busy`].
pub const CALLS_MAX: usize = 1024;

/// Bytes of blobs that are being stored in one store; the next blob is refused with [`recount_log::FaultKind::Busy`].
pub const BLOB_BYTES_WAITING_MAX: usize = 256 << 20;

/// How long a connection may take to be established.
pub const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// How long one statement may take before its connection counts as lost.
pub const STATEMENT_WAIT: Duration = Duration::from_secs(15);

/// How long appends wait for a lost database before they fail.
pub const OUTAGE_WAIT: Duration = Duration::from_secs(5);

/// Pause between two attempts to reach the database.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Streams, rows and chain values that are remembered in memory; more are forgotten and read again.
pub const REMEMBERED_MAX: usize = 50_000;

/// Bytes of one part of a blob.
pub const BLOB_PART_BYTES: usize = 1 << 20;

/// Records of one page of a scan over a whole stream.
pub const SCAN_PAGE: usize = 1_000;

/// Bytes of one page of a scan over a whole stream.
pub const SCAN_PAGE_BYTES: usize = 4 << 20;

/// How long a connection may be silent before it is probed.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);

/// Time between two probes of a silent connection.
pub const KEEPALIVE_EVERY: Duration = Duration::from_secs(3);

/// Probes without a response after which a connection is lost.
pub const KEEPALIVE_RETRIES: u32 = 3;

/// How often a node that waits for a lease looks at it.
pub const LEASE_LOOK_EVERY: Duration = Duration::from_millis(250);

/// Results that wait for a blocked caller: it takes one.
pub(crate) const RESULTS_WAITING_MAX: usize = 1;
