//! Commits the changes of a copy to a new branch of the original's git repository, on top of `HEAD`.
//!
//! It must never know runs.
//!
//! Start at [`commit`]. The original's files, index and current branch stay unchanged.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::changes::Change;
use super::folder::Folder;
use crate::git::{self, Repository};
use crate::patch::{FileMode, TreeResult};

/// Why there is no branch.
#[derive(Debug)]
pub(super) enum NoBranch {
    /// A message for the client.
    Refused(String),
    /// These differ between `HEAD` and the state that was copied.
    NotCommitted(Vec<PathBuf>),
    /// The copy differs from the checked state.
    Changed(PathBuf),
    Failed(io::Error),
}

impl From<io::Error> for NoBranch {
    fn from(why: io::Error) -> Self {
        NoBranch::Failed(why)
    }
}

/// Where the committed files come from.
pub(super) struct Sides<'a> {
    pub(super) copy: &'a Path,
    pub(super) original: &'a Path,
    /// Files that are not committed as in the copy.
    pub(super) merged: &'a TreeResult,
}

/// Creates the branch and returns the commit. Temporary files are written to `workspace_dir`.
pub(super) fn commit(
    name: &str,
    message: &str,
    sides: &Sides<'_>,
    workspace_dir: &Path,
    changes: &[&Change],
) -> Result<String, NoBranch> {
    let Sides { copy, original, merged } = sides;
    let mut repository = Repository::open(original)?;
    let check = repository.call(&["check-ref-format", &format!("refs/heads/{name}")], None)?;
    if !check.ok || name.starts_with('-') {
        return Err(NoBranch::Refused(format!("{name:?} is not a valid branch name; choose another")));
    }
    let top = repository.call(&["rev-parse", "--show-toplevel", "--absolute-git-dir"], None)?;
    let top_level = String::from_utf8_lossy(&top.stdout).into_owned();
    let mut lines = top_level.lines();
    let (Some(root), Some(folder)) = (lines.next().filter(|_| top.ok), lines.next()) else {
        let why = format!("{} is not a git repository; apply without a branch", original.display());
        return Err(NoBranch::Refused(why));
    };
    if Path::new(root) != *original {
        let why = format!(
            "{} is a subfolder of the git repository {root}; apply without a branch",
            original.display()
        );
        return Err(NoBranch::Refused(why));
    }
    let head = git_text(&repository, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?
        .ok_or_else(|| NoBranch::Refused("the repository has no commits; apply without a branch".into()))?;
    let reference = format!("refs/heads/{name}");
    if git_text(&repository, &["rev-parse", "--verify", "--quiet", &reference])?.is_some() {
        return Err(NoBranch::Refused(format!("the branch {name} already exists; choose another name")));
    }
    repository.set("GIT_DIR", folder);
    if git_text(&repository, &["config", "user.email"])?.is_none() {
        // A commit needs an author, and the settings have none.
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            repository.set(name, "Recount");
        }
        for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            repository.set(name, "recount@localhost");
        }
    }
    not_committed(&repository, original, changes)?;
    // From here on git reads the copy, with a separate index.
    let index = workspace_dir.join("apply-index");
    std::fs::remove_file(&index).ok();
    repository.set("GIT_INDEX_FILE", index.as_os_str());
    repository.set("GIT_WORK_TREE", copy.as_os_str());
    let made = add_and_commit(&repository, (&head, message), workspace_dir, changes, merged);
    std::fs::remove_file(&index).ok();
    let commit = made?;
    // Git read the copy itself: only the checked state may be on the branch.
    let open = Folder::open(copy)?;
    for change in changes.iter().filter(|change| !merged.contains_key(&change.path)) {
        if open.entry_state(&change.path, change.after.as_ref())? != change.after {
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
    (head, message): (&str, &str),
    workspace_dir: &Path,
    changes: &[&Change],
    merged: &TreeResult,
) -> Result<String, NoBranch> {
    run_git(repository, &["read-tree", head], None)?;
    let paths = path_list(workspace_dir, changes)?;
    run_git(
        repository,
        &["--literal-pathspecs", "add", "--all", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"],
        Some(paths),
    )?;
    for (path, file) in merged {
        let Some(file) = file else { continue };
        let mut input = tempfile(workspace_dir)?;
        input.write_all(&file.bytes)?;
        input.rewind()?;
        // As `git add` does for the others: line ends are normalized, and no program runs.
        let name = path.to_string_lossy();
        let blob = run_git(repository, &["hash-object", "-w", "--path", &name, "--stdin"], Some(input))?;
        let mode = if file.mode == FileMode::Executable { "100755" } else { "100644" };
        let mut entry = OsString::from(format!("{mode},{blob},"));
        entry.push(path);
        let updated = repository
            .call(&["update-index".as_ref(), "--add".as_ref(), "--cacheinfo".as_ref(), &*entry], None)?;
        if !updated.ok {
            return Err(NoBranch::Failed(io::Error::other(format!("git update-index: {}", updated.stderr))));
        }
    }
    let tree = run_git(repository, &["write-tree"], None)?;
    let mut input = tempfile(workspace_dir)?;
    input.write_all(message.as_bytes())?;
    input.rewind()?;
    run_git(repository, &["commit-tree", &tree, "-p", head, "-F", "-"], Some(input))
}

/// Refuses paths with uncommitted changes, because the branch would include them.
fn not_committed(repository: &Repository, original: &Path, changes: &[&Change]) -> Result<(), NoBranch> {
    let args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"];
    let args = [&args[..], git::options_after("status")].concat();
    let status = repository.call(&args, None)?;
    if !status.ok {
        return Err(NoBranch::Failed(io::Error::other(status.stderr)));
    }
    let differing: BTreeSet<PathBuf> = status
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

/// The changed paths, each followed by a NUL byte. Git does not track folders.
fn path_list(workspace_dir: &Path, changes: &[&Change]) -> io::Result<File> {
    let mut file = tempfile(workspace_dir)?;
    let is_folder = |state: &Option<super::base::EntryState>| *state == Some(super::base::EntryState::Folder);
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

/// A temporary file without a name.
fn tempfile(workspace_dir: &Path) -> io::Result<File> {
    let at = workspace_dir.join("apply-input");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&at)?;
    std::fs::remove_file(&at)?;
    Ok(file)
}

fn git_text(repository: &Repository, args: &[&str]) -> Result<Option<String>, NoBranch> {
    let output = repository.call(args, None)?;
    Ok(output.ok.then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

fn run_git(repository: &Repository, args: &[&str], input: Option<File>) -> Result<String, NoBranch> {
    let output = repository.call(args, input)?;
    if !output.ok {
        let verb = args.first().copied().unwrap_or_default();
        return Err(NoBranch::Failed(io::Error::other(format!("git {verb}: {}", output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
