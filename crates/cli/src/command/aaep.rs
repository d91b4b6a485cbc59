//! `recount aaep`: tools for the Agent Accessibility Event Protocol, for producers and subscribers of any make. None
//! asks our own server; one file a verb.

mod validate;

use clap::{Args, Subcommand, ValueEnum};

use super::Common;
use crate::exit::Failure;

#[derive(Args)]
pub(super) struct Aaep {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check files of events against the rules of the protocol
    Validate(validate::Validate),
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

impl Aaep {
    pub(super) fn run(self, common: Common) -> Result<(), Failure> {
        match self.verb {
            Verb::Validate(validate) => validate.run(common.json),
        }
    }
}
