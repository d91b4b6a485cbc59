//! A configured agent as the template of a run: what was chosen of it, and what a request says beside it.
//!
//! Look at [`Wanted::by_template`]: what the request says itself wins. Which agents there are is the engine's to know.

use std::collections::BTreeMap;

use recount_api::request::AgentName;
use recount_engine::{Choice, OptionKind, Order, Profile, ToolRef, Unacceptable};
use recount_event::Code;
use recount_event::family::run::Queued;

use super::order::Wanted;
use super::{Accepted, shortened};
use crate::error::Refusal;
use crate::limits;

/// An agent by its name, and what was chosen of it.
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
        let detail =
            "agent.version goes with kind external; an agent of this server has its own, leave it out";
        return Err(Refusal::new(Code::OrderRefused, detail));
    }
    let (tools_said, options_said) =
        (tools.as_ref().map_or(0, Vec::len), options.as_ref().map_or(0, BTreeMap::len));
    for (what, said) in [("agent.tools", tools_said), ("agent.options", options_said)] {
        if said > limits::TOOLS_MAX {
            let detail = format!("{what} has {said} entries; send at most {}", limits::TOOLS_MAX);
            return Err(Refusal::new(Code::LimitReached, detail));
        }
    }
    let tool = |tool: recount_api::request::EnabledTool| ToolRef { name: tool.name, trust: tool.trust };
    let tools = tools.map(|tools| tools.into_iter().map(tool).collect());
    Ok(Picked { name, tools, options: options.unwrap_or_default() })
}

/// What an agent does with what was chosen. Without a word of tools it has all of its own, and nothing but the policy
/// decides which calls are asked about: whoever asks here could answer, too.
pub(crate) fn template(profile: &Profile, picked: &Picked) -> Accepted<(Queued, Order)> {
    let is_secret =
        |name: &&String| profile.option(name).is_some_and(|option| option.kind == OptionKind::Secret);
    if let Some(secret) = picked.options.keys().find(is_secret) {
        let detail = format!(
            "the option {:?} of {} is secret, and would stand in the log of the run; begin a session over the face \
             for applications, send it there, and send messages to that session",
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
    Ok(profile.order(&choice)?)
}

impl Wanted {
    /// Fills in what the request leaves open.
    pub(crate) fn by_template(&mut self, queued: &mut Queued, template: (Queued, Order)) {
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

#[cfg(test)]
mod tests {
    use recount_engine::{AgentOption, ToolInfo};
    use recount_event::Json;

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
    fn what_the_request_says_wins_over_the_agent() {
        let picked = pick(r#"{"name":"clerk","options":{"language":"Dutch"}}"#);
        let made = template(&profile(), &picked).unwrap();
        let (mut wanted, mut queued) =
            (Wanted::default(), Queued::new(recount_event::family::run::RunKind::AgentLoop));
        wanted.by_template(&mut queued, made.clone());
        assert_eq!(queued.agent.as_ref().map(|agent| agent.name.as_str()), Some("clerk"));
        assert_eq!(wanted.model.as_deref(), Some("local/a"));
        assert_eq!(wanted.order.system.as_deref(), Some("Speak Dutch."));
        assert_eq!(wanted.order.tools, Some(vec!["grep".into(), "read_file".into(), "todo_write".into()]));
        assert_eq!((wanted.order.ask_first.len(), wanted.order.max_turns), (0, Some(9)));
        assert_eq!(wanted.order.workspace_source.as_deref(), Some("/srv"));
        assert!(wanted.order.network);

        let mut wanted = Wanted {
            model: Some("b".into()),
            workspace_mode: Some("clone".into()),
            network: Some(false),
            order: Order {
                system: Some("No.".into()),
                tools: Some(vec!["grep".into()]),
                max_turns: Some(1),
                ..Order::default()
            },
            ..Wanted::default()
        };
        wanted.by_template(&mut queued, made);
        assert_eq!((wanted.model.as_deref(), wanted.order.system.as_deref()), (Some("b"), Some("No.")));
        assert_eq!((wanted.order.tools, wanted.order.max_turns), (Some(vec!["grep".into()]), Some(1)));
        assert_eq!((wanted.order.workspace_source, wanted.order.network), (None, false));
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
    fn what_cannot_be_chosen_here() {
        let why = template(&profile(), &pick(r#"{"name":"clerk","options":{"key":"k"}}"#)).unwrap_err();
        assert!(why.code == Code::OptionInvalid && why.detail.contains("session"), "{}", why.detail);
        let why =
            template(&profile(), &pick(r#"{"name":"clerk","tools":[{"name":"todo_write"}]}"#)).unwrap_err();
        assert!(why.code == Code::OrderRefused && why.detail.contains("todo_write"), "{}", why.detail);
        let why = picked(serde_json::from_str(r#"{"name":"clerk","version":"1"}"#).unwrap()).unwrap_err();
        assert!(why.detail.contains("agent.version"), "{}", why.detail);
    }
}
