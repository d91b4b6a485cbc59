//! Bare PostgreSQL: a binary COPY per group, and an INSERT per event by many clients.
//!
//! One table with a primary key; no streams, no counters, no rows, no notification.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::SinkExt as _;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::{Client, NoTls};

use super::group::{self, Commit};
use crate::clock::{now_ns, seconds_since};
use crate::histogram::Histogram;
use crate::scene;

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS bare (id bigint PRIMARY KEY, bytes bytea NOT NULL); TRUNCATE bare";

/// Clients that insert at the same time.
const CLIENTS: usize = 32;

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    Handle::current().spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("a connection of the yardstick ended: {error}");
        }
    });
    Ok(client)
}

/// Commits each group with one binary COPY, a row per event.
pub(crate) struct Copy {
    runtime: Runtime,
    client: Client,
    next: i64,
}

impl Copy {
    pub(crate) fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let client = connect(url).await?;
            client.batch_execute(TABLE).await?;
            anyhow::Ok(client)
        })?;
        Ok(Copy { runtime, client, next: 1 })
    }
}

impl Commit for Copy {
    fn commit(&mut self, group: &[u8]) -> Result<()> {
        let mut rows = BytesMut::with_capacity(group.len() + group.len() / 10 + 64);
        rows.put_slice(b"PGCOPY\n\xff\r\n\0");
        rows.put_u64(0);
        // Events have nearly this size, so there are as many rows as events.
        for event in group.chunks(scene::STORED_BYTES) {
            rows.put_i16(2);
            rows.put_i32(8);
            rows.put_i64(self.next);
            rows.put_i32(i32::try_from(event.len())?);
            rows.put_slice(event);
            self.next += 1;
        }
        rows.put_i16(-1);
        self.runtime.block_on(async {
            let sink = self.client.copy_in::<_, Bytes>("COPY bare (id, bytes) FROM STDIN BINARY").await?;
            let mut sink = std::pin::pin!(sink);
            sink.send(rows.freeze()).await?;
            sink.finish().await?;
            Ok(())
        })
    }
}

/// Durations of single inserts in sequence, so many a second, for so many seconds.
pub(crate) fn commits(url: &str, seconds: f64, rate: u64) -> Result<Histogram> {
    let runtime = group::runtime()?;
    runtime.block_on(async {
        let client = connect(url).await?;
        client.batch_execute(TABLE).await?;
        let insert = client.prepare("INSERT INTO bare (id, bytes) VALUES ($1, $2)").await?;
        let mut times = Histogram::default();
        let (begin, mut count) = (now_ns(), 0_u64);
        while seconds_since(begin) < seconds {
            let due = begin + count * 1_000_000_000 / rate;
            tokio::time::sleep(Duration::from_nanos(due.saturating_sub(now_ns()))).await;
            let start = now_ns();
            let event = scene::stored(count, start);
            client.execute(&insert, &[&count.cast_signed(), &&event[..]]).await?;
            times.add(now_ns() - start);
            count += 1;
        }
        Ok(times)
    })
}

/// Events a second of many clients that insert one event after the other.
pub(crate) fn inserts(url: &str, seconds: f64) -> Result<f64> {
    let runtime = group::runtime()?;
    runtime.block_on(async {
        connect(url).await?.batch_execute(TABLE).await?;
        let over = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for first in 0..CLIENTS {
            let client = connect(url).await?;
            let insert = client.prepare("INSERT INTO bare (id, bytes) VALUES ($1, $2)").await?;
            clients.push((first, client, insert));
        }
        let start = now_ns();
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|(first, client, insert)| {
                let over = over.clone();
                runtime.spawn(async move {
                    let mut count = 0_u64;
                    while !over.load(Ordering::Relaxed) {
                        let id = first as i64 + count.cast_signed() * CLIENTS as i64;
                        let event = scene::stored(count, now_ns());
                        client.execute(&insert, &[&id, &&event[..]]).await?;
                        count += 1;
                    }
                    anyhow::Ok(count)
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        over.store(true, Ordering::Relaxed);
        let mut count = 0;
        for task in tasks {
            count += task.await??;
        }
        Ok(count as f64 / seconds_since(start))
    })
}
