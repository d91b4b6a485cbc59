//! The state-machine trace of a recorded session (Appendix A of the protocol): each message in order, what it opened
//! and closed, and each broken rule at the line that broke it. [`write()`] traces a whole file, [`Live`] traces line
//! by line as messages come.
//!
//! A trace has three forms. [`Format::Text`] is linear: a screen reader follows it from top to bottom, without
//! columns, colours or drawn boxes. [`Format::Html`] is one file without network or script, with a drawing of the
//! lanes (states, calls, prompts, outputs) beside the same account. [`Format::Json`] is the trace as data;
//! `docs/aaep/visualize.md` describes its fields.
//!
//! Rules are checked by [`super::aaep::session::Checker`], not here. Texts of a file are untrusted: no form outputs a
//! control character, or one that reverses text, as it came.

mod collect;
mod describe;
mod follow;
mod html;
mod json;
mod live;
mod model;
mod sentence;
mod shown;
mod text;
mod time;

use std::io::{self, Read, Write};
use std::str::FromStr;

use super::aaep;
use aaep::rule::Profile;

pub use html::{STYLE, STYLE_SUM};
pub use live::Live;
pub use model::Totals;

/// The output format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Text,
    Html,
    Json,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Text, Format::Html, Format::Json];

    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Html => "html",
            Format::Json => "json",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Format::ALL.into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| format!("unknown format `{text}`; known formats: text, html, json"))
    }
}

/// What to trace, and how.
#[derive(Debug, Clone, Copy)]
pub struct Options<'o> {
    /// The name of the file in the output.
    pub name: &'o str,
    pub profile: Profile,
    /// Only the session with this id.
    pub session: Option<&'o str>,
    /// Any number; see [`aaep::session::Options`].
    pub seed: u64,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { name: "standard input", profile: Profile::default(), session: None, seed: 0 }
    }
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("the file cannot be read: {0}")]
    Read(io::Error),
    #[error("no session `{0}` in the file; leave the option out to trace all sessions")]
    NoSession(String),
    #[error("the trace cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Reads a file to its end and writes its trace; returns the totals. The trace of an empty file states that it is
/// empty.
///
/// The trace is held in memory until the end of the file, because its summary comes first: about half a kilobyte per
/// event, [`crate::limits::TRACE_BYTES_MAX`] at most.
pub fn write(
    file: impl Read,
    format: Format,
    out: &mut impl Write,
    options: &Options<'_>,
) -> Result<Totals, TraceError> {
    let trace = collect::collect(file, options).map_err(TraceError::Read)?;
    if let Some(session) = options.session.filter(|_| trace.sessions.is_empty()) {
        return Err(TraceError::NoSession(session.to_owned()));
    }
    match format {
        Format::Text => text::write(&trace, options, out)?,
        Format::Html => html::write(&trace, options, out)?,
        Format::Json => json::write(&trace, options, out)?,
    }
    Ok(trace.totals)
}

/// The name of a profile on command lines.
fn profile(profile: Profile) -> &'static str {
    match profile {
        Profile::Strict => "strict",
        Profile::Compat => "compat",
    }
}
