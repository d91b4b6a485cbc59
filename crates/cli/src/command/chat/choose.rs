//! Checks the agent, tools and options of the command line against the agents that the server lists. Pure.

use std::path::PathBuf;

use recount_client::aap::wire::{AgentInfo, AgentOption, ServerToolRef};

/// The error for a server without agents: it names the next step, because a first try often ends here.
const NO_AGENT: &str = "the server has no agent; for a Recount server, name a model in its configuration file, as in \
[models] default = \"local/MODEL\" with [models.providers.local] kind = \"openai\" and base_url = \
\"http://127.0.0.1:11434/v1\", and start it again: it then has the agent \"assistant\" (docs/models.md lists \
providers, docs/agents.md describes agents of your own)";

/// The agent that is meant; `None` when the person must choose.
pub(super) fn agent<'a>(
    agents: &'a [AgentInfo],
    requested: Option<&str>,
) -> Result<Option<&'a AgentInfo>, String> {
    match (agents, requested) {
        ([], _) => Err(NO_AGENT.to_owned()),
        (agents, Some(requested)) => match agents.iter().find(|agent| agent.name == requested) {
            Some(agent) => Ok(Some(agent)),
            None => Err(format!("unknown agent {requested:?}; known agents: {}", names(agents))),
        },
        ([only], None) => Ok(Some(only)),
        (_, None) => Ok(None),
    }
}

/// The agent that a typed line names, by name or by its number counted from 1.
pub(super) fn typed<'a>(agents: &'a [AgentInfo], line: &str) -> Option<&'a AgentInfo> {
    let line = line.trim();
    let by_name = agents.iter().find(|agent| agent.name == line);
    by_name.or_else(|| agents.get(line.parse::<usize>().ok()?.checked_sub(1)?))
}

pub(super) fn names(agents: &[AgentInfo]) -> String {
    agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Where the value of an option comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Given {
    Value(String),
    File(PathBuf),
    /// Typed at the terminal, without echo.
    Prompt,
}

/// Reads an option argument: `NAME`, `NAME=VALUE` or `NAME=@FILE`.
pub(super) fn option<'a>(agent: &'a AgentInfo, argument: &str) -> Result<(&'a AgentOption, Given), String> {
    let (name, value) =
        argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
    let Some(option) = agent.options.iter().find(|option| option.name == name) else {
        let known: Vec<&str> = agent.options.iter().map(|option| option.name.as_str()).collect();
        return Err(match known[..] {
            [] => format!("--option {name}: the agent {} has no options", agent.name),
            _ => format!(
                "--option {name}: unknown option of the agent {}; known options: {}",
                agent.name,
                known.join(", ")
            ),
        });
    };
    match value {
        Some(value) => match value.strip_prefix('@') {
            Some(text) if text.starts_with('@') => Ok((option, Given::Value(text.to_owned()))),
            Some(path) => Ok((option, Given::File(PathBuf::from(path)))),
            None => Ok((option, Given::Value(value.to_owned()))),
        },
        None if option.is_secret() => Ok((option, Given::Prompt)),
        None => Err(format!("--option {name}: give its value, as in --option {name}=VALUE")),
    }
}

/// Rejects a value that the option does not have. The value of a secret option is never shown.
pub(super) fn check(option: &AgentOption, value: &str) -> Result<(), String> {
    if option.is_select() && !option.options.iter().any(|allowed| allowed == value) {
        let allowed = option.options.join(", ");
        return Err(format!("--option {}: unknown value {value:?}; known values: {allowed}", option.name));
    }
    Ok(())
}

/// The server's tools that are enabled: all of them, or those that are named; trusted ones are enabled too.
pub(super) fn tools(
    agent: &AgentInfo,
    requested: Option<&[String]>,
    trusted: &[String],
) -> Result<Vec<ServerToolRef>, String> {
    let has = |name: &String| agent.tools.iter().any(|tool| tool.name == *name);
    if let Some(unknown) = requested.unwrap_or_default().iter().chain(trusted).find(|name| !has(name)) {
        let known: Vec<&str> = agent.tools.iter().map(|tool| tool.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("the agent {} has no tool {unknown:?}; known tools: {known}", agent.name));
    }
    let enabled = agent.tools.iter().filter_map(|tool| {
        let trust = trusted.contains(&tool.name);
        let is_requested = trust || requested.is_none_or(|requested| requested.contains(&tool.name));
        is_requested.then(|| ServerToolRef { name: tool.name.clone(), trust })
    });
    Ok(enabled.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn agent_info() -> AgentInfo {
        let info = json!({
            "name": "helper", "version": "1.0.0",
            "tools": [{"name": "look", "description": ""}, {"name": "keep", "description": ""}],
            "options": [
                {"type": "text", "name": "tone", "default": "calm"},
                {"type": "secret", "name": "key", "default": ""},
                {"type": "select", "name": "size", "options": ["small", "large"], "default": "small"},
            ],
        });
        serde_json::from_value(info).unwrap()
    }

    #[test]
    fn an_agent_is_the_one_named_the_only_one_or_the_person_chooses() {
        let one = [agent_info()];
        for requested in [None, Some("helper")] {
            let why = agent(&[], requested).unwrap_err();
            for step in ["configuration file", "[models]", "docs/models.md", "docs/agents.md"] {
                assert!(why.contains(step), "{step} is not in {why}");
            }
        }
        let two = [agent_info(), AgentInfo { name: "other".into(), ..agent_info() }];
        let name = |chosen: Result<Option<&AgentInfo>, String>| {
            chosen.map(|chosen| chosen.map(|agent| agent.name.clone()))
        };
        assert_eq!(name(agent(&one, None)), Ok(Some("helper".into())));
        assert_eq!(name(agent(&two, None)), Ok(None));
        assert_eq!(name(agent(&two, Some("other"))), Ok(Some("other".into())));
        assert!(agent(&two, Some("x")).unwrap_err().contains("known agents: helper, other"));
        assert!(agent(&[], None).is_err());
        assert_eq!(typed(&two, " 2\n").unwrap().name, "other");
        assert_eq!(typed(&two, "helper\n").unwrap().name, "helper");
        for line in ["", "0", "3", "help", "-1"] {
            assert!(typed(&two, line).is_none(), "{line:?}");
        }
    }

    #[test]
    fn options_are_those_of_the_agent_and_values_come_from_words_files_or_the_terminal() {
        let agent = agent_info();
        let given =
            |argument: &str| option(&agent, argument).map(|(option, given)| (option.name.clone(), given));
        assert_eq!(given("tone=a=b"), Ok(("tone".into(), Given::Value("a=b".into()))));
        assert_eq!(given("tone="), Ok(("tone".into(), Given::Value(String::new()))));
        assert_eq!(given("key=@/a/b"), Ok(("key".into(), Given::File("/a/b".into()))));
        assert_eq!(given("tone=@@me"), Ok(("tone".into(), Given::Value("@me".into()))));
        assert_eq!(given("key"), Ok(("key".into(), Given::Prompt)));
        assert!(given("tone").unwrap_err().contains("--option tone=VALUE"));
        assert!(given("mood=x").unwrap_err().contains("known options: tone, key, size"));
        let (size, _) = option(&agent, "size=x").unwrap();
        assert_eq!(check(size, "large"), Ok(()));
        assert!(check(size, "huge").unwrap_err().contains("known values: small, large"));
    }

    #[test]
    fn all_tools_ask_unless_others_are_named_or_trusted() {
        let agent = agent_info();
        let enabled = |requested: Option<&[&str]>, trusted: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            tools(&agent, requested.map(owned).as_deref(), &owned(trusted))
        };
        let tool = |name: &str, trust| ServerToolRef { name: name.into(), trust };
        assert_eq!(enabled(None, &[]), Ok(vec![tool("look", false), tool("keep", false)]));
        assert_eq!(enabled(None, &["keep"]), Ok(vec![tool("look", false), tool("keep", true)]));
        assert_eq!(enabled(Some(&["keep"]), &[]), Ok(vec![tool("keep", false)]));
        assert_eq!(enabled(Some(&["keep"]), &["look"]), Ok(vec![tool("look", true), tool("keep", false)]));
        assert_eq!(enabled(Some(&[]), &[]), Ok(Vec::new()));
        assert!(enabled(Some(&["rm"]), &[]).unwrap_err().contains("known tools: look, keep"));
        assert!(enabled(None, &["rm"]).is_err());
    }
}
