//! Attempts on namespaces and mounts: creating, entering, and changing the view.

use crate::attempt::{Attempt, AttemptResult, Targets, all, call, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt { name: "new namespaces", run: |_| all(KINDS.map(|kind| call(sys!(libc::SYS_unshare, kind)))) },
    Attempt { name: "new namespaces with a process", run: |_| all(KINDS.map(with_clone)) },
    Attempt {
        name: "new namespaces with the newer call",
        run: |_| {
            let mut how = [0_u64; 11];
            how[0] = libc::CLONE_NEWUSER as u64;
            how[4] = libc::SIGCHLD as u64;
            ending(sys!(libc::SYS_clone3, how.as_ptr(), 88_usize))
        },
    },
    Attempt { name: "enter namespaces of another process", run: enter },
    Attempt {
        name: "enter a process",
        run: |targets| {
            let process = sys!(libc::SYS_pidfd_open, targets.pid, 0);
            if process < 0 { call(process) } else { call(sys!(libc::SYS_setns, process, libc::CLONE_NEWNS)) }
        },
    },
    Attempt {
        name: "mount",
        run: |_| {
            // The file system does not exist; the permission is checked first.
            let (kind, place) = (text("recount-none"), text("."));
            call(sys!(libc::SYS_mount, kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, 0))
        },
    },
    Attempt {
        name: "remount to be written",
        run: |_| {
            let place = text("/usr");
            let flags = libc::MS_REMOUNT | libc::MS_BIND;
            call(sys!(libc::SYS_mount, 0, place.as_ptr(), 0, flags, 0))
        },
    },
    Attempt {
        name: "unmount",
        run: |_| {
            // The path is not a mount; the permission is checked first.
            call(sys!(libc::SYS_umount2, text("/nonexistent-mount").as_ptr(), 0)).or_let_in()
        },
    },
    Attempt {
        name: "the newer calls for mounts",
        run: |_| {
            let kind = text("tmpfs");
            all([
                call(sys!(libc::SYS_fsopen, kind.as_ptr(), 0)),
                call(sys!(libc::SYS_fsconfig, -1, 6, 0, 0, 0)),
                call(sys!(libc::SYS_fsmount, -1, 0, 0)),
                call(sys!(libc::SYS_fspick, libc::AT_FDCWD, text(".").as_ptr(), 0)),
                call(sys!(libc::SYS_open_tree, libc::AT_FDCWD, text(".").as_ptr(), 1)),
                call(sys!(libc::SYS_move_mount, -1, 0, -1, 0, 0)),
                call(sys!(libc::SYS_mount_setattr, libc::AT_FDCWD, text("/").as_ptr(), 0, 0, 0)),
            ])
        },
    },
    Attempt {
        name: "another root",
        run: |_| {
            all([
                call(sys!(libc::SYS_chroot, text(".").as_ptr())),
                call(sys!(libc::SYS_pivot_root, text(".").as_ptr(), text(".").as_ptr())),
            ])
        },
    },
    Attempt {
        name: "ids of a namespace",
        run: |_| {
            all(["uid_map", "gid_map", "setgroups"].map(|name| {
                let path = format!("/proc/self/{name}");
                match std::fs::write(path, "0 0 1\n") {
                    Ok(()) => AttemptResult::Open(name.into()),
                    Err(error) => AttemptResult::Held(error.kind().to_string()),
                }
            }))
        },
    },
];

const KINDS: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    // CLONE_NEWTIME
    0x80,
];

fn with_clone(kind: i32) -> AttemptResult {
    // `CLONE_NEWTIME` has another meaning here.
    if kind == 0x80 {
        return AttemptResult::Held("not so".into());
    }
    ending(sys!(libc::SYS_clone, kind | libc::SIGCHLD, 0, 0, 0, 0))
}

/// Ends the created child at once.
fn ending(child: i64) -> AttemptResult {
    if child == 0 {
        sys!(libc::SYS_exit_group, 0);
    }
    call(child)
}

fn enter(targets: &Targets) -> AttemptResult {
    all(["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"].map(|kind| {
        let path = text(&format!("/proc/{}/ns/{kind}", targets.pid));
        let namespace = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY, 0);
        if namespace < 0 { call(namespace) } else { call(sys!(libc::SYS_setns, namespace, 0)) }
    }))
}

impl AttemptResult {
    fn or_let_in(self) -> AttemptResult {
        match self {
            AttemptResult::Held(why) if why == "ENOENT" => AttemptResult::Open("let in".into()),
            came => came,
        }
    }
}
