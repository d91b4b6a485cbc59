//! Ignore rules of git for a folder, from files in that folder alone.
//!
//! It must never know copies.
//!
//! Start at [`IgnoreRules`]. Reads `.gitignore` files and `.git/info/exclude`. A user's own git settings are not read,
//! so that the same folder gives the same result everywhere.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};

use crate::limits;

/// The rules of a folder and of those above it.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    here: Gitignore,
    above: Option<Rc<IgnoreRules>>,
}

impl IgnoreRules {
    /// The rules that hold in `folder`, a path relative to `root`.
    pub(super) fn within(
        root: &Path,
        folder: &Path,
        above: Option<Rc<IgnoreRules>>,
    ) -> Option<Rc<IgnoreRules>> {
        let mut builder = GitignoreBuilder::new(folder);
        let mut names = vec![".gitignore"];
        if folder.as_os_str().is_empty() {
            names.insert(0, ".git/info/exclude");
        }
        for name in names {
            let Some(text) = read(&root.join(folder).join(name)) else { continue };
            for line in text.trim_start_matches('\u{FEFF}').lines() {
                // As in git, an invalid line ignores nothing.
                builder.add_line(None, line).ok();
            }
        }
        match builder.build() {
            Ok(here) if !here.is_empty() => Some(Rc::new(IgnoreRules { here, above })),
            _ => above,
        }
    }

    /// Whether these rules ignore a path relative to the root. The nearest rule that matches decides.
    pub(super) fn ignores(rules: Option<&Rc<IgnoreRules>>, path: &Path, is_folder: bool) -> bool {
        let mut rules = rules;
        while let Some(level) = rules {
            match level.here.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = level.above.as_ref(),
            }
        }
        false
    }
}

/// The text of a regular file; `None` if there is none.
fn read(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limits::IGNORE_FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
