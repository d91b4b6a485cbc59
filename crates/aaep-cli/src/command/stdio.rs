//! `aaep stdio`: serves a server's events as JSON-RPC on standard input and output, for programs that start their
//! producer themselves.

use std::path::PathBuf;

use clap::Args;
use recount_aaep_kit::World;
use recount_aaep_kit::link::Target;

use crate::failure::Failure;
use crate::invocation::{Invocation, block_on_threads};

#[derive(Args)]
pub(super) struct Stdio {
    /// Read the token for the server from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Stdio {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        // A read of standard input cannot be cancelled, so the runtime does not wait for it.
        block_on_threads(self.serve(invocation))
    }

    async fn serve(self, invocation: Invocation) -> Result<(), Failure> {
        let address = format!("{}/aaep/v1", invocation.url.trim_end_matches('/'));
        let target: Target = address
            .parse()
            .map_err(|why: recount_aaep_kit::link::LinkError| Failure::Usage(why.to_string()))?;
        let token = invocation.token(&invocation.url, self.token_file.as_deref())?;
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        let world = World::real();
        match recount_aaep_kit::stdio::serve(&world, &target, token.as_deref(), input, output).await {
            // The parent program has exited.
            Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            served => served.map_err(|why| Failure::Internal(format!("standard output failed: {why}"))),
        }
    }
}
