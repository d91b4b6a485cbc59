//! The scrub: reads all stored events and rows over and over, slowly, so that damage is found before anybody asks for
//! what is damaged. Rows of the catalogue that are damaged are written anew by being read; beyond that it changes nothing.
//! It must not know how a store notices damage.
//!
//! Begin with [`Engine::scrub`]; what it found is in [`Engine::scrubbed`].

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Mutex, PoisonError};

use recount_log::{Damage, Fault, FaultKind, ReadBound};
use recount_world::Kind;

use crate::row_pages::RowPages;
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
    /// Damage that could not be repaired since the round began.
    given_up: BTreeSet<String>,
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

    pub(crate) fn found(&self, sentence: String) {
        self.change(|inner| {
            if inner.round.contains(&sentence) {
                return;
            }
            if !inner.told.findings.contains(&sentence) {
                tracing::error!(damage = sentence, "stored bytes are damaged");
                inner.told.add(sentence.clone());
            }
            if inner.round.len() < limits::SCRUB_FINDINGS_MAX {
                inner.round.push(sentence);
            }
        });
    }

    pub(crate) fn is_given_up(&self, what: &str) -> bool {
        self.change(|inner| inner.all_given_up() || inner.given_up.contains(what))
    }

    pub(crate) fn give_up(&self, what: String) {
        let is_last = self.change(|inner| {
            let was_full = inner.all_given_up();
            if !was_full {
                inner.given_up.insert(what);
            }
            !was_full && inner.all_given_up()
        });
        if is_last {
            let most = limits::REPAIRS_GIVEN_UP_MAX;
            self.found(format!(
                "{most} rows (REPAIRS_GIVEN_UP_MAX) or more are damaged and cannot be repaired; reads repair nothing until \
                 the scrub looks at the rows again"
            ));
        }
    }

    /// What could not be repaired is tried once more, and named again where that fails.
    fn round_begins(&self) {
        self.change(|inner| inner.given_up.clear());
    }

    /// What is not damaged any more, because it was erased, repaired or restored, is forgotten.
    fn round_ended(&self) {
        self.change(|inner| {
            inner.told.rounds += 1;
            inner.told.findings = std::mem::take(&mut inner.round);
            inner.told.more = 0;
        });
    }
}

impl Inner {
    /// Each try may read the whole log, so a store with more than this would be busy with nothing else.
    fn all_given_up(&self) -> bool {
        self.given_up.len() >= limits::REPAIRS_GIVEN_UP_MAX
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
                let page_read = || tokio::time::sleep(limits::SCRUB_PAGE_WAIT);
                // Rows are few next to events: those that a list would come upon are looked at first.
                if let Err(error) = engine.scrub_spaces(&page_read).await {
                    tracing::warn!(%error, "the first look at the rows came to no end; the scrub does it later");
                }
                loop {
                    tokio::time::sleep(limits::SCRUB_EVERY).await;
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
        self.scrub_spaces(&page_read).await?;
        self.tools.publisher.meters().findings().round_ended();
        Ok(self.scrubbed())
    }

    /// Every row. Those of the catalogue that are damaged are written anew by being read.
    async fn scrub_spaces<W: Future<Output = ()>>(&self, page_read: &impl Fn() -> W) -> Result<(), Error> {
        self.tools.publisher.meters().findings().round_begins();
        for space in rows::SPACES {
            self.scrub_rows(space, page_read).await?;
        }
        Ok(())
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
        let mut pages = RowPages::new(self.store(), space, limits::SWEEP_PAGE);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_too_much_cannot_be_repaired_reads_repair_nothing_until_the_next_round() {
        let findings = Findings::default();
        for number in 0..limits::REPAIRS_GIVEN_UP_MAX {
            assert!(!findings.is_given_up("another row"), "{number}");
            findings.give_up(format!("row {number}"));
        }
        assert!(findings.is_given_up("another row"));
        findings.give_up("another row".to_owned());
        let said = findings.told().findings;
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("REPAIRS_GIVEN_UP_MAX"), "{said:?}");
        findings.round_begins();
        assert!(!findings.is_given_up("row 0"));
    }
}
