//! [`NodeLease`]: when a node renews its lease, and whether effects outside of the log may begin.

use std::time::Duration;

use crate::limits;

/// The lease of a node as the node knows it.
///
/// The deadline counts from before the renewal was sent, so it ends before the lease does in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLease {
    length: Duration,
    deadline: Duration,
    is_lost: bool,
    phase: LeasePhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeasePhase {
    /// The database has responded to the last renewal.
    Resting,
    /// The last renewal has no response. It may have been granted.
    Unanswered,
    Probing,
    Renewing {
        sent_at: Duration,
    },
}

/// What happened to the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The pause is over. Also the first event.
    Due,
    /// The renewal was granted.
    Renewed,
    /// The renewal found that another node has ended this lease.
    Deleted,
    /// The database responded to the probe.
    Answered,
    /// The renewal or the probe failed.
    Failed,
    /// The renewal or the probe has no response.
    TimedOut,
}

/// What the node does next about its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStep {
    Wait(Duration),
    /// Gives the connection up, then waits.
    ResetAndWait(Duration),
    /// Sends a renewal, and waits for the response this long.
    Renew(Duration),
    /// Sends a statement that changes nothing, and waits for the response this long.
    Probe(Duration),
    /// The lease is lost; nothing more is done about it.
    Stop,
}

impl NodeLease {
    /// A lease that was requested at `sent_at` and granted.
    pub fn granted(length: Duration, sent_at: Duration) -> Self {
        let deadline = sent_at + Self::usable(length);
        NodeLease { length, deadline, is_lost: false, phase: LeasePhase::Resting }
    }

    /// The part of a lease that is used: the clock of a node may be slower than that of the database by a sixteenth.
    pub fn usable(length: Duration) -> Duration {
        length - length / 16
    }

    pub fn step(&mut self, event: LeaseEvent, now: Duration) -> LeaseStep {
        let (phase, step) = match (self.phase, event) {
            _ if self.is_lost => (LeasePhase::Resting, LeaseStep::Stop),
            // A renewal without a response may have been granted, so no other one is sent until the database responds: a
            // node without responses must not keep its stores.
            (LeasePhase::Unanswered, LeaseEvent::Due) => {
                (LeasePhase::Probing, LeaseStep::Probe(limits::CONNECT_WAIT))
            }
            (LeasePhase::Resting, LeaseEvent::Due) | (LeasePhase::Probing, LeaseEvent::Answered) => {
                (LeasePhase::Renewing { sent_at: now }, LeaseStep::Renew(self.length / 2))
            }
            (LeasePhase::Renewing { sent_at }, LeaseEvent::Renewed) => {
                self.extend(sent_at);
                (LeasePhase::Resting, LeaseStep::Wait(self.length / limits::RENEWALS_PER_LEASE))
            }
            (LeasePhase::Renewing { .. }, LeaseEvent::Deleted) => {
                self.lose();
                (LeasePhase::Resting, LeaseStep::Stop)
            }
            (LeasePhase::Renewing { .. }, LeaseEvent::Failed) => {
                (LeasePhase::Unanswered, LeaseStep::Wait(limits::RECONNECT_PAUSE))
            }
            // Also any event that does not fit: the probe comes before the next renewal.
            _ => (LeasePhase::Unanswered, LeaseStep::ResetAndWait(limits::RECONNECT_PAUSE)),
        };
        self.phase = phase;
        step
    }

    fn extend(&mut self, sent_at: Duration) {
        self.deadline = self.deadline.max(sent_at + Self::usable(self.length));
    }

    /// The lease was ended, by another node or by this one. It is never valid again.
    pub fn lose(&mut self) {
        self.is_lost = true;
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether an effect outside of the log may begin at this moment for a store of this node. A store that is closed may have
    /// been given back, although the lease is still valid.
    pub fn allows_effect(&self, is_closed: bool, now: Duration) -> bool {
        !self.is_lost && !is_closed && now < self.deadline
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: Duration = Duration::from_secs(16);

    #[test]
    fn a_lease_ends_by_time_since_the_renewal_was_sent_and_never_returns_once_lost() {
        let start = Duration::from_secs(1_000);
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut lease = NodeLease::granted(LENGTH, start);
        assert!(lease.allows_effect(false, at(14)));
        assert!(!lease.allows_effect(false, at(15)), "a sixteenth is kept back");
        lease.extend(at(4));
        assert!(lease.allows_effect(false, at(18)));
        assert!(!lease.allows_effect(false, at(19)));
        lease.extend(at(2));
        assert!(lease.allows_effect(false, at(18)), "responses may arrive out of order");
        lease.lose();
        lease.extend(at(5));
        assert!(!lease.allows_effect(false, at(5)));
    }

    fn event() -> impl Strategy<Value = LeaseEvent> {
        prop_oneof![
            4 => Just(LeaseEvent::Due),
            4 => Just(LeaseEvent::Renewed),
            1 => Just(LeaseEvent::Deleted),
            2 => Just(LeaseEvent::Answered),
            2 => Just(LeaseEvent::Failed),
            2 => Just(LeaseEvent::TimedOut),
        ]
    }

    proptest! {
        /// Whatever happens, also events that do not fit.
        #[test]
        fn renewals_need_a_response_to_the_last_one_and_nothing_else_extends_the_lease(
            events in prop::collection::vec((event(), 0..5_000_u64), 1..60),
        ) {
            let mut now = Duration::ZERO;
            let mut lease = NodeLease::granted(LENGTH, now);
            let (mut renewal, mut is_answered) = (None, true);
            let (mut expected, mut is_lost) = (NodeLease::usable(LENGTH), false);
            for (event, passed) in events {
                now += Duration::from_millis(passed);
                let step = lease.step(event, now);
                is_answered |= matches!(event, LeaseEvent::Renewed | LeaseEvent::Answered);
                if let Some(sent_at) = renewal.take() {
                    is_lost |= event == LeaseEvent::Deleted;
                    if event == LeaseEvent::Renewed && !is_lost {
                        expected = expected.max(sent_at + NodeLease::usable(LENGTH));
                    }
                }
                if let LeaseStep::Renew(_) = step {
                    prop_assert!(is_answered, "a second renewal while the first has no response");
                    (renewal, is_answered) = (Some(now), false);
                }
                prop_assert_eq!(lease.is_lost(), is_lost);
                prop_assert_eq!(step == LeaseStep::Stop, is_lost);
                for moment in [now, expected.saturating_sub(Duration::from_nanos(1)), expected] {
                    prop_assert_eq!(lease.allows_effect(false, moment), !is_lost && moment < expected);
                    prop_assert!(!lease.allows_effect(true, moment));
                }
            }
        }
    }
}
