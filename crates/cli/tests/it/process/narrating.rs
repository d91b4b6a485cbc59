//! `recount narrate`: a run by ear and by keyboard, with a real speech-dispatcher and a real terminal.

#[path = "../../../../narrate/tests/it/dispatcher.rs"]
mod dispatcher;

use recount_aaep_kit::World;
use recount_aaep_kit::link::call::Caller;
use recount_aaep_kit::scenario::Scenario;
use recount_aaep_kit::scripted::{Behaviour, Scripted};
use recount_client::Client;

use self::dispatcher::Dispatcher;
use crate::process::scene::{ASK_ALL, Scene};
use crate::process::story;
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, PATIENCE, RunningCommand, Server, recount};

/// A producer that asks, gives time to answer, and is narrated at a terminal.
struct Producer {
    scripted: Scripted,
    folder: tempfile::TempDir,
}

impl Producer {
    async fn start() -> Producer {
        let behaviour = Behaviour { timeout_seconds: 300, ..Behaviour::default() };
        let scripted = Scripted::start(&World::real(), behaviour).await.unwrap();
        Producer { scripted, folder: tempfile::tempdir().unwrap() }
    }

    fn narrate(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        let all: Vec<&str> =
            ["--url", self.scripted.base(), "narrate"].into_iter().chain(arguments.iter().copied()).collect();
        Terminal::start(self.folder.path(), &all, variables)
    }

    async fn request(&self, scenario: Scenario) {
        let caller = Caller::new(self.scripted.base(), None, PATIENCE).unwrap();
        let input = serde_json::json!({"kind": "user_input", "text": scenario.text()}).to_string();
        let url = format!("{}/messages", self.scripted.base());
        assert!(caller.post(&url, input.as_bytes()).await.unwrap().is_success());
    }
}

/// Waits on another thread, so that the producer of the test goes on.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_spoken_answered_by_keys_and_its_result_is_spoken() {
    let producer = Producer::start().await;
    let dispatcher = Dispatcher::start("writer", "0");
    let address = dispatcher.address();
    let mut terminal = producer.narrate(&["--all", "--rate", "30"], &[("SPEECHD_ADDRESS", &address)]);
    let dispatcher = on_thread(move || {
        dispatcher.wait_for("Connected. Press question mark for the keys.");
        dispatcher
    })
    .await;
    producer.request(Scenario::Irreversible).await;
    let (mut terminal, dispatcher) = on_thread(move || {
        dispatcher.wait_for("Delete the customer's record for good.");
        dispatcher.wait_for("The record and its history cannot be brought back.");
        dispatcher.wait_for("Press y to approve, n to reject.");
        terminal.press("y");
        dispatcher.wait_for("Press Enter to approve, any other key to go back.");
        terminal.press("\n");
        dispatcher.wait_for("Approval sent.");
        dispatcher.wait_for("Deleting the record.");
        dispatcher.wait_for("The record is deleted.");
        (terminal, dispatcher)
    })
    .await;
    let (spoken, status) = on_thread(move || {
        terminal.press("w");
        dispatcher.wait_for("No run is active.");
        terminal.press("q");
        (dispatcher.spoken(), terminal.end().1)
    })
    .await;
    assert_eq!(status, 0);
    assert!(!spoken.contains("Rejected"), "{spoken}");
    producer.scripted.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_answered_without_speech_too() {
    let producer = Producer::start().await;
    let mut terminal = producer.narrate(&["--all"], &[("SPEECHD_ADDRESS", "unix_socket:/nowhere/s.sock")]);
    let mut terminal = on_thread(move || {
        terminal.wait_for("no response from speech-dispatcher at /nowhere/s.sock");
        terminal.wait_for("apt-get install speech-dispatcher");
        terminal.wait_for("Connected.");
        terminal
    })
    .await;
    producer.request(Scenario::Clarify).await;
    let mut terminal = on_thread(move || {
        terminal.wait_for("Which city do you mean?");
        // The line is broken between words.
        terminal.wait_for("1: Lagos in Nigeria. 2: Lima in Peru. 3:");
        terminal.press("2");
        terminal.wait_for("2: Lima in Peru. Press Enter to answer.");
        terminal.press("\n");
        terminal.wait_for("Answer sent: Lima in Peru.");
        terminal.wait_for("It is fine there today.");
        terminal
    })
    .await;
    producer.request(Scenario::Confirm).await;
    on_thread(move || {
        terminal.wait_for("Run 2: ");
        terminal.wait_for("Book the blue room for tomorrow at two.");
        terminal.wait_for("Press y to approve, n to reject.");
        terminal.press("c");
        terminal.wait_for("Cancel run 2?");
        terminal.press("x");
        terminal.wait_for("Not cancelled.");
        terminal.press("n");
        terminal.wait_for("Rejection sent.");
        terminal.wait_for("You said no, so it is not done.");
        terminal.interrupt();
        assert_eq!(terminal.end().1, 130);
    })
    .await;
    producer.scripted.stop().await;
}

#[test]
fn a_run_of_a_server_is_narrated_approved_and_cancelled_by_keyboard() {
    let scene = Scene::under(ASK_ALL);
    let server = scene.server();
    let dispatcher = Dispatcher::start("writer", "0");
    let (url, address) = (server.url(), dispatcher.address());
    let arguments = ["--url", &url, "narrate", "--all"];
    let mut terminal = Terminal::start(&scene.work(), &arguments, &[("SPEECHD_ADDRESS", &address)]);
    dispatcher.wait_for("Connected. Press question mark for the keys.");
    let following = RunningCommand::of(&mut scene.run(&server, &["clear up"]));
    dispatcher.wait_for("rm -r old");
    dispatcher.wait_for("Press y to approve, n to reject.");
    // The policy decides whether it is high-risk; Enter alone does nothing.
    terminal.press("y\n");
    dispatcher.wait_for("Approval sent.");
    dispatcher.wait_for("That was it.");
    let (output, status) = following.end();
    assert!(status == 0 && output.iter().any(|line| line.contains("approved by")), "{status} {output:?}");

    let following = RunningCommand::of(&mut scene.run(&server, &["slow"]));
    dispatcher.wait_for("Run 2: ");
    terminal.press("c");
    dispatcher.wait_for("Cancel run 2?");
    terminal.press("\n");
    dispatcher.wait_for("Cancellation requested.");
    assert_eq!(following.end().1, 6);
    terminal.press("q");
    assert_eq!(terminal.end().1, 0);
}

#[tokio::test]
async fn a_run_is_narrated_as_lines_and_ends_as_the_run_did() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let run = story::whole(&client, "A story").await;
    let output = CommandOutput::of(recount().args(["--url", &server.url(), "narrate", &run, "--text"]));
    assert_eq!((output.status, output.words.as_str()), (0, ""), "{output:?}");
    let lines: Vec<&str> = output.data.lines().collect();
    assert!(lines[0].contains("tester"), "{lines:?}");
    assert!(lines.contains(&"agent: Hello there"), "{lines:?}");
    assert_eq!(*lines.last().unwrap(), "run: tester has finished.", "{lines:?}");
    let brief =
        CommandOutput::of(recount().args(["--url", &server.url(), "narrate", &run, "--text", "--brief"]));
    assert_eq!(brief.data.lines().count(), 2, "{brief:?}");
    let as_json =
        CommandOutput::of(recount().args(["--url", &server.url(), "--json", "narrate", &run])).good();
    let first: serde_json::Value = serde_json::from_str(as_json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["priority"], &first["language"]), (&"text".into(), &"en-US".into()), "{first}");
    assert_eq!(first["subject"], "run", "{first}");
    let arabic = CommandOutput::of(recount().args([
        "--url",
        &server.url(),
        "narrate",
        &run,
        "--text",
        "--language",
        "ar",
    ]));
    assert!(arabic.data.lines().next().unwrap().contains("العمل"), "{arabic:?}");

    let failed = story::create(&client, "Another").await;
    let ending = [
        ("run.started", "{}"),
        ("run.failed", r#"{"code":"tool_failed","message":"The tool failed.","retriable":false}"#),
    ];
    story::append(&client, &failed, 0, &ending).await;
    let output = CommandOutput::of(recount().args(["--url", &server.url(), "narrate", &failed, "--text"]));
    assert_eq!(output.status, 1, "{output:?}");
}

const TEXT: &str = r##"{"turn_index":0,"block_index":0,"text":"# Result\n\nI **removed** the folder `old`. See [the log](https://example.com/log).\n\n- First\n- [x] Second\n\n| file | lines |\n| --- | ---: |\n| a.txt | 12 |\n\n```rust\nfn main() {\n    run\n}\n```\n\nDone."}"##;

/// A run with a tool call, a permission, an answer in Markdown and a failure.
const NARRATED: &[story::StoryEvent] = &[
    ("run.started", r#"{"worker_id":"w1"}"#),
    ("turn.started", r#"{"turn_index":0,"model":"some-model"}"#),
    ("assistant.text_complete", TEXT),
    (
        "assistant.tool_call_proposed",
        r#"{"turn_index":0,"tool_call_id":"call_1","tool_name":"shell_exec","input":{"command":"rm -r old"}}"#,
    ),
    ("turn.completed", r#"{"turn_index":0,"stop_reason":"tool_use"}"#),
    (
        "approval.requested",
        r#"{"approval_id":"appr_1","tool_call_id":"call_1","kind":"shell","summary":"rm -r old","action":"Run `rm -r old`.","consequence":"Deletes files.","preview":"rm -r old","irreversible":true}"#,
    ),
];

/// The rest of it, after the permission.
const NARRATED_END: &[story::StoryEvent] = &[
    ("tool.invoked", r#"{"tool_call_id":"call_1","tool_name":"shell_exec","args_summary":"rm -r old"}"#),
    ("tool.failed", r#"{"tool_call_id":"call_1","tool_name":"shell_exec","error":"`old` does not exist"}"#),
    ("error.upstream", r#"{"provider":"demo","message":"the key was refused","retriable":false}"#),
    ("run.failed", r#"{"code":"internal","message":"the key was refused","retriable":false}"#),
];

/// Everything is spoken, although much more than the queue holds arrives at once, and no prompt is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_ended_is_spoken_whole_and_as_history() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let url = server.url();
    let end = async |run: &str, approval: &str| {
        CommandOutput::of(recount().args(["--url", &url, "approve", approval, "-y"])).good();
        story::append(&client, run, 1, NARRATED_END).await;
    };
    let run = story::create(&client, "A story").await;
    story::append(&client, &run, 0, NARRATED).await;
    end(&run, "appr_1").await;
    let narrate = ["--url", &url, "narrate", &run];
    let output = CommandOutput::of(recount().args(narrate).arg("--text"));
    assert_eq!(output.status, 1, "{output:?}");
    let expected = [
        "run: tester has started: A story",
        "agent: Heading: Result",
        "agent: I removed the folder old. See the log.",
        "agent: First",
        "agent: Done: Second",
        "agent: file: a.txt, lines: 12.",
        "agent: Code, rust, 3 lines.",
        "agent: fn main() {",
        "agent:     run",
        "agent: }",
        "agent: Done.",
        "permission: Permission was requested: Run rm -r old. Deletes files.",
        "permission: operator approved it.",
        "tool: Using shell_exec: rm -r old",
        "tool: shell_exec failed: old does not exist.",
        "run: demo reported an error: the key was refused",
        "error: The run failed: the key was refused. Starting the run again will not help. Fix the error first.",
    ];
    assert_eq!(output.data.lines().collect::<Vec<_>>(), expected);

    let many = story::create(&client, "Many").await;
    let sentences: Vec<String> = (0..200).map(|number| format!("Sentence number {number}.")).collect();
    let text =
        serde_json::json!({"turn_index": 0, "block_index": 0, "text": format!("- {}", sentences.join("\n- "))}).to_string();
    let text: &'static str = text.leak();
    let mut events = NARRATED.to_vec();
    events[2].1 = text;
    let asking: &'static str = events[5].1.replace("appr_1", "appr_2").leak();
    events[5].1 = asking;
    story::append(&client, &many, 0, &events).await;
    end(&many, "appr_2").await;
    let dispatcher = Dispatcher::start("writer", "0");
    let address = dispatcher.address();
    let mut command = recount();
    command.args(["--url", &url, "narrate", &many]).env("SPEECHD_ADDRESS", &address);
    let status = on_thread(move || CommandOutput::of(&mut command).status).await;
    let spoken = dispatcher.spoken();
    assert_eq!(status, 1, "{spoken}");
    for sentence in &sentences {
        assert!(spoken.contains(sentence.as_str()), "{sentence} is missing in {spoken}");
    }
    assert!(spoken.contains("Permission was requested: Run rm -r old."), "{spoken}");
    assert!(!spoken.contains("Press y"), "{spoken}");
}

/// Some modules of speech-dispatcher lose the end of an utterance now and then, and speak nothing until it is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn an_utterance_without_an_end_does_not_stop_speech() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let dispatcher = Dispatcher::start("writer", "900");
    let (url, address) = (server.url(), dispatcher.address());
    let mut terminal =
        Terminal::start(data.path(), &["--url", &url, "narrate", "--all"], &[("SPEECHD_ADDRESS", &address)]);
    let dispatcher = on_thread(move || {
        dispatcher.wait_for("Connected. Press question mark for the keys.");
        dispatcher
    })
    .await;
    story::create(&Client::new(&url, None).unwrap(), "A story").await;
    on_thread(move || {
        dispatcher.wait_for("tester has started: A story");
        terminal.press("q");
        assert_eq!(terminal.end().1, 0);
    })
    .await;
}

/// The bell is off unless it is requested, and rings in patterns.
#[tokio::test(flavor = "multi_thread")]
async fn the_bell_rings_twice_when_a_run_needs_someone_and_once_when_it_finishes() {
    for (arguments, bells) in [(&["--all", "--text"][..], 0), (&["--all", "--text", "--bell"], 3)] {
        let producer = Producer::start().await;
        let mut terminal = producer.narrate(arguments, &[]);
        let mut terminal = on_thread(move || {
            terminal.wait_for("Connected.");
            terminal
        })
        .await;
        producer.request(Scenario::Confirm).await;
        let printed = on_thread(move || {
            terminal.wait_for("Press y to approve, n to reject.");
            if bells > 0 {
                terminal.wait_for("\u{7}");
                terminal.wait_for("\u{7}");
            }
            terminal.press("n");
            terminal.wait_for("Nothing was done.");
            if bells > 0 {
                terminal.wait_for("\u{7}");
            }
            terminal.press("q");
            terminal.end().0
        })
        .await;
        assert_eq!(printed.matches('\u{7}').count(), bells, "{printed:?}");
        producer.scripted.stop().await;
    }
}

#[test]
fn what_cannot_be_narrated_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let unknown = "run_01HZX3Q0M0000000000000000A";
    server.ask(&["narrate"]).bad(2, "<RUN|--all>");
    server.ask(&["narrate", unknown, "--all"]).bad(2, "Usage");
    server.ask(&["narrate", unknown, "--text", "--rate", "101"]).bad(2, "-100..=100");
    server.ask(&["narrate", "x", "--text"]).bad(1, "`extensions.recount.run_id` is \"x\"");
    server.ask(&["narrate", unknown, "--text"]).bad(1, "not found");
    let url = server.url();
    server.stop();
    CommandOutput::of(recount().args(["--url", &url, "narrate", unknown, "--text"]))
        .bad(3, "recount serve starts one");
}

/// A restart ends the subscription, and the tokens of its prompts with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_read_again_and_can_be_answered_after_a_restart_of_the_server() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let run = story::create(&client, "A gate").await;
    let gate = r#"{"approval_id":"gate_1","tool_call_id":"call_1","kind":"open","summary":"open","action":"Open the gate.","consequence":"It is open.","timeout_seconds":600}"#;
    story::append(&client, &run, 0, &[("run.started", "{}"), ("approval.requested", gate)]).await;
    let url = server.url();
    on_thread(move || {
        let variables = [("SPEECHD_ADDRESS", "unix_socket:/nowhere/s.sock")];
        let mut terminal = Terminal::start(data.path(), &["--url", &url, "narrate", &run], &variables);
        terminal.wait_for("Open the gate.");
        terminal.wait_for("Press y to approve");
        let address = server.address.clone();
        server.stop();
        terminal.wait_for("Connection lost.");
        let _server = Server::start_at(data.path(), &address);
        terminal.wait_for("Reconnected.");
        terminal.wait_for("Open the gate.");
        terminal.wait_for("Press y to approve");
        terminal.press("y");
        terminal.wait_for("Approval sent.");
        terminal.wait_for("approved it");
        terminal.press("q");
        assert_eq!(terminal.end().1, 0);
    })
    .await;
}
