//! `recount demo`: a whole run in under a minute, with a model that plays a script and everything else as it always
//! is: the server, the sandbox, the approvals, the account.
//!
//! Nothing is simulated here: the printed events are of a real run by a server within this program.

use std::fs::{DirBuilder, write};
use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::request::CreateTask;
use recount_server::Options;
use recount_world::platform::private_folder;

use super::invocation::{self, Invocation};
use super::reach::Reached;
use super::run::{Following, Unattended, View};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;

/// Play a demo run, without a key or a network
#[derive(Args)]
pub(super) struct Demo {
    /// Store the run in this data folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Read answers from standard input even if it is not a terminal
    #[arg(long, hide = true)]
    answers_from_stdin: bool,
}

/// What the demo works on, each file with its content.
const PROJECT: &[(&str, &str)] = &[
    ("greet.sh", include_str!("demo/greet.sh")),
    ("check.sh", include_str!("demo/check.sh")),
    ("old/notes.txt", include_str!("demo/old.txt")),
];

/// What the task may cost, in millionths of a US dollar.
const BUDGET_MICROS_USD: u64 = 100_000;

impl Demo {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on_threads(self.play(View { json: invocation.json, plain: invocation.plain }))
    }

    async fn play(self, view: View) -> Result<(), Failure> {
        let folder = DemoFolder::make()?;
        let data = self.data.unwrap_or_else(|| folder.0.join("data"));
        let project = folder.project()?;
        let options = Options {
            bind: Some("127.0.0.1:0".to_owned()),
            data: Some(data.clone()),
            config: Some(folder.configuration()?),
            // Not in a database of this user.
            store: Some("none".to_owned()),
            log: Some("error".to_owned()),
            workspaces: vec![project.clone()],
            ..Options::default()
        };
        let (reached, _) = Reached::inside(options, None).await?;
        if let Some(why) = reached.no_commands() {
            let hint = if cfg!(unix) { " (for the demo: RECOUNT_SANDBOX__MODE=off)" } else { "" };
            return Err(Failure::Own(format!("cannot play the demo: {why}{hint}")));
        }
        reached.work().await?;
        let is_attended = self.answers_from_stdin || std::io::IsTerminal::is_terminal(&std::io::stdin());
        let wait = if is_attended { limits::DEMO_WAIT_ATTENDED } else { limits::DEMO_WAIT };
        note(&format!(
            "recount demo: a scripted model fixes a small script in a temporary folder, without a key or a network. It \
             asks you twice; without an answer within {} seconds, the demo answers for you.",
            wait.as_secs()
        ));
        let order = CreateTask {
            title: Some("Demo".to_owned()),
            budget_micros_usd: Some(BUDGET_MICROS_USD),
            kind: Some("agent_loop".to_owned()),
            request_text: Some("Repair the greeting and clean up.".to_owned()),
            workspace: Some(project),
            // In place, so that deleting a folder needs an approval.
            workspace_mode: Some("in_place".to_owned()),
            ..CreateTask::default()
        };
        let task = reached.client.create_task(&order).await?;
        let run = task
            .latest_run_id
            .ok_or_else(|| Failure::Protocol(format!("the task {} was created without its run", task.id)))?;
        let following =
            Following::new(&reached, &run, view, self.answers_from_stdin, Some(Unattended { wait }));
        let done = following.follow().await;
        if matches!(done, Err(Failure::Interrupted)) {
            return done;
        }
        reached.leave().await;
        let data = data.display();
        note(&format!("The run is stored in {data}. Next steps:"));
        for (words, command) in [
            ("Verify that it is complete and unaltered:", format!("recount verify --data {data}")),
            ("Serve it:", format!("recount serve --data {data}")),
            ("While that server runs, open the run in a browser:", format!("http://127.0.0.1:8765/#{run}")),
            ("Or read it event by event:", format!("recount tail {run}")),
        ] {
            note(&format!("  {words}"));
            note(&format!("    {command}"));
        }
        done
    }
}

/// A folder of our own among the temporary ones.
struct DemoFolder(PathBuf);

impl DemoFolder {
    fn make() -> Result<Self, Failure> {
        let parent = std::env::temp_dir();
        let process = std::process::id();
        for attempt in 0..limits::FOLDER_ATTEMPTS_MAX {
            let folder = parent.join(format!("recount-demo-{process}-{attempt}"));
            // One that is there may be anybody's.
            match private_folder(&mut DirBuilder::new()).create(&folder) {
                Ok(()) => return Ok(DemoFolder(folder)),
                Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(failed(&folder, &why)),
            }
        }
        Err(Failure::Own(format!("{} has too many folders of earlier demos; delete some", parent.display())))
    }

    /// Writes what the agent works on, and answers where.
    fn project(&self) -> Result<String, Failure> {
        let project = self.0.join("project");
        for (name, content) in PROJECT {
            self.write(&project.join(name), content)?;
        }
        let whole = project.canonicalize().map_err(|why| failed(&project, &why))?;
        whole.into_os_string().into_string().map_err(|path| {
            Failure::Own(format!("the temporary folder {} is not UTF-8", Path::new(&path).display()))
        })
    }

    fn configuration(&self) -> Result<PathBuf, Failure> {
        let path = self.0.join("config.toml");
        self.write(&path, include_str!("demo/config.toml"))?;
        self.write(&self.0.join("agent.toml"), include_str!("demo/agent.toml"))?;
        self.write(&self.0.join("policy.toml"), include_str!("demo/policy.toml"))?;
        Ok(path)
    }

    fn write(&self, path: &Path, content: &str) -> Result<(), Failure> {
        let folder = path.parent().unwrap_or(&self.0);
        std::fs::create_dir_all(folder).map_err(|why| failed(folder, &why))?;
        write(path, content).map_err(|why| failed(path, &why))
    }
}

fn failed(path: &Path, why: &std::io::Error) -> Failure {
    Failure::Own(format!("cannot create {}: {why}", path.display()))
}
