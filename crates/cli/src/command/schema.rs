//! `recount schema [NAME]`: the JSON Schemas of this release. Asks no server.

use clap::Args;
use recount_server::contract::{self, Schema as Entry};
use serde_json::json;

use super::Invocation;
use crate::failure::Failure;
use crate::output::Output;

/// Print the JSON Schema of an event type, or list the types
#[derive(Args)]
pub(super) struct Schema {
    /// Event type, such as run.queued; envelope, for the fields around an event's data; or openapi, for the HTTP
    /// API. If omitted, list the names
    name: Option<String>,
}

impl Schema {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let json = invocation.json;
        let mut out = Output::new();
        let Some(name) = self.name else {
            let entries = contract::schemas();
            return entries.iter().try_for_each(|entry| list(&mut out, entry, json));
        };
        let Some(text) = contract::schema(&name) else {
            let advice = match contract::nearest_schema(&name) {
                Some(nearest) => format!("did you mean {nearest}?"),
                None => "recount schema lists the names".to_owned(),
            };
            return Err(Failure::Usage(format!("schema {name:?} not found; {advice}")));
        };
        if json {
            // On one line, as all data with --json.
            let value: serde_json::Value =
                serde_json::from_str(&text).map_err(|why| Failure::Own(why.to_string()))?;
            return out.value(&value);
        }
        out.line(text.trim_end())
    }
}

fn list(out: &mut Output, entry: &Entry, json: bool) -> Result<(), Failure> {
    if json {
        return out.value(&json!({ "name": entry.name, "status": entry.status }));
    }
    out.line(&format!("{:<36} {}", entry.name, entry.status))
}
