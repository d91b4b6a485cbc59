//! `recount resume`, `retry` and `continue`, with real processes: a run that failed behind two turns with tools is resumed,
//! branched, repeated and continued. A scripted model answers by the conversation alone, so which turn it plays shows which
//! history it was given.

use recount_client::reply::Run;
use recount_client::request::ResumeRun;
use recount_client::{Client, Listing};
use serde_json::Value;

use crate::process::scene::{Scene, all};
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, Server, recount};

const SCRIPT: &str = r#"
[[turn]]
text = "First."
call = [{ name = "write_file", input = { path = "one.txt", content = "one\n" } }]
usage = { input_tokens = 290, output_tokens = 10 }
[[turn]]
text = "Second."
call = [{ name = "write_file", input = { path = "two.txt", content = "two\n" } }]
usage = { input_tokens = 290, output_tokens = 10 }
[[turn]]
text = "All is done."
usage = { input_tokens = 290, output_tokens = 10 }
"#;

struct Chain {
    scene: Scene,
    server: Server,
    client: Client,
    /// A run that failed before its third turn, at its limit of turns.
    failed: Run,
}

impl Chain {
    async fn new(arguments: &[&str]) -> Self {
        let scene = Scene::playing(SCRIPT);
        let server = scene.server();
        let client = Client::new(&server.url(), None).unwrap();
        let all_arguments: Vec<&str> =
            arguments.iter().copied().chain(["--max-turns", "2", "do it"]).collect();
        CommandOutput::of(&mut scene.run(&server, &all_arguments)).bad(1, "");
        let failed = client.list_runs(&Listing::default()).await.unwrap().data.remove(0);
        assert_eq!((failed.status.as_str(), failed.turns), ("failed", 2));
        Chain { scene, server, client, failed }
    }

    /// A verb about the failed run; gives the run that it made, and its events.
    async fn after(&self, verb: &str, arguments: &[&str], status: i32) -> (Run, Vec<Value>) {
        self.after_run(&self.failed.id, verb, arguments, status).await
    }

    async fn after_run(&self, run: &str, verb: &str, more: &[&str], status: i32) -> (Run, Vec<Value>) {
        let answer = self.scene.ask(&self.server, &[&[verb, run][..], more].concat());
        match status {
            0 => drop(answer.good()),
            status => answer.bad(status, ""),
        }
        let newest = self.client.list_runs(&Listing::default()).await.unwrap().data.remove(0);
        assert_ne!(newest.id, run, "{verb} made a run");
        let newest = self.client.get_run(&newest.id).await.unwrap();
        let events = self.events(&newest.id).await;
        (newest, events)
    }

    async fn events(&self, run: &str) -> Vec<Value> {
        let page = self.client.read_run_events(run, None, Some(1000)).await.unwrap();
        page.data.iter().map(|envelope| serde_json::from_str(envelope.get()).unwrap()).collect()
    }

    /// Where the failed run saved its checkpoints, with their ids.
    async fn checkpoints(&self) -> Vec<(u64, String)> {
        let events = self.events(&self.failed.id).await;
        let saved = events.iter().filter(|event| event["type"] == "run.checkpoint_saved");
        let place = |event: &Value| {
            let id = event["data"]["checkpoint_id"].as_str().unwrap().to_owned();
            (event["sequence"].as_u64().unwrap(), id)
        };
        saved.map(place).collect()
    }
}

/// The texts of the model, one for each response.
fn model_texts(events: &[Value]) -> Vec<&str> {
    let texts = all(events, "assistant.text_complete");
    texts.into_iter().map(|event| event["data"]["text"].as_str().unwrap()).collect()
}

fn place(events: &[Value]) -> u64 {
    assert_eq!(events[0]["type"], "run.resumed_from_event");
    events[0]["data"]["from_sequence"].as_u64().unwrap()
}

#[tokio::test]
async fn a_run_that_failed_is_resumed_branched_repeated_and_continued() {
    let chain = Chain::new(&[]).await;
    let digest = chain.server.ask(&["digest", &chain.failed.id]).good();
    let checkpoints = chain.checkpoints().await;
    assert_eq!(checkpoints.len(), 2, "one behind each turn whose calls are settled");

    // From the last checkpoint: the model has both answers, and no call is made again.
    let (resumed, events) = chain.after("resume", &[], 0).await;
    assert_eq!((place(&events), model_texts(&events)), (checkpoints[1].0, vec!["All is done."]));
    assert!(all(&events, "tool.invoked").is_empty());
    assert_eq!(resumed.prior_run_id.as_ref(), Some(&chain.failed.id));

    // From the first: it has one answer, so the second is played again.
    let (branch, events) = chain.after("resume", &["--checkpoint", &checkpoints[0].1], 0).await;
    assert_eq!((place(&events), model_texts(&events)), (checkpoints[0].0, vec!["Second.", "All is done."]));
    assert_eq!(all(&events, "tool.invoked").len(), 1);

    let started = chain.events(&chain.failed.id).await;
    let second = all(&started, "turn.started")[1];
    let index = second["data"]["turn_index"].to_string();
    let (again, events) = chain.after("retry", &["--from-turn", &index], 0).await;
    assert_eq!(place(&events) + 1, second["sequence"].as_u64().unwrap());
    assert_eq!(model_texts(&events), ["Second.", "All is done."]);

    let (retried, events) = chain.after("retry", &[], 1).await;
    assert_eq!(events[0]["type"], "run.queued");
    assert_eq!(model_texts(&events), ["First.", "Second."]);

    // A new prompt: the script starts again behind it, and the run before it is the one that was resumed.
    let (continued, events) = chain.after_run(&resumed.id, "continue", &["and", "more"], 1).await;
    assert_eq!(all(&events, "user.message")[0]["data"]["text"], "and more");
    assert_eq!(model_texts(&events), ["First.", "Second."]);

    assert_eq!(chain.server.ask(&["digest", &chain.failed.id]).good(), digest, "the original is as it was");
    let shown = chain.client.get_run(&chain.failed.id).await.unwrap();
    assert_eq!(shown.successor_run_ids, [retried.id, again.id, branch.id, resumed.id.clone()]);
    let shown = chain.server.ask(&["show", &resumed.id]);
    let links = format!("after {}\nfollowed by {}\n", chain.failed.id, continued.id);
    assert!(shown.words.contains(&links), "{}", shown.words);
}

#[tokio::test]
async fn files_go_back_with_the_conversation_or_the_run_does_not_start() {
    let chain = Chain::new(&[]).await;
    let (failed, copy) = (&chain.failed, chain.failed.workspace_path.clone().unwrap());
    let copy = std::path::Path::new(&copy);
    assert!(copy.join("two.txt").exists());
    let checkpoint = chain.checkpoints().await.remove(0).1;
    // The second turn writes a file that does not exist at the first checkpoint.
    let (branch, events) = chain.after("resume", &["--checkpoint", &checkpoint], 0).await;
    assert_ne!(branch.workspace_path, failed.workspace_path);
    let provisioned = &all(&events, "workspace.provisioned")[0]["data"];
    assert_eq!(provisioned["files_from_run_id"], failed.id.as_str());
    let first = chain.events(&failed.id).await;
    let files = all(&first, "workspace.provisioned")[0]["data"]["files"].as_u64().unwrap();
    assert_eq!(provisioned["files"], files + 1, "only the file of the first turn");
    // Without the recorded files nothing starts, unless the current ones are chosen.
    std::fs::remove_dir_all(copy.with_file_name("snapshots")).unwrap();
    let runs = chain.client.list_runs(&Listing::default()).await.unwrap().data.len();
    for arguments in
        [&["resume", &failed.id, "--checkpoint", &checkpoint][..], &["retry", &failed.id, "--from-turn", "1"]]
    {
        chain.server.ask(arguments).bad(1, "(--keep-files)");
    }
    let request = ResumeRun { checkpoint_id: Some(checkpoint.clone()), ..ResumeRun::default() };
    let refused = chain.client.resume_run(&failed.id, &request).await.unwrap_err();
    assert_eq!(refused.code(), Some("files_not_restorable"));
    let odd = ResumeRun { files: Some("some".into()), ..request };
    assert_eq!(
        chain.client.resume_run(&failed.id, &odd).await.unwrap_err().code(),
        Some("parameter_invalid")
    );
    assert_eq!(chain.client.list_runs(&Listing::default()).await.unwrap().data.len(), runs);
    // On a terminal a person decides.
    let url = chain.server.url();
    for (answer, status) in [("n\n", 1), ("y\n", 0)] {
        let arguments = ["--url", &url, "resume", &failed.id, "--checkpoint", &checkpoint];
        let mut terminal = Terminal::start(&chain.scene.work(), &arguments, &[]);
        let shown = terminal.wait_for("Start with the files as they are now");
        assert!(shown.contains("they were not recorded"), "{shown}");
        terminal.press(answer);
        assert_eq!(terminal.end().1, status, "{answer}");
    }
    assert_eq!(chain.client.list_runs(&Listing::default()).await.unwrap().data.len(), runs + 1);
    let (kept, _) = chain.after("resume", &["--checkpoint", &checkpoint, "--keep-files"], 0).await;
    assert_eq!(kept.workspace_path, failed.workspace_path);
}

#[tokio::test]
async fn later_messages_of_a_session_continue_in_the_copy_of_a_branch() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    let client = Client::new(&server.url(), None).unwrap();
    let newest = async || client.list_runs(&Listing::default()).await.unwrap().data.remove(0);
    scene.ask(&server, &["chat", "--yes", "--message", "do it"]).good();
    let first = newest().await;
    scene.ask(&server, &["chat", "--yes", "--session", "last", "--message", "more"]).good();
    let second = newest().await;
    assert!(second.workspace_path.is_some() && second.workspace_path == first.workspace_path);
    let page = client.read_run_events(&second.id, None, Some(1000)).await.unwrap();
    let events: Vec<Value> =
        page.data.iter().map(|envelope| serde_json::from_str(envelope.get()).unwrap()).collect();
    let checkpoint = &all(&events, "run.checkpoint_saved")[0]["data"]["checkpoint_id"];
    let checkpoint = checkpoint.as_str().unwrap().to_owned();
    scene.ask(&server, &["resume", &second.id, "--checkpoint", &checkpoint]).good();
    let branch = newest().await;
    assert_ne!(branch.workspace_path, first.workspace_path);
    scene.ask(&server, &["chat", "--yes", "--session", "last", "--message", "and more"]).good();
    let last = newest().await;
    assert_ne!(last.id, branch.id);
    assert_eq!(last.workspace_path, branch.workspace_path);
}

#[tokio::test]
async fn a_budget_holds_for_all_runs_of_a_chain() {
    let chain = Chain::new(&["--budget-tokens", "1000"]).await;
    assert_eq!((chain.failed.input_tokens, chain.failed.output_tokens), (580, 20));
    // 600 before it, 300 more.
    let (resumed, events) = chain.after("resume", &[], 0).await;
    assert_eq!((resumed.input_tokens, resumed.output_tokens, resumed.budget_tokens), (870, 30, Some(1000)));
    assert_eq!(events[1]["data"]["prior_input_tokens"], 580);
    // Neither way of doing it once more has a budget of its own.
    for (verb, more) in [("retry", &[][..]), ("resume", &[]), ("retry", &["--from-turn", "0"])] {
        let (run, events) = chain.after(verb, more, 1).await;
        assert_eq!(
            (run.status.as_str(), run.ending.as_deref()),
            ("failed", Some("budget_exceeded")),
            "{verb}"
        );
        assert!(all(&events, "tool.invoked").is_empty(), "{verb}");
        let task = chain.client.get_task(run.task_id.as_ref().unwrap()).await.unwrap();
        assert_eq!(task.budget_remaining_tokens, Some(0), "{verb}");
    }
}

#[tokio::test]
async fn what_cannot_be_resumed_is_refused_and_no_run_is_made() {
    let chain = Chain::new(&[]).await;
    let run = chain.failed.id.as_str();
    let before = chain.client.list_runs(&Listing::default()).await.unwrap().data.len();
    for (arguments, word) in [
        (&["resume", run, "--checkpoint", "ckpt_x"][..], "checkpoint_not_found"),
        (&["retry", run, "--from-turn", "99"], "turn_not_found"),
        (&["continue", run, " "], "order_refused"),
        (&["resume", "run_01JXMZ00000000000000000000"], "run_not_found"),
    ] {
        chain.server.ask(arguments).bad(1, word);
    }
    assert_eq!(chain.client.list_runs(&Listing::default()).await.unwrap().data.len(), before);
}

/// A run that works and then waits for a file; the command of its third turn ends by itself.
const WAITING: &str = r#"
[[turn]]
text = "First."
call = [{ name = "write_file", input = { path = "one.txt", content = "one\n" } }]
[[turn]]
text = "Second."
call = [{ name = "write_file", input = { path = "two.txt", content = "two\n" } }]
[[turn]]
text = "Third."
call = [{ name = "shell_exec", input = { command = "test -e go || sleep 60" } }]
[[turn]]
text = "All is done."
"#;

async fn events_of(client: &Client, run: &str) -> Vec<Value> {
    let page = client.read_run_events(run, None, Some(1000)).await.unwrap();
    page.data.iter().map(|envelope| serde_json::from_str(envelope.get()).unwrap()).collect()
}

/// Resumes a run from a checkpoint of it, and gives the events of the new run.
async fn resumed_from(scene: &Scene, server: &Server, run: &str, checkpoint: &str) -> Vec<Value> {
    let mut command = recount();
    command.args(["--url", &server.url(), "resume", run, "--checkpoint", checkpoint]);
    CommandOutput::of(command.current_dir(scene.work())).good();
    let client = Client::new(&server.url(), None).unwrap();
    let newest = client.list_runs(&Listing::default()).await.unwrap().data.remove(0);
    assert_eq!(newest.prior_run_id.as_deref(), Some(run));
    events_of(&client, &newest.id).await
}

#[tokio::test]
async fn a_run_whose_server_was_killed_in_the_middle_is_resumed_from_a_checkpoint() {
    let scene = Scene::playing(WAITING).with("[experimental]\nbranches = true\n");
    let mut server = scene.server();
    CommandOutput::of(&mut scene.run(&server, &["do it", "--detach"])).good();
    let client = Client::new(&server.url(), None).unwrap();
    let run = client.list_runs(&Listing::default()).await.unwrap().data.remove(0).id;
    // Killed while the command of the third turn runs.
    while all(&events_of(&client, &run).await, "tool.shell.command").is_empty() {
        crate::server::look_again().await;
    }
    let folder = client.get_run(&run).await.unwrap().workspace_path.unwrap();
    server.kill();
    std::fs::write(std::path::Path::new(&folder).join("go"), "").unwrap();
    let server = scene.server();
    let client = Client::new(&server.url(), None).unwrap();
    while client.get_run(&run).await.unwrap().ended_at.is_none() {
        crate::server::look_again().await;
    }
    let killed = events_of(&client, &run).await;
    assert_eq!(all(&killed, "gap.run_disconnected").len(), 1);
    assert_eq!(all(&killed, "tool.failed")[0]["data"]["code"], "interrupted");
    let digest = server.ask(&["digest", &run]).good();
    let checkpoints: Vec<(u64, String)> = all(&killed, "run.checkpoint_saved")
        .into_iter()
        .map(|event| {
            let id = event["data"]["checkpoint_id"].as_str().unwrap().to_owned();
            (event["sequence"].as_u64().unwrap(), id)
        })
        .collect();
    let interrupted = all(&killed, "tool.failed")[0]["sequence"].as_u64().unwrap();
    assert!(checkpoints[1].0 < interrupted && interrupted < checkpoints[2].0, "{checkpoints:?}");

    // Before the interrupted call: the model makes it again, and nothing before it.
    let events = resumed_from(&scene, &server, &run, &checkpoints[1].1).await;
    assert_eq!((place(&events), model_texts(&events)), (checkpoints[1].0, vec!["Third.", "All is done."]));
    let invoked = all(&events, "tool.invoked");
    assert_eq!((invoked.len(), &invoked[0]["data"]["tool_name"]), (1, &Value::from("shell_exec")));
    assert_eq!(all(&events, "tool.completed").len(), 1);
    let branched = all(&events, "run.branched_from");
    assert_eq!(branched[0]["data"]["from_sequence"], checkpoints[1].0);
    let reason = format!("resumed from checkpoint {}", checkpoints[1].1);
    assert_eq!(branched[0]["data"]["reason"], reason.as_str());

    // After it: the model knows that it was interrupted, and only says the last word.
    let events = resumed_from(&scene, &server, &run, &checkpoints[2].1).await;
    assert_eq!((place(&events), model_texts(&events)), (checkpoints[2].0, vec!["All is done."]));
    assert!(all(&events, "tool.invoked").is_empty());
    assert_eq!(server.ask(&["digest", &run]).good(), digest, "the original is as it was");
}
