//! Measures appends to a store on PostgreSQL, through the engine and all of the store: rows and counters.
//!
//! PostgreSQL runs on the same machine, with `fsync` and synchronous commits.

use std::sync::Arc;

use anyhow::Result;
use recount_log::Store;
use recount_log_postgres::{Database, PostgresOptions};
use recount_test_postgres::Server;

use super::append::engine_on;
use super::{Bench, alternate};
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::yardstick::group;
use crate::yardstick::postgres::{Copy, inserts};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "postgres.256x1.copy",
        what: "append to PostgreSQL, 256 writers × 1 event, against bare COPY of the same groups",
        unit: "events/s",
        bar: Bar::RatioAtLeast(0.5),
    },
    SheetRow {
        key: "postgres.256x1.insert",
        what: "append to PostgreSQL, 256 writers × 1 event, against an INSERT per event by 32 clients",
        unit: "events/s",
        bar: Bar::RatioAtLeast(4.0),
    },
];

/// Settings that make each commit durable.
pub(super) const DURABLE: &[(&str, &str)] =
    &[("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on"), ("max_wal_size", "4GB")];

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let (writers, seconds) = (bench.pick(16, 256), bench.short_seconds());
    let server = Server::start(DURABLE)?;
    let (mut ours, mut copied, mut inserted) = (0.0, 0.0, 0.0);
    alternate(
        pair,
        &mut [
            &mut || {
                let database = Database::open(PostgresOptions::new(server.fresh_database()?))?;
                let store: Arc<dyn Store> = Arc::new(database.open_store("bench")?);
                ours = engine_on(store, writers, 1, seconds)?.0.events_a_second();
                database.close();
                Ok(())
            },
            &mut || {
                let copy = Copy::open(&server.fresh_database()?)?;
                copied = group::run(copy, writers, 1, seconds)?.events_a_second();
                Ok(())
            },
            &mut || {
                inserted = inserts(&server.fresh_database()?, seconds)?;
                Ok(())
            },
        ],
    )?;
    sheet.pair("postgres.256x1.copy", ours, copied);
    sheet.pair("postgres.256x1.insert", ours, inserted);
    Ok(())
}
