//! `recount serve`: the server itself. All that it does is in its own crate.

use std::path::PathBuf;

use clap::Args;

use super::Invocation;
use crate::exit::Failure;

/// Start the server
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
    /// Open a store whose acknowledged end is missing and that ends at this position; may be said again
    #[arg(long, value_name = "POSITION")]
    accept_loss_after: Vec<u64>,
    /// Prune runs that ended longer ago than this, such as 30d; off unless told
    #[arg(long, value_name = "TIME")]
    max_age: Option<String>,
    /// Prune, those runs first that ended first, while there are more events than this
    #[arg(long, value_name = "EVENTS")]
    max_events: Option<String>,
    /// The same while events have more bytes than this, such as 5GiB
    #[arg(long, value_name = "SIZE")]
    max_bytes: Option<String>,
    /// The pause between two looks at what may be pruned
    #[arg(long, value_name = "TIME")]
    sweep_every: Option<String>,
    /// Let nobody in without a token, not even from this machine
    #[arg(long)]
    require_token: bool,
    /// Let pages of this origin in, such as https://app.example; may be said again
    #[arg(long, value_name = "ORIGIN")]
    allowed_origin: Vec<String>,
    /// How commands of runs are held back: auto, bubblewrap, landlock, or off, which is with all the rights of the server
    #[arg(long, value_parser = ["auto", "bubblewrap", "landlock", "off"])]
    sandbox: Option<String>,
    /// The rules by which calls of tools are allowed, asked about or blocked
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Let runs work in this folder and copy it, with all below; may be said again
    #[arg(long, value_name = "DIR")]
    allow_workspace: Vec<String>,
    /// How much to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// How to log; --json means json
    #[arg(long, value_parser = ["text", "json"])]
    log_format: Option<String>,
}

impl Serve {
    pub(super) fn run(mut self, invocation: Invocation) -> Result<(), Failure> {
        if invocation.json {
            self.log_format.get_or_insert_with(|| "json".to_owned());
        }
        Ok(recount_server::serve(self.options())?)
    }

    /// What was said on the command line.
    pub(super) fn options(self) -> recount_server::Options {
        recount_server::Options {
            bind: self.bind,
            data: self.data,
            config: self.config,
            durability: self.durability,
            accept_loss_after: self.accept_loss_after,
            log: self.log,
            log_format: self.log_format,
            max_age: self.max_age,
            max_events: self.max_events,
            max_bytes: self.max_bytes,
            sweep_every: self.sweep_every,
            require_token: self.require_token,
            allowed_origins: self.allowed_origin,
            sandbox: self.sandbox,
            policy: self.policy,
            workspaces: self.allow_workspace,
            ..recount_server::Options::default()
        }
    }
}
