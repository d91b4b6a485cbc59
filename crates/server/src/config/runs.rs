//! Configuration of runs of our own: how many at once, where they work, how they are held back.
//!
//! Look at [`Runs`]. What models, the sandbox and the policy make of it is their own business.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recount_agent::model::ModelsSettings;
use recount_agent::sandbox::SandboxSettings;
use serde::Deserialize;

use super::{amount, several, wrong};
use crate::StartError;
use crate::amounts::{bytes, duration, sized};
use crate::limits::{RUNS_AT_ONCE_DEFAULT, RUNS_AT_ONCE_MAX, TOOLS_AT_ONCE_MAX};
use crate::settings::Lookup;

/// What was settled.
#[derive(Debug, Clone)]
pub struct Runs {
    /// Runs that are worked at at a time, for each tenant.
    pub at_once: usize,
    /// Tools that run at a time, over all tenants.
    pub tools_at_once: usize,
    /// Folders that runs may work in and copy, with all below them.
    pub workspaces: Vec<PathBuf>,
    /// How long a copy is kept that is not worked in.
    pub keep: Option<Duration>,
    /// Whether runs read the `AGENTS.md` files of their workspaces.
    pub workspace_instructions: bool,
    pub sandbox: SandboxSettings,
    /// Where the rules are that calls are judged by.
    pub policy: Option<PathBuf>,
    pub models: ModelsSettings,
    /// The folder of the configuration, where what it names begins.
    pub folder: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunsSection {
    pub(super) at_once: Option<u64>,
    pub(super) tools_at_once: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkspacesSection {
    pub(super) allow: Option<Vec<String>>,
    pub(super) keep: Option<String>,
    pub(super) instructions: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SandboxSection {
    pub(super) mode: Option<String>,
    pub(super) strict: Option<bool>,
    pub(super) readable: Option<Vec<String>>,
    pub(super) hidden: Option<Vec<String>>,
    pub(super) environment: Option<BTreeMap<String, String>>,
    pub(super) memory_bytes: Option<String>,
    pub(super) processes: Option<u32>,
    pub(super) file_bytes: Option<String>,
    pub(super) tmp_bytes: Option<String>,
    pub(super) workspace_bytes: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicySection {
    pub(super) file: Option<PathBuf>,
}

/// What the file says.
#[derive(Default)]
pub(super) struct Sections {
    pub(super) runs: RunsSection,
    pub(super) workspaces: WorkspacesSection,
    pub(super) sandbox: SandboxSection,
    pub(super) policy: PolicySection,
    pub(super) models: ModelsSettings,
}

/// What the command line says.
#[derive(Default)]
pub(super) struct Said {
    pub(super) workspaces: Vec<String>,
    pub(super) sandbox: Option<String>,
    pub(super) policy: Option<PathBuf>,
}

/// What is so without being asked for.
pub(super) struct Usual<'a> {
    /// The home of whoever runs the server.
    pub(super) home: Option<PathBuf>,
    /// Whether only people at this machine can make runs, without being told apart.
    pub(super) is_personal: bool,
    /// The folder that the configuration file is in.
    pub(super) folder: &'a Path,
}

pub(super) fn settle<E: Fn(&str) -> Option<String>>(
    look: &mut Lookup<E>,
    said: Said,
    file: Sections,
    usual: &Usual<'_>,
) -> Result<Runs, StartError> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let joined = |items: Vec<String>| items.join(", ");
    let at_once = look.pick(
        "runs.at_once",
        None,
        "RECOUNT_RUNS__AT_ONCE",
        file.runs.at_once.map(|runs| runs.to_string()),
        RUNS_AT_ONCE_DEFAULT.to_string(),
    );
    let tools_at_once = look.pick(
        "runs.tools_at_once",
        None,
        "RECOUNT_RUNS__TOOLS_AT_ONCE",
        file.runs.tools_at_once.map(|tools| tools.to_string()),
        recount_agent::limits::TOOLS_AT_ONCE.to_string(),
    );
    let allow = look.pick(
        "workspaces.allow",
        (!said.workspaces.is_empty()).then(|| joined(said.workspaces)),
        "RECOUNT_WORKSPACES__ALLOW",
        file.workspaces.allow.map(joined),
        if usual.is_personal && usual.home.is_some() { "~" } else { "none" },
    );
    let keep = look.pick("workspaces.keep", None, "RECOUNT_WORKSPACES__KEEP", file.workspaces.keep, "7d");
    let instructions = look.pick(
        "workspaces.instructions",
        None,
        "RECOUNT_WORKSPACES__INSTRUCTIONS",
        file.workspaces.instructions.map(|read| read.to_string()),
        "true",
    );
    let least = SandboxSettings::default();
    let mode = look.pick("sandbox.mode", said.sandbox, "RECOUNT_SANDBOX__MODE", file.sandbox.mode, "auto");
    let strict = look.pick(
        "sandbox.strict",
        None,
        "RECOUNT_SANDBOX__STRICT",
        file.sandbox.strict.map(|strict| strict.to_string()),
        "false",
    );
    let readable = look.pick(
        "sandbox.readable",
        None,
        "RECOUNT_SANDBOX__READABLE",
        file.sandbox.readable.map(joined),
        "none",
    );
    let hidden =
        look.pick("sandbox.hidden", None, "RECOUNT_SANDBOX__HIDDEN", file.sandbox.hidden.map(joined), "none");
    let memory = look.pick(
        "sandbox.memory_bytes",
        None,
        "RECOUNT_SANDBOX__MEMORY_BYTES",
        file.sandbox.memory_bytes,
        sized(least.memory_bytes),
    );
    let processes = look.pick(
        "sandbox.processes",
        None,
        "RECOUNT_SANDBOX__PROCESSES",
        file.sandbox.processes.map(|count| count.to_string()),
        least.processes.to_string(),
    );
    let file_size = look.pick(
        "sandbox.file_bytes",
        None,
        "RECOUNT_SANDBOX__FILE_BYTES",
        file.sandbox.file_bytes,
        sized(least.file_bytes),
    );
    let tmp_size = look.pick(
        "sandbox.tmp_bytes",
        None,
        "RECOUNT_SANDBOX__TMP_BYTES",
        file.sandbox.tmp_bytes,
        sized(least.tmp_bytes),
    );
    let workspace_size = look.pick(
        "sandbox.workspace_bytes",
        None,
        "RECOUNT_SANDBOX__WORKSPACE_BYTES",
        file.sandbox.workspace_bytes,
        sized(least.workspace_bytes),
    );
    let variables = file.sandbox.environment.unwrap_or_default();
    let names: Vec<&str> = variables.keys().map(String::as_str).collect();
    // Their values may be anybody's business.
    look.note(
        "sandbox.environment",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        !names.is_empty(),
    );
    let policy = look.pick(
        "policy.file",
        said.policy.map(text),
        "RECOUNT_POLICY__FILE",
        file.policy.file.map(|path| text(usual.folder.join(path))),
        "none",
    );
    let mut models = file.models;
    let default = look.pick(
        "models.default",
        None,
        "RECOUNT_MODELS__DEFAULT",
        models.default.as_ref().map(|name| name.to_string()),
        "none",
    );
    models.default = match default.as_str() {
        "none" => None,
        name => Some(name.parse().map_err(|_| wrong("models.default", name, "PROVIDER/MODEL, or none"))?),
    };
    tell(look, &models);
    let size = |name: &str, said: &str| {
        bytes(said).filter(|size| *size > 0).ok_or_else(|| wrong(name, said, "one such as 2GiB"))
    };
    let sandbox = SandboxSettings {
        mode: mode.parse().map_err(|_| wrong("sandbox.mode", &mode, "auto, bubblewrap, landlock or off"))?,
        strict: strict.parse().map_err(|_| wrong("sandbox.strict", &strict, "true or false"))?,
        readable: several(&readable).into_iter().map(PathBuf::from).collect(),
        hidden: several(&hidden).into_iter().map(PathBuf::from).collect(),
        environment: variables,
        memory_bytes: size("sandbox.memory_bytes", &memory)?,
        processes: processes
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| wrong("sandbox.processes", &processes, "a number from 1"))?,
        file_bytes: size("sandbox.file_bytes", &file_size)?,
        tmp_bytes: size("sandbox.tmp_bytes", &tmp_size)?,
        workspace_bytes: size("sandbox.workspace_bytes", &workspace_size)?,
    };
    Ok(Runs {
        at_once: number("runs.at_once", &at_once, RUNS_AT_ONCE_MAX)?,
        tools_at_once: number("runs.tools_at_once", &tools_at_once, TOOLS_AT_ONCE_MAX)?,
        workspaces: several(&allow).iter().map(|path| folder(path, usual)).collect::<Result<_, _>>()?,
        keep: amount("workspaces.keep", &keep, "off, or one such as 7d or 12h", duration)?,
        workspace_instructions: instructions
            .parse()
            .map_err(|_| wrong("workspaces.instructions", &instructions, "true or false"))?,
        sandbox,
        policy: (policy != "none").then(|| policy.into()),
        models,
        folder: usual.folder.to_owned(),
    })
}

/// How many there may be of something, from 1.
fn number(name: &str, text: &str, most: usize) -> Result<usize, StartError> {
    let found = text.parse().ok().filter(|number| (1..=most).contains(number));
    found.ok_or_else(|| wrong(name, text, &format!("a number from 1 to {most}")))
}

/// What only the file can say of models, without what is secret.
fn tell<E: Fn(&str) -> Option<String>>(look: &mut Lookup<E>, models: &ModelsSettings) {
    let providers: Vec<String> = models
        .providers
        .iter()
        .map(|(name, provider)| match &provider.base_url {
            Some(url) => format!("{name} ({} at {url})", provider.kind),
            None => format!("{name} ({})", provider.kind),
        })
        .collect();
    let several = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    look.note("models.providers", several(&providers), !providers.is_empty());
    look.note("models.prices", format!("{} known", models.prices.len()), !models.prices.is_empty());
    look.note("models.rewrite", format!("{} rules", models.rewrite.len()), !models.rewrite.is_empty());
}

/// A folder that runs may work in.
fn folder(path: &str, usual: &Usual<'_>) -> Result<PathBuf, StartError> {
    let named = match (path.strip_prefix('~'), &usual.home) {
        (Some(""), Some(home)) => home.clone(),
        (Some(below), Some(home)) if below.starts_with('/') => home.join(&below[1..]),
        _ => PathBuf::from(path),
    };
    if named.is_absolute() {
        return Ok(named);
    }
    Err(wrong("workspaces.allow", path, "folders from the root on, or ~ for the home folder"))
}
