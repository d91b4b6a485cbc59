//! Sessions from a producer's side. [`ProducerSession`] puts the events of one session into the right order, numbers
//! them, counts positions, issues reply tokens, judges replies, applies defaults when their time has come, and lets a
//! call that cannot be undone begin only after its own confirmation was accepted.
//!
//! It reads no clock and draws no randomness: each method takes a [`Stamp`]. It sends nothing: each method returns the
//! events to be sent, in their order. A call at the wrong time or with wrong arguments is a [`Misuse`]: nothing is
//! emitted, and the session stays as it was.
//!
//! ```
//! use recount_aaep::build::{self, Frame};
//! use recount_aaep::produce::{ProducerSession, ReplyOutcome, Stamp};
//! use recount_aaep::wire::{Level, ToolStatus};
//!
//! # let mut entropy = 0_u8;
//! # let mut stamp = || { entropy += 1; Stamp { now_ms: 1_779_632_534_000, entropy: [entropy; 32] } };
//! # let send = |_events: Vec<recount_aaep::Event>| {};
//! let mut session = ProducerSession::new(Frame::new("sess_1", "planner", "en-US")?)?;
//! send(session.start(stamp(), build::session_started("Moving your savings."))?);
//! let call = build::tool_invoked("transfer", "Transferring $500.").args_summary("$500 to savings");
//! let call = call.irreversible(true).risk_level(Level::High);
//! let ask = |token| build::confirmation("Transfer $500.", "It cannot be called back.", token, 300);
//! let (prompt, events) = session.confirm(stamp(), &call, ask)?;
//! # let reply = format!(r#"{{"type":"confirmation.reply","reply_token":"{}","decision":"accept",
//! #     "subscription_id":"sub_1","timestamp":"2026-05-24T14:22:14.000Z"}}"#, session.open_token().unwrap());
//! send(events);
//! let received = session.receive(stamp(), &reply)?;
//! send(received.events);
//! assert_eq!(received.outcome, ReplyOutcome::Accepted { prompt });
//! let (running, events) = session.begin_confirmed_call(stamp(), call, prompt)?;
//! send(events);
//! send(session.end_call(stamp(), running, build::tool_completed("transfer", ToolStatus::Success, "Moved."))?);
//! send(session.complete(stamp(), build::session_completed("Your savings have grown."))?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! While a prompt is open its time has to pass: call [`ProducerSession::advance`] at
//! [`ProducerSession::next_deadline`]. Who may reply at all is for the transport to decide (R-161): hand in only replies
//! of subscribers that were authenticated and had the prompt.

mod batch;
mod ending;
mod misuse;
mod open;
mod prompt;
mod reply;
mod session;
mod stamp;
mod texts;

pub use misuse::Misuse;
pub use open::PromptHandle;
pub use prompt::{Advanced, AppliedDefault};
pub use reply::{Received, ReplyOutcome};
pub use session::{CallHandle, OutputHandle, ProducerSession};
pub use stamp::Stamp;
pub use texts::StateTexts;
