//! `recount connect`: real settings files in homes of their own, changed and restored.

mod telemetry;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{CommandOutput, Server, recount};

/// An address at which nothing listens.
const URL: &str = "http://127.0.0.1:9";

/// Of Claude Code.
const SETTINGS: &str = ".claude/settings.json";

/// A home folder with an agent's settings.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    fn with(path: &str, content: &str) -> Self {
        let home = Home::new();
        home.write(path, content);
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = recount();
        command.arg("connect").args(arguments).env("RECOUNT_URL", URL).env("HOME", self.folder.path());
        for variable in
            ["XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "RECOUNT_TOKEN"]
        {
            command.env_remove(variable);
        }
        for (variable, _) in std::env::vars() {
            if variable.starts_with("OTEL_") || variable.starts_with("CLAUDE_") {
                command.env_remove(variable);
            }
        }
        command
    }

    fn connect(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(&mut self.command(arguments))
    }

    /// All files with their content, but for the folder of our own state.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.symlink_metadata().unwrap() {
                    found if found.is_dir() && !path.ends_with(".local") => folders.push(path),
                    found if found.is_file() => files.push((path.clone(), fs::read(path).unwrap())),
                    _ => {}
                }
            }
        }
        files.sort();
        files
    }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Connects, connects again, looks, and removes: the file is as it was, to the byte.
#[track_caller]
fn round(agent: &str, path: &str, content: &str) {
    round_with(agent, &[], path, content);
}

#[track_caller]
fn round_with(agent: &str, options: &[&str], path: &str, content: &str) {
    let home = Home::with(path, content);
    let with = |more: &'static str| [&[agent], options, &[more][usize::from(more.is_empty())..]].concat();
    let before = home.files();

    let dry = home.connect(&with("--dry-run")).good();
    assert!(dry.contains("+++ ") && dry.contains("would be recorded"), "{dry}");
    assert_eq!(home.files(), before);
    home.connect(&[agent, "--status"]).bad(1, "");

    let done = home.connect(&with("")).good();
    assert!(
        done.contains("\n+") && done.contains(&format!("{agent} is recorded; copy of the previous file: "))
    );
    let after = home.read(path);
    assert_ne!(after, content);
    let copy = done.trim_end().rsplit("previous file: ").next().unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap(), content);

    let again = home.connect(&with("")).good();
    assert!(again.contains("nothing to change"), "{again}");
    assert_eq!(home.read(path), after);
    let status = home.connect(&[agent, "--status"]).good();
    assert!(status.contains(&format!("{agent} is recorded: ")), "{status}");
    assert!(status.contains(&format!("server {URL} does not respond")), "{status}");

    let removed = home.connect(&[agent, "--remove"]).good();
    assert!(removed.contains("is no longer recorded"), "{removed}");
    assert_eq!(home.files(), before);
    assert!(!Path::new(copy).exists());
    let nothing = home.connect(&[agent, "--remove"]).good();
    assert!(nothing.contains("nothing to change"), "{nothing}");
}

#[test]
fn settings_in_json_come_back_to_the_byte() {
    for content in [
        "{}",
        "{}\n",
        "{ \"model\": \"opus\" }",
        "\u{feff}{ \"model\": \"opus\" }\r\n",
        "{\r\n\t\"model\": \"opus\",\r\n\t\"env\": {\"A\": \"{\\\"b\\\": 1}\"}\r\n}\r\n",
        "{\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n        ]\n    },\n    \"permissions\": {\"allow\": []}\n}\n",
    ] {
        round("claude", ".claude/settings.json", content);
    }
    round(
        "gemini",
        ".gemini/settings.json",
        "{\n  // one that the agent allows\n  \"ui\": {\"theme\": \"x\"} /* last */\n}\n",
    );
    round("codex", ".codex/hooks.json", "{\"hooks\": {\"Stop\": []}}\n");
}

#[test]
fn settings_in_toml_keep_their_comments_and_come_back_to_the_byte() {
    let content = "# mine\nmodel = \"x\" # the best\n\n[[hooks.Stop]]\n# says it\n[[hooks.Stop.hooks]]\ntype = \
                   \"command\"\ncommand = \"say done\"\n\n[tui] # last\nnotifications = true\n";
    round("codex", ".codex/config.toml", content);
    let home = Home::with(".codex/config.toml", content);
    home.connect(&["codex"]).good();
    let after = home.read(".codex/config.toml");
    for line in content.lines() {
        assert!(after.contains(line), "{line} is missing in {after}");
    }
    assert!(!home.path(".codex/hooks.json").exists());
}

#[test]
fn without_hooks_in_the_toml_codex_gets_a_file_of_its_own() {
    let config = "# mine\n[features]\nhooks = false\n";
    let home = Home::with(".codex/config.toml", config);
    let answer = home.connect(&["codex"]);
    assert!(answer.words.contains("features.hooks in config.toml disables all hooks"), "{answer:?}");
    assert!(answer.words.contains("/hooks in Codex"), "{answer:?}");
    assert_eq!(home.read(".codex/config.toml"), config);
    let hooks = json_of(&home.read(".codex/hooks.json"));
    let start = &hooks["hooks"]["SessionStart"][0]["hooks"][0];
    let command = start["command"].as_str().unwrap();
    assert!(command.ends_with(&format!("/recount hook codex SessionStart --url {URL}")), "{command}");
    home.connect(&["codex", "--remove"]).good();
    assert_eq!(home.files(), [(home.path(".codex/config.toml"), config.as_bytes().to_vec())]);
}

#[test]
fn files_and_folders_that_were_made_are_removed() {
    let home = Home::new();
    home.connect(&["claude"]).good();
    assert_eq!(home.path(".claude/settings.json").metadata().unwrap().mode() & 0o777, 0o600);
    home.connect(&["claude", "--remove"]).good();
    assert!(!home.path(".claude").exists());

    home.connect(&["gemini"]).good();
    home.write(".gemini/oauth.json", "{}");
    home.connect(&["gemini", "--remove"]).good();
    assert_eq!(home.files(), [(home.path(".gemini/oauth.json"), b"{}".to_vec())]);
}

#[test]
fn what_a_person_changed_meanwhile_stays() {
    let home = Home::with(".claude/settings.json", "{\n  \"model\": \"opus\"\n}\n");
    home.connect(&["claude"]).good();
    let after = home.read(".claude/settings.json");
    let changed = after.replacen("\"model\": \"opus\"", "\"model\": \"haiku\",\n  \"verbose\": true", 1);
    home.write(".claude/settings.json", &changed);
    // Hooks for another server replace the first, and the copy is the file without them.
    let other = CommandOutput::of(
        recount().args(["connect", "claude", "--url", "http://127.0.0.1:10"]).env("HOME", home.folder.path()),
    );
    other.good();
    assert!(!home.read(".claude/settings.json").contains(URL));
    home.connect(&["claude", "--remove"]).good();
    assert_eq!(home.read(".claude/settings.json"), "{\n  \"model\": \"haiku\",\n  \"verbose\": true\n}\n");
}

#[test]
fn claude_posts_by_itself_or_runs_commands() {
    let home = Home::new();
    home.connect(&["claude", "--ask", "--wait", "60"]).good();
    let hooks = json_of(&home.read(".claude/settings.json"))["hooks"].clone();
    assert_eq!(
        hooks["PermissionRequest"][0]["hooks"][0],
        json!({
            "type": "http",
            "url": format!("{URL}/hooks/claude/PermissionRequest?ask=1&wait_seconds=60"),
            "timeout": 70,
            "onFailure": "continue",
        })
    );
    // It runs only commands at the start of a session.
    assert_eq!(hooks["SessionStart"][0]["hooks"][0]["type"], "command");
    assert_eq!(hooks["Stop"][0]["hooks"][0]["url"], format!("{URL}/hooks/claude/Stop"));
    let status = json_of(&home.connect(&["claude", "--status", "--json"]).good());
    assert_eq!((&status["connected"], &status["asks"]), (&json!(true), &json!(true)));

    home.connect(&["claude", "--command"]).good();
    let text = home.read(".claude/settings.json");
    assert!(!text.contains("\"http\"") && text.contains("hook claude Stop"), "{text}");
}

#[test]
fn no_token_is_written_into_settings() {
    let home = Home::new();
    let secret = "rct_a-secret-of-a-test";
    home.connect(&["claude", "--token", secret]).bad(2, "--token-file");
    assert!(home.files().is_empty());

    CommandOutput::of(home.command(&["claude"]).env("RECOUNT_TOKEN", secret)).good();
    let text = home.read(".claude/settings.json");
    assert!(text.contains("Bearer $RECOUNT_TOKEN") && !text.contains(secret), "{text}");

    home.write("token", secret);
    let file = home.path("token").display().to_string();
    home.connect(&["claude", "--token-file", &file]).good();
    let text = home.read(".claude/settings.json");
    assert!(text.contains(&format!("--token-file {file}")) && !text.contains(secret), "{text}");
    home.connect(&["codex", "--token-file", "/missing/token"]).bad(2, "/missing/token");
    home.connect(&["codex", "--token-file", "/dev/null"]).bad(2, "/dev/null: the file has no token");
    home.connect(&["gemini", "--ask"]).bad(2, "no hook that answers permission requests");
    CommandOutput::of(
        recount().args(["connect", "codex", "--url", "nonsense"]).env("HOME", home.folder.path()),
    )
    .bad(2, "nonsense");
}

#[test]
fn the_agents_own_variables_name_the_folder() {
    for (agent, variable, path) in [
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
    ] {
        let (home, elsewhere) = (Home::new(), Home::new());
        CommandOutput::of(home.command(&[agent]).env(variable, elsewhere.folder.path())).good();
        assert!(elsewhere.path(path).exists() && home.files().is_empty(), "{agent}");
    }
}

#[test]
fn folders_of_one_relative_name_have_copies_of_their_own() {
    let home = Home::new();
    let run = |folder: &str, arguments: &[&str]| {
        let mut command = home.command(arguments);
        CommandOutput::of(command.current_dir(home.path(folder)).env("CLAUDE_CONFIG_DIR", "settings")).good()
    };
    let contents = [("one", "{\"a\": 1}"), ("two", "{\"a\": 1 }")];
    for (folder, content) in contents {
        home.write(&format!("{folder}/settings/settings.json"), content);
        run(folder, &["claude"]);
    }
    for (folder, content) in contents {
        run(folder, &["claude", "--remove"]);
        assert_eq!(home.read(&format!("{folder}/settings/settings.json")), content);
    }
}

#[test]
fn a_slash_after_the_address_makes_no_other_server() {
    let home = Home::new();
    home.connect(&["claude", "--url", "http://127.0.0.1:9/"]).good();
    let status = home.connect(&["claude", "--status", "--json"]).good();
    assert_eq!(status.lines().count(), 1, "{status}");
    assert_eq!(json_of(&status)["server"], URL);
    assert!(home.connect(&["claude"]).good().contains("nothing to change"));
}

#[test]
fn connect_notes_what_keeps_the_agent_from_being_recorded() {
    let home = Home::with(SETTINGS, "{\"disableAllHooks\": true}");
    let new = home.connect(&["claude"]);
    for words in [
        "disableAllHooks disables all hooks; nothing is recorded until it is changed\n",
        "sessions that are open now are not recorded\n",
        &format!("no server responds at {URL}; start one with recount serve\n"),
    ] {
        assert!(new.words.contains(words), "{new:?}");
    }
    let changed = home.connect(&["claude", "--command", "--telemetry"]);
    assert!(changed.words.contains("disables all hooks; only telemetry is recorded until"), "{changed:?}");
    assert!(!changed.words.contains("open now"), "{changed:?}");
    let same = home.connect(&["claude", "--command", "--telemetry"]);
    assert!(!same.words.contains("no server responds"), "{same:?}");
    assert!(home.connect(&["claude", "--status"]).good().contains("disableAllHooks disables all hooks\n"));
    let status = json_of(&home.connect(&["claude", "--status", "--json"]).good());
    assert_eq!(status["disabled_by"], "disableAllHooks");
}

/// A server that requires a token, and a token that may record.
fn server_with_tokens(data: &Path) -> (Server, String) {
    let add = ["token", "add", "agents", "--scope", "ingest", "--data"];
    let token = CommandOutput::of(recount().args(add).arg(data)).good();
    let mut serve = recount();
    serve.args(["serve", "--bind", "127.0.0.1:0", "--require-token", "--log", "warn", "--data"]);
    (Server::of(serve.arg(data)).listening(), token)
}

#[test]
fn connect_notes_a_server_that_rejects_the_token() {
    let data = tempfile::tempdir().unwrap();
    let (server, token) = server_with_tokens(data.path());
    let home = Home::with("token", &token);
    home.write("other", "rct_other");
    for (file, words) in [
        (None, "requires a token; repeat the command with --token-file FILE"),
        (Some("other"), "rejects the token"),
        // It may not read, but it may record.
        (Some("token"), ""),
    ] {
        let mut command = home.command(&["claude", "--url", &server.url()]);
        command.args(file.iter().flat_map(|file| ["--token-file".into(), home.path(file)]));
        let answer = CommandOutput::of(&mut command);
        let about = answer.words.lines().find(|line| line.contains("server")).unwrap_or_default();
        assert_eq!(answer.status, 0, "{answer:?}");
        assert_eq!(about.is_empty(), words.is_empty(), "{answer:?}");
        assert!(about.ends_with(words), "{answer:?}");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a proxy, outside the product")]
fn connect_names_what_is_there_instead_of_a_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
            while request.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            stream
                .write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .unwrap();
        }
    });
    let home = Home::with("token", "one\ntwo\n");
    let why = format!("unexpected response from {url}: status 502");
    let answer = home.connect(&["claude", "--url", &url]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(answer.words.contains(&format!("hooks may not be recorded: {why}")), "{answer:?}");
    let status = home.connect(&["claude", "--status"]).good();
    assert!(status.contains(&format!("server {url} cannot be used ({why}")), "{status}");
    let status = json_of(&home.connect(&["claude", "--status", "--json"]).good());
    assert_eq!(status["server_answers"], false);

    let token = home.path("token").display().to_string();
    let answer = home.connect(&["claude", "--url", &url, "--token-file", &token]);
    let words = "hooks may not be recorded: the token has characters that are not allowed in a header";
    assert!(answer.words.contains(words), "{answer:?}");
}

/// It fails, names the reason, and leaves everything as it was.
#[track_caller]
fn refused(home: &Home, agent: &str, why: &str) {
    let before = home.files();
    for arguments in [vec![agent], vec![agent, "--dry-run"]] {
        let answer = home.connect(&arguments);
        assert_eq!(answer.status, 1, "{answer:?}");
        assert!(answer.words.contains(why) && answer.words.contains("nothing was changed"), "{answer:?}");
    }
    assert_eq!(home.files(), before);
}

#[test]
fn what_cannot_be_read_is_refused() {
    let claude = ".claude/settings.json";
    refused(&Home::with(claude, "{\n  \"a\": 1,\n}\n"), "claude", "not valid JSON at line 3, column 1");
    refused(&Home::with(claude, "{} // comment"), "claude", "it has comments");
    refused(&Home::with(claude, "{\"hooks\": [1]}"), "claude", "\"hooks\" is an array, not an object");
    refused(&Home::with(claude, "[]"), "claude", "the top-level value is an array");
    refused(
        &Home::with(claude, "{\"hooks\": null}"),
        "claude",
        "\"hooks\" is neither an object nor an array;",
    );
    refused(&Home::with(claude, "{\"a\": 1, \"a\": 2}"), "claude", ": duplicate key in an object;");
    refused(&Home::with(".codex/config.toml", "# mine\na = \n"), "codex", "not valid TOML at line 2");
    refused(&Home::with(".codex/config.toml", "hooks = { Stop = [] }\n"), "codex", "cannot add to hooks.");

    let home = Home::new();
    fs::create_dir_all(home.path(".claude")).unwrap();
    fs::write(home.path(claude), b"{\"a\": \"\xff\"}").unwrap();
    refused(&home, "claude", "it is not UTF-8");
    fs::remove_file(home.path(claude)).unwrap();
    fs::create_dir(home.path(claude)).unwrap();
    refused(&home, "claude", "it is not a file");
}

#[test]
fn a_symbolic_link_is_refused_and_named() {
    let home = Home::with("dotfiles/claude.json", "{}\n");
    fs::create_dir(home.path(".claude")).unwrap();
    let to = home.path("dotfiles/claude.json");
    symlink(&to, home.path(".claude/settings.json")).unwrap();
    refused(&home, "claude", &format!("it is a symbolic link to {}", to.display()));
    fs::remove_file(&to).unwrap();
    refused(&home, "claude", "it is a symbolic link to");

    // Of a folder, only one to a folder is followed.
    let home = Home::new();
    symlink(home.path("missing"), home.path(".claude")).unwrap();
    refused(
        &home,
        "claude",
        &format!("it is a symbolic link to {}, which is missing", home.path("missing").display()),
    );
    fs::create_dir(home.path("missing")).unwrap();
    home.connect(&["claude"]).good();
    assert!(home.path("missing/settings.json").exists());
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !is_root() {
        eprintln!("not tried: only root can make a file belong to another user");
        return;
    }
    let home = Home::with(".claude/settings.json", "{}\n");
    std::os::unix::fs::chown(home.path(".claude/settings.json"), Some(12345), None).unwrap();
    refused(&home, "claude", "it belongs to user 12345");

    let home = Home::with(".claude/settings.json", "{}\n");
    std::os::unix::fs::chown(home.path(".claude"), Some(12345), None).unwrap();
    refused(&home, "claude", "it belongs to user 12345");
}

#[test]
fn a_folder_that_is_not_writable_is_refused() {
    let home = Home::with(".claude/settings.json", "{}\n");
    let mut command = home.command(&["claude"]);
    if is_root() {
        // Root may write everywhere, so the program runs as another user, to whom all of it belongs.
        command.uid(12345).gid(12345);
        for path in ["", ".claude", ".claude/settings.json"] {
            std::os::unix::fs::chown(home.path(path), Some(12345), Some(12345)).unwrap();
        }
    }
    fs::set_permissions(home.path(".claude"), fs::Permissions::from_mode(0o500)).unwrap();
    let answer = CommandOutput::of(&mut command);
    fs::set_permissions(home.path(".claude"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.words.contains("the folder is not writable"), "{answer:?}");
    assert_eq!(home.read(".claude/settings.json"), "{}\n");
    assert!(!home.path(".local").exists());
}
