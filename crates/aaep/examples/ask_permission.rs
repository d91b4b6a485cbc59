//! Replies to prompts: checks which decisions a prompt allows, and builds a valid reply.
//!
//! ```text
//! cargo run -p recount-aaep --example make_events | cargo run -p recount-aaep --example ask_permission -- accept
//! ```
//!
//! For each `awaiting.confirmation` on standard input it writes the `confirmation.reply` that a subscriber would send.

use std::io::{BufRead, Write};

use recount_aaep::build;
use recount_aaep::wire::{ConfirmationReply, Decision, SubscriptionId, Timestamp};
use recount_aaep::{Body, Event};

/// Replies to every prompt that allows this decision; prints an error for the others.
pub(crate) fn reply(
    input: impl BufRead,
    out: &mut impl Write,
    decision: &Decision,
) -> Result<(), Box<dyn std::error::Error>> {
    for line in input.lines() {
        let Ok(event) = Event::parse(&line?) else { continue };
        let Body::AwaitingConfirmation(prompt) = &event.body else { continue };
        if !prompt.allows(decision) {
            eprintln!(
                "{}: `{}` is not an allowed reply",
                event.envelope.event_id.as_str(),
                decision.as_str()
            );
            continue;
        }
        // Two seconds later; a subscriber reads its clock.
        let moment = event.envelope.timestamp.millis() + 2_000;
        assert!(moment < prompt.deadline_ms(&event.envelope.timestamp), "a prompt has at least a second");
        let reply = ConfirmationReply::new(
            // Returned unchanged: a token has no meaning for subscribers.
            prompt.reply_token.clone(),
            decision.clone(),
            SubscriptionId::new("sub_1")?,
            Timestamp::of_millis(moment),
        );
        writeln!(out, "{}", build::message(reply)?.to_json())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let word = std::env::args().nth(1).unwrap_or_default();
    let decision = Decision::from(&*word);
    if !matches!(decision, Decision::Accept | Decision::Reject) {
        return Err(format!("unknown decision `{word}`; use accept or reject").into());
    }
    reply(std::io::stdin().lock(), &mut std::io::stdout().lock(), &decision)
}
