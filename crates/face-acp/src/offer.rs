//! Describes a server agent to the editor: its capabilities, and the modes and options of a session. Pure.
//!
//! Must not depend on requests in progress. Start with [`initialized`], [`Mode`] and [`config_options`].

use std::collections::BTreeMap;

use recount_client::aap::wire::{AgentConfig, AgentInfo, AgentOption, ServerToolRef};
use serde_json::{Value, json};

/// The supported version of ACP.
pub(crate) const PROTOCOL_VERSION: u64 = 1;

pub(crate) fn initialized(agent: &AgentInfo) -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {
                "image": takes_images(agent),
                "audio": false,
                "embeddedContext": true,
            },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "list": {}, "resume": {}, "close": {}, "delete": {} },
        },
        "authMethods": [],
        "agentInfo": {
            "name": format!("recount/{}", agent.name),
            "title": agent.title.as_ref().unwrap_or(&agent.name),
            "version": agent.version,
        },
    })
}

pub(crate) fn takes_images(agent: &AgentInfo) -> bool {
    agent.capabilities.image.data.is_some()
}

/// The mode of a session: which calls of its tools need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The policy of the server decides.
    Policy,
    /// Every call needs an approval.
    Ask,
    /// The choices of another application, tool by tool.
    Mixed,
}

impl Mode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Mode::Policy => "policy",
            Mode::Ask => "ask",
            Mode::Mixed => "mixed",
        }
    }

    /// A mode that can be selected.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Mode::Policy, Mode::Ask].into_iter().find(|mode| mode.as_str() == text)
    }

    /// The mode that a session is in.
    pub(crate) fn of(agent: &AgentInfo, config: &AgentConfig) -> Self {
        let tools = config.tools.as_deref().unwrap_or_default();
        let has = |name: &str, trust: bool| tools.iter().any(|tool| tool.name == name && tool.trust == trust);
        match agent.tools.len() == tools.len() {
            true if agent.tools.iter().all(|tool| has(&tool.name, true)) => Mode::Policy,
            true if agent.tools.iter().all(|tool| has(&tool.name, false)) => Mode::Ask,
            _ => Mode::Mixed,
        }
    }

    /// The tools of a session in this mode; `None` does not change them.
    pub(crate) fn tools(self, agent: &AgentInfo) -> Option<Vec<ServerToolRef>> {
        let trust = match self {
            Mode::Policy => true,
            Mode::Ask => false,
            Mode::Mixed => return None,
        };
        let tool = |name: &String| ServerToolRef { name: name.clone(), trust };
        Some(agent.tools.iter().map(|spec| tool(&spec.name)).collect())
    }

    fn shown(self) -> Value {
        let (name, description) = match self {
            Mode::Policy => (
                "Follow the policy",
                "The policy of the Recount server decides which tool calls need approval.",
            ),
            Mode::Ask => ("Ask for every call", "Every tool call needs approval."),
            Mode::Mixed => {
                ("As the session was set up", "Another application chose which tools need approval.")
            }
        };
        json!({ "id": self.as_str(), "name": name, "description": description })
    }
}

/// The modes of a session, and the current one.
pub(crate) fn modes(current: Mode) -> Value {
    let mut available = vec![Mode::Policy.shown(), Mode::Ask.shown()];
    if current == Mode::Mixed {
        available.push(Mode::Mixed.shown());
    }
    json!({ "currentModeId": current.as_str(), "availableModes": available })
}

/// The options of an agent that have a list of values, with the values of a session.
pub(crate) fn config_options(agent: &AgentInfo, chosen: &BTreeMap<String, String>) -> Value {
    let shown = |option: &AgentOption| {
        let value = chosen.get(&option.name).unwrap_or(&option.default);
        let values: Vec<Value> =
            option.options.iter().map(|value| json!({ "value": value, "name": value })).collect();
        let mut shown = json!({
            "id": option.name,
            "name": option.title.as_ref().unwrap_or(&option.name),
            "type": "select",
            "currentValue": value,
            "options": values,
        });
        if let Some(description) = &option.description {
            shown["description"] = json!(description);
        }
        shown
    };
    agent.options.iter().filter(|option| option.is_select()).map(shown).collect()
}

/// Validates a value for an option; the error lists the allowed values.
pub(crate) fn check_option(agent: &AgentInfo, name: &str, value: &str) -> Result<(), String> {
    let selects = || agent.options.iter().filter(|option| option.is_select());
    let Some(option) = selects().find(|option| option.name == name) else {
        let known: Vec<&str> = selects().map(|option| option.name.as_str()).collect();
        return Err(match known.is_empty() {
            true => format!("unknown option {name:?}; the agent {} has no options", agent.name),
            false => format!(
                "unknown option {name:?} of the agent {}; known options: {}",
                agent.name,
                known.join(", ")
            ),
        });
    };
    match option.options.iter().any(|known| known == value) {
        true => Ok(()),
        false => Err(format!("{name} is {value:?}; send one of {}", option.options.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> AgentInfo {
        serde_json::from_value(json!({
            "name": "clerk", "version": "1.0.0",
            "tools": [{"name": "grep"}, {"name": "write_file"}],
            "options": [
                {"type": "select", "name": "model", "title": "Model", "default": "a", "options": ["a", "b"]},
                {"type": "text", "name": "team", "default": "all"},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_mode_is_the_trust_of_all_tools() {
        let agent = agent();
        let config = |tools: Option<Vec<ServerToolRef>>| AgentConfig { tools, ..AgentConfig::default() };
        for mode in [Mode::Policy, Mode::Ask] {
            assert_eq!(Mode::of(&agent, &config(mode.tools(&agent))), mode);
            assert_eq!(Mode::parse(mode.as_str()), Some(mode));
        }
        let mut some = Mode::Ask.tools(&agent).unwrap();
        some[1].trust = true;
        assert_eq!(Mode::of(&agent, &config(Some(some.clone()))), Mode::Mixed);
        assert_eq!(Mode::of(&agent, &config(Some(some[..1].to_vec()))), Mode::Mixed);
        assert_eq!(Mode::of(&agent, &config(None)), Mode::Mixed);
        assert_eq!(Mode::parse("mixed"), None);
        let names = |current| modes(current)["availableModes"].as_array().unwrap().len();
        assert_eq!((names(Mode::Ask), names(Mode::Mixed)), (2, 3));
    }

    #[test]
    fn options_with_a_list_of_values_can_be_set() {
        let agent = agent();
        let shown = config_options(&agent, &BTreeMap::from([("model".to_owned(), "b".to_owned())]));
        let value = |value: &str| json!({"value": value, "name": value});
        let expected = json!([{"id": "model", "name": "Model", "type": "select", "currentValue": "b",
            "options": [value("a"), value("b")]}]);
        assert_eq!(shown, expected);
        assert_eq!(check_option(&agent, "model", "a"), Ok(()));
        assert!(check_option(&agent, "model", "c").unwrap_err().contains("one of a, b"));
        assert!(check_option(&agent, "team", "x").unwrap_err().contains("known options: model"));
        assert!(check_option(&AgentInfo::default(), "x", "x").unwrap_err().contains("has no options"));
    }
}
