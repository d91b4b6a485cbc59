//! The tables, as steps from each released schema to the next.
//!
//! Steps go forward only and are never edited once released; `testdata/stores` keeps a database of every
//! schema. The database's `user_version` is the number of steps taken, and `application_id`
//! identifies it as ours. Nothing here touches the bytes of a record.

use recount_log::{Fault, FaultKind, Retry};
use rusqlite::Connection;

use crate::fault::{FaultContext as _, corrupt};
use crate::{seal, sums};

/// "Rcnt", in the database header.
pub(crate) const APPLICATION_ID: i64 = 0x5263_6e74;

/// Step `n` leads from schema `n` to schema `n + 1`.
const STEPS: &[SchemaStep] = &[
    // 1: one row a record, in commit order.
    SchemaStep::Sql(
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
    ),
    // 2: one row a commit group, sealed into chunks of one stream each.
    SchemaStep::Moving {
        first: r#"
    DROP VIEW log;
    ALTER TABLE events RENAME TO single;
    -- Of what is sealed, or taken away. No start: the stream was never cut.
    ALTER TABLE streams ADD COLUMN first_sequence INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE streams ADD COLUMN start BLOB;
    ALTER TABLE streams ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;

    -- The hot part. What is large comes last, so that the rest is read without it.
    CREATE TABLE groups (
        first_position INTEGER PRIMARY KEY,
        records INTEGER NOT NULL,
        "index" BLOB NOT NULL,
        events ANY NOT NULL
    ) STRICT;

    -- The sealed part. The rows are large, so the order of streams is kept in an index beside them and not
    -- in the tree that holds them.
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL,
        first_sequence INTEGER NOT NULL,
        records INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        start BLOB NOT NULL,
        first_position INTEGER NOT NULL,
        "index" BLOB NOT NULL,
        positions BLOB NOT NULL,
        events ANY NOT NULL,
        UNIQUE (stream, first_sequence)
    ) STRICT;

    -- Which sealed record is at which position.
    CREATE TABLE feed (
        first_position INTEGER PRIMARY KEY,
        last_position INTEGER NOT NULL,
        spans BLOB NOT NULL
    ) STRICT;

    CREATE TABLE sealed (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        records INTEGER NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
    INSERT INTO sealed (id, records, bytes) VALUES (1, 0, 0);
    "#,
        moving: seal::seal_single_rows,
        last: r#"
    DROP TABLE single;

    -- For people with any SQLite tool. Records that are no JSON objects are not shown. What is hot tells by
    -- itself whose it is; what is sealed is told by where it is.
    CREATE VIEW log (run_id, sequence, position, envelope) AS
        SELECT streams.key, chunks.first_sequence + one.key,
            -- Four bytes as a number, in words that old tools know too.
            chunks.first_position + (SELECT (instr('123456789ABCDEF', substr(h, 1, 1)) << 28) + (instr('123456789ABCDEF', substr(h, 2, 1)) << 24) +
                (instr('123456789ABCDEF', substr(h, 3, 1)) << 20) + (instr('123456789ABCDEF', substr(h, 4, 1)) << 16) +
                (instr('123456789ABCDEF', substr(h, 5, 1)) << 12) + (instr('123456789ABCDEF', substr(h, 6, 1)) << 8) +
                (instr('123456789ABCDEF', substr(h, 7, 1)) << 4) + (instr('123456789ABCDEF', substr(h, 8, 1)) << 0)
                FROM (SELECT hex(substr(chunks.positions, 4 * one.key + 1, 4)) AS h)),
            one.value
        FROM streams JOIN chunks ON chunks.stream = streams.id
        JOIN json_each(iif(typeof(chunks.events) = 'text' AND json_valid(chunks.events)
            AND json_array_length(chunks.events) = chunks.records, chunks.events, '[]')) AS one
        UNION ALL
        SELECT one.value ->> '$.run_id', one.value ->> '$.sequence', groups.first_position + one.key, one.value
        FROM groups
        JOIN json_each(iif(typeof(groups.events) = 'text' AND json_valid(groups.events)
            AND json_array_length(groups.events) = groups.records, groups.events, '[]')) AS one
        WHERE one.type = 'object';

    CREATE VIEW events (run_id, sequence, type, occurred_at, envelope) AS
        SELECT run_id, sequence, envelope ->> '$.type', envelope ->> '$.occurred_at', envelope FROM log;
    "#,
    },
    // 3: a record may be in a chunk and in its group; older releases must not open the store.
    SchemaStep::Sql(
        r#"
    DROP VIEW events;
    DROP VIEW log;

    -- As before, but what is sealed is told by its chunk alone.
    CREATE VIEW log (run_id, sequence, position, envelope) AS
        SELECT streams.key, chunks.first_sequence + one.key,
            -- Four bytes as a number, in words that old tools know too.
            chunks.first_position + (SELECT (instr('123456789ABCDEF', substr(h, 1, 1)) << 28) + (instr('123456789ABCDEF', substr(h, 2, 1)) << 24) +
                (instr('123456789ABCDEF', substr(h, 3, 1)) << 20) + (instr('123456789ABCDEF', substr(h, 4, 1)) << 16) +
                (instr('123456789ABCDEF', substr(h, 5, 1)) << 12) + (instr('123456789ABCDEF', substr(h, 6, 1)) << 8) +
                (instr('123456789ABCDEF', substr(h, 7, 1)) << 4) + (instr('123456789ABCDEF', substr(h, 8, 1)) << 0)
                FROM (SELECT hex(substr(chunks.positions, 4 * one.key + 1, 4)) AS h)),
            one.value
        FROM streams JOIN chunks ON chunks.stream = streams.id
        JOIN json_each(iif(typeof(chunks.events) = 'text' AND json_valid(chunks.events)
            AND json_array_length(chunks.events) = chunks.records, chunks.events, '[]')) AS one
        UNION ALL
        SELECT one.value ->> '$.run_id', one.value ->> '$.sequence', groups.first_position + one.key, one.value
        FROM groups
        JOIN json_each(iif(typeof(groups.events) = 'text' AND json_valid(groups.events)
            AND json_array_length(groups.events) = groups.records, groups.events, '[]')) AS one
        WHERE one.type = 'object'
            AND one.value ->> '$.sequence' >= coalesce((SELECT next_sequence FROM streams WHERE key = one.value ->> '$.run_id'), 0);

    CREATE VIEW events (run_id, sequence, type, occurred_at, envelope) AS
        SELECT run_id, sequence, envelope ->> '$.type', envelope ->> '$.occurred_at', envelope FROM log;
    "#,
    ),
    // 4: changed rows are written to their table later; until then the journal has the newest state.
    SchemaStep::Sql(
        r#"
    -- What rows are from one commit on. What lies before the newest one's `first_needed` is in the table.
    CREATE TABLE changes (
        slot INTEGER PRIMARY KEY,
        number INTEGER NOT NULL,
        first_needed INTEGER NOT NULL,
        changes BLOB NOT NULL
    ) STRICT;
    "#,
    ),
    // 5: rows have checksums. Older chunks have none and are checked by their chain.
    SchemaStep::Moving { first: "", moving: sums::fill, last: "" },
];

/// How a schema is migrated.
enum SchemaStep {
    Sql(&'static str),
    /// What SQL alone cannot do happens in the middle.
    Moving {
        first: &'static str,
        moving: fn(&Connection) -> Result<(), Fault>,
        last: &'static str,
    },
}

/// The schema this release writes.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// Why a database is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A sound database of another program or a newer release.
    NotOurs(Fault),
    /// A damaged database of this program.
    Damaged(Fault),
    /// Any other failure.
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

/// Refuses a database of another program or a newer release, without changes. Returns its schema: 0 for an empty
/// database.
pub(crate) fn identify(connection: &Connection, name: &str) -> Result<i64, Refusal> {
    let number = |pragma: &str| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .context(&format!("reading {pragma} of {name}"))
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application == APPLICATION_ID {
        if version > VERSION {
            let message = format!(
                "{name} has schema {version}; this release supports schemas up to {VERSION}; use the release \
                 that wrote it or a newer one"
            );
            return Err(Refusal::NotOurs(Fault::new(FaultKind::Newer, Retry::Never, message)));
        }
        if version < 1 {
            return Err(
                corrupt(format!("{name} has the application id of Recount but schema {version}")).into()
            );
        }
        return Ok(version);
    }
    let objects = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .context(&format!("reading the tables of {name}"))?;
    if (application, version, objects) == (0, 0, 0) {
        return Ok(0);
    }
    Err(Refusal::NotOurs(corrupt(format!(
        "{name} belongs to another program (application id {application:#010x}, {objects} tables and indexes); choose another data folder"
    ))))
}

/// Runs the missing steps, each in a transaction of its own.
pub(crate) fn migrate(connection: &Connection, name: &str) -> Result<(), Refusal> {
    let version = identify(connection, name)?;
    for (step, next) in STEPS.iter().zip(1_i64..).skip(usize::try_from(version).unwrap_or(usize::MAX)) {
        let context = format!("migrating {name} to schema {next}");
        let run = |sql: &str| connection.execute_batch(sql).context(&context);
        let take = || -> Result<(), Fault> {
            run("BEGIN IMMEDIATE")?;
            match step {
                SchemaStep::Sql(sql) => run(sql)?,
                SchemaStep::Moving { first, moving, last } => {
                    run(first)?;
                    moving(connection)?;
                    run(last)?;
                }
            }
            run(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {next}; COMMIT"))
        };
        if let Err(fault) = take() {
            // Dropping the connection would roll back too; this only does it sooner.
            drop(connection.execute_batch("ROLLBACK"));
            return Err(fault.into());
        }
        if version > 0 {
            tracing::info!(database = name, schema = next, "the schema was migrated");
        }
    }
    Ok(())
}
