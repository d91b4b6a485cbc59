//! `recount connect AGENT`: record an agent by adding hooks to its own settings, and take exactly these out again.
//!
//! What the hooks are is in `format`, the variables of telemetry in `telemetry`, how they get into a text in `json_text`
//! and `toml_text`, what may be written in `files`. Look at [`Connect`].

mod difference;
mod files;
mod format;
mod json_text;
mod notes;
mod status;
mod telemetry;
mod toml_text;

use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::{Client, is_socket};
use serde_json::{Value, json};

use self::files::Target;
use self::format::{Group, Options, server_of};
use self::json_text::{Interiors, TextMember};
use self::notes::{Drawer, Notes, digest};
use self::status::Reach;
use self::telemetry::{Present, Telemetry};
use super::credential::{given_token, small_file};
use super::invocation::Invocation;
use super::recorded::{Agent, state_folder};
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};
use crate::render::clean;

/// Record another agent by adding hooks to its settings
#[derive(Args)]
pub(super) struct Connect {
    /// Agent to record
    agent: Agent,
    /// Remove the hooks, and the settings that --telemetry added
    #[arg(long, conflicts_with_all = ["ask", "command", "telemetry", "token_file"])]
    remove: bool,
    /// Show whether the agent is recorded, and which hooks are still to be sent
    #[arg(long, conflicts_with_all = ["remove", "dry_run", "ask", "command", "telemetry", "token_file"])]
    status: bool,
    /// Show the change without making it
    #[arg(long)]
    dry_run: bool,
    /// Answer permission requests in Recount; without an answer in time the agent shows its own prompt
    #[arg(long)]
    ask: bool,
    /// With --ask: seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = limits::HOOK_ASK_SECONDS_DEFAULT, requires = "ask",
          value_parser = clap::value_parser!(u64).range(1..=limits::HOOK_ASK_SECONDS_MAX))]
    wait: u64,
    /// Run recount hook for each hook, which stores hooks while the server is unreachable, instead of letting Claude
    /// Code send HTTP requests
    #[arg(long)]
    command: bool,
    /// Record tokens and cost, too: let Claude Code send its telemetry to the server
    #[arg(long)]
    telemetry: bool,
    /// File with the token for the server; the hooks then run recount hook
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// How a settings file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json,
    Toml,
}

/// A settings file of an agent that may have our hooks.
struct SettingsFile {
    agent: Agent,
    syntax: Syntax,
    target: Target,
    drawer: Drawer,
}

/// What a verb has done, or would do.
struct Change {
    path: PathBuf,
    before: Option<String>,
    /// `None` if the file is removed.
    after: Option<String>,
    backup: Option<PathBuf>,
}

impl SettingsFile {
    fn open(agent: Agent, path: PathBuf, syntax: Syntax) -> Result<Self, Failure> {
        let drawer = Drawer::new(&state_folder()?, agent.name(), &path);
        Ok(SettingsFile { agent, syntax, target: Target::read(path)?, drawer })
    }

    fn text(&self) -> &str {
        self.target.text.as_deref().unwrap_or_default()
    }

    fn refused(&self, why: &str) -> Failure {
        Failure::Refused(format!("{}: {why}; nothing was changed", self.target.path.display()))
    }

    fn is_ours(&self) -> impl Fn(&str, &Value) -> bool + 'static {
        let agent = self.agent;
        move |event, handler| format::is_ours(agent, event, handler)
    }

    /// Our handlers in the file.
    fn found(&self) -> Result<Vec<(String, Value)>, Failure> {
        let found = match self.syntax {
            Syntax::Json => json_text::find(self.text(), &self.is_ours()),
            Syntax::Toml => toml_text::find(self.text(), &self.is_ours()),
        };
        found.map_err(|why| self.refused(&why))
    }

    /// The text without our hooks: the copy if nothing else was changed. `None` if it has none.
    fn without(&self, notes: Option<&Notes>) -> Result<Option<String>, Failure> {
        if let Some(notes) = notes.filter(|notes| self.is_as_written(notes))
            && let Some(original) = self.drawer.original(notes)
        {
            return Ok(Some(original));
        }
        let removed = match self.syntax {
            Syntax::Json => {
                json_text::remove(self.text(), &self.is_ours(), notes.map(|notes| &notes.interiors))
            }
            Syntax::Toml => toml_text::remove(self.text(), &self.is_ours()),
        };
        let removed = removed.map_err(|why| self.refused(&why))?;
        let Some(notes) = notes.filter(|notes| !notes.members.is_empty()) else { return Ok(removed) };
        let text = removed.as_deref().unwrap_or(self.text());
        let without = json_text::remove_texts(text, &notes.members, &notes.interiors);
        Ok(without.map_err(|why| self.refused(&why))?.or(removed))
    }

    fn is_as_written(&self, notes: &Notes) -> bool {
        self.target.text.as_deref().is_some_and(|text| digest(text) == notes.written)
    }

    fn with(
        &self,
        base: &str,
        groups: &[Group],
        telemetry: Option<&Telemetry>,
    ) -> Result<(String, Interiors, Vec<TextMember>), Failure> {
        let added = match self.syntax {
            Syntax::Json if json_text::has_comments(base) && !self.agent.allows_comments() => {
                Err("not valid JSON: it has comments".to_owned())
            }
            Syntax::Json => json_text::add(base, groups),
            Syntax::Toml => toml_text::add(base, groups).map(|text| (text, Interiors::new())),
        };
        let (text, mut interiors) = added.map_err(|why| self.refused(&why))?;
        let Some(telemetry) = telemetry else { return Ok((text, interiors, Vec::new())) };
        let settings = json_text::value(base).unwrap_or(Value::Null);
        let now = json_text::value(self.text()).unwrap_or(Value::Null);
        let members = telemetry.members(Present::with(&settings), Present::with(&now));
        let members = members.map_err(|why| self.refused(&why))?;
        let text = json_text::add_texts(text, &members, &mut interiors).map_err(|why| self.refused(&why))?;
        Ok((text, interiors, members))
    }

    fn connect(
        self,
        groups: &[Group],
        telemetry: Option<&Telemetry>,
        dry_run: bool,
    ) -> Result<Change, Failure> {
        self.target.check_folder()?;
        let notes = self.drawer.read();
        let base = self.without(notes.as_ref())?.unwrap_or_else(|| self.text().to_owned());
        let (after, interiors, members) = self.with(&base, groups, telemetry)?;
        let existed =
            notes.as_ref().map_or(self.target.text.is_some(), |notes| notes.existed || !base.is_empty());
        let backup = existed.then(|| self.drawer.backup().to_owned());
        let is_changed = self.target.text.as_ref() != Some(&after);
        if is_changed && !dry_run {
            let made_folder = notes.as_ref().is_some_and(|notes| notes.made_folder)
                || self.target.path.parent().is_some_and(|folder| !folder.exists());
            let path = self.target.path.clone();
            let new = Notes { path, existed, made_folder, written: digest(&after), interiors, members };
            // Until the file is written, it has what the earlier notes name.
            let union = new.with(notes.as_ref());
            self.drawer.keep(union.as_ref().unwrap_or(&new), &base)?;
            self.target.write(&after)?;
            if union.is_some() {
                self.drawer.keep(&new, &base)?;
            }
        }
        let Target { path, text, .. } = self.target;
        Ok(Change { path, before: text, after: Some(after), backup })
    }

    fn disconnect(self, dry_run: bool) -> Result<Change, Failure> {
        let notes = self.drawer.read();
        let after = match self.without(notes.as_ref())? {
            None => self.target.text.clone(),
            Some(after) => {
                let is_left_over = match self.syntax {
                    Syntax::Json => after.trim().is_empty() || json_text::is_empty(&after),
                    Syntax::Toml => after.trim().is_empty(),
                };
                let was_made = notes.as_ref().is_some_and(|notes| !notes.existed);
                (!(was_made && is_left_over)).then_some(after)
            }
        };
        if !dry_run {
            match &after {
                _ if self.target.text == after => {}
                Some(after) => {
                    self.target.check_folder()?;
                    self.target.write(after)?;
                }
                None => {
                    self.target.check_folder()?;
                    self.target.remove()?;
                }
            }
            self.drawer.forget()?;
            if let (Some(notes), Some(folder)) = (notes, self.target.path.parent())
                && notes.made_folder
            {
                // What the agent keeps in it meanwhile stays.
                drop(std::fs::remove_dir(folder));
            }
        }
        let Target { path, text, .. } = self.target;
        Ok(Change { path, before: text, after, backup: None })
    }
}

impl Connect {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let agent = self.agent;
        if self.status {
            return status::show(agent, &settings_files(agent)?, &invocation);
        }
        let mut out = Output::new();
        if self.remove {
            let mut changes = Vec::new();
            let mut servers = Vec::new();
            for place in settings_files(agent)? {
                servers.extend(place.found()?.iter().filter_map(|(_, handler)| server_of(handler)));
                changes.push(place.disconnect(self.dry_run)?);
            }
            let changed = changes.iter().find(|change| change.before != change.after);
            let state = if self.dry_run { "would no longer be recorded" } else { "is no longer recorded" };
            let Some(change) = changed.or(changes.first()) else { return Ok(()) };
            change.show(agent, state, self.dry_run, invocation.json, &mut out)?;
            if let Some(endpoint) = change.endpoint(agent)
                && servers.iter().any(|server| telemetry::endpoint_of(server) == endpoint)
            {
                note(&format!(
                    "Claude Code still sends its telemetry to {}; connect did not write the variables for that",
                    telemetry::shown(&endpoint)
                ));
            }
            return Ok(());
        }
        let options = self.options(&invocation)?;
        let groups = format::groups(agent, &options);
        let telemetry = self.telemetry.then(|| Telemetry::new(&options.url, options.headers_helper()));
        let place = file_to_change(agent)?;
        let is_off = is_off(&place);
        let was_recorded = !place.found()?.is_empty();
        let change = place.connect(&groups, telemetry.as_ref(), self.dry_run)?;
        let state = if self.dry_run { "would be recorded" } else { "is recorded" };
        change.show(agent, state, self.dry_run, invocation.json, &mut out)?;
        if let Some(setting) = is_off {
            let what = if self.telemetry { "only telemetry" } else { "nothing" };
            note(&format!("{setting} disables all hooks; {what} is recorded until it is changed"));
        }
        if self.dry_run || change.before == change.after {
            return Ok(());
        }
        if agent == Agent::Claude && change.endpoint(agent).is_none() && !is_socket(&options.url) {
            note("tokens and cost are not recorded; repeat the command with --telemetry to record them, too");
        }
        if agent == Agent::Codex {
            note("Codex runs new hooks only after they are trusted: open /hooks in Codex and trust them");
        }
        if !was_recorded {
            note("sessions that are open now are not recorded");
        }
        self.note_server(&options.url, &invocation)
    }

    /// Notes why the server would not accept hooks, if it would not.
    fn note_server(&self, url: &str, invocation: &Invocation) -> Result<(), Failure> {
        let token = given_token(invocation, url, self.token_file.as_deref())?;
        match (status::reach(url, token.as_deref()), token) {
            (Reach::Responds, _) => {}
            (Reach::Silent, _) => note(&format!("no server responds at {url}; start one with recount serve")),
            (Reach::Failed(why), _) => note(&format!("hooks may not be recorded: {why}")),
            (Reach::Unauthorized, Some(_)) => note(&format!("the server at {url} rejects the token")),
            (Reach::Unauthorized, None) => note(&format!(
                "the server at {url} requires a token; repeat the command with --token-file FILE"
            )),
        }
        Ok(())
    }

    fn options(&self, invocation: &Invocation) -> Result<Options, Failure> {
        // The address is checked before it is written anywhere.
        let url = Client::new(&invocation.url, None)?.base_url().to_owned();
        if invocation.token_is_typed() {
            let why = "--token is not written into settings; use --token-file FILE, or RECOUNT_TOKEN in the \
                       agent's environment";
            return Err(Failure::Usage(why.to_owned()));
        }
        if self.ask && self.agent == Agent::Gemini {
            let why = "Gemini CLI has no hook that answers permission requests; omit --ask";
            return Err(Failure::Usage(why.to_owned()));
        }
        if self.telemetry && self.agent != Agent::Claude {
            let why = "--telemetry configures only Claude Code; omit it for other agents";
            return Err(Failure::Usage(why.to_owned()));
        }
        if self.telemetry && is_socket(&url) {
            let why = "telemetry cannot be sent to a Unix socket; use the server's http address with --url, or omit \
                       --telemetry";
            return Err(Failure::Usage(format!("{url}: {why}")));
        }
        let token_file = self.token_file.as_deref().map(absolute).transpose()?;
        let program = std::env::current_exe()
            .map_err(|why| Failure::Own(format!("cannot find the path of this program: {why}")))?;
        if program.file_name().is_none_or(|name| name != format::PROGRAM) {
            let why = format!("{}: the program file must be named {}", program.display(), format::PROGRAM);
            return Err(Failure::Usage(why));
        }
        Ok(Options {
            program: shell_path(&program)?,
            // Agents send no HTTP to a socket.
            commands: self.command || token_file.is_some() || is_socket(&url),
            url,
            has_token: token_file.is_none()
                && invocation.token.as_ref().is_some_and(|token| !token.is_empty()),
            token_file,
            ask_seconds: self.ask.then_some(self.wait),
        })
    }
}

/// A path as it is written into a command. Agents on Windows use several shells, which agree on slashes but not on quotes.
fn shell_path(path: &Path) -> Result<String, Failure> {
    let text = text_of(path)?;
    if cfg!(not(windows)) {
        return Ok(text);
    }
    let text = text.replace('\\', "/");
    if format::is_plain(&text) {
        return Ok(text);
    }
    let why = "shells of Windows disagree on how to quote it; move it to a path of letters, digits and /._-";
    Err(Failure::Usage(format!("{}: {why}", path.display())))
}

/// The path of a token's file, from which a token can be read.
fn absolute(path: &Path) -> Result<String, Failure> {
    if small_file(path)?.is_empty() {
        return Err(Failure::Usage(format!("{}: the file has no token", path.display())));
    }
    let absolute =
        std::path::absolute(path).map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))?;
    shell_path(&absolute)
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::Usage(format!("{}: the path is not UTF-8", path.display())))
}

/// All files in which an agent's hooks may be.
fn settings_files(agent: Agent) -> Result<Vec<SettingsFile>, Failure> {
    let folder = agent.settings_folder()?;
    let names: &[(&str, Syntax)] = match agent {
        Agent::Claude | Agent::Gemini => &[("settings.json", Syntax::Json)],
        Agent::Codex => &[("hooks.json", Syntax::Json), ("config.toml", Syntax::Toml)],
    };
    names.iter().map(|(name, syntax)| SettingsFile::open(agent, folder.join(name), *syntax)).collect()
}

/// The file that hooks are added to. Codex warns if they are in both of its files.
fn file_to_change(agent: Agent) -> Result<SettingsFile, Failure> {
    if agent != Agent::Codex {
        return SettingsFile::open(agent, agent.settings_folder()?.join("settings.json"), Syntax::Json);
    }
    let hooks = agent.settings_folder()?.join("hooks.json");
    let config = agent.settings_folder()?.join("config.toml");
    // A file that is only checked for hooks may be a link, or another user's.
    let text = std::fs::read_to_string(&config).unwrap_or_default();
    let has_hooks = toml_text::has_hooks(&text)
        .map_err(|why| Failure::Refused(format!("{}: {why}; nothing was changed", config.display())))?;
    if has_hooks {
        return SettingsFile::open(agent, config, Syntax::Toml);
    }
    SettingsFile::open(agent, hooks, Syntax::Json)
}

/// The setting by which a person has turned all hooks off.
fn is_off(place: &SettingsFile) -> Option<&'static str> {
    let value = json_text::value(place.text()).unwrap_or(Value::Null);
    match place.agent {
        Agent::Claude if value["disableAllHooks"] == true => Some("disableAllHooks"),
        Agent::Gemini if value["hooksConfig"]["enabled"] == false => Some("hooksConfig.enabled"),
        Agent::Codex => {
            let config = place.target.path.with_file_name("config.toml");
            let text = std::fs::read_to_string(config).unwrap_or_default();
            toml_text::are_hooks_off(&text).then_some("features.hooks in config.toml")
        }
        _ => None,
    }
}

impl Change {
    /// The address that Claude Code sends its telemetry to after the change.
    fn endpoint(&self, agent: Agent) -> Option<String> {
        let settings = self.after.as_deref().and_then(json_text::value).unwrap_or(Value::Null);
        (agent == Agent::Claude).then(|| Present::with(&settings).endpoint()).flatten()
    }

    fn show(
        &self,
        agent: Agent,
        state: &str,
        dry_run: bool,
        as_json: bool,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let path = self.path.display().to_string();
        let is_changed = self.before != self.after;
        let (before, after) =
            (self.before.as_deref().unwrap_or_default(), self.after.as_deref().unwrap_or_default());
        let diff = difference::unified(&path, before, after);
        if as_json {
            return out.value(&json!({
                "agent": agent.name(),
                "path": path,
                "changed": is_changed && !dry_run,
                "diff": diff,
                "backup": self.backup,
            }));
        }
        if !is_changed {
            return out.line(&clean::line(&format!("{}: nothing to change in {path}", agent.name())));
        }
        for line in clean::lines(&diff) {
            out.line(&line)?;
        }
        let words = match (&self.after, &self.backup) {
            (None, _) => format!("{path} was created for it and is removed"),
            (Some(_), Some(backup)) if !dry_run => format!("copy of the previous file: {}", backup.display()),
            _ => path,
        };
        out.line(&clean::line(&format!("{} {state}; {words}", agent.name())))
    }
}
