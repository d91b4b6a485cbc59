//! Attempts on the kernel: settings, modules, clock, names, and introspection calls.
//!
//! A call that would stop or change the machine has an invalid argument, so a kernel that permits the call reports the
//! argument.

use std::path::Path;

use crate::attempt::{Attempt, AttemptResult, Targets, all, call, open, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt { name: "settings of the kernel", run: |_| tree("/proc/sys") },
    Attempt {
        name: "program that takes core dumps",
        run: |_| open("/proc/sys/kernel/core_pattern", libc::O_WRONLY),
    },
    Attempt { name: "orders to the kernel", run: |_| open("/proc/sysrq-trigger", libc::O_WRONLY) },
    Attempt { name: "interrupts", run: |_| tree("/proc/irq") },
    Attempt { name: "buses", run: |_| tree("/proc/bus") },
    Attempt { name: "anything else in /proc", run: other_proc },
    Attempt { name: "memory and keys in /proc", run: secrets_of_the_kernel },
    Attempt { name: "anything in /sys", run: |_| tree("/sys") },
    Attempt { name: "control groups", run: |_| tree("/sys/fs/cgroup") },
    Attempt {
        name: "load a module",
        run: |_| {
            all([
                call(sys!(libc::SYS_init_module, 0, 0, 0)),
                call(sys!(libc::SYS_finit_module, -1, 0, 0)),
                call(sys!(libc::SYS_delete_module, 0, 0)),
            ])
        },
    },
    Attempt {
        name: "start another kernel",
        run: |_| {
            all([
                call(sys!(libc::SYS_kexec_load, 0, 0, 0, 0xffff_ffff_u64)),
                call(sys!(libc::SYS_kexec_file_load, -1, -1, 0, 0, 0xffff_u64)),
            ])
        },
    },
    Attempt { name: "restart the machine", run: |_| call(sys!(libc::SYS_reboot, 1, 2, 3, 0)) },
    Attempt {
        name: "swap",
        run: |_| {
            let path = text("/nonexistent/swap");
            all([
                call_or_found(sys!(libc::SYS_swapon, path.as_ptr(), 0)),
                call_or_found(sys!(libc::SYS_swapoff, path.as_ptr())),
            ])
        },
    },
    Attempt { name: "set the clock", run: clock },
    Attempt {
        name: "name of the machine",
        run: |_| all([call(sys!(libc::SYS_sethostname, 0, -1)), call(sys!(libc::SYS_setdomainname, 0, -1))]),
    },
    Attempt {
        name: "accounts of processes",
        run: |_| {
            let path = text("/nonexistent/acct");
            call_or_found(sys!(libc::SYS_acct, path.as_ptr()))
        },
    },
    Attempt { name: "messages of the kernel", run: |_| call(sys!(libc::SYS_syslog, 10, 0, 0)) },
    Attempt { name: "programs in the kernel", run: |_| call(sys!(libc::SYS_bpf, 0, 0, 0)) },
    Attempt {
        name: "counters of the processor",
        run: |_| call(sys!(libc::SYS_perf_event_open, 0, 0, -1, -1, 0)),
    },
    Attempt {
        name: "rings for calls",
        run: |_| {
            all([
                call(sys!(libc::SYS_io_uring_setup, 1, 0)),
                call(sys!(libc::SYS_io_uring_enter, -1, 0, 0, 0, 0, 0)),
                call(sys!(libc::SYS_io_uring_register, -1, 0, 0, 0)),
            ])
        },
    },
    Attempt { name: "queues of the disk", run: |_| call(sys!(libc::SYS_io_setup, 0, 0)) },
    Attempt { name: "faults of memory", run: |_| call(sys!(libc::SYS_userfaultfd, 0)) },
    Attempt { name: "memory that is nobody's", run: |_| call(sys!(libc::SYS_memfd_secret, 0)) },
    Attempt {
        name: "keys",
        run: |_| {
            let words = text("user");
            all([
                call(sys!(libc::SYS_keyctl, 0, -3, 0, 0, 0)),
                call(sys!(libc::SYS_add_key, words.as_ptr(), words.as_ptr(), 0, 0, -3)),
                call(sys!(libc::SYS_request_key, words.as_ptr(), words.as_ptr(), 0, 0)),
            ])
        },
    },
    Attempt { name: "ports of the processor", run: ports },
    Attempt { name: "another way to run", run: |_| call(sys!(libc::SYS_personality, 0x0040_0000)) },
    Attempt { name: "every disk at once", run: |_| call(sys!(libc::SYS_sync)) },
    Attempt {
        name: "calls of kernels to come",
        run: |_| all((480..520).map(|number| call(sys!(number, 0, 0, 0, 0, 0, 0)))),
    },
    Attempt { name: "calls for short pointers", run: short_pointers },
    Attempt { name: "calls of 32 bits", run: of_32_bits },
    Attempt { name: "core dumps into a program", run: core_dumps },
];

/// A permitted process gets "not found" for this path.
fn call_or_found(status: i64) -> AttemptResult {
    let error = std::io::Error::last_os_error().raw_os_error();
    if status < 0 && error == Some(libc::ENOENT) {
        AttemptResult::Open("let in".into())
    } else {
        call(status)
    }
}

/// Checks whether any file below a folder can be opened for writing. Nothing is written.
fn tree(root: &str) -> AttemptResult {
    const FILES_MAX: usize = 20_000;
    let mut folders = vec![Path::new(root).to_owned()];
    let (mut files, mut how) = (0, "ENOENT".to_owned());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && files < FILES_MAX {
                files += 1;
                match open(&entry.path().display().to_string(), libc::O_WRONLY | libc::O_NONBLOCK) {
                    AttemptResult::Held(why) => how = why,
                    AttemptResult::Open(_) => return AttemptResult::Open(entry.path().display().to_string()),
                }
            }
        }
    }
    AttemptResult::Held(how)
}

/// Everything at the top of `/proc` that is not a process, and files in some folders.
fn other_proc(_: &Targets) -> AttemptResult {
    const TRIED: &[&str] = &["sys", "irq", "bus", "self", "thread-self", "net", "mounts"];
    let mut came = vec![AttemptResult::Held("ENOENT".into())];
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if TRIED.contains(&name.as_str()) || name.starts_with(|letter: char| letter.is_ascii_digit()) {
            continue;
        }
        let path = format!("/proc/{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => came.push(tree(&path)),
            // Covered by an empty file.
            Ok(kind) if kind.is_file() => came.push(open(&path, libc::O_WRONLY | libc::O_NONBLOCK)),
            _ => {}
        }
    }
    all(came)
}

fn secrets_of_the_kernel(_: &Targets) -> AttemptResult {
    all(["kcore", "kmsg"].map(|name| {
        let path = format!("/proc/{name}");
        // A path that is covered by a device reads as empty.
        match std::fs::metadata(&path) {
            Ok(targets) if std::os::unix::fs::FileTypeExt::is_char_device(&targets.file_type()) => {
                AttemptResult::Held("covered".into())
            }
            _ => open(&path, libc::O_RDONLY | libc::O_NONBLOCK),
        }
    }))
}

fn clock(_: &Targets) -> AttemptResult {
    // An invalid number of nanoseconds.
    let wrong = [0_i64, i64::MAX];
    let mut buffer = [0_u64; 32];
    buffer[0] = 0x8000;
    all([
        call(sys!(libc::SYS_settimeofday, wrong.as_ptr(), 0)),
        call(sys!(libc::SYS_clock_settime, 0, wrong.as_ptr())),
        call(sys!(libc::SYS_adjtimex, buffer.as_ptr())),
        call(sys!(libc::SYS_clock_adjtime, 0, buffer.as_ptr())),
    ])
}

#[cfg(target_arch = "x86_64")]
fn ports(_: &Targets) -> AttemptResult {
    all([
        call(sys!(libc::SYS_iopl, 3)),
        call(sys!(libc::SYS_ioperm, 0x80, 1, 1)),
        call(sys!(libc::SYS_modify_ldt, 0, 0, 0)),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn ports(_: &Targets) -> AttemptResult {
    AttemptResult::Held("not here".into())
}

#[cfg(target_arch = "x86_64")]
fn short_pointers(_: &Targets) -> AttemptResult {
    // `getpid` by its x32 number, and `ptrace`, which has a separate x32 number.
    all([call(sys!(0x4000_0000 + 39)), call(sys!(0x4000_0000 + 521, 0, 0, 0, 0))])
}

#[cfg(not(target_arch = "x86_64"))]
fn short_pointers(_: &Targets) -> AttemptResult {
    AttemptResult::Held("not here".into())
}

#[cfg(target_arch = "x86_64")]
fn of_32_bits(_: &Targets) -> AttemptResult {
    let status: i64;
    // SAFETY: it asks for the number of this process and touches no memory.
    #[allow(unsafe_code, reason = "there is no other way to call so")]
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => status, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    if status > 0 {
        AttemptResult::Open("it was answered".into())
    } else {
        AttemptResult::Held("refused".into())
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_32_bits(_: &Targets) -> AttemptResult {
    AttemptResult::Held("not here".into())
}

fn core_dumps(_: &Targets) -> AttemptResult {
    // A limit of 1 disables dumps; any other value enables them where a program collects them.
    let none = [0_u64, 0];
    sys!(libc::SYS_setrlimit, libc::RLIMIT_CORE, none.as_ptr());
    sys!(libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, none.as_ptr(), 0);
    let mut held = [0_u64; 2];
    let result = sys!(libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, 0, held.as_mut_ptr());
    let taken_by = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if result == 0 && held == [1, 1] {
        AttemptResult::Held("of 1 byte".into())
    } else if held[1] == 0 && !taken_by.starts_with('|') {
        AttemptResult::Held("of 0 bytes, for nobody".into())
    } else {
        AttemptResult::Open(format!("of {held:?} bytes"))
    }
}
