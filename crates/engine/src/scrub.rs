//! The scrub: reads all stored events and rows over and over, slowly, so that damage is found before anybody asks for
//! what is damaged. It changes nothing and must not know how a store notices damage.
//!
//! Begin with [`Engine::scrub`]; what it found is in [`Engine::scrubbed`].

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use recount_log::{Damage, Fault, FaultKind, ReadBound, RowRange};
use recount_world::Kind;

use crate::{Engine, Error, limits, rows};

/// What the scrub has found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Rounds that came to their end.
    pub rounds: u64,
    /// Events read, over all rounds.
    pub events: u64,
    /// What is damaged, by the last round that ended and the one under way; at most
    /// [`limits::SCRUB_FINDINGS_MAX`] sentences.
    pub findings: Vec<String>,
    /// Findings beyond those.
    pub more: u64,
}

/// Shared by the scrub and those who ask.
#[derive(Default)]
pub(crate) struct Findings(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    told: Scrubbed,
    /// Of the round under way.
    round: Vec<String>,
}

impl Findings {
    pub(crate) fn told(&self) -> Scrubbed {
        self.change(|inner| inner.told.clone())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self, events: usize) {
        self.change(|inner| inner.told.events += events as u64);
    }

    fn found(&self, sentence: String) {
        self.change(|inner| {
            if inner.round.contains(&sentence) {
                return;
            }
            if !inner.told.findings.contains(&sentence) {
                tracing::error!(damage = sentence, "the scrub found damage");
                inner.told.add(sentence.clone());
            }
            if inner.round.len() < limits::SCRUB_FINDINGS_MAX {
                inner.round.push(sentence);
            }
        });
    }

    /// What is not damaged any more, because it was erased or restored, is forgotten.
    fn round_ended(&self) {
        self.change(|inner| {
            inner.told.rounds += 1;
            inner.told.findings = std::mem::take(&mut inner.round);
            inner.told.more = 0;
        });
    }
}

impl Scrubbed {
    fn add(&mut self, sentence: String) {
        if self.findings.len() < limits::SCRUB_FINDINGS_MAX {
            self.findings.push(sentence);
        } else {
            self.more += 1;
        }
    }
}

impl Engine {
    /// Scrubs from now on, a round after the other, until the server goes down.
    pub fn keep_scrubbing(&self) {
        let engine = self.clone();
        self.tools.world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            let scrubbing = async {
                loop {
                    tokio::time::sleep(limits::SCRUB_EVERY).await;
                    let page_read = || tokio::time::sleep(limits::SCRUB_PAGE_WAIT);
                    if let Err(error) = engine.scrub(page_read).await {
                        tracing::warn!(%error, "a round of the scrub came to no end; tried again later");
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

    /// What the scrub has found so far.
    pub fn scrubbed(&self) -> Scrubbed {
        self.tools.publisher.meters().findings().told()
    }

    /// One round: every event of every run, every position of the feed, every row. Waits after each page.
    pub async fn scrub<W: Future<Output = ()>>(&self, page_read: impl Fn() -> W) -> Result<Scrubbed, Error> {
        self.scrub_runs(&page_read).await?;
        self.scrub_feed(&page_read).await?;
        for space in rows::SPACES {
            self.scrub_rows(space, &page_read).await?;
        }
        self.tools.publisher.meters().findings().round_ended();
        Ok(self.scrubbed())
    }

    async fn scrub_runs<W: Future<Output = ()>>(&self, page_read: &impl Fn() -> W) -> Result<(), Error> {
        let mut after = None;
        loop {
            let streams = match self.store().streams(after.take(), limits::PAGE_EVENTS).await {
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
                    let page = self.store().read(stream, next, BOUND).await;
                    page_read().await;
                    next = match page {
                        Ok(page) => {
                            self.tools.publisher.meters().findings().read(page.len());
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
        let end = self.store().last_position().await?;
        let mut next = 1;
        while next <= end {
            let page = self.store().read_feed(next, BOUND).await;
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
        let mut after = None;
        loop {
            let range = RowRange {
                space: space.into(),
                prefix: "".into(),
                after: after.take(),
                backwards: false,
                limit: limits::SWEEP_PAGE,
            };
            let page = self.store().rows(range).await;
            page_read().await;
            match page {
                Ok(page) => {
                    let Some(last) = page.last() else { return Ok(()) };
                    after = Some(last.key.clone());
                }
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
        let findings = self.tools.publisher.meters().findings();
        match fault.damage {
            // The feed names the same events by position.
            Some(damage) => {
                findings.found(Damage { positions: None, ..(*damage).clone() }.to_string());
                Ok(Some(*damage))
            }
            None => {
                findings.found(fault.message);
                Ok(None)
            }
        }
    }
}

const BOUND: ReadBound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::SCRUB_PAGE_BYTES };
