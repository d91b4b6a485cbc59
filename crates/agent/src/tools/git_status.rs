//! `git_status`: what has changed in the workspace's repository, and on which branch it stands.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::tool::{Assessment, Job, Outcome, Tool};
use crate::tools::git::Reach;
use crate::tools::{command, git, input};

pub struct GitStatus {
    sandbox: Arc<Sandbox>,
}

impl GitStatus {
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        GitStatus { sandbox }
    }
}

impl Tool for GitStatus {
    fn name(&self) -> &'static str {
        "git_status"
    }

    fn kind(&self) -> &'static str {
        "git"
    }

    fn description(&self) -> &'static str {
        "Tells the branch of the workspace's git repository and which files are changed, staged or unknown, one \
         a line with two letters before it, as `git status --short --branch` does."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": {}, "additionalProperties": false })
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn assess(&self, _input: &Value) -> Assessment {
        input::harmless("git status", "Look at what has changed.", Vec::new())
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let words =
                ["status", "--short", "--branch", "--untracked-files=all"].map(str::to_owned).to_vec();
            match git::wanted(&self.sandbox, job.terms, words, Reach::Here).await {
                Ok(wanted) => command::run(&self.sandbox, job, wanted).await,
                Err(stop) => stop.into(),
            }
        })
    }
}
