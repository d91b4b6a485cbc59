//! The tree to check: its texts, its packages and its git history.
//!
//! Rules see only this, never the disk, so a test can pass a constructed tree. Start at [`Tree`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::source::Source;

/// Everything that rules may read.
pub(crate) struct Tree {
    /// Text files by their path from the root, with `/`.
    pub(crate) texts: BTreeMap<String, String>,
    /// The parsed Rust files.
    pub(crate) sources: BTreeMap<String, Source>,
    pub(crate) packages: Vec<Package>,
    pub(crate) git: Git,
}

/// A member of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// From the root: `crates/event`.
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Only for tests, benches and examples.
    pub(crate) dev: bool,
}

/// Information from git.
pub(crate) enum Git {
    /// No repository or no git: history cannot be checked.
    Absent,
    Repository {
        tracked: BTreeSet<String>,
        /// Frozen files that a commit or the working tree changed or removed; `None` when history is cut short.
        edited: Option<BTreeSet<String>>,
    },
}

/// The folder to which files may only be added.
pub(crate) const FROZEN_FOLDER: &str = "testdata/events";

const SKIPPED_FOLDERS: &[&str] = &["target", "node_modules"];
const KEPT_DOT_FOLDERS: &[&str] = &[".ci", ".cargo", ".github"];

impl Tree {
    /// From texts alone.
    pub(crate) fn new(texts: BTreeMap<String, String>, packages: Vec<Package>, git: Git) -> Self {
        let sources = texts
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path.clone(), Source::read(path, text)))
            .collect();
        Tree { texts, sources, packages, git }
    }

    /// From the disk.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut texts = BTreeMap::new();
        read_folder(root, "", &mut texts)?;
        Ok(Tree::new(texts, read_packages(root)?, read_git(root)?))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.texts.contains_key(path)
    }

    pub(crate) fn under<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.texts
            .keys()
            .map(String::as_str)
            .filter(move |path| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }

    /// The first line that holds `needle`, or 1.
    pub(crate) fn line_of(&self, path: &str, needle: &str) -> usize {
        self.texts
            .get(path)
            .and_then(|text| text.lines().position(|line| line.contains(needle)))
            .map_or(1, |at| at + 1)
    }
}

/// The folders of crates: those of the product, and those that only test or measure it.
pub(crate) const CRATE_FOLDERS: [&str; 2] = ["crates", "lab"];

/// The crate a path belongs to: `event` for `crates/event/src/id.rs`, `sim` for `lab/sim/src/main.rs`.
pub(crate) fn crate_of(path: &str) -> Option<&str> {
    crate_folder_of(path)?.rsplit('/').next()
}

/// The folder of the crate a path belongs to: `lab/sim` for `lab/sim/src/main.rs`.
pub(crate) fn crate_folder_of(path: &str) -> Option<&str> {
    let (top, rest) = path.split_once('/')?;
    let name = rest.split('/').next()?;
    CRATE_FOLDERS.contains(&top).then(|| &path[..top.len() + 1 + name.len()])
}

fn read_folder(root: &Path, folder: &str, texts: &mut BTreeMap<String, String>) -> Result<()> {
    let here = root.join(folder);
    let entries = std::fs::read_dir(&here).with_context(|| format!("cannot list {}", here.display()))?;
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            bail!("a file name in {} is not UTF-8", here.display());
        };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let hidden = name.starts_with('.') && !KEPT_DOT_FOLDERS.contains(&name.as_str());
            if !hidden && !SKIPPED_FOLDERS.contains(&name.as_str()) {
                read_folder(root, &path, texts)?;
            }
        } else if kind.is_file() {
            // A file may be deleted during the check; files that are not UTF-8 are skipped.
            if let Ok(text) = std::fs::read_to_string(entry.path()) {
                texts.insert(path, text);
            }
        }
    }
    Ok(())
}

fn read_packages(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let top = text(&answer["workspace_root"]);
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    Ok(list(&answer["packages"])
        .iter()
        .map(|package| {
            let manifest = text(&package["manifest_path"]);
            let folder = manifest.strip_prefix(&top).unwrap_or(&manifest);
            Package {
                name: text(&package["name"]),
                folder: folder.trim_end_matches("Cargo.toml").trim_matches('/').to_owned(),
                dependencies: list(&package["dependencies"])
                    .iter()
                    .map(|dependency| Dependency {
                        name: text(&dependency["name"]),
                        dev: dependency["kind"].as_str() == Some("dev"),
                    })
                    .collect(),
            }
        })
        .collect())
}

fn read_git(root: &Path) -> Result<Git> {
    let git = |arguments: &[&str]| -> Option<BTreeSet<String>> {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output
            .status
            .success()
            .then(|| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    };
    // The tree must be the repository's own, not a folder within some other repository.
    let own = git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix.is_empty());
    if !own {
        return Ok(Git::Absent);
    }
    let tracked = git(&["ls-files"]).context("git cannot list its files")?;
    let whole = git(&["rev-parse", "--is-shallow-repository"]).is_some_and(|answer| answer.contains("false"));
    let born = git(&["rev-parse", "--verify", "--quiet", "HEAD"]).is_some();
    let changed = ["--no-renames", "--diff-filter=MDT", "--name-only"];
    let edited = if whole && born {
        let mut log = vec!["log", "--format=", "--full-history"];
        log.extend(changed);
        log.extend(["--", FROZEN_FOLDER]);
        let mut diff = vec!["diff", "HEAD"];
        diff.extend(changed);
        diff.extend(["--", FROZEN_FOLDER]);
        let mut edited = git(&log).context("git cannot read its history")?;
        edited.extend(git(&diff).context("git cannot compare the working tree")?);
        Some(edited)
    } else {
        None
    };
    Ok(Git::Repository { tracked, edited })
}
