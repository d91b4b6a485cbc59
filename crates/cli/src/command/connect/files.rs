//! An agent's settings file: read if it is safe to change, and replaced in one step.
//!
//! It must not know what is in it. Look at [`Target::read`].

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use recount_world::platform;

use crate::failure::Failure;
use crate::limits;

/// The mode of files that only their owner may read.
const PRIVATE_MODE: u32 = 0o600;

/// A settings file as it was read.
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// `None` if the file is missing.
    pub(super) text: Option<String>,
    mode: u32,
}

impl Target {
    /// Refuses what is not a plain file of this user.
    pub(super) fn read(path: PathBuf) -> Result<Self, Failure> {
        let refused =
            |why: String| Failure::Refused(format!("{}: {why}; nothing was changed", path.display()));
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Ok(Target { path, text: None, mode: PRIVATE_MODE });
            }
            Err(why) => return Err(refused(why.to_string())),
        };
        if found.is_symlink() {
            let to = fs::read_link(&path).map_or_else(|why| why.to_string(), |to| to.display().to_string());
            return Err(refused(format!(
                "it is a symbolic link to {to}, which connect does not follow; replace the link by a copy, \
                 or add the hooks that --dry-run shows by hand"
            )));
        }
        if !found.is_file() {
            return Err(refused("it is not a file".to_owned()));
        }
        owned(&found).map_err(refused)?;
        if found.len() > limits::SETTINGS_BYTES_MAX {
            let most = limits::SETTINGS_BYTES_MAX;
            return Err(refused(format!(
                "it has {} bytes; the limit is {most} (SETTINGS_BYTES_MAX)",
                found.len()
            )));
        }
        let bytes = fs::read(&path).map_err(|why| refused(why.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8".to_owned()))?;
        Ok(Target { path, text: Some(text), mode: platform::mode_of(&found).unwrap_or(PRIVATE_MODE) })
    }

    /// Checks that the file can be replaced, before anything is promised.
    pub(super) fn check_folder(&self) -> Result<(), Failure> {
        let folder = self.folder();
        let refused =
            |why: String| Failure::Refused(format!("{}: {why}; nothing was changed", folder.display()));
        let found = match fs::metadata(folder) {
            Ok(found) => found,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return match fs::read_link(folder) {
                    Ok(to) => {
                        Err(refused(format!("it is a symbolic link to {}, which is missing", to.display())))
                    }
                    Err(_) => Ok(()),
                };
            }
            Err(why) => return Err(refused(why.to_string())),
        };
        if !found.is_dir() {
            return Err(refused("it is not a folder".to_owned()));
        }
        owned(&found).map_err(refused)?;
        platform::check_writable(folder).map_err(|why| refused(format!("the folder is not writable ({why})")))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Replaces the file in one step, unless another program changed it since it was read. Returns whether the folder was
    /// made for it.
    pub(super) fn write(&self, text: &str) -> Result<bool, Failure> {
        let failed = |why: io::Error| Failure::Own(format!("cannot write {}: {why}", self.path.display()));
        let is_new = !self.folder().exists();
        if is_new {
            platform::private_folder(fs::DirBuilder::new().recursive(true))
                .create(self.folder())
                .map_err(failed)?;
        }
        self.check_unchanged()?;
        replace(&self.path, text.as_bytes(), self.mode).map_err(failed)?;
        Ok(is_new)
    }

    /// Removes a file that was made by `connect`.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        self.check_unchanged()?;
        fs::remove_file(&self.path)
            .and_then(|()| platform::sync_folder(self.folder()))
            .map_err(|why| Failure::Own(format!("cannot remove {}: {why}", self.path.display())))
    }

    fn check_unchanged(&self) -> Result<(), Failure> {
        let now = Target::read(self.path.clone())?;
        if now.text == self.text {
            return Ok(());
        }
        let path = self.path.display();
        Err(Failure::Refused(format!(
            "another program changed {path} in the meantime; nothing was written, run the command again"
        )))
    }
}

fn owned(found: &fs::Metadata) -> Result<(), String> {
    platform::check_owner(found).map_err(|foreign| format!("{foreign}; run connect as its owner"))
}

/// Writes a file in one step: it is either as it was or whole, also after a power loss.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.recount-{}", std::process::id()));
    let written = (|| {
        let mut file =
            platform::file_with_mode(OpenOptions::new().write(true).create_new(true), mode).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)
    })();
    if let Err(why) = written {
        // What could not be written leaves nothing; the first failure is the one to report.
        drop(fs::remove_file(&new));
        return Err(why);
    }
    platform::sync_folder(folder)
}
