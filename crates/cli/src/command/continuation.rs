//! `recount continue RUN PROMPT`: a new prompt after an ended run.

use std::path::PathBuf;

use clap::Args;
use recount_client::request::ContinueRun;

use super::attach;
use super::ids::{self, IdKind};
use super::invocation::Invocation;
use super::lineage::Follow;
use crate::failure::Failure;

/// Continue an ended run with a new prompt, in a new run, and follow it
#[derive(Args)]
pub(super) struct Continue {
    /// Id of the run
    run: String,
    /// New prompt for the agent
    #[arg(required = true)]
    prompt: Vec<String>,
    /// Attach a file or an image; repeatable
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    #[command(flatten)]
    follow: Follow,
}

impl Continue {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Continue { run, prompt, attach, follow } = self;
        let files = attach::read_all(&attach)?;
        let mut request =
            ContinueRun { prompt: prompt.join(" "), model: follow.model.clone(), ..ContinueRun::default() };
        follow.run(invocation, async move |client| {
            request.attachments = attach::upload_all(client, files).await?;
            let run = ids::full(client, IdKind::Run, &run).await?;
            Ok(client.continue_run(&run, &request).await?)
        })
    }
}
