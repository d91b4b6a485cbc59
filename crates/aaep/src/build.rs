//! Builders for valid events. Required fields are arguments; the language, the urgency and the envelope are added; and
//! the result is checked against every rule. Start at [`Frame`].
//!
//! ```
//! use recount_aaep::build::{self, Frame};
//! use recount_aaep::wire::Level;
//!
//! let frame = Frame::new("sess_2c91a7b4", "retirement-planner", "en-US")?;
//! let event = frame.event(
//!     "evt_1",
//!     1_779_632_534_527,
//!     build::tool_invoked("fetch_balance", "Retrieving your balance.").tool_call_id("call_1").risk_level(Level::Low),
//! )?;
//! assert_eq!(event.envelope.timestamp.as_str(), "2026-05-24T14:22:14.527Z");
//!
//! let refused = frame.event("evt_2", 1_779_632_534_600, build::tool_invoked("my tool", "Calling.")).unwrap_err();
//! assert_eq!(refused.findings[0].rule.id, "payload.form");
//! # Ok::<(), recount_aaep::build::BuildError>(())
//! ```

mod draft;
mod frame;

pub use draft::{
    Draft, clarification, confirmation, handoff, last_output, output, progress, session_cancelled,
    session_completed, session_errored, session_started, state_changed, tool_completed, tool_invoked,
};
pub use frame::{BuildError, Frame, message};
