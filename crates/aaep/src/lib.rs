//! The Agent Accessibility Event Protocol (AAEP) as a library: how an agent tells people who cannot see it what it
//! does, what it is about to do, and what it needs to know.
//!
//! This crate reads no clock, opens no socket and draws no randomness; all of that comes from the caller. It
//! needs `recount-json`, a scanner of JSON without dependencies, and `serde`, `serde_json`, `thiserror`, `twox-hash` and
//! `unicode-segmentation`.
//!
//! # Reading
//!
//! [`Message::parse`] reads anything that comes over the wire, [`Event::parse`] an event. What the protocol does not
//! know (types of extensions, fields of later versions) is kept text for text; compact type names and full URIs are the
//! same; a text that is no message is refused with line, column and path.
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
//! [`build`] makes events and messages that break no rule: what an event must have is an argument, the envelope comes
//! from a [`build::Frame`], and what would not be right is not made.
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
//! # Ok::<(), recount_aaep::build::Refused>(())
//! ```
//!
//! [`produce::ProducerSession`] does the same for a whole session: order, numbers, positions, prompts with their replies
//! and deadlines, and the ending. Its page has a session in ten lines.
//!
//! # Checking
//!
//! [`rule`] has the table of all rules: each with a stable id, the requirement it comes from, its gravity in the profiles
//! [`rule::Profile::Strict`] and [`rule::Profile::Compat`], and a sentence that says what to do.
//! [`rule::check_event`] holds one event against them. [`session::Checker`] follows whole sessions, many at a time, with
//! replies and handshakes as context and with bounded memory; [`json::Splitter`] cuts a file of any length into texts
//! for it.
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
//! [`negotiate`] answers subscribers: what of their wishes is honoured, and when the answer is no. [`shaping`] makes of a
//! producer's events what one subscriber has agreed to: filtered, at its pace, in its language, with output cut where
//! it may be spoken, and nothing lost.
//!
//! # Whole programs
//!
//! `examples/` has five that can be joined by pipes: `make_events` and `produce_session` are producers, `check_stream` checks what comes,
//! `follow_session` says what a screen reader would say, and `ask_permission` answers a prompt.
//!
//! # Schemas and languages
//!
//! [`schema`] exports the same rules as JSON Schemas and resolves the protocol's own `$id`s to them without a network.
//! [`language`] matches language tags (BCP 47) the way the protocol asks.
//!
//! # What it does not do
//!
//! It does not transport anything, and it does not fetch JSON-LD contexts: whether a foreign context declares a prefix
//! is not known here, and `extension.unresolved` says so.

pub mod build;
pub mod field;
mod hash;
pub mod json;
pub mod kind;
pub mod language;
pub mod lex;
pub mod limits;
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

/// The version of the protocol that is spoken here.
pub const VERSION: &str = "1.0.0";
