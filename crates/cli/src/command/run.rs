//! `recount run`: creates a run and follows it: prints its events as they come, shows its prompts here,
//! and cancels it on Ctrl-C.

mod answers;
mod follow;
mod order;
mod stdin;
mod unfinished;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use recount_client::reply;
use recount_client::request::{CreateRun, ResumeRun};

pub(super) use self::answers::Reply;
pub(super) use self::follow::{Following, Unattended, View};
pub(super) use self::order::folder;
pub(super) use self::stdin::discard_lines;
pub(super) use self::unfinished::{Action, Unfinished};
use super::apply;
use super::attach::{self, AttachedFile};
use super::ids::{self, IdKind};
use super::invocation::{self, Invocation};
use super::reach::Reached;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::clean;

/// Start a run and follow it
#[derive(Args)]
pub(super) struct Run {
    /// Task for the agent; with --kind shell, a command line or a program and its arguments; with git, the arguments of
    /// git; with file, a tool and its input as JSON
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    /// What to run: an agent, or a single tool call
    #[arg(long, default_value = "agent_loop", value_parser = ["agent_loop", "shell", "git", "file"])]
    kind: String,
    /// Agent of the server; its model, system prompt, tools and folder are the defaults
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// With --agent: set one of its options; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = order::choice, requires = "agent")]
    option: Vec<(String, String)>,
    /// Model, as PROVIDER/MODEL; default: the configured one
    #[arg(long)]
    model: Option<String>,
    /// Folder to work on; default: the current folder
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// clone (default): work in a copy of the folder, whose changes recount apply applies; in_place: work in the folder
    /// itself
    #[arg(long, value_name = "MODE", value_parser = ["clone", "in_place"])]
    workspace_mode: Option<String>,
    /// Also copy files that git ignores
    #[arg(long)]
    copy_ignored: bool,
    /// Limit the task to this cost in US dollars, such as 0.50; creates a task with this budget
    #[arg(long, value_name = "USD", value_parser = order::micros, conflicts_with = "task")]
    budget: Option<u64>,
    /// Limit the task to N tokens, input and output together; creates a task with this budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 53), conflicts_with = "task")]
    budget_tokens: Option<u64>,
    /// Limit the run to N completed turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    budget_turns: Option<u64>,
    /// Without a server: what to do with runs that a killed process left unfinished in the data folder. ask: prompt on
    /// a terminal, otherwise fail; resume: continue them first; abandon: cancel them first
    #[arg(long, value_name = "ACTION", default_value = "ask", value_parser = ["ask", "resume", "abandon"])]
    unfinished: String,
    /// Attach a file or an image; repeatable
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Allow commands to use the network
    #[arg(long)]
    network: bool,
    /// Time limit of one command, such as 90s or 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Allow only these tools, separated by commas
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Vec<String>,
    /// System prompt; default: the one that recount config --system-prompt prints
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Do not read the AGENTS.md files of the workspace
    #[arg(long)]
    no_workspace_instructions: bool,
    /// Limit the run to N model calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_turns: Option<u64>,
    /// Create the run in this task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Continue from an ended run; WORDS is the new request
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = [
            "kind", "agent", "workspace", "workspace_mode", "copy_ignored", "budget", "budget_tokens", "budget_turns",
            "attach", "network", "timeout", "tools", "system", "no_workspace_instructions", "task", "title",
        ]
    )]
    resume: Option<String>,
    /// Title to show in lists
    #[arg(long)]
    title: Option<String>,
    /// Print the run's id and exit; the server continues the run
    #[arg(long)]
    detach: bool,
    /// Read answers from standard input even if it is not a terminal
    #[arg(long, hide = true)]
    answers_from_stdin: bool,
}

impl Run {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on_threads(self.start(invocation))
    }

    async fn start(self, invocation: Invocation) -> Result<(), Failure> {
        let action = Action::parse(&self.unfinished);
        // Invalid arguments are rejected before a server is started.
        let only_unfinished = self.words.is_empty() && self.resume.is_none() && action != Action::Ask;
        let order = match self.resume.is_none() && !only_unfinished {
            true => Some(self.order(&invocation.url)?),
            false => None,
        };
        let attached = attach::read_all(&self.attach)?;
        let folder = order.as_ref().and_then(|order| order.workspace.clone());
        if order.is_some() && folder.is_none() && self.agent.is_none() {
            note(
                "the server is not on this machine, so the current folder is not sent and the run works in \
                 an empty one; --workspace DIR names a folder on the server",
            );
        }
        let view = View { json: invocation.json, plain: invocation.plain };
        let (reached, left) =
            Reached::new(&invocation, invocation.names_server() || self.detach, folder).await?;
        let unfinished = Unfinished { left, action, view, even_from_a_pipe: self.answers_from_stdin };
        let done = match unfinished.resolve(&reached).await {
            Ok(done) if only_unfinished => done.unwrap_or_else(|| {
                note("no unfinished runs");
                Ok(())
            }),
            Ok(_) => self.make_and_follow(order, attached, &reached, view).await,
            Err(failure) => Err(failure),
        };
        if !matches!(done, Err(Failure::Interrupted)) {
            reached.leave().await;
        }
        done
    }

    async fn make_and_follow(
        &self,
        order: Option<CreateRun>,
        attached: Vec<AttachedFile>,
        reached: &Reached,
        view: View,
    ) -> Result<(), Failure> {
        let client = &reached.client;
        let run = match (order, &self.resume) {
            (Some(mut order), _) => {
                if let Some(task) = &mut order.task_id {
                    *task = ids::full(client, IdKind::Task, task).await?;
                }
                order.attachments = attach::upload_all(client, attached).await?;
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
                let run = ids::full(client, IdKind::Run, run).await?;
                client.resume_run(&run, &more).await?.id
            }
            (None, None) => unreachable!("without a run to resume there is an order"),
        };
        follow_made(&run, reached, view, self.detach, self.answers_from_stdin).await
    }

    async fn make(&self, order: CreateRun, reached: &Reached) -> Result<String, Failure> {
        if self.budget.is_none() && self.budget_tokens.is_none() {
            return Ok(reached.client.create_run(&order).await?.id);
        }
        let mut task = order::in_task(order);
        (task.budget_micros_usd, task.budget_tokens) = (self.budget, self.budget_tokens);
        let task: reply::Task = reached.client.create_task(&task).await?;
        let first = task.latest_run_id;
        first.ok_or_else(|| Failure::Protocol(format!("the task {} was created without its run", task.id)))
    }
}

/// Follows a run that was just made, or prints its id.
pub(super) async fn follow_made(
    run: &str,
    reached: &Reached,
    view: View,
    detach: bool,
    answers_from_stdin: bool,
) -> Result<(), Failure> {
    let client = &reached.client;
    if detach {
        let mut out = Output::new();
        return match view.json {
            true => out.value(&client.get_run(run).await?),
            false => out.line(&clean::line(run)),
        };
    }
    let done = Following::new(reached, run, view, answers_from_stdin, None).follow().await;
    if !view.json && matches!(done, Ok(()) | Err(Failure::No | Failure::Cancelled)) {
        // A server within this program ends with it, and its address with that.
        let address = if reached.is_inside() { "" } else { reached.address.as_str() };
        apply::report_changes(client, run, address).await;
    }
    done
}

fn time(text: &str) -> Result<Duration, String> {
    let time = recount_server::amounts::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("{text:?} is not a duration; use one such as 90s or 5m"))
}
