//! The configured hooks, checked and ready to run.
//!
//! Start at [`Hooks::build`]. The module must not depend on calls.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::matcher::Matcher;
use super::names;
use super::settings::{HookCommand, HookEvent, HookSettings, HookSettingsError, HookStyle, OnFailure};
use crate::hooks::limits;
use crate::mcp;
use crate::model::Secret;
use crate::tools::{COMMAND_TOOLS, Tools};

/// The hooks of a configuration. Cheap to clone.
#[derive(Clone, Default)]
pub struct Hooks {
    /// The hooks in alphabetical order, which is the order in which they run.
    all: Arc<[Arc<Hook>]>,
    /// Values of variables, to be masked.
    secrets: Arc<[Secret]>,
}

/// One hook.
pub(crate) struct Hook {
    pub(super) name: String,
    pub(super) event: HookEvent,
    pub(super) argv: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) matcher: Matcher,
    pub(super) style: HookStyle,
    pub(super) on_failure: OnFailure,
    pub(super) timeout: Duration,
}

impl Hook {
    fn applies_to(&self, tool: &str) -> bool {
        match self.style {
            HookStyle::Event => self.matcher.is_match(tool),
            HookStyle::ClaudeCode => names::can_match(tool, &self.matcher),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|hook| &hook.name)).finish()
    }
}

/// Variables of the server that every hook receives.
const VARIABLES: &[&str] =
    &["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "SHELL", "TMPDIR", "TZ", "USER"];

/// The `PATH` of hooks if the server has none.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Hooks {
    /// Builds the hooks from settings. `environment` looks up variables; a program path with a slash is relative to
    /// `folder`.
    pub fn build(
        settings: &BTreeMap<String, HookSettings>,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<Hooks, HookSettingsError> {
        if settings.len() > limits::HOOKS_MAX {
            return Err(HookSettingsError::TooMany { count: settings.len() });
        }
        let mut secrets = Vec::new();
        let mut all = Vec::new();
        for (name, settings) in settings {
            if !is_name(name) {
                return Err(HookSettingsError::Name { name: name.clone() });
            }
            let hook = build_hook(name, settings, environment, folder, &mut secrets);
            let wrong = |(key, why)| HookSettingsError::Key { hook: name.clone(), key, why };
            all.push(Arc::new(hook.map_err(wrong)?));
        }
        Ok(Hooks { all: all.into(), secrets: secrets.into() })
    }

    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// A description of each hook with its event and program.
    pub fn in_words(&self) -> Vec<String> {
        let words = |hook: &Arc<Hook>| format!("{} ({}: {})", hook.name, hook.event.as_str(), hook.argv[0]);
        self.all.iter().map(words).collect()
    }

    /// The hooks for this event of a call of this tool.
    pub(crate) fn about(&self, event: HookEvent, tool: &str) -> Vec<Arc<Hook>> {
        self.all.iter().filter(|hook| hook.event == event && hook.applies_to(tool)).cloned().collect()
    }
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=limits::HOOK_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(plain)
}

/// Builds a hook. `Err`: the invalid key and why.
fn build_hook(
    name: &str,
    settings: &HookSettings,
    environment: &dyn Fn(&str) -> Option<String>,
    folder: &Path,
    secrets: &mut Vec<Secret>,
) -> Result<Hook, (&'static str, String)> {
    let argv = argv(&settings.command, folder).map_err(|why| ("command", why))?;
    let matcher = Matcher::parse(&settings.matcher).map_err(|why| ("matcher", why))?;
    check_matcher(settings, &matcher).map_err(|why| ("matcher", why))?;
    if settings.event == HookEvent::PostToolUse && settings.on_failure.is_some() {
        let why = "a hook that runs after the call cannot block it, so this setting has no effect; remove it";
        return Err(("on_failure", why.to_owned()));
    }
    let most = limits::HOOK_TIMEOUT_MAX;
    let timeout = match settings.timeout_ms.map(Duration::from_millis) {
        None => limits::HOOK_TIMEOUT,
        Some(given) if !given.is_zero() && given <= most => given,
        Some(given) => {
            let (given, most) = (given.as_millis(), most.as_millis());
            return Err(("timeout_ms", format!("{given} is out of range; use 1 to {most} milliseconds")));
        }
    };
    let mut own: Vec<(String, String)> =
        settings.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect();
    for variable in &settings.env_from {
        let value = environment(variable);
        let value = value.ok_or_else(|| ("env_from", format!("the variable {variable} is not set")))?;
        own.push((variable.clone(), value));
    }
    if let Some((variable, _)) =
        own.iter().find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
    {
        return Err((
            "env",
            format!(
                "{variable:?} is not a valid environment variable; names must not contain `=`, values \
                     must not contain NUL bytes"
            ),
        ));
    }
    // Short values, such as `1`, are not treated as secrets.
    let long = own.iter().filter(|(_, value)| recount_redact::Secret::new(value).is_ok());
    secrets.extend(long.map(|(_, value)| Secret::new(value.clone())));
    let mut variables = base_variables(environment);
    variables.extend(own);
    Ok(Hook {
        name: name.to_owned(),
        event: settings.event,
        argv,
        environment: variables,
        matcher,
        style: settings.style,
        on_failure: settings.on_failure.unwrap_or(match settings.style {
            HookStyle::Event => OnFailure::Closed,
            // As there.
            HookStyle::ClaudeCode => OnFailure::Open,
        }),
        timeout,
    })
}

/// The arguments of a command. A relative program path starts at the configuration folder, never at a run's folder,
/// because the run itself could write there.
fn argv(command: &HookCommand, folder: &Path) -> Result<Vec<String>, String> {
    let mut argv = match command {
        HookCommand::Line(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
        HookCommand::Words(words) => words.clone(),
    };
    if argv.first().is_none_or(String::is_empty)
        || argv.last().is_some_and(String::is_empty) && argv.len() == 3
    {
        return Err("it is empty; give a program".to_owned());
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err("it contains a NUL byte".to_owned());
    }
    if argv[0].contains('/') {
        let whole = std::path::absolute(folder.join(&argv[0]));
        let whole = whole.map_err(|why| format!("{:?} cannot be found: {why}", argv[0]))?;
        argv[0] = whole.into_os_string().into_string().map_err(|whole| format!("{whole:?} is not UTF-8"))?;
    }
    Ok(argv)
}

/// Refuses a matcher that matches no tool: a guard with a typo protects nothing.
fn check_matcher(settings: &HookSettings, matcher: &Matcher) -> Result<(), String> {
    let standard = Tools::standard();
    let ours: Vec<&str> = standard.names().chain(COMMAND_TOOLS.iter().copied()).collect();
    let (is_known, known) = match settings.style {
        HookStyle::Event => (ours.iter().any(|tool| matcher.is_match(tool)), ours),
        HookStyle::ClaudeCode => {
            let foreign = names::FOREIGN_NAMES;
            let is_ours = ours.iter().any(|tool| names::can_match(tool, matcher));
            (is_ours || foreign.iter().any(|name| matcher.is_match(name)), foreign.to_vec())
        }
    };
    // The tools of a server are only known after a run connects to it.
    if is_known || settings.matcher.contains(mcp::PREFIX) {
        return Ok(());
    }
    Err(format!("{:?} matches no tool; available tools: {}", settings.matcher, known.join(", ")))
}

/// The variables of the server that every hook receives.
fn base_variables(environment: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let found = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), environment(name)?)));
    let mut variables: Vec<(String, String)> = found.collect();
    let path = environment("PATH").unwrap_or_else(|| PATH_DEFAULT.to_owned());
    // A relative folder would be searched in the run's folder, where the run itself can write.
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    let path = std::env::join_paths(folders).ok().and_then(|path| path.into_string().ok());
    variables.push(("PATH".to_owned(), path.unwrap_or_else(|| PATH_DEFAULT.to_owned())));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(text: &str) -> Result<Hooks, String> {
        let settings: BTreeMap<String, HookSettings> = toml::from_str(text).map_err(|why| why.to_string())?;
        let environment = |name: &str| match name {
            "PATH" => Some(".:/usr/bin::bin:/bin".to_owned()),
            "HOME" => Some("/home/ann".to_owned()),
            "GUARD_KEY" => Some("hush-from-all-of-us".to_owned()),
            "OPENAI_API_KEY" => Some("never handed on".to_owned()),
            _ => None,
        };
        Hooks::build(&settings, &environment, Path::new("/etc/recount")).map_err(|why| why.to_string())
    }

    #[test]
    fn a_hook_has_its_configured_program_and_variables() {
        let hooks = build(
            "[guard]\nevent='PreToolUse'\ncommand=['hooks/guard','-v']\nenv={MODE='x'}\nenv_from=['GUARD_KEY']\n\
             [after]\nevent='PostToolUse'\ncommand='tee log'\nstyle='claude-code'\nmatcher='Edit|Write'\ntimeout_ms=5\n",
        )
        .unwrap();
        let [after, guard] = &hooks.all[..] else { panic!("{hooks:?}") };
        assert_eq!(guard.argv, ["/etc/recount/hooks/guard", "-v"]);
        assert_eq!(after.argv, ["/bin/sh", "-c", "tee log"]);
        let variables: Vec<(&str, &str)> =
            guard.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            variables,
            [
                ("HOME", "/home/ann"),
                ("PATH", "/usr/bin:/bin"),
                ("MODE", "x"),
                ("GUARD_KEY", "hush-from-all-of-us")
            ]
        );
        let secrets: Vec<&str> = hooks.secrets().iter().map(Secret::reveal).collect();
        assert_eq!(secrets, ["hush-from-all-of-us"]);
        assert_eq!((guard.on_failure, after.on_failure), (OnFailure::Closed, OnFailure::Open));
        assert_eq!((guard.timeout, after.timeout), (limits::HOOK_TIMEOUT, Duration::from_millis(5)));
        assert_eq!(
            hooks.in_words(),
            ["after (PostToolUse: /bin/sh)", "guard (PreToolUse: /etc/recount/hooks/guard)"]
        );
        let about = |event, tool: &str| hooks.about(event, tool).len();
        assert_eq!(about(HookEvent::PreToolUse, "read_file"), 1);
        for (tool, count) in [("write_file", 1), ("multi_edit", 1), ("read_file", 0), ("shell_exec", 0)] {
            assert_eq!(about(HookEvent::PostToolUse, tool), count, "{tool}");
        }
    }

    #[test]
    fn invalid_settings_are_reported_with_their_key() {
        let long = format!("[{}]\nevent='PreToolUse'\ncommand=['x']", "a".repeat(65));
        let many: String =
            (0..33).map(|at| format!("[h{at}]\nevent='PreToolUse'\ncommand=['x']\n")).collect();
        for (text, words) in [
            ("['a b']\nevent='PreToolUse'\ncommand=['x']", &["\"a b\"", "letters"][..]),
            (&long, &["aaa", "64"]),
            (&many, &["33", "32"]),
            ("[a]\nevent='Stop'\ncommand=['x']", &["Stop", "PreToolUse"]),
            ("[a]\ncommand=['x']", &["event"]),
            ("[a]\nevent='PreToolUse'\ncommand=[]", &["hooks.a.command", "give a program"]),
            ("[a]\nevent='PreToolUse'\ncommand=''", &["hooks.a.command", "give a program"]),
            ("[a]\nevent='PreToolUse'\ncommand=5", &["/bin/sh"]),
            ("[a]\nevent='PreToolUse'\ncommand=['x']\nmatcher='('", &["hooks.a.matcher", "\"(\""]),
            (
                "[a]\nevent='PreToolUse'\ncommand=['x']\nmatcher='Bash'",
                &["hooks.a.matcher", "\"Bash\"", "shell_exec"],
            ),
            (
                "[a]\nevent='PreToolUse'\ncommand=['x']\nstyle='claude-code'\nmatcher='bash'",
                &["hooks.a.matcher", "\"bash\"", "Bash"],
            ),
            ("[a]\nevent='PreToolUse'\ncommand=['x']\ntimeout_ms=0", &["hooks.a.timeout_ms", "0", "600000"]),
            ("[a]\nevent='PreToolUse'\ncommand=['x']\ntimeout_ms=600001", &["hooks.a.timeout_ms", "600001"]),
            ("[a]\nevent='PreToolUse'\ncommand=['x']\nenv_from=['GONE']", &["hooks.a.env_from", "GONE"]),
            ("[a]\nevent='PreToolUse'\ncommand=['x']\nenv={'A=B'='x'}", &["hooks.a.env", "A=B"]),
            (
                "[a]\nevent='PostToolUse'\ncommand=['x']\non_failure='open'",
                &["hooks.a.on_failure", "remove it"],
            ),
            ("[a]\nevent='PreToolUse'\ncommand=['x']\nstyle='other'", &["other", "claude-code"]),
            ("[a]\nevent='PreToolUse'\ncommand=['x']\ntimeout=5", &["timeout"]),
        ] {
            let why = build(text).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{text}: {why}");
        }
        // Claude Code's other tools, and tools of servers, are accepted.
        for matcher in ["Task|NotebookEdit", "mcp__memory__.*", "mcp__db__drop_table", "*", ""] {
            build(&format!(
                "[a]\nevent='PreToolUse'\ncommand=['x']\nstyle='claude-code'\nmatcher='{matcher}'"
            ))
            .unwrap();
        }
    }
}
