//! The context of a verb: global options, standard output and the async runtime.
//!
//! It must not know any verb. Start at [`Invocation`].

use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use recount_command_line::credential::OwnToken;

use crate::failure::Failure;

pub(crate) type Output = recount_command_line::output::Output<Failure>;

/// Threads for verbs whose reads of standard input cannot be cancelled.
const THREADS: usize = 2;

/// Global options.
#[derive(Args)]
pub(crate) struct Invocation {
    /// URL of the server
    #[arg(
        long,
        global = true,
        env = "RECOUNT_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8765"
    )]
    pub(crate) url: String,
    /// Bearer token for the server
    #[arg(long, global = true, env = "RECOUNT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Print data as JSON, one value per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[arg(skip)]
    token_source: Option<ValueSource>,
}

impl Invocation {
    /// Adds the source of the token, which only the parser knows.
    pub(crate) fn with_sources(self, matches: &ArgMatches) -> Self {
        let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
        Invocation { token_source: matches.value_source("token"), ..self }
    }

    /// The token for a producer or a server at `base`.
    pub(crate) fn token(&self, base: &str, file: Option<&Path>) -> Result<Option<String>, Failure> {
        let is_typed = self.token_source == Some(ValueSource::CommandLine);
        let own = OwnToken { token: self.token.as_deref(), is_typed, url: &self.url };
        own.for_server(base, file).map_err(Failure::Usage)
    }
}

/// Runs async work on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(no_runtime)?.block_on(work)
}

/// Runs async work on several threads. Tasks that remain at its end, such as reads of standard input, are dropped.
pub(crate) fn block_on_threads(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(THREADS).enable_all().build().map_err(no_runtime)?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

fn no_runtime(why: std::io::Error) -> Failure {
    Failure::Internal(format!("cannot start the async runtime: {why}"))
}
