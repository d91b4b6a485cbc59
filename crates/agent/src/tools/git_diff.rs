//! The `git_diff` tool: shows staged or unstaged changes of the workspace's repository, of all files or of one path.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::tool::{Assessment, Job, Outcome, Tool};
use crate::tools::ending::CallFailure;
use crate::tools::git::RemoteAccess;
use crate::tools::{command, git, input};

pub struct GitDiff {
    sandbox: Arc<Sandbox>,
}

#[derive(Deserialize)]
struct GitDiffInput {
    path: Option<String>,
    staged: Option<bool>,
}

impl GitDiff {
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        GitDiff { sandbox }
    }
}

impl Tool for GitDiff {
    fn name(&self) -> &'static str {
        "git_diff"
    }

    fn kind(&self) -> &'static str {
        "git"
    }

    fn description(&self) -> &'static str {
        "Shows changes in the workspace's git repository as a unified diff: unstaged by default, staged with \
         `staged`, optionally limited to one path."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "A file or folder, relative to the workspace. Default: everything."
                },
                "staged": {
                    "type": "boolean",
                    "description": "Show staged changes instead of unstaged ones. Default false."
                }
            },
            "additionalProperties": false
        })
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn assess(&self, input: &Value) -> Assessment {
        let path = input::text(input, "path");
        let summary = format!("git diff {path}");
        let paths = if path.is_empty() { Vec::new() } else { vec![path.to_owned()] };
        input::harmless(summary.trim_end(), "Show the changes in the git repository.", paths)
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let GitDiffInput { path, staged } = match input::read(job.input) {
                Ok(input) => input,
                Err(failure) => return CallFailure::into(failure),
            };
            let mut args = vec!["diff".to_owned()];
            if staged == Some(true) {
                args.push("--staged".to_owned());
            }
            // The path is neither a pattern nor an option.
            args.push("--".to_owned());
            args.extend(path.map(|path| format!(":(literal){path}")));
            match git::plan(&self.sandbox, job.terms, args, RemoteAccess::Denied).await {
                Ok(plan) => command::run(&self.sandbox, job, plan).await,
                Err(failure) => failure.into(),
            }
        })
    }
}
