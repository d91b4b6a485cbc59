//! `recount run`: asks for something to be done and stays with it: what happens is told as it comes, what is asked
//! is asked here, Ctrl-C cancels.

mod answers;
mod follow;
mod order;
mod reach;
mod stdin;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use recount_client::reply;
use recount_client::request::{Attachment, CreateRun, ResumeRun};

pub(super) use self::follow::{Following, Unattended};
pub(super) use self::reach::Reached;
use super::Common;
use crate::exit::Failure;
use crate::limits;
use crate::output::Output;
use crate::render::clean;

#[derive(Args)]
pub(super) struct Run {
    /// What is to be done, in words; for kind shell a command line or a program and its arguments, for git what
    /// follows git, for file a tool and its input as JSON
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    /// Who does it: an agent, or one call of a tool
    #[arg(long, default_value = "agent_loop", value_parser = ["agent_loop", "shell", "git", "file"])]
    kind: String,
    /// An agent of the server, which says model, words, tools and folder where nothing here does
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// With --agent: what is chosen of its options; may be said again
    #[arg(long, value_name = "NAME=VALUE", value_parser = order::choice, requires = "agent")]
    option: Vec<(String, String)>,
    /// The model, as PROVIDER/MODEL; without it the one that is configured
    #[arg(long)]
    model: Option<String>,
    /// The folder that is worked on; without it the current one
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// clone: a copy of the folder is worked on; in_place: the folder itself
    #[arg(long, value_name = "MODE", value_parser = ["clone", "in_place"])]
    workspace_mode: Option<String>,
    /// What it may cost in US dollars, such as 0.50; makes a task with this budget
    #[arg(long, value_name = "USD", value_parser = order::micros, conflicts_with = "task")]
    budget: Option<u64>,
    /// Send a file or a picture along; may be said again
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Let commands use the network
    #[arg(long)]
    network: bool,
    /// How long one command may take, such as 90s or 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Only these tools, by name; several with commas
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Vec<String>,
    /// What the model is told before the conversation, in place of the usual
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// How often the model may be asked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_turns: Option<u64>,
    /// Make it a run of this task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Go on from a run that has ended; words say what else is asked
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = [
            "kind", "agent", "workspace", "workspace_mode", "budget", "attach", "network", "timeout", "tools", "system",
            "task", "title",
        ]
    )]
    resume: Option<String>,
    /// A name for lists
    #[arg(long)]
    title: Option<String>,
    /// Print the run's id and leave it to the server
    #[arg(long)]
    detach: bool,
    /// Take lines of standard input for answers although it is no terminal
    #[arg(long, hide = true)]
    answers_from_stdin: bool,
}

impl Run {
    /// `url_is_named`: somebody said which server.
    pub(super) async fn run(self, common: Common, url_is_named: bool) -> Result<(), Failure> {
        // What cannot be is said before a server is started for it.
        let order = if self.resume.is_none() { Some(self.order()?) } else { None };
        let attached = self.attach.iter().map(|path| attached(path)).collect::<Result<Vec<_>, _>>()?;
        let folder = order.as_ref().and_then(|order| order.workspace.clone());
        let reached = Reached::new(&common, url_is_named || self.detach, folder).await?;
        let done = self.make_and_follow(order, attached, &reached, common.json).await;
        if !matches!(done, Err(Failure::Interrupted)) {
            reached.leave().await;
        }
        done
    }

    async fn make_and_follow(
        &self,
        order: Option<CreateRun>,
        attached: Vec<(String, Vec<u8>)>,
        reached: &Reached,
        json: bool,
    ) -> Result<(), Failure> {
        let client = &reached.client;
        let run = match (order, &self.resume) {
            (Some(mut order), _) => {
                let mut attachments = Vec::new();
                for (name, bytes) in attached {
                    let kept = client.upload_artifact(bytes, mime(&name), None, Some(&name)).await?;
                    attachments.push(Attachment { artifact_id: kept.id, name: Some(name) });
                }
                order.attachments = (!attachments.is_empty()).then_some(attachments);
                self.make(order, reached).await?
            }
            (None, Some(run)) => {
                let text = Some(self.words.join(" ")).filter(|text| !text.trim().is_empty());
                let more = ResumeRun {
                    request_text: text,
                    model: self.model.clone(),
                    max_turns: self.max_turns,
                    ..ResumeRun::default()
                };
                client.resume_run(run, &more).await?.id
            }
            (None, None) => unreachable!("without a run to resume there is an order"),
        };
        if self.detach {
            let mut out = Output::new();
            return match json {
                true => out.value(&client.get_run(&run).await?),
                false => out.line(&clean::line(&run)),
            };
        }
        Following::new(reached, &run, json, self.answers_from_stdin, None).follow().await
    }

    async fn make(&self, order: CreateRun, reached: &Reached) -> Result<String, Failure> {
        let Some(budget) = self.budget else {
            return Ok(reached.client.create_run(&order).await?.id);
        };
        let mut task = order::in_task(order);
        task.budget_micros_usd = Some(budget);
        let task: reply::Task = reached.client.create_task(&task).await?;
        let first = task.latest_run_id;
        first.ok_or_else(|| Failure::Protocol(format!("the task {} was made without its run", task.id)))
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let time = recount_server::amounts::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("{text:?} is no length of time; say one such as 90s or 5m"))
}

/// A file that is to be sent along: what it is called, and its bytes.
fn attached(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = path.display();
    let wrong = |why: &dyn std::fmt::Display| Failure::Usage(format!("{name} cannot be attached: {why}"));
    let size = std::fs::metadata(path).map_err(|why| wrong(&why))?.len();
    if size > limits::ATTACHED_BYTES_MAX {
        let most = limits::ATTACHED_BYTES_MAX;
        return Err(wrong(&format!("it has {size} bytes, and at most {most} can be sent along")));
    }
    let bytes = std::fs::read(path).map_err(|why| wrong(&why))?;
    let called =
        path.file_name().map_or_else(|| name.to_string(), |name| name.to_string_lossy().into_owned());
    Ok((called, bytes))
}

/// What sort of file it is, by its name.
fn mime(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("pdf") => "application/pdf",
        Some("json") => "application/json",
        Some("diff" | "patch") => "text/x-diff",
        _ => "text/plain",
    }
}
