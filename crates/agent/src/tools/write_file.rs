//! `write_file`: a new file, or a file's whole content anew.
//!
//! Look at [`WriteFile`]. What is given is written as it is, byte for byte: no line ending is changed and no newline
//! added. Where a file stands already it is an edit, and told as one.

use std::path::Path;

use futures_util::future::BoxFuture;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits;
use crate::paths::Root;
use crate::tool::{Assessment, Job, Outcome, Preview, Tool};
use crate::tools::change::{self, Plan, Telling};
use crate::tools::ending::{Stop, aside, completed};
use crate::tools::input;

pub(crate) struct WriteFile;

#[derive(Deserialize)]
struct Input {
    path: String,
    content: String,
}

impl Tool for WriteFile {
    fn name(&self) -> &'static str {
        "write_file"
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn description(&self) -> &'static str {
        "Makes a file with this content, or replaces the whole content of one that is there. Missing folders are \
         made. To change a part of a file use edit_file."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string", "minLength": 1, "maxLength": limits::PATH_BYTES_MAX,
                    "description": "The file, relative to the workspace."
                },
                "content": {
                    "type": "string", "maxLength": limits::EDIT_FILE_BYTES_MAX,
                    "description": "The whole content, written as it is."
                }
            },
            "required": ["path", "content"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        let path = input::text(input, "path");
        let bytes = input::text(input, "content").len();
        Assessment {
            risk: RiskLevel::Medium,
            action: format!("Write {bytes} bytes to the file {path}."),
            consequence: "What the file held before is replaced; a patch is kept.".to_owned(),
            reversibility: Reversibility::Reversible,
            writes: true,
            ..input::harmless(path, "", vec![path.to_owned()])
        }
    }

    fn preview(&self, input: &Value, root: &Path) -> Preview {
        let plans = input::read(input).and_then(|read| plan(root, read)).map(|plan| vec![plan]);
        change::preview(input, plans)
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { write(job).await.unwrap_or_else(Outcome::from) })
    }
}

fn plan(root: &Path, input: Input) -> Result<Plan, Stop> {
    let Input { path, content } = input;
    if content.len() > limits::EDIT_FILE_BYTES_MAX {
        let most = limits::EDIT_FILE_BYTES_MAX;
        let message = format!("the content has {} bytes and may have {most}", content.len());
        return Err(Stop::failed("file_too_large", message));
    }
    let root = Root::open(root)?;
    let place = root.place(&path)?;
    let before = change::before(&root, &place)?;
    Plan::new(place, before, content.into_bytes())
}

async fn write(mut job: Job<'_>) -> Result<Outcome, Stop> {
    let input: Input = input::read(job.input)?;
    let root = job.terms.root.clone();
    let plan = aside(job.world, move || plan(&root, input)).await?;
    let summary = format!("{}: {}", plan.place.told(), plan.summary());
    let (done, telling) =
        if plan.is_new() { ("Made", Telling::New) } else { ("Replaced the content of", Telling::Edit) };
    let events = change::make(&mut job, vec![plan], telling).await?;
    Ok(completed(format!("{done} {summary}."), summary, events))
}
