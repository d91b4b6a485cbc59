//! `edit_file`: one piece of text in one file, replaced exactly.
//!
//! Look at [`EditFile`]. The text must stand in the file as it is given, and once, unless every place is meant.

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
use crate::tools::replace::replace;

pub(crate) struct EditFile;

#[derive(Deserialize)]
struct Input {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

impl Tool for EditFile {
    fn name(&self) -> &'static str {
        "edit_file"
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn description(&self) -> &'static str {
        "Replaces old_text in a file by new_text. old_text must stand in the file exactly as given, white space \
         included and without line numbers, and only once unless replace_all is set."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string", "minLength": 1, "maxLength": limits::PATH_BYTES_MAX,
                    "description": "The file, relative to the workspace."
                },
                "old_text": {
                    "type": "string", "minLength": 1, "maxLength": limits::EDIT_FILE_BYTES_MAX,
                    "description": "The text to be replaced, with enough around it to be unique."
                },
                "new_text": {
                    "type": "string", "maxLength": limits::EDIT_FILE_BYTES_MAX,
                    "description": "What stands there afterwards."
                },
                "replace_all": {
                    "type": "boolean",
                    "description": "Replace old_text wherever it stands. Default false."
                }
            },
            "required": ["path", "old_text", "new_text"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        let path = input::text(input, "path");
        Assessment {
            risk: RiskLevel::Medium,
            action: format!("Replace a piece of text in the file {path}."),
            consequence: "The file is changed; a patch is kept.".to_owned(),
            reversibility: Reversibility::Reversible,
            writes: true,
            ..input::harmless(path, "", vec![path.to_owned()])
        }
    }

    fn preview(&self, input: &Value, root: &Path) -> Preview {
        let plans = input::read(input).and_then(|read| plan(root, &read)).map(|(plan, _)| vec![plan]);
        change::preview(input, plans)
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { edit(job).await.unwrap_or_else(Outcome::from) })
    }
}

fn plan(root: &Path, input: &Input) -> Result<(Plan, usize), Stop> {
    let root = Root::open(root)?;
    let place = root.place(&input.path)?;
    let before = change::existing(&root, &place)?;
    let (after, times) = replace(&before, &input.old_text, &input.new_text, input.replace_all)?;
    Ok((Plan::new(place, Some(before), after)?, times))
}

async fn edit(mut job: Job<'_>) -> Result<Outcome, Stop> {
    let input: Input = input::read(job.input)?;
    let root = job.terms.root.clone();
    let (plan, times) = aside(job.world, move || plan(&root, &input)).await?;
    let summary = format!("{}: {}", plan.place.told(), plan.summary());
    let events = change::make(&mut job, vec![plan], Telling::Edit).await?;
    let places = if times == 1 { String::new() } else { format!(" in {times} places") };
    Ok(completed(format!("Edited{places} {summary}."), summary, events))
}
