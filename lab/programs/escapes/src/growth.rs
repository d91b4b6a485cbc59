//! What a command can have more and more of, up to a bound that the system keeps: held where there is one.
//!
//! Each goes on until it is refused, or until it has more than any command needs.

use crate::attempt::{Attempt, Came, call_or, sys, text};

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
            let answer = sys!(libc::SYS_fallocate, file, 0, 0_i64, 1_i64 << 20);
            call_or(answer, &[libc::EOPNOTSUPP])
        },
    },
    Attempt {
        name: "a file beyond its bound",
        run: |_| {
            let path = text("long");
            let flags = libc::O_CREAT | libc::O_RDWR;
            let file = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600);
            // Of holes, which take no room.
            call_or(sys!(libc::SYS_ftruncate, file, 1_i64 << 43), &[libc::EFBIG])
        },
    },
];

/// How kernels say that there is no more.
const NO_MORE: &[i32] = &[libc::EMFILE, libc::ENFILE, libc::EAGAIN, libc::ENOSPC, libc::ENOMEM];

fn until_refused(most: u32, mut more: impl FnMut(u32) -> i64) -> Came {
    for number in 0..most {
        let answer = more(number);
        if answer < 0 {
            return call_or(answer, NO_MORE);
        }
    }
    Came::Open(format!("{most} of them"))
}

/// They would stay where nothing holds them.
fn named_queues() -> Came {
    let name = |number: u32| text(&format!("recount-{}-{number}", std::process::id()));
    let mut made = 0;
    let came = until_refused(70_000, |number| {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let answer = sys!(libc::SYS_mq_open, name(number).as_ptr(), flags, 0o600, 0);
        made = number;
        answer
    });
    for number in 0..made {
        sys!(libc::SYS_mq_unlink, name(number).as_ptr());
    }
    came
}

/// A pipe that has room for a MiB.
fn wide_pipe() -> i64 {
    let mut ends = [0_i32; 2];
    let made = sys!(libc::SYS_pipe2, ends.as_mut_ptr(), 0);
    if made < 0 {
        return made;
    }
    sys!(libc::SYS_fcntl, ends[0], libc::F_SETPIPE_SZ, 1 << 20)
}

/// A signal to this process that is blocked, so that it waits.
fn waiting_signal() -> i64 {
    let signal = libc::SIGRTMIN() + 1;
    let set = 1_u64 << (signal - 1);
    sys!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const set, 0, 8);
    let mut about = [0_i32; 32];
    // SI_QUEUE
    about[2] = -1;
    sys!(libc::SYS_rt_sigqueueinfo, std::process::id(), signal, about.as_mut_ptr())
}

fn locked_memory() -> Came {
    const LENGTH: usize = 1 << 30;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let place = sys!(libc::SYS_mmap, 0, LENGTH, protection, flags, -1, 0);
    if place < 0 {
        return call_or(place, NO_MORE);
    }
    // Without touching it: what is touched later is locked then.
    call_or(sys!(libc::SYS_mlock2, place, LENGTH, 1), NO_MORE)
}
