//! `multi_edit`: several exact replacements, in one or several files, all or none.
//!
//! Look at [`MultiEdit`]. Replacements of one file follow one another, so a later one sees what an earlier one made.
//! All are worked out before anything is written.

use std::path::Path;

use futures_util::future::BoxFuture;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits;
use crate::paths::{Place, Root};
use crate::tool::{Assessment, Job, Outcome, Preview, Tool};
use crate::tools::change::{self, Plan, Telling};
use crate::tools::ending::{Stop, aside, completed};
use crate::tools::input;
use crate::tools::replace::replace;

pub(crate) struct MultiEdit;

#[derive(Deserialize)]
struct Input {
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
struct Edit {
    path: String,
    old_text: String,
    new_text: String,
}

impl Tool for MultiEdit {
    fn name(&self) -> &'static str {
        "multi_edit"
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn description(&self) -> &'static str {
        "Makes several edits in one or more files, all or none. Each replaces old_text, which must stand in its \
         file exactly once, by new_text. Edits of the same file are made in this order."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "edits": {
                    "type": "array", "minItems": 1, "maxItems": limits::EDITS_MAX,
                    "items": {
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
                            }
                        },
                        "required": ["path", "old_text", "new_text"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["edits"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        let edits = input.get("edits").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut paths: Vec<String> = Vec::new();
        for edit in edits {
            let path = input::text(edit, "path");
            if !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        }
        let summary = paths.join(", ");
        Assessment {
            risk: RiskLevel::Medium,
            action: format!("Make {} edits in {} files.", edits.len(), paths.len()),
            consequence: "The files are changed together; patches are kept.".to_owned(),
            reversibility: Reversibility::Reversible,
            writes: true,
            ..input::harmless(&summary, "", paths)
        }
    }

    fn preview(&self, input: &Value, root: &Path) -> Preview {
        change::preview(input, input::read(input).and_then(|read| plan(root, &read)))
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { edit(job).await.unwrap_or_else(Outcome::from) })
    }
}

/// A file with the edits so far.
struct Work {
    place: Place,
    before: Vec<u8>,
    after: Vec<u8>,
}

fn plan(root: &Path, input: &Input) -> Result<Vec<Plan>, Stop> {
    let root = Root::open(root)?;
    let mut works: Vec<Work> = Vec::new();
    let mut bytes = 0;
    for (index, edit) in input.edits.iter().enumerate() {
        take(&root, &mut works, &mut bytes, edit).map_err(|stop| {
            stop.saying(&format!("this is edits[{index}] ({}); nothing was changed", edit.path))
        })?;
    }
    works.into_iter().map(|work| Plan::new(work.place, Some(work.before), work.after)).collect()
}

async fn edit(mut job: Job<'_>) -> Result<Outcome, Stop> {
    let input: Input = input::read(job.input)?;
    let root = job.terms.root.clone();
    let plans: Vec<Plan> = aside(job.world, move || plan(&root, &input)).await?;
    let summary = change::summary(&plans);
    let rows: Vec<_> =
        plans.iter().map(|plan| format!("{}: {}", plan.place.told(), plan.summary())).collect();
    let events = change::make(&mut job, plans, Telling::Together).await?;
    Ok(completed(format!("Edited\n{}", rows.join("\n")), summary, events))
}

fn take(root: &Root, works: &mut Vec<Work>, bytes: &mut usize, edit: &Edit) -> Result<(), Stop> {
    let place = root.place(&edit.path)?;
    let at = match works.iter().position(|work| work.place == place) {
        Some(at) => at,
        None => {
            let before = change::existing(root, &place)?;
            *bytes += before.len();
            if *bytes > limits::EDITS_BYTES_MAX {
                let most = limits::EDITS_BYTES_MAX;
                let message = format!("the files have more than {most} bytes together; edit fewer at once");
                return Err(Stop::failed("file_too_large", message));
            }
            works.push(Work { place, after: before.clone(), before });
            works.len() - 1
        }
    };
    let work = &mut works[at];
    let grown = work.after.len();
    (work.after, _) = replace(&work.after, &edit.old_text, &edit.new_text, false)?;
    *bytes += work.after.len().saturating_sub(grown);
    Ok(())
}
