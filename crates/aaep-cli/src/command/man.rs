//! `aaep man --out DIR`: writes a manual page for the program and one for each verb.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::CommandLine;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct Man {
    /// Folder to write the pages to; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Man {
    pub(super) fn run(self) -> Result<(), Failure> {
        let failed = |why: std::io::Error| {
            Failure::Internal(format!("cannot write manual pages to {}: {why}", self.out.display()))
        };
        std::fs::create_dir_all(&self.out).map_err(failed)?;
        clap_mangen::generate_to(CommandLine::command(), &self.out).map_err(failed)
    }
}
