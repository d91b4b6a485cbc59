//! Translates what other agents report of themselves into events of external runs.
//!
//! [`Recording`] records one run: it follows the grammar for the producer of an external run, and returns [`Draft`]s in
//! a legal order for any input. The other modules read the formats of one agent each.
//!
//! This crate must never know about I/O, clocks, async or the engine. Entry point: [`Recording`].

pub mod acp;
mod claude_hooks;
pub mod claude_telemetry;
pub mod claude_transcripts;
mod codex_hooks;
pub mod codex_rollouts;
mod draft;
mod exit_status;
mod gemini_hooks;
pub mod genai_spans;
mod hook_body;
pub mod hooks;
mod ids;
mod kept;
pub mod limits;
pub mod mcp;
pub mod otlp;
mod patch;
mod recording;
mod source;
pub mod transcript;

pub use draft::Draft;
pub use ids::{extension_kind, map_id, session_title, session_title_end};
pub use kept::{cut, keep};
pub use patch::Patch;
pub use recording::{
    Answer, CallStart, Decided, Elsewhere, Ending, How, Outcome, PatchFacts, Prompt, Recording, Todo,
    TurnEnd, TurnStart, Usage,
};
pub use source::Source;
