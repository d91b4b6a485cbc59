//! Attempts on queues, semaphores, shared memory and sockets of other processes.
//!
//! The test creates one of each and passes its number in a file of the workspace, `messages`.

use crate::attempt::{Attempt, AttemptResult, all, call, call_or, sys, text};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "queue of messages of another",
        run: |_| {
            let Some([queue, ..]) = numbers() else { return AttemptResult::Open("there is no list".into()) };
            let mut letter = [0_u64; 4];
            all([
                none(sys!(libc::SYS_msgctl, queue, libc::IPC_STAT, [0_u8; 256].as_mut_ptr())),
                none(sys!(libc::SYS_msgrcv, queue, letter.as_mut_ptr(), 8_usize, 0, libc::IPC_NOWAIT)),
            ])
        },
    },
    Attempt {
        name: "semaphore of another",
        run: |_| {
            let Some([_, semaphore, _]) = numbers() else {
                return AttemptResult::Open("there is no list".into());
            };
            // GETVAL
            none(sys!(libc::SYS_semctl, semaphore, 0, 12, 0))
        },
    },
    Attempt {
        name: "shared memory of another",
        run: |_| {
            let Some([.., memory]) = numbers() else { return AttemptResult::Open("there is no list".into()) };
            all([
                none(sys!(libc::SYS_shmctl, memory, libc::IPC_STAT, [0_u8; 256].as_mut_ptr())),
                none(sys!(libc::SYS_shmat, memory, 0, libc::SHM_RDONLY)),
            ])
        },
    },
    Attempt {
        name: "named queue of another",
        run: |_| {
            let name = text(&std::fs::read_to_string("queue-name").unwrap_or_default());
            call(sys!(libc::SYS_mq_open, name.as_ptr(), libc::O_RDONLY, 0, 0))
        },
    },
    Attempt {
        name: "socket by its path",
        run: |targets| connect(libc::SOCK_STREAM, &targets.path("socket"), false),
    },
    Attempt {
        name: "socket for datagrams by its path",
        run: |targets| connect(libc::SOCK_DGRAM, &targets.path("datagrams"), false),
    },
    Attempt {
        name: "socket without a path",
        run: |_| {
            connect(
                libc::SOCK_STREAM,
                &text(&std::fs::read_to_string("socket-name").unwrap_or_default()),
                true,
            )
        },
    },
    Attempt {
        name: "one of a pair of sockets, turned elsewhere",
        run: |targets| {
            let mut pair = [0_i32; 2];
            let made = sys!(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
            if made < 0 {
                return call(made);
            }
            let (address, length) = address(&targets.path("datagrams"), false);
            all([
                call_or(
                    sys!(libc::SYS_sendto, pair[0], b"x".as_ptr(), 1, 0, address.as_ptr(), length),
                    NO_LISTENER,
                ),
                call_or(sys!(libc::SYS_connect, pair[0], address.as_ptr(), length), NO_LISTENER),
            ])
        },
    },
    Attempt {
        name: "one of a connected pair, turned elsewhere",
        run: |targets| {
            let mut pair = [0_i32; 2];
            let made = sys!(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
            if made < 0 {
                return call(made);
            }
            let (address, length) = address(&targets.path("socket"), false);
            let taken = [libc::EISCONN, libc::EINVAL, libc::EOPNOTSUPP];
            call_or(sys!(libc::SYS_connect, pair[0], address.as_ptr(), length), &taken)
        },
    },
];

/// The error in a namespace without a socket of that name.
const NO_LISTENER: &[i32] = &[libc::ECONNREFUSED];

/// The result in a namespace without that id.
fn none(status: i64) -> AttemptResult {
    call_or(status, &[libc::EINVAL, libc::EIDRM])
}

/// The ids of the queue, the semaphore and the shared memory of the test.
fn numbers() -> Option<[i32; 3]> {
    let listed = std::fs::read_to_string("messages").ok()?;
    let numbers: Vec<i32> = listed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

fn connect(kind: i32, name: &std::ffi::CStr, is_abstract: bool) -> AttemptResult {
    let socket = sys!(libc::SYS_socket, libc::AF_UNIX, kind, 0);
    if socket < 0 {
        return call(socket);
    }
    let (address, length) = address(name, is_abstract);
    call_or(sys!(libc::SYS_connect, socket, address.as_ptr(), length), NO_LISTENER)
}

fn address(name: &std::ffi::CStr, is_abstract: bool) -> (Vec<u8>, usize) {
    let mut address = libc::AF_UNIX.to_ne_bytes()[..2].to_vec();
    if is_abstract {
        address.push(0);
        address.extend(name.to_bytes());
    } else {
        address.extend(name.to_bytes_with_nul());
    }
    let length = address.len();
    (address, length)
}
