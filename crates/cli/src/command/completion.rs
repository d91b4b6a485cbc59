//! `recount completion SHELL`: what a shell needs to complete command lines.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{CommandLine, Invocation};
use crate::failure::Failure;

/// Print a shell completion script
#[derive(Args)]
pub(super) struct Completion {
    /// Shell to print the script for
    shell: Shell,
}

impl Completion {
    pub(super) fn run(self, _: Invocation) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "recount", &mut script);
        Ok(std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?)
    }
}
