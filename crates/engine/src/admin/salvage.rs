//! Salvage support: closes partly recovered runs, selects the rows to copy, and reads the lists of the damaged store.
//!
//! A run without its ending would be continued: its calls would be executed again and its prompts would become due.
//! So the run is cancelled, and a gap event after the ending names the lost events. This module must not read a
//! damaged store. Start with [`Closing`].

use bytes::Bytes;
use recount_event::family::gap::EventsDamaged;
use recount_event::{Code, Draft, Event, Payload, RunId, Stamp, codec, time};
use recount_log::{Append, Store, StreamAppend};
use recount_run::{CancelledBy, Command, State, decide};

use crate::boxed;
use crate::catalogue::rebuild;
use crate::ground::{journal, rows};
use crate::{Error, RunRow};

/// The damage of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The first event that is lost or unproven.
    pub first: u64,
    /// The last lost event, if known.
    pub last: Option<u64>,
    pub reason: Reason,
    /// Events after the damage that are readable and are not copied.
    pub readable: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Damaged,
    Unproven,
    MayBeMissing,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Damaged => "damaged",
            Reason::Unproven => "unproven",
            Reason::MayBeMissing => "may_be_missing",
        }
    }
}

/// A run that is copied to the new store: receives its events and generates the events that close it.
#[derive(Default)]
pub struct Closing {
    state: Option<State>,
    broken: Option<String>,
    first: u64,
    next: u64,
    /// The first event after the last prune, according to the gap events of the run.
    first_left: u64,
}

impl Closing {
    /// Starts with the first event that is still stored.
    pub fn beginning_at(first: u64) -> Self {
        Closing { first, next: first, ..Closing::default() }
    }

    /// Adds the next event.
    pub fn event(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        match codec::decode(bytes) {
            Ok(event) if event.sequence == self.next => {
                let first = self.next;
                let state = self.state.get_or_insert_with(|| {
                    State::beginning_at(first, event.run_id, event.task_id, event.session_id)
                });
                recount_run::apply(state, &event);
                if let Payload::GapEventsPruned(pruned) = &event.body.payload {
                    self.first_left = self.first_left.max(pruned.last_pruned_sequence.saturating_add(1));
                }
                self.next += 1;
            }
            Ok(event) => self.broken = Some(format!("event {} is at sequence {}", event.sequence, self.next)),
            Err(why) => self.broken = Some(format!("event {} cannot be read: {why}", self.next)),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.state.as_ref().is_some_and(State::is_ended)
    }

    /// Whether the first events are missing and no gap event names them as pruned.
    pub fn begins_in_the_middle(&self) -> bool {
        self.first > self.first_left
    }

    /// The events that close the run and explain why. An error if nothing can be appended to the recovered part.
    pub fn finish(self, damage: &Damage, stamp: Stamp) -> Result<Vec<Bytes>, Error> {
        let missing = || Error::rejected(Code::EventRefused, "none of its events could be salvaged");
        if let Some(why) = self.broken {
            return Err(Error::rejected(Code::EventRefused, why));
        }
        let mut state = self.state.ok_or_else(missing)?;
        let first = state.next_sequence();
        let mut events: Vec<Event> = Vec::new();
        let mut take = |state: &mut State, command: Command| -> Result<(), Error> {
            let decided = decide(state, command, stamp).map_err(Error::Rejected)?;
            decided.iter().for_each(|event| recount_run::apply(state, event));
            events.extend(decided);
            Ok(())
        };
        if !state.is_ended() {
            let reason = format!(
                "the events from {} on were lost; the run was salvaged from a damaged store",
                damage.first
            );
            take(&mut state, Command::Cancel { by: CancelledBy::System, reason })?;
        }
        let held_version = time::format_ms(stamp.now_ms);
        let mut gap = EventsDamaged::new(damage.first, damage.reason.as_str().into(), held_version);
        gap.last_damaged_sequence = damage.last;
        gap.readable_events = (damage.readable > 0).then_some(damage.readable);
        let gap = Draft::from(Payload::GapEventsDamaged(Box::new(gap)));
        take(&mut state, Command::Progress { drafts: vec![gap] })?;
        Ok(journal::encode(&events, first))
    }
}

/// Appends the closing events to a store without an open engine.
#[boxed]
pub async fn append(store: &dyn Store, run: RunId, first: u64, records: Vec<Bytes>) -> Result<(), Error> {
    let stream = StreamAppend { stream: journal::stream_of(run), expected_tail: first, records };
    store.append(Append { streams: vec![stream], ..Append::default() }).await?;
    Ok(())
}

/// Rebuilds the catalogue of a store whose rows were selected by [`keeps_row`].
#[boxed]
pub async fn finish(store: &dyn Store) -> Result<(), Error> {
    rebuild::restore(store).await
}

/// Whether a row is a record that is still valid. `goes_on` returns whether a run is active.
pub fn keeps_row(space: &str, value: &[u8], goes_on: &dyn Fn(&str) -> bool) -> bool {
    match space {
        // They are rebuilt from the log.
        rows::FOLDS | rows::PROBE => false,
        rows::TASK_ACTIVE | rows::SESSION_ACTIVE => {
            serde_json::from_slice::<String>(value).is_ok_and(|run| goes_on(&run))
        }
        _ => space.starts_with("record.") && serde_json::from_slice::<serde::de::IgnoredAny>(value).is_ok(),
    }
}

/// The name of a kind of record in reports: its space without `record.`.
pub fn kind_of_record(space: &str) -> Option<&str> {
    space.strip_prefix("record.")
}

/// The run of a row in the damaged store's list: its id, and whether it had ended.
pub fn listed_run(space: &str, value: &[u8]) -> Option<(String, bool)> {
    let row: RunRow = (space == rows::RUNS).then(|| serde_json::from_slice(value).ok())??;
    Some((row.id.to_string(), row.ending.is_some()))
}
