//! The scrub: reads all stored events and rows over and over, slowly, so that damage is found before anybody asks for
//! what is damaged. Rows of the catalogue that are damaged are written anew by being read; beyond that it changes nothing.
//! It must not know how a store notices damage.
//!
//! Begin with [`AdminHandle::scrub`]; what is damaged is in [`AdminHandle::scrubbed`].

use std::future::Future;

use recount_log::{Damage, Fault, FaultKind, ReadBound};
use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::{Error, Scrubbed, limits};

impl AdminHandle {
    /// Scrubs from now on, a round after the other, until the server goes down.
    pub fn keep_scrubbing(&self) {
        let admin = self.clone();
        self.ground().world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            let scrubbing = async {
                let page_read = || tokio::time::sleep(limits::SCRUB_PAGE_WAIT);
                // Rows are few next to events: those that a list would come upon are looked at first.
                if let Err(error) = admin.scrub_spaces(&page_read).await {
                    tracing::warn!(
                        %error,
                        "the initial check of the rows failed; the scrub repeats it later"
                    );
                }
                loop {
                    tokio::time::sleep(limits::SCRUB_EVERY).await;
                    if let Err(error) = admin.scrub(page_read).await {
                        tracing::warn!(%error, "a scrub failed; retrying later");
                    }
                }
            };
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = scrubbing => {}
            }
        });
    }

    /// What the scrub, the start and other reads have found so far.
    pub fn scrubbed(&self) -> Scrubbed {
        self.ground().counters.findings().told()
    }

    /// One round: every event of every run, every position of the feed, every row. Waits after each page.
    pub async fn scrub<W: Future<Output = ()>>(&self, page_read: impl Fn() -> W) -> Result<Scrubbed, Error> {
        self.scrub_runs(&page_read).await?;
        self.scrub_feed(&page_read).await?;
        self.scrub_spaces(&page_read).await?;
        self.ground().counters.findings().round_ended();
        Ok(self.scrubbed())
    }

    /// Every row. Those of the catalogue that are damaged are written anew by being read.
    async fn scrub_spaces<W: Future<Output = ()>>(&self, page_read: &impl Fn() -> W) -> Result<(), Error> {
        self.ground().counters.findings().round_begins();
        for space in rows::SPACES {
            self.scrub_rows(space, page_read).await?;
        }
        Ok(())
    }

    async fn scrub_runs<W: Future<Output = ()>>(&self, page_read: &impl Fn() -> W) -> Result<(), Error> {
        let mut after = None;
        loop {
            let streams = match self.ground().store().streams(after.take(), limits::PAGE_EVENTS).await {
                Ok(streams) => streams,
                Err(fault) => {
                    self.damage_of(fault)?;
                    return Ok(());
                }
            };
            let Some(last) = streams.last() else { return Ok(()) };
            after = Some(last.clone());
            for stream in &streams {
                let mut next = 0;
                loop {
                    let page = self.ground().store().read(stream, next, BOUND).await;
                    page_read().await;
                    next = match page {
                        Ok(page) => {
                            self.ground().counters.findings().read(page.len());
                            let Some(last) = page.last() else { break };
                            last.sequence + 1
                        }
                        Err(fault) => {
                            let damage = self.damage_of(fault)?;
                            let Some(range) = damage.and_then(|damage| damage.sequences) else { break };
                            range.end().saturating_add(1).max(next + 1)
                        }
                    };
                }
            }
        }
    }

    async fn scrub_feed<W: Future<Output = ()>>(&self, page_read: &impl Fn() -> W) -> Result<(), Error> {
        let end = self.ground().store().last_position().await?;
        let mut next = 1;
        while next <= end {
            let page = self.ground().store().read_feed(next, BOUND).await;
            page_read().await;
            next = match page {
                Ok(page) => page.last().map_or(end, |last| last.record.position) + 1,
                Err(fault) => {
                    let damage = self.damage_of(fault)?;
                    let Some(range) = damage.and_then(|damage| damage.positions) else { return Ok(()) };
                    range.end().saturating_add(1).max(next + 1)
                }
            };
        }
        Ok(())
    }

    async fn scrub_rows<W: Future<Output = ()>>(
        &self,
        space: &str,
        page_read: &impl Fn() -> W,
    ) -> Result<(), Error> {
        let mut pages = RowPages::new(self.ground().store(), space, limits::SWEEP_PAGE);
        loop {
            let page = pages.next().await;
            page_read().await;
            match page {
                // What is damaged was reported by the attempt to repair it.
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(fault) => {
                    self.damage_of(fault)?;
                    return Ok(());
                }
            }
        }
    }

    /// Notes damage, and which it is where the store says so; anything else that failed ends the round.
    fn damage_of(&self, fault: Fault) -> Result<Option<Damage>, Error> {
        if fault.kind != FaultKind::Corrupt {
            return Err(fault.into());
        }
        let findings = self.ground().counters.findings();
        match &fault.damage {
            Some(damage) => findings.damaged(damage),
            None => findings.found(fault.message),
        }
        Ok(fault.damage.map(|damage| *damage))
    }
}

const BOUND: ReadBound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::SCRUB_PAGE_BYTES };
