//! The agents, where their settings are, and the hooks that record them.
//!
//! Read from claude-code 2.1.332, codex 0.171.0 and gemini-cli 0.61.0 (npm); a later release may know more events. It must
//! not know files. Look at [`groups`] and [`is_ours`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use recount_world::platform;
use serde::Serialize;
use serde_json::Value;

use crate::command::recorded::Agent;
use crate::failure::Failure;

/// The file name of this program.
pub(super) const PROGRAM: &str = if cfg!(windows) { "recount.exe" } else { "recount" };

impl Agent {
    /// The folder of the agent's own settings, as the agent finds it.
    pub(super) fn settings_folder(self) -> Result<PathBuf, Failure> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from).map(Ok);
        let home = || {
            let home = std::env::var_os(platform::HOME).map(PathBuf::from).filter(|home| home.is_absolute());
            home.ok_or_else(|| {
                Failure::Usage(format!("{} is not set; set it to your home folder", platform::HOME))
            })
        };
        let folder = match self {
            Agent::Claude => variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| Ok(home()?.join(".claude"))),
            Agent::Codex => variable("CODEX_HOME").unwrap_or_else(|| Ok(home()?.join(".codex"))),
            Agent::Gemini => Ok(variable("GEMINI_CLI_HOME").unwrap_or_else(home)?.join(".gemini")),
        }?;
        // A copy is found again by its path, from any folder.
        std::path::absolute(&folder).map_err(|why| Failure::Usage(format!("{}: {why}", folder.display())))
    }

    /// Whether the agent reads its settings with comments in them.
    pub(super) fn allows_comments(self) -> bool {
        self == Agent::Gemini
    }

    fn events(self) -> &'static [&'static str] {
        match self {
            Agent::Claude => &[
                "SessionStart",
                "UserPromptSubmit",
                "MessageDisplay",
                "PreToolUse",
                PERMISSION,
                "PermissionDenied",
                "PostToolUse",
                "PostToolUseFailure",
                "SubagentStart",
                "SubagentStop",
                "Notification",
                "Elicitation",
                "ElicitationResult",
                "PreCompact",
                "PostCompact",
                "PostModelSwitch",
                "TaskCreated",
                "TaskCompleted",
                "CwdChanged",
                "Stop",
                "StopFailure",
                "SessionEnd",
            ],
            Agent::Codex => &[
                "SessionStart",
                "UserPromptSubmit",
                "PreToolUse",
                PERMISSION,
                "PostToolUse",
                "SubagentStart",
                "SubagentStop",
                "PreCompact",
                "PostCompact",
                "Interrupt",
                "Stop",
                "SessionEnd",
            ],
            // Not those of each request to a model: the agent waits for a program at each piece of its answer.
            Agent::Gemini => &[
                "SessionStart",
                "BeforeAgent",
                "BeforeTool",
                "AfterTool",
                "Notification",
                "PreCompress",
                "AfterAgent",
                "SessionEnd",
            ],
        }
    }
}

/// The event that asks for a permission.
const PERMISSION: &str = "PermissionRequest";

/// Of Claude, the event for which it runs commands only.
const COMMAND_ONLY: &str = "SessionStart";

/// Seconds that an agent waits for a hook that is only recorded.
const RECORD_SECONDS: u64 = 5;

/// Seconds that Codex allows for these events at most; it warns of more.
const CODEX_SHORT: (&[&str], u64) = (&["SessionEnd", "Interrupt"], 3);

/// Seconds that an agent waits beyond the wait for an answer.
const ASK_MARGIN_SECONDS: u64 = 10;

/// How hooks reach the server.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) url: String,
    /// The program that commands run.
    pub(super) program: String,
    /// Whether commands are used where the agent could post by itself.
    pub(super) commands: bool,
    pub(super) token_file: Option<String>,
    /// Whether the server wants a token, which the agent's environment has in RECOUNT_TOKEN.
    pub(super) has_token: bool,
    pub(super) ask_seconds: Option<u64>,
}

impl Options {
    #[cfg(test)]
    pub(super) fn at(url: &str, program: &str) -> Self {
        Options {
            url: url.to_owned(),
            program: program.to_owned(),
            commands: false,
            token_file: None,
            has_token: false,
            ask_seconds: None,
        }
    }

    fn command(&self, agent: Agent, event: &str, ask_seconds: Option<u64>) -> String {
        let mut words =
            vec![quoted(&self.program), "hook".to_owned(), agent.name().to_owned(), event.to_owned()];
        if let Some(seconds) = ask_seconds {
            words.extend(["--ask".to_owned(), "--wait".to_owned(), seconds.to_string()]);
        }
        words.extend(["--url".to_owned(), quoted(&self.url)]);
        if let Some(file) = &self.token_file {
            words.extend(["--token-file".to_owned(), quoted(file)]);
        }
        words.join(" ")
    }

    /// The command that prints the header with the token for telemetry, if the server requires one.
    pub(super) fn headers_helper(&self) -> Option<String> {
        if self.token_file.is_none() && !self.has_token {
            return None;
        }
        let words =
            [&*quoted(&self.program), "hook", Agent::Claude.name(), "--headers", "--url", &quoted(&self.url)];
        let token = self.token_file.as_deref().map(|file| format!(" --token-file {}", quoted(file)));
        Some(words.join(" ") + &token.unwrap_or_default())
    }

    fn address(&self, agent: Agent, event: &str, ask_seconds: Option<u64>) -> String {
        let base = self.url.trim_end_matches('/');
        let query = ask_seconds.map_or(String::new(), |seconds| format!("?ask=1&wait_seconds={seconds}"));
        format!("{base}/hooks/{}/{event}{query}", agent.name())
    }
}

/// One handler for one event.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    #[serde(skip)]
    pub(super) event: &'static str,
    hooks: [Handler; 1],
}

impl Group {
    pub(super) fn handler(&self) -> &Handler {
        &self.hooks[0]
    }
}

/// What an agent does with a hook, in the agents' own words.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Handler {
    Http {
        url: String,
        timeout: u64,
        #[serde(rename = "onFailure")]
        on_failure: &'static str,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<&'static str, &'static str>,
        #[serde(rename = "allowedEnvVars", skip_serializing_if = "<[_]>::is_empty")]
        allowed_variables: &'static [&'static str],
    },
    Command {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'static str>,
        command: String,
        timeout: u64,
    },
}

/// The hooks that record an agent, one group for each event.
pub(super) fn groups(agent: Agent, options: &Options) -> Vec<Group> {
    let group = |event: &&'static str| {
        let ask_seconds = options.ask_seconds.filter(|_| *event == PERMISSION);
        let seconds = match ask_seconds {
            Some(seconds) => seconds + ASK_MARGIN_SECONDS,
            None if agent == Agent::Codex && CODEX_SHORT.0.contains(event) => CODEX_SHORT.1,
            None => RECORD_SECONDS,
        };
        let posts = agent == Agent::Claude && !options.commands && *event != COMMAND_ONLY;
        let handler = if posts {
            let headers = options.has_token.then_some(("Authorization", "Bearer $RECOUNT_TOKEN"));
            Handler::Http {
                url: options.address(agent, event, ask_seconds),
                timeout: seconds,
                on_failure: "continue",
                headers: headers.into_iter().collect(),
                allowed_variables: if options.has_token { &["RECOUNT_TOKEN"] } else { &[] },
            }
        } else {
            Handler::Command {
                name: (agent == Agent::Gemini).then_some("recount"),
                command: options.command(agent, event, ask_seconds),
                // Gemini CLI counts milliseconds.
                timeout: if agent == Agent::Gemini { seconds * 1000 } else { seconds },
            }
        };
        Group { event, hooks: [handler] }
    };
    agent.events().iter().map(group).collect()
}

/// Whether a handler in an agent's settings is one of those that [`groups`] makes, for any server and any place of the
/// program.
pub(super) fn is_ours(agent: Agent, event: &str, handler: &Value) -> bool {
    let text = |key: &str| handler.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "http" => {
            let url = text("url");
            let path = url.split('?').next().unwrap_or_default();
            path.ends_with(&format!("/hooks/{}/{event}", agent.name()))
        }
        "command" => {
            let command = text("command");
            let called = format!(" hook {} {event} ", agent.name());
            command.split_once(&called).is_some_and(|(program, options)| {
                let name = program.trim_end_matches('\'').rsplit('/').next().unwrap_or_default();
                name == PROGRAM && options.contains("--url ")
            })
        }
        _ => false,
    }
}

/// The server of a handler that is ours.
pub(super) fn server_of(handler: &Value) -> Option<String> {
    let text = |key: &str| handler.get(key).and_then(Value::as_str);
    if let Some(url) = text("url") {
        return url.rsplit_once("/hooks/").map(|(base, _)| base.to_owned());
    }
    let rest = text("command")?.split_once("--url ")?.1;
    match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next().map(str::to_owned),
        None => rest.split(' ').next().map(str::to_owned),
    }
}

/// Whether a handler that is ours asks for answers.
pub(super) fn asks(handler: &Value) -> bool {
    let has = |key: &str, what: &str| {
        handler.get(key).and_then(Value::as_str).is_some_and(|text| text.contains(what))
    };
    has("url", "?ask=1") || has("command", " --ask ")
}

/// Whether no shell changes a word.
pub(super) fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    !word.is_empty() && word.chars().all(is_plain)
}

/// A word as the shell that agents run commands with reads it.
fn quoted(word: &str) -> String {
    if is_plain(word) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_recognised_and_nothing_else() {
        let mut options = Options::at("http://127.0.0.1:8765", "/opt/my tools/recount");
        options.ask_seconds = Some(60);
        for agent in [Agent::Claude, Agent::Codex, Agent::Gemini] {
            for group in groups(agent, &options) {
                let handler = serde_json::to_value(group.handler()).unwrap();
                assert!(is_ours(agent, group.event, &handler), "{handler}");
                assert!(!is_ours(agent, "Other", &handler), "{handler}");
                assert_eq!(server_of(&handler).unwrap(), "http://127.0.0.1:8765", "{handler}");
                assert_eq!(asks(&handler), group.event == PERMISSION, "{handler}");
            }
        }
        for command in
            ["my-recount hook claude Stop --url x", "recount hook claude Stop", "echo recount hook claude"]
        {
            let handler = serde_json::json!({"type": "command", "command": command});
            assert!(!is_ours(Agent::Claude, "Stop", &handler), "{command}");
        }
    }

    #[test]
    fn claude_posts_except_where_it_only_runs_commands() {
        let mut options = Options::at("http://127.0.0.1:8765/", "/usr/bin/recount");
        options.has_token = true;
        let all = groups(Agent::Claude, &options);
        for group in &all {
            let is_command = matches!(group.handler(), Handler::Command { .. });
            assert_eq!(is_command, group.event == COMMAND_ONLY, "{}", group.event);
        }
        let stop = all.iter().find(|group| group.event == "Stop").unwrap();
        assert_eq!(
            serde_json::to_value(stop).unwrap(),
            serde_json::json!({"hooks": [{
                "type": "http",
                "url": "http://127.0.0.1:8765/hooks/claude/Stop",
                "timeout": 5,
                "onFailure": "continue",
                "headers": {"Authorization": "Bearer $RECOUNT_TOKEN"},
                "allowedEnvVars": ["RECOUNT_TOKEN"],
            }]})
        );
    }
}
