//! `recount run`: followed, answered and cancelled at a terminal and in a pipe, with a scripted model.

use std::process::{Command, Stdio};

use recount_client::Listing;
use recount_client::request::{ResolveApproval, Verdict};
use serde_json::Value;

use crate::process::scene::{Scene, client, newest};
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, PATIENCE, RunningCommand, Server, recount, the_usual_address_is_free};

fn types(lines: &str) -> Vec<String> {
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
    lines.lines().map(name).collect()
}

/// Whether these come in this order, with anything between them.
#[track_caller]
fn check_order(types: &[String], wanted: &[&str]) {
    let mut left = types.iter();
    for name in wanted {
        assert!(left.any(|found| found == name), "{name} does not follow in {types:?}");
    }
}

#[tokio::test]
async fn a_run_is_printed_with_its_cost() {
    let scene = Scene::new();
    let server = scene.server();
    let printed = CommandOutput::of(&mut scene.run(&server, &["say", "hello"])).good();
    let run = newest(&server).await;
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with(&format!("run {}", run.id)), "{printed}");
    assert!(lines.contains(&"Hello there, dear old friend."), "{printed}");
    assert!(printed.contains("✓ finished: completed (1 turn, "), "{printed}");
    assert!(printed.ends_with("cost: 0.00102 USD, 1000 tokens in, 10 tokens out\n"), "{printed}");
    assert_eq!(run.task_id, None);

    let budget =
        CommandOutput::of(&mut scene.run(&server, &["say hello", "--budget", "0.50", "--title", "Hi"]))
            .good();
    assert!(budget.ends_with("0.49898 USD of 0.50 USD remaining\n"), "{budget}");
    let run = newest(&server).await;
    assert!(run.task_id.is_some() && run.title.as_deref() == Some("Hi"), "{run:?}");

    let detached = CommandOutput::of(&mut scene.run(&server, &["say hello", "--detach"])).good();
    assert_eq!(detached.trim(), newest(&server).await.id);
    let again = CommandOutput::of(&mut scene.run(&server, &["--resume", &run.id, "say hello"])).good();
    assert!(again.contains("Hello there"), "{again}");
    assert_eq!(newest(&server).await.task_id, run.task_id);
}

#[tokio::test]
async fn invalid_requests_are_rejected_before_anything_is_done() {
    let scene = Scene::new();
    let server = scene.server();
    let large = std::fs::File::create(scene.work().join("large.bin")).unwrap();
    large.set_len((10 << 20) + 1).unwrap();
    for (arguments, word) in [
        (&[][..], "no task given"),
        (&["--kind", "shell"], "no task given"),
        (&["--kind", "file", "grep"], "two arguments"),
        (&["x", "--budget", "much"], "US dollars"),
        (&["x", "--timeout", "soon"], "duration"),
        (&["x", "--workspace", "nowhere"], "nowhere"),
        (&["x", "--attach", "nothing.txt"], "nothing.txt"),
        (&["x", "--attach", "large.bin"], "larger than 10485760 bytes"),
        (&["x", "--attach", "/dev/zero"], "not a regular file"),
        (&["x", "--resume", "run_1", "--workspace", "."], "cannot be used with"),
    ] {
        CommandOutput::of(&mut scene.run(&server, arguments)).bad(2, word);
    }
    CommandOutput::of(&mut scene.run(&server, &["x", "--tools", "nothing"])).bad(1, "order_refused");
    assert_eq!(client(&server).list_runs(&Listing::default()).await.unwrap().data.len(), 0);
    let detached_arguments = ["run", "x", "--detach"];
    let mut command = recount();
    CommandOutput::of(
        command.args(["--url", "http://127.0.0.1:1"]).args(detached_arguments).current_dir(scene.work()),
    )
    .bad(3, "127.0.0.1:1");
}

#[tokio::test]
async fn events_come_as_they_are_stored() {
    let scene = Scene::new();
    let server = scene.server();
    let printed = CommandOutput::of(&mut scene.run(&server, &["edit it", "--json"])).good();
    let run = newest(&server).await;
    let page = client(&server).read_run_events(&run.id, None, None).await.unwrap();
    let stored: Vec<&str> = page.data.iter().map(|envelope| envelope.get()).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), stored);
    let wanted = [
        "run.queued",
        "run.started",
        "workspace.provisioned",
        "assistant.tool_call_proposed",
        "tool.invoked",
        "assistant.text_complete",
        "run.finished",
    ];
    check_order(&types(&printed), &wanted);
    let printed = CommandOutput::of(&mut scene.run(&server, &["edit it"])).good();
    for line in ["  to do:", "    [now]  Edit it", "    -one", "    +two", "Edited."] {
        assert!(printed.lines().any(|row| row == line), "{line:?} is not in {printed}");
    }
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "one\n", "it was a copy");
}

/// Over HTTP the bytes of each of its artifacts are requested.
#[tokio::test]
async fn verify_names_the_lost_bytes_of_an_artifact() {
    let scene = Scene::new();
    let server = scene.server();
    CommandOutput::of(&mut scene.run(&server, &["edit it"])).good();
    let run = newest(&server).await;
    server.ask(&["verify", &run.id]).good();
    let artifacts = client(&server).list_run_artifacts(&run.id, &Listing::default()).await.unwrap().data;
    let artifact = artifacts.iter().find(|artifact| artifact.hash.is_some()).unwrap();
    let name = artifact.hash.as_deref().unwrap().strip_prefix("blake3:").unwrap();
    let blob = scene.path("data").join("blobs").join(&name[..2]).join(name);
    let check = |why: &str| {
        let found = server.ask(&["verify", &run.id]);
        let lost = format!("the stored bytes of artifact {} are lost: {why}", artifact.id);
        assert_eq!(found.status, 1, "{found:?}");
        assert!(
            found.data.contains(&format!("{} wrong: ", run.id)) && found.data.contains(&lost),
            "{found:?}"
        );
    };
    std::fs::write(&blob, "other bytes").unwrap();
    check(&format!("blob {name} was changed on disk"));
    std::fs::remove_file(&blob).unwrap();
    check(&format!("blob {name} is missing"));
}

#[tokio::test]
async fn commands_say_how_they_ended() {
    let scene = Scene::new();
    let server = scene.server();
    let good = CommandOutput::of(&mut scene.run(&server, &["--kind", "shell", "--", "echo", "a  b"])).good();
    assert!(
        good.contains("\n    a  b\n✓ done shell_exec in ") && good.contains(", exit status 0\n"),
        "{good}"
    );
    let bad = CommandOutput::of(
        &mut scene.run(&server, &["--kind", "shell", "--", "echo out; echo err >&2; exit 3"]),
    );
    assert_eq!(bad.status, 1, "{bad:?}");
    assert!(bad.data.contains("✗ ended shell_exec in ") && bad.data.contains(", exit status 3\n"), "{bad:?}");
    assert!(bad.data.contains("\n    out\n") && bad.data.contains("\n    err\n"), "{bad:?}");
    let long = CommandOutput::of(&mut scene.run(&server, &["--kind", "shell", "--", "seq 1 5000"])).good();
    assert!(
        long.contains("\n    20\n") && !long.contains("\n    21\n") && long.contains("\n    5000\n"),
        "{long}"
    );
    assert!(long.contains("(4970 lines not shown; the last lines follow)"), "{long}");
    let read = r#"{"path":"a.txt"}"#;
    let file = CommandOutput::of(&mut scene.run(&server, &["--kind", "file", "read_file", read])).good();
    assert!(file.contains("✓ done read_file") && file.contains("one\n"), "{file}");
}

#[tokio::test]
async fn what_is_attached_is_kept_and_named() {
    let scene = Scene::new();
    let server = scene.server();
    let printed = CommandOutput::of(&mut scene.run(&server, &["say hello", "--attach", "a.txt"])).good();
    assert!(printed.contains("attached: art_") && printed.contains("(text/plain)"), "{printed}");
    let id = printed.split("attached: ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(&client(&server).read_artifact(id).await.unwrap()[..], b"one\n");
}

#[tokio::test]
async fn a_person_at_the_terminal_is_asked() {
    let scene = Scene::new();
    let server = scene.server();
    let mut terminal = scene.at_terminal(&server, &["clear up"]);
    terminal.wait_for("I clear up.");
    let prompt = terminal.wait_for("d for details:\n");
    for words in ["Permission requested: ", "    approval: appr_", "risk: high", "the call is denied"] {
        assert!(prompt.contains(words), "{words:?} is not in {prompt}");
    }
    terminal.press("d\n");
    assert!(terminal.wait_for("d for details:\n").contains("tool: shell_exec"));
    terminal.press("what?\n");
    terminal.wait_for("nothing was decided.");
    terminal.press("y go on\n");
    terminal.wait_for("approved by operator: go on\n");
    terminal.wait_for("▸ call shell_exec  rm -r old");
    let (printed, status) = terminal.end();
    assert!(status == 0 && printed.contains("That was it."), "{status} {printed}");

    let mut terminal = scene.at_terminal(&server, &["clear up"]);
    terminal.wait_for("d for details:\n");
    terminal.press("n leave it\n");
    terminal.wait_for("rejected by operator: leave it\n");
    terminal.wait_for("✗ refused shell_exec (denied)");
    assert_eq!(terminal.end().1, 0);
}

#[tokio::test]
async fn questions_take_a_number_or_words() {
    let scene = Scene::new();
    let server = scene.server();
    for (keys, answer) in [("2\n", "Green it is."), ("blue\n", "Something else, then.")] {
        let mut terminal = scene.at_terminal(&server, &["which one"]);
        let prompt = terminal.wait_for("or an answer (d for details):\n");
        assert!(prompt.contains("Question: Which colour?\n    1: red\n    2: green\n"), "{prompt}");
        terminal.press("3\n");
        terminal.wait_for("from 1 to 2");
        terminal.press(keys);
        terminal.wait_for(answer);
        assert_eq!(terminal.end().1, 0);
    }
}

#[tokio::test]
async fn another_client_may_answer_first() {
    let scene = Scene::new();
    let server = scene.server();
    let mut terminal = scene.at_terminal(&server, &["clear up"]);
    terminal.wait_for("d for details:\n");
    let run = newest(&server).await;
    let answer = ResolveApproval {
        decision: Verdict::Reject,
        comment: Some("mine".to_owned()),
        remember: None,
        shown_digest: None,
    };
    client(&server).answer_prompt(&run.pending_approvals[0], &answer).await.unwrap();
    terminal.wait_for("rejected by operator: mine");
    terminal.wait_for("That was it.");
    assert_eq!(terminal.end().1, 0);

    // Without a person it prints how to answer, and waits.
    let following = RunningCommand::of(&mut scene.run(&server, &["clear up"]));
    let how = loop {
        let line = following.line();
        if line.starts_with("To answer: ") {
            break line;
        }
    };
    let id = newest(&server).await.pending_approvals.remove(0);
    assert!(how.contains(&format!("recount approve {id} --url {}", server.url())), "{how}");
    server.ask(&["approve", &id, "--yes"]).good();
    let (rest, status) = following.end();
    assert!(status == 0 && rest.iter().any(|line| line == "That was it."), "{rest:?}");

    // With an option, lines of a pipe are answers.
    let mut piped = scene.run(&server, &["clear up", "--answers-from-stdin"]);
    let lines = scene.path("answers");
    std::fs::write(&lines, "n not now\n").unwrap();
    let piped = CommandOutput::of(piped.stdin(Stdio::from(std::fs::File::open(&lines).unwrap()))).good();
    assert!(piped.contains("rejected by operator: not now"), "{piped}");
}

#[tokio::test]
async fn an_interrupt_cancels_the_run() {
    let scene = Scene::new();
    let server = scene.server();
    let mut terminal = scene.at_terminal(&server, &["slow"]);
    terminal.wait_for("One ");
    terminal.interrupt();
    terminal.wait_for("cancelling the run; press Ctrl-C again to quit at once");
    let printed = terminal.wait_for("✗ cancelled by operator: interrupted from the keyboard");
    assert!(printed.contains("(the text was cut off here)"), "{printed}");
    assert_eq!(terminal.end().1, 130);
    assert_eq!(newest(&server).await.status, "cancelled");

    let following = RunningCommand::of(&mut scene.run(&server, &["slow"]));
    while !following.line().starts_with("run ") {}
    server.ask(&["cancel", &newest(&server).await.id]).good();
    assert_eq!(following.end().1, 6, "another client cancelled it");
}

#[tokio::test]
async fn a_second_interrupt_leaves_at_once() {
    let scene = Scene::new();
    let server = scene.server();
    let mut terminal = scene.at_terminal(&server, &["slow"]);
    terminal.wait_for("One ");
    // A server that does not answer keeps the cancellation under way.
    server.pause();
    terminal.interrupt();
    terminal.wait_for("cancelling the run");
    terminal.interrupt();
    terminal.wait_for("quit at once; the run may continue; to follow it:\n    recount tail -f run_");
    assert_eq!(terminal.end().1, 130);
    server.go_on();
}

#[tokio::test]
async fn without_a_server_the_program_is_one_itself() {
    the_usual_address_is_free();
    let scene = Scene::new();
    let mut command = recount();
    command.args(["run", "say hello"]).current_dir(scene.work()).envs(scene.alone());
    let printed = CommandOutput::of(&mut command);
    assert!(
        printed.words.contains("no server at http://127.0.0.1:8765; started one for this command"),
        "{printed:?}"
    );
    assert!(printed.data.contains("Hello there, dear old friend."), "{printed:?}");
    assert_eq!(printed.status, 0);
    let mut verify = recount();
    let checked = CommandOutput::of(verify.args(["verify", "--data"]).arg(scene.path("data"))).good();
    assert!(checked.contains(" ok, "), "{checked}");

    // Who leaves at once takes the commands along.
    let variables = scene.alone();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    let marker = scene.path("still-there");
    let script = format!("trap '' INT TERM; while :; do echo on >> {}; sleep 0.1; done", marker.display());
    let mut terminal = Terminal::start(&scene.work(), &["run", "--kind", "shell", "--", &script], &variables);
    terminal.wait_for("▸ call shell_exec");
    let began = recount_world::moment();
    let until = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(began.elapsed() < PATIENCE, "it does not come");
            crate::server::wait_to_look();
        }
    };
    until(&|| marker.exists());
    assert!(is_under_way(&script));
    terminal.interrupt();
    terminal.wait_for("cancelling the run");
    terminal.interrupt_again();
    let (text, status) = terminal.end();
    // On a busy machine the run may have been cancelled by then.
    let left = text.contains("to continue it:\n    recount run --unfinished resume\n");
    let cancelled = text.contains("to continue from where it stopped:\n    recount run --resume run_");
    assert!(left || cancelled, "{text}");
    assert_eq!(status, 130);
    until(&|| !is_under_way(&script));
}

/// Whether a process runs that was given these words.
fn is_under_way(words: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines = processes.filter_map(|process| std::fs::read(process.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).next() != Some(b"script")).any(|line| {
        // The program itself and its terminal are given them, too.
        let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        arguments.contains(&words.as_bytes()) && !arguments.contains(&b"--kind".as_slice())
    })
}

#[tokio::test]
async fn a_command_ended_by_a_signal_gives_the_exit_status_of_shells() {
    let scene = Scene::new();
    let server = scene.server();
    for (line, status) in [("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 3", 1), ("true", 0)] {
        let printed = CommandOutput::of(&mut scene.run(&server, &["--kind", "shell", "--", line]));
        assert_eq!(printed.status, status, "{line}: {printed:?}");
        assert_eq!(printed.data.contains("by SIG"), status > 128, "{printed:?}");
    }
}

#[tokio::test]
async fn a_budget_is_held_or_refused_and_never_passed_over() {
    let scene = Scene::new();
    let server = scene.server();
    let printed = CommandOutput::of(&mut scene.run(&server, &["--budget-tokens", "500", "say hello"]));
    assert!(printed.status == 1 && printed.data.contains("budget_exceeded"), "{printed:?}");
    let printed = CommandOutput::of(&mut scene.run(&server, &["--budget", "0.001", "say hello"]));
    assert!(printed.status == 1 && printed.data.contains("budget_exceeded"), "{printed:?}");
    let printed = CommandOutput::of(&mut scene.run(&server, &["--budget-turns", "1", "edit it"]));
    assert!(printed.status == 1 && printed.data.contains("budget_exceeded"), "{printed:?}");
    let config = std::fs::read_to_string(scene.path("config.toml")).unwrap();
    std::fs::write(scene.path("config.toml"), config.replace("here/*", "there/*")).unwrap();
    drop(server);
    let server = scene.server();
    let printed = CommandOutput::of(&mut scene.run(&server, &["--budget", "1", "say hello"]));
    assert!(printed.status == 1 && printed.words.contains("budget_tokens"), "{printed:?}");
    let printed =
        CommandOutput::of(&mut scene.run(&server, &["--budget", "1", "--budget-turns", "2", "say hello"]));
    assert_eq!(printed.status, 0, "{printed:?}");
}

#[tokio::test]
async fn without_a_server_what_a_run_changed_is_brought_back_too() {
    the_usual_address_is_free();
    let scene = Scene::new();
    let ask = |words: &[&str]| {
        let mut command = recount();
        CommandOutput::of(command.args(words).current_dir(scene.work()).envs(scene.alone()))
    };
    let printed = ask(&["run", "edit it"]);
    let line = printed.words.lines().find(|line| line.contains("recount apply run_")).expect("it says how");
    assert!(!line.contains("--url"), "the server that it was is gone: {line}");
    let (_, rest) = line.split_once("recount apply ").unwrap();
    let run = rest.split(' ').next().unwrap();
    ask(&["apply", run]).good();
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "two\n");
}

/// Runs a verb with words of its own at a server.
fn at(server: &Server, scene: &Scene, arguments: &[&str]) -> Command {
    let mut command = recount();
    command.args(["--url", &server.url()]).args(arguments).current_dir(scene.work());
    command
}

#[tokio::test]
async fn what_a_run_changed_in_its_copy_is_brought_back_by_one_command() {
    let scene = Scene::new();
    let server = scene.server();
    let mut followed = scene.run(&server, &["edit it"]);
    let output = followed.output().unwrap();
    let run = newest(&server).await.id;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&format!("recount apply {run} --url")), "{stderr}");
    let shown = at(&server, &scene, &["show", &run]).output().unwrap();
    assert!(String::from_utf8(shown.stderr).unwrap().contains(&format!("recount apply {run}")));

    let file = scene.work().join("a.txt");
    let dry = CommandOutput::of(&mut at(&server, &scene, &["apply", &run, "--dry-run"])).good();
    assert_eq!(dry, "changed a.txt\n");
    let diff = CommandOutput::of(&mut at(&server, &scene, &["apply", &run, "--diff"])).good();
    assert!(diff.contains("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"), "{diff}");
    std::fs::write(&file, "mine\n").unwrap();
    let refused = CommandOutput::of(&mut at(&server, &scene, &["apply", &run]));
    assert_eq!(refused.status, 1, "{refused:?}");
    for part in ["conflict in a.txt", "<<<<<<< ours", "    mine", "    two", "--conflicts mark"] {
        assert!(refused.words.contains(part), "{part}: {refused:?}");
    }
    CommandOutput::of(&mut at(&server, &scene, &["apply", &run, "--dry-run"])).bad(1, "conflict");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
    std::fs::write(&file, "one\n").unwrap();
    CommandOutput::of(&mut at(&server, &scene, &["apply", &run])).good();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    let again = CommandOutput::of(&mut at(&server, &scene, &["apply", &run])).good();
    assert!(!again.contains("conflict"), "{again}");
    CommandOutput::of(&mut at(&server, &scene, &["apply", "run_01JXMZ00000000000000000000"]))
        .bad(1, "run_not_found");
}
