//! Attempts on devices: creating them, opening those of the machine, and changing common ones.

use crate::attempt::{Attempt, AttemptResult, Targets, all, call, call_or, open, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt { name: "make a block device", run: |_| make(libc::S_IFBLK, 254, 0) },
    Attempt { name: "make a character device", run: |_| make(libc::S_IFCHR, 1, 1) },
    Attempt {
        name: "open the memory of the machine",
        run: |_| open_all(&["/dev/mem", "/dev/kmem", "/dev/port"]),
    },
    Attempt { name: "open the log of the kernel", run: |_| open_all(&["/dev/kmsg", "/proc/kmsg"]) },
    Attempt { name: "open disks", run: disks },
    Attempt { name: "open what else lies in /dev", run: others },
    Attempt {
        name: "open terminals of the machine",
        run: |_| {
            open_all(&["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs", "/dev/vcsa1"])
        },
    },
    Attempt { name: "change the mode of /dev/null", run: mode_of_null },
    Attempt { name: "change the owner of /dev/null", run: owner_of_null },
    Attempt { name: "make a file in /dev", run: |_| open("/dev", libc::O_TMPFILE | libc::O_WRONLY) },
    Attempt { name: "type into a terminal", run: |_| typed(0x5412) },
    Attempt { name: "paste into a console", run: |_| typed(0x541c) },
    Attempt { name: "take the console over", run: |_| typed(0x541d) },
];

fn make(kind: u32, major: u32, minor: u32) -> AttemptResult {
    let device = libc::makedev(major, minor);
    all(["device", "/tmp/device", "/dev/shm/device"].map(|path| {
        let path = text(path);
        call(sys!(libc::SYS_mknodat, libc::AT_FDCWD, path.as_ptr(), kind | 0o600, device))
    }))
}

/// Tries to open the existing ones for reading and for writing.
fn open_all(paths: &[&str]) -> AttemptResult {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    all(paths.iter().flat_map(|path| [open(path, flags), open(path, flags | libc::O_WRONLY)]))
}

fn disks(_: &Targets) -> AttemptResult {
    let mut found: Vec<String> = ["vda", "vda1", "sda", "sda1", "nvme0n1", "loop0", "dm-0", "ram0"]
        .map(|name| format!("/dev/{name}"))
        .into();
    let listed = std::fs::read_to_string("/proc/partitions").unwrap_or_default();
    found.extend(
        listed.lines().filter_map(|line| line.split_whitespace().nth(3)).map(|name| format!("/dev/{name}")),
    );
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    open_all(&found)
}

/// All listed devices except those that every program may use.
fn others(_: &Targets) -> AttemptResult {
    const OWN: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "ptmx"];
    let Ok(listed) = std::fs::read_dir("/dev") else { return AttemptResult::Held("no /dev".into()) };
    let mut held = Vec::new();
    for entry in listed.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let targets = entry.file_type();
        let is_device = targets.is_ok_and(|kind| !kind.is_dir() && !kind.is_symlink() && !kind.is_file());
        // Opening a watchdog would start it, and reading some others would consume data, so only the permission is
        // checked.
        if is_device && !OWN.contains(&name.as_str()) {
            let path = text(&format!("/dev/{name}"));
            let may = sys!(libc::SYS_faccessat, libc::AT_FDCWD, path.as_ptr(), libc::R_OK);
            held.push(match call(may) {
                AttemptResult::Open(_) if name.starts_with("watchdog") => {
                    AttemptResult::Held("not tried".into())
                }
                AttemptResult::Open(_) => open(&format!("/dev/{name}"), libc::O_NONBLOCK | libc::O_NOCTTY),
                held => held,
            });
        }
    }
    held.push(AttemptResult::Held("ENOENT".into()));
    all(held)
}

fn mode_of_null(_: &Targets) -> AttemptResult {
    let path = text("/dev/null");
    let open = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDWR, 0);
    all([
        call(sys!(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), 0o666)),
        call(sys!(libc::SYS_fchmod, open, 0o666)),
        // The standard input of a command is a device too.
        call(sys!(libc::SYS_fchmod, 0, 0o666)),
    ])
}

fn owner_of_null(_: &Targets) -> AttemptResult {
    let path = text("/dev/null");
    all([
        call_or(sys!(libc::SYS_fchownat, libc::AT_FDCWD, path.as_ptr(), 0, 0, 0), &[libc::EINVAL]),
        call_or(sys!(libc::SYS_fchown, 0, 0, 0), &[libc::EINVAL]),
    ])
}

fn typed(request: u64) -> AttemptResult {
    let path = text("/dev/ptmx");
    let terminal = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDWR | libc::O_NOCTTY, 0);
    let letter = b'x';
    let terminal = if terminal < 0 { 0 } else { terminal };
    call(sys!(libc::SYS_ioctl, terminal, request, &raw const letter))
}
