//! Tools that an application brings and carries out itself: their names and schemas for a model, and which are refused.
//!
//! Pure, and knows no run: `calls` hands a call of one over. Look at [`specs`] and [`check`].

use std::collections::BTreeSet;

use recount_engine::{ClientTool, Order};
use recount_run::ASKING_TOOLS;
use serde_json::Value;

use crate::limits;
use crate::model::{ToolSpec, plain_name};

/// What a model is told of an order's client tools; `ours` are the names that it is told of beside them.
pub(crate) fn specs(order: &Order, ours: &[&str]) -> impl Iterator<Item = ToolSpec> {
    names(order, ours).into_iter().map(|(name, tool)| ToolSpec {
        name,
        description: tool.description.clone(),
        schema: schema(tool),
    })
}

/// Providers want to be told that an input is an object, whatever else is said of it.
fn schema(tool: &ClientTool) -> Value {
    let mut schema: Value = serde_json::from_str(tool.parameters.text()).unwrap_or_default();
    if let Value::Object(schema) = &mut schema {
        schema.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

/// What a model calls each tool of the application: by its name where every provider takes that, else by one like it.
fn names<'a>(order: &'a Order, ours: &[&str]) -> Vec<(String, &'a ClientTool)> {
    let mut taken: BTreeSet<String> = ours.iter().map(|name| (*name).to_owned()).collect();
    let tools = || order.client_tools.iter().filter(|tool| may_be_called(&tool.name));
    taken.extend(tools().map(|tool| tool.name.clone()));
    let named = |tool: &'a ClientTool| {
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
    tools().map(named).collect()
}

/// The tool that a model means by a name.
pub(crate) fn meant(order: &Order, ours: &[&str], name: &str) -> Option<String> {
    let found = names(order, ours).into_iter().find(|(told, _)| told == name);
    found.map(|(_, tool)| tool.name.clone())
}

/// The names of what asks people belong to this server in every run.
fn may_be_called(name: &str) -> bool {
    !ASKING_TOOLS.contains(&name)
}

/// Whether the application carries out the calls of a tool.
pub(crate) fn carries_out(order: &Order, name: &str) -> bool {
    may_be_called(name) && order.client_tools.iter().any(|tool| tool.name == name)
}

/// Refuses client tools that cannot be told from others or from ours; `ours` are those that the run may use.
pub(crate) fn check(order: &Order, ours: &[&str]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for tool in &order.client_tools {
        let shown: String = tool.name.chars().take(limits::NAMED_CHARS_MAX).collect();
        let length = tool.name.chars().count();
        if length == 0
            || length > limits::CLIENT_TOOL_NAME_CHARS_MAX
            || tool.name.chars().any(char::is_control)
        {
            let most = limits::CLIENT_TOOL_NAME_CHARS_MAX;
            return Err(format!(
                "{shown:?} cannot be the name of a tool; send 1 to {most} characters without control characters"
            ));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(format!("two tools of the application are called {shown:?}; call each otherwise"));
        }
        if ours.contains(&tool.name.as_str()) || !may_be_called(&tool.name) {
            return Err(format!("{shown:?} is the name of a tool of this server; call yours otherwise"));
        }
        if !matches!(serde_json::from_str(tool.parameters.text()), Ok(Value::Object(_))) {
            return Err(format!("the parameters of the tool {shown:?} are no JSON Schema; send an object"));
        }
    }
    Ok(())
}
