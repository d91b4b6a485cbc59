//! The statements of one store. Each is prepared once on each connection.
//!
//! It must not execute anything. The tables are in `schema.rs` and `shared.rs`.

use std::sync::Arc;

pub(crate) struct Sql {
    /// The schema of the store, quoted.
    pub(crate) schema: String,
    pub(crate) commit: Arc<str>,
    pub(crate) commit_removal: Arc<str>,
    pub(crate) repair: Arc<str>,
    /// Skips the number of a group that was not committed, after the end of any statement that commits it, so that none can
    /// commit it later.
    pub(crate) skip: Arc<str>,
    pub(crate) counters: Arc<str>,
    pub(crate) note_loss: Arc<str>,
    pub(crate) give_back: Arc<str>,
    pub(crate) streams_by_name: Arc<str>,
    pub(crate) stream_names: Arc<str>,
    pub(crate) records: Arc<str>,
    pub(crate) feed: Arc<str>,
    pub(crate) row_versions: Arc<str>,
    pub(crate) row: Arc<str>,
    pub(crate) rows: Arc<str>,
    pub(crate) rows_backwards: Arc<str>,
    pub(crate) all_rows: Arc<str>,
    pub(crate) put_blob: Arc<str>,
    pub(crate) blob_versions: Arc<str>,
    pub(crate) remove_blob: Arc<str>,
    pub(crate) blob: Arc<str>,
    pub(crate) blobs: Arc<str>,
    pub(crate) size: Arc<str>,
    pub(crate) partitions: Arc<str>,
}

/// The first 23 parameters of both commits.
const COMMIT: &str = "
WITH own AS (
    UPDATE recount.stores SET group_number = group_number + 1, last_position = $4::bigint,
        last_stream = $5::bigint, records = records + $6::bigint, bytes = bytes + $7::bigint
    WHERE name = $1 AND epoch = $2::bigint AND group_number = $3::bigint AND {own} RETURNING 1
), new_streams AS (
    INSERT INTO {schema}.streams (id, name, first_position, sum)
    SELECT new.* FROM own, unnest($8::bigint[], $9::bytea[], $10::bigint[], $11::bigint[]) AS new
), new_records AS (
    INSERT INTO {schema}.records (position, stream, sequence, bytes, sum)
    SELECT new.* FROM own, unnest($12::bigint[], $13::bigint[], $14::bigint[], $15::bytea[], $16::bigint[]) AS new
), put_rows AS (
    INSERT INTO {schema}.rows (space, key, version, value, sum)
    SELECT new.* FROM own, unnest($17::bytea[], $18::bytea[], $19::bigint[], $20::bytea[], $21::bigint[]) AS new
    ON CONFLICT (space, key) DO UPDATE
    SET version = excluded.version, value = excluded.value, sum = excluded.sum
), deleted_rows AS (
    DELETE FROM {schema}.rows USING own, unnest($22::bytea[], $23::bytea[]) AS old (space, key)
    WHERE rows.space = old.space AND rows.key = old.key
)";

/// What a removal adds: new bounds of streams, and the deletion of their records before these.
const REMOVAL: &str = ", bounds AS (
    UPDATE {schema}.streams SET first_sequence = new.first_sequence, start = new.start,
        next_sequence = new.next_sequence, last_position = new.last_position, erased = new.erased, sum = new.sum
    FROM own, unnest($24::bigint[], $25::bigint[], $26::bytea[], $27::bigint[], $28::bigint[], $29::boolean[],
        $30::bigint[]) AS new (id, first_sequence, start, next_sequence, last_position, erased, sum)
    WHERE streams.id = new.id
), removed AS (
    DELETE FROM {schema}.records USING own, unnest($24::bigint[], $25::bigint[]) AS new (id, first_sequence)
    WHERE records.stream = new.id AND records.sequence < new.first_sequence
)";

/// The result has one row if the group was committed. Nothing is notified: no node follows a store that it does not own, and
/// a notification makes the commits of all stores wait for each other.
const DONE: &str = " SELECT 1 FROM own";

/// The records of a page, which ends before the one that exceeds the bound of bytes, except for the first.
const PAGE: &str = "
SELECT * FROM (
    SELECT position, stream, sequence, bytes, sum,
        sum(octet_length(bytes)) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS total
    FROM {schema}.records WHERE {condition} ORDER BY {order} LIMIT $1::bigint
) AS page WHERE total <= $2::bigint OR total = octet_length(bytes)";

impl Sql {
    pub(crate) fn new(schema: &str, node: &str) -> Self {
        let own = format!("node = '{}'", node.replace('\'', "''"));
        let quoted = format!("\"{schema}\"");
        let fill =
            |text: &str| -> Arc<str> { text.replace("{schema}", &quoted).replace("{own}", &own).into() };
        let page =
            |order: &str, condition: &str| PAGE.replace("{order}", order).replace("{condition}", condition);
        let feed = format!(
            "SELECT page.*, streams.name FROM ({}) AS page LEFT JOIN {{schema}}.streams ON streams.id = page.stream \
             ORDER BY page.position",
            page("position", "position >= $3::bigint")
        );
        let rows = |order: &str| {
            fill(&format!(
                "SELECT key, version, value, sum FROM {{schema}}.rows WHERE space = $1 AND key >= $2 AND key < $3 \
                 ORDER BY key {order} LIMIT $4::bigint"
            ))
        };
        let counters = "SELECT epoch, group_number, last_position, last_stream, records, bytes FROM recount.stores \
                        WHERE name = $1";
        Sql {
            commit: fill(&format!("{COMMIT}{DONE}")),
            commit_removal: fill(&format!("{COMMIT}{REMOVAL}{DONE}")),
            repair: fill(
                "WITH own AS (
                    UPDATE recount.stores SET group_number = group_number + 1
                    WHERE name = $1 AND epoch = $2::bigint AND group_number = $3::bigint AND {own} RETURNING 1
                ), put_rows AS (
                    INSERT INTO {schema}.rows (space, key, version, value, sum)
                    SELECT new.* FROM own, unnest($4::bytea[], $5::bytea[], $6::bigint[], $7::bytea[], $8::bigint[]) AS new
                    ON CONFLICT (space, key) DO UPDATE
                    SET version = excluded.version, value = excluded.value, sum = excluded.sum
                ), deleted_rows AS (
                    DELETE FROM {schema}.rows USING own, unnest($9::bytea[], $10::bytea[]) AS old (space, key)
                    WHERE rows.space = old.space AND rows.key = old.key
                ) SELECT 1 FROM own",
            ),
            skip: fill(
                "UPDATE recount.stores SET group_number = group_number + 2
                 WHERE name = $1 AND epoch = $2::bigint AND group_number = $3::bigint AND {own}
                 RETURNING epoch, group_number, last_position, last_stream",
            ),
            counters: counters.into(),
            note_loss: "UPDATE recount.stores SET lost_after = $3::bigint WHERE name = $1 AND epoch <= $2".into(),
            give_back: "UPDATE recount.stores SET node = NULL WHERE name = $1 AND epoch = $2".into(),
            streams_by_name: fill(
                "SELECT wanted.place, streams.id, streams.first_position, streams.first_sequence, streams.start,
                    streams.next_sequence, streams.last_position, streams.erased, streams.sum, last.sequence, last.position
                 FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (name, place)
                 JOIN {schema}.streams ON streams.name = wanted.name
                 LEFT JOIN LATERAL (
                     SELECT records.sequence, records.position FROM {schema}.records
                     WHERE records.stream = streams.id AND records.position >= streams.first_position
                     ORDER BY records.sequence DESC LIMIT 1
                 ) AS last ON true",
            ),
            stream_names: fill(
                "SELECT name FROM {schema}.streams WHERE $1::bytea IS NULL OR name > $1 ORDER BY name LIMIT $2::bigint",
            ),
            records: fill(&page("sequence", "stream = $3::bigint AND sequence >= $4::bigint AND position >= $5::bigint")),
            feed: fill(&feed),
            row_versions: fill(
                "SELECT wanted.place, rows.version FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY
                    AS wanted (space, key, place)
                 JOIN {schema}.rows ON rows.space = wanted.space AND rows.key = wanted.key",
            ),
            row: fill("SELECT version, value, sum FROM {schema}.rows WHERE space = $1 AND key = $2"),
            rows: rows(""),
            rows_backwards: rows("DESC"),
            all_rows: fill(
                "SELECT space, key, version, value, sum FROM {schema}.rows WHERE (space, key) > ($1::bytea, $2::bytea)
                 ORDER BY space, key LIMIT $3::bigint",
            ),
            // Storing is harmless even if another node takes over meanwhile, so nothing is locked. Each part gets a new version,
            // also if its bytes stay, so that a removal from before does not find it.
            put_blob: fill(
                "WITH own AS (SELECT 1 FROM recount.stores WHERE name = $1 AND epoch = $2::bigint), parts AS (
                    INSERT INTO {schema}.blobs (hash, part, bytes)
                    SELECT $3::bytea, new.* FROM own, unnest($4::bigint[], $5::bytea[]) AS new
                    ON CONFLICT (hash, part) DO UPDATE
                    SET bytes = CASE WHEN blobs.bytes = excluded.bytes THEN blobs.bytes ELSE excluded.bytes END
                 ), extra AS (
                    DELETE FROM {schema}.blobs USING own WHERE hash = $3::bytea AND part >= cardinality($4::bigint[])
                 ) SELECT 1 FROM own",
            ),
            blob_versions: fill(
                "SELECT coalesce(array_agg(DISTINCT xmin::text), '{}') FROM {schema}.blobs WHERE hash = $1",
            ),
            // The lock makes a new owner wait, which may store the same bytes again. The versions are those from before: the
            // network may deliver this statement after the same bytes were stored again.
            remove_blob: fill(
                "WITH own AS (SELECT 1 FROM recount.stores WHERE name = $1 AND epoch = $2::bigint FOR SHARE), parts AS (
                    DELETE FROM {schema}.blobs USING own
                    WHERE hash = $3::bytea AND blobs.xmin::text = ANY ($4::text[])
                 ) SELECT 1 FROM own",
            ),
            blob: fill("SELECT part, bytes FROM {schema}.blobs WHERE hash = $1 ORDER BY part"),
            blobs: fill(
                "SELECT hash FROM {schema}.blobs WHERE part = 0 AND ($1::bytea IS NULL OR hash > $1) ORDER BY hash
                 LIMIT $2::bigint",
            ),
            size: "SELECT coalesce(sum(pg_relation_size(class.oid)), 0)::bigint FROM pg_class AS class
                   JOIN pg_namespace AS space ON space.oid = class.relnamespace
                   WHERE space.nspname = $1 AND class.relkind IN ('r', 'i') AND class.relname NOT LIKE 'blobs%'"
                .into(),
            partitions: "SELECT child.relname::text FROM pg_inherits
                         JOIN pg_class AS child ON child.oid = inhrelid
                         JOIN pg_class AS parent ON parent.oid = inhparent
                         JOIN pg_namespace AS space ON space.oid = parent.relnamespace
                         WHERE space.nspname = $1 AND parent.relname = 'records'"
                .into(),
            schema: quoted,
        }
    }
}
