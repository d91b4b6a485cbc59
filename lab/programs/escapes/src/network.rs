//! Attempts on the network, which was not granted: sockets of every family, including the kernel's.

use crate::attempt::{Attempt, AttemptResult, Targets, all, call, call_or, sys};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt { name: "a server on this machine", run: loopback },
    Attempt { name: "datagrams", run: |_| socket(libc::AF_INET, libc::SOCK_DGRAM, 0) },
    Attempt { name: "the newer internet", run: |_| socket(libc::AF_INET6, libc::SOCK_STREAM, 0) },
    Attempt {
        name: "packets of one's own",
        run: |_| {
            all([
                socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
                socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
                socket(libc::AF_PACKET, libc::SOCK_RAW, 0x0300),
            ])
        },
    },
    Attempt {
        name: "the kernel's side",
        run: |_| {
            // ROUTE, SOCK_DIAG, AUDIT, NETFILTER, KOBJECT_UEVENT, GENERIC
            all([0, 4, 9, 12, 15, 16].map(|protocol| socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)))
        },
    },
    Attempt { name: "the machine below", run: |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0) },
    Attempt {
        name: "other families",
        run: |_| {
            const UNIX: i32 = libc::AF_UNIX;
            const TRIED: [i32; 3] = [UNIX, libc::AF_INET, libc::AF_INET6];
            let families = (2..46).filter(|family| !TRIED.contains(family));
            // Families that the kernel does not support cannot be reached.
            let absent = [libc::EAFNOSUPPORT, libc::ESOCKTNOSUPPORT, libc::EPROTONOSUPPORT];
            all(families.flat_map(|family| {
                [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET]
                    .map(|kind| call_or(sys!(libc::SYS_socket, family, kind, 0), &absent))
            }))
        },
    },
];

fn socket(family: i32, kind: i32, protocol: i32) -> AttemptResult {
    call(sys!(libc::SYS_socket, family, kind, protocol))
}

fn loopback(targets: &Targets) -> AttemptResult {
    let socket = sys!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0);
    if socket < 0 {
        return call(socket);
    }
    let [high, low] = targets.port.to_be_bytes();
    let family = u16::try_from(libc::AF_INET).unwrap_or_default().to_ne_bytes();
    let address = [family[0], family[1], high, low, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    call_or(sys!(libc::SYS_connect, socket, address.as_ptr(), 16), &[libc::ECONNREFUSED, libc::ENETUNREACH])
}
