//! A subscriber: prints what a screen reader would speak for the events on standard input, one announcement per line.
//!
//! ```text
//! cargo run -p recount-aaep --example make_events | cargo run -p recount-aaep --example follow_session
//! ```
//!
//! It follows the protocol's requirements for subscribers: duplicates are announced once, unknown types by their
//! summary, and output only in complete sentences. Prompts are announced with their consequence and their default. It
//! never replies.

use std::collections::HashSet;
use std::io::{BufRead, Write};

use recount_aaep::wire::{AwaitingConfirmation, Boundary, OutputStreaming, Urgency, Verbosity};
use recount_aaep::{Body, Event, Message};

/// The state between events.
#[derive(Default)]
struct Reader {
    seen_ids: HashSet<String>,
    /// Output since the last boundary.
    held: String,
}

impl Reader {
    /// The announcement of an event, if any.
    fn announce(&mut self, event: &Event) -> Option<String> {
        // A program that runs for days should keep a bounded window of ids.
        if !self.seen_ids.insert(event.envelope.event_id.as_str().to_owned()) {
            return None;
        }
        let spoken = match &event.body {
            Body::OutputStreaming(piece) => return self.output(piece),
            Body::AwaitingConfirmation(prompt) => describe_prompt(prompt),
            Body::SessionErrored(error) => {
                let summary = event.summaries.at(&Verbosity::Normal).unwrap_or("It failed.");
                [Some(summary), error.remediation_hint.as_deref()]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            // All other types, including unknown ones, by their summary.
            _ => event.summaries.at(&Verbosity::Normal)?.to_owned(),
        };
        let first = match event.envelope.urgency() {
            Urgency::Critical => "now: ",
            Urgency::Background => "when there is time: ",
            _ => "",
        };
        Some(format!("{first}{spoken}"))
    }

    /// Announces output at a boundary; chunks before it are held.
    fn output(&mut self, piece: &OutputStreaming) -> Option<String> {
        self.held.push_str(&piece.chunk);
        let at_boundary = matches!(
            piece.coalesce_hint,
            Some(Boundary::Sentence | Boundary::Paragraph | Boundary::Completion)
        );
        let whole = (at_boundary || piece.complete) && !self.held.trim().is_empty();
        whole.then(|| std::mem::take(&mut self.held).trim().to_owned())
    }
}

/// The action and its consequence, followed by the keys.
fn describe_prompt(prompt: &AwaitingConfirmation) -> String {
    let AwaitingConfirmation { action, consequence, default_decision, timeout_seconds, .. } = prompt;
    let default = default_decision.as_str();
    format!("{action} {consequence} Press a to accept, r to reject; {default} in {timeout_seconds} seconds.")
}

/// Reads JSON lines and prints the announcements. An invalid line is reported and skipped.
pub(crate) fn follow(input: impl BufRead, out: &mut impl Write) -> std::io::Result<()> {
    let mut reader = Reader::default();
    for line in input.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match Message::parse(&line) {
            Ok(Message::Event(event)) => {
                if let Some(spoken) = reader.announce(&event) {
                    writeln!(out, "{spoken}")?;
                }
            }
            // A handshake, or a person's reply.
            Ok(_) => {}
            Err(why) => eprintln!("not announced: {why}"),
        }
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    follow(std::io::stdin().lock(), &mut std::io::stdout().lock())
}
