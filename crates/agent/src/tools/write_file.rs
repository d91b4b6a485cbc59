//! The `write_file` tool: creates a file or replaces its whole content.
//!
//! Start at [`WriteFile`]. The content is written byte for byte, without changing line ends or adding a newline.
//! Replacing an existing file is reported as an edit.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::paths::Root;
use crate::tools::change::{self, ChangePlan, ChangeReport};
use crate::tools::editor::{Edits, FileEditor, Intent};
use crate::tools::ending::{CallFailure, counted};
use crate::tools::input;
use crate::tools::limits;

pub(crate) struct WriteFile;

#[derive(Deserialize)]
pub(crate) struct WriteFileInput {
    path: String,
    content: String,
}

impl FileEditor for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Creates a file or replaces its whole content. Missing folders are created. To change part of a \
         file, use edit_file.";
    const REQUIRED: &'static [&'static str] = &["path", "content"];

    type Input = WriteFileInput;

    fn properties() -> Value {
        json!({
            "path": input::path("Path of the file, relative to the workspace."),
            "content": {
                "type": "string", "maxLength": limits::EDIT_FILE_BYTES_MAX,
                "description": "The complete content of the file, written unchanged."
            }
        })
    }

    fn intent(input: &Value) -> Intent {
        let path = input::text(input, "path");
        let size = counted(input::text(input, "content").len() as u64, "byte", "bytes");
        Intent {
            paths: vec![path.to_owned()],
            action: format!("Write {size} to the file {path}."),
            consequence: "Replaces the whole content of the file. The change can be undone with the stored patch.",
        }
    }

    fn plan(root: &Root, input: WriteFileInput) -> Result<Edits, CallFailure> {
        let WriteFileInput { path, content } = input;
        if content.len() > limits::EDIT_FILE_BYTES_MAX {
            let most = limits::EDIT_FILE_BYTES_MAX;
            let message = format!("the content has {} bytes; the limit is {most}", content.len());
            return Err(CallFailure::failed("file_too_large", message));
        }
        let place = root.place(&path)?;
        let before = change::read_before(root, &place)?;
        let plan = ChangePlan::new(place, before, content.into_bytes())?;
        let summary = plan.summary_line();
        let (done, report) =
            if plan.is_new() { ("Created", ChangeReport::New) } else { ("Replaced", ChangeReport::Edit) };
        Ok(Edits { plans: vec![plan], report, output: format!("{done} {summary}."), summary })
    }
}
