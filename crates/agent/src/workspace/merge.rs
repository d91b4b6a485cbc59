//! Merges the changes of a run and of the folder in one file, by hunks.
//!
//! It must never write files.
//!
//! Start at [`Merge::of`]. A merge needs the content of the file at the time of the copy, which [`BaseContent`] finds.

use std::io::{self, Read as _};
use std::path::Path;

use super::base::{self, EntryState};
use super::base_content::BaseContent;
use super::folder::Folder;
use crate::patch::{FileMode, TreeFile};
use crate::workspace::limits;

/// A file that the run and the folder changed, with both changes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merge {
    /// The content that replaces the file of the folder.
    pub(super) bytes: Vec<u8>,
    /// Whether parts changed on both sides. They are between conflict markers.
    pub(super) has_conflicts: bool,
    /// The file in the folder that was merged.
    pub(super) before: EntryState,
    pub(super) mode: u32,
}

impl Merge {
    /// `None`: these files cannot be merged, because one is missing, binary or too large, or because the content at the time of
    /// the copy is not known.
    pub(super) fn of(
        path: &Path,
        [before, after]: [Option<&EntryState>; 2],
        [copy, original]: [&Folder; 2],
        base: &BaseContent<'_>,
    ) -> io::Result<Option<Merge>> {
        let Some(&EntryState::File { mode: run_mode, .. }) = after else { return Ok(None) };
        let now = original.entry_state(path, None)?;
        let Some(EntryState::File { mode: folder_mode, .. }) = now else { return Ok(None) };
        let (Some(ours), Some(theirs)) = (text(original, path)?, text(copy, path)?) else {
            return Ok(None);
        };
        let (ancestor, base_mode) = match before {
            None => (Vec::new(), folder_mode),
            Some(state @ EntryState::File { mode, .. }) => match base.read(path, state) {
                Some(bytes) if is_text(&bytes) => (bytes, *mode),
                _ => return Ok(None),
            },
            Some(_) => return Ok(None),
        };
        let mode = if run_mode == base_mode { folder_mode } else { run_mode };
        let merged = diffy::merge_bytes(&ancestor, &ours, &theirs);
        let has_conflicts = merged.is_err() || (folder_mode != base_mode && folder_mode != mode);
        let bytes = merged.unwrap_or_else(|marked| marked);
        let Some(before) = now else { return Ok(None) };
        Ok(Some(Merge { bytes, has_conflicts, before, mode }))
    }

    /// The state of the file in the folder after the merge.
    pub(super) fn after(&self) -> EntryState {
        let (length, digest) = base::digest_bytes(&self.bytes);
        EntryState::File { mode: self.mode, length, digest }
    }

    /// The conflicting parts, with both versions between conflict markers and the lines around them.
    pub(super) fn conflicting_parts(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let lines: Vec<&str> = text.lines().collect();
        let starts = lines.iter().enumerate().filter(|(_, line)| line.starts_with("<<<<<<< "));
        let mut parts = String::new();
        let mut shown = 0;
        for (start, _) in starts {
            let length = lines[start..].iter().position(|line| line.starts_with(">>>>>>> "));
            let end = (start + length.unwrap_or(0) + 1 + limits::CONFLICT_CONTEXT_LINES).min(lines.len());
            let from = start.saturating_sub(limits::CONFLICT_CONTEXT_LINES).max(shown);
            if from > shown {
                parts.push_str("…\n");
            }
            for line in &lines[from.min(end)..end] {
                parts.push_str(line);
                parts.push('\n');
            }
            shown = shown.max(end);
            if parts.len() > limits::CONFLICT_BYTES_MAX {
                let cut = parts.floor_char_boundary(limits::CONFLICT_BYTES_MAX);
                parts.truncate(cut);
                parts.push_str("\n… (cut)\n");
                break;
            }
        }
        parts
    }

    pub(super) fn file(&self) -> TreeFile {
        let mode = if self.mode & 0o100 == 0 { FileMode::Plain } else { FileMode::Executable };
        TreeFile { mode, bytes: self.bytes.clone() }
    }
}

/// The content of a text file that is small enough to be merged.
fn text(folder: &Folder, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    folder.open_file(path)?.take(limits::CHANGES_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| is_text(bytes)))
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.len() as u64 <= limits::CHANGES_FILE_BYTES_MAX && !bytes.contains(&0)
}
