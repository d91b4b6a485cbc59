//! Shapes a producer's events for one subscriber: filters, rate limit, coalescing of output, verbosity and language. Pure: the
//! time is passed in, and the events that are due are returned.
//!
//! A [`Shaper`] is between a producer and one subscription, with the [`crate::negotiate::Terms`] that were agreed:
//!
//! - **Filters** leave out what is not wanted; `exclude` beats `include` (R-117).
//! - **Critical** events are never filtered and never wait (R-116). Errors, prompts and handoffs are critical by
//!   their type; others that are called critical go out at once too, up to
//!   [`crate::limits::SHAPED_CRITICAL_PER_SECOND`], so that calling everything critical passes no limit (G-24). Text that
//!   came before a prompt goes out before it, whatever the rate: what ends at an agreed boundary as one piece, the rest as a
//!   fragment (G-26). So does the beginning of its session; before an error that ends a session goes all there is. Other
//!   things that are held come after it.
//! - **The rate** is kept in every second, wherever it begins (R-115). What is over it waits, and is merged meanwhile:
//!   pieces of output become one, states in a row one change, progress is what it was last (R-118, G-25). Output,
//!   lifecycle, tools and prompts are never dropped.
//! - **Output** is cut where it was agreed, at ends of words and sentences by the rules of Unicode, never inside a grapheme
//!   cluster, and what was cut truly names what ends there. Positions count characters, and the texts joined are the text
//!   (R-057, R-060, R-118, R-185, R-186). What has to go where no agreed boundary is has the hint `none`: its reader joins
//!   it to what follows (R-061). What ends nowhere and is not continued goes after
//!   [`crate::limits::SHAPED_UNFINISHED_MS`], so that a producer that falls silent in a sentence leaves nothing unspoken.
//! - **Lead-ins** of a session that is joined in its middle go out first ([`Shaper::with_lead_in`], R-150).
//! - **Numbers** are given last: 0, 1, 2 for each session as this subscriber sees it (G-27). What stands for several
//!   events has an id of its own and theirs in an extension ([`EXTENSION_PREFIX`]).
//! - **Wishes**: language, verbosity, `cognitive_load`, `pace_wpm` (R-126, R-188).
//!
//! What is held is bounded ([`crate::limits::SHAPED_HELD_EVENTS_MAX`], [`crate::limits::SHAPED_HELD_BYTES_MAX`]);
//! at the bounds the rate gives way, not the text. See `docs/decisions/0058`.
//!
//! ```
//! use recount_aaep::Body;
//! use recount_aaep::build::{self, Frame};
//! use recount_aaep::negotiate::{Offer, answer_text};
//! use recount_aaep::shaping::Shaper;
//! use recount_aaep::wire::{Boundary, Producer, SubscriptionId};
//!
//! let offer = Offer::new(Producer::named("planner"), "en-US");
//! let request = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"reader",
//!     "capabilities":{"max_events_per_second":1,"coalesce_boundaries":["sentence","completion"]}}"#;
//! let terms = answer_text(&offer, request).accepted().expect("it can be served");
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

pub use note::{EXTENSION_CONTEXT, EXTENSION_PREFIX};
pub use shaper::{Counts, Shaper};
