//! What a verb is run with: the options of every command, and the runtime and the client that its work needs.
//!
//! It must not know verbs. Look at [`Invocation`].

use std::pin::{Pin, pin};
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use recount_client::Client;
use recount_client::prompt::Prompt;
use serde::Serialize;

use super::stored_login::{self, StoredLogin};
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};
use crate::render::clean;

/// Options of every verb, and where two of them come from.
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
    pub(crate) token: Option<String>,
    /// Print data as JSON, one value per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print plain text: no colours, no symbols, no redrawing
    #[arg(long, global = true)]
    pub(crate) plain: bool,
    #[arg(skip)]
    pub(super) url_source: Option<ValueSource>,
    #[arg(skip)]
    pub(super) token_source: Option<ValueSource>,
    /// The sign-in at the server at `url`, if a verb that a person types has looked for it.
    #[arg(skip)]
    signed_in: OnceLock<Option<StoredLogin>>,
}

impl Invocation {
    /// The same, with the sources that only the parser knows.
    pub(super) fn with_sources(self, matches: &ArgMatches) -> Self {
        let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
        let source = |name| matches.value_source(name);
        Invocation { url_source: source("url"), token_source: source("token"), ..self }
    }

    /// Whether `--url` or its variable names the server. Otherwise the verb may become a server itself.
    pub(super) fn names_server(&self) -> bool {
        matches!(self.url_source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    }

    /// Whether `--token` is on the command line, so that it is meant for the address that the verb names. The one of
    /// the environment is for the server at `--url`.
    pub(super) fn token_is_typed(&self) -> bool {
        self.token_source == Some(ValueSource::CommandLine)
    }

    pub(super) fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.url, self.token_of_server())?)
    }

    /// The token for the server at `--url`: the given one, or else that of a sign-in. Only for verbs that a person types.
    pub(super) fn token_of_server(&self) -> Option<&str> {
        let of_sign_in = || {
            let signed_in = self.signed_in.get_or_init(|| stored_login::find(&self.url));
            signed_in.as_ref()?.current_token(&self.url)
        };
        self.token.as_deref().or_else(of_sign_in).filter(|token| !token.is_empty())
    }

    /// As [`Invocation::client`], for a verb that acts for a program.
    pub(super) fn client_of_program(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.url, self.token_of_program())?)
    }

    /// The given token for the server at `--url`. Never that of a sign-in: the program would act as the person.
    pub(super) fn token_of_program(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }

    /// Runs work that calls the server.
    pub(super) fn ask(self, work: impl AsyncFnOnce(Asking) -> Result<(), Failure>) -> Result<(), Failure> {
        let asking = self.asking(self.client()?);
        block_on(work(asking))
    }

    pub(super) fn asking(&self, client: Client) -> Asking {
        Asking { client, json: self.json, out: Output::new() }
    }
}

/// What a verb that asks a server works with.
pub(super) struct Asking {
    pub(super) client: Client,
    pub(super) json: bool,
    pub(super) out: Output,
}

impl Asking {
    /// Prints items: each as JSON, or all as lines. If there are none, `none` goes to stderr, so that a person does not see
    /// an empty screen and a script reads no line.
    pub(super) fn print_items<T: Serialize>(
        &mut self,
        items: &[T],
        lines: impl FnOnce(&[T]) -> Vec<String>,
        none: &str,
    ) -> Result<(), Failure> {
        if items.is_empty() {
            note(none);
        }
        if self.json {
            return items.iter().try_for_each(|item| self.out.value(item));
        }
        self.out.lines(&lines(items))
    }

    /// Prints what became of a prompt: its id, its status and `more`.
    pub(super) fn print_prompt(&mut self, prompt: &impl Prompt, more: &str) -> Result<(), Failure> {
        if self.json {
            return self.out.value(prompt);
        }
        let head = prompt.head();
        self.out.line(&clean::line(&format!("{} {}{more}", head.id, head.status)))
    }
}

/// Waits for work on this thread.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut result = None;
    run_to_end(pin!(async { result = Some(work.await) }))?;
    result.expect("the runtime runs work to its end")
}

/// Not generic, so that the code of the runtime is compiled once and not for each verb.
fn run_to_end(work: Pin<&mut dyn Future<Output = ()>>) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(no_runtime)?.block_on(work);
    Ok(())
}

/// Waits for work of a verb that may be a server itself. What still waits when it is done, such as for a typed line, is
/// dropped.
pub(super) fn block_on_threads(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    run_on_threads(pin!(work))
}

/// As [`run_to_end`].
fn run_on_threads(work: Pin<&mut dyn Future<Output = Result<(), Failure>>>) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(limits::STAYING_THREADS).enable_all();
    let runtime = builder.build().map_err(no_runtime)?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

fn no_runtime(why: std::io::Error) -> Failure {
    Failure::Own(format!("cannot start the async runtime: {why}"))
}
