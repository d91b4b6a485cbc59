//! `recount backup`: a copy of the whole store, which is a data folder like any other.
//!
//! The server creates it below `backups` in its own data folder; this program, with the rights of its
//! user, moves it to the requested path.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::admin::MakeBackup;
use recount_world::platform;
use serde_json::json;

use super::{Invocation, invocation, verify};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::clean;

/// Back up the store of a running server, or a data folder
#[derive(Args)]
pub(super) struct Backup {
    /// New folder for the backup; if omitted, the server stores it under backups in its data folder
    #[arg(value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Back up this data folder, which no server may be using
    #[arg(long, value_name = "DIR", requires = "to")]
    data: Option<PathBuf>,
    /// Verify the finished backup, as verify --data does
    #[arg(long)]
    verify: bool,
}

impl Backup {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        if let Some(to) = &self.to {
            check_target(to)?;
        }
        let path = match (&self.data, &self.to) {
            (Some(data), Some(to)) => {
                recount_server::backup::offline(data, to)?;
                to.clone()
            }
            (_, to) => {
                let made = invocation::block_on(async {
                    Ok(invocation.client()?.make_backup(&MakeBackup::default()).await?)
                })?;
                let made = PathBuf::from(made.path);
                match to {
                    Some(to) => move_to(&made, to)?,
                    None => made,
                }
            }
        };
        let mut out = Output::new();
        let shown = path.display().to_string();
        if invocation.json {
            out.value(&json!({ "path": shown }))?;
        } else {
            out.line(&clean::line(&format!("backup written to {shown}; recount serve --data serves it")))?;
        }
        if self.verify {
            return verify::offline(&path, &[], invocation.json);
        }
        note("verify it with recount verify --data");
        Ok(())
    }
}

/// Rejects invalid arguments before the server starts a long operation.
fn check_target(to: &Path) -> Result<(), Failure> {
    let shown = to.display();
    if to.symlink_metadata().is_ok() {
        return Err(Failure::Usage(format!("{shown} already exists; name a new folder")));
    }
    let above = match to.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    if above.is_dir() {
        Ok(())
    } else {
        Err(Failure::Usage(format!(
            "{} is not a folder, so {shown} cannot be created in it",
            above.display()
        )))
    }
}

/// Moves a backup, by its name where that will do; answers where it is. A backup that cannot be moved is removed, so that
/// repeated attempts do not fill the server's disk.
fn move_to(made: &Path, to: &Path) -> Result<PathBuf, Failure> {
    let moved = match fs::rename(made, to) {
        Err(why) if why.kind() == ErrorKind::CrossesDevices => {
            let unfinished = recount_server::backup::unfinished(to);
            copy(made, &unfinished).and_then(|()| recount_server::backup::finish(to)).inspect(|()| {
                if let Err(why) = fs::remove_dir_all(made) {
                    note(&format!("cannot remove the server's copy {}: {why}", made.display()));
                }
            })
        }
        outcome => outcome,
    };
    let moved = moved.and_then(|()| sync(to.parent().unwrap_or(Path::new("."))));
    let Err(why) = moved else { return Ok(to.to_owned()) };
    let (made_shown, to) = (made.display(), to.display());
    Err(Failure::Own(match fs::remove_dir_all(made) {
        Ok(()) => format!(
            "cannot move the backup to {to}: {why}; the server's copy was removed; free some space or name another \
             folder, and try again"
        ),
        Err(_) => format!(
            "the backup is complete at {made_shown} on the server's machine, but cannot be moved to {to}: {why}"
        ),
    }))
}

/// Copies a folder for its owner only, durably. What a failed copy has made is taken away again.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    make(to)?;
    let copied = fill(from, to);
    if copied.is_err()
        && let Err(why) = fs::remove_dir_all(to)
    {
        note(&format!("cannot remove {}: {why}", to.display()));
    }
    copied
}

fn make(folder: &Path) -> std::io::Result<()> {
    platform::private_folder(&mut fs::DirBuilder::new()).create(folder)
}

fn fill(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            make(&target)?;
            fill(&entry.path(), &target)?;
        } else {
            // With the rights of the original, which are its owner's.
            fs::copy(entry.path(), &target)?;
            platform::open_to_sync(&target)?.sync_all()?;
        }
    }
    sync(to)
}

fn sync(folder: &Path) -> std::io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    platform::sync_folder(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_backup_that_cannot_be_moved_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let made = place.path().join("made");
        fs::create_dir(&made).unwrap();
        fs::write(made.join("recount.db"), "database").unwrap();
        let Err(Failure::Own(why)) = move_to(&made, &place.path().join("missing/to")) else {
            panic!("no target")
        };
        assert!(why.contains("the server's copy was removed"), "{why}");
        assert!(!made.exists());
    }

    #[test]
    fn a_copy_is_whole_and_its_owners() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("a"), place.path().join("b"));
        fs::create_dir_all(from.join("blobs/ab")).unwrap();
        fs::write(from.join("recount.db"), "database").unwrap();
        fs::write(from.join("blobs/ab/abcd"), "blob").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("recount.db")).unwrap(), "database");
        assert_eq!(fs::read_to_string(to.join("blobs/ab/abcd")).unwrap(), "blob");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o700);
        copy(&to, &from).unwrap_err();
        assert_eq!(fs::read_to_string(from.join("recount.db")).unwrap(), "database", "what was there stays");
    }
}
