//! Produces sessions. [`ProducerSession`] orders and numbers the events of one session, counts positions, issues reply
//! tokens, validates replies and applies defaults at their deadline. A call that cannot be undone starts only after its
//! own confirmation was accepted.
//!
//! It reads no clock and draws no randomness: each method takes a [`Stamp`]. It sends nothing: each method returns the
//! events to send, in order. A call at the wrong time or with invalid arguments is a [`Misuse`]: it emits nothing and
//! does not change the session.
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
//! While a prompt is open, call [`ProducerSession::advance`] at [`ProducerSession::next_deadline`]. The transport
//! decides which subscribers may reply (R-161): pass in only replies of authenticated subscribers that received the
//! prompt.

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
pub use prompt::{AdvanceResult, AppliedDefault};
pub use reply::{ReplyOutcome, ReplyResult};
pub use session::{CallHandle, OutputHandle, ProducerSession};
pub use stamp::Stamp;
pub use texts::StateTexts;
