//! Client tools, which an application defines and executes: their names and schemas for a model, and their validation.
//!
//! Pure. It must not know runs: `calls` passes a call to the application. Start with [`specs`] and [`check`].

use std::collections::BTreeSet;

use recount_engine::{ClientTool, RunConfig};
use recount_run::ASKING_TOOLS;
use serde_json::Value;

use crate::limits;
use crate::model::{ToolSpec, plain_name};

/// The client tools of a run for a model; `ours` are the names of the server's tools.
pub(crate) fn specs(config: &RunConfig, ours: &[&str]) -> impl Iterator<Item = ToolSpec> {
    names(config, ours).into_iter().map(|(name, tool)| ToolSpec {
        name,
        description: tool.description.clone(),
        schema: schema(tool),
    })
}

/// The input schema. Providers require the type `object`.
fn schema(tool: &ClientTool) -> Value {
    let mut schema: Value = serde_json::from_str(tool.parameters.text()).unwrap_or_default();
    if let Value::Object(schema) = &mut schema {
        schema.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

/// The client tools with a name that every provider accepts.
fn names<'a>(config: &'a RunConfig, ours: &[&str]) -> Vec<(String, &'a ClientTool)> {
    let mut taken: BTreeSet<String> = ours.iter().map(|name| (*name).to_owned()).collect();
    let tools = || config.client_tools.iter().filter(|tool| is_allowed_name(&tool.name));
    taken.extend(tools().map(|tool| tool.name.clone()));
    let with_name = |tool: &'a ClientTool| {
        let plain = plain_name(&tool.name);
        let mut name = plain.clone();
        let mut number = 2;
        while name != tool.name && !taken.insert(name.clone()) {
            let end = format!("_{number}");
            name = plain[..plain.len().min(limits::MODEL_TOOL_NAME_CHARS_MAX - end.len())].to_owned() + &end;
            number += 1;
        }
        (name, tool)
    };
    tools().map(with_name).collect()
}

/// The client tool that has this name for the model.
pub(crate) fn tool_of(config: &RunConfig, ours: &[&str], name: &str) -> Option<String> {
    let found = names(config, ours).into_iter().find(|(plain, _)| plain == name);
    found.map(|(_, tool)| tool.name.clone())
}

/// Whether a client tool may have this name. The names of prompting tools are reserved in every run.
fn is_allowed_name(name: &str) -> bool {
    !ASKING_TOOLS.contains(&name)
}

/// Whether the application executes the calls of a tool.
pub(crate) fn carries_out(config: &RunConfig, name: &str) -> bool {
    is_allowed_name(name) && config.client_tools.iter().any(|tool| tool.name == name)
}

/// Rejects invalid and duplicate client tools; `ours` are the server's tools of the run.
pub(crate) fn check(config: &RunConfig, ours: &[&str]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for tool in &config.client_tools {
        let shown: String = tool.name.chars().take(limits::NAMED_CHARS_MAX).collect();
        let length = tool.name.chars().count();
        if length == 0
            || length > limits::CLIENT_TOOL_NAME_CHARS_MAX
            || tool.name.chars().any(char::is_control)
        {
            let most = limits::CLIENT_TOOL_NAME_CHARS_MAX;
            return Err(format!(
                "{shown:?} is not a valid tool name; send 1 to {most} characters without control characters"
            ));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(format!("two tools of the application have the name {shown:?}; rename one"));
        }
        if ours.contains(&tool.name.as_str()) || !is_allowed_name(&tool.name) {
            return Err(format!("the server has a tool named {shown:?}; rename yours"));
        }
        if !matches!(serde_json::from_str(tool.parameters.text()), Ok(Value::Object(_))) {
            return Err(format!(
                "the parameters of the tool {shown:?} are not a JSON Schema; send an object"
            ));
        }
    }
    Ok(())
}
