//! "Always allow this" at the command line: given, seen at work, listed, taken back; and what is shown before a yes.

use crate::process::scene::{ASK_ALL, Scene};
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, RunningCommand, recount};

const ECHO: &[&str] = &["--kind", "shell", "--", "echo hi there"];

#[test]
fn what_is_allowed_always_is_listed_and_taken_back() {
    let scene = Scene::under(ASK_ALL);
    let server = scene.server();
    let mut terminal = scene.at_terminal(&server, ECHO);
    let prompt = terminal.wait_for("d for details:\n");
    assert!(prompt.contains("a to always allow in this run"), "{prompt}");
    terminal.press("a ever\n");
    terminal.wait_for("nothing was decided.");
    terminal.press("a workspace\n");
    terminal.wait_for("approved by operator, always in this workspace (allow_");
    assert_eq!(terminal.end().1, 0);

    // No person is present, and none is needed.
    let output = CommandOutput::of(&mut scene.run(&server, ECHO)).good();
    assert!(output.contains("(always allowed in this workspace by operator)"), "{output}");

    let listed = server.ask(&["policy", "ls"]).good();
    let folder = scene.work().canonicalize().unwrap();
    let words =
        format!(" always in the folder {}: shell_exec echo hi there (by operator, ", folder.display());
    assert!(listed.starts_with("allow_") && listed.contains(&words), "{listed}");
    assert_eq!(listed.lines().count(), 1);
    assert_eq!(server.ask(&["policy", "ls", "--scope", "run"]).good(), "");
    let as_json: serde_json::Value =
        serde_json::from_str(&server.ask(&["policy", "ls", "--json"]).good()).unwrap();
    let id = as_json["id"].as_str().unwrap();
    assert_eq!(as_json["preview"], "echo hi there");
    assert_eq!(server.ask(&["policy", "forget", id]).good(), format!("{id} revoked\n"));
    server.ask(&["policy", "forget", id]).bad(1, "allowance_not_found");

    let mut terminal = scene.at_terminal(&server, ECHO);
    terminal.wait_for("d for details:\n");
    terminal.press("n\n");
    terminal.end();
}

#[test]
fn all_of_it_is_shown_before_it_is_approved() {
    let scene = Scene::under(ASK_ALL);
    let server = scene.server();
    let asking = || {
        let following = RunningCommand::of(&mut scene.run(&server, ECHO));
        let id = loop {
            if let Some(rest) = following.line().strip_prefix("To answer: recount approve ") {
                break rest.split(' ').next().unwrap().to_owned();
            }
        };
        (following, id)
    };
    // In a terminal nothing but a yes is a yes.
    let (following, id) = asking();
    let url = server.url();
    let at_terminal = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["--url", &url].iter().chain(arguments).copied().collect();
        Terminal::start(&scene.work(), &arguments, &[])
    };
    let mut terminal = at_terminal(&["approve", &id]);
    let shown = terminal.wait_for("anything else leaves it open: ");
    for words in ["    approval: appr_", "    complete command:", "        echo hi there"] {
        assert!(shown.contains(words), "{words:?} is not in {shown}");
    }
    terminal.press("what\n");
    assert_eq!(terminal.end().1, 1);
    let mut terminal = at_terminal(&["approve", &id, "--always", "run"]);
    terminal.wait_for("Allow it, always in this run?");
    terminal.press("y\n");
    let (output, status) = terminal.end();
    assert!(status == 0 && output.contains(" approved, always in this run (allow_"), "{status} {output}");
    assert_eq!(following.end().1, 0);

    // Elsewhere it is shown all the same, beside the data.
    let (following, id) = asking();
    for verb in ["approve", "deny"] {
        let refused = server.ask(&[verb, &id]);
        assert!(refused.words.contains("echo hi there"), "{refused:?}");
        refused.bad(2, "--yes");
    }
    let mut piped = recount();
    piped.args(["--url", &url, "approve", &id]).stdin(std::process::Stdio::piped());
    CommandOutput::of(&mut piped).bad(2, "--yes");
    let answer = server.ask(&["approve", &id[id.len() - 6..], "--yes"]);
    assert_eq!((answer.status, answer.data.as_str()), (0, format!("{id} approved\n").as_str()), "{answer:?}");
    assert!(answer.words.contains("echo hi there"), "{answer:?}");
    assert_eq!(following.end().1, 0);
}

/// A command is shown to its end before it can be approved, in `run` and in `approve`, whatever it puts between.
#[test]
fn a_command_cannot_hide_its_end() {
    let scene = Scene::under(ASK_ALL);
    let server = scene.server();
    let url = server.url();
    let screen = [("COLUMNS", "80"), ("LINES", "24")];
    for (command, shown) in [
        (format!("echo a{}; echo end", " ".repeat(6_000)), "echo a[6000 blanks]; echo end"),
        (format!("echo a{}echo end", "\n".repeat(90)), "[89 empty lines]\n        echo end"),
        ("echo a \u{200b}\u{2800}; echo end".to_owned(), "echo a \\u{200b}\\u{2800}; echo end"),
    ] {
        let arguments = ["--url", &url, "run", "--kind", "shell", "--", &command];
        let mut terminal = Terminal::start(&scene.work(), &arguments, &screen);
        let prompt = terminal.wait_for("details:\n");
        assert!(prompt.contains(shown) && prompt.contains("risk: "), "{prompt}");
        terminal.press("n\n");
        terminal.end();
    }
    let long = format!("echo '{}'; echo end", "x\n".repeat(120));
    let arguments = ["--url", &url, "run", "--kind", "shell", "--", &long];
    let mut terminal = Terminal::start(&scene.work(), &arguments, &screen);
    let first = terminal.wait_for("Type m for the next page");
    terminal.wait_for("details:\n");
    assert!(first.contains("more lines: type m") && !first.contains("echo end"), "{first}");
    terminal.press("y\n");
    terminal.wait_for("Not all of the call was shown.");
    let mut elsewhere = Terminal::start(&scene.work(), &["--url", &url, "approve", "last"], &screen);
    elsewhere.wait_for("Type m for the next page; anything else leaves it open: ");
    elsewhere.press("y\n");
    assert_eq!(elsewhere.end().1, 1);
    let mut pages = String::new();
    while !pages.contains("echo end") {
        terminal.press("m\n");
        pages = terminal.wait_for("details:\n");
    }
    assert!(pages.contains("risk: ") && pages.contains("Type y to allow"), "{pages}");
    terminal.press("y\n");
    assert_eq!(terminal.end().1, 0);
}
