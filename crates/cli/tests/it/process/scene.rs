//! Folders with a configuration, a policy and a script for the model, and what tests of servers with a scripted model do
//! with them.

use std::path::Path;
use std::process::Command;

use recount_client::{Client, Listing};
use serde_json::Value;

use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, Server, recount};

/// A model that plays `script.toml`.
pub(crate) const MODEL: &str = r#"
[models]
default = "here/script"
[models.providers.here]
kind = "scripted"
script = "script.toml"
"#;

pub(crate) const PRICES: &str = r#"
[[models.prices]]
model = "here/*"
input_micros_usd = 1_000_000
output_micros_usd = 2_000_000
"#;

/// Commands run without a sandbox in these tests, so that they are the same on every machine.
pub(crate) const NO_SANDBOX: &str = r#"
[sandbox]
mode = "off"
[policy]
file = "policy.toml"
"#;

pub(crate) const ALLOW_ALL: &str = r#"
[[rules]]
id = "tests"
tool = "*"
action = "allow"
"#;

pub(crate) const ASK_ALL: &str = r#"
[[rules]]
id = "tests"
tool = "*"
action = "ask"
"#;

/// The response of the model when no scene matches.
const END: &str = "end = \"Nothing more.\"\n";

pub(crate) const HELLO: &str = r#"
[[scene]]
when = "say hello"
[[scene.turn]]
text = "Hello there, dear old friend."
usage = { input_tokens = 1000, output_tokens = 10 }
"#;

pub(crate) const SLOW: &str = r#"
[[scene]]
when = "slow"
[[scene.turn]]
text = "One two three four five six seven eight nine ten eleven twelve."
pace = { words = 1, tokens_per_second = 0.5 }
"#;

const CLEAR_UP: &str = r#"
[[scene]]
when = "clear up"
[[scene.turn]]
text = "I clear up."
call = [{ name = "shell_exec", input = { command = "rm -r old" } }]
[[scene.turn]]
text = "That was it."
"#;

pub(crate) const WHICH_ONE: &str = r#"
[[scene]]
when = "which one"
[[scene.turn]]
call = [{ name = "ask_user", input = { question = "Which colour?", choices = ["red", "green"] } }]
[[scene.turn]]
when = "green"
text = "Green it is."
[[scene.turn]]
text = "Something else, then."
"#;

const EDIT: &str = r#"
[[scene]]
when = "edit it"
[[scene.turn]]
call = [
    { name = "todo_write", input = { todos = [{ content = "Edit it", status = "in_progress" }] } },
    { name = "edit_file", input = { path = "a.txt", old_text = "one", new_text = "two" } },
]
[[scene.turn]]
text = "Edited."
"#;

fn usual_config() -> String {
    [MODEL, PRICES, NO_SANDBOX].concat()
}

/// A data folder, a configuration and a folder to work in.
pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
}

impl Scene {
    /// With the usual script, where every call is allowed that is not grave, and with a folder to work in.
    pub(crate) fn new() -> Self {
        let scene = Scene::of(&usual_config(), ALLOW_ALL, &[HELLO, SLOW, CLEAR_UP, WHICH_ONE, EDIT].concat());
        std::fs::create_dir_all(scene.work().join("old")).unwrap();
        for (name, text) in [("old/x", "x"), ("a.txt", "one\n"), ("picture.png", "\u{1}\u{2}")] {
            std::fs::write(scene.work().join(name), text).unwrap();
        }
        // Where the program looks for its configuration by itself.
        std::fs::create_dir(scene.path("recount")).unwrap();
        for name in ["config.toml", "policy.toml", "script.toml"] {
            std::fs::copy(scene.path(name), scene.path("recount").join(name)).unwrap();
        }
        scene
    }

    /// With these three files and nothing else. [`END`] is added to the script.
    pub(crate) fn of(config: &str, policy: &str, scenes: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("{END}{scenes}");
        for (name, text) in [("config.toml", config), ("policy.toml", policy), ("script.toml", &script)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Scene { folder }
    }

    /// The same with another script.
    pub(crate) fn playing(script: &str) -> Self {
        Scene::new().plays(script)
    }

    pub(crate) fn plays(self, script: &str) -> Self {
        for path in [self.path("script.toml"), self.path("recount/script.toml")] {
            std::fs::write(path, script).unwrap();
        }
        self
    }

    /// The same with more in its configuration.
    pub(crate) fn with(self, more: &str) -> Self {
        for path in [self.path("config.toml"), self.path("recount/config.toml")] {
            std::fs::write(path, format!("{}{more}", usual_config())).unwrap();
        }
        self
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// The same with another policy.
    pub(crate) fn under(policy: &str) -> Self {
        let scene = Scene::new();
        for path in [scene.path("policy.toml"), scene.path("recount/policy.toml")] {
            std::fs::write(path, policy).unwrap();
        }
        scene
    }

    pub(crate) fn work(&self) -> std::path::PathBuf {
        self.path("work")
    }

    /// The environment of a program that finds no server.
    pub(crate) fn alone(&self) -> [(String, String); 2] {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        [
            ("XDG_CONFIG_HOME".to_owned(), text(self.folder.path())),
            ("RECOUNT_DATA".to_owned(), text(&self.path("data"))),
        ]
    }

    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.path("data")
    }

    /// `recount serve` on the data folder with the configuration.
    pub(crate) fn command(&self, bind: &str, more: &[&str]) -> Command {
        let mut command = recount();
        command.args(["serve", "--bind", bind, "--data"]).arg(self.data());
        command.arg("--config").arg(self.path("config.toml")).args(more);
        command
    }

    pub(crate) fn server(&self) -> Server {
        let mut command = self.command("127.0.0.1:0", &["--log", "warn", "--allow-workspace"]);
        Server::of(command.arg(self.work())).listening()
    }

    pub(crate) fn run(&self, server: &Server, arguments: &[&str]) -> Command {
        let mut command = recount();
        command.args(["--url", &server.url(), "run"]).args(arguments).current_dir(self.work());
        command
    }

    /// A verb in the folder to work in.
    pub(crate) fn ask(&self, server: &Server, words: &[&str]) -> CommandOutput {
        let mut command = recount();
        command.args(["--url", &server.url()]).args(words).current_dir(self.work());
        CommandOutput::of(&mut command)
    }

    pub(crate) fn at_terminal(&self, server: &Server, arguments: &[&str]) -> Terminal {
        let url = server.url();
        let arguments: Vec<&str> =
            ["--url", &url, "run"].into_iter().chain(arguments.iter().copied()).collect();
        Terminal::start(&self.work(), &arguments, &[])
    }
}

pub(crate) fn client(server: &Server) -> Client {
    Client::new(&server.url(), None).unwrap()
}

pub(crate) async fn newest(server: &Server) -> recount_client::reply::Run {
    client(server).list_runs(&Listing::default()).await.unwrap().data.remove(0)
}

/// The events of a type.
pub(crate) fn all<'a>(events: &'a [Value], type_name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == type_name).collect()
}
