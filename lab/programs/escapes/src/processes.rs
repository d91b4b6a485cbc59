//! Attempts on other processes: memory, files, signals, and scheduling.
//!
//! The target process belongs to the test and only waits.

use crate::attempt::{Attempt, AttemptResult, Targets, all, call, open, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "signal",
        run: |targets| {
            all([
                call(sys!(libc::SYS_kill, targets.pid, 0)),
                call(sys!(libc::SYS_tkill, targets.pid, 0)),
                call(sys!(libc::SYS_tgkill, targets.pid, targets.pid, 0)),
            ])
        },
    },
    Attempt {
        name: "signal with a value",
        run: |targets| {
            // A signal code of the kernel, which no process may use, is refused with EPERM; so SI_QUEUE is used.
            let mut about_it = [0_i32; 32];
            about_it[2] = -1;
            call(sys!(libc::SYS_rt_sigqueueinfo, targets.pid, 0, about_it.as_ptr()))
        },
    },
    Attempt {
        name: "signal by a descriptor",
        run: |targets| {
            let process = sys!(libc::SYS_pidfd_open, targets.pid, 0);
            if process < 0 {
                call(process)
            } else {
                call(sys!(libc::SYS_pidfd_send_signal, process, 0, 0, 0))
            }
        },
    },
    Attempt {
        name: "descriptors",
        run: |targets| {
            let process = sys!(libc::SYS_pidfd_open, targets.pid, 0);
            if process < 0 { call(process) } else { call(sys!(libc::SYS_pidfd_getfd, process, 0, 0)) }
        },
    },
    Attempt {
        name: "trace",
        run: |targets| {
            all([
                // PTRACE_SEIZE, which does not stop the target.
                call(sys!(libc::SYS_ptrace, 0x4206, targets.pid, 0, 0)),
                call(sys!(libc::SYS_ptrace, 16, targets.pid, 0, 0)),
            ])
        },
    },
    Attempt {
        name: "read memory",
        run: |targets| {
            let byte = [0_u8; 1];
            let piece = [byte.as_ptr() as usize, 1];
            all([
                call(sys!(libc::SYS_process_vm_readv, targets.pid, piece.as_ptr(), 1, piece.as_ptr(), 1, 0)),
                call(sys!(libc::SYS_process_vm_writev, targets.pid, piece.as_ptr(), 0, piece.as_ptr(), 0, 0)),
            ])
        },
    },
    Attempt {
        name: "memory by a file",
        run: |targets| all([of(targets, "mem", libc::O_RDONLY), of(targets, "mem", libc::O_RDWR)]),
    },
    Attempt { name: "environment", run: |targets| of(targets, "environ", libc::O_RDONLY) },
    Attempt { name: "maps", run: |targets| of(targets, "maps", libc::O_RDONLY) },
    Attempt { name: "files that are open", run: |targets| name_of_file(targets) },
    Attempt { name: "a file that is open", run: |targets| of(targets, "fd/0", libc::O_RDONLY) },
    Attempt { name: "how soon it is killed", run: |targets| of(targets, "oom_score_adj", libc::O_WRONLY) },
    Attempt {
        name: "move or advise memory",
        run: |targets| {
            all([
                call(sys!(libc::SYS_migrate_pages, targets.pid, 0, 0, 0)),
                call(sys!(libc::SYS_move_pages, targets.pid, 0, 0, 0, 0, 0)),
                call(sys!(libc::SYS_process_madvise, -1, 0, 0, 0, 0)),
                call(sys!(libc::SYS_process_mrelease, -1, 0)),
                call(sys!(libc::SYS_kcmp, targets.pid, targets.pid, 0, 0, 0)),
            ])
        },
    },
    Attempt {
        name: "priority",
        run: |targets| {
            all([
                call(sys!(libc::SYS_setpriority, 0, targets.pid, 19)),
                call(sys!(libc::SYS_ioprio_set, 1, targets.pid, 0x4007)),
            ])
        },
    },
    Attempt {
        name: "priority of all of a user",
        run: |_| {
            // For a user without processes, and with an invalid class: no process changes.
            all([
                call_but(sys!(libc::SYS_setpriority, 2, 0x6fff_fff0, 19), libc::ESRCH),
                call(sys!(libc::SYS_ioprio_set, 3, 0, 7 << 13)),
            ])
        },
    },
    Attempt {
        name: "processors",
        run: |targets| {
            let all_of_them = [u64::MAX; 16];
            call(sys!(libc::SYS_sched_setaffinity, targets.pid, 128, all_of_them.as_ptr()))
        },
    },
    Attempt {
        name: "schedule",
        run: |targets| {
            let priority = 0_i32;
            let attributes = [48_u32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            all([
                call(sys!(libc::SYS_sched_setscheduler, targets.pid, 0, &raw const priority)),
                call(sys!(libc::SYS_sched_setparam, targets.pid, &raw const priority)),
                call(sys!(libc::SYS_sched_setattr, targets.pid, attributes.as_ptr(), 0)),
            ])
        },
    },
    Attempt {
        name: "come before everything else",
        run: |_| {
            let priority = 1_i32;
            all([
                call(sys!(libc::SYS_sched_setscheduler, 0, 1, &raw const priority)),
                call(sys!(libc::SYS_setpriority, 0, 0, -20)),
            ])
        },
    },
    Attempt {
        name: "bounds",
        run: |targets| {
            let mut held = [0_u64; 2];
            call(sys!(libc::SYS_prlimit64, targets.pid, libc::RLIMIT_NOFILE, 0, held.as_mut_ptr()))
        },
    },
    Attempt {
        name: "who it is",
        run: |_| {
            all([call(sys!(libc::SYS_setuid, 12)), call(sys!(libc::SYS_setgid, 12))].into_iter().map(
                |came| match came {
                    // The id does not exist in the namespace.
                    AttemptResult::Open(why) if why == "errno 22" => AttemptResult::Held(why),
                    came => came,
                },
            ))
        },
    },
    Attempt {
        name: "capabilities",
        run: |_| {
            let header = [0x2008_0522_u32, 0];
            // CAP_SYS_ADMIN, in all of the sets.
            let sets = [1_u32 << 21, 1 << 21, 0, 0, 0, 0];
            call(sys!(libc::SYS_capset, header.as_ptr(), sets.as_ptr()))
        },
    },
    Attempt {
        name: "a listener for calls",
        run: |_| {
            // Returns "allowed" for everything.
            let steps = [0x7fff_0000_0000_0006_u64];
            let program = (1_u16, steps.as_ptr());
            call(sys!(libc::SYS_seccomp, 1, 8, &raw const program))
        },
    },
];

/// The error that a permitted process gets.
fn call_but(status: i64, let_in: i32) -> AttemptResult {
    let error = std::io::Error::last_os_error().raw_os_error();
    if status < 0 && error == Some(let_in) { AttemptResult::Open("let in".into()) } else { call(status) }
}

fn name_of_file(targets: &Targets) -> AttemptResult {
    let path = text(&format!("/proc/{}/fd/0", targets.pid));
    let mut name = [0_u8; 64];
    call(sys!(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), name.as_mut_ptr(), name.len()))
}

fn of(targets: &Targets, what: &str, flags: i32) -> AttemptResult {
    open(&format!("/proc/{}/{what}", targets.pid), flags)
}
