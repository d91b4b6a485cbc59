//! `recount chat` without a server, where an earlier chat left a turn that waits for a person.

use std::process::Command;

use super::folder::{run_to_apply, session};
use crate::process::scene::Scene;
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, RunningCommand, recount, the_usual_address_is_free};

const SCRIPT: &str = r#"
end = "Nothing more."

[[scene]]
when = "edit it"
[[scene.turn]]
call = [{ name = "edit_file", input = { path = "a.txt", old_text = "one", new_text = "two" } }]
[[scene.turn]]
text = "Edited."

[[scene]]
when = "slow"
[[scene.turn]]
text = "One two three."
pace = { words = 1, tokens_per_second = 0.001 }
"#;

fn chat(scene: &Scene, arguments: &[&str]) -> Command {
    let mut command = recount();
    command.arg("chat").args(arguments).current_dir(scene.work()).envs(scene.alone());
    command
}

fn run_chat(scene: &Scene, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(&mut chat(scene, arguments))
}

/// A session that was left at a question.
fn leave_at_a_question(scene: &Scene) -> String {
    let variables = scene.alone();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut terminal = Terminal::start(&scene.work(), &["chat", "--trust", ""], &variables);
    terminal.wait_for("session ");
    let session = terminal.wait_for(" with ").trim_end_matches(" with ").to_owned();
    terminal.wait_for("you: ");
    terminal.press("edit it\n");
    let prompt = terminal.wait_for("d for details: ");
    assert!(prompt.contains("Permission requested: ") && prompt.contains("-one\n        +two"), "{prompt}");
    terminal.press("/quit\n");
    assert_eq!(terminal.end().1, 0);
    session
}

#[test]
fn a_turn_that_waits_in_a_session_neither_blocks_other_chats_nor_is_cancelled_by_them() {
    the_usual_address_is_free();
    let scene = Scene::playing(SCRIPT);
    let waits = leave_at_a_question(&scene);
    let other = run_chat(&scene, &["--message", "hello"]);
    assert_eq!(other.status, 0, "{other:?}");
    assert_ne!(session(&other), waits);

    // A chat that is killed while its model speaks is what --unfinished is about.
    let killed = RunningCommand::of(&mut chat(&scene, &["--json", "--message", "slow"]));
    while !killed.line().contains("text_delta") {}
    drop(killed);
    run_chat(&scene, &["--message", "hello"]).bad(1, "1 run of a previous process is unfinished");

    let back =
        run_chat(&scene, &["--session", &waits, "--unfinished", "abandon", "--yes", "--message", "thanks"]);
    assert_eq!(back.status, 0, "{back:?}");
    assert_eq!(back.words.matches("unfinished run: ").count(), 1, "{back:?}");
    assert!(back.data.contains("Edited."), "the turn that waited is gone on with: {back:?}");
    assert!(!run_to_apply(&back).is_empty());
    let again = run_chat(&scene, &["--message", "hello"]);
    assert!(again.status == 0 && !again.words.contains("unfinished run"), "{again:?}");
}
