//! `recount serve`: the server itself. All that it does is in its own crate.

use std::path::PathBuf;

use clap::Args;

use crate::exit::Failure;

#[derive(Args)]
pub(super) struct Serve {
    /// Where to listen, such as 127.0.0.1:8765; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// The data folder
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// strict: acknowledged means on disk. relaxed: faster, and a power cut may lose the last moments
    #[arg(long, value_parser = ["strict", "relaxed"])]
    durability: Option<String>,
    /// How much to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// How to log; --json means json
    #[arg(long, value_parser = ["text", "json"])]
    log_format: Option<String>,
}

impl Serve {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let log_format = self.log_format.or_else(|| json.then(|| "json".to_owned()));
        let options = recount_server::Options {
            bind: self.bind,
            data: self.data,
            config: self.config,
            durability: self.durability,
            log: self.log,
            log_format,
        };
        Ok(recount_server::serve(options)?)
    }
}
