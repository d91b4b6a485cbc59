//! The tables, as steps from each released schema to the next.
//!
//! Steps go forward only and are never edited once released; `testdata/stores` keeps a database of every
//! schema. The number of steps taken is kept in the database's `user_version`, and `application_id`
//! says that it is ours. Nothing here touches the bytes of a record.

use recount_log::{Fault, FaultKind, Retry};
use rusqlite::Connection;

use crate::fault::{Doing as _, corrupt};

/// "Rcnt", in the database header.
pub(crate) const APPLICATION_ID: i64 = 0x5263_6e74;

/// Step `n` leads from schema `n` to schema `n + 1`.
const STEPS: &[&str] = &[
    // 1: one row a record, in commit order.
    r#"
    CREATE TABLE streams (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        next_sequence INTEGER NOT NULL,
        last_position INTEGER NOT NULL,
        head BLOB NOT NULL
    ) STRICT;

    CREATE TABLE events (
        position INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (stream, sequence)
    ) STRICT;

    CREATE TABLE "rows" (
        space TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (space, key)
    ) STRICT, WITHOUT ROWID;

    -- Counts the commits that bury what a failed one may have left behind.
    CREATE TABLE fence (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        count INTEGER NOT NULL
    ) STRICT;
    INSERT INTO fence (id, count) VALUES (1, 0);

    -- For people with any SQLite tool.
    CREATE VIEW log (run_id, sequence, position, envelope) AS
        SELECT streams.key, events.sequence, events.position, CAST(events.bytes AS TEXT)
        FROM events JOIN streams ON streams.id = events.stream;
    "#,
];

/// The schema this release writes.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// Why a database is not opened.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It is in order, but not for us.
    NotOurs(Fault),
    /// It was ours, and something in it is not as it was written.
    Damaged(Fault),
    /// Anything else.
    Failed(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Corrupt => Refusal::Damaged(fault),
            _ => Refusal::Failed(fault),
        }
    }
}

/// Refuses a database that is not ours or is newer than we are; nothing is changed. Answers its schema:
/// 0 for an empty one.
pub(crate) fn identify(connection: &Connection, name: &str) -> Result<i64, Refusal> {
    let number = |pragma: &str| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .doing(&format!("reading {pragma} of {name}"))
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application == APPLICATION_ID {
        if version > VERSION {
            let message = format!(
                "{name} has schema {version}, this release knows schemas up to {VERSION}; use the release that wrote it or a newer one"
            );
            return Err(Refusal::NotOurs(Fault::new(FaultKind::Newer, Retry::Never, message)));
        }
        if version < 1 {
            return Err(corrupt(format!("{name} says it is ours but has schema {version}")).into());
        }
        return Ok(version);
    }
    let things = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .doing(&format!("reading the tables of {name}"))?;
    if (application, version, things) == (0, 0, 0) {
        return Ok(0);
    }
    Err(Refusal::NotOurs(corrupt(format!(
        "{name} belongs to another program (application id {application:#010x}, {things} tables and indexes); choose another data folder"
    ))))
}

/// Takes the steps that are missing, each in a transaction of its own.
pub(crate) fn migrate(connection: &Connection, name: &str) -> Result<(), Refusal> {
    let version = identify(connection, name)?;
    for (step, next) in STEPS.iter().zip(1_i64..).skip(usize::try_from(version).unwrap_or(usize::MAX)) {
        let sql = format!(
            "BEGIN IMMEDIATE;\n{step}\nPRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {next};\nCOMMIT;"
        );
        connection.execute_batch(&sql).doing(&format!("bringing {name} to schema {next}"))?;
        tracing::info!(database = name, schema = next, "the schema was brought forward");
    }
    Ok(())
}
