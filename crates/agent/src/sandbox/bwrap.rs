//! Builds the command line of bubblewrap for a sandbox plan.
//!
//! The mounts follow [`super::view`] entry by entry. Start at [`arguments`].

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::plan::SandboxPlan;
use super::stage::MountCopies;
use super::view::{HELPER, MountKind, view};

/// File descriptors that bubblewrap inherits, and the sources of its mounts.
#[derive(Debug, Default)]
pub(crate) struct Inherited<'a> {
    /// Descriptors of the system call filters.
    pub(crate) filters: &'a [RawFd],
    /// Files that replace files of the machine: path and descriptor.
    pub(crate) files: &'a [(PathBuf, RawFd)],
    /// Copies of mounts, if this process is root and bubblewrap runs as another user.
    pub(crate) stage: Option<&'a MountCopies>,
}

/// All arguments before those of the inner stage.
pub(crate) fn arguments(plan: &SandboxPlan, inherited: &Inherited<'_>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut push = |parts: &[&dyn AsRef<std::ffi::OsStr>]| {
        arguments.extend(parts.iter().map(|part| part.as_ref().to_owned()));
    };
    let source = |path: &Path| -> PathBuf {
        let target = inherited.stage.and_then(|stage| stage.target(path));
        target.unwrap_or(path).to_owned()
    };
    if inherited.stage.is_some() {
        // Bubblewrap already is in a user namespace here. The inner stage needs these capabilities to become the
        // command's user.
        push(&[
            &"--unshare-ipc",
            &"--unshare-pid",
            &"--unshare-net",
            &"--unshare-uts",
            &"--unshare-cgroup-try",
        ]);
        push(&[&"--cap-drop", &"ALL"]);
        for capability in ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"] {
            push(&[&"--cap-add", &capability]);
        }
    } else {
        push(&[&"--unshare-all", &"--cap-drop", &"ALL"]);
    }
    push(&[&"--die-with-parent", &"--new-session", &"--as-pid-1"]);
    if plan.network {
        push(&[&"--share-net"]);
    }
    push(&[&"--clearenv"]);
    for (name, value) in &plan.environment {
        push(&[&"--setenv", name, value]);
    }
    for entry in view(plan, inherited.stage.is_some(), &|path| path.exists()) {
        let path = &entry.path;
        if inherited.stage.is_some() && matches!(entry.kind, MountKind::Read | MountKind::Write) {
            // Bubblewrap would create parent folders with closed modes if they are closed outside, and the command runs
            // as another user.
            let mut above: Vec<&Path> =
                path.ancestors().skip(1).filter(|path| path.parent().is_some()).collect();
            above.reverse();
            for folder in above {
                push(&[&"--perms", &"0755", &"--dir", &folder]);
            }
        }
        match &entry.kind {
            MountKind::Link(target) => push(&[&"--symlink", target, path]),
            MountKind::Read => push(&[&"--ro-bind", &source(path), path]),
            MountKind::Write => push(&[&"--bind", &source(path), path]),
            MountKind::NoFile => push(&[&"--ro-bind", &"/dev/null", path]),
            MountKind::NoFolder => push(&[&"--perms", &"0555", &"--size", &"4096", &"--tmpfs", path]),
            MountKind::Memory(bytes) => {
                push(&[&"--size", &bytes.to_string(), &"--perms", &"1777", &"--tmpfs", path]);
            }
            // It belongs to bubblewrap's user, which may differ from the command's. No other user exists in this
            // namespace.
            MountKind::Folder => push(&[&"--perms", &"0777", &"--dir", path]),
            MountKind::Devices => push(&[&"--dev", path]),
            MountKind::Device(name) => push(&[&"--dev-bind", &MountCopies::device(name), path]),
            MountKind::Processes => push(&[&"--proc", path]),
            MountKind::Helper => push(&[&"--ro-bind", &source(&plan.helper), path]),
            MountKind::Sealed => {
                if path == Path::new("/") {
                    for (path, number) in inherited.files {
                        push(&[&"--perms", &"0444", &"--ro-bind-data", &number.to_string(), path]);
                    }
                }
                push(&[&"--remount-ro", path]);
            }
        }
    }
    for filter in inherited.filters {
        push(&[&"--add-seccomp-fd", &filter.to_string()]);
    }
    // The inner stage changes to the workspace itself, because bubblewrap's user may not be allowed to enter it.
    push(&[&"--chdir", &"/", &"--", &HELPER]);
    arguments
}
