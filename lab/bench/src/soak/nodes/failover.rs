//! Fails PostgreSQL over to a standby, with and without a loss of commits.
//!
//! The standby replicates through a link of its own, and the servers reach it through theirs. Start at [`without_loss`] and
//! [`with_loss`].

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use recount_faulty_link::{Flow, Link};
use recount_test_postgres::{Server as Postgres, Signal};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::load::{create, insist};
use super::{Sequence, poll};
use crate::soak::salvage::on_thread;

/// Events that are acknowledged and then lost.
const LOST_MIN: u64 = 20;

/// Every commit waits for the standby, so it has all of them when it becomes the primary.
pub(super) async fn without_loss(sequence: &Sequence) -> Result<String> {
    let primary = sequence.pair.postgres();
    let link = Link::start(SocketAddr::from((Ipv4Addr::LOCALHOST, primary.port())))?;
    let standby = start_standby(sequence, &primary, &link).await?;
    let url = sequence.pair.url();
    value(&url, "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    value(&url, "SELECT pg_reload_conf()").await;
    let is_synchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
    poll("synchronous replication", async || value(&url, is_synchronous).await).await?;
    wait_for_appends(sequence, LOST_MIN).await;
    switch(sequence, primary, standby).await?;
    Ok("to a standby with everything".to_owned())
}

/// The standby lacks commits. The store must stop and name the positions, also at another server and after a restart, until an
/// operator gives the events up.
pub(super) async fn with_loss(sequence: &Sequence) -> Result<String> {
    let primary = sequence.pair.postgres();
    let link = Link::start(SocketAddr::from((Ipv4Addr::LOCALHOST, primary.port())))?;
    let standby = start_standby(sequence, &primary, &link).await?;
    link.set_both(Flow::Stall);
    wait_for_appends(sequence, LOST_MIN).await;
    let acknowledged = sequence.tenants[0].ledger.borrow().acknowledged;
    sequence.course.expects_loss.set(true);
    switch(sequence, primary, standby).await?;
    sequence
        .course
        .wait_until("store_corrupt after a loss", || sequence.tenants[0].ledger.borrow().corrupt.is_some())
        .await;
    let Some(message) = sequence.tenants[0].ledger.borrow_mut().corrupt.take() else {
        return Ok(String::new());
    };

    let url = sequence.pair.url();
    let positions = "SELECT lost_after || ' ' || last_position FROM recount.stores WHERE name = 'default'";
    let positions = poll("the positions", async || value(&url, positions).await).await?;
    let (lost_after, last) = positions.split_once(' ').context("two positions")?;
    let names = [format!("position {lost_after}"), format!("ends at {last}")];
    if !names.iter().all(|name| message.contains(name)) || lost_after.parse::<u64>()? < acknowledged {
        sequence.course.broke(format!(
            "{acknowledged} events were acknowledged, {positions} noted, and the message was: {message}"
        ));
    }
    // Neither server opens the store, however often it is started.
    let ends = sequence.pair.slots.each_ref().map(|slot| slot.ends.get());
    for slot in &sequence.pair.slots {
        slot.kill()?;
    }
    let have_refused = || {
        sequence.pair.slots.iter().zip(ends).all(|(slot, ends)| {
            let refusal = slot.log().is_ok_and(|log| log.contains(&names[0]) && log.contains(&names[1]));
            slot.ends.get() > ends + 1 && refusal
        })
    };
    sequence.course.wait_until("the refusal of both servers after a loss", have_refused).await;
    let repaired = "UPDATE recount.stores SET last_position = lost_after, lost_after = NULL WHERE lost_after IS NOT NULL";
    value(&url, repaired).await;
    let run = create(&sequence.tenants[0], "external", "after-the-loss".to_owned()).await;
    if let Some(run) = run {
        insist(&sequence.tenants[0], async |client| client.get_run(&run).await).await;
    }
    Ok(format!(
        "stopped with store_corrupt at {last} of {lost_after}, and works after the events were given up"
    ))
}

/// Starts a standby and waits until it has everything that is committed.
async fn start_standby(sequence: &Sequence, primary: &Arc<Postgres>, link: &Link) -> Result<Postgres> {
    let (primary, port, url) = (primary.clone(), link.port(), sequence.pair.url());
    let standby = on_thread(move || primary.start_standby(port)).await??;
    let is_streaming = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'";
    poll("replication", async || value(&url, is_streaming).await).await?;
    Ok(standby)
}

async fn wait_for_appends(sequence: &Sequence, count: u64) {
    let before = sequence.tenants[0].ledger.borrow().acknowledged;
    sequence
        .course
        .wait_until("more appends", || sequence.tenants[0].ledger.borrow().acknowledged >= before + count)
        .await;
}

/// Ends the primary, makes the standby the primary, and lets the servers connect to it.
async fn switch(sequence: &Sequence, primary: Arc<Postgres>, standby: Postgres) -> Result<()> {
    let standby = on_thread(move || {
        primary.end(Signal::QUIT)?;
        standby.promote()?;
        anyhow::Ok(standby)
    })
    .await??;
    sequence.pair.switch_to(standby);
    let url = sequence.pair.url();
    let is_primary = value(&url, "SELECT 1 WHERE NOT pg_is_in_recovery()").await;
    ensure!(is_primary.is_some(), "the standby did not become the primary");
    Ok(())
}

/// The first value of a statement, as text. `None`: there is no row, or the statement failed.
async fn value(url: &str, sql: &str) -> Option<String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
    tokio::select! {
        messages = client.simple_query(sql) => messages.ok()?.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }),
        _ = connection => None,
    }
}
