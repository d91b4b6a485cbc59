//! Other processes: their memory, their files, what they are sent, and how they are run.
//!
//! The process that all of it is tried on belongs to the test and waits.

use crate::attempt::{About, Attempt, Came, all, call, open, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "signal",
        run: |about| {
            all([
                call(sys!(libc::SYS_kill, about.pid, 0)),
                call(sys!(libc::SYS_tkill, about.pid, 0)),
                call(sys!(libc::SYS_tgkill, about.pid, about.pid, 0)),
            ])
        },
    },
    Attempt {
        name: "signal with a value",
        run: |about| {
            // From the kernel's own, which nobody else may claim to be, is refused with EPERM; so as a queue.
            let mut about_it = [0_i32; 32];
            about_it[2] = -1;
            call(sys!(libc::SYS_rt_sigqueueinfo, about.pid, 0, about_it.as_ptr()))
        },
    },
    Attempt {
        name: "signal by a descriptor",
        run: |about| {
            let process = sys!(libc::SYS_pidfd_open, about.pid, 0);
            if process < 0 {
                call(process)
            } else {
                call(sys!(libc::SYS_pidfd_send_signal, process, 0, 0, 0))
            }
        },
    },
    Attempt {
        name: "descriptors",
        run: |about| {
            let process = sys!(libc::SYS_pidfd_open, about.pid, 0);
            if process < 0 { call(process) } else { call(sys!(libc::SYS_pidfd_getfd, process, 0, 0)) }
        },
    },
    Attempt {
        name: "trace",
        run: |about| {
            all([
                // PTRACE_SEIZE, which stops nobody.
                call(sys!(libc::SYS_ptrace, 0x4206, about.pid, 0, 0)),
                call(sys!(libc::SYS_ptrace, 16, about.pid, 0, 0)),
            ])
        },
    },
    Attempt {
        name: "read memory",
        run: |about| {
            let byte = [0_u8; 1];
            let piece = [byte.as_ptr() as usize, 1];
            all([
                call(sys!(libc::SYS_process_vm_readv, about.pid, piece.as_ptr(), 1, piece.as_ptr(), 1, 0)),
                call(sys!(libc::SYS_process_vm_writev, about.pid, piece.as_ptr(), 0, piece.as_ptr(), 0, 0)),
            ])
        },
    },
    Attempt {
        name: "memory by a file",
        run: |about| all([of(about, "mem", libc::O_RDONLY), of(about, "mem", libc::O_RDWR)]),
    },
    Attempt { name: "environment", run: |about| of(about, "environ", libc::O_RDONLY) },
    Attempt { name: "maps", run: |about| of(about, "maps", libc::O_RDONLY) },
    Attempt { name: "files that are open", run: |about| name_of_file(about) },
    Attempt { name: "a file that is open", run: |about| of(about, "fd/0", libc::O_RDONLY) },
    Attempt { name: "how soon it is killed", run: |about| of(about, "oom_score_adj", libc::O_WRONLY) },
    Attempt {
        name: "move or advise memory",
        run: |about| {
            all([
                call(sys!(libc::SYS_migrate_pages, about.pid, 0, 0, 0)),
                call(sys!(libc::SYS_move_pages, about.pid, 0, 0, 0, 0, 0)),
                call(sys!(libc::SYS_process_madvise, -1, 0, 0, 0, 0)),
                call(sys!(libc::SYS_process_mrelease, -1, 0)),
                call(sys!(libc::SYS_kcmp, about.pid, about.pid, 0, 0, 0)),
            ])
        },
    },
    Attempt {
        name: "priority",
        run: |about| {
            all([
                call(sys!(libc::SYS_setpriority, 0, about.pid, 19)),
                call(sys!(libc::SYS_ioprio_set, 1, about.pid, 0x4007)),
            ])
        },
    },
    Attempt {
        name: "priority of all of a user",
        run: |_| {
            // Of a user that has no processes, and with a class that there is not: nothing changes for anybody.
            all([
                call_but(sys!(libc::SYS_setpriority, 2, 0x6fff_fff0, 19), libc::ESRCH),
                call(sys!(libc::SYS_ioprio_set, 3, 0, 7 << 13)),
            ])
        },
    },
    Attempt {
        name: "processors",
        run: |about| {
            let all_of_them = [u64::MAX; 16];
            call(sys!(libc::SYS_sched_setaffinity, about.pid, 128, all_of_them.as_ptr()))
        },
    },
    Attempt {
        name: "schedule",
        run: |about| {
            let priority = 0_i32;
            let attributes = [48_u32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            all([
                call(sys!(libc::SYS_sched_setscheduler, about.pid, 0, &raw const priority)),
                call(sys!(libc::SYS_sched_setparam, about.pid, &raw const priority)),
                call(sys!(libc::SYS_sched_setattr, about.pid, attributes.as_ptr(), 0)),
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
        run: |about| {
            let mut held = [0_u64; 2];
            call(sys!(libc::SYS_prlimit64, about.pid, libc::RLIMIT_NOFILE, 0, held.as_mut_ptr()))
        },
    },
    Attempt {
        name: "who it is",
        run: |_| {
            all([call(sys!(libc::SYS_setuid, 12)), call(sys!(libc::SYS_setgid, 12))].into_iter().map(
                |came| match came {
                    // An id that the namespace does not have.
                    Came::Open(why) if why == "errno 22" => Came::Held(why),
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

/// A process that gets this answer was let in.
fn call_but(answer: i64, let_in: i32) -> Came {
    let error = std::io::Error::last_os_error().raw_os_error();
    if answer < 0 && error == Some(let_in) { Came::Open("let in".into()) } else { call(answer) }
}

fn name_of_file(about: &About) -> Came {
    let path = text(&format!("/proc/{}/fd/0", about.pid));
    let mut name = [0_u8; 64];
    call(sys!(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), name.as_mut_ptr(), name.len()))
}

fn of(about: &About, what: &str, flags: i32) -> Came {
    open(&format!("/proc/{}/{what}", about.pid), flags)
}
