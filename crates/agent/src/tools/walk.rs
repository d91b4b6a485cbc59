//! Lists the files of a workspace in order, without ignored ones, and never outside of it.
//!
//! Start at [`Walk`]. Each folder is opened below the workspace folder without following symbolic links, so a folder
//! that is swapped for a link is skipped. The `ignore` library, which ripgrep uses, interprets `.gitignore` and
//! `.ignore`. Git settings outside the workspace are ignored, so that the same workspace gives the same result
//! everywhere.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, Dir, FileType};

use crate::limits::IGNORE_FILE_BYTES_MAX;
use crate::paths::{Found, Links, Root, WorkspacePath};
use crate::tools::ending::{Halt, WorkMonitor};
use crate::tools::limits;

/// The files below a folder.
pub(crate) struct Walk<'a> {
    root: &'a Root,
    watch: &'a WorkMonitor,
    /// Entries to visit, the next one last.
    pending: Vec<PendingEntry>,
    entries: usize,
    depth_max: usize,
    entries_max: usize,
    /// Whether something was omitted because of a limit.
    pub(crate) cut: bool,
}

struct PendingEntry {
    place: WorkspacePath,
    folder: bool,
    depth: usize,
    rules: Option<Rc<WalkIgnores>>,
}

/// The ignore rules of a folder and of those above it.
struct WalkIgnores {
    here: Gitignore,
    above: Option<Rc<WalkIgnores>>,
}

impl<'a> Walk<'a> {
    /// `top` is a folder; the rules of the folders above it hold too.
    pub(crate) fn new(root: &'a Root, top: &WorkspacePath, watch: &'a WorkMonitor) -> Self {
        let mut rules = None;
        let mut above = Some(top.clone());
        let mut chain = Vec::new();
        while let Some(place) = above.take_if(|place| !place.is_top()) {
            above = place.split().map(|(parent, _)| parent);
            chain.extend(above.clone());
        }
        for place in chain.iter().rev() {
            rules = read_rules(root, place, rules);
        }
        let first = PendingEntry { place: top.clone(), folder: true, depth: 0, rules };
        Walk {
            root,
            watch,
            pending: vec![first],
            entries: 0,
            depth_max: limits::WALK_DEPTH_MAX,
            entries_max: limits::WALK_ENTRIES_MAX,
            cut: false,
        }
    }

    /// The whole workspace, with smaller limits.
    pub(crate) fn shallow(
        root: &'a Root,
        watch: &'a WorkMonitor,
        depth_max: usize,
        entries_max: usize,
    ) -> Self {
        Walk { depth_max, entries_max, ..Walk::new(root, &WorkspacePath::top(), watch) }
    }

    /// Returns the next file.
    pub(crate) fn next(&mut self) -> Result<Option<WorkspacePath>, Halt> {
        while let Some(step) = self.pending.pop() {
            self.watch.check()?;
            if !step.folder {
                return Ok(Some(step.place));
            }
            self.enter(step)?;
        }
        Ok(None)
    }

    fn enter(&mut self, step: PendingEntry) -> Result<(), Halt> {
        if step.depth > self.depth_max {
            self.cut = true;
            return Ok(());
        }
        // Entries that were deleted or are not readable are skipped.
        let Ok(folder) = self.root.folder(&step.place, Links::Refuse) else { return Ok(()) };
        let Ok(mut listing) = Dir::new(folder) else { return Ok(()) };
        let rules = read_rules(self.root, &step.place, step.rules);
        let mut names: Vec<(OsString, bool)> = Vec::new();
        while let Some(entry) = listing.read() {
            let Ok(entry) = entry else { break };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || name == ".git" {
                continue;
            }
            self.entries += 1;
            if self.entries > self.entries_max {
                self.cut = true;
                break;
            }
            if self.entries.is_multiple_of(limits::WALK_LOOK_EVERY) {
                self.watch.check()?;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => listing
                    .fd()
                    .and_then(|folder| {
                        rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    })
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            let folder = match kind {
                FileType::Directory => true,
                FileType::RegularFile => false,
                _ => continue,
            };
            let child = step.place.child(name);
            if !ignored(rules.as_deref(), child.as_path(), folder) {
                names.push((name.to_owned(), folder));
            }
        }
        names.sort_unstable();
        self.pending.extend(names.into_iter().rev().map(|(name, folder)| PendingEntry {
            place: step.place.child(&name),
            folder,
            depth: step.depth + 1,
            rules: rules.clone(),
        }));
        Ok(())
    }
}

/// The nearest rule that matches decides.
fn ignored(rules: Option<&WalkIgnores>, path: &Path, folder: bool) -> bool {
    let mut rules = rules;
    while let Some(level) = rules {
        match level.here.matched(path, folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => rules = level.above.as_deref(),
        }
    }
    false
}

/// Adds the rules of a folder, if it has any. Invalid lines are skipped, as in git.
fn read_rules(
    root: &Root,
    folder: &WorkspacePath,
    above: Option<Rc<WalkIgnores>>,
) -> Option<Rc<WalkIgnores>> {
    let at = if folder.is_top() { Path::new("") } else { folder.as_path() };
    let mut builder = GitignoreBuilder::new(at);
    let mut names = vec![".gitignore", ".ignore"];
    if folder.is_top() {
        names.insert(0, ".git/info/exclude");
    }
    for name in names {
        let place = folder.child(OsStr::new(name));
        let Ok(Found::File(file)) = root.find(&place, Links::Refuse) else { continue };
        let mut bytes = Vec::new();
        if file.take(IGNORE_FILE_BYTES_MAX).read_to_end(&mut bytes).is_err() {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes);
        for line in text.trim_start_matches('\u{FEFF}').lines() {
            // An invalid line ignores nothing.
            builder.add_line(None, line).ok();
        }
    }
    match builder.build() {
        Ok(here) if !here.is_empty() => Some(Rc::new(WalkIgnores { here, above })),
        _ => above,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Cancel;
    use crate::tools::scene::Scene;
    use std::os::unix::fs::symlink;

    fn walked(scene: &Scene, top: &str) -> Vec<String> {
        let root = Root::open(scene.root()).unwrap();
        let watch = WorkMonitor::new(&Cancel::new().1, limits::SEARCH_TIME_MAX);
        let mut walk = Walk::new(&root, &root.place(top).unwrap(), &watch);
        let mut names = Vec::new();
        while let Some(place) = walk.next().unwrap() {
            names.push(place.text());
        }
        names
    }

    #[test]
    fn files_are_listed_in_order_without_ignored_ones() {
        let scene = Scene::with(&[
            (".gitignore", "*.log\n/build/\n!keep.log\nsub/x\n[\n"),
            (".git/config", ""),
            (".git/info/exclude", "private\n"),
            ("a.log", ""),
            ("keep.log", ""),
            ("build/a", ""),
            ("sub/build/a", ""),
            ("sub/x", ""),
            ("sub/.gitignore", "!a.log\nz/\n"),
            ("sub/a.log", ""),
            ("sub/z/a", ""),
            ("sub/z2/a.log", ""),
            ("other/.ignore", "*\n"),
            ("other/a", ""),
            ("private", ""),
            ("b/.hidden", ""),
            ("b.c", ""),
        ]);
        symlink("b", scene.at("link")).unwrap();
        symlink("b.c", scene.at("link.c")).unwrap();
        assert_eq!(
            walked(&scene, "."),
            [
                ".gitignore",
                "b/.hidden",
                "b.c",
                "keep.log",
                "sub/.gitignore",
                "sub/a.log",
                "sub/build/a",
                "sub/z2/a.log",
            ]
        );
        assert_eq!(walked(&scene, "sub"), ["sub/.gitignore", "sub/a.log", "sub/build/a", "sub/z2/a.log"]);
        assert_eq!(walked(&scene, "build"), ["build/a"], "what is named is not ignored");
    }

    #[test]
    fn deep_and_unusual_trees_are_listed() {
        let scene = Scene::new();
        let deep = format!("{}f", "d/".repeat(limits::WALK_DEPTH_MAX));
        scene.put(&deep, b"");
        let deeper = format!("e/{}f", "e/".repeat(limits::WALK_DEPTH_MAX));
        scene.put(&deeper, b"");
        std::fs::write(scene.root().join(OsStr::from_bytes(b"\xFF\n")), "").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, scene.at("p"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, scene.at(".gitignore"), rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        assert_eq!(walked(&scene, "."), [deep, "\u{FFFD}\n".to_owned()]);
    }
}
