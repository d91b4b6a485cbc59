//! The common steps of tools that change files: assessment, preview and execution of planned changes.
//!
//! It must not know what a tool writes into a file.
//!
//! Start at [`FileEditor`].

use std::path::Path;

use futures_util::future::BoxFuture;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::paths::Root;
use crate::tool::{Assessment, Job, Outcome, Preview, Tool};
use crate::tools::change::{self, ChangePlan, ChangeReport};
use crate::tools::ending::{CallFailure, completed};
use crate::tools::input;
use crate::tools::rooted::in_root;

/// A tool that changes files of the workspace. Each one is a [`Tool`].
pub(crate) trait FileEditor: Send + Sync + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    type Input: DeserializeOwned + Send + 'static;

    /// The properties of the input's schema.
    fn properties() -> Value;

    const REQUIRED: &'static [&'static str];

    fn intent(input: &Value) -> Intent;

    /// Computes the changes without writing anything.
    fn plan(root: &Root, input: Self::Input) -> Result<Edits, CallFailure>;
}

/// The facts of a call that are known before any file is read.
pub(crate) struct Intent {
    /// As the call names them.
    pub(crate) paths: Vec<String>,
    pub(crate) action: String,
    pub(crate) consequence: &'static str,
}

/// Changes that belong together, and how to report them.
pub(crate) struct Edits {
    pub(crate) plans: Vec<ChangePlan>,
    pub(crate) report: ChangeReport,
    pub(crate) output: String,
    pub(crate) summary: String,
}

impl<T: FileEditor> Tool for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn description(&self) -> &'static str {
        T::DESCRIPTION
    }

    fn schema(&self) -> Value {
        input::schema(T::properties(), T::REQUIRED)
    }

    fn assess(&self, input: &Value) -> Assessment {
        let Intent { paths, action, consequence } = T::intent(input);
        Assessment {
            risk: RiskLevel::Medium,
            consequence: consequence.to_owned(),
            reversibility: Reversibility::Reversible,
            writes: true,
            ..input::harmless(&paths.join(", "), action, paths)
        }
    }

    fn preview(&self, input: &Value, root: &Path) -> Preview {
        let edits = input::read(input).and_then(|input| T::plan(&Root::open(root)?, input));
        change::preview(input, edits.map(|edits| edits.plans))
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { edit::<T>(job).await.unwrap_or_else(Outcome::from) })
    }
}

async fn edit<T: FileEditor>(mut job: Job<'_>) -> Result<Outcome, CallFailure> {
    let input: T::Input = input::read(job.input)?;
    let edits = in_root(job.world, job.terms, move |root| T::plan(root, input)).await?;
    let events = change::apply_plans(&mut job, edits.plans, edits.report).await?;
    Ok(completed(edits.output, edits.summary, events))
}
