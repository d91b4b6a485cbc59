//! Bubblewrap: the words of its command line for a plan.
//!
//! The file system is made anew: what is not bound is not there. Look at [`arguments`].

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::places::BWRAP_HOME as HOME;
use super::plan::Plan;

/// Where the inner stage finds this program.
pub(crate) const HELPER: &str = "/run/recount/sandbox";

/// What is done with a path.
enum Mount<'a> {
    Read(&'a Path),
    Hide(&'a Path),
    Write(&'a Path),
}

impl Mount<'_> {
    fn path(&self) -> &Path {
        match self {
            Mount::Read(path) | Mount::Hide(path) | Mount::Write(path) => path,
        }
    }
}

/// Everything up to the inner stage's own arguments. `filters` are descriptors of the filters of system calls.
pub(crate) fn arguments(plan: &Plan, filters: &[RawFd]) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |parts: &[&dyn AsRef<std::ffi::OsStr>]| {
        words.extend(parts.iter().map(|part| part.as_ref().to_owned()));
    };
    say(&[&"--unshare-all", &"--die-with-parent", &"--new-session", &"--as-pid-1"]);
    if plan.network {
        say(&[&"--share-net"]);
    }
    say(&[&"--cap-drop", &"ALL", &"--clearenv"]);
    for (name, value) in &plan.environment {
        say(&[&"--setenv", name, value]);
    }
    for (link, target) in &plan.links {
        say(&[&"--symlink", target, link]);
    }
    let tmp_bytes = plan.tmp_bytes.to_string();
    say(&[&"--size", &tmp_bytes, &"--perms", &"1777", &"--tmpfs", &"/tmp"]);
    let mut mounts: Vec<Mount<'_>> = plan.readable.iter().map(|path| Mount::Read(path)).collect();
    mounts.extend(plan.hidden.iter().map(|path| Mount::Hide(path)));
    mounts.push(Mount::Write(&plan.workspace));
    // What lies deeper comes later and so wins; the order of equals is the one above.
    mounts.sort_by_key(|mount| mount.path().components().count());
    for mount in &mounts {
        match mount {
            Mount::Read(path) => say(&[&"--ro-bind", path, path]),
            Mount::Write(path) => say(&[&"--bind", path, path]),
            Mount::Hide(path) if !is_within_shown(path, plan) => {}
            Mount::Hide(path) if path.is_dir() => {
                say(&[&"--perms", &"0555", &"--size", &"4096", &"--tmpfs", path]);
            }
            Mount::Hide(path) => say(&[&"--ro-bind", &"/dev/null", path]),
        }
    }
    for path in plan.hidden.iter().filter(|path| is_within_shown(path, plan) && path.is_dir()) {
        // Something below may have been mounted; only the folder itself stops taking files.
        say(&[&"--remount-ro", path]);
    }
    say(&[&"--dev", &"/dev", &"--size", &tmp_bytes, &"--perms", &"1777", &"--tmpfs", &"/dev/shm"]);
    say(&[&"--proc", &"/proc", &"--dir", &HOME]);
    say(&[&"--ro-bind", &plan.helper, &HELPER, &"--remount-ro", &"/"]);
    for filter in filters {
        say(&[&"--add-seccomp-fd", &filter.to_string()]);
    }
    say(&[&"--chdir", &plan.cwd, &"--", &HELPER]);
    words
}

/// Whether a path would be seen if it were not hidden.
fn is_within_shown(path: &Path, plan: &Plan) -> bool {
    let within = |shown: &PathBuf| path != shown.as_path() && path.starts_with(shown);
    plan.readable.iter().any(within) || within(&plan.workspace)
}
