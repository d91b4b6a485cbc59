//! The scrub: reads all stored events and rows slowly and repeatedly, to find damage before a client does. Reading a
//! damaged catalogue row repairs it; the scrub changes nothing else. It must not know how a store detects damage.
//!
//! Start with [`AdminHandle::scrub`]; [`AdminHandle::scrub_report`] returns the damage found.

use std::future::Future;

use recount_log::{Damage, Fault, FaultKind, ReadBound};
use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::{Error, ScrubReport, limits};

impl AdminHandle {
    /// Starts a service that scrubs until shutdown.
    pub fn start_scrubs(&self) {
        let admin = self.clone();
        self.ground().world.tasks.spawn_until_shutdown(Kind::Service, async move {
            let page_read = || tokio::time::sleep(limits::SCRUB_PAGE_WAIT);
            // There are few rows compared to events, so the rows are checked first.
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
        });
    }

    /// The results of the scrub, and damage found at startup and by other reads.
    pub fn scrub_report(&self) -> ScrubReport {
        self.ground().counters.findings().report()
    }

    /// One round: every event of every run, every position of the feed, every row. Waits after each page.
    pub async fn scrub<W: Future<Output = ()>>(
        &self,
        page_read: impl Fn() -> W,
    ) -> Result<ScrubReport, Error> {
        self.scrub_runs(&page_read).await?;
        self.scrub_feed(&page_read).await?;
        self.scrub_spaces(&page_read).await?;
        self.ground().counters.findings().finish_round();
        Ok(self.scrub_report())
    }

    /// Reads every row. Reading a damaged catalogue row repairs it.
    async fn scrub_spaces<W: Future<Output = ()>>(&self, page_read: &impl Fn() -> W) -> Result<(), Error> {
        self.ground().counters.findings().start_round();
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
                // The repair attempt has reported the damage.
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(fault) => {
                    self.damage_of(fault)?;
                    return Ok(());
                }
            }
        }
    }

    /// Records and returns the damage. Any other failure ends the round.
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
