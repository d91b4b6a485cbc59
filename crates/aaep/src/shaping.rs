//! Shapes a producer's events for one subscriber: filters, rate limit, coalescing of output, verbosity and language.
//! Pure: the caller passes the time in and gets the due events.
//!
//! A [`Shaper`] connects a producer with one subscription, by the agreed [`crate::negotiate::Terms`]:
//!
//! - **Filters** drop excluded events; `exclude` overrides `include` (R-117).
//! - **Critical** events are never filtered and never wait (R-116). Errors, prompts and handoffs are critical by type.
//!   Other events marked critical are sent at once too, up to [`crate::limits::SHAPED_CRITICAL_PER_SECOND`], so that
//!   marking everything critical does not bypass the limits (G-24). Text before a prompt is sent before it, whatever
//!   the rate: up to the last agreed boundary as one chunk, the rest as a fragment (G-26). So are the start of its
//!   session and the states before it; before an error that ends a session, all held events are sent. Other held events
//!   follow.
//! - **Prompts**: states into and out of `awaiting_input` are never merged. The end of a prompt that was sent does not
//!   wait for the rate either, because the listener believes until then that it can reply (R-071, R-088).
//! - **The rate** holds in every window of one second (R-115). Events above it wait and are merged: chunks of output
//!   become one, consecutive states become one change, and only the last progress is kept (R-118, G-25). Output,
//!   lifecycle, tools and prompts are never dropped.
//! - **Output** is cut at agreed boundaries, at ends of words and sentences by the rules of Unicode, never inside a
//!   grapheme cluster, and the hint names the true boundary. Positions count characters, and the chunks concatenate to
//!   the text (R-057, R-060, R-118, R-185, R-186). A chunk cut elsewhere has the hint `none`: its reader joins it with
//!   the next one (R-061). Text without a boundary and without continuation is sent after
//!   [`crate::limits::SHAPED_UNFINISHED_MS`], so that a producer that stops inside a sentence leaves no text unspoken.
//! - **Lead-ins** of a session that is joined in its middle are sent first ([`Shaper::with_lead_in`], R-150).
//! - **Numbers** are assigned last: 0, 1, 2 for each session of this subscription (G-27). A merged event has a new id
//!   and lists the original ids in an extension ([`EXTENSION_PREFIX`]).
//! - **Wishes**: language, verbosity, `cognitive_load`, `pace_wpm` (R-126, R-188).
//!
//! The held events are bounded ([`crate::limits::SHAPED_HELD_EVENTS_MAX`], [`crate::limits::SHAPED_HELD_BYTES_MAX`]);
//! at the bounds, the rate is exceeded and no text is lost. See `docs/decisions/0058`.
//!
//! ```
//! use recount_aaep::Body;
//! use recount_aaep::build::{self, Frame};
//! use recount_aaep::negotiate::{Offer, evaluate_text};
//! use recount_aaep::shaping::Shaper;
//! use recount_aaep::wire::{Boundary, Producer, SubscriptionId};
//!
//! let offer = Offer::new(Producer::named("planner"), "en-US");
//! let request = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"reader",
//!     "capabilities":{"max_events_per_second":1,"coalesce_boundaries":["sentence","completion"]}}"#;
//! let terms = evaluate_text(&offer, request).accepted().expect("it can be served");
//! let mut shaper = Shaper::new(terms, &SubscriptionId::new("sub_1")?);
//!
//! let frame = Frame::new("sess_1", "planner", "en-US")?;
//! shaper.push(frame.event("evt_0", 0, build::session_started("Looking."))?, 0);
//! let mut position = 0;
//! for (at, word) in ["It ", "rains. ", "Take ", "a ", "coat. ", "And "].into_iter().enumerate() {
//!     let piece = build::output(word, position, Boundary::Word).output_id("out_1");
//!     shaper.push(frame.event(&format!("evt_{}", at + 1), 1, piece)?, 1);
//!     position += word.len() as u64;
//! }
//! assert_eq!(shaper.due(1).len(), 1, "the first event of this second");
//! assert_eq!(shaper.next_due(), Some(1_000));
//! let due = shaper.due(1_000);
//! let Body::OutputStreaming(output) = &due[0].body else { panic!("two sentences") };
//! assert_eq!((output.chunk.as_str(), output.position), ("It rains. Take a coat. ", 0));
//! assert_eq!(due[0].envelope.sequence_number, Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bucket;
mod grapheme;
mod held;
mod note;
mod punctuation;
mod rank;
mod scan;
mod shaper;
mod text;
mod track;
mod tune;

pub use crate::kind::{EXTENSION_CONTEXT, EXTENSION_PREFIX};
pub use shaper::{Counts, Shaper};
