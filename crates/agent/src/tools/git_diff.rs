//! `git_diff`: the changes of the workspace's repository, of all or of one path, staged or not.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::tool::{Assessment, Job, Outcome, Tool};
use crate::tools::ending::Stop;
use crate::tools::git::Reach;
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
        "Shows the changes in the workspace's git repository as a unified diff: those that are not staged, or \
         those that are; of everything, or of one path."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "A file or folder, relative to the workspace."
                },
                "staged": {
                    "type": "boolean",
                    "description": "Show what is staged instead of what is not."
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
        input::harmless(summary.trim_end(), "Look at the changes.", paths)
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let GitDiffInput { path, staged } = match input::read(job.input) {
                Ok(input) => input,
                Err(stop) => return Stop::into(stop),
            };
            let mut words = vec!["diff".to_owned()];
            if staged == Some(true) {
                words.push("--staged".to_owned());
            }
            // A path is not a pattern, and never an option.
            words.push("--".to_owned());
            words.extend(path.map(|path| format!(":(literal){path}")));
            match git::wanted(&self.sandbox, job.terms, words, Reach::Here).await {
                Ok(wanted) => command::run(&self.sandbox, job, wanted).await,
                Err(stop) => stop.into(),
            }
        })
    }
}
