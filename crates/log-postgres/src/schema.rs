//! The tables of one store, their partitions, and the steps from older releases.
//!
//! It must not know the shared tables, except for the version of a store.

use recount_log::{Fault, FaultKind, Retry};

use crate::connect::Session;
use crate::fault::QueryError;
use crate::limits;

/// The version that this release writes. A newer one is refused.
pub(crate) const VERSION: i32 = 1;

/// Step n leads from version n to n + 1. A released step is never changed.
const STEPS: &[&str] = &[r#"
    CREATE TABLE {schema}.streams (
        id bigint PRIMARY KEY,
        name bytea NOT NULL UNIQUE,
        first_position bigint NOT NULL,
        -- What a cut or erasure leaves: the first record that remains, the chain value before it, and where the stream
        -- ended then.
        first_sequence bigint NOT NULL DEFAULT 0,
        start bytea,
        next_sequence bigint NOT NULL DEFAULT 0,
        last_position bigint NOT NULL DEFAULT 0,
        erased boolean NOT NULL DEFAULT false,
        sum bigint NOT NULL
    );
    -- Without a default partition: a record that fits none is an error, never a slow table. Keys are those of the
    -- partitions.
    CREATE TABLE {schema}.records (
        position bigint NOT NULL,
        stream bigint NOT NULL,
        sequence bigint NOT NULL,
        bytes bytea NOT NULL,
        sum bigint NOT NULL
    ) PARTITION BY RANGE (position);
    ALTER TABLE {schema}.records ALTER COLUMN bytes SET STORAGE EXTERNAL;
    CREATE TABLE {schema}.rows (
        space bytea NOT NULL,
        key bytea NOT NULL,
        version bigint NOT NULL,
        value bytea NOT NULL,
        sum bigint NOT NULL,
        PRIMARY KEY (space, key)
    ) WITH (fillfactor = 70);
    CREATE TABLE {schema}.blobs (
        hash bytea NOT NULL,
        part bigint NOT NULL,
        bytes bytea NOT NULL,
        PRIMARY KEY (hash, part)
    );
    ALTER TABLE {schema}.blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;
    CREATE VIEW {schema}.log (run_id, sequence, position, envelope) AS
        SELECT convert_from(streams.name, 'UTF8'), records.sequence, records.position,
            convert_from(records.bytes, 'UTF8')::json
        FROM {schema}.records JOIN {schema}.streams ON streams.id = records.stream;
    CREATE VIEW {schema}.events (run_id, sequence, type, occurred_at, envelope) AS
        SELECT run_id, sequence, envelope ->> 'type', envelope ->> 'occurred_at', envelope FROM {schema}.log;
"#];

/// Brings the tables of a store, whose quoted schema exists, to the version of this release. Only its owner may.
pub(crate) async fn migrate(session: &Session, name: &str, schema: &str, version: i32) -> Result<(), Fault> {
    if version > VERSION {
        let message = format!(
            "store {name:?} was written by a newer release (schema {version}, this one knows {VERSION}); use that release"
        );
        return Err(Fault::new(FaultKind::Newer, Retry::Never, message));
    }
    let done = usize::try_from(version).unwrap_or_default();
    for (step, sql) in STEPS.iter().enumerate().skip(done) {
        let quoted = name.replace('\'', "''");
        let sql = format!(
            "{} UPDATE recount.stores SET version = {} WHERE name = '{quoted}';",
            sql.replace("{schema}", schema),
            step + 1
        );
        let context = format!("cannot create the tables of store {name:?}");
        session.execute(&context, &sql).await.map_err(QueryError::into_fault)?;
    }
    Ok(())
}

/// What the name of a partition begins with; its first position follows.
pub(crate) const PARTITION_PREFIX: &str = "records_";

/// A statement that adds the next partition, for `size` positions from `from` on. Only the owner changes anything, and only
/// once. Reads and commits of other connections go on meanwhile.
pub(crate) fn partition(schema: &str, epoch: i64, from: u64, size: u64) -> String {
    let to = from + size;
    let name = schema.trim_matches('"');
    let table = format!("{schema}.{PARTITION_PREFIX}{from}");
    format!(
        "DO $do$ BEGIN
            UPDATE recount.stores SET covered_to = {to}
            WHERE schema = '{name}' AND epoch = {epoch} AND covered_to = {from};
            IF FOUND THEN
                CREATE TABLE {table} (
                    LIKE {schema}.records INCLUDING STORAGE,
                    PRIMARY KEY (stream, sequence),
                    UNIQUE (position),
                    CHECK (position >= {from} AND position < {to})
                );
                ALTER TABLE {schema}.records ATTACH PARTITION {table} FOR VALUES FROM ({from}) TO ({to});
            END IF;
        END $do$"
    )
}

/// A statement that drops a partition if it is empty and gets no more records: positions only grow, so nothing can be added
/// once those before `to` are given. Only the owner drops anything. The lock keeps appends and reads of the store out, and
/// they queue after a drop that waits for it, so the wait is short.
pub(crate) fn drop_partition(schema: &str, epoch: i64, from: u64, to: u64) -> String {
    let name = schema.trim_matches('"');
    let table = format!("{schema}.{PARTITION_PREFIX}{from}");
    let wait = limits::PARTITION_LOCK_WAIT.as_millis();
    format!(
        "DO $do$ BEGIN
            IF EXISTS (SELECT 1 FROM {table}) THEN RETURN; END IF;
            SET LOCAL lock_timeout = '{wait}ms';
            LOCK TABLE ONLY {schema}.records IN ACCESS EXCLUSIVE MODE;
            IF EXISTS (
                SELECT 1 FROM recount.stores
                WHERE schema = '{name}' AND epoch = {epoch} AND covered_to > {to} AND last_position >= {to}
            ) THEN
                DROP TABLE {table};
            END IF;
        END $do$"
    )
}
