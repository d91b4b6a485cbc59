//! [`CommitAttempt`]: from sending a commit to its certain outcome, also when its response is lost.
//!
//! ```text
//!   execute ─▶ committed
//!      ├─────▶ refused
//!      ├─────▶ changed nothing ─▶ read the counters ─▶ why this node may not go on
//!      └─────▶ no response ─▶ skip its number unless it was committed ─▶ committed
//!                                  │                ├─▶ not committed: once more with a new number, or refused
//!                                  │                └─▶ why this node may not go on
//!                                  └ no response for a long time ─▶ unknown, to be settled later
//! ```

use std::time::Duration;

use crate::limits;

/// The last position and stream of a store, with the groups so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    pub epoch: i64,
    pub group_number: i64,
    pub last_position: u64,
    pub last_stream: i64,
}

/// One group on its way to its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitAttempt {
    before: Counters,
    after: Counters,
    /// Whether the group is sent once more if it certainly was not committed.
    may_repeat: bool,
    phase: CommitPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitPhase {
    Ready,
    Executing,
    /// The statement changed nothing; the counters are being read.
    Comparing,
    /// The statement has no response. Callers wait until this moment.
    Settling(Duration),
    Finished(CommitOutcome),
}

/// What happened to the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitEvent {
    /// The pause is over. Also the first event.
    Due,
    /// The statement was executed; it changed nothing if the counters or the owner were others.
    Executed { changed: bool },
    /// The statement certainly changed nothing.
    Refused,
    /// There is no response: the statement may have been, or may still be, executed.
    Lost,
    /// The counters as they are committed now; none if the store is missing.
    Found(Option<Counters>),
}

/// What the writer does next about the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStep {
    /// Sends the statement of the group, with the number of [`CommitAttempt::after`].
    Execute,
    /// Skips the number after [`CommitAttempt::before`] unless it is used; then reads the counters.
    Skip,
    ReadCounters,
    Pause(Duration),
    Finish(CommitOutcome),
}

/// What became of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    Committed,
    /// Nothing was changed, and the writer may go on from [`CommitAttempt::before`].
    Refused,
    /// Not known in time. Nothing else may be committed until an attempt by [`CommitAttempt::late`] has an outcome.
    Unknown,
    /// Another owner has taken the store. Whether the group was committed before cannot be found out.
    Replaced,
    /// Nothing was changed: this node does not own the store any more.
    Fenced,
    /// The database ends at this position, before what was acknowledged.
    Behind(u64),
    /// Something else changed the counters.
    Altered,
    /// The store is missing.
    Missing,
}

impl CommitOutcome {
    /// Whether this node owns nothing any more. It may have been replaced by a late statement of its own, and must not keep
    /// a store that it cannot use.
    pub fn ends_lease(self) -> bool {
        matches!(self, CommitOutcome::Fenced | CommitOutcome::Replaced)
    }
}

impl CommitAttempt {
    /// A group to be sent. It is sent once more if the first statement was certainly not executed.
    pub fn new(before: Counters, after: Counters) -> Self {
        CommitAttempt { before, after, may_repeat: true, phase: CommitPhase::Ready }
    }

    /// A group that has been sent, and is not repeated.
    pub fn sent(before: Counters, after: Counters) -> Self {
        CommitAttempt { before, after, may_repeat: false, phase: CommitPhase::Executing }
    }

    /// A group whose outcome was [`CommitOutcome::Unknown`].
    pub fn late(before: Counters, after: Counters, now: Duration) -> Self {
        let phase = CommitPhase::Settling(now + limits::OUTAGE_WAIT);
        CommitAttempt { before, after, may_repeat: false, phase }
    }

    /// The counters that this writer knows to be committed, without this group.
    pub fn before(&self) -> Counters {
        self.before
    }

    /// The counters with this group.
    pub fn after(&self) -> Counters {
        self.after
    }

    pub fn step(&mut self, event: CommitEvent, now: Duration) -> CommitStep {
        let (phase, step) = match (self.phase, event) {
            (CommitPhase::Ready, CommitEvent::Due) => (CommitPhase::Executing, CommitStep::Execute),
            (CommitPhase::Executing, CommitEvent::Executed { changed: true }) => {
                return self.finish(CommitOutcome::Committed);
            }
            (CommitPhase::Executing, CommitEvent::Executed { changed: false }) => {
                (CommitPhase::Comparing, CommitStep::ReadCounters)
            }
            (CommitPhase::Comparing, CommitEvent::Found(found)) => return self.finish(self.judge(found)),
            (CommitPhase::Executing, CommitEvent::Refused)
            | (CommitPhase::Comparing, CommitEvent::Refused | CommitEvent::Lost) => {
                return self.finish(CommitOutcome::Refused);
            }
            (CommitPhase::Executing, CommitEvent::Lost) => {
                (CommitPhase::Settling(now + limits::OUTAGE_WAIT), CommitStep::Skip)
            }
            (CommitPhase::Settling(_), CommitEvent::Due) => (self.phase, CommitStep::Skip),
            (CommitPhase::Settling(_), CommitEvent::Found(found)) => return self.settle(found),
            (CommitPhase::Settling(until), CommitEvent::Refused | CommitEvent::Lost) if now <= until => {
                (self.phase, CommitStep::Pause(limits::RECONNECT_PAUSE))
            }
            (CommitPhase::Finished(outcome), _) => return CommitStep::Finish(outcome),
            // Also any event that does not fit: the outcome is settled later.
            _ => return self.finish(CommitOutcome::Unknown),
        };
        self.phase = phase;
        step
    }

    fn finish(&mut self, outcome: CommitOutcome) -> CommitStep {
        self.phase = CommitPhase::Finished(outcome);
        CommitStep::Finish(outcome)
    }

    /// Judges the group by the counters after its number was skipped, or was found to be used.
    fn settle(&mut self, found: Option<Counters>) -> CommitStep {
        let skipped = Counters { group_number: self.before.group_number + 2, ..self.before };
        match found {
            Some(found) if found == self.after => self.finish(CommitOutcome::Committed),
            // By this attempt, or by an earlier one whose response was lost.
            Some(found) if found == skipped => {
                self.before = found;
                if !std::mem::take(&mut self.may_repeat) {
                    return self.finish(CommitOutcome::Refused);
                }
                self.after.group_number = found.group_number + 1;
                self.phase = CommitPhase::Executing;
                CommitStep::Execute
            }
            Some(found) if found.epoch > self.before.epoch => self.finish(CommitOutcome::Replaced),
            found => self.finish(self.judge(found)),
        }
    }

    /// Why a statement changed nothing.
    fn judge(&self, found: Option<Counters>) -> CommitOutcome {
        let Some(found) = found else { return CommitOutcome::Missing };
        if found.epoch > self.before.epoch {
            return CommitOutcome::Fenced;
        }
        // The database is from before this node took the store over, or from before its last commits.
        if found.epoch < self.before.epoch || found.group_number < self.before.group_number {
            return CommitOutcome::Behind(found.last_position);
        }
        // Only the owner differs: the lease of this node was ended, and no other node has taken the store yet.
        if found == self.before { CommitOutcome::Fenced } else { CommitOutcome::Altered }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEFORE: Counters = Counters { epoch: 3, group_number: 7, last_position: 40, last_stream: 2 };
    const AFTER: Counters = Counters { epoch: 3, group_number: 8, last_position: 42, last_stream: 2 };
    const SKIPPED: Counters = Counters { group_number: 9, ..BEFORE };

    /// The outcome of a group whose statement changed nothing, and of one whose response is lost.
    fn check(found: Option<Counters>, unchanged: CommitOutcome, lost: CommitOutcome) {
        let start = Duration::from_secs(9);
        let mut attempt = CommitAttempt::new(BEFORE, AFTER);
        assert_eq!(attempt.step(CommitEvent::Due, start), CommitStep::Execute);
        let mut other = attempt;
        let executed = CommitEvent::Executed { changed: false };
        assert_eq!(attempt.step(executed, start), CommitStep::ReadCounters);
        let step = attempt.step(CommitEvent::Found(found), start);
        assert_eq!(step, CommitStep::Finish(unchanged), "{found:?} after no change");
        assert_eq!(other.step(CommitEvent::Lost, start), CommitStep::Skip);
        let step = other.step(CommitEvent::Found(found), start);
        assert_eq!(step, CommitStep::Finish(lost), "{found:?} after no response");
    }

    #[test]
    fn counters_explain_why_a_writer_may_not_go_on() {
        use CommitOutcome::{Altered, Behind, Committed, Fenced, Missing, Replaced};
        check(None, Missing, Missing);
        check(Some(BEFORE), Fenced, Fenced);
        check(Some(Counters { epoch: 4, ..BEFORE }), Fenced, Replaced);
        check(Some(Counters { epoch: 4, ..AFTER }), Fenced, Replaced);
        check(Some(Counters { epoch: 2, ..BEFORE }), Behind(40), Behind(40));
        check(Some(Counters { group_number: 6, last_position: 31, ..BEFORE }), Behind(31), Behind(31));
        check(Some(AFTER), Altered, Committed);
        check(Some(Counters { last_position: 43, ..AFTER }), Altered, Altered);
    }

    #[test]
    fn a_group_that_was_not_committed_is_sent_once_more_with_a_new_number() {
        let start = Duration::from_secs(9);
        let mut attempt = CommitAttempt::new(BEFORE, AFTER);
        assert_eq!(attempt.step(CommitEvent::Due, start), CommitStep::Execute);
        assert_eq!(attempt.step(CommitEvent::Lost, start), CommitStep::Skip);
        assert_eq!(attempt.step(CommitEvent::Found(Some(SKIPPED)), start), CommitStep::Execute);
        assert_eq!(attempt.before(), SKIPPED);
        assert_eq!(attempt.after(), Counters { group_number: 10, ..AFTER });
        assert_eq!(attempt.step(CommitEvent::Lost, start), CommitStep::Skip);
        let skipped = CommitEvent::Found(Some(Counters { group_number: 11, ..BEFORE }));
        assert_eq!(attempt.step(skipped, start), CommitStep::Finish(CommitOutcome::Refused));
        assert_eq!(attempt.before().group_number, 11);
    }

    fn event() -> impl Strategy<Value = CommitEvent> {
        let counters = (3_i64..5, 6_i64..12, 39_u64..44).prop_map(|(epoch, group_number, last_position)| {
            Counters { epoch, group_number, last_position, last_stream: 2 }
        });
        prop_oneof![
            1 => Just(CommitEvent::Due),
            1 => any::<bool>().prop_map(|changed| CommitEvent::Executed { changed }),
            1 => Just(CommitEvent::Refused),
            3 => Just(CommitEvent::Lost),
            1 => Just(CommitEvent::Found(None)),
            2 => prop::sample::select(vec![BEFORE, AFTER, SKIPPED]).prop_map(|found| CommitEvent::Found(Some(found))),
            2 => counters.prop_map(|found| CommitEvent::Found(Some(found))),
        ]
    }

    proptest! {
        /// Whatever happens, also events that do not fit.
        #[test]
        fn no_outcome_is_guessed(events in prop::collection::vec((event(), 0..4_000_u64), 1..12)) {
            let (mut now, mut executions, mut is_lost) = (Duration::ZERO, 0, false);
            let mut attempt = CommitAttempt::new(BEFORE, AFTER);
            let (mut step, mut lost_at) = (attempt.step(CommitEvent::Due, now), now);
            for (event, passed) in events {
                executions += u32::from(step == CommitStep::Execute);
                let executing = step == CommitStep::Execute;
                let before = attempt;
                now += Duration::from_millis(passed);
                step = attempt.step(event, now);
                if executing {
                    (is_lost, lost_at) = (event == CommitEvent::Lost, now);
                }
                let CommitStep::Finish(outcome) = step else { continue };
                match outcome {
                    CommitOutcome::Committed => {
                        let changed = executing && event == CommitEvent::Executed { changed: true };
                        let found = is_lost && event == CommitEvent::Found(Some(before.after()));
                        prop_assert!(changed || found);
                    }
                    CommitOutcome::Refused | CommitOutcome::Fenced if is_lost => {
                        let CommitEvent::Found(Some(found)) = event else {
                            return Err(TestCaseError::fail("refused without proof"));
                        };
                        prop_assert!(found.last_position == BEFORE.last_position && found.epoch == BEFORE.epoch);
                    }
                    CommitOutcome::Unknown if matches!(event, CommitEvent::Lost | CommitEvent::Refused) => {
                        prop_assert!(is_lost && now > lost_at + limits::OUTAGE_WAIT);
                    }
                    _ => {}
                }
                prop_assert!(executions <= 2);
                prop_assert_eq!(attempt.step(event, now), step, "an outcome is final");
                break;
            }
        }
    }
}
