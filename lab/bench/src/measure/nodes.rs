//! Measures two servers on one PostgreSQL: from sending an event to the owner to its arrival at a reader of the standby.

use std::net::{SocketAddr, TcpListener};

use anyhow::{Context as _, Result, anyhow};
use recount_test_postgres::Server as Postgres;

use super::postgres::DURABLE;
use super::wake::one_reader;
use super::{Bench, alternate};
use crate::process::Server;
use crate::sheet::{Bar, Sheet, SheetRow};
use crate::yardstick::postgres::commits;

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "nodes.wake.confirmed",
        what: "one writer at the owner, one reader at the standby, sent to read, p50 against sent to confirmed at the owner",
        unit: "ms",
        bar: Bar::RatioAtMost(2.0),
    },
    SheetRow {
        key: "nodes.wake.insert",
        what: "the same against one INSERT in the same PostgreSQL, without HTTP and rows",
        unit: "ms",
        bar: Bar::RatioAtMost(2.0),
    },
];

const RATE: u64 = 200;

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let postgres = Postgres::start(DURABLE)?;
    let (mut ours, mut once) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                let (one, two) = (bench.scratch("one")?, bench.scratch("two")?);
                let url = postgres.fresh_database()?;
                let owner = Server::on_database(one.path(), &url)?;
                let key = |folder: &std::path::Path| folder.join("keys/seal");
                std::fs::create_dir_all(two.path().join("keys"))?;
                std::fs::copy(key(one.path()), key(two.path()))?;
                let standby = Server::standby(two.path(), &url, free_address()?)?;
                let found = one_reader(bench, sheet, &owner, &standby, RATE)?;
                ours = Some((found.late, found.confirmed));
                standby.stop()?;
                owner.stop()
            },
            &mut || {
                once = Some(commits(&postgres.fresh_database()?, bench.short_seconds(), RATE)?);
                Ok(())
            },
        ],
    )?;
    let ((ours, confirmed), once) = ours.zip(once).ok_or_else(|| anyhow!("a window is missing"))?;
    sheet.pair("nodes.wake.confirmed", ours.p50_ms(), confirmed.p50_ms());
    sheet.pair("nodes.wake.insert", ours.p50_ms(), once.p50_ms());
    Ok(())
}

/// An address that nothing uses now.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    Ok(listener.local_addr()?)
}
