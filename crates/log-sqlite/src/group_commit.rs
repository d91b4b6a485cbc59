//! Group commit: whether the writer waits, before it begins a commit, for appends that are about to come.
//!
//! A commit costs nearly as much for one append as for thirty: a sync and a few pages. So waiting for more appends pays
//! under many concurrent clients, and only costs time under few. The number of clients is estimated: when the writer
//! was busy for longer (a slow sync, a sealing), the queue length afterwards is the number of concurrent appends. The
//! writer then waits for a part of that number, for at most a few commits. After a wait in vain it lowers the estimate.
//!
//! A single client never waits, except for a few commits after many clients have stopped. This file only decides: it
//! must not know the queue, threads or clocks. See [`GroupCommitPolicy`].

use std::time::Duration;

use crate::limits::{GROUP_WAIT_COMMITS, GROUP_WAIT_DIVISOR, GROUP_WAIT_LESS_DIVISOR, GROUP_WAIT_MAX};

/// The estimate of concurrent appends.
#[derive(Debug, Default)]
pub(crate) struct GroupCommitPolicy {
    /// The recent number of concurrent appends.
    at_once: usize,
    /// How long the last commit took.
    took: Duration,
}

impl GroupCommitPolicy {
    /// The queue length to wait for before a commit, and how long; `None`: commit now.
    pub(crate) fn wait_target(&self) -> Option<(usize, Duration)> {
        let count = self.at_once / GROUP_WAIT_DIVISOR;
        (count > 1).then(|| (count, (self.took * GROUP_WAIT_COMMITS).min(GROUP_WAIT_MAX)))
    }

    /// Records the queue length when it was taken.
    pub(crate) fn record_queue(&mut self, count: usize) {
        if self.wait_target().is_some_and(|(wanted, _)| count < wanted) {
            self.at_once -= self.at_once.div_ceil(GROUP_WAIT_LESS_DIVISOR);
        }
        self.at_once = self.at_once.max(count);
    }

    pub(crate) fn committed(&mut self, took: Duration) {
        self.took = took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: Duration = Duration::from_micros(100);

    fn after(counts: &[usize]) -> GroupCommitPolicy {
        let mut policy = GroupCommitPolicy::default();
        for count in counts {
            policy.record_queue(*count);
            policy.committed(COMMIT);
        }
        policy
    }

    #[test]
    fn few_clients_cause_no_wait() {
        for counts in [&[][..], &[1], &[1, 1, 2, 1], &[4, 2, 5, 1]] {
            assert_eq!(after(counts).wait_target(), None, "{counts:?}");
        }
    }

    #[test]
    fn many_clients_cause_a_wait_of_a_few_commits() {
        assert_eq!(after(&[3, 60, 20, 30]).wait_target(), Some((20, COMMIT * GROUP_WAIT_COMMITS)));
        let mut slow = after(&[60]);
        slow.committed(Duration::from_secs(3));
        assert_eq!(slow.wait_target(), Some((20, GROUP_WAIT_MAX)));
    }

    #[test]
    fn after_many_clients_a_single_one_waits_a_few_times_and_then_never_again() {
        let mut policy = after(&[4096]);
        let mut waits = 0;
        while policy.wait_target().is_some() {
            policy.record_queue(1);
            waits += 1;
        }
        assert_eq!(waits, 23);
        policy.record_queue(1);
        assert_eq!(policy.wait_target(), None);
    }

    #[test]
    fn the_wait_target_is_at_most_a_part_of_the_maximum() {
        for most in 0..5000 {
            let policy = after(&[most / 2, most, most / 3]);
            match policy.wait_target() {
                Some((wanted, _)) => {
                    assert!(wanted > 1 && wanted <= most / GROUP_WAIT_DIVISOR, "{wanted} of {most}")
                }
                None => assert!(most < 2 * GROUP_WAIT_DIVISOR, "{most}"),
            }
        }
    }
}
