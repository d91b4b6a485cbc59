//! A path in a workspace, as text: what a call's path comes down to before anything is opened.
//!
//! Look at [`Place::parse`]. Pure: it never looks at a disk.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::limits;
use crate::paths::PathError;

/// A path below the workspace's folder, without `.` and `..`; the folder itself is `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(PathBuf);

impl Place {
    /// The workspace's folder.
    pub fn top() -> Self {
        Place(PathBuf::from("."))
    }

    /// Relative to the workspace, or absolute and inside of it. `..` takes back the part before it, as text,
    /// so that policy and tools mean the same file.
    pub fn parse(root: &Path, text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::new(
                "invalid_path",
                "a path must not be empty; the workspace itself is `.`",
            ));
        }
        if text.len() > limits::PATH_BYTES_MAX {
            let message = format!("a path has {} bytes and may have {}", text.len(), limits::PATH_BYTES_MAX);
            return Err(PathError::new("invalid_path", message));
        }
        if text.contains('\0') {
            return Err(PathError::new("invalid_path", "a path must not contain a zero byte"));
        }
        let outside = || {
            PathError::new(
                "outside_workspace",
                format!("`{text}` is outside of the workspace; name a path relative to it"),
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
        Ok(Place::of(&parts))
    }

    fn of(parts: &[&OsStr]) -> Self {
        if parts.is_empty() { Place::top() } else { Place(parts.iter().collect()) }
    }

    /// A thing in this folder.
    pub(crate) fn child(&self, name: &OsStr) -> Self {
        if self.is_top() { Place(PathBuf::from(name)) } else { Place(self.0.join(name)) }
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    pub fn is_top(&self) -> bool {
        self.0 == Path::new(".")
    }

    /// The folder it is in and its name there; nothing for the workspace itself.
    pub(crate) fn split(&self) -> Option<(Place, &OsStr)> {
        if self.is_top() {
            return None;
        }
        let name = self.0.file_name()?;
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        Some((parent.map_or_else(Place::top, |parent| Place(parent.to_owned())), name))
    }

    /// As events and models are told: with `/`, and what is no UTF-8 replaced.
    pub fn told(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Whether it is, or lies in, what git keeps for itself. In any case, because some file systems know no case.
    pub fn is_gits(&self) -> bool {
        self.0.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_comes_down_to_a_place() {
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
            let parsed = Place::parse(root, text).map(|place| place.told()).map_err(|error| error.code);
            assert_eq!(parsed, place.map(str::to_owned), "{text:?}");
        }
        let long = "a/".repeat(limits::PATH_BYTES_MAX);
        assert_eq!(Place::parse(root, &long).unwrap_err().code, "invalid_path");
    }

    #[test]
    fn what_git_keeps_is_known() {
        let root = Path::new("/");
        for (text, gits) in
            [(".git", true), ("a/.GIT/hooks", true), (".gitignore", false), ("git/.github", false)]
        {
            assert_eq!(Place::parse(root, text).unwrap().is_gits(), gits, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_place_never_goes_up(text in "(/|[a-c.]{0,3}/){0,6}[a-c.]{0,3}") {
            if let Ok(place) = Place::parse(Path::new("/a/b"), &text) {
                prop_assert!(place.as_path().is_relative());
                prop_assert!(place.is_top() || place.as_path().components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert_eq!(Place::parse(Path::new("/a/b"), &place.told()), Ok(place));
            }
        }
    }
}
