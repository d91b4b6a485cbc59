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
use crate::exit::Failure;

/// Validate, capture, replay and test AAEP, the accessibility event protocol
#[derive(Args)]
pub(super) struct Aaep {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Record what a producer says
    Capture(Box<capture::Capture>),
    /// Say a recording again, to subscribers
    Replay(replay::Again),
    /// Serve the server's events as JSON-RPC on standard input and output
    Stdio(stdio::Stdio),
    /// Check files of events against the rules of the protocol
    Validate(validate::Validate),
    /// Draw or tell what happened in a recorded session, with every broken rule pointed at
    Visualize(visualize::Visualize),
    /// Try producers and subscribers against the requirements of the protocol
    Conformance(conformance::Conformance),
}

/// How a verb tells what it found.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
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
    /// Whatever the specification says must be
    Strict,
    /// What running schemas and tests refuse, and what makes an action unsafe; the rest are warnings
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
            Verb::Capture(capture) => capture.run(invocation),
            Verb::Replay(replay) => replay.run(invocation),
            Verb::Stdio(stdio) => stdio.run(invocation),
            Verb::Validate(validate) => validate.run(invocation),
            Verb::Visualize(visualize) => visualize.run(invocation),
            Verb::Conformance(conformance) => conformance.run(invocation),
        }
    }
}
