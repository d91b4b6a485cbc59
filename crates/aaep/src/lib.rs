//! The Agent Accessibility Event Protocol (AAEP) as a library: typed events and messages, rule checks, builders,
//! handshakes and shaping of event streams.
//!
//! This crate reads no clock, opens no socket and draws no randomness; the caller passes them in. It needs
//! `recount-json`, a scanner of JSON without dependencies, and `serde`, `serde_json`, `thiserror`, `twox-hash` and
//! `unicode-segmentation`.
//!
//! # Reading
//!
//! [`Message::parse`] reads any message, [`Event::parse`] an event. Unknown parts (types of extensions, fields of later
//! versions) are kept unchanged. Compact type names and full URIs are equal. A text that is not a message is rejected
//! with line, column and path.
//!
//! ```
//! use recount_aaep::{Body, Event};
//!
//! let event = Event::parse(r#"{
//!   "@context": "https://aaep-protocol.org/context/v1",
//!   "type": "aaep:agent.state.changed",
//!   "event_id": "evt_7d2a8c1f5e3b6a9d",
//!   "session_id": "sess_2c91a7b4d23f1e88",
//!   "timestamp": "2026-05-24T14:22:13.108Z",
//!   "producer": {"agent_id": "retirement-planner"},
//!   "from_state": "idle",
//!   "to_state": "thinking",
//!   "summary_normal": "Analysing your question."
//! }"#)?;
//! if let Body::StateChanged(change) = &event.body {
//!     assert_eq!(change.to_state, "thinking");
//! }
//! assert_eq!(event.summaries.normal.as_deref(), Some("Analysing your question."));
//!
//! let error = Event::parse("{\"@context\": \"x\",\n \"type\": 7, \"type\": 8}").unwrap_err();
//! assert_eq!(error.to_string(), "the key `type` appears twice in one object; keep one (line 2 column 13, in type)");
//! # Ok::<(), recount_aaep::ParseError>(())
//! ```
//!
//! # Writing
//!
//! [`build`] creates events and messages that break no rule. Required fields are arguments, a [`build::Frame`] adds the
//! envelope, and an invalid event is an error.
//!
//! ```
//! use recount_aaep::build::{self, Frame};
//! use recount_aaep::wire::{Level, ReplyToken};
//!
//! let frame = Frame::new("sess_1", "retirement-planner", "en-US")?;
//! let prompt = build::confirmation(
//!     "Transfer $500 to savings.",
//!     "The money moves at once.",
//!     ReplyToken::new("rpl_4f8a2e7d9c1b6a3f")?,
//!     300,
//! );
//! let event = frame.event("evt_1", 1_779_632_540_014, prompt.risk_level(Level::High).for_call("transfer", "call_1"))?;
//! assert!(event.to_json().contains("\"urgency\":\"critical\""));
//! # Ok::<(), recount_aaep::build::BuildError>(())
//! ```
//!
//! [`produce::ProducerSession`] produces a whole session: order, numbers, positions, prompts with replies and
//! deadlines, and the ending. Its page has a session in ten lines.
//!
//! # Checking
//!
//! [`rule`] has the table of all rules: each has a stable id, its requirement, its severity in the profiles
//! [`rule::Profile::Strict`] and [`rule::Profile::Compat`], and a remedy. [`rule::check_event`] checks one event.
//! [`session::Checker`] checks whole sessions, many at a time, with replies and handshakes as context and bounded
//! memory; [`json::Splitter`] splits a file of any length into texts for it.
//!
//! ```
//! use recount_aaep::json::Splitter;
//! use recount_aaep::session::{Checker, Options};
//!
//! let mut checker = Checker::new(Options::default());
//! let mut splitter = Splitter::new();
//! let file = b"{\"type\":\"confirmation.reply\",\"reply_token\":\"rpl_9\",\"decision\":\"accept\",\
//!     \"subscription_id\":\"sub_1\",\"timestamp\":\"2026-05-24T14:22:21.000Z\"}\n{\"cut off";
//! splitter.push(file, |piece| { checker.piece(piece); });
//! splitter.finish(|piece| { checker.piece(piece); });
//! checker.finish();
//! let found: Vec<_> = checker.take().iter().map(|finding| (finding.line, finding.rule.id)).collect();
//! assert_eq!(found, [(1, "reply.unknown"), (2, "json.truncated")]);
//! ```
//!
//! # Producing
//!
//! [`negotiate`] evaluates subscription requests against an offer. [`shaping`] adapts a producer's events to the terms
//! of one subscriber: filters, rate, language, and output cut at the agreed boundaries, without loss.
//!
//! # Whole programs
//!
//! `examples/` has five programs that pipes can connect: `make_events` and `produce_session` are producers,
//! `check_stream` checks its input, `follow_session` prints what a screen reader would speak, and `ask_permission`
//! replies to a prompt.
//!
//! # Schemas and languages
//!
//! [`schema`] exports the same rules as JSON Schemas and resolves the protocol's own `$id`s to them without a network.
//! [`language`] matches language tags (BCP 47) the way the protocol asks. [`markdown`] converts Markdown to text for
//! speech, while it streams.
//!
//! # What it does not do
//!
//! It has no transport and does not fetch JSON-LD contexts: whether a foreign context declares a prefix is unknown, and
//! `extension.unresolved` reports that.

pub mod build;
pub mod field;
mod hash;
pub mod json;
pub mod kind;
pub mod language;
pub mod lex;
pub mod limits;
pub mod markdown;
pub mod negotiate;
pub mod produce;
mod quote;
mod reading;
pub mod rule;
mod rules;
pub mod schema;
pub mod session;
pub mod shape;
pub mod shaping;
pub mod table;
pub mod wire;

pub use kind::Kind;
pub use reading::Reading;
pub use table::MessageKind;
pub use wire::{Body, Event, Message, ParseError};

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The supported version of the protocol.
pub const VERSION: &str = "1.0.0";
