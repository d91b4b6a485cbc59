//! A server that runs agents is killed again and again, at whatever instant; every run goes on or ends truthfully,
//! no command runs twice, what was asked is still asked, and no process is left behind.
//!
//! Models play a script: a command, a file, a command that needs leave, a slow command, an answer. Each command adds
//! its name to a file of its workspace, so what really happened can be held against what the log says. After each
//! start all runs are read from the beginning: their bytes are what they were.
//!
//! `RECOUNT_CRASH_SEED` and `RECOUNT_CRASH_AGENT_KILLS` choose another course.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use recount_client::request::{CreateRun, ResolveApproval, Verdict};
use recount_client::{Client, reply};
use recount_world::{Entropy, SeededEntropy};
use serde_json::Value;

use crate::server::{CommandOutput, PATIENCE, Server, recount};

const RUNS: usize = 12;
const KILLS: u64 = 20;

/// Occurs in the command line of processes of this test alone.
const MARK: &str = "86417.25";

/// What a model does in each run. The names are those of the commands.
const COMMANDS: [&str; 4] = ["first", "second", "third", "fourth"];

fn script() -> String {
    let mut script = String::from("end = 'All is done.'\n[pace]\nwords = 1\ntokens_per_second = 200\n");
    for (place, name) in COMMANDS.iter().enumerate() {
        let then = match place {
            // Cannot be undone, so it needs approval.
            1 => "; rm -rf /nowhere/at/all".to_owned(),
            // Left running, to be found when the server dies.
            2 => format!("; sleep {MARK} & sleep 0.2"),
            _ => "; sleep 0.05".to_owned(),
        };
        writeln!(
            script,
            "[[turn]]\ntext = 'Now comes the {name} of them all.'\ncall = [{{ name = 'shell_exec', input = {{ \
             command = 'echo {name} >> happened{then}' }} }}]"
        )
        .unwrap();
    }
    script
}

fn configuration(folder: &Path) -> String {
    std::fs::write(folder.join("play.toml"), script()).unwrap();
    let path = folder.join("recount.toml");
    std::fs::write(
        &path,
        "[models]\ndefault = 'play/it'\n[models.providers.play]\nkind = 'scripted'\nscript = 'play.toml'\n[runs]\nat_once = 4\n",
    )
    .unwrap();
    path.display().to_string()
}

fn spawn(folder: &Path, config: &str, bind: &str) -> Server {
    let mut command = recount();
    command.args(["serve", "--bind", bind, "--log", "warn", "--config", config, "--data"]);
    Server::of(command.arg(folder.join("data"))).listening()
}

/// One run as it was read.
#[derive(Default)]
struct Account {
    envelopes: Vec<String>,
}

impl Account {
    /// Reads from the beginning: what was there is there as it was.
    async fn read(&mut self, client: &Client, run: &str) {
        let mut again = Vec::new();
        loop {
            let after = again.len().checked_sub(1).map(|last| last as u64);
            let page = client.read_run_events(run, after, Some(1000)).await.unwrap();
            again.extend(page.data.iter().map(|envelope| envelope.get().to_owned()));
            if !page.has_more {
                break;
            }
        }
        assert!(again.starts_with(&self.envelopes), "{run} has changed");
        self.envelopes = again;
    }

    fn events(&self) -> Vec<Value> {
        self.envelopes.iter().map(|envelope| serde_json::from_str(envelope).unwrap()).collect()
    }

    fn has_ended(&self) -> bool {
        let ending = |event: &Value| {
            ["run.finished", "run.failed", "run.cancelled"].contains(&event["type"].as_str().unwrap())
        };
        self.events().iter().any(ending)
    }
}

/// Approves all pending approvals.
async fn approve_pending(client: &Client, answered: &mut BTreeSet<String>) {
    let Ok(pending) = client
        .list_prompts::<reply::Approval>(&recount_client::Listing {
            status: Some("pending".to_owned()),
            ..recount_client::Listing::default()
        })
        .await
    else {
        return;
    };
    for approval in pending.data {
        let yes =
            ResolveApproval { decision: Verdict::Approve, comment: None, remember: None, shown_digest: None };
        // The server may be killed during the request; then the approval is resolved again, by its id.
        if client.answer_prompt(&approval.id, &yes).await.is_ok() {
            assert!(answered.insert(approval.id.clone()), "{} was pending again", approval.id);
        }
    }
}

/// Processes of commands of this test that are there now.
fn left_behind() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(words) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        if words.contains(MARK) && words.starts_with("sleep") {
            found.push(words);
        }
    }
    found
}

/// Waits until nothing of the commands of a dead server is there.
async fn nothing_left_behind() {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !left_behind().is_empty() {
            // tidy: the kernel tells nobody when a stranger's process is gone.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "left behind by a server that is dead: {:?}", left_behind());
}

/// Compares what happened in a run's workspace with its log.
fn hold_against(run: &str, account: &Account) -> BTreeMap<String, usize> {
    let events = account.events();
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).cloned().collect::<Vec<_>>();
    let queued = &of("run.queued")[0]["data"];
    let path = Path::new(queued["workspace_path"].as_str().unwrap()).join("happened");
    let happened = std::fs::read_to_string(path).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for name in happened.lines() {
        *counts.entry(name.to_owned()).or_insert(0) += 1;
    }
    for (name, count) in &counts {
        assert_eq!(*count, 1, "{run}: the {name} command ran {count} times");
    }
    for proposed in of("assistant.tool_call_proposed") {
        let id = &proposed["data"]["tool_call_id"];
        let command = proposed["data"]["input"]["command"].as_str().unwrap().to_owned();
        let name = COMMANDS.into_iter().find(|name| command.contains(&format!("echo {name} "))).unwrap();
        let count_of =
            |name: &str| of(name).iter().filter(|event| event["data"]["tool_call_id"] == *id).count();
        let invoked = count_of("tool.invoked");
        let outcomes: usize =
            ["tool.completed", "tool.failed", "tool.cancelled", "tool.timed_out", "tool.refused"]
                .into_iter()
                .map(count_of)
                .sum();
        assert_eq!(outcomes, 1, "{run}: the {name} call is settled {outcomes} times");
        let ran = counts.get(name).copied().unwrap_or(0);
        assert!(ran <= invoked, "{run}: the {name} command ran although it was not invoked");
        if count_of("tool.completed") == 1 {
            assert_eq!(ran, 1, "{run}: the {name} call is completed, but its command did not run");
        }
    }
    counts
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

#[tokio::test]
#[ignore = "full: a course of kills"]
async fn agents_go_on_and_nothing_runs_twice() {
    let random = SeededEntropy::new(from_environment("RECOUNT_CRASH_SEED", 20_260_503));
    let below = |bound: u64| u64::try_from(random.draw() % u128::from(bound)).unwrap();
    let kills = from_environment("RECOUNT_CRASH_AGENT_KILLS", KILLS);
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let mut server = spawn(folder.path(), &config, "127.0.0.1:0");
    let address = server.address.clone();
    let mut client = Client::new(&server.url(), None).unwrap();
    let mut runs: Vec<(String, Account)> = Vec::new();
    let mut answered = BTreeSet::new();
    for kill in 0..kills {
        // Something is always under way.
        let open = runs.iter().filter(|(_, account)| !account.has_ended()).count();
        for _ in open..(RUNS / 3) {
            if runs.len() < RUNS {
                let order = CreateRun {
                    kind: "agent_loop".to_owned(),
                    request_text: Some(format!("go number {}", runs.len())),
                    ..CreateRun::default()
                };
                runs.push((client.create_run(&order).await.unwrap().id, Account::default()));
            }
        }
        if kill % 3 != 0 {
            approve_pending(&client, &mut answered).await;
        }
        // tidy: a random instant of the runs is what is wanted here, not a condition.
        tokio::time::sleep(Duration::from_millis(below(700))).await;
        server.kill();
        nothing_left_behind().await;
        server = spawn(folder.path(), &config, &address);
        client = Client::new(&server.url(), None).unwrap();
        for (run, account) in &mut runs {
            account.read(&client, run).await;
        }
    }
    let ended = tokio::time::timeout(PATIENCE, async {
        for (run, account) in &mut runs {
            loop {
                approve_pending(&client, &mut answered).await;
                account.read(&client, run).await;
                if account.has_ended() {
                    break;
                }
                // tidy: whether another is asked is seen by looking again.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    assert!(ended.await.is_ok(), "some run does not end");
    let mut interrupted = 0;
    for (run, account) in &runs {
        hold_against(run, account);
        let events = account.events();
        interrupted += events.iter().filter(|event| event["data"]["code"] == "interrupted").count();
        let last = events.iter().rfind(|event| event["type"].as_str().unwrap().starts_with("run."));
        assert_eq!(last.unwrap()["type"], "run.finished", "{run}: {:?}", last);
    }
    assert!(interrupted > 0, "no kill fell into anything");
    server.ask(&["verify", "--all"]).good();
    server.kill();
    nothing_left_behind().await;
    CommandOutput::of(recount().args(["verify", "--data"]).arg(folder.path().join("data"))).good();
}
