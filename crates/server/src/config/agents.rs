//! Configuration of agents: the keys of `[agents.NAME]`, and the profiles made of them.
//!
//! Start at [`Agents`]. Invalid keys are refused here, before anything listens. The tools of this machine are known
//! later, so [`Agents::profiles`] gets them. It must never know a wire format.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use recount_agent::mcp::{self, McpServers};
use recount_agent::model::{ModelName, ModelsSettings, Secret};
use recount_agent::tools::{COMMAND_TOOLS, Tools};
use recount_agent::web::WEB_TOOLS;
use recount_api::spelling;
use recount_engine::{AgentOption, Capabilities, OptionKind, OptionTarget, Profile, Profiles, ToolInfo};
use recount_event::Json;
use serde::{Deserialize, Deserializer};

use super::runs::Runs;
use crate::StartError;
use crate::limits::{AGENT_NAME_MAX, SYSTEM_FILE_BYTES_MAX};
use crate::settings::{Lookup, join_names};

/// The default agent: it exists if none is configured and there is a default model.
pub(crate) const AGENT_DEFAULT: &str = "assistant";

/// Keys below `[agents.NAME]`, for messages about an unknown one.
pub(super) const AGENT_KEYS: [&str; 27] = [
    "agents",
    "title",
    "version",
    "description",
    "model",
    "system",
    "system_file",
    "tools",
    "hidden_tools",
    "mcp_servers",
    "options",
    "history",
    "client_tools",
    "images",
    "thinking",
    "max_turns",
    "max_output_tokens",
    "compact_above",
    "workspace",
    "workspace_mode",
    "network",
    "name",
    "type",
    "default",
    "default_env",
    "values",
    "sets",
];

/// The configured agents. The debug form holds no secret.
#[derive(Clone, Default)]
pub struct Agents(Vec<AgentDefinition>);

#[derive(Clone)]
struct AgentDefinition {
    /// The profile without its tools.
    profile: Profile,
    exposed: ToolSelection,
}

#[derive(Clone)]
enum ToolSelection {
    /// All tools of this machine.
    All,
    These(Vec<String>),
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentSection {
    title: Option<String>,
    version: Option<String>,
    description: Option<String>,
    model: Option<String>,
    system: Option<String>,
    system_file: Option<PathBuf>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    hidden_tools: Vec<String>,
    #[serde(default)]
    mcp_servers: Vec<String>,
    #[serde(default)]
    options: Vec<OptionSection>,
    history: Option<Vec<String>>,
    client_tools: Option<bool>,
    images: Option<Vec<String>>,
    #[serde(default)]
    thinking: bool,
    max_turns: Option<u64>,
    max_output_tokens: Option<u32>,
    compact_above: Option<u64>,
    workspace: Option<String>,
    workspace_mode: Option<String>,
    #[serde(default)]
    network: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionSection {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    title: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "quoted")]
    default: Option<Secret>,
    default_env: Option<String>,
    values: Option<Vec<String>>,
    sets: Option<String>,
}

/// A text that may be secret: the error for another type does not repeat the value.
fn quoted<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::String(text) => Ok(Some(Secret::new(text))),
        other => {
            let what = other.type_str();
            Err(serde::de::Error::custom(format!("the default is of the type {what}; use a quoted string")))
        }
    }
}

/// What the keys of an agent are checked against.
struct AgentContext<'a> {
    models: &'a ModelsSettings,
    mcp: &'a McpServers,
    /// The folder that relative paths in the configuration start from.
    folder: &'a Path,
    home: Option<&'a Path>,
    environment: &'a dyn Fn(&str) -> Option<String>,
}

/// `configured` is `None` if the file has no agents.
pub(super) fn settle(
    lookup: &mut Lookup<'_>,
    configured: Option<BTreeMap<String, AgentSection>>,
    runs: &Runs,
    home: Option<&Path>,
) -> Result<Agents, StartError> {
    let is_configured = configured.is_some();
    let environment = |name: &str| lookup.variable(name);
    let Runs { models, mcp, folder, .. } = runs;
    let context = AgentContext { models, mcp, folder, home, environment: &environment };
    let agents = match configured {
        Some(sections) => {
            let settled =
                sections.into_iter().map(|(name, section)| AgentName(&name).settled(section, &context));
            settled.collect::<Result<Vec<_>, _>>()?
        }
        None if models.default.is_some() => vec![assistant()],
        None => Vec::new(),
    };
    let agents = Agents(agents);
    lookup.note("models", "agents", join_names(&agents.names().collect::<Vec<_>>()), is_configured);
    Ok(agents)
}

fn assistant() -> AgentDefinition {
    let profile = Profile {
        name: AGENT_DEFAULT.into(),
        title: Some("Assistant".into()),
        version: VERSION_DEFAULT.into(),
        description: Some("Uses the tools of this server and requests approval before it uses one.".into()),
        ..Profile::default()
    };
    AgentDefinition { profile, exposed: ToolSelection::All }
}

const VERSION_DEFAULT: &str = "0.1.0";

impl Agents {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|agent| agent.profile.name.as_str())
    }

    /// Defaults of secret options, to be masked.
    pub fn secrets(&self) -> Vec<Secret> {
        let options = self.0.iter().flat_map(|agent| &agent.profile.options);
        let secret = options.filter(|option| option.kind == OptionKind::Secret && !option.default.is_empty());
        secret.map(|option| Secret::new(option.default.clone())).collect()
    }

    /// The agents with the tools of this machine, and a sentence for each agent that misses tools.
    pub(crate) fn profiles(&self, tools: &Tools) -> (Profiles, Vec<String>) {
        let mut without = Vec::new();
        let here: BTreeSet<&str> = tools.names().collect();
        let profiles = self.0.iter().map(|AgentDefinition { profile, exposed }| {
            let mut missing = Vec::new();
            let mut here = |names: &[String]| -> Vec<String> {
                let (there, not): (Vec<_>, Vec<_>) = names
                    .iter()
                    .cloned()
                    .partition(|name| name.starts_with(mcp::PREFIX) || here.contains(name.as_str()));
                missing.extend(not);
                there
            };
            let exposed = match exposed {
                ToolSelection::All => tools.available().map(str::to_owned).collect(),
                ToolSelection::These(names) => here(names),
            };
            let hidden = here(&profile.hidden);
            if !missing.is_empty() {
                let missing = missing.join(", ");
                without.push(format!(
                    "the agent {} has no {missing}, because no sandbox works on this machine",
                    profile.name
                ));
            }
            // All of them exist.
            let specs = tools.specs(&exposed).unwrap_or_default().into_iter();
            let infos = specs.map(|spec| ToolInfo {
                name: spec.name,
                title: None,
                description: spec.description,
                parameters: Json::of(&spec.schema).expect("a schema is JSON"),
            });
            Profile { tools: infos.collect(), hidden, ..profile.clone() }
        });
        let profiles = Profiles::new(profiles.collect::<Vec<_>>());
        (profiles, without)
    }
}

/// The name of an agent, for error messages.
struct AgentName<'a>(&'a str);

impl AgentName<'_> {
    fn wrong(&self, key: &str, why: impl fmt::Display) -> StartError {
        StartError::usage(format!("agents.{}.{key}: {why}", self.0))
    }

    fn settled(
        &self,
        section: AgentSection,
        context: &AgentContext<'_>,
    ) -> Result<AgentDefinition, StartError> {
        if !is_name(self.0) {
            return Err(StartError::usage(format!(
                "agents: {:?} is not a valid agent name; use 1 to {AGENT_NAME_MAX} letters, digits, `.`, `_` and `-`",
                self.0
            )));
        }
        let version = section.version.unwrap_or_else(|| VERSION_DEFAULT.to_owned());
        if !is_version(&version) {
            return Err(self.wrong("version", format!("{version:?} is not a version; use one such as 1.2.0")));
        }
        if let Some(model) = &section.model {
            self.model("model", model, context)?;
        }
        let options = self.options(section.options, context)?;
        let has_model_option = options
            .iter()
            .any(|option| option.sets == Some(OptionTarget::Model) && !option.default.is_empty());
        if section.model.is_none() && context.models.default.is_none() && !has_model_option {
            let why =
                "no model is set and no default is configured; set PROVIDER/MODEL here or in models.default";
            return Err(self.wrong("model", why));
        }
        self.tools("tools", &section.tools)?;
        self.tools("hidden_tools", &section.hidden_tools)?;
        if let Some(both) = section.tools.iter().find(|name| section.hidden_tools.contains(name)) {
            return Err(self.wrong(
                "hidden_tools",
                format!("{both:?} is also in tools; remove it from one of the two lists"),
            ));
        }
        let history =
            self.among("history", section.history, &["full", "compacted"], &["full", "compacted"])?;
        let images = self.among("images", section.images, &["data", "https"], &["data"])?;
        for (key, number) in [
            ("max_turns", section.max_turns),
            ("max_output_tokens", section.max_output_tokens.map(u64::from)),
            ("compact_above", section.compact_above),
        ] {
            if number == Some(0) {
                return Err(self.wrong(key, "0 is not allowed; use a number of at least 1"));
            }
        }
        let mode = section.workspace_mode.as_deref();
        if let Some(other) = mode.filter(|mode| !["clone", "in_place"].contains(mode)) {
            return Err(
                self.wrong("workspace_mode", format!("unknown mode {other:?}; use clone or in_place"))
            );
        }
        if mode == Some("in_place") && section.workspace.is_none() {
            return Err(self.wrong("workspace", "is missing; in_place needs a folder to work in"));
        }
        let profile = Profile {
            name: self.0.to_owned(),
            title: section.title,
            version,
            description: section.description,
            model: section.model,
            system: self.system(section.system, section.system_file, context)?,
            tools: Vec::new(),
            hidden: [section.hidden_tools, self.servers(section.mcp_servers, context)?].concat(),
            options,
            capabilities: Capabilities {
                history_full: history.contains("full"),
                history_compacted: history.contains("compacted"),
                client_tools: section.client_tools.unwrap_or(true),
                images_http: images.contains("https"),
                images_data: images.contains("data"),
            },
            thinking: section.thinking,
            max_turns: section.max_turns,
            max_output_tokens: section.max_output_tokens,
            compact_above: section.compact_above,
            workspace_source: section.workspace.map(|path| self.folder(&path, context)).transpose()?,
            workspace_mode: section.workspace_mode,
            network: section.network,
        };
        Ok(AgentDefinition { profile, exposed: ToolSelection::These(section.tools) })
    }

    fn model(&self, key: &str, text: &str, context: &AgentContext<'_>) -> Result<(), StartError> {
        let Ok(ModelName { provider, .. }) = text.parse::<ModelName>() else {
            return Err(self.wrong(key, format!("{text:?} is not a model name; use PROVIDER/MODEL")));
        };
        if context.models.providers.contains_key(&provider) {
            return Ok(());
        }
        let known: Vec<&str> = context.models.providers.keys().map(String::as_str).collect();
        let known = match known.as_slice() {
            [] => "no providers are configured: see [models.providers]".to_owned(),
            known => format!("known providers: {}", known.join(", ")),
        };
        Err(self.wrong(key, format!("{text:?} has the unknown provider {provider:?}; {known}")))
    }

    fn tools(&self, key: &str, names: &[String]) -> Result<(), StartError> {
        let standard = Tools::standard();
        let more = COMMAND_TOOLS.iter().chain(WEB_TOOLS).copied();
        let known: BTreeSet<&str> = standard.names().chain(more).collect();
        let mut seen = BTreeSet::new();
        for name in names {
            if !known.contains(name.as_str()) {
                let near = spelling::nearest(name, known.iter().copied());
                let near = near.map(|near| format!("; did you mean `{near}`")).unwrap_or_default();
                let all = known.iter().copied().collect::<Vec<_>>().join(", ");
                return Err(self.wrong(key, format!("unknown tool {name:?}{near}; available tools: {all}")));
            }
            if !seen.insert(name) {
                return Err(self.wrong(key, format!("{name:?} is listed twice; remove one")));
            }
        }
        Ok(())
    }

    /// All tools of the servers of these names.
    fn servers(&self, names: Vec<String>, context: &AgentContext<'_>) -> Result<Vec<String>, StartError> {
        let mut tools = Vec::new();
        for name in names {
            if !context.mcp.names().any(|known| known == name) {
                let known: Vec<&str> = context.mcp.names().collect();
                let known = match known.as_slice() {
                    [] => "no MCP servers are configured: see [mcp.servers]".to_owned(),
                    known => format!("known servers: {}", known.join(", ")),
                };
                return Err(self.wrong("mcp_servers", format!("unknown MCP server {name:?}; {known}")));
            }
            let all = format!("{}{name}__*", mcp::PREFIX);
            if tools.contains(&all) {
                return Err(self.wrong("mcp_servers", format!("{name:?} is listed twice; remove one")));
            }
            tools.push(all);
        }
        Ok(tools)
    }

    /// The given values, if all of them are known.
    fn among(
        &self,
        key: &str,
        configured: Option<Vec<String>>,
        known: &[&'static str],
        otherwise: &[&'static str],
    ) -> Result<BTreeSet<&'static str>, StartError> {
        let Some(configured) = configured else { return Ok(otherwise.iter().copied().collect()) };
        let find = |word: String| {
            let found = known.iter().copied().find(|known| *known == word);
            found.ok_or_else(|| {
                self.wrong(key, format!("invalid value {word:?}; known values: {}", known.join(", ")))
            })
        };
        configured.into_iter().map(find).collect()
    }

    fn system(
        &self,
        text: Option<String>,
        file: Option<PathBuf>,
        context: &AgentContext<'_>,
    ) -> Result<Option<String>, StartError> {
        let Some(file) = file else { return Ok(text) };
        if text.is_some() {
            return Err(self.wrong("system_file", "system is also set; set only one of the two"));
        }
        let path = context.folder.join(file);
        let wrong = |why: String| self.wrong("system_file", format!("{} {why}", path.display()));
        let cannot = |why: std::io::Error| wrong(format!("cannot be read: {why}"));
        let size = std::fs::metadata(&path).map_err(cannot)?.len();
        if size > SYSTEM_FILE_BYTES_MAX {
            return Err(wrong(format!("has {size} bytes; the limit is {SYSTEM_FILE_BYTES_MAX}")));
        }
        let bytes = std::fs::read(&path).map_err(cannot)?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".to_owned()))?;
        Ok(Some(text.trim_end().to_owned()))
    }

    fn folder(&self, path: &str, context: &AgentContext<'_>) -> Result<String, StartError> {
        let named = match (path.strip_prefix('~'), context.home) {
            (Some(""), Some(home)) => home.to_owned(),
            (Some(below), Some(home)) if below.starts_with('/') => home.join(&below[1..]),
            _ => PathBuf::from(path),
        };
        if !named.is_absolute() {
            let why = format!("{path:?} is not absolute; use an absolute path, or one that starts with ~");
            return Err(self.wrong("workspace", why));
        }
        Ok(named.to_string_lossy().into_owned())
    }

    fn options(
        &self,
        sections: Vec<OptionSection>,
        context: &AgentContext<'_>,
    ) -> Result<Vec<AgentOption>, StartError> {
        let mut options: Vec<AgentOption> = Vec::with_capacity(sections.len());
        for section in sections {
            if !is_name(&section.name) {
                let why = format!("invalid name {:?}; use letters, digits, `.`, `_` and `-`", section.name);
                return Err(self.wrong("options", why));
            }
            let option = self.option(section, context)?;
            for other in &options {
                if other.name == option.name {
                    return Err(self.wrong("options", format!("{:?} is used twice; rename one", option.name)));
                }
                if option.sets.is_some() && other.sets == option.sets {
                    let why = format!("sets the same value as {}; remove one of the two", other.name);
                    return Err(self.wrong(&format!("options.{}.sets", option.name), why));
                }
            }
            options.push(option);
        }
        Ok(options)
    }

    fn option(&self, section: OptionSection, context: &AgentContext<'_>) -> Result<AgentOption, StartError> {
        let OptionSection { name, kind, title, description, default, default_env, values, sets } = section;
        let wrong = |key: &str, why: String| self.wrong(&format!("options.{name}.{key}"), why);
        let kind = match (kind.as_str(), values) {
            ("select", Some(values)) if !values.is_empty() => OptionKind::Select(values),
            ("select", _) => {
                return Err(wrong("values", "is missing; a select needs at least one value".into()));
            }
            (_, Some(_)) => {
                return Err(wrong("values", "only options of type select have values; remove it".into()));
            }
            ("text", None) => OptionKind::Text,
            ("secret", None) => OptionKind::Secret,
            (other, None) => {
                return Err(wrong("type", format!("unknown type {other:?}; use text, secret or select")));
            }
        };
        let sets = match sets.as_deref() {
            None => None,
            Some("model") => Some(OptionTarget::Model),
            Some("max_turns") => Some(OptionTarget::MaxTurns),
            Some("max_output_tokens") => Some(OptionTarget::MaxOutputTokens),
            Some("api_key") => Some(OptionTarget::ApiKey),
            Some(other) => {
                let why =
                    format!("invalid value {other:?}; use model, max_turns, max_output_tokens or api_key");
                return Err(wrong("sets", why));
            }
        };
        match (&kind, sets) {
            (OptionKind::Secret, Some(OptionTarget::ApiKey)) | (_, None) => {}
            (OptionKind::Secret, Some(_)) => {
                return Err(wrong("sets", "a secret can only set api_key; use type = \"text\"".into()));
            }
            (_, Some(OptionTarget::ApiKey)) => {
                return Err(wrong("sets", "only a secret can set api_key; use type = \"secret\"".into()));
            }
            (_, Some(_)) => {}
        }
        let default = match (default, default_env) {
            (Some(_), Some(_)) => {
                return Err(wrong("default_env", "default is also set; set only one of the two".into()));
            }
            (Some(default), None) => Some(default.reveal().to_owned()),
            (None, Some(variable)) => match (context.environment)(&variable) {
                Some(value) => Some(value),
                None => {
                    return Err(wrong(
                        "default_env",
                        format!(
                            "the environment variable {variable} is not set; set it, or remove this line"
                        ),
                    ));
                }
            },
            (None, None) => None,
        };
        let default = match (&kind, default) {
            (OptionKind::Select(values), None) => values.first().cloned().unwrap_or_default(),
            (OptionKind::Select(values), Some(default)) if !values.contains(&default) => {
                let why = format!("{default:?} is not one of the values: {}", values.join(", "));
                return Err(wrong("default", why));
            }
            (_, default) => default.unwrap_or_default(),
        };
        let can_be: Vec<&str> = match &kind {
            OptionKind::Select(values) => values.iter().map(String::as_str).collect(),
            OptionKind::Text if !default.is_empty() => vec![&default],
            OptionKind::Text | OptionKind::Secret => Vec::new(),
        };
        let key = if matches!(kind, OptionKind::Select(_)) { "values" } else { "default" };
        for value in can_be {
            match sets {
                Some(OptionTarget::Model) => self.model(&format!("options.{name}.{key}"), value, context)?,
                Some(OptionTarget::MaxTurns | OptionTarget::MaxOutputTokens)
                    if !value.parse::<u32>().is_ok_and(|number| number > 0) =>
                {
                    return Err(wrong(key, format!("{value:?} is not a whole number of at least 1")));
                }
                _ => {}
            }
        }
        Ok(AgentOption { name, title, description, kind, default, sets })
    }
}

/// Whether a text is a valid name: it must be usable as is in addresses and file names.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=AGENT_NAME_MAX).contains(&text.len())
        && text.bytes().all(plain)
        && text.bytes().any(|byte| byte != b'.')
}

/// Three numbers with dots between them, and an optional suffix.
fn is_version(text: &str) -> bool {
    let (core, rest) = match text.find(['-', '+']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let number = |part: &str| {
        part.parse::<u64>().is_ok()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
    core.split('.').count() == 3
        && core.split('.').all(number)
        && rest.is_none_or(|rest| !rest.is_empty() && rest.bytes().all(plain))
}

#[cfg(test)]
mod tests;
