//! The shared tables: the nodes with their leases, the stores with owner and counters, and notes for the whole database.
//!
//! A node that does not renew its lease in time may be deleted by any other node, which frees its stores. Taking a free
//! store raises its epoch. So an owner is never replaced while its lease is valid, and a replaced one is fenced.

use std::sync::Arc;
use std::time::Duration;

use recount_log::{Fault, FaultKind, Retry};
use recount_world::Clock;
use tokio_postgres::Row;

use crate::connect::{Link, Readers, Session};
use crate::fault::QueryError;
use crate::limits;
use crate::rules::{Counters, OwnerSeen, TakeOver, TakeOverStep};

/// The version of the shared tables.
const VERSION: &str = "1";

const TABLES: &str = "
    CREATE SCHEMA IF NOT EXISTS recount;
    CREATE TABLE recount.notes (key text PRIMARY KEY, value text NOT NULL);
    CREATE TABLE recount.nodes (
        node text PRIMARY KEY,
        address text NOT NULL,
        since timestamptz NOT NULL DEFAULT clock_timestamp(),
        until timestamptz NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE recount.stores (
        name text PRIMARY KEY,
        schema text NOT NULL UNIQUE,
        version integer NOT NULL DEFAULT 0,
        node text REFERENCES recount.nodes ON DELETE SET NULL,
        epoch bigint NOT NULL DEFAULT 0,
        group_number bigint NOT NULL DEFAULT 0,
        last_position bigint NOT NULL DEFAULT 0,
        last_stream bigint NOT NULL DEFAULT 0,
        records bigint NOT NULL DEFAULT 0,
        bytes bigint NOT NULL DEFAULT 0,
        -- Positions before this one have a partition.
        covered_to bigint NOT NULL DEFAULT 0,
        -- The last position that an owner had acknowledged when it found that the database ends before it.
        lost_after bigint
    ) WITH (fillfactor = 50);
    INSERT INTO recount.notes (key, value) VALUES ('version', '1');
";

/// A store that this node has taken over.
#[derive(Debug, Clone)]
pub(crate) struct Ownership {
    pub(crate) counters: Counters,
    pub(crate) version: i32,
    /// Positions before this one have a partition.
    pub(crate) covered_to: u64,
}

/// Creates the shared tables if they are missing, and refuses those of a newer release.
pub(crate) async fn prepare(session: &Session) -> Result<(), Fault> {
    let exists: Arc<str> = "SELECT to_regclass('recount.notes') IS NOT NULL".into();
    let looking = "looking for the tables of Recount";
    let mut attempts = 0;
    loop {
        let found = session.query(looking, &exists, &[]).await.map_err(QueryError::into_fault)?;
        if found.first().is_some_and(|row| row.get(0)) {
            break;
        }
        let created = session.execute("cannot create the tables of Recount", TABLES).await;
        // Another node may be creating them at the same time.
        let Err(error) = created else { break };
        attempts += 1;
        if attempts == 5 {
            return Err(error.into_fault());
        }
        tokio::time::sleep(limits::RECONNECT_PAUSE).await;
    }
    let version = note(session, "version").await?.unwrap_or_default();
    if version != VERSION {
        let message = format!(
            "the database was written by a newer release (shared schema {version:?}, this one knows {VERSION}); use \
             that release"
        );
        return Err(Fault::new(FaultKind::Newer, Retry::Never, message));
    }
    Ok(())
}

async fn note(session: &Session, key: &str) -> Result<Option<String>, Fault> {
    let sql: Arc<str> = "SELECT value FROM recount.notes WHERE key = $1".into();
    let rows = session.query("reading a note of the database", &sql, &[&key]).await;
    Ok(rows.map_err(QueryError::into_fault)?.first().map(|row| row.get(0)))
}

/// Notes a value unless there is one, and returns the one that is noted now.
pub(crate) async fn note_once(session: &Session, key: &str, value: &str) -> Result<String, Fault> {
    let sql: Arc<str> =
        "INSERT INTO recount.notes (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING".into();
    let noted = session.query("writing a note of the database", &sql, &[&key, &value]).await;
    noted.map_err(QueryError::into_fault)?;
    note(session, key).await.map(Option::unwrap_or_default)
}

/// Refuses a node whose clock differs much from that of the database: deadlines of runs are times of the owner's clock.
pub(crate) async fn check_clock(session: &Session, clock: &dyn Clock) -> Result<(), Fault> {
    let sql: Arc<str> = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint".into();
    let before = clock.now_ms();
    let rows = session.query("reading the clock of the database", &sql, &[]).await;
    let rows = rows.map_err(QueryError::into_fault)?;
    let after = clock.now_ms();
    let theirs = rows.first().map_or(0, |row| row.get::<_, i64>(0)).cast_unsigned();
    let offset = if theirs < before { before - theirs } else { theirs.saturating_sub(after) };
    if u128::from(offset) <= limits::CLOCK_OFFSET_MAX.as_millis() {
        return Ok(());
    }
    let message = format!(
        "the clock of this machine differs by {}.{:03} s from the clock of the database; set both with NTP, then start \
         again",
        offset / 1000,
        offset % 1000
    );
    Err(Fault::new(FaultKind::Io, Retry::Maybe, message))
}

pub(crate) async fn store_names(session: &Session) -> Result<Vec<String>, Fault> {
    let sql: Arc<str> = "SELECT name FROM recount.stores".into();
    let rows = session.query("listing the stores", &sql, &[]).await.map_err(QueryError::into_fault)?;
    let mut names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    names.sort_unstable();
    Ok(names)
}

/// The schema of a store; created empty if the store is new.
pub(crate) async fn find_or_create(session: &Session, name: &str) -> Result<String, Fault> {
    let schema = schema_name(name);
    let sql: Arc<str> = "SELECT schema FROM recount.stores WHERE name = $1".into();
    let context = format!("looking for store {name:?}");
    let found = session.query(&context, &sql, &[&name]).await.map_err(QueryError::into_fault)?;
    if let Some(row) = found.first() {
        return Ok(row.get(0));
    }
    let quoted = name.replace('\'', "''");
    // Another node that creates the same store waits at the first statement, and then finds all of it.
    let create = format!(
        "INSERT INTO recount.stores (name, schema) VALUES ('{quoted}', '{schema}') ON CONFLICT DO NOTHING;
         CREATE SCHEMA IF NOT EXISTS \"{schema}\";"
    );
    let created = session.execute(&format!("cannot create store {name:?}"), &create).await;
    created.map_err(QueryError::into_fault)?;
    Ok(schema)
}

/// A name for the schema that people recognize and that belongs to one store only.
fn schema_name(name: &str) -> String {
    let letters = name.chars().take(30).map(|letter| match letter {
        'a'..='z' | '0'..='9' => letter,
        _ => '_',
    });
    let digest = blake3::hash(name.as_bytes()).to_hex();
    format!("recount_{}_{}", letters.collect::<String>(), &digest[..8])
}

/// Adds this node, with a lease from now on.
pub(crate) async fn add_node(link: &Link, node: &str, address: &str, lease: Duration) -> Result<(), Fault> {
    let sql: Arc<str> = "INSERT INTO recount.nodes (node, address, until)
         VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 millisecond')"
        .into();
    let added = link.query("registering this node", &sql, &[&node, &address, &millis(lease)]).await;
    added.map(drop).map_err(QueryError::into_fault)
}

/// `false`: the node was deleted by another one, and its stores may have new owners.
pub(crate) async fn renew(link: &Link, node: &str, lease: Duration) -> Result<bool, QueryError> {
    let sql: Arc<str> =
        "UPDATE recount.nodes SET until = clock_timestamp() + $2::bigint * interval '1 millisecond'
         WHERE node = $1 RETURNING 1"
            .into();
    let renewed = link.query("renewing the lease of this node", &sql, &[&node, &millis(lease)]).await?;
    Ok(!renewed.is_empty())
}

pub(crate) async fn remove_node(link: &Link, node: &str) -> Result<(), Fault> {
    let sql: Arc<str> = "DELETE FROM recount.nodes WHERE node = $1".into();
    link.query("removing this node", &sql, &[&node]).await.map(drop).map_err(QueryError::into_fault)
}

/// Takes a store over as soon as it is free. A living owner is a fault. A store of this node, which must not have it open,
/// is taken again: an earlier attempt to open it may have failed without a response.
pub(crate) async fn take_over(session: &Session, name: &str, node: &str) -> Result<Ownership, Fault> {
    // Not this node: its lease may only be late, and it has stores.
    let expire: Arc<str> = "DELETE FROM recount.nodes WHERE until < clock_timestamp() AND node <> $1".into();
    let take: Arc<str> = "UPDATE recount.stores SET epoch = epoch + 1, node = $2
         WHERE name = $1 AND (node IS NULL OR node = $2) AND lost_after IS NULL
         RETURNING epoch, group_number, last_position, last_stream, version, covered_to"
        .into();
    let owner: Arc<str> =
        "SELECT nodes.node, nodes.address, (extract(epoch FROM nodes.until) * 1000)::bigint,
            (extract(epoch FROM nodes.until - clock_timestamp()) * 1000)::bigint
         FROM recount.stores JOIN recount.nodes ON nodes.node = stores.node WHERE stores.name = $1"
            .into();
    let context = format!("taking store {name:?} over");
    let (mut waiting, mut is_waiting) = (TakeOver::default(), false);
    loop {
        session.query(&context, &expire, &[&node]).await.map_err(QueryError::into_fault)?;
        let taken = session.query(&context, &take, &[&name, &node]).await.map_err(QueryError::into_fault)?;
        if let Some(row) = taken.first() {
            return Ok(Ownership {
                counters: Counters::of_row(row),
                version: row.get(4),
                covered_to: row.get::<_, i64>(5).cast_unsigned(),
            });
        }
        let found = session.query(&context, &owner, &[&name]).await.map_err(QueryError::into_fault)?;
        let Some(row) = found.first().filter(|row| row.get::<_, &str>(0) != node) else {
            check_loss(session, name).await?;
            continue;
        };
        let (holder, address, until): (String, String, i64) = (row.get(0), row.get(1), row.get(2));
        let owner = OwnerSeen { node: holder.clone(), until_ms: until, remaining_ms: row.get(3) };
        let TakeOverStep::Wait(pause) = waiting.see(owner) else {
            let at = if address.is_empty() { String::new() } else { format!(" at {address}") };
            let message = format!(
                "store {name:?} is owned by node {holder}{at}, which renews its lease; stop that node, or use another \
                 database"
            );
            return Err(Fault::new(FaultKind::Locked, Retry::Maybe, message));
        };
        if !std::mem::replace(&mut is_waiting, true) {
            tracing::debug!(
                store = name,
                node = holder,
                "waiting for the lease of the previous owner to expire"
            );
        }
        tokio::time::sleep(pause).await;
    }
}

/// Refuses a store that lost acknowledged events.
async fn check_loss(session: &Session, name: &str) -> Result<(), Fault> {
    let sql: Arc<str> =
        "SELECT lost_after, last_position FROM recount.stores WHERE name = $1 AND lost_after IS NOT NULL"
            .into();
    let found = session.query("looking for a loss", &sql, &[&name]).await.map_err(QueryError::into_fault)?;
    match found.first() {
        None => Ok(()),
        Some(row) => {
            Err(loss(name, row.get::<_, i64>(0).cast_unsigned(), row.get::<_, i64>(1).cast_unsigned()))
        }
    }
}

/// The database ends before what an owner has acknowledged.
pub(crate) fn loss(name: &str, acknowledged: u64, last: u64) -> Fault {
    let quoted = name.replace('\'', "''");
    let message = format!(
        "the database has lost acknowledged events of store {name:?}: they were acknowledged up to position {acknowledged}, \
         and it ends at {last}; it was probably switched to a standby that did not have them. Switch back to a server that \
         has them, or give them up with UPDATE recount.stores SET last_position = lost_after, lost_after = NULL WHERE name \
         = '{quoted}'"
    );
    Fault::new(FaultKind::Corrupt, Retry::Never, message)
}

/// The node that owns a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOwner {
    /// Its name, which no other process ever has.
    pub node: String,
    /// Where it can be reached; empty if it did not report that.
    pub address: String,
}

pub(crate) async fn owner(readers: &Readers, name: &str) -> Result<Option<StoreOwner>, Fault> {
    let sql: Arc<str> = "SELECT nodes.node, nodes.address
         FROM recount.stores JOIN recount.nodes ON nodes.node = stores.node WHERE stores.name = $1"
        .into();
    let found = readers.query("looking for the owner of a store", &sql, &[&name]).await?;
    Ok(found.first().map(|row| StoreOwner { node: row.get(0), address: row.get(1) }))
}

/// The nodes and stores of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    pub nodes: Vec<NodeRow>,
    pub stores: Vec<StoreRow>,
}

impl Survey {
    /// The version of the schema of a store that this release writes.
    pub const SCHEMA: i32 = crate::schema::VERSION;
}

/// A process that uses the database, or did until recently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    pub node: String,
    /// Where it can be reached; empty if it did not report that.
    pub address: String,
    /// When it joined, in milliseconds since 1970, by the clock of the database.
    pub since_ms: u64,
    /// How long its lease is still valid; negative if it has expired.
    pub lease_left_ms: i64,
}

/// A store and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRow {
    pub name: String,
    /// The owner; none between two owners.
    pub node: Option<String>,
    /// How many times the store was taken over.
    pub epoch: u64,
    pub last_position: u64,
    pub records: u64,
    pub bytes: u64,
}

const SURVEY_NODES: &str = "SELECT node, address, (extract(epoch FROM since) * 1000)::bigint,
        (extract(epoch FROM until - clock_timestamp()) * 1000)::bigint
     FROM recount.nodes ORDER BY since, node";
const SURVEY_STORES: &str = "SELECT name, node, epoch, last_position, records, bytes FROM recount.stores";

pub(crate) async fn survey(session: &Session) -> Result<Survey, Fault> {
    let context = "listing nodes and stores";
    let nodes = session.query(context, &SURVEY_NODES.into(), &[]).await.map_err(QueryError::into_fault)?;
    let stores = session.query(context, &SURVEY_STORES.into(), &[]).await.map_err(QueryError::into_fault)?;
    Ok(Survey::of(&nodes, &stores))
}

/// The same over a connection that is kept.
pub(crate) async fn survey_again(readers: &Readers) -> Result<Survey, Fault> {
    let context = "listing nodes and stores";
    let nodes = readers.query(context, &SURVEY_NODES.into(), &[]).await?;
    let stores = readers.query(context, &SURVEY_STORES.into(), &[]).await?;
    Ok(Survey::of(&nodes, &stores))
}

impl Survey {
    fn of(nodes: &[Row], stores: &[Row]) -> Self {
        let number = |row: &Row, column: usize| row.get::<_, i64>(column).max(0).cast_unsigned();
        let nodes = nodes.iter().map(|row| NodeRow {
            node: row.get(0),
            address: row.get(1),
            since_ms: number(row, 2),
            lease_left_ms: row.get(3),
        });
        let stores = stores.iter().map(|row| StoreRow {
            name: row.get(0),
            node: row.get(1),
            epoch: number(row, 2),
            last_position: number(row, 3),
            records: number(row, 4),
            bytes: number(row, 5),
        });
        let mut survey = Survey { nodes: nodes.collect(), stores: stores.collect() };
        survey.stores.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        survey
    }
}

/// The value of a setting of the server.
pub(crate) async fn setting(session: &Session, name: &str) -> Result<String, Fault> {
    let sql: Arc<str> = "SELECT current_setting($1)".into();
    let rows = session.query("reading a setting of the database", &sql, &[&name]).await;
    Ok(rows.map_err(QueryError::into_fault)?.first().map(|row| row.get(0)).unwrap_or_default())
}

/// Warnings about settings with which acknowledged events can be lost.
pub(crate) async fn advice(session: &Session) -> Result<Vec<String>, Fault> {
    let mut advice = Vec::new();
    let risks = [
        ("fsync", "off", "a crash of the database's machine can destroy the whole database"),
        ("full_page_writes", "off", "a crash of the database's machine can destroy pages"),
        ("synchronous_commit", "off", "a crash of the database loses the last acknowledged events"),
    ];
    for (name, value, risk) in risks {
        if setting(session, name).await? == value {
            advice.push(format!("{name} is {value}: {risk}; set it to on"));
        }
    }
    let (commit, standbys) =
        (setting(session, "synchronous_commit").await?, setting(session, "synchronous_standby_names").await?);
    if standbys.trim().is_empty() || commit == "local" {
        advice.push(
            "no standby is synchronous: a failover of PostgreSQL can lose acknowledged events; set \
             synchronous_standby_names if there is a standby"
                .to_owned(),
        );
    }
    Ok(advice)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_readable_short_and_distinct() {
        let schema = schema_name("default");
        assert!(schema.starts_with("recount_default_"), "{schema}");
        let long = "Ä\"'x".repeat(300);
        for name in ["", "a", "A", "a b", "a-b", "a_b", &long] {
            let schema = schema_name(name);
            assert!(schema.len() < 63, "{schema}");
            assert!(
                schema.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
        }
        assert_ne!(schema_name("a-b"), schema_name("a_b"));
    }
}
