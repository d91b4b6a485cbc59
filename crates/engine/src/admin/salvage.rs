//! What an engine must know of a store that is made from a damaged one: how a run that is kept in part ends, which rows
//! are kept, and what the lists of the damaged store still name.
//!
//! A run without its ending would be gone on with: its calls would be carried out again, its prompts would come due. So it
//! is cancelled, and a gap event after the ending says which events are lost. Nothing here reads a damaged store.
//! Entry point: [`Closing`].

use bytes::Bytes;
use recount_event::family::gap::EventsDamaged;
use recount_event::{Code, Draft, Event, Payload, RunId, Stamp, codec, time};
use recount_log::{Append, Store, StreamAppend};
use recount_run::{CancelledBy, Command, State, decide};

use crate::boxed;
use crate::catalogue::rebuild;
use crate::ground::{journal, rows};
use crate::{Error, RunRow};

/// What is wrong with a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The first event that is lost or not proven.
    pub first: u64,
    /// The last one that is known to have been there.
    pub last: Option<u64>,
    pub reason: Reason,
    /// Events after the damage that could be read, and are not in the account.
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

/// A run on its way into the new store: takes its events, says whether it goes on, and makes what closes it.
#[derive(Default)]
pub struct Closing {
    state: Option<State>,
    broken: Option<String>,
    first: u64,
    next: u64,
    /// The first event that pruning left, as far as the run's own gap events say.
    first_left: u64,
}

impl Closing {
    /// Of a run whose first event that is left is this.
    pub fn beginning_at(first: u64) -> Self {
        Closing { first, next: first, ..Closing::default() }
    }

    /// Takes the next event.
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

    /// Whether no gap event says that the events before its first one were pruned.
    pub fn begins_in_the_middle(&self) -> bool {
        self.first > self.first_left
    }

    /// The events that close the run and say why. An error when nothing can be added to what is left of it.
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
        let found_at = time::format_ms(stamp.now_ms);
        let mut gap = EventsDamaged::new(damage.first, damage.reason.as_str().into(), found_at);
        gap.last_damaged_sequence = damage.last;
        gap.readable_events = (damage.readable > 0).then_some(damage.readable);
        let gap = Draft::from(Payload::GapEventsDamaged(Box::new(gap)));
        take(&mut state, Command::Progress { drafts: vec![gap] })?;
        Ok(journal::encode(&events, first))
    }
}

/// Appends what closes a run, to a store that no engine is open on.
#[boxed]
pub async fn append(store: &dyn Store, run: RunId, first: u64, records: Vec<Bytes>) -> Result<(), Error> {
    let stream = StreamAppend { stream: journal::stream_of(run), expected_tail: first, records };
    store.append(Append { streams: vec![stream], ..Append::default() }).await?;
    Ok(())
}

/// Makes the catalogue of a store whose rows were chosen by [`keeps_row`].
#[boxed]
pub async fn finish(store: &dyn Store) -> Result<(), Error> {
    rebuild::restore(store).await
}

/// Whether a row is truth that is not history and still holds. `goes_on` says which runs have not ended.
pub fn keeps_row(space: &str, value: &[u8], goes_on: &dyn Fn(&str) -> bool) -> bool {
    match space {
        // They are made again from the log.
        rows::FOLDS | rows::PROBE => false,
        rows::TASK_ACTIVE | rows::SESSION_ACTIVE => {
            serde_json::from_slice::<String>(value).is_ok_and(|run| goes_on(&run))
        }
        _ => space.starts_with("record.") && serde_json::from_slice::<serde::de::IgnoredAny>(value).is_ok(),
    }
}

/// What a kind of record is called in figures: its space without `record.`.
pub fn kind_of_record(space: &str) -> Option<&str> {
    space.strip_prefix("record.")
}

/// What a list of the damaged store says of a run: its id, and whether it had ended.
pub fn listed_run(space: &str, value: &[u8]) -> Option<(String, bool)> {
    let row: RunRow = (space == rows::RUNS).then(|| serde_json::from_slice(value).ok())??;
    Some((row.id.to_string(), row.ending.is_some()))
}
