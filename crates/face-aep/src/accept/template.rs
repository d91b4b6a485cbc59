//! Creates the configuration of a run from a configured agent, with the tools and options that a request picks. Pure.
//!
//! Must not depend on the list of agents or on the rest of the request. Start with [`template`].

use std::collections::BTreeMap;

use recount_api::request::AgentName;
use recount_engine::{Choice, OptionKind, Profile, RunConfig, ToolRef, Unacceptable};
use recount_event::Code;
use recount_event::family::run::Queued;

use super::{Accepted, shortened};
use crate::error::Refusal;
use crate::limits;

/// The name of an agent, with the chosen tools and options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Picked {
    pub(crate) name: String,
    tools: Option<Vec<ToolRef>>,
    options: BTreeMap<String, String>,
}

impl From<Unacceptable> for Refusal {
    fn from(Unacceptable { code, message }: Unacceptable) -> Self {
        Refusal::new(code, message)
    }
}

pub(crate) fn picked(agent: AgentName) -> Accepted<Picked> {
    let AgentName { name, version, tools, options } = agent;
    if version.is_some() {
        let detail = "agent.version is allowed only for runs of kind external; leave it out, agents of this server \
             have a version already";
        return Err(Refusal::new(Code::OrderRefused, detail));
    }
    let (tools_count, options_count) =
        (tools.as_ref().map_or(0, Vec::len), options.as_ref().map_or(0, BTreeMap::len));
    for (what, count) in [("agent.tools", tools_count), ("agent.options", options_count)] {
        if count > limits::TOOLS_MAX {
            let detail = format!("{what} has {count} entries; send at most {}", limits::TOOLS_MAX);
            return Err(Refusal::new(Code::LimitReached, detail));
        }
    }
    let tool = |tool: recount_api::request::EnabledTool| ToolRef { name: tool.name, trust: tool.trust };
    let tools = tools.map(|tools| tools.into_iter().map(tool).collect());
    Ok(Picked { name, tools, options: options.unwrap_or_default() })
}

/// The configuration of an agent with the given choices. Without chosen tools it has all its tools, and only the policy
/// decides which calls need approval: a client that starts a run could approve them itself.
pub(crate) fn template(profile: &Profile, picked: &Picked) -> Accepted<(Queued, RunConfig)> {
    let is_secret =
        |name: &&String| profile.option(name).is_some_and(|option| option.kind == OptionKind::Secret);
    if let Some(secret) = picked.options.keys().find(is_secret) {
        let detail = format!(
            "the option {:?} of {} is secret and must not be stored in the log of a run; create a session \
             with it over AAP and send messages to that session",
            shortened(secret),
            profile.name
        );
        return Err(Refusal::new(Code::OptionInvalid, detail));
    }
    let all = || {
        let trusted = |name: &String| ToolRef { name: name.clone(), trust: Some(true) };
        profile.tools.iter().map(|tool| trusted(&tool.name)).collect::<Vec<_>>()
    };
    let tools = picked.tools.clone().unwrap_or_else(all);
    let choice = Choice {
        tools: Some(&tools),
        options: picked.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        ..Choice::default()
    };
    Ok(profile.run_config(&choice)?)
}

#[cfg(test)]
mod tests {
    use recount_engine::{AgentOption, ToolInfo};
    use recount_event::Json;

    use super::super::order::RunOptions;
    use super::*;

    fn profile() -> Profile {
        let option = |name: &str, kind, default: &str| AgentOption {
            name: name.into(),
            title: None,
            description: None,
            kind,
            default: default.into(),
            sets: None,
        };
        let tool = |name: &str| ToolInfo {
            name: name.into(),
            title: None,
            description: String::new(),
            parameters: Json::parse("{}").unwrap(),
        };
        Profile {
            name: "clerk".into(),
            version: "1.0.0".into(),
            model: Some("local/a".into()),
            system: Some("Speak {language}.".into()),
            tools: vec![tool("grep"), tool("read_file")],
            hidden: vec!["todo_write".into()],
            options: vec![
                option("language", OptionKind::Text, "English"),
                option("key", OptionKind::Secret, ""),
            ],
            max_turns: Some(9),
            workspace_source: Some("/srv".into()),
            network: true,
            ..Profile::default()
        }
    }

    fn pick(json: &str) -> Picked {
        picked(serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn options_of_the_request_override_the_agent() {
        let picked = pick(r#"{"name":"clerk","options":{"language":"Dutch"}}"#);
        let configured = template(&profile(), &picked).unwrap();
        let (mut options, mut queued) =
            (RunOptions::default(), Queued::new(recount_event::family::run::RunKind::AgentLoop));
        options.apply_template(&mut queued, configured.clone());
        assert_eq!(queued.agent.as_ref().map(|agent| agent.name.as_str()), Some("clerk"));
        assert_eq!(options.model.as_deref(), Some("local/a"));
        assert_eq!(options.order.system.as_deref(), Some("Speak Dutch."));
        assert_eq!(options.order.tools, Some(vec!["grep".into(), "read_file".into(), "todo_write".into()]));
        assert_eq!((options.order.ask_first.len(), options.order.max_turns), (0, Some(9)));
        assert_eq!(options.order.workspace_source.as_deref(), Some("/srv"));
        assert!(options.order.network);

        let mut options = RunOptions {
            model: Some("b".into()),
            workspace_mode: Some("clone".into()),
            network: Some(false),
            order: RunConfig {
                system: Some("No.".into()),
                tools: Some(vec!["grep".into()]),
                max_turns: Some(1),
                ..RunConfig::default()
            },
            ..RunOptions::default()
        };
        options.apply_template(&mut queued, configured);
        assert_eq!((options.model.as_deref(), options.order.system.as_deref()), (Some("b"), Some("No.")));
        assert_eq!((options.order.tools, options.order.max_turns), (Some(vec!["grep".into()]), Some(1)));
        assert_eq!((options.order.workspace_source, options.order.network), (None, false));
    }

    #[test]
    fn tools_that_are_not_trusted_ask_first() {
        let picked = pick(r#"{"name":"clerk","tools":[{"name":"grep"},{"name":"read_file","trust":true}]}"#);
        let (_, order) = template(&profile(), &picked).unwrap();
        assert_eq!(order.ask_first, ["grep"]);
        let (_, order) = template(&profile(), &pick(r#"{"name":"clerk","tools":[]}"#)).unwrap();
        assert_eq!(order.tools, Some(vec!["todo_write".into()]));
    }

    #[test]
    fn invalid_choices_of_an_agent_are_refused() {
        let why = template(&profile(), &pick(r#"{"name":"clerk","options":{"key":"k"}}"#)).unwrap_err();
        assert!(why.code == Code::OptionInvalid && why.detail.contains("session"), "{}", why.detail);
        let why =
            template(&profile(), &pick(r#"{"name":"clerk","tools":[{"name":"todo_write"}]}"#)).unwrap_err();
        assert!(why.code == Code::OrderRefused && why.detail.contains("todo_write"), "{}", why.detail);
        let why = picked(serde_json::from_str(r#"{"name":"clerk","version":"1"}"#).unwrap()).unwrap_err();
        assert!(why.detail.contains("agent.version"), "{}", why.detail);
    }
}
