//! The `multi_edit` tool: several exact replacements in one or several files, all or none.
//!
//! Start at [`MultiEdit`]. Replacements in one file are applied in order, so later ones see the result of earlier ones.
//! All are computed before anything is written.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::paths::{Root, WorkspacePath};
use crate::tools::change::{self, ChangePlan, ChangeReport};
use crate::tools::editor::{Edits, FileEditor, Intent};
use crate::tools::ending::{CallFailure, counted};
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
    const DESCRIPTION: &'static str = "Applies several edits to one or more files; either all are applied or none. Each edit replaces \
         old_text, which must occur exactly once in its file, with new_text. Edits of the same file are \
         applied in order.";
    const REQUIRED: &'static [&'static str] = &["edits"];

    type Input = MultiEditInput;

    fn properties() -> Value {
        json!({
            "edits": {
                "type": "array", "minItems": 1, "maxItems": limits::EDITS_MAX,
                "items": input::schema(
                    json!({
                        "path": input::path("Path of the file, relative to the workspace."),
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
        let (edit_count, file_count) = (edits.len() as u64, paths.len() as u64);
        Intent {
            action: format!(
                "Apply {} to {}.",
                counted(edit_count, "edit", "edits"),
                counted(file_count, "file", "files")
            ),
            paths,
            consequence: "Changes the files. The changes can be undone with the stored patches.",
        }
    }

    fn plan(root: &Root, input: MultiEditInput) -> Result<Edits, CallFailure> {
        let mut files: Vec<EditedFile> = Vec::new();
        let mut bytes = 0;
        for (index, edit) in input.edits.iter().enumerate() {
            apply_edit(root, &mut files, &mut bytes, edit).map_err(|failure| {
                failure.with_note(&format!("in edits[{index}] ({}); nothing was changed", edit.path))
            })?;
        }
        let plans = files.into_iter().map(|file| ChangePlan::new(file.place, Some(file.before), file.after));
        let plans = plans.collect::<Result<Vec<ChangePlan>, CallFailure>>()?;
        let rows: Vec<String> = plans.iter().map(ChangePlan::summary_line).collect();
        let (output, summary) = (format!("Edited\n{}", rows.join("\n")), change::summary(&plans));
        Ok(Edits { plans, report: ChangeReport::Together, output, summary })
    }
}

/// A file with the edits so far.
struct EditedFile {
    place: WorkspacePath,
    before: Vec<u8>,
    after: Vec<u8>,
}

fn apply_edit(
    root: &Root,
    files: &mut Vec<EditedFile>,
    bytes: &mut usize,
    edit: &Edit,
) -> Result<(), CallFailure> {
    let place = root.place(&edit.path)?;
    let at = match files.iter().position(|file| file.place == place) {
        Some(at) => at,
        None => {
            let before = change::read_existing(root, &place)?;
            *bytes += before.len();
            if *bytes > limits::EDITS_BYTES_MAX {
                let most = limits::EDITS_BYTES_MAX;
                let message = format!(
                    "the files have more than {most} bytes in total; edit fewer files per \
                                       call"
                );
                return Err(CallFailure::failed("file_too_large", message));
            }
            files.push(EditedFile { place, after: before.clone(), before });
            files.len() - 1
        }
    };
    let file = &mut files[at];
    let grown = file.after.len();
    (file.after, _) = replace(&file.after, &edit.old_text, &edit.new_text, false)?;
    *bytes += file.after.len().saturating_sub(grown);
    Ok(())
}
