//! Validates the configuration of an own run: which fields each kind of run allows, and their values. Pure.
//!
//! Must not check whether a model, tool or folder exists: the performer does. Start with [`order`].

use recount_api::request::{self, Attachment};
use recount_engine::{FileCall, RunConfig};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, Json, door};

use super::template::Picked;
use super::{Accepted, shortened, text};
use crate::error::Refusal;
use crate::limits;

/// The tools that runs of kind `file` call.
const FILE_TOOLS: [&str; 6] = ["read_file", "write_file", "edit_file", "multi_edit", "glob", "grep"];

const MODES: [&str; 2] = ["clone", "in_place"];

const LOOP: &[RunKind] = &[RunKind::AgentLoop];
const COMMANDS: &[RunKind] = &[RunKind::AgentLoop, RunKind::Shell, RunKind::Git];
const OWN: &[RunKind] = &[RunKind::AgentLoop, RunKind::Shell, RunKind::Git, RunKind::File];

/// The options of a requested run. Missing options are `None`.
#[derive(Debug, Default)]
pub(crate) struct RunOptions {
    pub(crate) order: RunConfig,
    pub(crate) model: Option<String>,
    pub(crate) workspace_mode: Option<String>,
    /// The artifacts to look up.
    pub(crate) attachments: Vec<(ForeignId, Option<String>)>,
    /// Network access, if the request sets it.
    pub(crate) network: Option<bool>,
    /// The agent that the run uses.
    pub(crate) agent: Option<Picked>,
}

impl RunOptions {
    /// Fills in the options that the request does not set from the configuration of an agent.
    pub(crate) fn apply_template(&mut self, queued: &mut Queued, template: (Queued, RunConfig)) {
        let (by, then) = template;
        queued.agent = by.agent;
        if self.model.is_none() {
            self.model = by.model;
            queued.provider = by.provider;
        }
        let order = &mut self.order;
        order.system = order.system.take().or(then.system);
        order.ask_first = then.ask_first;
        order.tools = match order.tools.take() {
            Some(tools) => {
                order.ask_first.retain(|name| tools.contains(name));
                Some(tools)
            }
            None => then.tools,
        };
        order.max_turns = order.max_turns.or(then.max_turns);
        order.max_output_tokens = order.max_output_tokens.or(then.max_output_tokens);
        if order.workspace_source.is_none() && self.workspace_mode.is_none() {
            order.workspace_source = then.workspace_source;
            self.workspace_mode = by.workspace_mode;
        }
        order.network = self.network.unwrap_or(then.network);
        order.client_tools = then.client_tools;
        order.options = then.options;
        order.secrets = then.secrets;
        order.thinking = then.thinking;
        order.compact_above = then.compact_above;
    }
}

fn refused(detail: String) -> Refusal {
    Refusal::new(Code::OrderRefused, detail)
}

/// The options, whether each is present, and the kinds that allow it.
fn given_fields(order: &request::RunConfig) -> [(&'static str, bool, &'static [RunKind]); 19] {
    [
        ("model", order.model.is_some(), LOOP),
        ("system", order.system.is_some(), LOOP),
        ("workspace_instructions", order.workspace_instructions.is_some(), LOOP),
        ("tools", order.tools.is_some(), LOOP),
        ("max_turns", order.max_turns.is_some(), LOOP),
        ("budget_turns", order.budget_turns.is_some(), LOOP),
        ("max_output_tokens", order.max_output_tokens.is_some(), LOOP),
        ("attachments", order.attachments.is_some(), LOOP),
        ("resume", order.resume.is_some(), LOOP),
        ("from_sequence", order.from_sequence.is_some(), LOOP),
        ("workspace", order.workspace.is_some(), OWN),
        ("workspace_mode", order.workspace_mode.is_some(), OWN),
        ("copy_ignored", order.copy_ignored.is_some(), OWN),
        ("network", order.network.is_some(), COMMANDS),
        ("timeout_seconds", order.timeout_seconds.is_some(), COMMANDS),
        ("output_bytes_max", order.output_bytes_max.is_some(), COMMANDS),
        ("command", order.command.is_some(), &[RunKind::Shell]),
        ("args", order.args.is_some(), &[RunKind::Git]),
        ("file", order.file.is_some(), &[RunKind::File]),
    ]
}

fn named(kinds: &[RunKind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    names.join(", ")
}

/// Refuses run options that were sent without a kind.
pub(crate) fn refuse_run_config(order: &request::RunConfig) -> Accepted<()> {
    match given_fields(order).iter().find(|(_, is_there, _)| *is_there) {
        Some((name, ..)) => Err(refused(format!("{name} requires kind; send the kind of the first run"))),
        None => Ok(()),
    }
}

/// Validates the configuration of a run of this kind.
pub(crate) fn order(kind: RunKind, queued: &Queued, config: request::RunConfig) -> Accepted<RunOptions> {
    for (name, is_there, kinds) in given_fields(&config) {
        if is_there && !kinds.contains(&kind) {
            let (kinds, kind) = (named(kinds), kind.as_str());
            return Err(refused(format!(
                "{name} is allowed only for runs of kind {kinds}, and this run is of kind {kind}; leave it \
                 out"
            )));
        }
    }
    match kind {
        RunKind::AgentLoop => {
            let has_request = queued.request_text.as_ref().is_some_and(|text| !text.trim().is_empty());
            require("request_text", kind, has_request || config.resume.is_some())?;
        }
        RunKind::Shell => {
            require("command", kind, config.command.as_ref().is_some_and(|c| !c.trim().is_empty()))?
        }
        RunKind::Git => require("args", kind, config.args.as_ref().is_some_and(|args| !args.is_empty()))?,
        RunKind::File => require("file", kind, config.file.is_some())?,
        RunKind::External => {}
    }
    if config.from_sequence.is_some() && config.resume.is_none() {
        return Err(refused("from_sequence requires resume; send both, or leave it out".to_owned()));
    }
    parse_fields(config)
}

fn require(name: &str, kind: RunKind, is_there: bool) -> Accepted<()> {
    let kind = kind.as_str();
    if is_there { Ok(()) } else { Err(refused(format!("a run of kind {kind} requires {name}; send it"))) }
}

/// Validates each field on its own.
fn parse_fields(config: request::RunConfig) -> Accepted<RunOptions> {
    let workspace = config.workspace.map(folder).transpose()?;
    let workspace_mode =
        config.workspace_mode.map(|mode| one_of("workspace_mode", mode, &MODES)).transpose()?;
    if workspace_mode.as_deref() == Some("in_place") && workspace.is_none() {
        return Err(refused(
            "workspace_mode in_place requires workspace; send the path of the folder".to_owned(),
        ));
    }
    let order = RunConfig {
        system: text("system", config.system)?,
        workspace_instructions: config.workspace_instructions,
        tools: config
            .tools
            .map(|tools| list("tools", tools, limits::TOOLS_MAX, limits::NAME_BYTES_MAX))
            .transpose()?,
        max_turns: number("max_turns", config.max_turns, limits::TURNS_MAX)?,
        budget_turns: number("budget_turns", config.budget_turns, limits::TURNS_MAX)?,
        max_output_tokens: number("max_output_tokens", config.max_output_tokens, limits::OUTPUT_TOKENS_MAX)?,
        workspace_source: workspace,
        copy_ignored: config.copy_ignored.unwrap_or(false),
        network: config.network.unwrap_or(false),
        timeout_seconds: number("timeout_seconds", config.timeout_seconds, limits::TIMEOUT_SECONDS_MAX)?,
        output_bytes_max: number("output_bytes_max", config.output_bytes_max, limits::OUTPUT_BYTES_MAX)?,
        command: text("command", plain("command", config.command)?)?,
        args: config
            .args
            .map(|args| list("args", args, limits::ARGS_MAX, limits::ARG_BYTES_MAX))
            .transpose()?,
        file: config.file.map(file).transpose()?,
        ..RunConfig::default()
    };
    let attachments = attachments(config.attachments)?;
    Ok(RunOptions {
        order,
        model: bounded("model", config.model, limits::NAME_BYTES_MAX)?,
        workspace_mode,
        attachments,
        network: config.network,
        agent: None,
    })
}

/// Validates the attachments of a request: artifact ids, each with the name of its file.
pub(crate) fn attachments(
    attachments: Option<Vec<Attachment>>,
) -> Accepted<Vec<(ForeignId, Option<String>)>> {
    let attachments = attachments.unwrap_or_default();
    if attachments.len() > limits::ATTACHMENTS_MAX {
        return Err(too_many("attachments", attachments.len(), limits::ATTACHMENTS_MAX));
    }
    attachments.into_iter().map(attachment).collect()
}

fn attachment(one: Attachment) -> Accepted<(ForeignId, Option<String>)> {
    let id = ForeignId::parse(&one.artifact_id).map_err(|_| {
        refused(format!("attachments: {:?} is not an artifact id", shortened(&one.artifact_id)))
    })?;
    Ok((id, bounded("attachments.name", one.name, limits::PATH_BYTES_MAX)?))
}

fn folder(path: String) -> Accepted<String> {
    let refused = |why: &str| {
        let shown = shortened(&path);
        Refusal::new(Code::WorkspaceRefused, format!("workspace is {shown:?}, which {why}"))
    };
    if !path.starts_with('/') {
        return Err(refused("is not absolute; send an absolute path"));
    }
    if path.len() > limits::PATH_BYTES_MAX || path.contains('\0') {
        return Err(refused("is not a valid path"));
    }
    Ok(path)
}

fn file(order: request::FileOrder) -> Accepted<FileCall> {
    let malformed = |why: String| refused(format!("file.input is not valid: {why}"));
    let compact = door::compact(order.input.get()).map_err(|why| malformed(why.to_string()))?;
    if !compact.starts_with('{') {
        return Err(malformed("it is not an object".to_owned()));
    }
    let input = Json::parse(&compact).map_err(|why| malformed(why.to_string()))?;
    Ok(FileCall { tool: one_of("file.tool", order.tool, &FILE_TOOLS)?, input })
}

fn one_of(name: &str, word: String, known: &[&str]) -> Accepted<String> {
    if known.contains(&word.as_str()) {
        return Ok(word);
    }
    Err(refused(format!("{name} is {:?}; send one of {}", shortened(&word), known.join(", "))))
}

/// Validates a number from 1 to a limit.
pub(crate) fn number<N: Copy + Into<u64>>(name: &str, number: Option<N>, most: u64) -> Accepted<Option<N>> {
    match number.map(Into::into) {
        Some(0) => Err(refused(format!("{name} is 0; send at least 1, or leave it out"))),
        Some(large) if large > most => {
            Err(Refusal::new(Code::LimitReached, format!("{name} is {large}; send at most {most}")))
        }
        _ => Ok(number),
    }
}

/// Validates a text of limited length.
pub(crate) fn bounded(name: &str, text: Option<String>, most: usize) -> Accepted<Option<String>> {
    match text {
        Some(text) if text.len() > most => {
            let detail = format!("{name} has {} bytes; send at most {most}", text.len());
            Err(Refusal::new(Code::LimitReached, detail))
        }
        text => plain(name, text),
    }
}

/// Validates a text that can be an argument of a program.
fn plain(name: &str, text: Option<String>) -> Accepted<Option<String>> {
    match text {
        Some(text) if text.contains('\0') => Err(refused(format!("{name} contains a NUL byte; remove it"))),
        text => Ok(text),
    }
}

fn list(name: &str, items: Vec<String>, most: usize, bytes: usize) -> Accepted<Vec<String>> {
    if items.len() > most {
        return Err(too_many(name, items.len(), most));
    }
    for item in &items {
        bounded(name, Some(item.clone()), bytes)?;
    }
    Ok(items)
}

fn too_many(name: &str, are: usize, most: usize) -> Refusal {
    Refusal::new(Code::LimitReached, format!("{name} has {are} entries; send at most {most}"))
}

/// The title of a run of one command that has none: the first words of the command. No word is cut, because the rest of a
/// secret would no longer be found and masked.
pub(super) fn title_of(command: &str) -> Option<String> {
    let line = command.trim().lines().next()?;
    let words = line.split_inclusive(' ');
    let mut length = 0;
    let fits = |word: &&str| {
        length += word.chars().count();
        length <= limits::COMMAND_TITLE_CHARS_MAX
    };
    let title: String = words.take_while(fits).collect();
    match title.trim_end() {
        "" => None,
        title if title.len() < command.trim().len() => Some(format!("{title} …")),
        title => Some(title.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_title_is_its_own_title() {
        let long = format!("cargo test {}", "word ".repeat(40));
        let cut = format!("cargo test {}…", "word ".repeat(13));
        for (command, title) in [
            ("ls -1", Some("ls -1")),
            ("  make test\nmake lint", Some("make test …")),
            (long.as_str(), Some(cut.as_str())),
            (&"x".repeat(200), None),
            (" ", None),
        ] {
            assert_eq!(title_of(command).as_deref(), title, "{command:?}");
        }
    }
}
