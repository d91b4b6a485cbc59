//! `recount aaep stdio`: the server as a producer over standard input and output, one JSON-RPC object a line.

use clap::Args;
use recount_aaep_kit::World;
use recount_aaep_kit::limits;
use recount_aaep_kit::link::Target;
use recount_aaep_kit::stdio::{Upstream, relay};
use tokio::io::BufReader;

use crate::command::credential::token;
use crate::command::{Common, runtime};
use crate::exit::Failure;

#[derive(Args)]
pub(super) struct Stdio {}

impl Stdio {
    pub(super) fn run(self, common: &Common, token_is_typed: bool) -> Result<(), Failure> {
        let base = common.url.trim_end_matches('/');
        let socket = base.strip_prefix("http").map(|rest| format!("ws{rest}/aaep/v1/ws"));
        let socket = socket.ok_or_else(|| {
            Failure::Usage(format!("{base:?} is no address of a server; give one such as http://127.0.0.1:8765"))
        })?;
        let target: Target =
            socket.parse().map_err(|why: recount_aaep_kit::link::LinkError| Failure::Usage(why.to_string()))?;
        let token = token(common, base, None, token_is_typed)?;
        let upstream = Upstream { target, token, patience: limits::PATIENCE };
        let (input, output) = (BufReader::new(tokio::io::stdin()), tokio::io::stdout());
        let relayed = runtime()?.block_on(relay(&World::real(), &upstream, input, output));
        relayed.map_err(|why| Failure::Own(why.to_string()))
    }
}
