//! A producer with [`ProducerSession`]: a call that cannot be undone, made after its prompt is accepted.
//!
//! ```text
//! cargo run -p recount-aaep --example produce_session
//! cargo run -p recount-aaep --example produce_session -- reject | cargo run -p recount-aaep --example check_stream
//! ```
//!
//! A real producer reads a clock, draws entropy from a cryptographic source and waits for replies; this one counts, and
//! replies to itself. Without an argument it does not reply, and the prompt times out.

use std::io::Write;

use recount_aaep::Event;
use recount_aaep::build::{self, Frame};
use recount_aaep::produce::{AppliedDefault, ProducerSession, ReplyOutcome, Stamp};
use recount_aaep::wire::{
    Boundary, ConfirmationReply, Decision, Level, SubscriptionId, Timestamp, ToolStatus,
};

/// The time and entropy that a real producer gets from its system.
struct World {
    now_ms: i64,
    drawn: u8,
}

impl World {
    /// A fifth of a second later.
    fn stamp(&mut self) -> Stamp {
        self.now_ms += 200;
        self.drawn += 1;
        Stamp { now_ms: self.now_ms, entropy: [self.drawn; 32] }
    }
}

/// The lines of a session: its events, and the reply if there is one.
pub(crate) fn lines(decision: Option<Decision>) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut world = World { now_ms: 1_779_632_534_000, drawn: 0 };
    let mut lines: Vec<String> = Vec::new();
    let send = |lines: &mut Vec<String>, events: Vec<Event>| lines.extend(events.iter().map(Event::to_json));

    let mut session =
        ProducerSession::new(Frame::new("sess_2c91a7b4d23f1e88", "retirement-planner", "en-US")?)?;
    send(&mut lines, session.start(world.stamp(), build::session_started("Looking at your savings."))?);
    let answer = session.open_output(None)?;
    send(&mut lines, session.write(world.stamp(), answer, "You have saved $12,400. ", Boundary::Sentence)?);
    send(&mut lines, session.finish_output(world.stamp(), answer, "Moving $500 more would help.")?);

    let transfer = || {
        build::tool_invoked("transfer_funds", "Transferring $500.")
            .args_summary("$500 to savings")
            .risk_level(Level::High)
            .irreversible(true)
    };
    let ask =
        |token| build::confirmation("Transfer $500 to savings.", "It cannot be called back.", token, 300);
    let (prompt, events) = session.confirm(world.stamp(), &transfer(), ask)?;
    send(&mut lines, events);

    let allowed = match (decision, session.open_token().cloned()) {
        (Some(decision), Some(token)) => {
            let now = Timestamp::of_millis(world.stamp().now_ms);
            let reply = ConfirmationReply::new(token, decision, SubscriptionId::new("sub_1")?, now);
            let reply = build::message(reply)?.to_json();
            lines.push(reply.clone());
            let received = session.receive(world.stamp(), &reply)?;
            send(&mut lines, received.events);
            received.outcome == ReplyOutcome::Accepted { prompt }
        }
        _ => {
            world.now_ms = session.next_deadline().unwrap_or(world.now_ms);
            let advanced = session.advance(world.stamp())?;
            send(&mut lines, advanced.events);
            advanced.default == Some((prompt, AppliedDefault::Accepted))
        }
    };
    if allowed {
        let (call, events) = session.begin_confirmed_call(world.stamp(), transfer(), prompt)?;
        send(&mut lines, events);
        // Here the tool does its work.
        let done = build::tool_completed("transfer_funds", ToolStatus::Success, "$500 moved to savings.");
        send(&mut lines, session.end_call(world.stamp(), call, done)?);
    }
    let summary = if allowed { "Your allowance for this year is filled." } else { "Nothing was moved." };
    send(&mut lines, session.complete(world.stamp(), build::session_completed(summary))?);
    Ok(lines)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let decision = std::env::args().nth(1).map(|word| Decision::from(&*word));
    let mut out = std::io::stdout().lock();
    for line in lines(decision)? {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
