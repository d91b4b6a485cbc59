//! The `edit_file` tool: replaces one exact text in a file.
//!
//! Start at [`EditFile`]. The text must occur exactly once, unless all occurrences are to be replaced.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::paths::Root;
use crate::tools::change::{self, ChangePlan, ChangeReport};
use crate::tools::editor::{Edits, FileEditor, Intent};
use crate::tools::ending::CallFailure;
use crate::tools::input;
use crate::tools::replace::replace;

pub(crate) struct EditFile;

#[derive(Deserialize)]
pub(crate) struct EditFileInput {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

impl FileEditor for EditFile {
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str = "Replaces old_text in a file with new_text. old_text must match the file exactly, including \
         whitespace, without line numbers, and must occur once unless replace_all is true.";
    const REQUIRED: &'static [&'static str] = &["path", "old_text", "new_text"];

    type Input = EditFileInput;

    fn properties() -> Value {
        json!({
            "path": input::path("Path of the file, relative to the workspace."),
            "old_text": input::old_text(),
            "new_text": input::new_text(),
            "replace_all": {
                "type": "boolean",
                "description": "Replace all occurrences of old_text. Default false."
            }
        })
    }

    fn intent(input: &Value) -> Intent {
        let path = input::text(input, "path");
        Intent {
            paths: vec![path.to_owned()],
            action: format!("Replace text in the file {path}."),
            consequence: "Changes the file. The change can be undone with the stored patch.",
        }
    }

    fn plan(root: &Root, input: EditFileInput) -> Result<Edits, CallFailure> {
        let place = root.place(&input.path)?;
        let before = change::read_existing(root, &place)?;
        let (after, times) = replace(&before, &input.old_text, &input.new_text, input.replace_all)?;
        let plan = ChangePlan::new(place, Some(before), after)?;
        let summary = plan.summary_line();
        let places = if times == 1 { String::new() } else { format!(" ({times} replacements)") };
        let output = format!("Edited {summary}{places}.");
        Ok(Edits { plans: vec![plan], report: ChangeReport::Edit, output, summary })
    }
}
