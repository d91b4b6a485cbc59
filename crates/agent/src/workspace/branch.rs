//! Puts the changes of a copy on a new branch of the original's git repository, as one commit on top of `HEAD`.
//!
//! Look at [`commit`]. The files of the original, its index and the branch it is on stay as they are. It must never know
//! runs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::changes::Change;
use super::folder::Folder;
use crate::git::{self, Repository};

/// Why there is no branch.
#[derive(Debug)]
pub(super) enum NoBranch {
    /// In words for the client.
    Refused(String),
    /// These are not in `HEAD` as they were when they were copied.
    NotCommitted(Vec<PathBuf>),
    /// The copy is not what was judged any more.
    Changed(PathBuf),
    Failed(io::Error),
}

impl From<io::Error> for NoBranch {
    fn from(why: io::Error) -> Self {
        NoBranch::Failed(why)
    }
}

/// Makes the branch and answers the commit. `house` is where files may be written meanwhile.
pub(super) fn commit(
    name: &str,
    message: &str,
    copy: &Path,
    original: &Path,
    house: &Path,
    changes: &[&Change],
) -> Result<String, NoBranch> {
    let mut repository = Repository::open(original)?;
    let check = repository.call(&["check-ref-format", &format!("refs/heads/{name}")], None)?;
    if !check.ok || name.starts_with('-') {
        return Err(NoBranch::Refused(format!("{name:?} is not a name for a branch; choose another")));
    }
    let top = repository.call(&["rev-parse", "--show-toplevel", "--absolute-git-dir"], None)?;
    let said = String::from_utf8_lossy(&top.stdout).into_owned();
    let mut lines = said.lines();
    let (Some(root), Some(folder)) = (lines.next().filter(|_| top.ok), lines.next()) else {
        let why = format!("{} is not a git repository; apply without a branch", original.display());
        return Err(NoBranch::Refused(why));
    };
    if Path::new(root) != original {
        let why =
            format!("{} is within the git repository {root}; apply without a branch", original.display());
        return Err(NoBranch::Refused(why));
    }
    let head =
        text(&repository, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?.ok_or_else(|| {
            NoBranch::Refused("the repository has no commit yet; apply without a branch".into())
        })?;
    let reference = format!("refs/heads/{name}");
    if text(&repository, &["rev-parse", "--verify", "--quiet", &reference])?.is_some() {
        return Err(NoBranch::Refused(format!("the branch {name} exists already; choose another name")));
    }
    repository.set("GIT_DIR", folder);
    if text(&repository, &["config", "user.email"])?.is_none() {
        // A commit needs a name, and the settings have none.
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            repository.set(name, "Recount");
        }
        for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            repository.set(name, "recount@localhost");
        }
    }
    not_committed(&repository, original, changes)?;
    // From here on git looks at the copy, with an index of its own.
    let index = house.join("apply-index");
    std::fs::remove_file(&index).ok();
    repository.set("GIT_INDEX_FILE", index.as_os_str());
    repository.set("GIT_WORK_TREE", copy.as_os_str());
    let made = add_and_commit(&repository, &head, message, house, changes);
    std::fs::remove_file(&index).ok();
    let commit = made?;
    // Git read the copy by itself: only what was judged may be on the branch.
    let open = Folder::open(copy)?;
    for change in changes {
        if open.look(&change.path, change.after.as_ref())? != change.after {
            return Err(NoBranch::Changed(change.path.clone()));
        }
    }
    let moved = repository.call(&["update-ref", "-m", "recount apply", &reference, &commit, ""], None)?;
    if !moved.ok {
        return Err(NoBranch::Failed(io::Error::other(moved.stderr)));
    }
    Ok(commit)
}

fn add_and_commit(
    repository: &Repository,
    head: &str,
    message: &str,
    house: &Path,
    changes: &[&Change],
) -> Result<String, NoBranch> {
    must(repository, &["read-tree", head], None)?;
    let paths = list(house, changes)?;
    must(
        repository,
        &["--literal-pathspecs", "add", "--all", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"],
        Some(paths),
    )?;
    let tree = must(repository, &["write-tree"], None)?;
    let mut input = tempfile(house)?;
    input.write_all(message.as_bytes())?;
    input.rewind()?;
    must(repository, &["commit-tree", &tree, "-p", head, "-F", "-"], Some(input))
}

/// Refuses what is changed in the working tree and not in a commit: the branch would take it along.
fn not_committed(repository: &Repository, original: &Path, changes: &[&Change]) -> Result<(), NoBranch> {
    let words = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"];
    let words = [&words[..], git::behind("status")].concat();
    let said = repository.call(&words, None)?;
    if !said.ok {
        return Err(NoBranch::Failed(io::Error::other(said.stderr)));
    }
    let differing: BTreeSet<PathBuf> = said
        .stdout
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.get(3..))
        .map(|name| PathBuf::from(OsStr::from_bytes(name)))
        .collect();
    let mixed: Vec<PathBuf> = changes
        .iter()
        .filter(|change| differing.contains(&change.path))
        .filter(|change| original.join(&change.path).symlink_metadata().is_ok() || change.before.is_some())
        .map(|change| change.path.clone())
        .collect();
    if mixed.is_empty() { Ok(()) } else { Err(NoBranch::NotCommitted(mixed)) }
}

/// The paths that changed, with zeros behind them; folders are no business of git's.
fn list(house: &Path, changes: &[&Change]) -> io::Result<File> {
    let mut file = tempfile(house)?;
    let is_folder = |thing: &Option<super::base::Thing>| *thing == Some(super::base::Thing::Folder);
    for change in changes {
        let is_only_folder = (change.before.is_none() || is_folder(&change.before))
            && (change.after.is_none() || is_folder(&change.after));
        if !is_only_folder {
            file.write_all(change.path.as_os_str().as_bytes())?;
            file.write_all(&[0])?;
        }
    }
    file.rewind()?;
    Ok(file)
}

/// A file without a name.
fn tempfile(house: &Path) -> io::Result<File> {
    let at = house.join("apply-input");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&at)?;
    std::fs::remove_file(&at)?;
    Ok(file)
}

fn text(repository: &Repository, words: &[&str]) -> Result<Option<String>, NoBranch> {
    let answer = repository.call(words, None)?;
    Ok(answer.ok.then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned()))
}

fn must(repository: &Repository, words: &[&str], input: Option<File>) -> Result<String, NoBranch> {
    let answer = repository.call(words, input)?;
    if !answer.ok {
        let verb = words.first().copied().unwrap_or_default();
        return Err(NoBranch::Failed(io::Error::other(format!("git {verb}: {}", answer.stderr))));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}
