//! `recount aaep stdio`: the events of a server as JSON-RPC on standard input and output, for programs that start their
//! producer themselves.

use std::path::PathBuf;

use clap::Args;
use recount_aaep_kit::World;
use recount_aaep_kit::link::Target;

use crate::command::credential::token;
use crate::command::{Common, runtime};
use crate::exit::Failure;

#[derive(Args)]
pub(super) struct Stdio {
    /// Read the token for the server from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Stdio {
    pub(super) fn run(self, common: &Common, token_is_typed: bool) -> Result<(), Failure> {
        let address = format!("{}/aaep/v1", common.url.trim_end_matches('/'));
        let target: Target = address
            .parse()
            .map_err(|why: recount_aaep_kit::link::LinkError| Failure::Usage(why.to_string()))?;
        let token = token(common, &common.url, self.token_file.as_deref(), token_is_typed)?;
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        let world = World::real();
        let runtime = runtime()?;
        let served = runtime.block_on(recount_aaep_kit::stdio::serve(
            &world,
            &target,
            token.as_deref(),
            input,
            output,
        ));
        // A read of standard input cannot be given up.
        runtime.shutdown_background();
        match served {
            // The program that started this one has ended.
            Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            served => served.map_err(|why| Failure::Own(format!("standard output failed: {why}"))),
        }
    }
}
