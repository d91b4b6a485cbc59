//! Attempts to use unlimited resources: prevented if the system limits them.
//!
//! Each continues until it is refused, or until it has more than any command needs.

use crate::attempt::{Attempt, AttemptResult, call_or, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt { name: "open files", run: |_| until_refused(70_000, |_| sys!(libc::SYS_dup, 0)) },
    Attempt { name: "pipes that hold much", run: |_| until_refused(2_000, |_| wide_pipe()) },
    Attempt {
        name: "lists of watched files",
        run: |_| until_refused(70_000, |_| sys!(libc::SYS_inotify_init1, libc::IN_CLOEXEC)),
    },
    Attempt { name: "named queues", run: |_| named_queues() },
    Attempt { name: "signals that wait", run: |_| until_refused(2_000_000, |_| waiting_signal()) },
    Attempt {
        name: "timers",
        run: |_| {
            until_refused(2_000_000, |_| {
                let mut timer = 0_i32;
                sys!(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, 0, &raw mut timer)
            })
        },
    },
    Attempt { name: "memory that stays", run: |_| locked_memory() },
    Attempt {
        name: "room on the disk, without writing",
        run: |_| {
            let path = text("reserved");
            let flags = libc::O_CREAT | libc::O_RDWR;
            let file = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600);
            let status = sys!(libc::SYS_fallocate, file, 0, 0_i64, 1_i64 << 20);
            call_or(status, &[libc::EOPNOTSUPP])
        },
    },
    Attempt {
        name: "a file beyond its bound",
        run: |_| {
            let path = text("long");
            let flags = libc::O_CREAT | libc::O_RDWR;
            let file = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600);
            // Sparse, so it uses no disk space.
            call_or(sys!(libc::SYS_ftruncate, file, 1_i64 << 43), &[libc::EFBIG])
        },
    },
];

/// Errors that mean that a limit is reached.
const EXHAUSTED: &[i32] = &[libc::EMFILE, libc::ENFILE, libc::EAGAIN, libc::ENOSPC, libc::ENOMEM];

fn until_refused(most: u32, mut more: impl FnMut(u32) -> i64) -> AttemptResult {
    for number in 0..most {
        let status = more(number);
        if status < 0 {
            return call_or(status, EXHAUSTED);
        }
    }
    AttemptResult::Open(format!("{most} of them"))
}

/// Named queues would remain without a sandbox.
fn named_queues() -> AttemptResult {
    let name = |number: u32| text(&format!("recount-{}-{number}", std::process::id()));
    let mut made = 0;
    let came = until_refused(70_000, |number| {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let status = sys!(libc::SYS_mq_open, name(number).as_ptr(), flags, 0o600, 0);
        made = number;
        status
    });
    for number in 0..made {
        sys!(libc::SYS_mq_unlink, name(number).as_ptr());
    }
    came
}

/// Creates a pipe with a capacity of 1 MiB.
fn wide_pipe() -> i64 {
    let mut ends = [0_i32; 2];
    let made = sys!(libc::SYS_pipe2, ends.as_mut_ptr(), 0);
    if made < 0 {
        return made;
    }
    sys!(libc::SYS_fcntl, ends[0], libc::F_SETPIPE_SZ, 1 << 20)
}

/// Sends a blocked signal to this process, so that it stays pending.
fn waiting_signal() -> i64 {
    let signal = libc::SIGRTMIN() + 1;
    let set = 1_u64 << (signal - 1);
    sys!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const set, 0, 8);
    let mut targets = [0_i32; 32];
    // SI_QUEUE
    targets[2] = -1;
    sys!(libc::SYS_rt_sigqueueinfo, std::process::id(), signal, targets.as_mut_ptr())
}

fn locked_memory() -> AttemptResult {
    const LENGTH: usize = 1 << 30;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let place = sys!(libc::SYS_mmap, 0, LENGTH, protection, flags, -1, 0);
    if place < 0 {
        return call_or(place, EXHAUSTED);
    }
    // Without touching the memory: pages are locked when they are touched later.
    call_or(sys!(libc::SYS_mlock2, place, LENGTH, 1), EXHAUSTED)
}
