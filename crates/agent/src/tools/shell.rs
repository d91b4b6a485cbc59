//! The `shell_exec` tool: runs a command line with a shell in the sandbox.
//!
//! Start at [`ShellExec`]. `command` runs it and reports its output.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits;
use crate::policy::command_risk;
use crate::sandbox::Sandbox;
use crate::tool::{Assessment, Job, Outcome, Preview, Targets, Tool};
use crate::tools::command::{self, CommandPlan};
use crate::tools::ending::{CallFailure, cut};
use crate::tools::input;

/// Runs command lines.
pub struct ShellExec {
    sandbox: Arc<Sandbox>,
}

#[derive(Deserialize)]
struct ShellInput {
    command: String,
    timeout_seconds: Option<u64>,
}

impl ShellExec {
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        ShellExec { sandbox }
    }
}

impl Tool for ShellExec {
    fn name(&self) -> &'static str {
        "shell_exec"
    }

    fn kind(&self) -> &'static str {
        "shell"
    }

    fn description(&self) -> &'static str {
        "Runs a shell command in the workspace. Returns the exit code, stdout and stderr. Long output is cut \
         in the middle. stdin is empty. Background processes are killed when the command ends. /tmp and the \
         home directory start empty and are discarded; only the workspace persists. Network access may be \
         blocked."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The shell command to run."
                },
                "timeout_seconds": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 86_400,
                    "description": "Stop the command after this many seconds. The server may have a lower \
                                    limit."
                }
            },
            "required": ["command"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        let line = input::text(input, "command");
        let (risk, reversibility, consequence) = command_risk(line);
        Assessment {
            risk,
            reversibility,
            summary: cut(line, limits::SUMMARY_CHARS_MAX),
            action: format!("Run `{}`.", cut(line, limits::SUMMARY_CHARS_MAX)),
            consequence: consequence.to_owned(),
            targets: Targets { command: Some(line.to_owned()), ..Targets::default() },
            writes: true,
        }
    }

    fn preview(&self, input: &Value, _root: &Path) -> Preview {
        Preview::command(input::text(input, "command"))
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let ShellInput { command, timeout_seconds } = match input::read(job.input) {
                Ok(input) => input,
                Err(failure) => return failure.into(),
            };
            if command.len() > limits::COMMAND_BYTES_MAX || command.contains('\0') {
                let most = limits::COMMAND_BYTES_MAX;
                let why = format!(
                    "a command must have at most {most} bytes and no NUL byte; put longer \
                                   commands into a script file"
                );
                return CallFailure::failed("invalid_input", why).into();
            }
            let allowed = job.terms.command_timeout;
            let plan = CommandPlan {
                title: command.clone(),
                argv: vec![self.sandbox.shell().to_owned(), "-c".to_owned(), command],
                environment: Vec::new(),
                timeout: timeout_seconds.map_or(allowed, |plan| Duration::from_secs(plan).min(allowed)),
                kind: "shell",
            };
            command::run(&self.sandbox, job, plan).await
        })
    }
}
