//! The decisions of a node about its lease, about stores of other nodes, and about the outcome of its commits.
//!
//! Pure state machines: a state and an event give a new state and the next step. The tasks of this crate carry the steps out
//! with a database, and the simulation with many nodes, lost messages and clocks that drift. So they must do no I/O and
//! read no clock. A moment is the time since some start, by a clock that never steps back and also counts while the machine
//! is suspended. Start at [`NodeLease`].

mod commit;
mod lease;
mod take_over;

pub use commit::{CommitAttempt, CommitEvent, CommitOutcome, CommitStep, Counters};
pub use lease::{LeaseEvent, LeaseStep, NodeLease};
pub use take_over::{OwnerSeen, TakeOver, TakeOverStep};
