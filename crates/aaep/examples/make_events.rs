//! A producer: builds a whole session with the builders and prints one JSON line per event.
//!
//! ```text
//! cargo run -p recount-aaep --example make_events
//! ```
//!
//! A real producer draws random ids and reads a clock; this one counts, so that its output is always the same. The
//! builders validate each event; the example `check_stream` checks the order.

use std::io::Write;

use recount_aaep::Event;
use recount_aaep::build::{self, BuildError, Draft, Frame};
use recount_aaep::wire::{Body, Boundary, Level, ReplyToken, ToolStatus};

/// The shared fields of a session, and its events.
struct Session {
    frame: Frame,
    events: Vec<Event>,
    /// Milliseconds since 1970.
    now: i64,
}

impl Session {
    fn begin(session_id: &str) -> Result<Session, BuildError> {
        let frame = Frame::new(session_id, "retirement-planner", "en-US")?;
        Ok(Session { frame, events: Vec::new(), now: 1_779_632_534_000 })
    }

    /// Adds one event, a fifth of a second after the previous one.
    fn push<B: Into<Body>>(&mut self, draft: Draft<B>) -> Result<(), BuildError> {
        self.now += 200;
        let number = self.events.len();
        let id = format!("evt_{number:032x}");
        self.events.push(self.frame.numbered(&id, self.now, number as u64, draft)?);
        Ok(())
    }
}

/// A session with streamed output and an action that needs a confirmation.
fn session() -> Result<Vec<Event>, BuildError> {
    let mut session = Session::begin("sess_2c91a7b4d23f1e88")?;
    session.push(build::session_started("Looking at your savings."))?;
    session.push(build::state_changed("idle", "writing_output", "Writing the answer."))?;
    let sentences = ["You have saved $12,400. ", "Moving $500 more would fill this year's allowance."];
    let mut position = 0;
    for (at, sentence) in sentences.iter().enumerate() {
        let piece = match at + 1 == sentences.len() {
            true => build::last_output(*sentence, position),
            false => build::output(*sentence, position, Boundary::Sentence),
        };
        session.push(piece.output_id("out_1"))?;
        // Positions count characters, not bytes.
        position += sentence.chars().count() as u64;
    }
    session.push(build::state_changed("writing_output", "awaiting_input", "Waiting for your word."))?;
    session.push(
        build::confirmation(
            "Transfer $500 to savings.",
            "The money moves at once and cannot be called back.",
            ReplyToken::new("rpl_4f8a2e7d9c1b6a3f")?,
            300,
        )
        .risk_level(Level::High)
        .irreversible(true)
        .for_call("transfer_funds", "call_1"),
    )?;
    // Here a producer waits for `confirmation.reply`, and continues only after an acceptance.
    session.push(build::state_changed("awaiting_input", "calling_tool", "You allowed the transfer."))?;
    session.push(
        build::tool_invoked("transfer_funds", "Transferring $500.")
            .tool_call_id("call_1")
            .risk_level(Level::High)
            .irreversible(true),
    )?;
    session.push(
        build::tool_completed("transfer_funds", ToolStatus::Success, "$500 moved to savings.")
            .tool_call_id("call_1"),
    )?;
    session.push(build::state_changed("calling_tool", "idle", "Done."))?;
    session.push(build::session_completed("Your allowance for this year is filled."))?;
    Ok(session.events)
}

/// Writes the session as JSON lines.
pub(crate) fn write(out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    for event in session()? {
        writeln!(out, "{}", event.to_json())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    write(&mut std::io::stdout().lock())
}
