//! `multi_edit`: several exact replacements, in one or several files, all or none.
//!
//! Look at [`MultiEdit`]. Replacements of one file follow one another, so a later one sees what an earlier one made.
//! All are worked out before anything is written.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::paths::{Place, Root};
use crate::tools::change::{self, ChangePlan, ChangeReport};
use crate::tools::editor::{Edits, FileEditor, Intent};
use crate::tools::ending::Stop;
use crate::tools::input;
use crate::tools::limits;
use crate::tools::replace::replace;

pub(crate) struct MultiEdit;

#[derive(Deserialize)]
pub(crate) struct MultiEditInput {
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
struct Edit {
    path: String,
    old_text: String,
    new_text: String,
}

impl FileEditor for MultiEdit {
    const NAME: &'static str = "multi_edit";
    const DESCRIPTION: &'static str = "Makes several edits in one or more files, all or none. Each replaces old_text, which must stand in its \
         file exactly once, by new_text. Edits of the same file are made in this order.";
    const REQUIRED: &'static [&'static str] = &["edits"];

    type Input = MultiEditInput;

    fn properties() -> Value {
        json!({
            "edits": {
                "type": "array", "minItems": 1, "maxItems": limits::EDITS_MAX,
                "items": input::schema(
                    json!({
                        "path": input::path("The file, relative to the workspace."),
                        "old_text": input::old_text(),
                        "new_text": input::new_text(),
                    }),
                    &["path", "old_text", "new_text"],
                )
            }
        })
    }

    fn intent(input: &Value) -> Intent {
        let edits = input.get("edits").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut paths: Vec<String> = Vec::new();
        for edit in edits {
            let path = input::text(edit, "path");
            if !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        }
        Intent {
            action: format!("Make {} edits in {} files.", edits.len(), paths.len()),
            paths,
            consequence: "The files are changed together; patches are kept.",
        }
    }

    fn plan(root: &Root, input: MultiEditInput) -> Result<Edits, Stop> {
        let mut works: Vec<Work> = Vec::new();
        let mut bytes = 0;
        for (index, edit) in input.edits.iter().enumerate() {
            take(root, &mut works, &mut bytes, edit).map_err(|stop| {
                stop.saying(&format!("this is edits[{index}] ({}); nothing was changed", edit.path))
            })?;
        }
        let plans = works.into_iter().map(|work| ChangePlan::new(work.place, Some(work.before), work.after));
        let plans = plans.collect::<Result<Vec<ChangePlan>, Stop>>()?;
        let rows: Vec<String> = plans.iter().map(ChangePlan::row).collect();
        let (output, summary) = (format!("Edited\n{}", rows.join("\n")), change::summary(&plans));
        Ok(Edits { plans, telling: ChangeReport::Together, output, summary })
    }
}

/// A file with the edits so far.
struct Work {
    place: Place,
    before: Vec<u8>,
    after: Vec<u8>,
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
