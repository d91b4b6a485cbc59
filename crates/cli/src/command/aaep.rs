//! `recount aaep`: names the program `aaep`, which has the tools that this verb had up to release 0.2.

use std::ffi::OsString;

use clap::Args;

use super::Invocation;
use crate::failure::Failure;

/// Name the program that has the tools for AAEP
#[derive(Args)]
#[command(hide = true, disable_help_flag = true)]
pub(super) struct Aaep {
    /// What the verb was given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Aaep {
    pub(super) fn run(self, _: Invocation) -> Result<(), Failure> {
        let mut given = self.arguments.iter().filter_map(|argument| argument.to_str());
        let verb = given.find(|argument| VERBS.contains(argument)).unwrap_or("help");
        Err(Failure::Usage(format!(
            "the tools for AAEP are in the program aaep: run aaep {verb}; install it with cargo install \
             --locked --path crates/aaep-cli"
        )))
    }
}

/// The verbs that moved.
const VERBS: [&str; 6] = ["capture", "conformance", "replay", "stdio", "validate", "visualize"];
