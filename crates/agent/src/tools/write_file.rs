//! `write_file`: a new file, or a file's whole content anew.
//!
//! Look at [`WriteFile`]. What is given is written as it is, byte for byte: no line ending is changed and no newline
//! added. Where the file exists already it is an edit, and reported as one.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::paths::Root;
use crate::tools::change::{self, ChangePlan, ChangeReport};
use crate::tools::editor::{Edits, FileEditor, Intent};
use crate::tools::ending::Stop;
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
    const DESCRIPTION: &'static str = "Makes a file with this content, or replaces the whole content of one that is there. Missing folders are \
         made. To change a part of a file use edit_file.";
    const REQUIRED: &'static [&'static str] = &["path", "content"];

    type Input = WriteFileInput;

    fn properties() -> Value {
        json!({
            "path": input::path("The file, relative to the workspace."),
            "content": {
                "type": "string", "maxLength": limits::EDIT_FILE_BYTES_MAX,
                "description": "The whole content, written as it is."
            }
        })
    }

    fn intent(input: &Value) -> Intent {
        let path = input::text(input, "path");
        let bytes = input::text(input, "content").len();
        Intent {
            paths: vec![path.to_owned()],
            action: format!("Write {bytes} bytes to the file {path}."),
            consequence: "What the file held before is replaced; a patch is kept.",
        }
    }

    fn plan(root: &Root, input: WriteFileInput) -> Result<Edits, Stop> {
        let WriteFileInput { path, content } = input;
        if content.len() > limits::EDIT_FILE_BYTES_MAX {
            let most = limits::EDIT_FILE_BYTES_MAX;
            let message = format!("the content has {} bytes and may have {most}", content.len());
            return Err(Stop::failed("file_too_large", message));
        }
        let place = root.place(&path)?;
        let before = change::before(root, &place)?;
        let plan = ChangePlan::new(place, before, content.into_bytes())?;
        let summary = plan.row();
        let (done, telling) = if plan.is_new() {
            ("Made", ChangeReport::New)
        } else {
            ("Replaced the content of", ChangeReport::Edit)
        };
        Ok(Edits { plans: vec![plan], telling, output: format!("{done} {summary}."), summary })
    }
}
