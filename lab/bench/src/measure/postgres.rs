//! Measures appends to a store on PostgreSQL, through the engine and all of the store: rows, counters, notification.
//!
//! PostgreSQL runs on the same machine, with `fsync` and synchronous commits.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use recount_log::{Append, Bytes, Store, StreamAppend};
use recount_log_postgres::{Database, PostgresOptions};
use recount_test_postgres::Server;
use tokio_postgres::{AsyncMessage, NoTls};

use super::append::engine_on;
use super::{Bench, alternate};
use crate::clock::now_ns;
use crate::histogram::Histogram;
use crate::scene;
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
    SheetRow {
        key: "postgres.notified",
        what: "append to PostgreSQL, one writer, sent to notified on another connection, p50 against sent to committed",
        unit: "ms",
        bar: Bar::RatioAtMost(2.0),
    },
];

/// Settings that make each commit durable.
const DURABLE: &[(&str, &str)] =
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
    let (notified, committed) = notified(&server.fresh_database()?, bench.pick(20, 400))?;
    sheet.pair("postgres.notified", notified.p50_ms(), committed.p50_ms());
    Ok(())
}

/// Times from an append to its notification on another connection, and to its receipt.
fn notified(url: &str, appends: u64) -> Result<(Histogram, Histogram)> {
    let runtime = group::runtime()?;
    let database = Database::open(PostgresOptions::new(url))?;
    let store = database.open_store("bench")?;
    let times = runtime.block_on(async {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let (sender, mut received) = tokio::sync::mpsc::channel::<u64>(16);
        runtime.spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if matches!(message, AsyncMessage::Notification(_)) && sender.send(now_ns()).await.is_err() {
                    return;
                }
            }
        });
        let schema: String = client.query_one("SELECT schema FROM recount.stores", &[]).await?.get(0);
        client.batch_execute(&format!("LISTEN \"{schema}\"")).await?;
        let (mut notified, mut committed) = (Histogram::default(), Histogram::default());
        for sequence in 0..appends {
            let start = now_ns();
            let records = vec![Bytes::from(scene::stored(sequence, start))];
            let streams = vec![StreamAppend { stream: "one".into(), expected_tail: sequence, records }];
            store.append(Append { streams, ..Append::default() }).await?;
            committed.add(now_ns() - start);
            let patience = Duration::from_secs(10);
            let at = tokio::time::timeout(patience, received.recv()).await?.context("the listener ended")?;
            notified.add(at.saturating_sub(start));
        }
        anyhow::Ok((notified, committed))
    });
    database.close();
    times
}
