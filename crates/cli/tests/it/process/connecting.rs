//! `recount connect`: real settings files in homes of their own, changed and restored.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{CommandOutput, recount};

/// An address at which nothing listens.
const URL: &str = "http://127.0.0.1:9";

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

const SETTINGS: &str = ".claude/settings.json";

/// What `--telemetry` adds to an `env` without variables.
fn variables() -> Value {
    json!({
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": format!("{URL}/otlp"),
        "OTEL_LOGS_EXPORT_INTERVAL": "1000",
    })
}

/// [`variables`] with other values.
fn variables_with(others: &[(&str, &str)]) -> Value {
    let mut variables = variables();
    for (name, value) in others {
        variables[*name] = json!(value);
    }
    variables
}

#[test]
fn settings_with_telemetry_come_back_to_the_byte() {
    for content in [
        "{}",
        "{ \"env\": { } }",
        "{\r\n\t\"env\": {\"A\": \"b\"},\r\n\t\"model\": \"opus\"\r\n}\r\n",
        "{\n  \"env\": {\n    \"OTEL_LOGS_EXPORTER\": \"otlp\"\n  },\n  \"hooks\": {\"Stop\": []}\n}\n",
    ] {
        round_with("claude", &["--telemetry"], SETTINGS, content);
        round_with("claude", &["--telemetry", "--command", "--ask"], SETTINGS, content);
    }
}

#[test]
fn telemetry_is_on_request_and_replaced_like_hooks() {
    let home = Home::new();
    let hint = "tokens and cost are not recorded; repeat the command with --telemetry";
    let plain = home.connect(&["claude"]);
    assert!(plain.words.contains(hint), "{plain:?}");
    assert_eq!(json_of(&home.read(SETTINGS))["env"], Value::Null);
    let status = home.connect(&["claude", "--status"]).good();
    assert!(
        status.contains("tokens and cost are not recorded; connect claude --telemetry adds them"),
        "{status}"
    );
    assert_eq!(json_of(&home.connect(&["claude", "--status", "--json"]).good())["telemetry"], Value::Null);

    let done = home.connect(&["claude", "--telemetry"]);
    assert!(!done.words.contains("not recorded"), "{done:?}");
    let settings = json_of(&home.read(SETTINGS));
    assert_eq!((&settings["env"], &settings["otelHeadersHelper"]), (&variables(), &Value::Null));
    let status = home.connect(&["claude", "--status"]).good();
    let words = format!("tokens and cost are recorded: telemetry is sent to {URL}/otlp\n");
    assert!(status.contains(&words), "{status}");
    let status = json_of(&home.connect(&["claude", "--status", "--json"]).good());
    assert_eq!(status["telemetry"], format!("{URL}/otlp"));

    // The address of another server replaces ours, and no option removes it.
    let other = "http://127.0.0.1:10";
    home.connect(&["claude", "--telemetry", "--url", other]).good();
    let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:10/otlp")];
    assert_eq!(json_of(&home.read(SETTINGS))["env"], variables_with(&endpoint));
    home.connect(&["claude"]).good();
    assert_eq!(json_of(&home.read(SETTINGS))["env"], Value::Null);
    home.connect(&["claude", "--telemetry"]).good();
    home.connect(&["claude", "--remove"]).good();
    assert!(home.files().is_empty());
}

#[test]
fn values_of_the_user_stay_before_and_after() {
    let env = |variables: &[(&str, &str)]| json!({"env": variables_with(variables)}).to_string();
    let endpoint = format!("{URL}/otlp/");
    // In the settings, in the environment, and the variables after connect.
    for (before, environment, after) in [
        (
            json!({}),
            vec![("OTEL_LOGS_EXPORT_INTERVAL", "5000")],
            env(&[("OTEL_LOGS_EXPORT_INTERVAL", "5000")]),
        ),
        (json!({}), vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "")], env(&[])),
        (
            json!({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}),
            vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            env(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]),
        ),
        (
            json!({"CLAUDE_CODE_ENABLE_TELEMETRY": "true", "OTEL_LOGS_EXPORTER": "console, otlp", "A": "b"}),
            vec![("OTEL_METRICS_EXPORTER", "prometheus")],
            env(&[
                ("CLAUDE_CODE_ENABLE_TELEMETRY", "true"),
                ("OTEL_LOGS_EXPORTER", "console, otlp"),
                ("OTEL_METRICS_EXPORTER", "prometheus"),
                ("A", "b"),
            ]),
        ),
        (
            json!({"OTEL_EXPORTER_OTLP_ENDPOINT": &endpoint}),
            vec![],
            env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]),
        ),
    ] {
        let content = json!({"env": before}).to_string();
        let home = Home::with(SETTINGS, &content);
        let mut command = home.command(&["claude", "--telemetry"]);
        CommandOutput::of(command.envs(environment)).good();
        assert_eq!(json_of(&home.read(SETTINGS))["env"], json_of(&after)["env"], "{content}");
        // Something else changes, so the copy is not what is restored.
        let changed = home.read(SETTINGS).replacen('{', "{\"new\": 1, ", 1);
        home.write(SETTINGS, &changed);
        home.connect(&["claude", "--remove"]).good();
        assert_eq!(json_of(&home.read(SETTINGS)), json!({"new": 1, "env": before}));
    }
}

#[test]
fn telemetry_that_goes_elsewhere_is_named_and_nothing_changes() {
    let elsewhere = "https://otel.example:4318";
    let ours = format!("{URL}/otlp");
    let all = |name: &str, value: &str| json!({"env": variables_with(&[(name, value)])});
    let one = |name: &str, value: &str| json!({"env": {name: value}});
    let none = || json!({});
    let goes = format!("forward it to {ours} as well");
    for (settings, environment, why) in [
        (
            one("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere),
            ("", ""),
            &*format!("is \"{elsewhere}\" in env: telemetry"),
        ),
        (one("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("", ""), "is \"\" in env: "),
        (all("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere), ("", ""), &*goes),
        (all("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", elsewhere), ("", ""), &*goes),
        (none(), ("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere), "in the environment of this command: telemetry"),
        (json!({"env": variables()}), ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", elsewhere), &*goes),
        (one("CLAUDE_CODE_ENABLE_TELEMETRY", "0"), ("", ""), "is \"0\" in env: telemetry is turned off"),
        (
            json!({"env": {"CLAUDE_CODE_ENABLE_TELEMETRY": 0}}),
            ("", ""),
            "is \"0\" in env: telemetry is turned off",
        ),
        (one("OTEL_LOGS_EXPORTER", "console"), ("", ""), "is \"console\" in env: log events"),
        (one("OTEL_METRICS_EXPORTER", "otlp"), ("", ""), "the server does not accept them"),
        (one("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("", ""), "only http/json and http/protobuf"),
        (none(), ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"), "only http/json and http/protobuf"),
        (
            one("OTEL_EXPORTER_OTLP_HEADERS", "a=a-secret"),
            ("", ""),
            "OTEL_EXPORTER_OTLP_HEADERS is set in env: ",
        ),
        (
            none(),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "a=a-secret"),
            &*format!("it would be sent to {ours}, too"),
        ),
        (json!({"otelHeadersHelper": "print a-secret"}), ("", ""), "otelHeadersHelper is set: its headers"),
        (json!({"env": []}), ("", ""), "\"env\" is an array, not an object"),
    ] {
        let content = settings.to_string();
        let home = Home::with(SETTINGS, &content);
        for arguments in [&["claude", "--telemetry"][..], &["claude", "--telemetry", "--dry-run"]] {
            let mut command = home.command(arguments);
            if !environment.0.is_empty() {
                command.env(environment.0, environment.1);
            }
            let answer = CommandOutput::of(&mut command);
            assert_eq!(answer.status, 1, "{content} {environment:?}: {answer:?}");
            assert!(answer.words.contains(why), "{content} {environment:?}: {answer:?}");
            assert!(answer.words.contains("nothing was changed"), "{answer:?}");
            assert!(!answer.words.contains("a-secret"), "{answer:?}");
        }
        assert_eq!(home.files(), [(home.path(SETTINGS), content.clone().into_bytes())]);
        // Without the option, only hooks are added.
        if settings["env"].is_object() {
            home.connect(&["claude"]).good();
            assert_eq!(json_of(&home.read(SETTINGS))["env"], settings["env"]);
        }
    }
}

#[test]
fn telemetry_that_was_set_up_by_hand_stays() {
    let mut by_hand = variables();
    by_hand["OTEL_EXPORTER_OTLP_HEADERS"] = json!("Authorization=Bearer a-secret");
    let home = Home::with(SETTINGS, &json!({"env": by_hand}).to_string());
    home.connect(&["claude", "--telemetry"]).good();
    assert_eq!(json_of(&home.read(SETTINGS))["env"], by_hand);
    let removed = home.connect(&["claude", "--remove"]);
    let words = format!("still sends its telemetry to {URL}/otlp; connect did not write the variables");
    assert!(removed.words.contains(&words), "{removed:?}");
    assert_eq!(json_of(&home.read(SETTINGS)), json!({"env": by_hand}));
}

#[test]
fn what_a_person_changed_of_the_telemetry_stays() {
    let home = Home::with(SETTINGS, "{\n  \"model\": \"opus\"\n}\n");
    home.connect(&["claude", "--telemetry"]).good();
    let after = home.read(SETTINGS);
    home.write(SETTINGS, &after.replacen("\"1000\"", "\"2000\"", 1));
    home.connect(&["claude", "--remove"]).good();
    let left =
        "{\n  \"model\": \"opus\",\n  \"env\": {\n    \"OTEL_LOGS_EXPORT_INTERVAL\": \"2000\"\n  }\n}\n";
    assert_eq!(home.read(SETTINGS), left);
}

#[test]
fn the_token_for_telemetry_comes_from_a_command() {
    let home = Home::with("token of mine", "rct_a-secret-of-a-test\n");
    let file = home.path("token of mine").display().to_string();
    let with_file = home.command(&["claude", "--telemetry", "--token-file", &file]);
    let mut with_variable = home.command(&["claude", "--telemetry"]);
    with_variable.env("RECOUNT_TOKEN", "rct_a-secret-of-a-test");
    for (mut command, has_file) in [(with_file, true), (with_variable, false)] {
        CommandOutput::of(&mut command).good();
        let text = home.read(SETTINGS);
        assert!(!text.contains("a-secret"), "{text}");
        let helper = json_of(&text)["otelHeadersHelper"].as_str().unwrap().to_owned();
        assert_eq!(helper.contains("--token-file '"), has_file, "{helper}");
        let run = |token: &str| {
            CommandOutput::of(Command::new("sh").args(["-c", &helper]).env("RECOUNT_TOKEN", token))
        };
        let printed = run(if has_file { "" } else { "rct_a-secret-of-a-test" }).good();
        assert_eq!(json_of(&printed), json!({"Authorization": "Bearer rct_a-secret-of-a-test"}));
        if !has_file {
            run("").bad(2, "no token: set RECOUNT_TOKEN, or use --token-file FILE");
        }
    }
    home.connect(&["claude", "--remove"]).good();
    let theirs = json!({"otelHeadersHelper": "theirs"}).to_string();
    home.write(SETTINGS, &theirs);
    let answer = home.connect(&["claude", "--telemetry", "--token-file", &file]);
    assert!(answer.words.contains("otelHeadersHelper runs another command"), "{answer:?}");
    assert_eq!((answer.status, home.read(SETTINGS)), (1, theirs));
}

#[test]
fn telemetry_needs_claude_and_an_address_of_http() {
    let home = Home::new();
    for (arguments, why) in [
        (vec!["codex", "--telemetry"], "--telemetry configures only Claude Code"),
        (vec!["gemini", "--telemetry"], "--telemetry configures only Claude Code"),
        (vec!["claude", "--telemetry", "--remove"], "cannot be used with"),
        (vec!["claude", "--telemetry", "--status"], "cannot be used with"),
        (vec!["claude", "--telemetry", "--url", "unix:/run/recount.sock"], "cannot be sent to a Unix socket"),
    ] {
        home.connect(&arguments).bad(2, why);
    }
    assert!(home.files().is_empty());
    let answer = home.connect(&["claude", "--url", "unix:/run/recount.sock"]);
    assert!(!answer.words.contains("--telemetry"), "{answer:?}");
}
