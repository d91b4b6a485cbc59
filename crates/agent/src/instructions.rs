//! Instruction files of a workspace: reads its `AGENTS.md` files once per run, to be recorded with the first turn.
//!
//! The model gets them as a user message, and they never change what the policy allows. Only files inside the workspace
//! count. A symbolic link that leads out of it is refused, and the record says so. It must not know runs. Start with
//! [`read`] and [`message`].

use std::ffi::OsStr;
use std::io::Read as _;

use recount_event::family::turn::{Instruction, InstructionSource};

use crate::limits;
use crate::paths::{Links, PathError, Root, WorkspacePath, revision};
use crate::tool::Cancel;
use crate::tools::ending::WorkMonitor;
use crate::tools::walk::Walk;

/// The name of the files. Case matters.
const NAME: &str = "AGENTS.md";

/// The instruction files of a workspace.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WorkspaceInstructions {
    /// From the file at the root to the deepest.
    pub(crate) files: Vec<Instruction>,
    /// Whether there may be more files.
    pub(crate) is_incomplete: bool,
}

/// Reads the instruction files of a workspace. Blocks.
pub(crate) fn read(root: &Root) -> WorkspaceInstructions {
    let mut found = WorkspaceInstructions::default();
    let root_file = WorkspacePath::top().child(OsStr::new(NAME));
    let is_missing = matches!(root.find(&root_file, Links::Follow), Err(why) if why.code == "not_found");
    let mut paths: Vec<WorkspacePath> = (!is_missing).then(|| root_file.clone()).into_iter().collect();
    // The search is too short to be cancelled.
    let (_canceller, cancel) = Cancel::new();
    let watch = WorkMonitor::new(&cancel, limits::INSTRUCTIONS_TIME_MAX);
    let mut walk =
        Walk::shallow(root, &watch, limits::INSTRUCTIONS_DEPTH_MAX, limits::INSTRUCTIONS_ENTRIES_MAX);
    loop {
        match walk.next() {
            Ok(Some(path)) if path != root_file && path.as_path().file_name() == Some(OsStr::new(NAME)) => {
                paths.push(path);
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => {
                found.is_incomplete = true;
                break;
            }
        }
    }
    found.is_incomplete |= walk.cut || paths.len() > limits::INSTRUCTION_FILES_MAX;
    // Files higher up come first.
    paths.sort_by_key(|path| (path.as_path().components().count(), path.clone()));
    paths.truncate(limits::INSTRUCTION_FILES_MAX);
    let mut remaining = limits::INSTRUCTIONS_BYTES_MAX;
    for path in paths {
        match bytes_of(root, &path) {
            Ok(bytes) => found.files.push(instruction(&path, &bytes, &mut remaining)),
            Err(why) if why.code == "not_found" => {}
            Err(why) => {
                let mut refused = entry(InstructionSource::Workspace, 0);
                (refused.path, refused.refused) = (Some(path.text()), Some(why.message));
                found.files.push(refused);
            }
        }
    }
    found
}

/// An entry of the record with only the required fields.
pub(crate) fn entry(source: InstructionSource, bytes: u64) -> Instruction {
    Instruction { source, bytes, path: None, sha256: None, text: None, cut: None, refused: None }
}

/// The digest of a text, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = revision(bytes);
    digest.rsplit(':').next().unwrap_or_default().to_owned()
}

fn bytes_of(root: &Root, path: &WorkspacePath) -> Result<Vec<u8>, PathError> {
    let file = root.file(path, Links::Follow)?;
    let mut bytes = Vec::new();
    let most = limits::INSTRUCTION_FILE_BYTES_MAX;
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|why| PathError::new("io_failed", format!("cannot read {path}: {why}")))?;
    if bytes.len() as u64 > most {
        return Err(PathError::new("too_large", format!("{path} is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// The record of a file, cut to the limit of one file and to the remaining bytes.
fn instruction(path: &WorkspacePath, bytes: &[u8], remaining: &mut usize) -> Instruction {
    let whole = String::from_utf8_lossy(bytes);
    let text = whole.trim_start_matches('\u{feff}');
    let mut end = text.len().min(limits::INSTRUCTION_BYTES_MAX).min(*remaining);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    *remaining -= end;
    let mut read = entry(InstructionSource::Workspace, bytes.len() as u64);
    read.path = Some(path.text());
    read.sha256 = Some(sha256(bytes));
    read.text = Some(text[..end].to_owned());
    read.cut = (end < text.len()).then_some(true);
    read
}

/// The instructions as a user message for the model; `None` if there are none.
pub(crate) fn message(instructions: &[Instruction]) -> Option<String> {
    let mut text = String::new();
    for file in instructions.iter().filter(|file| file.source == InstructionSource::Workspace) {
        let Some(content) = file.text.as_deref().filter(|content| !content.trim().is_empty()) else {
            continue;
        };
        let path = file.path.as_deref().unwrap_or(NAME);
        let folder = path.strip_suffix(NAME).unwrap_or_default().trim_end_matches('/');
        let scope = if folder.is_empty() {
            "the whole workspace".to_owned()
        } else {
            format!("files under {folder}")
        };
        let cut = if file.cut == Some(true) { "\n[the rest of this file is omitted]" } else { "" };
        text.push_str(&format!("\n\n{path} (for {scope}):\n{}{cut}", content.trim_end()));
    }
    (!text.is_empty()).then(|| {
        format!(
            "Instructions from files in the workspace. If two files disagree, follow the one closest to the \
             files you work on. My request below takes precedence over all of them.{text}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("work").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        let root = Root::open(&folder.path().join("work")).unwrap();
        (folder, root)
    }

    fn paths(found: &WorkspaceInstructions) -> Vec<&str> {
        found.files.iter().filter_map(|file| file.path.as_deref()).collect()
    }

    #[test]
    fn files_are_read_from_the_root_to_the_leaves() {
        let files = [
            ("a/b/AGENTS.md", "deep"),
            ("AGENTS.md", "\u{feff}top"),
            ("a/AGENTS.md", "middle"),
            (".gitignore", "build/\n"),
            ("build/AGENTS.md", "not ours"),
            ("agents.md", "another name"),
        ];
        let (_folder, root) = folder(&files);
        let found = read(&root);
        assert_eq!(paths(&found), ["AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md"]);
        assert!(!found.is_incomplete);
        let top = &found.files[0];
        assert_eq!((top.bytes, top.text.as_deref(), top.cut), (6, Some("top"), None));
        assert_eq!(top.sha256.as_deref(), Some(sha256("\u{feff}top".as_bytes()).as_str()));
        let text = message(&found.files).unwrap();
        let order = [
            "AGENTS.md (for the whole workspace):\ntop",
            "files under a):\nmiddle",
            "files under a/b):\ndeep",
        ];
        let at: Vec<usize> = order.iter().map(|part| text.find(part).unwrap()).collect();
        assert!(at.is_sorted(), "{text}");
    }

    #[test]
    fn a_link_out_of_the_workspace_is_refused_and_one_inside_is_not() {
        let (folder, root) = folder(&[("docs/rules.md", "inside"), ("b/keep", "")]);
        std::fs::write(folder.path().join("secret"), "outside").unwrap();
        let link = |to: &str, from: &str| {
            std::os::unix::fs::symlink(to, folder.path().join("work").join(from)).unwrap();
        };
        link("../secret", "AGENTS.md");
        let found = read(&root);
        assert_eq!(found.files.len(), 1);
        assert!(found.files[0].refused.as_deref().unwrap().contains("leads out of the workspace"));
        assert_eq!((found.files[0].text.as_deref(), message(&found.files)), (None, None));
        std::fs::remove_file(folder.path().join("work/AGENTS.md")).unwrap();
        link("docs/rules.md", "AGENTS.md");
        assert_eq!(read(&root).files[0].text.as_deref(), Some("inside"));
    }

    #[test]
    fn limits_are_applied_and_recorded() {
        let long = "ä".repeat(limits::INSTRUCTION_BYTES_MAX);
        let (_folder, root) = folder(&[("AGENTS.md", &long), ("a/AGENTS.md", &long), ("b/AGENTS.md", "x")]);
        let found = read(&root);
        assert!(found.files.iter().all(|file| file.cut == Some(true)), "{:?}", paths(&found));
        let total: usize = found.files.iter().map(|file| file.text.as_deref().unwrap().len()).sum();
        assert_eq!(total, limits::INSTRUCTIONS_BYTES_MAX);
        assert!(message(&found.files).unwrap().contains("the rest of this file is omitted"));

        let many: Vec<String> =
            (0..limits::INSTRUCTION_FILES_MAX + 3).map(|at| format!("{at:03}/AGENTS.md")).collect();
        let files: Vec<(&str, &str)> = many.iter().map(|path| (path.as_str(), "x")).collect();
        let (_folder, root) = folder(&files);
        let found = read(&root);
        assert_eq!((found.files.len(), found.is_incomplete), (limits::INSTRUCTION_FILES_MAX, true));

        let huge = "x".repeat(limits::INSTRUCTION_FILE_BYTES_MAX as usize + 1);
        let (_folder, root) = folder(&[("AGENTS.md", &huge)]);
        assert!(read(&root).files[0].refused.as_deref().unwrap().contains("is larger than"));
    }

    #[test]
    fn a_workspace_without_instructions_has_no_message() {
        let (_folder, root) = folder(&[("README.md", "x"), ("AGENTS.md", " \n")]);
        let found = read(&root);
        assert_eq!((paths(&found), message(&found.files)), (vec!["AGENTS.md"], None));
    }
}
