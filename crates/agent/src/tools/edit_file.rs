//! `edit_file`: one piece of text in one file, replaced exactly.
//!
//! Look at [`EditFile`]. The text must be in the file as it is given, and once, unless every place is meant.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::paths::Root;
use crate::tools::change::{self, ChangePlan, ChangeReport};
use crate::tools::editor::{Edits, FileEditor, Intent};
use crate::tools::ending::Stop;
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
    const DESCRIPTION: &'static str = "Replaces old_text in a file by new_text. old_text must stand in the file exactly as given, white space \
         included and without line numbers, and only once unless replace_all is set.";
    const REQUIRED: &'static [&'static str] = &["path", "old_text", "new_text"];

    type Input = EditFileInput;

    fn properties() -> Value {
        json!({
            "path": input::path("The file, relative to the workspace."),
            "old_text": input::old_text(),
            "new_text": input::new_text(),
            "replace_all": {
                "type": "boolean",
                "description": "Replace old_text wherever it stands. Default false."
            }
        })
    }

    fn intent(input: &Value) -> Intent {
        let path = input::text(input, "path");
        Intent {
            paths: vec![path.to_owned()],
            action: format!("Replace a piece of text in the file {path}."),
            consequence: "The file is changed; a patch is kept.",
        }
    }

    fn plan(root: &Root, input: EditFileInput) -> Result<Edits, Stop> {
        let place = root.place(&input.path)?;
        let before = change::existing(root, &place)?;
        let (after, times) = replace(&before, &input.old_text, &input.new_text, input.replace_all)?;
        let plan = ChangePlan::new(place, Some(before), after)?;
        let summary = plan.row();
        let places = if times == 1 { String::new() } else { format!(" in {times} places") };
        let output = format!("Edited{places} {summary}.");
        Ok(Edits { plans: vec![plan], telling: ChangeReport::Edit, output, summary })
    }
}
