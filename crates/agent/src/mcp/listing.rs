//! Reads the tool list of an MCP server: names for models, limits, and no ambiguous names.
//!
//! Pure. Start at [`Listing::read`].

use std::collections::BTreeMap;

use serde_json::Value;

use super::names;
use crate::limits::NAMED_CHARS_MAX;
use crate::mcp::limits;
use crate::tools::cut_bytes;

/// The accepted tools of a list.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Listing {
    /// The tools by their names for models.
    pub(crate) tools: BTreeMap<String, ListedTool>,
    /// Messages about tools that are omitted.
    pub(crate) left_out: Vec<String>,
}

/// One tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedTool {
    /// The name on the server.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    /// Whether the server declares that a call may destroy something.
    pub(crate) destroys: bool,
    /// Whether the server declares that calls change nothing. Only a hint for a person.
    pub(crate) reads: bool,
}

impl Listing {
    pub(crate) fn read(server: &str, listed: Vec<Value>) -> Listing {
        let mut listing = Listing::default();
        let mut doubled: Vec<String> = Vec::new();
        for (place, value) in listed.into_iter().enumerate() {
            if place >= limits::MCP_TOOLS_MAX {
                let most = limits::MCP_TOOLS_MAX;
                listing.left_out.push(format!(
                    "the MCP server {server} has more than {most} tools; the others are not offered"
                ));
                break;
            }
            let tool = match ListedTool::read(value) {
                Ok(tool) => tool,
                Err(why) => {
                    listing.left_out.push(format!("a tool of the MCP server {server} is not offered: {why}"));
                    continue;
                }
            };
            let name = names::tool_name(server, &tool.name);
            // Choosing one would depend on the order of the server's list.
            if let Some(other) = listing.tools.get(&name) {
                let (one, two) = (&other.name, &tool.name);
                listing.left_out.push(format!(
                    "the tools {one:?} and {two:?} of the MCP server {server} would both be named {name}; \
                     neither is offered"
                ));
                doubled.push(name);
                continue;
            }
            listing.tools.insert(name, tool);
        }
        listing.tools.retain(|name, _| !doubled.contains(name));
        listing
    }
}

impl ListedTool {
    fn read(mut value: Value) -> Result<ListedTool, String> {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let shown: String = name.chars().take(NAMED_CHARS_MAX).collect();
        if name.is_empty()
            || name.len() > limits::MCP_TOOL_NAME_BYTES_MAX
            || name.chars().any(char::is_control)
        {
            let most = limits::MCP_TOOL_NAME_BYTES_MAX;
            return Err(format!(
                "{shown:?} is not a valid name; names have 1 to {most} bytes and no control characters"
            ));
        }
        let Some(Value::Object(mut schema)) = value.get_mut("inputSchema").map(Value::take) else {
            return Err(format!("{shown:?} has no input schema"));
        };
        schema.entry("type").or_insert_with(|| "object".into());
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(format!("the input schema of {shown:?} is not for an object"));
        }
        let schema = Value::Object(schema);
        let bytes = schema.to_string().len();
        if bytes > limits::MCP_SCHEMA_BYTES_MAX {
            let most = limits::MCP_SCHEMA_BYTES_MAX;
            return Err(format!("the schema of {shown:?} has {bytes} bytes; the limit is {most}"));
        }
        let description = value.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        let hint = |hint: &str| {
            value.get("annotations").and_then(|hints| hints.get(hint)) == Some(&Value::Bool(true))
        };
        let (destroys, reads) = (hint("destructiveHint"), hint("readOnlyHint"));
        Ok(ListedTool {
            description: cut_bytes(description, limits::MCP_DESCRIPTION_BYTES_MAX),
            name,
            schema,
            destroys: destroys && !reads,
            reads,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Value {
        json!({ "name": name, "inputSchema": { "type": "object" } })
    }

    #[test]
    fn tools_that_would_have_one_name_are_both_left_out() {
        let listing = Listing::read("s", vec![tool("a.b"), tool("c"), tool("a b"), tool("a_b")]);
        assert_eq!(listing.tools.keys().collect::<Vec<_>>(), ["mcp__s__c"]);
        assert_eq!(listing.left_out.len(), 2);
        assert!(listing.left_out[0].contains("mcp__s__a_b; neither"), "{:?}", listing.left_out);
    }

    #[test]
    fn what_cannot_be_offered_is_left_out_with_words() {
        let long = json!({ "name": "long", "inputSchema": { "description": "x".repeat(limits::MCP_SCHEMA_BYTES_MAX) } });
        for (listed, words) in [
            (json!({ "name": "", "inputSchema": {} }), "not a valid name"),
            (json!({ "name": "a\u{7}", "inputSchema": {} }), "control characters"),
            (json!({ "name": "a" }), "no input schema"),
            (json!({ "name": "a", "inputSchema": { "type": "string" } }), "not for an object"),
            (json!(7), "not a valid name"),
            (long, "the limit is"),
        ] {
            let listing = Listing::read("s", vec![listed, tool("good")]);
            assert_eq!(listing.tools.len(), 1);
            assert!(listing.left_out[0].contains(words), "{:?}", listing.left_out);
        }
        let many = (0..=limits::MCP_TOOLS_MAX).map(|number| tool(&format!("t{number}"))).collect();
        let listing = Listing::read("s", many);
        assert_eq!((listing.tools.len(), listing.left_out.len()), (limits::MCP_TOOLS_MAX, 1));
    }

    #[test]
    fn hints_make_a_call_graver_and_never_less_grave() {
        let mut hinted = tool("drop");
        hinted["annotations"] = json!({ "destructiveHint": true });
        hinted["description"] = "x".repeat(limits::MCP_DESCRIPTION_BYTES_MAX + 1).into();
        let listing = Listing::read("s", vec![hinted, tool("other")]);
        assert!(listing.tools["mcp__s__drop"].destroys && !listing.tools["mcp__s__other"].destroys);
        assert!(listing.tools["mcp__s__drop"].description.ends_with('…'));
    }
}
