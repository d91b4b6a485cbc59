//! Paths in a workspace: parses the path of a call before anything is opened.
//!
//! Pure: it never accesses the disk.
//!
//! Start at [`WorkspacePath::parse`].

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::limits;
use crate::paths::PathError;

/// A path below the workspace folder, without `.` and `..`; the folder itself is `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(PathBuf);

impl WorkspacePath {
    /// The workspace folder.
    pub fn top() -> Self {
        WorkspacePath(PathBuf::from("."))
    }

    /// Parses a path that is relative to the workspace, or absolute and inside it. `..` removes the part before it
    /// lexically, so that policy and tools mean the same file.
    pub fn parse(root: &Path, text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::new(
                "invalid_path",
                "the path is empty; use `.` for the workspace itself",
            ));
        }
        if text.len() > limits::PATH_BYTES_MAX {
            let message =
                format!("the path has {} bytes; the limit is {}", text.len(), limits::PATH_BYTES_MAX);
            return Err(PathError::new("invalid_path", message));
        }
        if text.contains('\0') {
            return Err(PathError::new("invalid_path", "the path contains a NUL byte"));
        }
        let outside = || {
            PathError::new(
                "outside_workspace",
                format!("`{text}` is outside the workspace; use a path relative to the workspace"),
            )
        };
        let given = Path::new(text);
        let inside = match given.strip_prefix("/") {
            Ok(_) => given.strip_prefix(root).map_err(|_| outside())?,
            Err(_) => given,
        };
        let mut parts: Vec<&OsStr> = Vec::new();
        for part in inside.components() {
            match part {
                Component::Normal(part) => parts.push(part),
                Component::CurDir => {}
                Component::ParentDir => drop(parts.pop().ok_or_else(outside)?),
                Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        Ok(WorkspacePath::of(&parts))
    }

    fn of(parts: &[&OsStr]) -> Self {
        if parts.is_empty() { WorkspacePath::top() } else { WorkspacePath(parts.iter().collect()) }
    }

    /// The path of an entry in this folder.
    pub(crate) fn child(&self, name: &OsStr) -> Self {
        if self.is_top() { WorkspacePath(PathBuf::from(name)) } else { WorkspacePath(self.0.join(name)) }
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    pub fn is_top(&self) -> bool {
        self.0 == Path::new(".")
    }

    /// The parent folder and the name in it; `None` for the workspace itself.
    pub(crate) fn split(&self) -> Option<(WorkspacePath, &OsStr)> {
        if self.is_top() {
            return None;
        }
        let name = self.0.file_name()?;
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        Some((parent.map_or_else(WorkspacePath::top, |parent| WorkspacePath(parent.to_owned())), name))
    }

    /// The text for events and models: with `/`, and with replacement characters for what is not UTF-8.
    pub fn text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Whether it is in a `.git` folder. The comparison ignores case, because some file systems do.
    pub fn is_in_git_folder(&self) -> bool {
        self.0.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_parsed_and_normalized() {
        let root = Path::new("/home/a");
        for (text, place) in [
            ("a", Ok("a")),
            ("./a//b/", Ok("a/b")),
            ("a/../b", Ok("b")),
            (".", Ok(".")),
            ("a/..", Ok(".")),
            ("/home/a", Ok(".")),
            ("/home/a/b/../c", Ok("c")),
            ("...", Ok("...")),
            ("a\nb", Ok("a\nb")),
            ("~", Ok("~")),
            ("", Err("invalid_path")),
            ("a\0", Err("invalid_path")),
            ("..", Err("outside_workspace")),
            ("a/../../b", Err("outside_workspace")),
            ("/home/a/../b", Err("outside_workspace")),
            ("/home/ab", Err("outside_workspace")),
            ("/", Err("outside_workspace")),
            ("/etc/passwd", Err("outside_workspace")),
        ] {
            let parsed =
                WorkspacePath::parse(root, text).map(|place| place.text()).map_err(|error| error.code);
            assert_eq!(parsed, place.map(str::to_owned), "{text:?}");
        }
        let long = "a/".repeat(limits::PATH_BYTES_MAX);
        assert_eq!(WorkspacePath::parse(root, &long).unwrap_err().code, "invalid_path");
    }

    #[test]
    fn paths_in_git_folders_are_recognized() {
        let root = Path::new("/");
        for (text, is_expected) in
            [(".git", true), ("a/.GIT/hooks", true), (".gitignore", false), ("git/.github", false)]
        {
            assert_eq!(WorkspacePath::parse(root, text).unwrap().is_in_git_folder(), is_expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_workspace_path_never_leaves_the_workspace(text in "(/|[a-c.]{0,3}/){0,6}[a-c.]{0,3}") {
            if let Ok(place) = WorkspacePath::parse(Path::new("/a/b"), &text) {
                prop_assert!(place.as_path().is_relative());
                prop_assert!(place.is_top() || place.as_path().components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert_eq!(WorkspacePath::parse(Path::new("/a/b"), &place.text()), Ok(place));
            }
        }
    }
}
