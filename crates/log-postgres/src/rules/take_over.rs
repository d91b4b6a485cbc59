//! [`TakeOver`]: how long a node waits for a store that another node owns.

use std::time::Duration;

use crate::limits;

/// A node that waits for a store.
#[derive(Debug, Clone, Default)]
pub struct TakeOver {
    /// The owner, its expiry, and the renewals that were seen.
    seen: Option<(String, i64, u32)>,
}

/// The owner of a store and its lease, by the clock of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerSeen {
    pub node: String,
    pub until_ms: i64,
    pub remaining_ms: i64,
}

/// What a node does that found another owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOverStep {
    /// Waits, then tries again to take the store.
    Wait(Duration),
    /// Gives up: the owner renews its lease.
    OwnerIsAlive,
}

impl TakeOver {
    /// Another node owns the store.
    pub fn see(&mut self, owner: OwnerSeen) -> TakeOverStep {
        // One renewal may be the last of a node that got no response to it.
        let renewals = match &self.seen {
            Some((node, before, renewals)) if *node == owner.node => {
                renewals + u32::from(*before < owner.until_ms)
            }
            _ => 0,
        };
        if renewals >= limits::RENEWALS_OF_LIVING_NODE {
            return TakeOverStep::OwnerIsAlive;
        }
        self.seen = Some((owner.node, owner.until_ms, renewals));
        let remaining = Duration::from_millis(owner.remaining_ms.max(10).cast_unsigned());
        TakeOverStep::Wait(remaining.min(limits::LEASE_LOOK_EVERY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_alive_after_two_renewals_of_its_own() {
        let mut take_over = TakeOver::default();
        let mut see = |node: &str, until_ms, remaining_ms| {
            take_over.see(OwnerSeen { node: node.to_owned(), until_ms, remaining_ms })
        };
        let wait = |ms| TakeOverStep::Wait(Duration::from_millis(ms));
        assert_eq!(see("a", 8_000, 8_000), wait(250));
        assert_eq!(see("a", 10_000, 100), wait(100), "one renewal");
        assert_eq!(see("a", 10_000, -5), wait(10), "it has expired");
        assert_eq!(see("b", 20_000, 8_000), wait(250), "a new owner");
        assert_eq!(see("b", 22_000, 8_000), wait(250));
        assert_eq!(see("b", 24_000, 8_000), TakeOverStep::OwnerIsAlive);
    }
}
