//! `aaep completion SHELL`: prints a shell completion script.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::CommandLine;
use crate::failure::Failure;
use crate::invocation::Output;

#[derive(Args)]
pub(super) struct Completion {
    /// Shell to print the script for
    shell: Shell,
}

impl Completion {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "aaep", &mut script);
        Output::new().bytes(&script)
    }
}
