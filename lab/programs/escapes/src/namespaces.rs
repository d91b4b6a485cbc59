//! Namespaces and mounts: making new ones, entering others, changing the view.

use crate::attempt::{About, Attempt, Came, all, call, sys, text};

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
        run: |about| {
            let process = sys!(libc::SYS_pidfd_open, about.pid, 0);
            if process < 0 { call(process) } else { call(sys!(libc::SYS_setns, process, libc::CLONE_NEWNS)) }
        },
    },
    Attempt {
        name: "mount",
        run: |_| {
            // There is no such file system, and who may mount is looked at first.
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
            // What is no mount cannot be unmounted, but by whom it is asked is looked at first.
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
                    Ok(()) => Came::Open(name.into()),
                    Err(error) => Came::Held(error.kind().to_string()),
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

fn with_clone(kind: i32) -> Came {
    // `CLONE_NEWTIME` means something else here.
    if kind == 0x80 {
        return Came::Held("not so".into());
    }
    ending(sys!(libc::SYS_clone, kind | libc::SIGCHLD, 0, 0, 0, 0))
}

/// A child that was made ends at once.
fn ending(child: i64) -> Came {
    if child == 0 {
        sys!(libc::SYS_exit_group, 0);
    }
    call(child)
}

fn enter(about: &About) -> Came {
    all(["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"].map(|kind| {
        let path = text(&format!("/proc/{}/ns/{kind}", about.pid));
        let namespace = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY, 0);
        if namespace < 0 { call(namespace) } else { call(sys!(libc::SYS_setns, namespace, 0)) }
    }))
}

impl Came {
    fn or_let_in(self) -> Came {
        match self {
            Came::Held(why) if why == "ENOENT" => Came::Open("let in".into()),
            came => came,
        }
    }
}
