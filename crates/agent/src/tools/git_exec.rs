//! The `git_exec` tool: runs any other git verb.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::SUMMARY_CHARS_MAX;
use crate::policy::{command_risk, quoted};
use crate::sandbox::Sandbox;
use crate::tool::{Assessment, Job, Outcome, Preview, Targets, Tool};
use crate::tools::ending::{CallFailure, cut};
use crate::tools::git::RemoteAccess;
use crate::tools::limits;
use crate::tools::{command, git, input};

pub struct GitExec {
    sandbox: Arc<Sandbox>,
}

#[derive(Deserialize)]
struct GitExecInput {
    args: Vec<String>,
}

impl GitExec {
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        GitExec { sandbox }
    }
}

impl Tool for GitExec {
    fn name(&self) -> &'static str {
        "git_exec"
    }

    fn kind(&self) -> &'static str {
        "git"
    }

    fn description(&self) -> &'static str {
        "Runs git in the workspace with the given arguments, for example [\"log\", \"-5\", \"--oneline\"]. \
         Hooks, filters, pagers, editors, aliases and stored credentials are disabled. Network access may be \
         blocked."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "args": {
                    "type": "array",
                    "items": { "type": "string" },
                    "minItems": 1,
                    "maxItems": limits::GIT_ARGUMENTS_MAX,
                    "description": "The git subcommand and its arguments, without `git`, one array item each."
                }
            },
            "required": ["args"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        let line = line(input);
        let (risk, reversibility, consequence) = command_risk(&line);
        Assessment {
            risk,
            reversibility,
            summary: cut(&line, SUMMARY_CHARS_MAX),
            action: format!("Run `{}`.", cut(&line, SUMMARY_CHARS_MAX)),
            consequence: consequence.to_owned(),
            targets: Targets { command: Some(line), ..Targets::default() },
            writes: true,
        }
    }

    fn preview(&self, input: &Value, _root: &Path) -> Preview {
        Preview::command(&line(input))
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let GitExecInput { args } = match input::read(job.input) {
                Ok(input) => input,
                Err(failure) => return CallFailure::into(failure),
            };
            match git::plan(&self.sandbox, job.terms, args, RemoteAccess::Allowed).await {
                Ok(plan) => command::run(&self.sandbox, job, plan).await,
                Err(failure) => failure.into(),
            }
        })
    }
}

/// The call as a command line.
fn line(input: &Value) -> String {
    let words = input.get("args").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let words: Vec<&str> = std::iter::once("git").chain(words).collect();
    quoted(&words)
}
