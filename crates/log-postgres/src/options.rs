//! [`PostgresOptions`]: the database, the name of this node, and the times and sizes that tests change.
//!
//! It must not know connections.

use std::time::Duration;

use crate::limits;

/// How to open a [`crate::Database`].
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database`, with the parameters of libpq. Without `sslmode`, a connection to
    /// another machine uses TLS and checks the certificate. `sslrootcert` names a file of authorities.
    pub url: String,
    /// The name of this node, for people. Several processes may have the same one.
    pub node: String,
    /// Where other nodes reach this one; empty if they do not.
    pub address: String,
    pub lease: Duration,
    /// Positions of one partition of the records.
    pub partition_records: u64,
    /// The pause between a removal and the drop of partitions that it has emptied.
    pub partition_sweep_pause: Duration,
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>) -> Self {
        PostgresOptions {
            url: url.into(),
            node: "node".to_owned(),
            address: String::new(),
            lease: limits::LEASE,
            partition_records: limits::PARTITION_RECORDS,
            partition_sweep_pause: limits::PARTITION_SWEEP_PAUSE,
        }
    }
}

/// Without the URL, which may contain a password.
impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("PostgresOptions");
        shown.field("node", &self.node).field("address", &self.address).field("lease", &self.lease);
        shown.field("partition_records", &self.partition_records).finish_non_exhaustive()
    }
}
