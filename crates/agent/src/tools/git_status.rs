//! The `git_status` tool: shows the branch and the changed files of the workspace's repository.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::tool::{Assessment, Job, Outcome, Tool};
use crate::tools::git::RemoteAccess;
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
        "Returns the branch and the changed, staged and untracked files of the workspace's git repository, \
         in the format of `git status --short --branch`."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": {}, "additionalProperties": false })
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn assess(&self, _input: &Value) -> Assessment {
        input::harmless("git status", "Show the status of the git repository.", Vec::new())
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let args = ["status", "--short", "--branch", "--untracked-files=all"].map(str::to_owned).to_vec();
            match git::plan(&self.sandbox, job.terms, args, RemoteAccess::Denied).await {
                Ok(plan) => command::run(&self.sandbox, job, plan).await,
                Err(failure) => failure.into(),
            }
        })
    }
}
