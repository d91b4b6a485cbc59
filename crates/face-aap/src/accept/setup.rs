//! Validates the setup of a session: its agent, tools, options, and the application's own tools. Pure.

use std::collections::{BTreeMap, BTreeSet};

use recount_engine::{
    Choice, ChosenWorkspace, ClientTool, NewSetup, OptionKind, Overrides, Profile, Profiles, RunConfigChange,
    Setup, ToolRef,
};
use recount_event::{Code, Json};
use serde::Deserialize;

use super::{Accepted, PLACEHOLDER, encoded_len, malformed, seed, shortened};
use crate::error::Refusal;
use crate::limits;
use crate::wire::{AgentOverrides, PostSessionsRequest, ServerToolRef, SessionWorkspace, ToolSpec};

/// Tools that open a prompt; their calls are shown as text.
const RESERVED: [&str; 2] = ["ask_user", "hand_off"];

/// The modes of a workspace, as the native face names them.
const WORKSPACE_MODES: [&str; 2] = ["clone", "in_place"];

/// A new session of a configured agent.
pub(crate) fn session(request: PostSessionsRequest, profiles: &Profiles) -> Accepted<NewSetup> {
    let profile = profiles.get(&request.agent.name)?;
    let client_tools = client_tools(request.tools, profile)?;
    let enabled = request.agent.tools.map(|tools| enabled(tools, &client_tools)).transpose()?;
    let (options, secrets) = options(request.agent.options.unwrap_or_default(), profile)?;
    let setup = Setup {
        agent: profile.name.clone(),
        tools: enabled,
        options,
        secrets: secrets.keys().cloned().collect(),
        client_tools,
        workspace: request.workspace.map(workspace).transpose()?,
    };
    profile.admits(&setup.choice())?;
    let seed = seed::seed(request.messages, profile.capabilities)?;
    Ok(NewSetup { title: title(request.title)?, setup, secrets, seed })
}

/// The changes of a turn to a session, and the session's setup with them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Change {
    pub(crate) overrides: Overrides,
    pub(crate) setup: Setup,
}

/// Validates the overrides of a turn.
pub(crate) fn change(
    setup: &Setup,
    profile: &Profile,
    agent: Option<AgentOverrides>,
    tools: Option<Vec<ToolSpec>>,
) -> Accepted<Change> {
    let agent = agent.unwrap_or_default();
    if let Some(name) = agent.name.filter(|name| *name != setup.agent) {
        let (is, wanted) = (&setup.agent, shortened(&name));
        return Err(malformed(format!(
            "the agent of the session is {is} and cannot be changed to {wanted:?}; create another session"
        )));
    }
    let client_tools = tools.map(|tools| client_tools(tools, profile)).transpose()?;
    let brought = client_tools.as_ref().unwrap_or(&setup.client_tools);
    let tools = agent.tools.map(|tools| enabled(tools, brought)).transpose()?;
    let (options, secrets) = options(agent.options.unwrap_or_default(), profile)?;
    let overrides = Overrides { tools, options, secrets, client_tools };
    // New choices are checked against the current agent; earlier ones were checked when they were made.
    let choice = Choice {
        tools: overrides.tools.as_deref(),
        options: overrides.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        secrets: overrides.secrets.keys().map(String::as_str).collect(),
        client_tools: overrides.client_tools.as_deref().unwrap_or_default(),
        workspace: None,
    };
    profile.admits(&choice)?;
    let setup = fitting(setup.changed(&overrides), profile);
    profile.admits(&setup.choice())?;
    Ok(Change { overrides, setup })
}

/// The setup without choices that the agent no longer offers, so that a change of the configuration leaves every
/// session usable.
pub(crate) fn fitting(mut setup: Setup, profile: &Profile) -> Setup {
    if let Some(tools) = &mut setup.tools {
        tools.retain(|tool| profile.tools.iter().any(|known| known.name == tool.name));
    }
    let admits = |name: &str, value: &str| {
        let options = BTreeMap::from([(name, value)]);
        profile.admits(&Choice { options, ..Choice::default() }).is_ok()
    };
    setup.options.retain(|name, value| admits(name, value));
    let is_secret = |name: &str| profile.option(name).is_some_and(|option| option.kind == OptionKind::Secret);
    setup.secrets.retain(|name| is_secret(name));
    setup
}

/// The configuration of a run after an answer with this change.
pub(crate) fn config(change: &Change, profile: &Profile) -> Accepted<Option<Json>> {
    if change.overrides.is_empty() {
        return Ok(None);
    }
    let (queued, order) = profile.run_config(&change.setup.choice())?;
    Ok(Some(RunConfigChange::from_config(queued.model, &order).written()))
}

/// The folder of a session. Only the performer knows whether runs may use it.
fn workspace(requested: SessionWorkspace) -> Accepted<ChosenWorkspace> {
    let SessionWorkspace { path, mode, copy_ignored } = requested;
    let refused = |why: &str| {
        let detail = format!("workspace.path is {:?}, which {why}", shortened(&path));
        Err(Refusal::new(Code::WorkspaceRefused, detail))
    };
    if !path.starts_with('/') {
        return refused("is not absolute; send an absolute path");
    }
    if path.len() > limits::PATH_BYTES_MAX || path.contains('\0') {
        return refused("is not a valid path");
    }
    if let Some(mode) = mode.as_ref().filter(|mode| !WORKSPACE_MODES.contains(&mode.as_str())) {
        let known = WORKSPACE_MODES.join(", ");
        return Err(malformed(format!("workspace.mode is {:?}; send one of {known}", shortened(mode))));
    }
    Ok(ChosenWorkspace { source: path, mode, copy_ignored: copy_ignored.unwrap_or(false) })
}

fn enabled(tools: Vec<ServerToolRef>, client_tools: &[ClientTool]) -> Accepted<Vec<ToolRef>> {
    if tools.len() > limits::TOOLS_MAX {
        let (count, most) = (tools.len(), limits::TOOLS_MAX);
        let detail = format!("agent.tools names {count} tools; send at most {most} (TOOLS_MAX)");
        return Err(Refusal::new(Code::LimitReached, detail));
    }
    let mut seen = BTreeSet::new();
    let mut enabled = Vec::with_capacity(tools.len());
    for tool in tools {
        if !seen.insert(tool.name.clone()) {
            return Err(malformed(format!(
                "agent.tools names {:?} twice; send it once",
                shortened(&tool.name)
            )));
        }
        // A client that executes a tool itself need not trust it.
        if !client_tools.iter().any(|own| own.name == tool.name) {
            enabled.push(ToolRef { name: tool.name, trust: tool.trust });
        }
    }
    Ok(enabled)
}

type Options = (BTreeMap<String, String>, BTreeMap<String, String>);

/// Splits options into public and secret ones.
fn options(options: BTreeMap<String, String>, profile: &Profile) -> Accepted<Options> {
    let (mut open, mut secret) = Options::default();
    for (name, value) in options {
        if value.len() > limits::OPTION_BYTES_MAX {
            let (name, bytes, most) = (shortened(&name), value.len(), limits::OPTION_BYTES_MAX);
            let detail =
                format!("the option {name:?} has {bytes} bytes; send at most {most} (OPTION_BYTES_MAX)");
            return Err(Refusal::new(Code::OptionInvalid, detail));
        }
        match profile.option(&name).map(|option| &option.kind) {
            Some(OptionKind::Secret) if value == PLACEHOLDER => {}
            Some(OptionKind::Secret) => drop(secret.insert(name, value)),
            // The agent refuses an unknown option and lists the known ones.
            _ => drop(open.insert(name, value)),
        }
    }
    Ok((open, secret))
}

fn client_tools(tools: Vec<ToolSpec>, profile: &Profile) -> Accepted<Vec<ClientTool>> {
    if tools.len() > limits::CLIENT_TOOLS_MAX {
        let (count, most) = (tools.len(), limits::CLIENT_TOOLS_MAX);
        let detail = format!("the application has {count} tools; send at most {most} (CLIENT_TOOLS_MAX)");
        return Err(Refusal::new(Code::LimitReached, detail));
    }
    let mut bytes = 0;
    let mut brought = Vec::with_capacity(tools.len());
    for (index, tool) in tools.into_iter().enumerate() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let most = limits::TOOL_NAME_MAX;
        if !(1..=most).contains(&tool.name.len()) || !tool.name.bytes().all(plain) {
            return Err(malformed(format!(
                "tools[{index}].name is {:?}; send 1 to {most} letters, digits, _ or -",
                shortened(&tool.name)
            )));
        }
        if RESERVED.contains(&tool.name.as_str()) {
            let (name, agent) = (&tool.name, &profile.name);
            return Err(malformed(format!(
                "the tool name {name:?} is reserved for a tool of the agent {agent} that asks people; \
                 choose another name"
            )));
        }
        bytes += encoded_len(&tool);
        brought.push(ClientTool {
            name: tool.name,
            title: tool.title,
            description: tool.description,
            parameters: tool.parameters,
        });
    }
    if bytes > limits::CLIENT_TOOLS_BYTES_MAX {
        let most = limits::CLIENT_TOOLS_BYTES_MAX;
        let detail = format!(
            "the tools of the application have {bytes} bytes as JSON; send at most {most} \
             (CLIENT_TOOLS_BYTES_MAX)"
        );
        return Err(Refusal::new(Code::BodyTooLarge, detail));
    }
    Ok(brought)
}

/// A display name; an empty one is dropped.
pub(crate) fn title(title: Option<String>) -> Accepted<Option<String>> {
    let Some(title) = title else { return Ok(None) };
    let count = title.chars().count();
    if count > limits::TITLE_CHARS_MAX {
        let most = limits::TITLE_CHARS_MAX;
        let detail = format!("the title has {count} characters; send at most {most} (TITLE_CHARS_MAX)");
        return Err(Refusal::new(Code::LimitReached, detail));
    }
    Ok(Some(title.trim().to_owned()).filter(|title| !title.is_empty()))
}

/// The body of a change of a session's title. Without a title nothing is changed.
#[derive(Deserialize)]
struct Titled {
    #[serde(deserialize_with = "Option::deserialize")]
    title: Option<String>,
}

pub(crate) fn new_title(bytes: &[u8]) -> Accepted<Option<String>> {
    title(super::body::<Titled>(bytes)?.title)
}

/// The cut position and the title of a fork.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Fork {
    /// How many messages of the history the new session begins with; all if missing.
    #[serde(default)]
    pub(crate) at: Option<u64>,
    #[serde(default)]
    pub(crate) title: Option<String>,
}

pub(crate) fn fork(bytes: &[u8]) -> Accepted<Fork> {
    // An empty body forks the whole history.
    let fork: Fork = if bytes.is_empty() { Fork::default() } else { super::body(bytes)? };
    Ok(Fork { title: title(fork.title)?, ..fork })
}

#[cfg(test)]
mod tests {
    use recount_engine::{AgentOption, ToolInfo};

    use super::*;

    fn profile() -> Profile {
        let option = |name: &str, kind: OptionKind, default: &str| AgentOption {
            name: name.into(),
            title: None,
            description: None,
            kind,
            default: default.into(),
            sets: None,
        };
        Profile {
            name: "clerk".into(),
            version: "1.0.0".into(),
            tools: vec![ToolInfo {
                name: "lookup".into(),
                title: None,
                description: "Looks up.".into(),
                parameters: Json::parse("{}").unwrap(),
            }],
            hidden: vec!["todo".into()],
            options: vec![
                option("tone", OptionKind::Select(vec!["warm".into(), "dry".into()]), "warm"),
                option("name", OptionKind::Text, ""),
                option("key", OptionKind::Secret, ""),
            ],
            ..Profile::default()
        }
    }

    fn new_setup(body: &str) -> Accepted<NewSetup> {
        session(super::super::body(body.as_bytes())?, &Profiles::new([profile()]))
    }

    fn new_setup_with(agent: &str, more: &str) -> Accepted<NewSetup> {
        new_setup(&format!(r#"{{"agent":{{"name":"clerk"{agent}}}{more}}}"#))
    }

    // P-063, P-065
    #[test]
    fn secrets_are_separated_and_their_placeholder_is_ignored() {
        let new = new_setup_with(r#","options":{"key":"hush","name":"***"}"#, "").unwrap();
        assert_eq!(new.setup.options, BTreeMap::from([("name".to_owned(), "***".to_owned())]));
        assert_eq!(new.setup.secrets, BTreeSet::from(["key".to_owned()]));
        assert_eq!(new.secrets["key"], "hush");
        let new = new_setup_with(r#","options":{"key":"***"}"#, "").unwrap();
        assert!(new.setup.secrets.is_empty() && new.secrets.is_empty());
        let new = new_setup_with(r#","options":{"key":""}"#, "").unwrap();
        assert_eq!(new.setup.secrets, BTreeSet::from(["key".to_owned()]));
    }

    // P-012, P-056, P-058, P-062
    #[test]
    fn invalid_choices_are_refused() {
        let tool = |name: &str| format!(r#"{{"name":"{name}","description":"","parameters":{{}}}}"#);
        for (agent, more, code) in [
            (r#","tools":[{"name":"nothing"}]"#, String::new(), Code::OrderRefused),
            (r#","tools":[{"name":"todo"}]"#, String::new(), Code::OrderRefused),
            (r#","tools":[{"name":"lookup"},{"name":"lookup"}]"#, String::new(), Code::BodyMalformed),
            (r#","tools":["lookup"]"#, String::new(), Code::BodyMalformed),
            (r#","options":{"tone":"cold"}"#, String::new(), Code::OptionInvalid),
            (r#","options":{"colour":"red"}"#, String::new(), Code::OptionInvalid),
            (r#","options":{"name":7}"#, String::new(), Code::BodyMalformed),
            ("", format!(r#","tools":[{}]"#, tool("lookup")), Code::OrderRefused),
            ("", format!(r#","tools":[{}]"#, tool("todo")), Code::OrderRefused),
            ("", format!(r#","tools":[{0},{0}]"#, tool("f")), Code::OrderRefused),
            ("", format!(r#","tools":[{}]"#, tool("ask_user")), Code::BodyMalformed),
            ("", format!(r#","tools":[{}]"#, tool("")), Code::BodyMalformed),
            ("", format!(r#","tools":[{}]"#, tool("a b")), Code::BodyMalformed),
            ("", r#","tools":[{"name":"f","description":""}]"#.into(), Code::BodyMalformed),
            ("", r#","tools":[{"name":"f","description":"","parameters":[]}]"#.into(), Code::BodyMalformed),
            (
                "",
                r#","messages":[{"role":"tool_permission","toolCallId":"x","granted":true}]"#.into(),
                Code::BodyMalformed,
            ),
            ("", r#","messages":"hi""#.into(), Code::BodyMalformed),
        ] {
            let refusal = new_setup_with(agent, &more).unwrap_err();
            assert_eq!(refusal.code, code, "{agent} {more}: {}", refusal.detail);
        }
        assert_eq!(new_setup(r#"{"agent":{"name":"nobody"}}"#).unwrap_err().code, Code::AgentNotFound);
        for bad in ["{}", r#"{"agent":{}}"#, r#"{"agent":"clerk"}"#, r#"{"agent":{"name":null}}"#] {
            assert_eq!(new_setup(bad).unwrap_err().code, Code::BodyMalformed, "{bad}");
        }
    }

    // P-057
    #[test]
    fn trust_in_a_tool_of_the_application_has_no_effect() {
        let tools = r#","tools":[{"name":"f","description":"","parameters":{}}]"#;
        let new = new_setup_with(r#","tools":[{"name":"f","trust":true},{"name":"lookup"}]"#, tools).unwrap();
        assert_eq!(new.setup.tools, Some(vec![ToolRef { name: "lookup".into(), trust: None }]));
    }

    // P-059, P-060, P-061
    #[test]
    fn a_turn_replaces_lists_and_merges_options() {
        let profile = profile();
        let new = new_setup_with(r#","tools":[{"name":"lookup"}],"options":{"name":"Ann","tone":"dry"}"#, "")
            .unwrap();
        let agent = |text: &str| -> Option<AgentOverrides> { Some(serde_json::from_str(text).unwrap()) };
        let changed = change(
            &new.setup,
            &profile,
            agent(r#"{"name":"clerk","tools":[],"options":{"name":"Bo","key":"***"}}"#),
            Some(Vec::new()),
        );
        let changed = changed.unwrap();
        assert_eq!(changed.setup.tools, Some(Vec::new()));
        assert_eq!(
            (changed.setup.options["name"].as_str(), changed.setup.options["tone"].as_str()),
            ("Bo", "dry")
        );
        assert!(changed.overrides.secrets.is_empty());
        assert!(config(&changed, &profile).unwrap().is_some());
        let same = change(&new.setup, &profile, None, None).unwrap();
        assert!(same.overrides.is_empty() && config(&same, &profile).unwrap().is_none());
        let other = change(&new.setup, &profile, agent(r#"{"name":"other"}"#), None);
        assert_eq!(other.unwrap_err().code, Code::BodyMalformed);
    }

    #[test]
    fn sessions_stay_usable_after_their_agent_was_reconfigured() {
        let mut profile = profile();
        let new = new_setup_with(
            r#","tools":[{"name":"lookup"}],"options":{"name":"Ann","tone":"dry","key":"k"}"#,
            "",
        )
        .unwrap();
        profile.tools.clear();
        profile.options.clear();
        let same = change(&new.setup, &profile, None, None).unwrap();
        assert!(profile.run_config(&same.setup.choice()).is_ok());
        assert!(same.overrides.is_empty());
    }
}
