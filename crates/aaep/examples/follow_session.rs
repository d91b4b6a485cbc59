//! A subscriber's side: what a screen reader would say of the events on standard input, one line an announcement.
//!
//! ```text
//! cargo run -p recount-aaep --example make_events | cargo run -p recount-aaep --example follow_session
//! ```
//!
//! It does what the protocol asks of subscribers: an event that was delivered twice is said once, types that it does not
//! know are said by their summary, output is held until a sentence is whole, and prompts are said with what they do and
//! what happens when nobody answers. It never answers by itself.

use std::collections::HashSet;
use std::io::{BufRead, Write};

use recount_aaep::wire::{AwaitingConfirmation, Boundary, OutputStreaming, Urgency, Verbosity};
use recount_aaep::{Body, Event, Message};

/// What has to be remembered between events.
#[derive(Default)]
struct Reader {
    heard: HashSet<String>,
    /// Output that no boundary has come for yet.
    held: String,
}

impl Reader {
    /// What to say of an event, if anything.
    fn hear(&mut self, event: &Event) -> Option<String> {
        // For ever is too long for a program that runs for days: there, keep a window.
        if !self.heard.insert(event.envelope.event_id.as_str().to_owned()) {
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
            // All others, and types of extensions or of later versions, by what they say of themselves.
            _ => event.summaries.at(&Verbosity::Normal)?.to_owned(),
        };
        let first = match event.envelope.urgency() {
            Urgency::Critical => "now: ",
            Urgency::Background => "when there is time: ",
            _ => "",
        };
        Some(format!("{first}{spoken}"))
    }

    /// Pieces are said when they come to a boundary; those without one are only held.
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

/// Both what is to be done and what follows from it come before the keys.
fn describe_prompt(prompt: &AwaitingConfirmation) -> String {
    let AwaitingConfirmation { action, consequence, default_decision, timeout_seconds, .. } = prompt;
    let default = default_decision.as_str();
    format!("{action} {consequence} Press a to accept, r to reject; {default} in {timeout_seconds} seconds.")
}

/// Reads JSON lines and says what comes of them. A line that is no message is said to be none, and harms nothing.
pub(crate) fn follow(input: impl BufRead, out: &mut impl Write) -> std::io::Result<()> {
    let mut reader = Reader::default();
    for line in input.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match Message::parse(&line) {
            Ok(Message::Event(event)) => {
                if let Some(spoken) = reader.hear(&event) {
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
