//! A tool of an MCP server as a tool of a run.
//!
//! Look at [`McpTool`]. It must not know how servers are reached.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde_json::Value;

use super::content;
use super::fault::{Fault, code};
use super::link::{Link, Stopped};
use super::listing::ListedTool;
use crate::limits;
use crate::tool::{Assessment, How, Job, McpOrigin, Outcome, TOOL_ERROR, Targets, Tool};
use crate::tools::ending::{Stop, cut, first_line};

/// See the file's head.
pub(crate) struct McpTool {
    name: String,
    listed: ListedTool,
    origin: McpOrigin,
    link: Arc<Link>,
}

impl McpTool {
    pub(crate) fn new(name: String, listed: ListedTool, link: Arc<Link>) -> Self {
        let origin = McpOrigin {
            server: link.server.name.clone(),
            tool: listed.name.clone(),
            approval: link.server.approval(&listed.name),
        };
        McpTool { name, listed, origin, link }
    }
}

/// What is known of any call of such a tool. `destroys` and `reads`: as the server says.
pub(crate) fn assess_call(
    server: &str,
    tool: &str,
    (destroys, reads): (bool, bool),
    input: &Value,
) -> Assessment {
    Assessment {
        risk: RiskLevel::Medium,
        reversibility: if destroys { Reversibility::Irreversible } else { Reversibility::Reversible },
        summary: cut(&format!("{tool} of {server}: {input}"), limits::SUMMARY_CHARS_MAX),
        action: format!("Call the tool {} of the MCP server {server}.", cut(tool, limits::NAMED_CHARS_MAX)),
        consequence: match (destroys, reads) {
            (true, _) => "The server says that the call may destroy something.",
            (_, true) => "The server says that the call only reads.",
            _ => "What the call does is up to the server.",
        }
        .to_owned(),
        targets: Targets::default(),
        writes: true,
    }
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "mcp"
    }

    fn description(&self) -> &str {
        &self.listed.description
    }

    fn schema(&self) -> Value {
        self.listed.schema.clone()
    }

    fn origin(&self) -> Option<&McpOrigin> {
        Some(&self.origin)
    }

    fn assess(&self, input: &Value) -> Assessment {
        let McpOrigin { server, tool, .. } = &self.origin;
        assess_call(server, tool, (self.listed.destroys, self.listed.reads), input)
    }

    fn run<'a>(&'a self, mut job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let cancelled = Box::pin(job.cancel.cancelled());
            match self.link.call(&self.name, job.input, &job.terms.root, cancelled).await {
                Ok(result) => self.outcome(&result),
                Err(Stopped::Cancelled) => Stop::cancelled().into(),
                Err(Stopped::Failed(Fault { code, message, .. })) => Stop::failed(code, message).into(),
                Err(Stopped::TimedOut(timeout)) => {
                    let error = format!(
                        "the server {} did not answer within {} ms; the call was given up, and whether it took effect is not known",
                        self.origin.server,
                        timeout.as_millis()
                    );
                    let how = How::TimedOut { code: code::TIMEOUT, error: error.clone() };
                    Outcome {
                        how,
                        output: error.clone(),
                        summary: error,
                        events: Vec::new(),
                        artifact: None,
                        image: None,
                    }
                }
            }
        })
    }
}

impl McpTool {
    fn outcome(&self, result: &Value) -> Outcome {
        let Some(read) = content::read(result) else {
            return Stop::failed(code::GARBLED, "the server's result of the call cannot be read").into();
        };
        let summary = first_line(&read.output);
        let how = if read.is_error {
            How::Failed { code: TOOL_ERROR, error: summary.clone() }
        } else {
            How::Completed
        };
        Outcome { how, summary, output: read.output, events: Vec::new(), artifact: None, image: read.image }
    }
}
