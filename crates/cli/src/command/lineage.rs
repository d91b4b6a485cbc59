//! What `resume`, `retry` and `continue` share: the server that makes the run after an ended one, and following it; and
//! which runs come before and after a run, in words.

use std::path::Path;

use clap::Args;
use recount_client::{Client, ClientError, reply};

use super::confirm;
use super::invocation::{self, Invocation};
use super::reach::Reached;
use super::run::{Action, Unfinished, View, folder, follow_made};
use crate::failure::Failure;
use crate::output::note;
use crate::render::clean;

#[derive(Args)]
pub(super) struct Follow {
    /// Model, as PROVIDER/MODEL; default: that of the earlier run
    #[arg(long)]
    pub(super) model: Option<String>,
    /// Without a server: what to do with runs that a killed process left unfinished in the data folder. ask: prompt on
    /// a terminal, otherwise fail; resume: continue them first; abandon: cancel them first
    #[arg(long, value_name = "ACTION", default_value = "ask", value_parser = ["ask", "resume", "abandon"])]
    unfinished: String,
    /// Print the run's id and exit; the server continues the run
    #[arg(long)]
    detach: bool,
    /// Read answers from standard input even if it is not a terminal
    #[arg(long, hide = true)]
    answers_from_stdin: bool,
}

/// Creates a run from a point of an ended one, with the files as they were then or, if `keeps_files`, as they are now. If
/// files cannot be restored, a person at the terminal decides.
pub(super) async fn choose_files(
    keeps_files: bool,
    create: impl AsyncFn(Option<String>) -> Result<reply::Run, ClientError>,
) -> Result<reply::Run, Failure> {
    let current = || Some("current".to_owned());
    let refused = match create(current().filter(|_| keeps_files)).await {
        Err(why) if why.code() == Some("files_not_restorable") && confirm::can_ask() => why,
        created => return Ok(created?),
    };
    note(&clean::line(&refused.to_string()));
    if !confirm::confirm("Start with the files as they are now, in the same folder?")? {
        return Err(Failure::No);
    }
    Ok(create(current()).await?)
}

impl Follow {
    /// Has the run made, and follows it.
    pub(super) fn run(
        self,
        invocation: Invocation,
        make: impl AsyncFnOnce(&Client) -> Result<reply::Run, Failure>,
    ) -> Result<(), Failure> {
        invocation::block_on_threads(self.start(invocation, make))
    }

    async fn start(
        self,
        invocation: Invocation,
        make: impl AsyncFnOnce(&Client) -> Result<reply::Run, Failure>,
    ) -> Result<(), Failure> {
        let view = View { json: invocation.json, plain: invocation.plain };
        // A server within this program lets runs work where its user is.
        let here = folder(Path::new("."))?;
        let (reached, left) =
            Reached::new(&invocation, invocation.names_server() || self.detach, Some(here)).await?;
        let action = Action::parse(&self.unfinished);
        let unfinished = Unfinished { left, action, view, even_from_a_pipe: self.answers_from_stdin };
        let done = match unfinished.resolve(&reached).await {
            Ok(_) => match make(&reached.client).await {
                Ok(run) => follow_made(&run.id, &reached, view, self.detach, self.answers_from_stdin).await,
                Err(error) => Err(error),
            },
            Err(failure) => Err(failure),
        };
        if !matches!(done, Err(Failure::Interrupted)) {
            reached.leave().await;
        }
        done
    }
}

/// Prints the run before this one and the runs after it. Errors are ignored: the run itself
/// was shown.
pub(super) async fn report_lineage(client: &Client, run: &str) {
    let Ok(run) = client.get_run(run).await else { return };
    for line in lines(&run) {
        note(&line);
    }
}

fn lines(run: &reply::Run) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(prior) = &run.prior_run_id {
        lines.push(format!("after {}", clean::line(prior)));
    }
    if !run.successor_run_ids.is_empty() {
        lines.push(format!("followed by {}", clean::line(&run.successor_run_ids.join(", "))));
    }
    lines
}
