//! Reads and follows events: live lists, subscriptions, pages of a run or of the feed, histories, prompts and
//! artifacts. It writes nothing, and must not know how events are created.
//!
//! Start with [`subscribe`].

pub(crate) mod artifacts;
pub(crate) mod event_filter;
mod feed;
pub(crate) mod follow;
pub(crate) mod handle;
mod history;
pub(crate) mod join;
pub(crate) mod live;
mod logged_output;
pub(crate) mod messages;
mod patches;
pub(crate) mod prompts;
pub(crate) mod publish;
pub(crate) mod readers;
pub(crate) mod runs;
mod session_totals;
pub(crate) mod subscribe;

pub use artifacts::{ArtifactContent, ArtifactFilter};
pub use event_filter::{EventFilter, TypePattern};
pub use feed::FeedRecords;
pub use follow::Events;
pub use handle::ReadHandle;
pub use live::{Framing, SharedEvent};
pub use logged_output::{LoggedOutput, OutputPieces};
pub use messages::{Messages, SessionMessage};
pub use patches::{PatchAction, PatchBytes, PatchSet};
pub use readers::ReaderStats;
pub use runs::{Digest, EventPage, RunEnd};
pub use session_totals::SessionTotals;
pub use subscribe::{Delivery, Subscription};
