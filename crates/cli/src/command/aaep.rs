//! `recount aaep`: tools for the Agent Accessibility Event Protocol, for producers and subscribers of any make, and the
//! events of our own server for programs that start their producer. One file a verb.

mod capture;
mod conformance;
mod replay;
mod stdio;
mod validate;
mod visualize;

use clap::{Args, Subcommand, ValueEnum};
use recount_aaep_kit::aaep::rule;

use super::Invocation;
use crate::failure::Failure;

/// Validate, capture, replay and test AAEP, the accessibility event protocol
#[derive(Args)]
pub(super) struct Aaep {
    #[command(subcommand)]
    verb: AaepVerb,
}

#[derive(Subcommand)]
enum AaepVerb {
    /// Record the events of a producer
    Capture(Box<capture::Capture>),
    /// Serve a recording to subscribers
    Replay(replay::Again),
    /// Serve the server's events as JSON-RPC on standard input and output
    Stdio(stdio::Stdio),
    /// Check files of events against the protocol's rules
    Validate(validate::Validate),
    /// Render a recorded session, with every broken rule marked
    Visualize(visualize::Visualize),
    /// Test producers and subscribers against the protocol's requirements
    Conformance(conformance::Conformance),
}

/// How a verb tells what it found.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Plain text
    Text,
    /// One JSON object
    Json,
}

impl Format {
    /// What was said for this verb wins over what was said for all.
    fn of(said: Option<Format>, json: bool) -> Format {
        said.unwrap_or(if json { Format::Json } else { Format::Text })
    }
}

/// How breaches of rules are graded.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// Every requirement of the specification
    Strict,
    /// What published schemas and tests refuse, and what makes an action unsafe; other breaches are warnings
    Compat,
}

impl Profile {
    fn of_rules(self) -> rule::Profile {
        match self {
            Profile::Strict => rule::Profile::Strict,
            Profile::Compat => rule::Profile::Compat,
        }
    }
}

impl Aaep {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        match self.verb {
            AaepVerb::Capture(capture) => capture.run(invocation),
            AaepVerb::Replay(replay) => replay.run(invocation),
            AaepVerb::Stdio(stdio) => stdio.run(invocation),
            AaepVerb::Validate(validate) => validate.run(invocation),
            AaepVerb::Visualize(visualize) => visualize.run(invocation),
            AaepVerb::Conformance(conformance) => conformance.run(invocation),
        }
    }
}
