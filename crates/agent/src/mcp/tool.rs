//! Offers a tool of an MCP server as a tool of a run.
//!
//! Start at [`McpTool`]. The module must not depend on how servers are connected.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use recount_event::ForeignId;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde_json::Value;

use super::content::{self, ResultBlob, ToolResult};
use super::fault::{Fault, code};
use super::link::{Link, Stopped};
use super::listing::ListedTool;
use crate::limits;
use crate::tool::{
    ArtifactStore, Assessment, Job, McpOrigin, NewArtifact, Outcome, OutcomeStatus, TOOL_ERROR, Targets, Tool,
};
use crate::tools::ending::{CallFailure, cut, first_line};

/// A tool of an MCP server.
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

/// Assesses a call of such a tool. `destroys` and `reads` are as the server declares.
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
            (true, _) => "May destroy data, according to the MCP server.",
            (_, true) => "Reads only, according to the MCP server.",
            _ => "The effect depends on the MCP server.",
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
                Ok(result) => {
                    let mut read = content::read(&result);
                    let blobs = read.as_mut().map(|read| std::mem::take(&mut read.blobs)).unwrap_or_default();
                    let outcome = self.outcome(read);
                    kept(job.artifacts, job.call, blobs, outcome).await
                }
                Err(Stopped::Cancelled) => CallFailure::cancelled().into(),
                Err(Stopped::Failed(Fault { code, message, .. })) => {
                    CallFailure::failed(code, message).into()
                }
                Err(Stopped::TimedOut(timeout)) => {
                    let error = format!(
                        "the MCP server {} did not respond within {} ms; the call was abandoned, and it is \
                         unknown whether it took effect",
                        self.origin.server,
                        timeout.as_millis()
                    );
                    let status = OutcomeStatus::TimedOut { code: code::TIMEOUT, error: error.clone() };
                    Outcome {
                        status,
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

/// Stores the binary content of a result as artifacts of the run.
async fn kept(
    artifacts: &dyn ArtifactStore,
    call: &ForeignId,
    blobs: Vec<ResultBlob>,
    mut outcome: Outcome,
) -> Outcome {
    for blob in blobs {
        let artifact = NewArtifact {
            kind: "tool_result_blob",
            mime: blob.mime,
            summary: Some(blob.name),
            bytes: blob.bytes,
            call: Some(call.clone()),
            target: None,
        };
        match artifacts.store(artifact).await {
            Ok(stored) => outcome.events.push(stored.created),
            Err(why) => outcome.output += &format!("\n[data of the result could not be stored: {why}]"),
        }
    }
    outcome
}

impl McpTool {
    fn outcome(&self, read: Option<ToolResult>) -> Outcome {
        let Some(read) = read else {
            return CallFailure::failed(code::GARBLED, "the server's result cannot be read").into();
        };
        let summary = first_line(&read.output);
        let status = if read.is_error {
            OutcomeStatus::Failed { code: TOOL_ERROR, error: summary.clone() }
        } else {
            OutcomeStatus::Completed
        };
        Outcome {
            status,
            summary,
            output: read.output,
            events: Vec::new(),
            artifact: None,
            image: read.image,
        }
    }
}
