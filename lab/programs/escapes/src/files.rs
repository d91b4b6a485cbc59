//! Attempts on files outside: reading, writing, names, modes, and locks with external effects.

use crate::attempt::{Attempt, AttemptResult, Targets, all, call, call_or, open, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt { name: "read a secret outside", run: |targets| open_outside(targets, "secret", libc::O_RDONLY) },
    Attempt { name: "write a file outside", run: |targets| open_outside(targets, "secret", libc::O_WRONLY) },
    Attempt {
        name: "make a file outside",
        run: |targets| open_outside(targets, "open/made", libc::O_CREAT | libc::O_WRONLY),
    },
    Attempt {
        name: "make a file without a name outside",
        run: |targets| open_outside(targets, "open", libc::O_TMPFILE | libc::O_WRONLY),
    },
    Attempt {
        name: "list a folder outside",
        run: |targets| open_outside(targets, "open", libc::O_DIRECTORY),
    },
    Attempt {
        name: "write a named pipe outside",
        run: |targets| open_outside(targets, "pipe", libc::O_WRONLY | libc::O_NONBLOCK),
    },
    Attempt {
        name: "write a named pipe among what may be read",
        run: |targets| open_outside(targets, "shown/pipe", libc::O_WRONLY | libc::O_NONBLOCK),
    },
    Attempt { name: "truncate a file among what may be read", run: truncate_shown },
    Attempt { name: "write a program of the machine", run: |_| open("/usr/bin/env", libc::O_WRONLY) },
    Attempt { name: "make a file in /etc", run: |_| open("/etc", libc::O_TMPFILE | libc::O_WRONLY) },
    Attempt { name: "read the passwords of the machine", run: |_| open("/etc/shadow", libc::O_RDONLY) },
    Attempt {
        name: "go through the root of another process",
        run: |targets| open(&format!("/proc/{}/root{}/secret", targets.pid, targets.outside.display()), 0),
    },
    Attempt {
        name: "go through the folder of another process",
        run: |targets| open(&format!("/proc/{}/cwd", targets.pid), libc::O_DIRECTORY),
    },
    Attempt {
        name: "go through the first process",
        run: |targets| open(&format!("/proc/1/root{}/secret", targets.outside.display()), 0),
    },
    Attempt { name: "hard link of a file outside", run: |targets| link(targets, "secret", "linked-here") },
    Attempt {
        name: "hard link of a file among what may be read",
        run: |targets| link(targets, "shown/file", "linked-here-too"),
    },
    Attempt {
        name: "move a file outside here",
        run: |targets| rename(&targets.path("open/file"), "moved-here"),
    },
    Attempt { name: "move a file from here outside", run: rename_out },
    Attempt { name: "open by a handle", run: by_handle },
    Attempt { name: "change the mode of a file outside", run: |targets| mode(targets, "secret", 0o600) },
    Attempt {
        name: "change the mode of a file among what may be read",
        run: |targets| mode(targets, "shown/file", 0o644),
    },
    Attempt { name: "change the times of a file outside", run: |targets| times(targets, "secret") },
    Attempt {
        name: "change the times of a file among what may be read",
        run: |targets| times(targets, "shown/file"),
    },
    Attempt { name: "change the owner of a file outside", run: |targets| owner(targets, "secret") },
    Attempt { name: "attributes of a file among what may be read", run: attribute },
    Attempt { name: "flags of a file among what may be read", run: |targets| flags(targets, "shown/file") },
    Attempt { name: "flags of a file here", run: flags_here },
    Attempt { name: "lease on a file among what may be read", run: |targets| lease(targets, "shown/file") },
    Attempt { name: "notices of a folder among what may be read", run: notices },
    Attempt { name: "watch a file outside", run: watch },
    Attempt { name: "watch everything", run: |_| call(sys!(libc::SYS_fanotify_init, 0, 0)) },
    Attempt { name: "program that runs as its owner", run: |_| special(0o4755) },
    Attempt { name: "program that runs as its group", run: |_| special(0o2755) },
    Attempt { name: "program that is made to run as its owner", run: |_| made_special(0o4755) },
    Attempt { name: "program that is made to run as its group", run: |_| made_special(0o2755) },
    Attempt { name: "capabilities of a program", run: capabilities },
    Attempt { name: "quotas", run: |_| call(sys!(libc::SYS_quotactl, 0x0080_0004_u32 << 8, 0, 0, 0)) },
];

fn open_outside(targets: &Targets, name: &str, flags: i32) -> AttemptResult {
    open(&targets.outside.join(name).display().to_string(), flags)
}

fn truncate_shown(targets: &Targets) -> AttemptResult {
    // Truncates to the current length.
    call(sys!(libc::SYS_truncate, targets.path("shown/file").as_ptr(), 5))
}

fn link(targets: &Targets, from: &str, to: &str) -> AttemptResult {
    let to = text(to);
    call(sys!(libc::SYS_linkat, libc::AT_FDCWD, targets.path(from).as_ptr(), libc::AT_FDCWD, to.as_ptr(), 0))
}

fn rename(from: &std::ffi::CStr, to: &str) -> AttemptResult {
    let to = text(to);
    call(sys!(libc::SYS_renameat2, libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), 0))
}

fn rename_out(targets: &Targets) -> AttemptResult {
    let from = text("to-move");
    if std::fs::write("to-move", "x").is_err() {
        return AttemptResult::Held("nothing can be written here".into());
    }
    let to = targets.path("open/moved");
    call(sys!(libc::SYS_renameat2, libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), 0))
}

fn by_handle(_: &Targets) -> AttemptResult {
    // An invalid handle: a process that may use handles gets "stale" or "invalid".
    let mut handle = [0_u32; 8];
    handle[0] = 8;
    handle[1] = 1;
    let folder = text(".");
    let here = sys!(libc::SYS_openat, libc::AT_FDCWD, folder.as_ptr(), libc::O_RDONLY, 0);
    call(sys!(libc::SYS_open_by_handle_at, here, handle.as_mut_ptr(), libc::O_RDONLY))
}

fn mode(targets: &Targets, name: &str, mode: u32) -> AttemptResult {
    call(sys!(libc::SYS_fchmodat, libc::AT_FDCWD, targets.path(name).as_ptr(), mode))
}

fn times(targets: &Targets, name: &str) -> AttemptResult {
    let both = [0_i64, 0, 0, 0];
    call(sys!(libc::SYS_utimensat, libc::AT_FDCWD, targets.path(name).as_ptr(), both.as_ptr(), 0))
}

fn owner(targets: &Targets, name: &str) -> AttemptResult {
    call(sys!(libc::SYS_fchownat, libc::AT_FDCWD, targets.path(name).as_ptr(), 0, 0, 0))
}

fn attribute(targets: &Targets) -> AttemptResult {
    let (name, value) = (text("user.recount"), b"x");
    let status = sys!(
        libc::SYS_setxattr,
        targets.path("shown/file").as_ptr(),
        name.as_ptr(),
        value.as_ptr(),
        1_usize,
        0
    );
    call_or(status, &[libc::EOPNOTSUPP])
}

fn flags(targets: &Targets, name: &str) -> AttemptResult {
    set_flags(&targets.path(name))
}

fn flags_here(_: &Targets) -> AttemptResult {
    if std::fs::write("flagged", "x").is_err() {
        return AttemptResult::Held("nothing can be written here".into());
    }
    set_flags(&text("flagged"))
}

/// Sets the flags that a file already has.
fn set_flags(path: &std::ffi::CStr) -> AttemptResult {
    let file = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY, 0);
    if file < 0 {
        return call(file);
    }
    let mut flags = 0_i32;
    sys!(libc::SYS_ioctl, file, 0x8008_6601_u64, &raw mut flags);
    all([
        call_or(sys!(libc::SYS_ioctl, file, 0x4008_6602_u64, &raw const flags), &[libc::ENOTTY]),
        // The same for project ids, with the other call.
        {
            let mut all = [0_u8; 28];
            call_or(sys!(libc::SYS_ioctl, file, 0x401c_5820_u64, all.as_mut_ptr()), &[libc::ENOTTY])
        },
    ])
}

fn lease(targets: &Targets, name: &str) -> AttemptResult {
    let file = sys!(libc::SYS_openat, libc::AT_FDCWD, targets.path(name).as_ptr(), libc::O_RDONLY, 0);
    if file < 0 {
        return call(file);
    }
    call(sys!(libc::SYS_fcntl, file, libc::F_SETLEASE, libc::F_RDLCK))
}

fn notices(targets: &Targets) -> AttemptResult {
    let file = sys!(libc::SYS_openat, libc::AT_FDCWD, targets.path("shown").as_ptr(), libc::O_RDONLY, 0);
    if file < 0 {
        return call(file);
    }
    call(sys!(libc::SYS_fcntl, file, libc::F_NOTIFY, 1))
}

fn watch(targets: &Targets) -> AttemptResult {
    let watcher = sys!(libc::SYS_inotify_init1, 0);
    if watcher < 0 {
        return call(watcher);
    }
    call(sys!(libc::SYS_inotify_add_watch, watcher, targets.path("secret").as_ptr(), libc::IN_OPEN))
}

fn special(mode: i32) -> AttemptResult {
    let path = text("special");
    let flags = libc::O_CREAT | libc::O_WRONLY;
    call(sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, mode))
}

fn made_special(mode: i32) -> AttemptResult {
    if std::fs::write("made-special", "x").is_err() {
        return AttemptResult::Held("nothing can be written here".into());
    }
    let path = text("made-special");
    let open = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY, 0);
    all([
        call(sys!(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), mode)),
        call(sys!(libc::SYS_fchmod, open, mode)),
        call(sys!(452, libc::AT_FDCWD, path.as_ptr(), mode, 0)),
    ])
}

fn capabilities(_: &Targets) -> AttemptResult {
    if std::fs::write("capable", "x").is_err() {
        return AttemptResult::Held("nothing can be written here".into());
    }
    let (path, name) = (text("capable"), text("security.capability"));
    // An empty attribute value.
    let mut value = [0_u8; 20];
    value[3] = 2;
    let status = sys!(libc::SYS_setxattr, path.as_ptr(), name.as_ptr(), value.as_ptr(), value.len(), 0);
    call_or(status, &[libc::EOPNOTSUPP])
}
