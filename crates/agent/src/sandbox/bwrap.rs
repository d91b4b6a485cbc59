//! Bubblewrap: the words of its command line for a plan.
//!
//! They follow [`super::view`] entry by entry. Look at [`arguments`].

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::plan::SandboxPlan;
use super::stage::MountCopies;
use super::view::{HELPER, What, view};

/// What bubblewrap inherits and where it finds what it binds.
#[derive(Debug, Default)]
pub(crate) struct Inherited<'a> {
    /// Descriptors of the filters of system calls.
    pub(crate) filters: &'a [RawFd],
    /// Files that stand in for ones of the machine.
    pub(crate) files: &'a [(PathBuf, RawFd)],
    /// Copies of mounts, where this process is root and bubblewrap will not be.
    pub(crate) stage: Option<&'a MountCopies>,
}

/// Everything up to the inner stage's own arguments.
pub(crate) fn arguments(plan: &SandboxPlan, inherited: &Inherited<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |parts: &[&dyn AsRef<std::ffi::OsStr>]| {
        words.extend(parts.iter().map(|part| part.as_ref().to_owned()));
    };
    let source = |path: &Path| -> PathBuf {
        let place = inherited.stage.and_then(|stage| stage.place(path));
        place.unwrap_or(path).to_owned()
    };
    if inherited.stage.is_some() {
        // It is in a user namespace by then. The inner stage becomes the command's user, which takes these.
        say(&[
            &"--unshare-ipc",
            &"--unshare-pid",
            &"--unshare-net",
            &"--unshare-uts",
            &"--unshare-cgroup-try",
        ]);
        say(&[&"--cap-drop", &"ALL"]);
        for capability in ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"] {
            say(&[&"--cap-add", &capability]);
        }
    } else {
        say(&[&"--unshare-all", &"--cap-drop", &"ALL"]);
    }
    say(&[&"--die-with-parent", &"--new-session", &"--as-pid-1"]);
    if plan.network {
        say(&[&"--share-net"]);
    }
    say(&[&"--clearenv"]);
    for (name, value) in &plan.environment {
        say(&[&"--setenv", name, value]);
    }
    for entry in view(plan, inherited.stage.is_some(), &|path| path.exists()) {
        let path = &entry.path;
        if inherited.stage.is_some() && matches!(entry.what, What::Read | What::Write) {
            // Bubblewrap would close folders on the way to what is closed outside, and the command is another user.
            let mut above: Vec<&Path> =
                path.ancestors().skip(1).filter(|path| path.parent().is_some()).collect();
            above.reverse();
            for folder in above {
                say(&[&"--perms", &"0755", &"--dir", &folder]);
            }
        }
        match &entry.what {
            What::Link(target) => say(&[&"--symlink", target, path]),
            What::Read => say(&[&"--ro-bind", &source(path), path]),
            What::Write => say(&[&"--bind", &source(path), path]),
            What::NoFile => say(&[&"--ro-bind", &"/dev/null", path]),
            What::NoFolder => say(&[&"--perms", &"0555", &"--size", &"4096", &"--tmpfs", path]),
            What::Memory(bytes) => {
                say(&[&"--size", &bytes.to_string(), &"--perms", &"1777", &"--tmpfs", path]);
            }
            // Of bubblewrap's user, which may be another than the command's; nobody else is in there.
            What::Folder => say(&[&"--perms", &"0777", &"--dir", path]),
            What::Devices => say(&[&"--dev", path]),
            What::Device(name) => say(&[&"--dev-bind", &MountCopies::device(name), path]),
            What::Processes => say(&[&"--proc", path]),
            What::Helper => say(&[&"--ro-bind", &source(&plan.helper), path]),
            What::Sealed => {
                if path == Path::new("/") {
                    for (path, number) in inherited.files {
                        say(&[&"--perms", &"0444", &"--ro-bind-data", &number.to_string(), path]);
                    }
                }
                say(&[&"--remount-ro", path]);
            }
        }
    }
    for filter in inherited.filters {
        say(&[&"--add-seccomp-fd", &filter.to_string()]);
    }
    // The command goes to its folder by itself: this user may not be let in.
    say(&[&"--chdir", &"/", &"--", &HELPER]);
    words
}
