//! `recount completion SHELL`: what a shell needs to complete command lines.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::CommandLine;
use crate::exit::Failure;

#[derive(Args)]
pub(super) struct Completion {
    /// The shell that is to complete
    shell: Shell,
}

impl Completion {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "recount", &mut script);
        Ok(std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?)
    }
}
