//! The command line: the table of verbs and their shared options. Start at [`CommandLine`].

mod capture;
mod completion;
mod conformance;
mod man;
mod replay;
mod stdio;
mod validate;
mod visualize;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use recount_aaep_kit::aaep::rule;
use recount_command_line::global_options;

use crate::failure::{self, Failure};
use crate::invocation::Invocation;

/// Tools for developers of AAEP, the Agent Accessibility Event Protocol
#[derive(Parser)]
#[command(name = "aaep", version, max_term_width = 100, after_help = failure::EXIT_STATUSES)]
struct CommandLine {
    #[command(flatten, next_help_heading = "Global options")]
    invocation: Invocation,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Record the events of a producer
    Capture(Box<capture::Capture>),
    /// Serve a recording to subscribers
    Replay(replay::ReplayCommand),
    /// Serve the server's events as JSON-RPC on standard input and output
    Stdio(stdio::Stdio),
    /// Check files of events against the protocol's rules
    Validate(validate::Validate),
    /// Render a recorded session and mark every broken rule
    Visualize(visualize::Visualize),
    /// Test producers and subscribers against the protocol's requirements
    Conformance(conformance::Conformance),
    /// Print a shell completion script
    Completion(completion::Completion),
    /// Write the manual pages
    Man(man::Man),
}

pub(crate) fn run() -> ExitCode {
    let matches = global_options::describe_once(CommandLine::command()).get_matches();
    let CommandLine { invocation, verb } =
        CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    failure::report(verb.run(invocation.with_sources(&matches)))
}

impl Verb {
    fn run(self, invocation: Invocation) -> Result<(), Failure> {
        match self {
            Verb::Capture(capture) => capture.run(invocation),
            Verb::Replay(replay) => replay.run(invocation),
            Verb::Stdio(stdio) => stdio.run(invocation),
            Verb::Validate(validate) => validate.run(invocation),
            Verb::Visualize(visualize) => visualize.run(invocation),
            Verb::Conformance(conformance) => conformance.run(invocation),
            Verb::Completion(completion) => completion.run(),
            Verb::Man(man) => man.run(),
        }
    }
}

/// Output format of a verb.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Plain text
    Text,
    /// One JSON object
    Json,
}

impl Format {
    /// The verb's own option takes precedence over the global one.
    fn of(format: Option<Format>, json: bool) -> Format {
        format.unwrap_or(if json { Format::Json } else { Format::Text })
    }
}

/// How rule violations are graded.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// Every requirement of the specification
    Strict,
    /// What published schemas and tests reject, and what makes an action unsafe; other violations are warnings
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
