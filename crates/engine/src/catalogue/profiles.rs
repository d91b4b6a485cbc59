//! Configured agents: their tools, options and capabilities, and the choices of clients. Builds a [`RunConfig`] from
//! a choice; that part is pure.
//!
//! Start with [`Profile::run_config`]. It must not depend on a wire format.

use std::collections::{BTreeMap, BTreeSet};

use recount_event::family::run::{Agent, Queued, RunKind};
use recount_event::{Code, Json};

use crate::{ClientTool, Purpose, RunConfig, Unacceptable};

/// A configured agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    pub name: String,
    pub title: Option<String>,
    /// A semantic version, such as `1.2.0`.
    pub version: String,
    pub description: Option<String>,
    /// `PROVIDER/MODEL`; the server's default if missing.
    pub model: Option<String>,
    /// The system prompt. `{name}` inserts the value of an option that is not secret; `{{` and `}}` insert braces.
    pub system: Option<String>,
    /// Tools that a client may enable.
    pub tools: Vec<ToolInfo>,
    /// Tools that are always enabled and that clients do not see, by name.
    pub hidden: Vec<String>,
    pub options: Vec<AgentOption>,
    pub capabilities: Capabilities,
    /// Whether the thinking of the model is reported.
    pub thinking: bool,
    pub max_turns: Option<u64>,
    pub max_output_tokens: Option<u32>,
    pub compact_above: Option<u64>,
    pub workspace_source: Option<String>,
    pub workspace_mode: Option<String>,
    pub network: bool,
}

/// A built-in tool as shown to clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    /// A JSON Schema of the input.
    pub parameters: Json,
}

/// What applications may do with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub history_full: bool,
    pub history_compacted: bool,
    /// Whether applications may add their own tools.
    pub client_tools: bool,
    /// Whether images may be sent by URL, and as data.
    pub images_http: bool,
    pub images_data: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            history_full: true,
            history_compacted: true,
            client_tools: true,
            images_http: false,
            images_data: true,
        }
    }
}

/// An option that a client can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOption {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub kind: OptionKind,
    /// The value if the client sets none.
    pub default: String,
    /// The setting that the value determines, in addition to its use in the system prompt.
    pub sets: Option<OptionTarget>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionKind {
    Text,
    /// Never returned, and stored sealed.
    Secret,
    /// One of these values.
    Select(Vec<String>),
}

/// The setting that an option determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionTarget {
    Model,
    MaxTurns,
    MaxOutputTokens,
    /// The key for the model's provider. Secret options only.
    ApiKey,
}

/// A tool that a client enables.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ToolRef {
    pub name: String,
    /// Whether calls need no approval; the default is no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<bool>,
}

/// The choices of a client.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice<'a> {
    /// `None`: enables no tools.
    pub tools: Option<&'a [ToolRef]>,
    pub options: BTreeMap<&'a str, &'a str>,
    /// Secret options that have a value.
    pub secrets: BTreeSet<&'a str>,
    pub client_tools: &'a [ClientTool],
    /// A folder to work in instead of the agent's own.
    pub workspace: Option<&'a ChosenWorkspace>,
}

/// A folder that a client chose. The performer decides whether runs may work in it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChosenWorkspace {
    /// An absolute path.
    pub source: String,
    /// `clone` if missing, regardless of the agent's own mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy_ignored: bool,
}

impl Profile {
    pub fn option(&self, name: &str) -> Option<&AgentOption> {
        self.options.iter().find(|option| option.name == name)
    }

    /// Checks a choice. The refusal names the invalid part.
    pub fn admits(&self, choice: &Choice<'_>) -> Result<(), Unacceptable> {
        for tool in choice.tools.unwrap_or_default() {
            if !self.tools.iter().any(|known| known.name == tool.name) {
                return Err(no(Code::OrderRefused, self.no_tool(&tool.name)));
            }
        }
        for (name, value) in &choice.options {
            let Some(option) = self.option(name) else {
                return Err(no(Code::OptionInvalid, self.no_option(name)));
            };
            option.admits(value)?;
        }
        if !choice.client_tools.is_empty() && !self.capabilities.client_tools {
            let message = format!(
                "the agent {} does not accept tools of the application; omit client tools",
                self.name
            );
            return Err(no(Code::OrderRefused, message));
        }
        let mut names: BTreeSet<&str> = self.hidden.iter().map(String::as_str).collect();
        names.extend(self.tools.iter().map(|tool| tool.name.as_str()));
        for tool in choice.client_tools {
            if !names.insert(&tool.name) {
                let message = format!(
                    "the tool name {:?} is already used by another tool of the application or of the agent; \
                     choose another name",
                    tool.name
                );
                return Err(no(Code::OrderRefused, message));
            }
        }
        Ok(())
    }

    fn no_tool(&self, name: &str) -> String {
        let known: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let known = match known.as_slice() {
            [] => "it has no such tools".to_owned(),
            known => format!("available tools: {}", known.join(", ")),
        };
        format!("the agent {} has no tool {:?} that can be enabled; {known}", self.name, shown(name))
    }

    fn no_option(&self, name: &str) -> String {
        let known: Vec<&str> = self.options.iter().map(|option| option.name.as_str()).collect();
        let known = match known.as_slice() {
            [] => "it has no options".to_owned(),
            known => format!("available options: {}", known.join(", ")),
        };
        format!("the agent {} has no option {:?}; {known}", self.name, shown(name))
    }

    /// The configuration of a run with this choice. Refuses what [`Profile::admits`] refuses.
    pub fn run_config(&self, choice: &Choice<'_>) -> Result<(Queued, RunConfig), Unacceptable> {
        self.admits(choice)?;
        let value = |option: &'_ AgentOption| -> String {
            choice
                .options
                .get(option.name.as_str())
                .map_or_else(|| option.default.clone(), |value| (*value).to_owned())
        };
        let mut queued = Queued::new(RunKind::AgentLoop);
        queued.agent = Some(Agent { name: self.name.clone(), version: Some(self.version.clone()) });
        queued.model.clone_from(&self.model);
        queued.workspace_mode.clone_from(&self.workspace_mode);
        let enabled = choice.tools.unwrap_or_default();
        let mut config = RunConfig {
            system: self.system.as_ref().map(|words| self.filled(words, &value)),
            tools: Some(
                enabled.iter().map(|tool| tool.name.clone()).chain(self.hidden.iter().cloned()).collect(),
            ),
            ask_first: enabled
                .iter()
                .filter(|tool| tool.trust != Some(true))
                .map(|tool| tool.name.clone())
                .collect(),
            client_tools: choice.client_tools.to_vec(),
            thinking: self.thinking,
            max_turns: self.max_turns,
            max_output_tokens: self.max_output_tokens,
            compact_above: self.compact_above,
            workspace_source: self.workspace_source.clone(),
            network: self.network,
            ..RunConfig::default()
        };
        if let Some(chosen) = choice.workspace {
            queued.workspace_mode.clone_from(&chosen.mode);
            config.workspace_source = Some(chosen.source.clone());
            config.copy_ignored = chosen.copy_ignored;
        }
        for option in &self.options {
            if option.kind == OptionKind::Secret {
                let is_given = choice.secrets.contains(option.name.as_str()) || !option.default.is_empty();
                if is_given && option.sets == Some(OptionTarget::ApiKey) {
                    config.secrets.insert(Purpose::ApiKey, option.name.clone());
                }
                continue;
            }
            let value = value(option);
            let number = || value.parse::<u64>().ok().filter(|number| *number > 0);
            match option.sets {
                None | Some(OptionTarget::ApiKey) => {}
                Some(OptionTarget::Model) if value.is_empty() => {}
                Some(OptionTarget::Model) => queued.model = Some(value.clone()),
                Some(OptionTarget::MaxTurns) => config.max_turns = number().or(config.max_turns),
                Some(OptionTarget::MaxOutputTokens) => {
                    let tokens = number().and_then(|number| u32::try_from(number).ok());
                    config.max_output_tokens = tokens.or(config.max_output_tokens);
                }
            }
            config.options.insert(option.name.clone(), value);
        }
        Ok((queued, config))
    }

    /// Inserts the option values into the text. Braces without an option name stay.
    fn filled(&self, words: &str, value: &impl Fn(&AgentOption) -> String) -> String {
        let mut filled = String::with_capacity(words.len());
        let mut rest = words;
        while let Some(at) = rest.find(['{', '}']) {
            filled.push_str(&rest[..at]);
            let brace = &rest[at..];
            let doubled = brace.starts_with("{{") || brace.starts_with("}}");
            if doubled {
                filled.push_str(&brace[..1]);
                rest = &brace[2..];
                continue;
            }
            let name = brace.strip_prefix('{').and_then(|inner| inner.split_once('}')).map(|(name, _)| name);
            let option =
                name.and_then(|name| self.option(name)).filter(|option| option.kind != OptionKind::Secret);
            match (name, option) {
                (Some(name), Some(option)) => {
                    filled.push_str(&value(option));
                    rest = &brace[name.len() + 2..];
                }
                _ => {
                    filled.push_str(&brace[..1]);
                    rest = &brace[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }
}

impl AgentOption {
    fn admits(&self, value: &str) -> Result<(), Unacceptable> {
        match (&self.kind, self.sets) {
            (OptionKind::Select(values), _) if !values.iter().any(|one| one == value) => {
                let message = format!(
                    "the option {} has the invalid value {:?}; choose one of {}",
                    self.name,
                    shown(value),
                    values.join(", ")
                );
                Err(no(Code::OptionInvalid, message))
            }
            (_, Some(OptionTarget::MaxTurns | OptionTarget::MaxOutputTokens))
                if !value.is_empty() && !value.parse::<u32>().is_ok_and(|number| number > 0) =>
            {
                let message = format!(
                    "the option {} has the invalid value {:?}; send a whole number of at least 1",
                    self.name,
                    shown(value)
                );
                Err(no(Code::OptionInvalid, message))
            }
            _ => Ok(()),
        }
    }
}

fn no(code: Code, message: String) -> Unacceptable {
    Unacceptable { code, message }
}

/// The beginning of a foreign name or value, for messages.
fn shown(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}

/// Agents by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiles(BTreeMap<String, Profile>);

impl Profiles {
    pub fn new(profiles: impl IntoIterator<Item = Profile>) -> Self {
        Profiles(profiles.into_iter().map(|profile| (profile.name.clone(), profile)).collect())
    }

    pub fn get(&self, name: &str) -> Result<&Profile, Unacceptable> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let known = match known.as_slice() {
                [] => "no agents are configured".to_owned(),
                known => format!("known agents: {}", known.join(", ")),
            };
            no(Code::AgentNotFound, format!("unknown agent {:?}; {known}", shown(name)))
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shortens_long_names() {
        let long = "x".repeat(1_000_000);
        let tools = [ToolRef { name: long.clone(), trust: None }];
        let tools = Choice { tools: Some(&tools), ..Choice::default() };
        let options = Choice { options: BTreeMap::from([(long.as_str(), "")]), ..Choice::default() };
        let values = Choice { options: BTreeMap::from([("model", long.as_str())]), ..Choice::default() };
        for choice in [tools, options, values] {
            assert!(profile().admits(&choice).unwrap_err().message.len() < 300);
        }
    }

    fn option(name: &str, kind: OptionKind, default: &str, sets: Option<OptionTarget>) -> AgentOption {
        AgentOption { name: name.into(), title: None, description: None, kind, default: default.into(), sets }
    }

    fn profile() -> Profile {
        let tool = |name: &str| ToolInfo {
            name: name.into(),
            title: None,
            description: "a tool".into(),
            parameters: Json::parse("{}").unwrap(),
        };
        Profile {
            name: "clerk".into(),
            version: "1.0.0".into(),
            system: Some("Speak {language}. {{literal}} {key} {unknown} {".into()),
            tools: vec![tool("read_file"), tool("shell_exec")],
            hidden: vec!["todo_write".into()],
            options: vec![
                option("language", OptionKind::Text, "English", None),
                option(
                    "model",
                    OptionKind::Select(vec!["a/one".into(), "a/two".into()]),
                    "a/one",
                    Some(OptionTarget::Model),
                ),
                option("key", OptionKind::Secret, "", Some(OptionTarget::ApiKey)),
                option("turns", OptionKind::Text, "", Some(OptionTarget::MaxTurns)),
            ],
            ..Profile::default()
        }
    }

    #[test]
    fn a_choice_becomes_an_order() {
        let profile = profile();
        let (queued, config) = profile.run_config(&Choice::default()).unwrap();
        assert_eq!(config.system.as_deref(), Some("Speak English. {literal} {key} {unknown} {"));
        assert_eq!((queued.model.as_deref(), config.max_turns), (Some("a/one"), None));
        assert_eq!(config.tools, Some(vec!["todo_write".into()]));
        assert!(config.secrets.is_empty() && config.ask_first.is_empty());
        assert_eq!(queued.agent.unwrap().name, "clerk");

        let tools = [
            ToolRef { name: "read_file".into(), trust: Some(true) },
            ToolRef { name: "shell_exec".into(), trust: None },
        ];
        let choice = Choice {
            tools: Some(&tools),
            options: BTreeMap::from([("language", "Dutch"), ("model", "a/two"), ("turns", "7")]),
            secrets: BTreeSet::from(["key"]),
            client_tools: &[],
            workspace: None,
        };
        let (queued, config) = profile.run_config(&choice).unwrap();
        assert_eq!(config.system.as_deref(), Some("Speak Dutch. {literal} {key} {unknown} {"));
        assert_eq!((queued.model.as_deref(), config.max_turns), (Some("a/two"), Some(7)));
        assert_eq!(config.tools, Some(vec!["read_file".into(), "shell_exec".into(), "todo_write".into()]));
        assert_eq!(config.ask_first, ["shell_exec"]);
        assert_eq!(config.secrets.get(&Purpose::ApiKey).map(String::as_str), Some("key"));
        assert!(!config.options.contains_key("key"));
    }

    #[test]
    fn a_refusal_names_the_invalid_choice() {
        let profile = profile();
        let refused = |choice: Choice<'_>| profile.run_config(&choice).unwrap_err();
        let unknown = [ToolRef { name: "todo_write".into(), trust: None }];
        let why = refused(Choice { tools: Some(&unknown), ..Choice::default() });
        assert!(why.message.contains("todo_write") && why.message.contains("read_file"), "{why}");
        for (name, value) in [("model", "a/three"), ("nothing", "x"), ("turns", "0"), ("turns", "many")] {
            let why = refused(Choice { options: BTreeMap::from([(name, value)]), ..Choice::default() });
            assert_eq!(why.code, Code::OptionInvalid);
            assert!(why.message.contains(name), "{why}");
        }
        let client = |name: &str| ClientTool {
            name: name.into(),
            title: None,
            description: String::new(),
            parameters: Json::parse("{}").unwrap(),
        };
        for tools in [vec![client("read_file")], vec![client("todo_write")], vec![client("x"), client("x")]] {
            let why = refused(Choice { client_tools: &tools, ..Choice::default() });
            assert!(why.message.contains(&tools[0].name), "{why}");
        }
    }
}
