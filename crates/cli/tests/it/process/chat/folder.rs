//! `recount chat` in a folder: the agent works on a copy of it, in every turn on the same one, and what it changed is
//! brought back by the command that the chat names.

use std::path::Path;
use std::process::Command;

use super::{agent, around, piped};
use crate::process::scene::Scene;
use crate::server::{CommandOutput, Server, recount, the_usual_address_is_free};

const SCRIPT: &str = r#"
end = "Nothing more."

[[scene]]
when = "edit it"
[[scene.turn]]
call = [{ name = "edit_file", input = { path = "a.txt", old_text = "one", new_text = "two" } }]
[[scene.turn]]
text = "Edited."

[[scene]]
when = "once more"
[[scene.turn]]
call = [{ name = "edit_file", input = { path = "a.txt", old_text = "two", new_text = "three" } }]
[[scene.turn]]
text = "Edited again."
"#;

/// Which server a verb asks: one that runs, or none, so that the program is one itself.
struct At<'a> {
    scene: &'a Scene,
    server: Option<&'a Server>,
}

impl At<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = recount();
        command.args(arguments).current_dir(self.scene.work());
        match self.server {
            Some(server) => command.args(["--url", &server.url()]),
            None => command.envs(self.scene.alone()),
        };
        command
    }

    fn ask(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(&mut self.command(arguments))
    }

    fn file(&self) -> String {
        std::fs::read_to_string(self.scene.work().join("a.txt")).unwrap()
    }
}

pub(super) fn session(answer: &CommandOutput) -> String {
    let line = answer.words.lines().find(|line| line.starts_with("session ")).unwrap();
    line.split(' ').nth(1).unwrap().to_owned()
}

/// The run in the note about changes that can be applied.
#[track_caller]
pub(super) fn run_to_apply(answer: &CommandOutput) -> String {
    let (_, rest) = answer.words.split_once("recount apply ").unwrap_or_else(|| panic!("{answer:?}"));
    rest.split_whitespace().next().unwrap().to_owned()
}

#[track_caller]
fn check_turns_share_a_copy(at: &At<'_>) {
    let work = at.scene.work().canonicalize().unwrap();
    let first = at.ask(&["chat", "--yes", "--message", "edit it"]);
    assert_eq!(first.status, 0, "{first:?}");
    assert!(first.words.contains(&format!("works on a copy of {}\n", work.display())), "{first:?}");
    assert!(first.words.contains("1 path changed in the copy "), "{first:?}");
    assert!(
        first.words.contains("\n    recount apply run_"),
        "a command to copy has its own line: {first:?}"
    );
    assert_eq!(at.file(), "one\n", "the folder itself stays as it is");

    let second = at.ask(&["chat", "--yes", "--session", &session(&first), "--message", "once more"]);
    assert_eq!(second.status, 0, "{second:?}");
    let run = run_to_apply(&second);
    assert_ne!(run, run_to_apply(&first));
    let reaches = second.words.contains(&format!("recount apply {run} --url "));
    assert_eq!(reaches, at.server.is_some(), "{second:?}");
    at.ask(&["apply", &run]).good();
    assert_eq!(at.file(), "three\n");

    // Two messages of one chat; applied changes are not reported again.
    std::fs::write(at.scene.work().join("a.txt"), "one\n").unwrap();
    let both = piped(at.command(&["chat", "--yes"]), "edit it\nonce more\n");
    at.ask(&["apply", &run_to_apply(&both)]).good();
    assert_eq!(at.file(), "three\n");
}

#[test]
fn every_turn_of_a_chat_works_on_one_copy_of_the_current_folder() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    check_turns_share_a_copy(&At { scene: &scene, server: Some(&server) });
}

#[test]
fn without_a_server_the_chat_is_one_itself() {
    the_usual_address_is_free();
    let scene = Scene::playing(SCRIPT);
    let at = At { scene: &scene, server: None };
    let answer = at.ask(&["chat", "--no-workspace", "--message", "hello"]);
    assert!(answer.words.contains("no server at http://127.0.0.1:8765; started one"), "{answer:?}");
    check_turns_share_a_copy(&at);
}

#[test]
fn the_folder_can_be_another_one_or_worked_on_itself_or_none() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    let at = At { scene: &scene, server: Some(&server) };
    let none = at.ask(&["chat", "--yes", "--no-workspace", "--message", "edit it"]);
    assert!(!none.words.contains("works ") && !none.words.contains("recount apply"), "{none:?}");
    assert_eq!(at.file(), "one\n");
    let itself = at.ask(&["chat", "--yes", "--workspace-mode", "in_place", "--message", "edit it"]);
    assert!(itself.words.contains(" itself\n") && !itself.words.contains("recount apply"), "{itself:?}");
    assert_eq!(at.file(), "two\n");

    // Without a folder flag, a chat continues without the folder that the server rejects, and reports it.
    let elsewhere =
        |arguments: &[&str]| CommandOutput::of(at.command(arguments).current_dir(Path::new("/usr")));
    let other = elsewhere(&["chat", "--message", "hello"]);
    assert!(other.words.contains("works in an empty folder: the workspace \"/usr\" is outside"), "{other:?}");
    assert_eq!(other.status, 0, "{other:?}");
    elsewhere(&["chat", "--workspace", ".", "--message", "hello"]).bad(1, "workspace_refused");
    let work = at.scene.work();
    let named = elsewhere(&["chat", "--workspace", work.to_str().unwrap(), "--message", "hello"]);
    assert!(named.words.contains("works on a copy of "), "{named:?}");
    at.ask(&["chat", "--workspace", "/nonexistent", "--message", "hello"]).bad(2, "/nonexistent");
    let session = session(&named);
    at.ask(&["chat", "--session", &session, "--workspace", "."]).bad(2, "cannot be used with");
}

#[test]
fn a_server_of_another_make_is_sent_no_folder() {
    let server = super::Foreign::start(|request| match request.path.as_str() {
        "/sessions/s-1/turns" => Some(super::reply_with("Hello.")),
        _ => around(request, &agent()),
    });
    super::run_chat(&server, &["--message", "hello"]).good();
    let sent = server.requests().into_iter().find(|request| request.path == "/sessions").unwrap();
    assert_eq!(sent.body.get("workspace"), None);
    super::run_chat(&server, &["--message", "hello", "--workspace", "."]).bad(2, "omit --workspace");
}
