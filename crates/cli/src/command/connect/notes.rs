//! What `connect` remembers of a settings file until `--remove`: the file as it was, and what was made for it.
//!
//! Look at [`Notes`].

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};

use recount_world::platform::private_folder;
use serde::{Deserialize, Serialize};

use super::files::replace;
use super::json_text::{Interiors, TextMember};
use crate::failure::Failure;

/// Of one settings file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Notes {
    pub(super) path: PathBuf,
    /// Whether the file was there; then its copy is beside these notes.
    pub(super) existed: bool,
    pub(super) made_folder: bool,
    /// Of the text that was written.
    pub(super) written: String,
    pub(super) interiors: Interiors,
    /// Members that were added for telemetry. Notes of earlier releases have none.
    #[serde(default)]
    pub(super) members: Vec<TextMember>,
}

impl Notes {
    /// These notes with what only `earlier` ones have, so that either's text can be restored. `None` if that is nothing.
    pub(super) fn with(&self, earlier: Option<&Notes>) -> Option<Notes> {
        let mut union = self.clone();
        let earlier = earlier?;
        union.members.extend(earlier.members.iter().filter(|member| !self.members.contains(member)).cloned());
        for (path, interior) in &earlier.interiors {
            union.interiors.entry(path.clone()).or_insert_with(|| interior.clone());
        }
        let is_more =
            union.members.len() > self.members.len() || union.interiors.len() > self.interiors.len();
        is_more.then_some(union)
    }
}

/// The content of a file, in few characters.
pub(super) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Where the notes of a settings file are.
pub(super) struct Drawer {
    folder: PathBuf,
    backup: PathBuf,
}

impl Drawer {
    pub(super) fn new(state: &Path, agent: &str, path: &Path) -> Self {
        let key = &digest(&path.to_string_lossy())[..12];
        let folder = state.join("connect").join(format!("{agent}-{key}"));
        let backup = folder.join(path.file_name().unwrap_or_default());
        Drawer { folder, backup }
    }

    /// The copy of the file as it was.
    pub(super) fn backup(&self) -> &Path {
        &self.backup
    }

    pub(super) fn read(&self) -> Option<Notes> {
        serde_json::from_slice(&fs::read(self.folder.join("notes.json")).ok()?).ok()
    }

    /// The file as it was.
    pub(super) fn original(&self, notes: &Notes) -> Option<String> {
        if !notes.existed {
            return Some(String::new());
        }
        fs::read_to_string(&self.backup).ok()
    }

    pub(super) fn keep(&self, notes: &Notes, original: &str) -> Result<(), Failure> {
        let kept = (|| {
            private_folder(DirBuilder::new().recursive(true)).create(&self.folder)?;
            if notes.existed {
                replace(&self.backup, original.as_bytes(), 0o600)?;
            }
            let text = serde_json::to_vec(notes).map_err(io::Error::other)?;
            replace(&self.folder.join("notes.json"), &text, 0o600)
        })();
        kept.map_err(|why| self.failed("save a copy in", &why))
    }

    pub(super) fn forget(&self) -> Result<(), Failure> {
        match fs::remove_dir_all(&self.folder) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(self.failed("remove", &why)),
            _ => Ok(()),
        }
    }

    fn failed(&self, what: &str, why: &io::Error) -> Failure {
        Failure::Own(format!("cannot {what} {}: {why}", self.folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_earlier_releases_are_read() {
        let earlier =
            r#"{"path":"/s.json","existed":true,"made_folder":false,"written":"x","interiors":{"":" "}}"#;
        let notes: Notes = serde_json::from_str(earlier).unwrap();
        assert!(notes.existed && notes.members.is_empty());
        assert_eq!(notes.interiors[""], " ");
    }
}
